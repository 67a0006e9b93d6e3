//! Origin of a note's words, and the kinds of notes that it may have.
//!
//! Invariant: [`Origin::may_be`] is checked when a note is written *and* when it is read. So a mark
//! that another program put into a file has no effect.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::kind::Kind;

/// Origin of a note's words.
///
/// An LLM's words after it saw a picture or other foreign text have the origin of that text: it may
/// have dictated them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Written by a user, in a request or in the file.
    Person,
    /// Fixed sentences of the agent with numbers and checked names.
    Agent,
    /// Words of an LLM that saw no foreign text; names and numbers of its tool calls.
    Model,
    /// Text in a picture, or words of an LLM that saw one.
    Camera,
    /// Answer of a tool or server outside the box.
    Tool,
    /// Quoted without a mark.
    Unknown,
}

/// Every origin, by falling trust.
const ALL: [Origin; 6] = [
    Origin::Person,
    Origin::Agent,
    Origin::Model,
    Origin::Camera,
    Origin::Tool,
    Origin::Unknown,
];

/// A kind of note that this origin may not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("words of origin `{origin}` can't be saved as {}; {}", kind.name(), remedy(*kind))]
pub struct NotAllowed {
    pub origin: Origin,
    pub kind: Kind,
}

const fn remedy(kind: Kind) -> &'static str {
    match kind {
        Kind::Preference => "a preference needs a user's own words, so ask the user",
        _ => "save them as an observation, or ask a user to write them",
    }
}

impl Origin {
    /// Mark of the origin in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Agent => "agent",
            Self::Model => "model",
            Self::Camera => "camera",
            Self::Tool => "tool",
            Self::Unknown => "unknown",
        }
    }

    /// Returns whether the words are more than a quotation.
    pub const fn trusted(self) -> bool {
        matches!(self, Self::Person | Self::Agent)
    }

    /// Checks that these words may be a note of `kind`: preferences only by users, foreign words
    /// only as observations.
    ///
    /// # Errors
    /// [`NotAllowed`] with a remedy.
    pub const fn may_be(self, kind: Kind) -> Result<(), NotAllowed> {
        let allowed = match kind {
            Kind::Observation => true,
            Kind::Knowledge | Kind::Lesson => {
                matches!(self, Self::Person | Self::Agent | Self::Model)
            }
            Kind::Preference => matches!(self, Self::Person),
        };
        if allowed {
            Ok(())
        } else {
            Err(NotAllowed { origin: self, kind })
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Origin {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        ALL.into_iter()
            .find(|origin| origin.name() == name)
            .ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_users_have_preferences() {
        for origin in ALL {
            let may = origin.may_be(Kind::Preference).is_ok();
            assert_eq!(may, origin == Origin::Person, "{origin}");
        }
    }

    #[test]
    fn foreign_words_are_only_observations() {
        for origin in [Origin::Camera, Origin::Tool, Origin::Unknown] {
            assert!(!origin.trusted());
            assert!(origin.may_be(Kind::Observation).is_ok());
            let refused = origin.may_be(Kind::Knowledge).expect_err("refused");
            assert!(refused.to_string().contains("save them as an observation"));
            assert!(origin.may_be(Kind::Lesson).is_err());
        }
    }

    #[test]
    fn every_mark_is_read_back() {
        for origin in ALL {
            assert_eq!(origin.name().parse(), Ok(origin));
        }
    }
}
