//! One operation on the archive.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use watchkeeper_archive::{EntryName, Selection, Verb};

use crate::trace::without_secrets;

/// A verb of the archive, or a retrieval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "operation", content = "parameters", rename_all = "snake_case")]
pub enum Operation {
    Verb(Verb),
    Retrieve {
        name: EntryName,
        /// Reads the disk, past the fast tiers.
        #[serde(default)]
        skip_cache: bool,
    },
}

impl Operation {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Retrieve { .. } => "retrieve",
            Self::Verb(verb) => verb_name(verb),
        }
    }

    /// Parameters as JSON, without the name of the verb.
    pub fn parameters(&self) -> Value {
        match self {
            Self::Retrieve { name, skip_cache } => {
                json!({"name": name, "skip_cache": skip_cache})
            }
            Self::Verb(verb) => verb_parameters(verb),
        }
    }

    /// Whether it removes something for good, or lifts what prevents that.
    pub(crate) const fn needs_confirmation(&self) -> bool {
        matches!(
            self,
            Self::Verb(Verb::Destroy { .. } | Verb::Unprotect { .. })
        )
    }

    /// One line for a person.
    pub fn describe(&self) -> String {
        match self {
            Self::Retrieve { name, .. } => format!("read {name}"),
            Self::Verb(Verb::Ingest(ingest)) => {
                let source = without_secrets(&ingest.source);
                let source: String = source.chars().take(200).collect();
                format!("ingest {source:?} into {}", ingest.collection)
            }
            Self::Verb(Verb::Destroy { selection }) => {
                format!("destroy {} for good", describe_selection(selection))
            }
            Self::Verb(Verb::Unprotect { selection }) => {
                format!("lift the protection of {}", describe_selection(selection))
            }
            Self::Verb(Verb::Prune { selection } | Verb::Protect { selection }) => {
                format!("{} {}", self.name(), describe_selection(selection))
            }
            Self::Verb(_) => self.name().to_owned(),
        }
    }
}

/// Name of a verb, as `/manual` and the trajectory have it.
pub(super) const fn verb_name(verb: &Verb) -> &'static str {
    match verb {
        Verb::Ingest(_) => "ingest",
        Verb::Query { .. } => "query",
        Verb::Find { .. } => "find",
        Verb::List => "list",
        Verb::Stat { .. } => "stat",
        Verb::Prune { .. } => "prune",
        Verb::Destroy { .. } => "destroy",
        Verb::Protect { .. } => "protect",
        Verb::Unprotect { .. } => "unprotect",
        Verb::Stats => "stats",
    }
}

pub(super) fn verb_parameters(verb: &Verb) -> Value {
    // Plain data with string keys always serialises.
    let mut value = serde_json::to_value(verb).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.remove("verb");
    }
    value
}

fn describe_selection(selection: &Selection) -> String {
    match selection {
        Selection::Entry(name) => name.to_string(),
        Selection::Collection(name) => format!("all entries of the collection {name}"),
    }
}
