//! Formats an error with its causes as one line.

use std::error::Error;

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

#[cfg(test)]
mod tests {
    use super::*;

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
