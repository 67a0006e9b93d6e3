//! Whether an offer is carried out without a person's yes, because the owner of the box said so beforehand: `[agent.auto_approve]`.
//!
//! A policy stands for a yes to words, not for a yes to a model. Whatever a model proposed or put into other words came of a conversation in which names of
//! cameras, pictures, events or notes stood, and any of them may be somebody else's words; so there is nothing that a policy could say of it.
//!
//! Invariants:
//! - a [`AutoApproval`] comes from nothing but [`ApprovalRules::decide`], for one offer, of which it has the mark;
//! - there is none for what a model had a word in, for part of a request, for more than one pipeline, for what something speaks against, and for a kind that is not named;
//! - a channel without a list of its own has none at all. Pure.

use watchkeeper_config::{ChangeKind, PermissionsConfig};
use watchkeeper_plain::Change;

use super::offer::CheckedProposal;
use crate::permissions::{Entrypoint, ToolPermissions};

/// Whose words an offer was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// A person's own, read by the rules and by nobody else.
    Persons,
    /// A model had a word in it.
    Models,
}

/// What the owner said of one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRules {
    /// Its key.
    key: String,
    kinds: Vec<ChangeKind>,
    gate: ToolPermissions,
}

/// What comes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// It is carried out.
    Confirmed(AutoApproval),
    /// A person is asked, and why.
    Asks(String),
}

/// In the place of a yes to one offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoApproval {
    key: String,
    kind: ChangeKind,
    mark: String,
}

impl AutoApproval {
    /// The key that says so.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is done.
    #[must_use]
    pub const fn kind(&self) -> ChangeKind {
        self.kind
    }

    /// [`CheckedProposal::mark`] of the offer that it is for.
    #[must_use]
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }
}

impl ApprovalRules {
    /// That of a channel.
    #[must_use]
    pub fn of(config: &PermissionsConfig, channel: Entrypoint) -> Self {
        let kinds = match channel {
            Entrypoint::Ask => &config.ask,
            Entrypoint::Chat => &config.chat,
            Entrypoint::Local => &config.local,
            Entrypoint::Remote => &config.remote,
        };
        Self {
            key: format!("agent.auto_approve.{}", channel.name()),
            kinds: kinds.clone(),
            gate: ToolPermissions::of(config, channel),
        }
    }

    /// What tools of a model may do there.
    #[must_use]
    pub const fn gate(&self) -> &ToolPermissions {
        &self.gate
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What it names, for a person.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.kinds.iter().map(|kind| kind.name()).collect()
    }

    /// Whether it confirms nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Whether it stands for a yes to this offer.
    #[must_use]
    pub fn decide(&self, offer: &CheckedProposal, whose: Author) -> ApprovalDecision {
        match self.kind_of(offer, whose) {
            Ok(kind) => ApprovalDecision::Confirmed(AutoApproval {
                key: self.key.clone(),
                kind,
                mark: offer.mark(),
            }),
            Err(why) => ApprovalDecision::Asks(why),
        }
    }

    fn kind_of(&self, offer: &CheckedProposal, whose: Author) -> Result<ChangeKind, String> {
        if self.kinds.is_empty() {
            return Err(format!("{} names nothing", self.key));
        }
        if whose == Author::Models || offer.made.is_some() {
            return Err("a model had a word in it, which a policy never confirms".to_owned());
        }
        if !offer.is_whole() {
            return Err("part of it was not understood or can't be done".to_owned());
        }
        if let Some(why) = offer.unsound() {
            return Err(why);
        }
        // All of them, also those that would change nothing now: what runs may be another when it is carried out.
        let [change] = offer.proposal.changes.as_slice() else {
            let many = offer.proposal.changes.len();
            return Err(format!(
                "it is about {many} pipelines, and a policy confirms one"
            ));
        };
        let warnings = offer.checks.iter().flat_map(|check| &check.warnings);
        let seen = offer.tried.iter().flat_map(|tried| &tried.mind);
        if let Some(against) = warnings.chain(seen).next() {
            return Err(format!("there is something to mind: {against}"));
        }
        let kind = match change {
            Change::Pause { .. } => ChangeKind::Pause,
            Change::Resume(_) => ChangeKind::Resume,
            Change::Deploy(_) => ChangeKind::Deploy,
            Change::Replace(_) => ChangeKind::Replace,
            Change::Stop(_) => ChangeKind::Stop,
        };
        match self.kinds.contains(&kind) {
            true => Ok(kind),
            false => Err(format!("{} does not name {}", self.key, kind.name())),
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
        ApprovalRules::of(&config, Entrypoint::Chat)
    }

    fn heard(text: &str, here: &SystemSnapshot) -> CheckedProposal {
        let plain = Plain::new().unwrap();
        match SessionState::default().hear(text, &plain, here) {
            Reply::Offer(offer) => *offer,
            other => panic!("{text}: {other:#?}"),
        }
    }

    /// The box on which these watches run.
    fn runs(number: usize) -> SystemSnapshot {
        let mut here = situation();
        let offer = heard(WATCH, &here);
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

    fn why(decision: ApprovalDecision) -> String {
        match decision {
            ApprovalDecision::Asks(why) => why,
            ApprovalDecision::Confirmed(permit) => panic!("{permit:?}"),
        }
    }

    #[test]
    fn what_a_list_names_is_confirmed_by_its_key_and_everything_else_is_asked() {
        let here = runs(1);
        for (text, kind) in [
            ("pause watch-0", ChangeKind::Pause),
            ("stop watch-0", ChangeKind::Stop),
            (WATCH, ChangeKind::Deploy),
        ] {
            let offer = heard(text, &here);
            let ApprovalDecision::Confirmed(permit) = only(&[kind]).decide(&offer, Author::Persons)
            else {
                panic!(
                    "{text}: {:?}",
                    only(&[kind]).decide(&offer, Author::Persons)
                );
            };
            assert_eq!(
                (permit.key(), permit.kind()),
                ("agent.auto_approve.chat", kind)
            );
            assert_eq!(permit.mark(), offer.mark());
            let others: Vec<ChangeKind> =
                ChangeKind::ALL.into_iter().filter(|k| *k != kind).collect();
            let asked = why(only(&others).decide(&offer, Author::Persons));
            assert!(asked.contains("does not name"), "{asked}");
        }
    }

    #[test]
    fn nothing_is_named_unless_it_is_written() {
        let offer = heard("pause watch-0", &runs(1));
        let none = ApprovalRules::of(&PermissionsConfig::default(), Entrypoint::Chat);
        assert_eq!(
            why(none.decide(&offer, Author::Persons)),
            "agent.auto_approve.chat names nothing"
        );
    }

    #[test]
    fn more_than_one_pipeline_is_asked_about_however_wide_the_list_is() {
        let offer = heard("stop everything", &runs(2));
        let all = only(&ChangeKind::ALL);
        assert!(why(all.decide(&offer, Author::Persons)).contains("about 2 pipelines"));
    }

    #[test]
    fn what_was_seen_against_it_is_a_persons_to_judge() {
        let mut offer = heard(WATCH, &runs(0));
        let all = only(&ChangeKind::ALL);
        assert!(matches!(
            all.decide(&offer, Author::Persons),
            ApprovalDecision::Confirmed(_)
        ));
        let Some(Change::Deploy(spec)) = offer.proposal.changes.first() else {
            panic!("{offer:#?}");
        };
        let mind = vec!["events came one after the other".to_owned()];
        offer.tried = vec![TrialResult {
            mind,
            ..TrialResult::new(spec)
        }];
        assert!(why(all.decide(&offer, Author::Persons)).contains("one after the other"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// However wide the policy and whatever the change: a model's word is never confirmed, on no channel.
        #[test]
        fn no_policy_confirms_a_models_word(
            which in 0..4usize, channel in 0..4usize, model_words in any::<bool>(),
        ) {
            let channel = [Entrypoint::Ask, Entrypoint::Chat, Entrypoint::Local, Entrypoint::Remote][channel];
            let text = ["pause watch-0", "stop watch-0", "stop everything", WATCH][which];
            let mut offer = heard(text, &runs(2));
            let whose = match model_words {
                true => Author::Models,
                false => {
                    offer.made = Some(super::super::llm_proposal::LlmProposal {
                        model: "m".to_owned(), says: String::new(), assumed: Vec::new(),
                        not_possible: Vec::new(), evidence: Vec::new(), changes: Vec::new(),
                    });
                    Author::Persons
                }
            };
            let policy = ApprovalRules::of(&widest(), channel);
            prop_assert!(matches!(policy.decide(&offer, whose), ApprovalDecision::Asks(_)));
        }
    }
}
