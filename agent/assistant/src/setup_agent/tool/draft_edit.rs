//! A stored draft, changed by find and replace: its text is not sent again.
//!
//! - Edits apply to the definition as the language model wrote it, in order.
//! - Each text to find occurs in it exactly once.

use serde::Deserialize;
use serde_json::{Value, json};

use super::definition::ToolInput;
use super::preview_workflow::no_draft;

/// Maximum edits of one call.
const MAX_EDITS: usize = 20;
/// Longest quoted text in an error, in characters.
const MAX_QUOTED: usize = 80;

/// A replacement in the text of a draft.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DraftEdit {
    find: String,
    replace: String,
}

/// JSON Schema of the argument `edits`.
pub(super) fn schema_of_edits() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "array", "description": "changes of the draft, which become a new one; each \
            find is a piece of your text that stands in it exactly once",
        "items": {
            "type": "object", "additionalProperties": false, "required": ["find", "replace"],
            "properties": {"find": text, "replace": text},
        },
    })
}

/// JSON Schema of the argument `edits` of further tools.
pub(super) fn short_schema_of_edits() -> Value {
    json!({
        "type": "array", "items": {"type": "object"}, "description": "as in validate_workflow",
    })
}

/// The text of a stored draft with these edits.
///
/// # Errors
/// A sentence for the language model: the draft is unknown, or a text is not there exactly once.
pub(super) fn edited_text(
    given: ToolInput<'_>,
    draft: &str,
    edits: &[DraftEdit],
) -> Result<String, String> {
    let text = given.facts.draft_text(draft);
    let text = text.ok_or_else(|| no_draft(draft, given))?;
    apply(&text, draft, edits)
}

fn apply(text: &str, draft: &str, edits: &[DraftEdit]) -> Result<String, String> {
    if edits.is_empty() || edits.len() > MAX_EDITS {
        return Err(format!(
            "edits has {} entries; give 1 to {MAX_EDITS}",
            edits.len()
        ));
    }
    let mut text = text.to_owned();
    for (at, edit) in edits.iter().enumerate() {
        if edit.find.is_empty() {
            return Err(format!(
                "edits[{at}].find is empty; quote a piece of {draft}"
            ));
        }
        let quoted: String = edit.find.chars().take(MAX_QUOTED).collect();
        match text.matches(&edit.find).count() {
            1 => text = text.replacen(&edit.find, &edit.replace, 1),
            0 => {
                return Err(format!(
                    "edits[{at}].find {quoted:?} was found 0 times in {draft}; copy it exactly, \
                     with its spaces, from the text that you sent"
                ));
            }
            many => {
                return Err(format!(
                    "edits[{at}].find {quoted:?} was found {many} times in {draft}; add what \
                     stands beside it, so that it is found once"
                ));
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(find: &str, replace: &str) -> DraftEdit {
        DraftEdit {
            find: find.to_owned(),
            replace: replace.to_owned(),
        }
    }

    #[test]
    fn edit_needs_exactly_one_match_and_says_how_many_there_are() {
        let text = r#"{"x": 1, "y": 1}"#;
        let edited = |edits: &[DraftEdit]| apply(text, "d1", edits);
        assert_eq!(
            edited(&[edit(r#""x": 1"#, r#""x": 2"#), edit("2, ", "3, ")]),
            Ok(r#"{"x": 3, "y": 1}"#.to_owned())
        );
        let twice = edited(&[edit("1", "2")]).unwrap_err();
        assert!(twice.contains("found 2 times in d1"), "{twice}");
        let never = edited(&[edit("\"x\":1", "")]).unwrap_err();
        assert!(never.contains("found 0 times"), "{never}");
        assert!(edited(&[edit("", "2")]).unwrap_err().contains("empty"));
        assert!(edited(&[]).unwrap_err().contains("1 to 20"));
    }

    proptest! {
        #[test]
        fn only_the_found_text_changes(before in "[a-m ]{0,20}", after in "[a-m ]{0,20}",
            find in "[n-z]{1,8}", replace in ".{0,8}") {
            let text = format!("{before}{find}{after}");
            let edited = apply(&text, "d1", &[edit(&find, &replace)]);
            prop_assert_eq!(edited, Ok(format!("{before}{replace}{after}")));
        }
    }
}
