//! The name of a blueprint: a file name in one folder, and one word in a trace.

use std::fmt;

use serde::Serialize;

/// Longest name, in characters.
pub const MAX_NAME: usize = 32;

/// A text that is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a name of a blueprint; use 1 to {MAX_NAME} of a-z, 0-9 and '-', with a letter \
        first"
)]
pub struct InvalidBlueprintName(pub String);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct BlueprintName(String);

impl BlueprintName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`InvalidBlueprintName`], if it is empty, too long or has an invalid character.
    pub fn new(value: &str) -> Result<Self, InvalidBlueprintName> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let begins = value.starts_with(|c: char| c.is_ascii_lowercase());
        if begins && value.len() <= MAX_NAME && value.chars().all(fits) {
            Ok(Self(value.to_owned()))
        } else {
            Err(InvalidBlueprintName(value.chars().take(80).collect()))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlueprintName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for BlueprintName {
    type Err = InvalidBlueprintName;

    fn from_str(value: &str) -> Result<Self, InvalidBlueprintName> {
        Self::new(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_or_flag_is_no_name() {
        for good in ["set-up", "a", "night-2"] {
            assert!(BlueprintName::new(good).is_ok(), "{good}");
        }
        let long = "a".repeat(MAX_NAME + 1);
        for bad in ["", "-a", "../a", "a/b", "A", "a.md", "2a", long.as_str()] {
            assert!(BlueprintName::new(bad).is_err(), "{bad}");
        }
    }
}
