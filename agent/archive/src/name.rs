//! Names of entries: `collection/name`.
//!
//! - Both parts are ASCII letters, digits, `.`, `_` and `-`, and begin with a letter or digit. So
//!   no name is a path, a hidden file or a second name in another spelling.
//! - A collection has at most 64 characters, a name at most 128.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Longest name of a collection, in characters.
pub const MAX_COLLECTION: usize = 64;
/// Longest name within a collection, in characters.
pub const MAX_NAME: usize = 128;
/// Characters of a refused name that an error repeats.
const MAX_SHOWN: usize = 80;

/// A name that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{part} {shown:?} is not accepted: {why}; use 1 to {max} letters, digits, \".\", \"_\" and \
     \"-\", a letter or digit first"
)]
pub struct InvalidName {
    /// `collection` or `name`; `entry` where the slash is missing.
    pub part: &'static str,
    /// The value, cut.
    pub shown: String,
    why: &'static str,
    max: usize,
}

fn check(part: &'static str, value: &str, max: usize) -> Result<(), InvalidName> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let why = if value.is_empty() {
        "it is empty"
    } else if value.len() > max {
        "it is too long"
    } else if !value.chars().all(is_plain) {
        "it has other characters"
    } else if !value.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        "its first character is a mark"
    } else {
        return Ok(());
    };
    Err(InvalidName {
        part,
        shown: value.chars().take(MAX_SHOWN).collect(),
        why,
        max,
    })
}

/// Checks the name of a collection.
///
/// # Errors
/// If it is not accepted.
pub fn check_collection(value: &str) -> Result<(), InvalidName> {
    check("collection", value, MAX_COLLECTION)
}

/// The name of an entry; clones share its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EntryName(Arc<str>);

impl EntryName {
    /// Makes a name of its two parts.
    ///
    /// # Errors
    /// If a part is not accepted.
    pub fn new(collection: &str, name: &str) -> Result<Self, InvalidName> {
        check_collection(collection)?;
        check("name", name, MAX_NAME)?;
        Ok(Self(format!("{collection}/{name}").into()))
    }

    /// A text before every name in the order of names; it is not a valid name.
    pub(crate) fn before_all() -> Self {
        Self("".into())
    }

    /// A text after every name; it is not a valid name.
    pub(crate) fn behind_all() -> Self {
        Self("~".into())
    }

    pub fn collection(&self) -> &str {
        self.0.split_once('/').map_or("", |(first, _)| first)
    }

    /// Returns the name within the collection.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, second)| second)
    }

    /// Returns both parts, `collection/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for EntryName {
    type Err = InvalidName;
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let (collection, name) = text.split_once('/').ok_or_else(|| InvalidName {
            part: "entry",
            shown: text.chars().take(MAX_SHOWN).collect(),
            why: "it must be COLLECTION/NAME",
            max: MAX_NAME,
        })?;
        Self::new(collection, name)
    }
}

impl TryFrom<String> for EntryName {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<EntryName> for String {
    fn from(name: EntryName) -> Self {
        name.as_str().to_owned()
    }
}

/// Makes a name of the path of a file, by which the file gets the same name every time.
///
/// A path of one accepted part keeps its spelling. Of any other, each run of other characters
/// becomes `-`, and `suffix`, a short hash of the path, keeps two paths apart.
pub fn name_of_path(path: &str, suffix: &str) -> String {
    if check("name", path, MAX_NAME).is_ok() {
        return path.to_owned();
    }
    let (stem, extension) = match path.rsplit_once('.') {
        Some((stem, extension)) if check("name", extension, 8).is_ok() => (stem, extension),
        _ => (path, ""),
    };
    let mut plain = String::new();
    for c in stem.chars() {
        match c.is_ascii_alphanumeric() || matches!(c, '.' | '_') {
            true => plain.push(c),
            false if plain.ends_with('-') => {}
            false => plain.push('-'),
        }
    }
    let plain = plain.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    // Its end says more than its beginning.
    let from = plain.len().saturating_sub(MAX_NAME / 2);
    let plain = plain[from..].trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let parts = [plain, suffix].into_iter().filter(|part| !part.is_empty());
    let name = parts.collect::<Vec<_>>().join("-");
    match extension {
        "" => name,
        extension => format!("{name}.{extension}"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hostile_names_are_refused() {
        let long = format!("a/{}", "n".repeat(MAX_NAME + 1));
        let long_collection = format!("{}/n", "c".repeat(MAX_COLLECTION + 1));
        for bad in [
            "",
            "a",
            "/",
            "a/",
            "/b",
            "../b",
            "a/..",
            "a/../b",
            "a/.b",
            "a/b/c",
            "a/b\0",
            "a\0/b",
            "a/b c",
            "a/\u{202e}b",
            "a/b\u{301}",
            "ä/b",
            "a/-b",
            "a/b\n",
            "a\\b",
            "a/%2e%2e",
            "~/b",
            &long,
            &long_collection,
        ] {
            assert!(bad.parse::<EntryName>().is_err(), "{bad:?}");
        }
        for good in ["a/b", "events/01J-clean.jpg", "A.b/0", "a/b..c"] {
            let name: EntryName = good.parse().unwrap();
            assert_eq!(format!("{}/{}", name.collection(), name.name()), good);
        }
    }

    #[test]
    fn refusal_says_what_is_accepted() {
        let refused = "a/b c".parse::<EntryName>().unwrap_err();
        let shown = refused.to_string();
        assert!(
            shown.contains("\"b c\"") && shown.contains("letters"),
            "{shown}"
        );
        let shown = "nix".parse::<EntryName>().unwrap_err().to_string();
        assert!(
            shown.contains("\"nix\"") && shown.contains("COLLECTION/NAME"),
            "{shown}"
        );
    }

    #[test]
    fn path_keeps_its_extension() {
        assert_eq!(name_of_path("cat.jpg", "12345678"), "cat.jpg");
        assert_eq!(
            name_of_path("a b/cät.jpg", "12345678"),
            "a-b-c-t-12345678.jpg"
        );
        assert_eq!(name_of_path("..", "12345678"), "12345678");
    }

    proptest! {
        #[test]
        fn every_path_gets_an_accepted_name(path in any::<String>()) {
            let name = name_of_path(&path, "0a1b2c3d");
            prop_assert!(EntryName::new("c", &name).is_ok(), "{path:?} → {name:?}");
        }
    }
}
