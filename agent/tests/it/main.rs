//! The agent against real neighbours: a scripted runtime on a real Unix socket and mosquitto as the broker.

mod cli;
mod commands;
mod delivery;
mod embedded;
mod execute;
mod heartbeat;
mod opinions;
mod runtime_client;
mod support;
