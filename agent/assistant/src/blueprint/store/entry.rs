//! An entry of the list of blueprints: where it comes from, and what serves in its place.

use crate::blueprint::{Blueprint, BlueprintError, BlueprintName, Job, error};

/// Where a blueprint comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlueprintOrigin {
    BuiltIn,
    File,
    /// A file that replaces a built-in blueprint.
    FileInPlace,
    /// A built-in blueprint, because the file that replaces it is invalid.
    BuiltInForDamaged,
    /// An invalid file.
    Damaged,
}

/// An entry of [`BlueprintStore::list`](super::BlueprintStore::list).
#[derive(Debug, Clone, PartialEq)]
pub struct BlueprintEntry {
    pub name: BlueprintName,
    pub origin: BlueprintOrigin,
    /// Errors of its file.
    pub flaws: Vec<BlueprintError>,
    /// The blueprint in use; `None` if the file is invalid and no built-in one is used instead.
    pub serves: Option<Blueprint>,
    /// Which requests of users are refused, because they are for an invalid file.
    pub refuses: Option<String>,
    /// The text of the blueprint in use, else of the built-in one; empty if there is neither.
    pub text: String,
}

impl BlueprintEntry {
    /// One sentence with the errors of its file and what is in use instead; `None` without errors.
    pub fn trouble(&self) -> Option<String> {
        (!self.flaws.is_empty()).then(|| {
            let instead = match (&self.serves, Job::from_name(self.name.as_str())) {
                (Some(_), _) => "the built-in one is used instead",
                (None, Some(_)) => {
                    "no model is asked in its place, because it may name another provider"
                }
                (None, None) => "it is not used",
            };
            format!(
                "the blueprint {} can't be used ({}); {instead}",
                self.name,
                error::sentence(&self.flaws)
            )
        })
    }
}
