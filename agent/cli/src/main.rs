//! The command `watchkeeper`.

use std::process::ExitCode;

fn main() -> ExitCode {
    watchkeeper_cli::main()
}
