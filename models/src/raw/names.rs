//! Checks names: of classes, of points, and what a model stands for.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::labels;

use super::error::FieldErrors;
use super::shape::RawLabels;

/// Most names of a list.
const MAX_LABELS: usize = 10_000;
/// Longest name of a class, or of what a model stands for, in characters.
pub(super) const MAX_NAME: usize = 64;

pub(super) fn check_labels(
    key: &str,
    raw: RawLabels,
    known: &[&str],
    errors: &mut FieldErrors,
) -> Option<Arc<[Arc<str>]>> {
    match raw {
        RawLabels::Shared(name) => {
            let list = labels::list(&name).filter(|_| known.contains(&&*name));
            if list.is_none() {
                let known = known.join(", ");
                errors.push(key, &name, format!("{known}, or a list of names"));
            }
            list
        }
        RawLabels::Inline(names) => {
            errors.require(
                (1..=MAX_LABELS).contains(&names.len()),
                key,
                format!("a list of {}", names.len()),
                format!("1 to {MAX_LABELS} names"),
            );
            let mut seen = BTreeMap::new();
            for (i, name) in names.iter().enumerate() {
                let at = format!("{key}[{i}]");
                errors.require(
                    is_plain(name),
                    &at,
                    name,
                    format!("1 to {MAX_NAME} characters, none of them a control character"),
                );
                if let Some(first) = seen.insert(name, i) {
                    let allowed = format!("a name of its own: {key}[{first}] has that one");
                    errors.push(at, name, allowed);
                }
            }
            Some(names.iter().map(|n| Arc::from(n.as_str())).collect())
        }
    }
}

/// Returns whether a name can be used unchanged in a message, a table and a topic.
pub(super) fn is_plain(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}

/// Returns whether this can name a model, and so a file: lower case letters, digits, `-`, `_` and
/// inner dots.
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && !text.starts_with(['.', '-'])
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b))
}
