//! Canonical JSON: one text for one value, for hashes and signatures.
//!
//! Keys are sorted by their bytes, and there is no white space. Numbers are written as `serde_json`
//! writes them.

use serde_json::Value;

/// JSON with sorted keys and no white space.
pub fn canonical(value: &Value) -> String {
    let mut out = String::with_capacity(1024);
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            // Sorted here, because the map of serde_json depends on a feature of the whole build.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| key.as_bytes());
            for (n, (key, value)) in entries.into_iter().enumerate() {
                out.push(if n == 0 { '{' } else { ',' });
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write(value, out);
            }
            out.push_str(if map.is_empty() { "{}" } else { "}" });
        }
        Value::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn canonical_json_sorts_keys_and_has_no_white_space() {
        let value = json!({"b": [1, {"z": null, "a": "x\"y"}], "a": 0.1, "c": {}, "d": []});
        assert_eq!(
            canonical(&value),
            r#"{"a":0.1,"b":[1,{"a":"x\"y","z":null}],"c":{},"d":[]}"#
        );
    }
}
