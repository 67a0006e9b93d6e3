//! Formats an error with its causes as one line.

use std::error::Error;
use std::io::{self, ErrorKind};

/// Joins `error` and its causes by `: `, outermost first; skips a cause that the text contains.
pub fn one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let phrase = next.to_string();
        if !text.contains(&phrase) {
            text.push_str(": ");
            text.push_str(&phrase);
        }
        cause = next.source();
    }
    text
}

/// Names a common cause in words; of any other the system has the text.
pub fn io_cause(error: &io::Error) -> String {
    match error.kind() {
        kind @ (ErrorKind::ConnectionRefused
        | ErrorKind::ConnectionReset
        | ErrorKind::HostUnreachable
        | ErrorKind::NetworkUnreachable
        | ErrorKind::TimedOut)
            if error.raw_os_error().is_some() =>
        {
            kind.to_string()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_cause_has_the_text_of_the_system() {
        let cause = |code| io_cause(&io::Error::from_raw_os_error(code));
        let (refused, protocol) = (111, 71);
        assert_eq!(cause(refused), "connection refused");
        assert!(
            cause(protocol).contains("rotocol error"),
            "{}",
            cause(protocol)
        );
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        #[source]
        cause: Option<Box<Link>>,
    }

    #[test]
    fn every_cause_is_named_once() {
        let inner = Link {
            text: "no route",
            cause: None,
        };
        let middle = Link {
            text: "connect failed: no route",
            cause: Some(Box::new(inner)),
        };
        let outer = Link {
            text: "no answer",
            cause: Some(Box::new(middle)),
        };
        assert_eq!(one_line(&outer), "no answer: connect failed: no route");
    }
}
