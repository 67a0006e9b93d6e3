//! Identifiers, parsed once at the edge.
//!
//! A value of any type here has passed its own check, also when it came through serde.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Longest name accepted for a source, pipeline, site or box.
pub const MAX_NAME_LEN: usize = 40;

/// A name that is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} {value:?} is not a valid name; use 1 to 40 of a-z, 0-9, '-' and '_', beginning with a letter or digit"
)]
pub struct InvalidName {
    /// Kind of the name, such as `source`.
    pub what: &'static str,
    /// The rejected text.
    pub value: String,
}

fn check_name(what: &'static str, value: &str) -> Result<(), InvalidName> {
    let mut chars = value.chars();
    let head_ok = chars
        .next()
        .is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let tail_ok =
        chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_');
    if head_ok && tail_ok && value.len() <= MAX_NAME_LEN {
        Ok(())
    } else {
        Err(InvalidName {
            what,
            value: value.chars().take(80).collect(),
        })
    }
}

/// Conversions between text and a type whose `new` checks it and fails with `$error`.
macro_rules! conversions {
    ($name:ident, $error:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = $error;
            fn from_str(s: &str) -> Result<Self, $error> {
                Self::new(s)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $error;
            fn try_from(s: String) -> Result<Self, $error> {
                Self::new(s)
            }
        }

        impl From<$name> for String {
            fn from(n: $name) -> Self {
                String::from(&*n.0)
            }
        }
    };
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[derive(ToSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schema(value_type = String, example = $what)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `value` and wraps it.
            ///
            /// # Errors
            /// [`InvalidName`] when `value` is empty, too long or holds another character.
            pub fn new(value: impl Into<String>) -> Result<Self, InvalidName> {
                let value = value.into();
                check_name($what, &value)?;
                Ok(Self(value.into()))
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        conversions!($name, InvalidName);
    };
}

/// Declares a number that is written as text and as JSON alike.
macro_rules! number_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[derive(serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = std::num::ParseIntError;
            fn from_str(s: &str) -> Result<Self, Self::Err> {
                s.parse().map(Self)
            }
        }
    };
}
pub(crate) use number_type;

name_type!(
    /// Name of a source (a camera, a file, the demo scene) on this box.
    SourceId,
    "source"
);
name_type!(
    /// Name of a pipeline: a workflow deployed on a source.
    PipelineId,
    "pipeline"
);
name_type!(
    /// Name of the site a box stands at; a level of every MQTT topic.
    SiteId,
    "site"
);
name_type!(
    /// Name of a box; a level of every MQTT topic.
    BoxId,
    "box"
);
name_type!(
    /// Name of a channel where people are notified, such as a Slack channel.
    ChannelId,
    "channel"
);

/// Most characters of a [`DisplayName`].
pub const MAX_DISPLAY_NAME: usize = 60;

/// A text that can't be a display name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "name {0:?} is not allowed; use 1 to 60 characters on one line, with a letter or digit among them and no blank at either end"
)]
pub struct InvalidDisplayName(pub String);

/// Name that users gave to a camera or a pipeline, such as `Loading dock`.
///
/// One line of any characters, compared without case, for requests and notifications; two things
/// may have the same one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, example = "Loading dock")]
pub struct DisplayName(String);

impl DisplayName {
    /// Checks `value` and wraps it.
    ///
    /// # Errors
    /// [`InvalidDisplayName`] when `value` is empty, too long, of more than one line, or has no
    /// letter or digit.
    pub fn new(value: impl Into<String>) -> Result<Self, InvalidDisplayName> {
        let value = value.into();
        let is_long = value.chars().count() > MAX_DISPLAY_NAME;
        let is_bare = value.trim() != value || !value.chars().any(char::is_alphanumeric);
        if is_long || is_bare || value.chars().any(char::is_control) {
            return Err(InvalidDisplayName(value.chars().take(80).collect()));
        }
        Ok(Self(value))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

conversions!(DisplayName, InvalidDisplayName);

/// Id of one event in all its records (`new`, `update`, `end`), unique across boots and boxes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(transparent)]
#[schema(value_type = String, example = "01JABCDEFGHJKMNPQRSTVWXYZ0")]
pub struct EventId(pub ulid::Ulid);

impl EventId {
    /// Makes a new id: the current time and 80 random bits.
    pub fn generate() -> Self {
        Self(ulid::Ulid::new())
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for EventId {
    type Err = ulid::DecodeError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse().map(Self)
    }
}

number_type!(
    /// Position of a record in the journal: it rises by exactly one, over restarts too.
    ///
    /// Subscribers use it as their cursor: a gap proves a loss.
    EventSeq
);

/// Id that a tracker gives to one object over time; unique within one run of a pipeline.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(transparent)]
pub struct TrackId(pub i64);

impl fmt::Display for TrackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_lower_case_letters_digits_and_dashes_is_accepted() {
        assert_eq!(SourceId::new("cam-1_a").expect("valid").as_str(), "cam-1_a");
    }

    #[test]
    fn name_that_could_leave_topic_or_folder_is_refused() {
        for bad in [
            "",
            "Cam",
            "a/b",
            "..",
            "-a",
            "a b",
            "ä",
            "+",
            "#",
            &"x".repeat(41),
        ] {
            assert!(PipelineId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn serde_applies_the_same_check() {
        assert!(serde_json::from_str::<SourceId>("\"a/b\"").is_err());
        assert!(serde_json::from_str::<SourceId>("\"gate\"").is_ok());
    }

    #[test]
    fn display_name_is_one_line_with_a_letter_or_digit() {
        for good in [
            "Loading dock",
            "Tor",
            "Büro 3",
            "入口",
            "a",
            &"x".repeat(60),
        ] {
            assert_eq!(DisplayName::new(good).expect("valid").as_str(), good);
        }
        for bad in [
            "",
            " ",
            "--",
            " Dock",
            "Dock ",
            "a\nb",
            "a\u{7}b",
            &"x".repeat(61),
        ] {
            assert!(DisplayName::new(bad).is_err(), "{bad:?}");
            assert!(serde_json::from_value::<DisplayName>(bad.into()).is_err());
        }
    }
}
