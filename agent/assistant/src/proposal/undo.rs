//! The proposal that reverts the last confirmed proposal of a session.
//!
//! - It changes nothing by itself: it is shown with its difference to what runs, and needs a yes.
//! - Only the session that made a change knows what it replaced. The audit log has no secrets, so
//!   nothing is restored from it.
//! - A pause that was ended is restored without an end, because its former end may no longer be
//!   wanted.

use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_plain::Change;

use super::checked_proposal::CheckedProposal;
use super::llm_proposal::{LlmProposal, ProposedBy, ProposedChange};
use super::snapshot::SystemSnapshot;

/// Texts that ask for it. They are compared with the whole text.
pub(super) const UNDO: [&str; 14] = [
    "undo",
    "undo it",
    "undo that",
    "undo this",
    "undo the last change",
    "undo the change",
    "undo your last change",
    "revert",
    "revert it",
    "revert that",
    "take it back",
    "take that back",
    "change it back",
    "put it back",
];

/// Proposes to revert what `confirmed` changed; `None` if one of its changes has no opposite.
pub(super) fn undo(confirmed: &CheckedProposal, here: &SystemSnapshot) -> Option<LlmProposal> {
    let changed = confirmed.proposal.changes.iter().zip(&confirmed.difference);
    let changed = changed.filter(|(_, difference)| difference.has_effect());
    let opposite = |(change, _): (&Change, _)| {
        let before = confirmed.before.iter();
        let before = { before }.find(|spec| spec.id == *change.pipeline());
        opposite(change, before, here)
    };
    Some(LlmProposal {
        model: "watchkeeper".to_owned(),
        by: ProposedBy::Box,
        says: format!("undo \"{}\"", confirmed.full_request()),
        undoes: Some(confirmed.full_request()),
        changes: changed.rev().map(opposite).collect::<Option<_>>()?,
        ..LlmProposal::default()
    })
}

/// The opposite of a change of a pipeline that was `before`.
fn opposite(
    change: &Change,
    before: Option<&PipelineSpec>,
    here: &SystemSnapshot,
) -> Option<ProposedChange> {
    let pipeline = change.pipeline().clone();
    Some(match (change, before) {
        (Change::Deploy(_), None) => ProposedChange::Stop { pipeline },
        (Change::Replace(_), Some(before)) => ProposedChange::Replace {
            spec: Box::new(before.clone()),
        },
        // One of the configuration file is still listed, and starts again.
        (Change::Delete(_), Some(_)) if here.pipeline(pipeline.as_str()).is_some() => {
            ProposedChange::Resume { pipeline }
        }
        (Change::Delete(_), Some(before)) => ProposedChange::Deploy {
            spec: Box::new(before.clone()),
        },
        (Change::Pause { .. }, Some(before)) if !before.paused => {
            ProposedChange::Resume { pipeline }
        }
        (Change::Resume(_), Some(before)) if before.paused => ProposedChange::Pause {
            pipeline,
            until: None,
        },
        (
            Change::Deploy(_)
            | Change::Replace(_)
            | Change::Delete(_)
            | Change::Pause { .. }
            | Change::Resume(_),
            _,
        ) => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_plain::Plain;

    use super::super::conversation::{Reply, SessionState};
    use super::super::snapshot::testing::{situation, status};
    use super::*;

    const WATCH: &str = "tell me when a person crosses the vertical line at 50% on camera gate";

    /// The box with one watch, as a session left it that asked for it.
    fn watched(talk: &mut SessionState, plain: &Plain) -> SystemSnapshot {
        let mut here = situation();
        talk.handle(WATCH, plain, &here);
        let Reply::Apply(offer) = talk.handle("yes", plain, &here) else {
            panic!("no watch");
        };
        let Some(Change::Deploy(spec)) = offer.proposal.changes.first() else {
            panic!("{offer:#?}");
        };
        here.pipelines.push(status(spec));
        here
    }

    /// The changes that "undo that" proposes and a yes applies.
    fn undone(talk: &mut SessionState, plain: &Plain, here: &SystemSnapshot) -> Vec<Change> {
        let reply = talk.handle("Undo that.", plain, here);
        assert!(matches!(reply, Reply::Proposal(_)), "{reply:#?}");
        match talk.handle("yes", plain, here) {
            Reply::Apply(offer) => offer.proposal.changes,
            reply => panic!("{reply:#?}"),
        }
    }

    #[test]
    fn undo_proposes_the_opposite_of_what_was_confirmed_last() {
        let plain = Plain::new().unwrap();
        let mut talk = SessionState::default();
        let here = watched(&mut talk, &plain);
        let before = here.pipelines[0].spec.clone();
        let changes = undone(&mut talk.clone(), &plain, &here);
        assert_eq!(changes, [Change::Delete(before.id.clone())]);

        let confirm = |text: &str| {
            let mut talk = talk.clone();
            talk.handle(text, &plain, &here);
            let reply = talk.handle("yes", &plain, &here);
            assert!(matches!(reply, Reply::Apply(_)), "{text}: {reply:#?}");
            talk
        };
        let mut paused = here.clone();
        paused.pipelines[0].spec.paused = true;
        let changes = undone(&mut confirm("pause gate"), &plain, &paused);
        assert_eq!(changes, [Change::Resume(before.id.clone())]);

        let mut gone = here.clone();
        gone.pipelines.clear();
        let changes = undone(&mut confirm("delete gate"), &plain, &gone);
        assert_eq!(changes, [Change::Deploy(Box::new(before.clone()))]);

        let mut changed = here.clone();
        changed.pipelines[0].spec.record = !before.record;
        let mut talk = confirm("change the gate watch to confidence 0.6");
        let changes = undone(&mut talk, &plain, &changed);
        assert_eq!(changes, [Change::Replace(Box::new(before))]);
    }

    #[test]
    fn undo_without_change_names_audit_log_and_keeps_proposal() {
        let plain = Plain::new().unwrap();
        let here = situation();
        let mut talk = SessionState::default();
        for waits in [false, true] {
            let reply = talk.handle("undo that", &plain, &here);
            let Reply::Unknown(unknown) = reply else {
                panic!("{reply:#?}");
            };
            assert!(unknown.text.contains("`watchkeeper audit`"), "{unknown:?}");
            assert_eq!(unknown.text.contains("still waits"), waits);
            talk.handle(WATCH, &plain, &here);
        }
        // What was not confirmed is not undone.
        talk.handle("no", &plain, &here);
        let reply = talk.handle("undo that", &plain, &here);
        assert!(matches!(reply, Reply::Unknown(_)), "{reply:#?}");
    }
}
