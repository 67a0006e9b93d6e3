//! Where two JSON values differ.
//!
//! Members of objects are compared by name. So are the items of a list that all have their own
//! name, such as the steps of a workflow.

use std::collections::BTreeSet;

use serde_json::Value;

/// A place where two values differ. An absent value is `None`; it equals `null`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    /// Names of the members down to the place. Of named items in another order the last is `order`,
    /// and the values are lists of names.
    pub(crate) path: Vec<String>,
    pub(crate) from: Option<Value>,
    pub(crate) to: Option<Value>,
}

/// Finds every difference, in the order of `from` and then of `to`.
pub(crate) fn differences(from: &Value, to: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    collect(&[], Some(from), Some(to), &mut found);
    found
}

fn collect<'v>(
    path: &[String],
    from: Option<&'v Value>,
    to: Option<&'v Value>,
    found: &mut Vec<Difference>,
) {
    if from.unwrap_or(&Value::Null) == to.unwrap_or(&Value::Null) {
        return;
    }
    let below = |name: &str| [path, &[name.to_owned()]].concat();
    let both = from.zip(to).filter(|(a, b)| a.is_object() == b.is_object());
    let Some((old, new)) = both.and_then(|(a, b)| Some((members(a)?, members(b)?))) else {
        found.push(Difference {
            path: path.to_vec(),
            from: from.cloned(),
            to: to.cloned(),
        });
        return;
    };
    let find = |all: &[(&str, &'v Value)], wanted: &str| {
        let found = all.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| *value)
    };
    let added = new.iter().filter(|(name, _)| find(&old, name).is_none());
    for (name, _) in old.iter().chain(added) {
        collect(&below(name), find(&old, name), find(&new, name), found);
    }
    let order = |all: &[(&str, &'v Value)], other: &[(&str, &'v Value)]| -> Value {
        let names = all.iter().map(|(name, _)| *name);
        names.filter(|name| find(other, name).is_some()).collect()
    };
    let (from_order, to_order) = (order(&old, &new), order(&new, &old));
    if from.is_some_and(Value::is_array) && from_order != to_order {
        found.push(Difference {
            path: below("order"),
            from: Some(from_order),
            to: Some(to_order),
        });
    }
}

/// The members of an object, or of a list of items with their own name each.
fn members(value: &Value) -> Option<Vec<(&str, &Value)>> {
    match value {
        Value::Object(fields) => Some(fields.iter().map(|(name, v)| (name.as_str(), v)).collect()),
        Value::Array(items) => {
            let named = items
                .iter()
                .map(|item| Some((item["name"].as_str()?, item)));
            let named: Vec<_> = named.collect::<Option<_>>()?;
            let names: BTreeSet<&str> = named.iter().map(|(name, _)| *name).collect();
            (names.len() == named.len()).then_some(named)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn named_items_are_compared_by_name_and_order() {
        let from = json!({"steps": [{"name": "a", "x": 1}, {"name": "b"}], "seen": [1]});
        let to = json!({"steps": [{"name": "b"}, {"name": "a", "x": 2}, {"name": "c"}], "seen": [2],
            "off": null});
        let found = differences(&from, &to);
        let found: Vec<String> = found
            .iter()
            .map(|d| {
                let shown = |value: &Option<Value>| value.clone().unwrap_or_default();
                format!("{} {} {}", d.path.join("."), shown(&d.from), shown(&d.to))
            })
            .collect();
        assert_eq!(
            found,
            [
                "seen [1] [2]",
                "steps.a.x 1 2",
                r#"steps.c null {"name":"c"}"#,
                r#"steps.order ["a","b"] ["b","a"]"#,
            ]
        );
        assert_eq!(differences(&from, &from), []);
    }
}
