//! What a request to watch says, part by part.
//!
//! Owns what is read, corrected and resolved; not how.

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::rule::CountBound;

use super::acts::Acts;
use crate::lexicon::Way;
use crate::names::Mention;
use crate::place::Where;
use crate::settings::Settings;

/// Phrases of a request. What is absent or empty was not said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts {
    pub(crate) settings: Settings,
    /// Whether it has a verb of watching, or nothing says that it only counts.
    pub(crate) reports: bool,
    pub(super) counts: bool,
    /// Those that are named; empty: none is.
    pub(crate) cameras: Vec<SourceId>,
    pub(crate) place: Option<Where>,
    /// A place that is not drawn, as the user wrote it.
    pub(super) unknown_place: Option<String>,
    pub(crate) ways: Vec<Way>,
    pub(crate) mentions: Vec<Mention>,
    /// Whether the classes are said to be the only ones.
    pub(super) only: bool,
    /// Usual contents of a named place.
    pub(super) usual: Option<Vec<String>>,
    pub(crate) bound: Option<CountBound>,
    pub(crate) acts: Acts,
    /// Number of conditions in separate clauses.
    pub(super) clauses: usize,
}
