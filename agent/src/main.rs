//! The program `watchkeeper-agent`; see [`watchkeeper_agent::program`].

use std::process::ExitCode;

fn main() -> ExitCode {
    watchkeeper_agent::program::main()
}
