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
    /// Time of the request, to the nanosecond: relative times in the fingerprint are resolved from
    /// it.
    pub at: Timestamp,
    #[serde(flatten)]
    pub effect: ShownEffect,
}

/// Effect of a yes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ShownEffect {
    /// Runs actions on archive and jobs. Nothing of them is computed again.
    Actions { actions: ProposedActions },
    /// Applies changes to pipelines, if they are still the same.
    Changes(ShownChanges),
}

/// Changes of pipelines that were shown.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ShownChanges {
    /// The user's corrections, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<String>,
    /// [`CheckedProposal::fingerprint`] of the proposal that was shown.
    #[serde(rename = "mark")]
    pub fingerprint: String,
    /// An LLM's proposal. It is kept whole, because asking the LLM again would give another one.
    #[serde(rename = "made", default, skip_serializing_if = "Option::is_none")]
    pub llm_proposal: Option<LlmProposal>,
    /// Results of the trial. Those of another version of the program may have another form; without
    /// them the proposal keeps waiting.
    #[serde(rename = "tried", default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "readable")]
    pub trials: Vec<TrialResult>,
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
            at: offer.at.timestamp(),
            effect: ShownEffect::Changes(ShownChanges {
                corrections: offer.corrections.clone(),
                fingerprint: offer.fingerprint(),
                llm_proposal: offer.llm_proposal.clone(),
                trials: offer.trials.clone(),
            }),
        }
    }

    /// Keeps actions that were shown at `now`.
    pub fn from_actions(actions: ProposedActions, now: Timestamp) -> Self {
        Self {
            request: describe_all(&actions.actions),
            at: now,
            effect: ShownEffect::Actions { actions },
        }
    }

    /// The actions that a yes runs; `None` if it changes pipelines.
    pub fn actions(&self) -> Option<&ProposedActions> {
        match &self.effect {
            ShownEffect::Actions { actions } => Some(actions),
            ShownEffect::Changes(_) => None,
        }
    }

    /// The changes that a yes applies; `None` if it runs actions.
    pub fn changes(&self) -> Option<&ShownChanges> {
        match &self.effect {
            ShownEffect::Actions { .. } => None,
            ShownEffect::Changes(changes) => Some(changes),
        }
    }

    pub fn trials(&self) -> &[TrialResult] {
        self.changes().map_or(&[], |changes| &changes.trials)
    }

    /// Language model that made it; absent: a person's words.
    pub fn model(&self) -> Option<&str> {
        match &self.effect {
            ShownEffect::Actions { actions } => actions.model.as_deref(),
            ShownEffect::Changes(changes) => Some(changes.llm_proposal.as_ref()?.model.as_str()),
        }
    }

    /// Builds the proposal again from the current state; `None` if the request means no proposal
    /// now, or if a yes runs actions.
    pub fn recheck(&self, plain: &Plain, here: &SystemSnapshot) -> Option<CheckedProposal> {
        let changes = self.changes()?;
        let at = self.at.to_zoned(here.now.time_zone().clone());
        let mut offer = if let Some(llm_proposal) = &changes.llm_proposal {
            CheckedProposal::from_llm(&self.request, &at, llm_proposal.clone(), here)
        } else {
            match plain.corrected(&self.request, &changes.corrections, &here.scene(&at)) {
                Ok(Answer::Propose(proposal)) => {
                    CheckedProposal::new(&self.request, &at, *proposal, here)
                }
                Ok(Answer::Ask(_) | Answer::Look(_) | Answer::Unknown(_)) | Err(_) => return None,
            }
        };
        offer.corrections.clone_from(&changes.corrections);
        offer.trials.clone_from(&changes.trials);
        Some(offer)
    }

    /// Whether it was shown with the changes of `offer`.
    pub fn is_of(&self, offer: &CheckedProposal) -> bool {
        let changes = self.changes();
        changes.is_some_and(|changes| changes.fingerprint == offer.fingerprint())
    }

    /// Returns the request with its corrections, in one line.
    pub fn full_request(&self) -> String {
        let corrections = self.changes().map(|changes| changes.corrections.as_slice());
        join_corrections(&self.request, corrections.unwrap_or_default())
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
