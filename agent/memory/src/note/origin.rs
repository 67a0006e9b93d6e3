//! Whose words a note holds, and where such words may stand.
//!
//! Invariant: the table in [`Origin::may_be`] is asked when a note is written *and* when one is read, so a mark that was put into a file by
//! other ways has no more weight.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::Kind;

/// Whose words these are. Words of a model in whose conversation a picture or other foreign text stood are the picture's: what made it
/// say them is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person's, said over a channel of theirs or typed into the file.
    Person,
    /// The agent's own: fixed sentences with numbers and checked names.
    Agent,
    /// A language model's, that had seen nothing foreign.
    Model,
    /// Read in a picture, or said by a model that saw one.
    Camera,
    /// Answered by a tool or server outside the box.
    Tool,
    /// Nobody says: quoted, and not marked.
    Unknown,
}

/// All of them, in the order of trust.
const ALL: [Origin; 6] = [
    Origin::Person,
    Origin::Agent,
    Origin::Model,
    Origin::Camera,
    Origin::Tool,
    Origin::Unknown,
];

/// Words that may not be what they are to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("words of origin `{origin}` can't be kept as {}; {}", kind.name(), remedy(*kind))]
pub struct NotAllowed {
    /// Whose words.
    pub origin: Origin,
    /// What they were to be.
    pub kind: Kind,
}

const fn remedy(kind: Kind) -> &'static str {
    match kind {
        Kind::Preference => "a preference is what a person said, so ask one",
        _ => "keep them as an observation, or let a person say them",
    }
}

impl Origin {
    /// The mark in a file.
    #[must_use]
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

    /// Whether these words may be taken for more than a quotation.
    #[must_use]
    pub const fn trusted(self) -> bool {
        matches!(self, Self::Person | Self::Agent)
    }

    /// Whether such words may be a note of `kind`: preferences are a person's; what came from outside is only ever observed.
    ///
    /// # Errors
    /// [`NotAllowed`], with what to do.
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
    fn only_a_person_has_preferences() {
        for origin in ALL {
            let may = origin.may_be(Kind::Preference).is_ok();
            assert_eq!(may, origin == Origin::Person, "{origin}");
        }
    }

    #[test]
    fn what_comes_from_outside_is_only_observed() {
        for origin in [Origin::Camera, Origin::Tool, Origin::Unknown] {
            assert!(!origin.trusted());
            assert!(origin.may_be(Kind::Observation).is_ok());
            let refused = origin.may_be(Kind::Knowledge).expect_err("refused");
            assert!(refused.to_string().contains("keep them as an observation"));
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
