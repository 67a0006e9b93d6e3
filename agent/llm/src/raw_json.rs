//! JSON that keeps its exact text.
//!
//! - The text is valid JSON and never re-formatted. Providers sign what a model said and cache by
//!   its bytes. A number that came as `1.0` and went back as `1` would be another conversation.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON value with its exact text. Our own records hold it as a string, out of reach of any
/// serializer; on the wire ([`RawJson::as_raw`]) it is embedded unchanged.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Takes `text`.
    ///
    /// # Errors
    /// When it is not JSON.
    pub fn new(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    /// Serializes a value by serde_json.
    pub fn from_value(value: &serde_json::Value) -> Self {
        // Serializing a `Value` can't fail.
        Self(serde_json::value::to_raw_value(value).unwrap_or_default())
    }

    pub fn raw(value: &RawValue) -> Self {
        Self(value.to_owned())
    }

    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Returns the value for a serializer of the wire.
    pub fn as_raw(&self) -> &RawValue {
        &self.0
    }

    /// Parses it as `T`.
    ///
    /// # Errors
    /// When it has another shape.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.text())
    }

    pub fn is_object(&self) -> bool {
        self.text().trim_start().starts_with('{')
    }
}

/// Returns the text from the first `{` to the last `}`: a model without a guaranteed schema may
/// write something around the object.
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
    fn record_keeps_numbers_spaces_and_member_order() {
        let text = r#"{ "b":1.0, "a":[1e2,12345678901234567890123] }"#;
        let kept = RawJson::new(text.to_owned()).expect("json");
        let stored = serde_json::to_string(&kept).expect("store");
        let back: RawJson = serde_json::from_str(&stored).expect("restore");
        assert_eq!(back.text(), text);
        let sent = serde_json::to_string(&[back.as_raw()]).expect("send");
        assert_eq!(sent, format!("[{text}]"));
    }

    #[test]
    fn object_is_found_among_other_text() {
        assert_eq!(object_in("```json\n{\"a\": {}}\n```"), Some("{\"a\": {}}"));
        for none in ["", "yes", "{", "} {"] {
            assert_eq!(object_in(none), None, "{none}");
        }
    }

    #[test]
    fn invalid_json_is_rejected() {
        assert!(RawJson::new("{\"camera\": \"do".to_owned()).is_err());
    }
}
