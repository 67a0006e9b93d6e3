//! The testbed: real servers that can be told to misbehave, and the daemons under test as child processes.

pub mod broker;
pub mod certificates;
pub mod daemons;
pub mod file_server;
pub mod fuzz;
pub mod hooks;
pub mod http;
mod listener;
pub mod mot;
pub mod mounts;
pub mod person;
pub mod rtsp;
pub mod scene;
pub mod scripted_model;
pub mod smtp;
pub mod watch;
