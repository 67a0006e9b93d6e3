//! A proposal that was shown and waits for confirmation, as it is kept on disk.
//!
//! - A proposal waits at most [`CONFIRM_TIMEOUT_S`].
//! - Not here: whether a yes still applies it (the session), the files (`pending`).

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use watchkeeper_plain::{Answer, Plain};

use crate::operations::proposed_action::{ProposedActions, describe_all};
use crate::proposal::checked_proposal::{CheckedProposal, join_corrections};
use crate::proposal::llm_proposal::LlmProposal;
use crate::proposal::snapshot::SystemSnapshot;
use crate::proposal::trial::TrialResult;

/// How long a proposal can be confirmed, in seconds. It bounds the age of relative times such as
/// `until 8`.
pub const CONFIRM_TIMEOUT_S: i64 = 3600;

/// A proposal that was shown and waits for confirmation, as it is kept on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShownProposal {
    pub request: String,
    /// The user's corrections, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<String>,
    /// Time of the request, to the nanosecond: relative times in the fingerprint are resolved from
    /// it.
    pub at: Timestamp,
    /// [`CheckedProposal::fingerprint`] of the proposal that was shown.
    #[serde(rename = "mark")]
    pub fingerprint: String,
    /// An LLM's proposal. It is kept whole, because asking the LLM again would give another one.
    #[serde(rename = "made", default, skip_serializing_if = "Option::is_none")]
    pub llm_proposal: Option<LlmProposal>,
    /// Results of the trial. Those of another version of the program may have another form; without
    /// them the proposal waits on.
    #[serde(rename = "tried", default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "readable")]
    pub trials: Vec<TrialResult>,
    /// What a yes does, where that is no change of pipelines. Nothing else of it is computed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actions: Option<ProposedActions>,
}

/// Reads the elements that have the form of this version.
pub(in crate::proposal) fn readable<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let all = Vec::<Value>::deserialize(from)?.into_iter();
    let read = all.filter_map(|one| {
        let read = serde_json::from_value(one);
        read.inspect_err(
            |error| tracing::warn!(%error, "a part of a pending proposal is of another version"),
        )
        .ok()
    });
    Ok(read.collect())
}

impl ShownProposal {
    /// Keeps what a later yes is checked against.
    pub fn from_proposal(offer: &CheckedProposal) -> Self {
        Self {
            request: offer.request.clone(),
            corrections: offer.corrections.clone(),
            at: offer.at.timestamp(),
            fingerprint: offer.fingerprint(),
            llm_proposal: offer.llm_proposal.clone(),
            trials: offer.trials.clone(),
            actions: None,
        }
    }

    /// Keeps actions that were shown at `now`.
    pub fn from_actions(actions: ProposedActions, now: Timestamp) -> Self {
        Self {
            request: describe_all(&actions.actions),
            corrections: Vec::new(),
            at: now,
            fingerprint: String::new(),
            llm_proposal: None,
            trials: Vec::new(),
            actions: Some(actions),
        }
    }

    /// Language model that made it; absent: a person's words.
    pub fn model(&self) -> Option<&str> {
        let by_actions = self.actions.as_ref().and_then(|made| made.model.as_deref());
        by_actions.or_else(|| Some(self.llm_proposal.as_ref()?.model.as_str()))
    }

    /// Builds the proposal again from the current state; `None` if the request means no proposal
    /// now.
    pub fn recheck(&self, plain: &Plain, here: &SystemSnapshot) -> Option<CheckedProposal> {
        let at = self.at.to_zoned(here.now.time_zone().clone());
        let mut offer = if let Some(llm_proposal) = &self.llm_proposal {
            CheckedProposal::from_llm(&self.request, &at, llm_proposal.clone(), here)
        } else {
            match plain.corrected(&self.request, &self.corrections, &here.scene(&at)) {
                Ok(Answer::Propose(proposal)) => {
                    CheckedProposal::new(&self.request, &at, *proposal, here)
                }
                Ok(Answer::Ask(_) | Answer::Look(_) | Answer::Unknown(_)) | Err(_) => return None,
            }
        };
        offer.corrections.clone_from(&self.corrections);
        offer.trials.clone_from(&self.trials);
        Some(offer)
    }

    /// Returns the request with its corrections, in one line.
    pub fn full_request(&self) -> String {
        join_corrections(&self.request, &self.corrections)
    }

    /// Returns when the proposal expires.
    pub fn valid_until(&self) -> Timestamp {
        let timeout = jiff::SignedDuration::from_secs(CONFIRM_TIMEOUT_S);
        self.at.saturating_add(timeout).unwrap_or(self.at)
    }

    /// Whether the proposal can be confirmed at `now`.
    pub(crate) fn is_fresh(&self, now: Timestamp) -> bool {
        (0..=CONFIRM_TIMEOUT_S).contains(&now.duration_since(self.at).as_secs())
    }
}
