//! Names in the query language's grammar, for descriptions of it.
//!
//! - Read from the types that parse them, so every listed name parses.

use serde::de::value::Error;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;

use super::grammar::{Binary, DetectionProperty, Unary};

/// Names that statements and operations on detections take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationNames {
    pub comparators: &'static [&'static str],
    pub operators: &'static [&'static str],
    pub detection_properties: &'static [&'static str],
}

pub fn operation_names() -> OperationNames {
    OperationNames {
        comparators: variants::<Binary>(),
        operators: variants::<Unary>(),
        detection_properties: variants::<DetectionProperty>(),
    }
}

/// Returns the names of an enum's variants, aliases included.
fn variants<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // The attempt always fails: only its argument is wanted.
    drop(T::deserialize(VariantNames(&mut names)));
    names
}

/// Stores the variant names that an enum announces, and deserializes nothing.
struct VariantNames<'n>(&'n mut &'static [&'static str]);

impl<'de> Deserializer<'de> for VariantNames<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("not an enum"))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = variants;
        Err(Error::custom("only its names are wanted"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_listed_name_parses() {
        let names = operation_names();
        assert!(names.comparators.contains(&"in (Sequence)"));
        assert!(names.operators.contains(&"Exists"));
        assert!(names.detection_properties.contains(&"smoothed_speed"));
        for name in names.comparators {
            assert!(
                serde_json::from_value::<Binary>(json!(name)).is_ok(),
                "{name}"
            );
        }
        for name in names.operators {
            assert!(
                serde_json::from_value::<Unary>(json!(name)).is_ok(),
                "{name}"
            );
        }
        for name in names.detection_properties {
            let property = serde_json::from_value::<DetectionProperty>(json!(name));
            assert!(property.is_ok(), "{name}");
        }
    }
}
