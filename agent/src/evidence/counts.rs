//! Counts of chains since the agent's start.
//!
//! - At most [`MAX_SOURCES`] sources are counted by name, the others together.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use watchkeeper_contract::assessment::ChainResult;
use watchkeeper_evidence::source::{SourceAnswer, SourceResult};

/// Most sources that are counted by name; further ones are counted together as `other`.
const MAX_SOURCES: usize = 64;

/// Counts that chains and look-ups write and the API reads.
pub(crate) type SharedCounts = Arc<Mutex<Counts>>;

/// Chains since the agent's start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, utoipa::ToSchema)]
#[schema(as = ChainCounts)]
pub struct Counts {
    /// Events whose chain has no result yet.
    pub waiting: usize,
    /// Events that a chain decided.
    pub decided: u64,
    /// Events that were left to a person after answers.
    pub person: u64,
    /// Events about which no source had an answer.
    pub unknown: u64,
    /// Results that the runtime refused; they are sent again after the next start.
    pub refused: u64,
    /// Each source by name.
    pub sources: BTreeMap<String, SourceCounts>,
}

/// Answers, failures and times of one source.
#[derive(Debug, Clone, PartialEq, Default, Serialize, utoipa::ToSchema)]
pub struct SourceCounts {
    pub answered: u64,
    /// It worked and had no answer.
    pub no_answer: u64,
    pub failed: u64,
    /// Sum of the milliseconds of all questions.
    pub total_ms: u64,
    /// Longest question in milliseconds.
    pub max_ms: u64,
    /// Sum of the cost of all questions in US dollars.
    pub cost_usd: f64,
    /// Answers by confidence, in tenths: below 0.1, below 0.2, and so on.
    pub confidence: [u64; 10],
}

impl Counts {
    /// Counts the result of one chain.
    pub(super) fn count(&mut self, result: ChainResult) {
        *match result {
            ChainResult::Decided => &mut self.decided,
            ChainResult::Person => &mut self.person,
            ChainResult::Unknown => &mut self.unknown,
        } += 1;
    }

    /// Counts one question.
    pub(super) fn count_source(&mut self, source: &str, result: &SourceResult) {
        let is_known = self.sources.contains_key(source) || self.sources.len() < MAX_SOURCES;
        let name = if is_known { source } else { "other" };
        let counts = self.sources.entry(name.to_owned()).or_default();
        match &result.answer {
            SourceAnswer::Answered { confidence, .. } => {
                counts.answered += 1;
                let tenth = (confidence.clamp(0.0, 1.0) * 10.0) as usize;
                let last = counts.confidence.len() - 1;
                if let Some(bucket) = counts.confidence.get_mut(tenth.min(last)) {
                    *bucket += 1;
                }
            }
            SourceAnswer::NoAnswer { .. } | SourceAnswer::Suspect { .. } => counts.no_answer += 1,
            SourceAnswer::Failed { .. } => counts.failed += 1,
        }
        counts.total_ms = counts.total_ms.saturating_add(result.took_ms);
        counts.max_ms = counts.max_ms.max(result.took_ms);
        counts.cost_usd += result.cost_usd.unwrap_or(0.0);
    }
}
