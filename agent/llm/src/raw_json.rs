//! JSON that is kept as it was written.
//!
//! Invariant: the text is valid JSON and never re-formatted. Providers sign what a model said and cache by its bytes; a
//! number that came as `1.0` and went back as `1` would be another conversation.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON value with its exact text. In our own records it stands as a string, so that no serialiser can touch it; on the wire
/// ([`RawJson::as_raw`]) it stands as it is.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Checks and keeps `text`.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn new(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    /// Keeps a value in serde_json's own form.
    #[must_use]
    pub fn of(value: &serde_json::Value) -> Self {
        // A `Value` prints as JSON without fail.
        Self(serde_json::value::to_raw_value(value).unwrap_or_default())
    }

    /// Keeps what was parsed raw.
    #[must_use]
    pub fn raw(value: &RawValue) -> Self {
        Self(value.to_owned())
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// For a serialiser of the wire.
    #[must_use]
    pub fn as_raw(&self) -> &RawValue {
        &self.0
    }

    /// Reads it as `T`.
    ///
    /// # Errors
    /// When it is another shape.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.text())
    }

    /// Whether it is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.text().trim_start().starts_with('{')
    }
}

/// What may be the JSON object in an answer: a model that can't be held to a schema may write something around it.
#[must_use]
pub fn object_in(answer: &str) -> Option<&str> {
    answer.get(answer.find('{')?..=answer.rfind('}')?)
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for RawJson {}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_spaces_and_the_order_of_members_stay_through_our_own_records() {
        let text = r#"{ "b":1.0, "a":[1e2,12345678901234567890123] }"#;
        let kept = RawJson::new(text.to_owned()).expect("json");
        let stored = serde_json::to_string(&kept).expect("store");
        let back: RawJson = serde_json::from_str(&stored).expect("restore");
        assert_eq!(back.text(), text);
        let sent = serde_json::to_string(&[back.as_raw()]).expect("send");
        assert_eq!(sent, format!("[{text}]"));
    }

    #[test]
    fn an_object_is_found_among_other_words_and_none_where_there_is_none() {
        assert_eq!(object_in("```json\n{\"a\": {}}\n```"), Some("{\"a\": {}}"));
        for none in ["", "yes", "{", "} {"] {
            assert_eq!(object_in(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        assert!(RawJson::new("{\"camera\": \"do".to_owned()).is_err());
    }
}
