//! What commands print: one line of JSON on standard output, or a refusal.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use watchkeeper_models::model_check::print_refusal;

/// Writes a line. A reader that has gone away (`| head`) is not an error.
pub(crate) fn write_line(out: &mut dyn Write, line: &dyn Display) -> io::Result<()> {
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Prints an answer as JSON.
pub(crate) fn print(answer: &impl Serialize) -> ExitCode {
    let written = serde_json::to_string(answer)
        .map_err(io::Error::other)
        .and_then(|json| write_line(&mut io::stdout(), &json));
    written.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

/// Prints why there is no answer, as a check of a model does.
pub(crate) fn refuse(why: &str) -> ExitCode {
    print_refusal(why);
    ExitCode::FAILURE
}
