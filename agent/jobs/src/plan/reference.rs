//! References in parameters: `${step.key}`, `${inputs.key}` and `job://id/step/key`.
//!
//! - A text that is one whole reference takes the value of any kind; inside a text, only texts and
//!   numbers are allowed.
//! - A parameter is a text with references, or has none: a list is written out or referenced whole.
//! - A `${` or `job://` that is not a reference is [`Text::Malformed`], never a plain text.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Begin of an address of another job's result.
const SCHEME: &str = "job://";

/// Name before the dot that stands for the plan's inputs.
pub(crate) const INPUTS: &str = "inputs";

/// The use of a result or an input: `${owner.key}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// A step, or [`INPUTS`].
    pub(crate) owner: String,
    pub(crate) key: String,
}

/// `job://id/step/key`: a result of an earlier job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) job: String,
    pub(crate) step: String,
    pub(crate) key: String,
}

/// How a text of a parameter gets its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Text {
    Plain,
    /// The whole text is one reference and takes its value.
    Reference(Reference),
    /// Texts and numbers of references are inserted.
    Mixed(Vec<Reference>),
    Address(Address),
    /// A `${` or `job://` that is not a reference.
    Malformed,
}

#[expect(clippy::unwrap_used, reason = "a constant, tested below")]
static REFERENCE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{([a-z][a-z0-9_-]*)\.([a-z][a-z0-9_]*)\}").unwrap());

pub(crate) fn parse(text: &str) -> Text {
    if let Some(rest) = text.strip_prefix(SCHEME) {
        let mut parts = rest.split('/').map(str::to_owned);
        let all = (parts.next(), parts.next(), parts.next(), parts.next());
        return match all {
            (Some(job), Some(step), Some(key), None) => Text::Address(Address { job, step, key }),
            _ => Text::Malformed,
        };
    }
    let mut found = Vec::new();
    let mut rest = String::new();
    let mut last = 0;
    for captures in REFERENCE.captures_iter(text) {
        let (whole, [owner, key]) = captures.extract();
        found.push(Reference {
            owner: owner.to_owned(),
            key: key.to_owned(),
        });
        let end = captures.get(0).map_or(last, |m| m.end());
        rest.push_str(text.get(last..end - whole.len()).unwrap_or_default());
        last = end;
    }
    rest.push_str(text.get(last..).unwrap_or_default());
    if rest.contains("${") {
        return Text::Malformed;
    }
    match found.len() {
        0 => Text::Plain,
        1 if rest.is_empty() => found.pop().map_or(Text::Plain, Text::Reference),
        _ => Text::Mixed(found),
    }
}

/// Calls `visit` with every reference to a step or input in a parameter.
pub(crate) fn each(value: &Value, visit: &mut impl FnMut(&Reference)) {
    match value.as_str().map(parse) {
        Some(Text::Reference(reference)) => visit(&reference),
        Some(Text::Mixed(all)) => all.iter().for_each(visit),
        Some(Text::Plain | Text::Address(_) | Text::Malformed) | None => {}
    }
}

/// Returns the first text of a list that is not plain.
pub(super) fn in_list(value: &Value) -> Option<&Value> {
    let is_plain = |item: &Value| item.as_str().is_none_or(|text| parse(text) == Text::Plain);
    value.as_array()?.iter().find(|item| !is_plain(item))
}

/// Replaces the owner of references: `from` becomes `to`. Returns whether one was found.
pub(crate) fn rename(value: &mut Value, from: &Reference, to: &Reference) -> bool {
    let Value::String(text) = value else {
        return false;
    };
    let show = |r: &Reference| format!("${{{}.{}}}", r.owner, r.key);
    let replaced = text.replace(&show(from), &show(to));
    let is_changed = replaced != *text;
    *text = replaced;
    is_changed
}

/// Replaces the references of a parameter by what `find` and `open` return.
///
/// # Errors
/// Those of `find` and `open`, or if a list is inserted into a text.
pub(crate) fn resolve<E: From<String>>(
    value: &Value,
    find: &dyn Fn(&Reference) -> Result<Value, E>,
    open: &dyn Fn(&Address) -> Result<Value, E>,
) -> Result<Value, E> {
    let Value::String(text) = value else {
        return Ok(value.clone());
    };
    match parse(text) {
        Text::Plain | Text::Malformed => Ok(value.clone()),
        Text::Reference(reference) => find(&reference),
        Text::Address(address) => open(&address),
        Text::Mixed(all) => Ok(Value::String(insert(text, &all, find)?)),
    }
}

fn insert<E: From<String>>(
    text: &str,
    references: &[Reference],
    find: &dyn Fn(&Reference) -> Result<Value, E>,
) -> Result<String, E> {
    let mut result = String::new();
    let mut rest = text;
    for reference in references {
        let mark = format!("${{{}.{}}}", reference.owner, reference.key);
        let (before, after) = rest.split_once(&mark).unwrap_or((rest, ""));
        result.push_str(before);
        match find(reference)? {
            Value::String(text) => result.push_str(&text),
            number @ (Value::Number(_) | Value::Bool(_)) => result.push_str(&number.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                let why = format!("{mark} is no text or number and can't be inserted into a text");
                return Err(E::from(why));
            }
        }
        rest = after;
    }
    result.push_str(rest);
    Ok(result)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn reference(owner: &str, key: &str) -> Reference {
        Reference {
            owner: owner.to_owned(),
            key: key.to_owned(),
        }
    }

    #[test]
    fn text_is_plain_whole_mixed_address_or_malformed() {
        assert_eq!(parse("best of 3 $ { }"), Text::Plain);
        assert_eq!(
            parse("${rank.pictures}"),
            Text::Reference(reference("rank", "pictures"))
        );
        let mixed = vec![reference("a", "n"), reference("b-2", "k_1")];
        assert_eq!(parse("${a.n} of ${b-2.k_1}"), Text::Mixed(mixed));
        assert!(matches!(
            parse("job://20260101-a/rank/pictures"),
            Text::Address(_)
        ));
        for text in [
            "${a}",
            "${a.b",
            "${A.b}",
            "x ${a.b} ${",
            "job://a/b",
            "job://a/b/c/d",
        ] {
            assert_eq!(parse(text), Text::Malformed, "{text}");
        }
    }

    #[test]
    fn values_replace_whole_references_and_are_inserted_into_texts() {
        let find = |r: &Reference| match r.key.as_str() {
            "n" => Ok(json!(3)),
            "list" => Ok(json!([1, 2])),
            _ => Err(format!("no {}", r.key)),
        };
        let open = |a: &Address| Ok(json!(a.job));
        let resolved = |value| resolve::<String>(&value, &find, &open).unwrap();
        assert_eq!(resolved(json!("${s.list}")), json!([1, 2]));
        assert_eq!(resolved(json!("best ${s.n} of ${s.n}")), "best 3 of 3");
        assert_eq!(resolved(json!("job://j/s/k")), "j");
        assert_eq!(resolved(json!(["a", 1])), json!(["a", 1]));
        let listed = resolve::<String>(&json!("x ${s.list}"), &find, &open).unwrap_err();
        assert!(listed.contains("can't be inserted"), "{listed}");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text in "(\\$\\{|[a-z.}]|\\PC){0,12}") {
            let parsed = parse(&text);
            if parsed == Text::Plain {
                let begins = text.contains("${");
                prop_assert!(!begins);
            }
        }
    }
}
