//! The LLM client against a scripted model on a real socket, and its wire formats against golden
//! files.

mod budget;
mod decoders;
mod exchange;
mod faults;
mod golden;
mod program;
mod secrets;
mod support;
mod talk;
mod wires;
