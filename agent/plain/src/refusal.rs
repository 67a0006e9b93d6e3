//! Why a request is not proposed, and remarks on one that is.
//!
//! - A [`Refusal`] becomes a [`Question`](crate::answer::Question) with its known answers, or quotes
//!   the words that were not read.
//! - [`Notes`] are shown with what was understood; they only grow.
//! - Nothing here reads a request.

use crate::answer::Missing;

/// Why a request is not proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The part that must be known first.
    pub(crate) about: Missing,
    pub(crate) text: String,
    pub(crate) choices: Vec<String>,
    /// Words that were not understood and change what is meant; with any, there is no request to
    /// ask about.
    pub(crate) not_read: Vec<String>,
}

impl Refusal {
    pub(crate) fn new(about: Missing, text: impl Into<String>) -> Self {
        Self {
            about,
            text: text.into(),
            choices: Vec::new(),
            not_read: Vec::new(),
        }
    }

    /// For a request that cannot be carried out as it was said.
    pub(crate) fn meaning(text: impl Into<String>) -> Self {
        Self::new(Missing::Meaning, text)
    }

    /// Refuses for the first of these reasons that holds.
    pub(crate) fn first(reasons: &[(bool, &str)]) -> Result<(), Self> {
        match reasons.iter().find(|(holds, _)| *holds) {
            Some((_, why)) => Err(Self::meaning(*why)),
            None => Ok(()),
        }
    }

    /// For a request that can't be understood in part: what was not read would make it another one.
    pub(crate) fn not_read(text: impl Into<String>, words: Vec<String>) -> Self {
        Self {
            not_read: words,
            ..Self::meaning(text)
        }
    }

    pub(crate) fn with(mut self, choices: Vec<String>) -> Self {
        self.choices = choices;
        self
    }
}

/// Remarks in addition to what was understood.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Notes {
    pub(crate) assumed: Vec<String>,
    pub(crate) not_possible: Vec<String>,
}

impl Notes {
    /// Adds a sentence about what was not said and is taken so.
    pub(crate) fn assume(&mut self, sentence: impl Into<String>) {
        self.assumed.push(sentence.into());
    }

    pub(crate) fn extend(&mut self, more: Self) {
        self.assumed.extend(more.assumed);
        self.not_possible.extend(more.not_possible);
    }
}
