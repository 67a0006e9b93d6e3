//! The sources of a chain, by their names.
//!
//! | source | weight | why |
//! |---|---|---|
//! | `code` | 0.45 | a code has a check sum, so it is read rightly or not at all |
//! | first look-up | 0.45 | the primary register |
//! | later look-ups | 0.25 | a supplement, often filled by others |
//! | `text` | 0.20 | readers confuse characters |
//! | `model`, fields, `reference` | 0.20 | a model may be wrong with confidence |
//! | `box` | 0.20 | it says that something happened, not what it was |

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use watchkeeper_config::{LookupConfig, LookupKind};
use watchkeeper_contract::rule::{DecideSpec, reference_sets};

/// Name of the language model as a source.
pub(super) const MODEL: &str = "model";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    Box,
    /// A code or text.
    Reading,
    /// A service or table.
    Lookup,
    /// Fields that a model reads.
    Fields,
    Model,
    /// Sets of reference pictures.
    Reference,
    Person,
    /// A name that the configuration does not have.
    Unknown,
}

impl SourceKind {
    /// Whether an answer costs money, so that it is not asked twice.
    #[must_use]
    pub fn is_paid(self) -> bool {
        matches!(self, Self::Fields | Self::Model)
    }

    /// Whether a network judges a picture: alone it makes no event certain.
    #[must_use]
    pub(super) fn is_network(self) -> bool {
        self.is_paid() || self == Self::Reference
    }
}

/// One source of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    pub name: String,
    pub kind: SourceKind,
    pub weight: f64,
    /// Whether its answer may decide. What was only read does not, where the chain has a look-up:
    /// a code that no table knows would decide otherwise.
    pub can_decide: bool,
    /// Confidence of the answers before it from which on it is not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_below: Option<f64>,
}

/// The sources of a chain with their weights.
pub(super) fn sources(spec: &DecideSpec, lookups: &BTreeMap<String, LookupConfig>) -> Vec<Source> {
    let mut lookups_before = 0;
    let is_lookup = |kind: SourceKind| matches!(kind, SourceKind::Lookup | SourceKind::Unknown);
    let mut kinds = spec.chain.iter().map(|name| kind_of(name, lookups));
    let has_lookup = kinds.any(is_lookup);
    let sources = spec.chain.iter().map(|name| {
        let kind = kind_of(name, lookups);
        let can_decide = match kind {
            SourceKind::Box | SourceKind::Person | SourceKind::Unknown => false,
            SourceKind::Reading | SourceKind::Fields => !has_lookup,
            SourceKind::Lookup | SourceKind::Model | SourceKind::Reference => true,
        };
        let weight = spec.weights.get(name).copied();
        let weight = weight.unwrap_or_else(|| default_weight(kind, name, lookups_before));
        lookups_before += usize::from(is_lookup(kind));
        Source {
            name: name.clone(),
            kind,
            weight,
            can_decide,
            only_below: lookups.get(name).and_then(|lookup| lookup.only_below),
        }
    });
    sources.collect()
}

/// Names of the fields that the sources of a chain read from the picture.
pub(super) fn field_names(
    spec: &DecideSpec,
    lookups: &BTreeMap<String, LookupConfig>,
) -> Vec<String> {
    let read = spec.chain.iter().filter_map(|name| lookups.get(name));
    let names: BTreeSet<&str> = read.flat_map(|lookup| lookup.kind.field_names()).collect();
    names.into_iter().map(str::to_owned).collect()
}

fn kind_of(name: &str, lookups: &BTreeMap<String, LookupConfig>) -> SourceKind {
    match name {
        "box" => SourceKind::Box,
        "code" | "text" => SourceKind::Reading,
        MODEL => SourceKind::Model,
        "person" => SourceKind::Person,
        other if reference_sets(other).is_some() => SourceKind::Reference,
        other => match lookups.get(other).map(|lookup| &lookup.kind) {
            Some(LookupKind::Http(_) | LookupKind::Table(_)) => SourceKind::Lookup,
            Some(LookupKind::Fields(_)) => SourceKind::Fields,
            None => SourceKind::Unknown,
        },
    }
}

/// Default weight of a source, after `lookups_before` look-ups of the chain.
fn default_weight(kind: SourceKind, name: &str, lookups_before: usize) -> f64 {
    match (kind, name, lookups_before) {
        (SourceKind::Reading, "code", _) | (SourceKind::Lookup | SourceKind::Unknown, _, 0) => 0.45,
        (SourceKind::Lookup | SourceKind::Unknown, _, _) => 0.25,
        _ => 0.20,
    }
}
