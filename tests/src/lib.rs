//! The testbed: real servers that misbehave on command, and the daemons under test as child
//! processes.

pub mod agent_api;
pub mod attack;
pub mod broker;
pub mod certificates;
pub mod daemons;
pub mod file_server;
pub mod fuzz;
pub mod halves;
pub mod hooks;
pub mod http;
pub mod ledger;
mod listener;
pub mod mot;
pub mod mounts;
mod namespace;
pub mod netns;
pub mod nl;
pub mod nvmm;
pub mod onnx;
pub mod person;
pub mod price;
pub mod rows;
pub mod rtsp;
pub mod scene;
pub mod scripted_model;
pub mod silent_clients;
pub mod site;
pub mod smtp;
pub mod tflite;
pub mod trt;
pub mod watch;
pub mod wiretap;

use std::process::ExitCode;

/// Ends a program with this code, or prints its error in one line, without a backtrace, and ends
/// with `failed`.
#[expect(clippy::print_stderr, reason = "the output of a program")]
pub fn exit(ended: anyhow::Result<u8>, failed: u8) -> ExitCode {
    ExitCode::from(ended.unwrap_or_else(|error| {
        eprintln!("{error:#}");
        failed
    }))
}
