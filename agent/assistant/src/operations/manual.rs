//! The action of `/manual`: a verb of the archive with its parameters as JSON. Sans-IO.

use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_archive::verb::Ingest;
use watchkeeper_archive::{EntryName, Query, Selection, Verb};

use super::operation::Operation;
use crate::wording::unknown;

/// Names of the actions, in the order of the help.
pub(crate) const ACTIONS: [&str; 11] = [
    "ingest",
    "query",
    "find",
    "list",
    "stat",
    "retrieve",
    "prune",
    "destroy",
    "protect",
    "unprotect",
    "stats",
];

/// An action with the members that it may have; others are refused.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Ingest(Box<Ingest>),
    Query(Box<Query>),
    Find(Words),
    List(Nothing),
    Stat(Named),
    Retrieve(Retrieval),
    Prune(Selection),
    Destroy(Selection),
    Protect(Selection),
    Unprotect(Selection),
    Stats(Nothing),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    words: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: EntryName,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Retrieval {
    name: EntryName,
    #[serde(default)]
    skip_cache: bool,
}

/// Whether `name` is an action of the archive.
pub(crate) fn is_action(name: &str) -> bool {
    ACTIONS.contains(&name)
}

/// Reads an action of the archive; no parameters stand for `{}`. `others` are further actions, for
/// the sentence that lists them.
///
/// # Errors
/// A sentence: the action is unknown, or a parameter is missing, unknown or invalid.
pub fn parse(action: &str, parameters: &str, others: &[&str]) -> Result<Operation, String> {
    let known = [&ACTIONS, others].concat();
    if action.is_empty() {
        return Err(format!(
            "/manual needs an action, such as /manual retrieve {{\"name\": \
             \"research/alpha.txt\"}}; there are {}",
            known.join(", ")
        ));
    }
    if !is_action(action) {
        return Err(unknown("action", action, &known));
    }
    let parameters: Value = match parameters.trim() {
        "" => json!({}),
        text => serde_json::from_str(text)
            .map_err(|error| format!("the parameters of {action} are not JSON: {error}"))?,
    };
    let read = serde_json::from_value(json!({ action: parameters }));
    let read = read.map_err(|error| format!("parameters of {action}: {error}"))?;
    Ok(match read {
        Action::Ingest(ingest) => Operation::Verb(Verb::Ingest(ingest)),
        Action::Query(query) => Operation::Verb(Verb::Query { query }),
        Action::Find(Words { words }) => Operation::Verb(Verb::Find { words }),
        Action::List(Nothing {}) => Operation::Verb(Verb::List),
        Action::Stat(Named { name }) => Operation::Verb(Verb::Stat { name }),
        Action::Retrieve(Retrieval { name, skip_cache }) => {
            Operation::Retrieve { name, skip_cache }
        }
        Action::Prune(selection) => Operation::Verb(Verb::Prune { selection }),
        Action::Destroy(selection) => Operation::Verb(Verb::Destroy { selection }),
        Action::Protect(selection) => Operation::Verb(Verb::Protect { selection }),
        Action::Unprotect(selection) => Operation::Verb(Verb::Unprotect { selection }),
        Action::Stats(Nothing {}) => Operation::Verb(Verb::Stats),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_read_with_its_parameters() {
        let selection = r#"{"entry": "research/alpha.txt"}"#;
        for action in ACTIONS {
            let parameters = match action {
                "ingest" => r#"{"source": "mem::x", "collection": "a", "name": "b"}"#,
                "query" => r#"{"pattern": "research/*"}"#,
                "find" => r#"{"words": "cars yesterday"}"#,
                "stat" | "retrieve" => r#"{"name": "research/alpha.txt"}"#,
                "prune" | "destroy" | "protect" | "unprotect" => selection,
                _ => "",
            };
            assert_eq!(parse(action, parameters, &[]).unwrap().name(), action);
        }
    }

    #[test]
    fn entry_has_one_name_in_all_actions() {
        for action in ["stat", "retrieve", "prune", "destroy", "protect"] {
            let read = parse(action, r#"{"name": "research/alpha.txt"}"#, &[]).unwrap();
            assert!(read.parameters().to_string().contains("research/alpha.txt"));
        }
    }

    #[test]
    fn unknown_actions_and_parameters_are_errors() {
        for (action, parameters, part) in [
            ("destory", "{}", "did you mean destroy?"),
            ("rm", "{}", "there are ingest"),
            ("rm", "{}", "stats, list_pictures"),
            ("", "", "stats, list_pictures"),
            ("lst_pictures", "{}", "did you mean list_pictures?"),
            ("list", r#"{"all": true}"#, "unknown field `all`"),
            ("stats", r#"{"x": 1}"#, "unknown field `x`"),
            ("retrieve", "{}", "missing field `name`"),
            ("retrieve", r#"{"name": "../etc"}"#, "not accepted"),
            (
                "retrieve",
                r#"{"name": "a/b", "x": 1}"#,
                "unknown field `x`",
            ),
            ("query", r#"{"color": "red"}"#, "unknown field `color`"),
            (
                "ingest",
                r#"{"source": "mem::x"}"#,
                "missing field `collection`",
            ),
            (
                "destroy",
                r#"{"everything": true}"#,
                "unknown variant `everything`",
            ),
            (
                "destroy",
                r#"{"entry": "a/b", "name": "a/b"}"#,
                "parameters of destroy",
            ),
            ("prune", "alpha.txt", "not JSON"),
        ] {
            let why = parse(action, parameters, &["list_pictures"]).unwrap_err();
            assert!(why.contains(part), "{action} {parameters}: {why}");
        }
    }
}
