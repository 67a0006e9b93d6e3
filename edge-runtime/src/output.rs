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

/// Prints an answer as JSON. Reports on standard error that it can't be written, such as to a file
/// on a full disk.
pub(crate) fn print(answer: &impl Serialize) -> ExitCode {
    print_to(&mut io::stdout(), &mut io::stderr(), answer)
}

fn print_to(out: &mut dyn Write, errors: &mut dyn Write, answer: &impl Serialize) -> ExitCode {
    let written = serde_json::to_string(answer)
        .map_err(io::Error::other)
        .and_then(|json| write_line(out, &json));
    let Err(error) = written else {
        return ExitCode::SUCCESS;
    };
    // Nothing can be reported without standard error.
    write_line(errors, &format_args!("cannot write the answer: {error}")).ok();
    ExitCode::FAILURE
}

/// Prints why there is no answer, as a check of a model does.
pub(crate) fn refuse(why: &str) -> ExitCode {
    print_refusal(why);
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output that fails with one kind of error.
    struct Failing(io::ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn unwritten_answer_is_reported_unless_its_reader_is_gone() {
        let print = |kind| {
            let mut errors = Vec::new();
            let code = print_to(&mut Failing(kind), &mut errors, &"answer");
            (code, String::from_utf8_lossy(&errors).into_owned())
        };
        let (code, errors) = print(io::ErrorKind::StorageFull);
        assert_eq!(code, ExitCode::FAILURE);
        assert!(errors.contains("cannot write the answer"), "{errors}");
        let gone = print(io::ErrorKind::BrokenPipe);
        assert_eq!(gone, (ExitCode::SUCCESS, String::new()));
    }
}
