//! Auto-approval: confirmation in advance by the operator, `[agent.auto_approve]`.
//!
//! An approval stands for a yes to a user's words, never for an LLM's. An LLM's proposal or
//! rewording may repeat names, pictures, events or notes that another person wrote.
//!
//! Invariants:
//! - Only [`ApprovalRules::decide`] makes an [`AutoApproval`], for one proposal with its
//!   fingerprint.
//! - Never approved: the work of an LLM or of the box, a part of a request, several pipelines. Nor
//!   a change with a warning, or a kind that is not listed. A quiet scene in a trial is not a
//!   warning.
//! - An entrypoint without a list approves nothing.
//! - Pure.

use watchkeeper_config::{ChangeKind, PermissionsConfig};
use watchkeeper_plain::Change;

use super::checked_proposal::CheckedProposal;
use super::llm_proposal::LlmProposal;
use crate::permissions::{Entrypoint, ToolPermissions};

/// Author of the words behind a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The user; the words were parsed by the rules alone.
    Person,
    /// An LLM took part.
    Model,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRules {
    key: String,
    kinds: Vec<ChangeKind>,
    permissions: ToolPermissions,
}

/// Approval of one proposal by `[agent.auto_approve]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoApproval {
    key: String,
    kind: ChangeKind,
    fingerprint: String,
}

impl AutoApproval {
    /// Returns the configuration key of the list.
    pub fn key(&self) -> &str {
        &self.key
    }

    pub const fn kind(&self) -> ChangeKind {
        self.kind
    }

    /// Returns the [`CheckedProposal::fingerprint`] of the approved proposal.
    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

impl ApprovalRules {
    pub fn for_entrypoint(config: &PermissionsConfig, entrypoint: Entrypoint) -> Self {
        let kinds = match entrypoint {
            Entrypoint::Ask => &config.ask,
            Entrypoint::Chat => &config.chat,
            Entrypoint::Local => &config.local,
            Entrypoint::Remote => &config.remote,
        };
        Self {
            key: format!("agent.auto_approve.{}", entrypoint.name()),
            kinds: kinds.clone(),
            permissions: ToolPermissions::new(config, entrypoint),
        }
    }

    pub const fn permissions(&self) -> &ToolPermissions {
        &self.permissions
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the names of the listed kinds of change.
    pub fn names(&self) -> Vec<&'static str> {
        self.kinds.iter().map(|kind| kind.name()).collect()
    }

    /// Whether nothing is approved.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Approves the proposal.
    ///
    /// # Errors
    /// Why a user must confirm it.
    pub fn decide(&self, offer: &CheckedProposal, author: Author) -> Result<AutoApproval, String> {
        Ok(AutoApproval {
            key: self.key.clone(),
            kind: self.approved_kind(offer, author)?,
            fingerprint: offer.fingerprint(),
        })
    }

    fn approved_kind(&self, offer: &CheckedProposal, author: Author) -> Result<ChangeKind, String> {
        if self.kinds.is_empty() {
            return Err(format!("{} lists nothing", self.key));
        }
        let made = offer.llm_proposal.as_ref();
        if author == Author::Model || made.is_some_and(LlmProposal::is_by_model) {
            return Err("an LLM took part, and its words are never auto-approved".to_owned());
        }
        if made.is_some() {
            return Err("the box proposes it, not a person".to_owned());
        }
        if !offer.is_complete() {
            return Err("part of the request was not understood or is not possible".to_owned());
        }
        if let Some(why) = offer.invalid_reason() {
            return Err(why);
        }
        // All changes count, also those without effect now: the state may differ when they are
        // applied.
        let [change] = offer.proposal.changes.as_slice() else {
            let many = offer.proposal.changes.len();
            return Err(format!(
                "it changes {many} pipelines; only a change of one is auto-approved"
            ));
        };
        let warnings = offer.checks.iter().flat_map(|check| &check.warnings);
        let seen = offer.trials.iter().flat_map(|trial| &trial.remarks);
        if let Some(against) = warnings.chain(seen).next() {
            return Err(format!("it has a warning: {against}"));
        }
        let kind = match change {
            Change::Pause { .. } => ChangeKind::Pause,
            Change::Resume(_) => ChangeKind::Resume,
            Change::Deploy(_) => ChangeKind::Deploy,
            Change::Replace(_) => ChangeKind::Replace,
            Change::Delete(_) => ChangeKind::Stop,
        };
        match self.kinds.contains(&kind) {
            true => Ok(kind),
            false => Err(format!("{} does not list {}", self.key, kind.name())),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;
    use watchkeeper_plain::Plain;

    use super::super::conversation::{Reply, SessionState};
    use super::super::snapshot::SystemSnapshot;
    use super::super::snapshot::testing::{situation, status};
    use super::super::trial::TrialResult;
    use super::*;

    const WATCH: &str = "tell me when a person crosses the vertical line at 50% on camera gate";

    fn widest() -> PermissionsConfig {
        let all = ChangeKind::ALL.to_vec();
        PermissionsConfig {
            ask: all.clone(),
            chat: all.clone(),
            local: all.clone(),
            remote: all,
            ..PermissionsConfig::default()
        }
    }

    fn only(kinds: &[ChangeKind]) -> ApprovalRules {
        let config = PermissionsConfig {
            chat: kinds.to_vec(),
            ..PermissionsConfig::default()
        };
        ApprovalRules::for_entrypoint(&config, Entrypoint::Chat)
    }

    fn propose(text: &str, here: &SystemSnapshot) -> CheckedProposal {
        let plain = Plain::new().unwrap();
        match SessionState::default().handle(text, &plain, here) {
            Reply::Proposal(offer) => *offer,
            other => panic!("{text}: {other:#?}"),
        }
    }

    /// A box on which this many pipelines run.
    fn runs(number: usize) -> SystemSnapshot {
        let mut here = situation();
        let offer = propose(WATCH, &here);
        let Some(Change::Deploy(spec)) = offer.proposal.changes.first() else {
            panic!("{offer:#?}");
        };
        for nth in 0..number {
            let mut spec = (**spec).clone();
            spec.id = watchkeeper_contract::id::PipelineId::new(format!("watch-{nth}")).unwrap();
            here.pipelines.push(status(&spec));
        }
        here
    }

    fn why(decision: Result<AutoApproval, String>) -> String {
        decision.unwrap_err()
    }

    #[test]
    fn listed_kind_is_approved_and_other_kinds_need_a_user() {
        let here = runs(1);
        for (text, kind) in [
            ("pause watch-0", ChangeKind::Pause),
            ("delete watch-0", ChangeKind::Stop),
            (WATCH, ChangeKind::Deploy),
        ] {
            let offer = propose(text, &here);
            let approval = only(&[kind]).decide(&offer, Author::Person).unwrap();
            assert_eq!(
                (approval.key(), approval.kind()),
                ("agent.auto_approve.chat", kind)
            );
            assert_eq!(approval.fingerprint(), offer.fingerprint());
            let others: Vec<ChangeKind> =
                ChangeKind::ALL.into_iter().filter(|k| *k != kind).collect();
            let asked = why(only(&others).decide(&offer, Author::Person));
            assert!(asked.contains("does not list"), "{asked}");
        }
    }

    #[test]
    fn default_config_approves_nothing() {
        let offer = propose("pause watch-0", &runs(1));
        let none = ApprovalRules::for_entrypoint(&PermissionsConfig::default(), Entrypoint::Chat);
        assert_eq!(
            why(none.decide(&offer, Author::Person)),
            "agent.auto_approve.chat lists nothing"
        );
    }

    #[test]
    fn change_of_two_pipelines_needs_a_user() {
        let offer = propose("stop everything", &runs(2));
        let all = only(&ChangeKind::ALL);
        assert!(why(all.decide(&offer, Author::Person)).contains("changes 2 pipelines"));
    }

    #[test]
    fn trial_remark_needs_a_user() {
        let mut offer = propose(WATCH, &runs(0));
        let all = only(&ChangeKind::ALL);
        assert!(all.decide(&offer, Author::Person).is_ok());
        let Some(Change::Deploy(spec)) = offer.proposal.changes.first() else {
            panic!("{offer:#?}");
        };
        let remarks = vec!["events came one after the other".to_owned()];
        offer.trials = vec![TrialResult {
            quiet: Some("nothing matching was seen".to_owned()),
            ..TrialResult::new(spec)
        }];
        assert!(all.decide(&offer, Author::Person).is_ok());
        offer.trials = vec![TrialResult {
            remarks,
            ..TrialResult::new(spec)
        }];
        assert!(why(all.decide(&offer, Author::Person)).contains("one after the other"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// However many kinds are listed, on every entrypoint.
        #[test]
        fn llm_words_are_never_approved(
            which in 0..4usize, entrypoint in 0..4usize, model_words in any::<bool>(),
        ) {
            let entrypoint = [Entrypoint::Ask, Entrypoint::Chat, Entrypoint::Local, Entrypoint::Remote][entrypoint];
            let text = ["pause watch-0", "delete watch-0", "stop everything", WATCH][which];
            let mut offer = propose(text, &runs(2));
            let author = match model_words {
                true => Author::Model,
                false => {
                    offer.llm_proposal = Some(LlmProposal {
                        model: "m".to_owned(), ..LlmProposal::default()
                    });
                    Author::Person
                }
            };
            let policy = ApprovalRules::for_entrypoint(&widest(), entrypoint);
            prop_assert!(policy.decide(&offer, author).is_err());
        }
    }
}
