//! The program `watchkeeper`: the command, and the agent when it is called by the agent's name.
//!
//! Both share most of their code, which is compiled, linked and installed once.

use std::path::Path;
use std::process::ExitCode;

use watchkeeper_agent::program;

fn main() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    if Path::new(&called).file_name() == Some(program::NAME.as_ref()) {
        return program::main();
    }
    watchkeeper_cli::main()
}
