//! What a conversation expects next.
//!
//! A question is repeated once: the second text that is not an answer ends it.

use watchkeeper_plain::Question;
use watchkeeper_plain::answer::Unknown;

use super::shown::ShownProposal;

/// The kind of text that a session expects next.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Awaiting {
    #[default]
    Nothing,
    Answer {
        question: Question,
        /// Whether the text before was not an answer.
        is_repeated: bool,
    },
    Confirmation(Box<ShownProposal>),
}

impl Awaiting {
    /// An answer to a question that was asked for the first time.
    pub(super) fn question(question: &Question) -> Self {
        Self::Answer {
            question: question.clone(),
            is_repeated: false,
        }
    }

    /// Next state, and reply, after a `text` that is not an answer to a question.
    pub(super) fn refuse(question: Question, is_repeated: bool, text: &str) -> (Self, Unknown) {
        let next = match is_repeated {
            true => "The question is dropped; say the whole request again.",
            false => &question.text,
        };
        let unknown = Unknown {
            text: format!("{text:?} is not an answer. {next}"),
            not_understood: vec![text.to_owned()],
            unseen: Vec::new(),
        };
        let next = match is_repeated {
            true => Self::Nothing,
            false => Self::Answer {
                question,
                is_repeated: true,
            },
        };
        (next, unknown)
    }
}
