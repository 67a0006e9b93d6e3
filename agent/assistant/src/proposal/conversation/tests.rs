//! Replies of a session, and the effect of a yes.

use std::sync::LazyLock;

use jiff::ToSpan as _;
use proptest::prelude::*;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_memory::Kind;
use watchkeeper_plain::Change;

use super::super::snapshot::testing::{situation, status};
use super::super::trial::TrialResult;
use super::*;

/// Created once: reading the lexicon costs more than a request.
static PLAIN: LazyLock<Plain> = LazyLock::new(|| Plain::new().unwrap());

const COUNT: &str = "tell me when a person crosses the vertical line at 50% on camera gate";

fn hear(talk: &mut SessionState, text: &str, here: &SystemSnapshot) -> Reply {
    talk.handle(text, &PLAIN, here)
}

fn offer(reply: Reply) -> CheckedProposal {
    match reply {
        Reply::Proposal(offer) => *offer,
        other => panic!("{other:#?}"),
    }
}

fn applied(reply: Reply) -> CheckedProposal {
    match reply {
        Reply::Apply(offer) => *offer,
        other => panic!("{other:#?}"),
    }
}

/// The box after this proposal was applied.
fn after(offer: &CheckedProposal, mut here: SystemSnapshot) -> SystemSnapshot {
    for change in &offer.proposal.changes {
        match change {
            Change::Deploy(spec) | Change::Replace(spec) => {
                here.pipelines.retain(|p| p.spec.id != spec.id);
                here.pipelines.push(status(spec));
            }
            Change::Delete(id) => here.pipelines.retain(|p| p.spec.id != *id),
            Change::Pause { pipeline: id, .. } | Change::Resume(id) => {
                let pauses = matches!(change, Change::Pause { .. });
                for runs in here.pipelines.iter_mut().filter(|p| p.spec.id == *id) {
                    let spec = PipelineSpec {
                        paused: pauses,
                        ..runs.spec.clone()
                    };
                    *runs = status(&spec);
                }
            }
        }
    }
    here
}

/// The box with the watch of [`COUNT`].
fn watched() -> SystemSnapshot {
    let here = situation();
    let offer = offer(hear(&mut SessionState::default(), COUNT, &here));
    after(&offer, here)
}

#[test]
fn auto_approval_confirms_only_its_unchanged_proposal() {
    use watchkeeper_config::{ChangeKind, PermissionsConfig};

    use super::super::auto_approval::{ApprovalRules, Author};
    use crate::permissions::Entrypoint;

    let config = PermissionsConfig {
        chat: ChangeKind::ALL.to_vec(),
        ..PermissionsConfig::default()
    };
    let policy = ApprovalRules::for_entrypoint(&config, Entrypoint::Chat);
    let permit = |offer: &CheckedProposal| policy.decide(offer, Author::Person).unwrap();
    let here = situation();
    let mut talk = SessionState::default();
    let first = permit(&offer(hear(&mut talk, COUNT, &here)));
    let other = "count cars on camera dock";
    offer(hear(&mut talk, other, &here));
    assert_eq!(
        talk.auto_confirm(&first, &PLAIN, &here),
        Reply::NothingPending
    );
    assert_eq!(talk.shown().unwrap().request, other, "it still waits");

    let shown = offer(hear(&mut talk, COUNT, &here));
    let applied = applied(talk.auto_confirm(&permit(&shown), &PLAIN, &here));
    assert_eq!(applied.fingerprint(), shown.fingerprint());
    assert!(talk.shown().is_none());

    let shown = offer(hear(&mut talk, COUNT, &here));
    let meanwhile = after(&shown, here);
    let reply = talk.auto_confirm(&permit(&shown), &PLAIN, &meanwhile);
    assert!(!matches!(reply, Reply::Apply(_)), "{reply:#?}");
}

#[test]
fn trial_is_kept_and_leaves_the_fingerprint() {
    let here = situation();
    let mut talk = SessionState::default();
    let shown = offer(hear(&mut talk, COUNT, &here));
    let Some(Change::Deploy(spec)) = shown.proposal.changes.first() else {
        panic!("{shown:#?}");
    };
    let trials = vec![TrialResult {
        not_tried: Some("gate is away".to_owned()),
        not_replayed: Some("there is no history of motion on gate yet".to_owned()),
        ..TrialResult::new(spec)
    }];
    talk.set_trials(&trials);
    assert!(talk.shown().unwrap().is_of(&shown));
    let applied = applied(hear(&mut talk, "yes", &here));
    assert_eq!(applied.trials, trials);
    let lines = applied.lines().join("\n");
    for line in [
        "not tried on gate: gate is away",
        "not replayed on the last hours of gate: there is no history of motion",
    ] {
        assert!(lines.contains(line), "{lines}");
    }
}

#[test]
fn shown_proposal_is_applied_once() {
    let here = situation();
    let mut talk = SessionState::default();
    let shown = offer(hear(&mut talk, COUNT, &here));
    assert!(
        shown
            .lines()
            .join("\n")
            .contains("+ gate-person-crosses on gate is new"),
        "{:#?}",
        shown.lines()
    );
    assert_eq!(applied(hear(&mut talk, " Yes. ", &here)), shown);
    assert_eq!(hear(&mut talk, "yes", &here), Reply::NothingPending);
}

#[test]
fn no_and_qualified_yes_change_nothing() {
    let here = situation();
    for text in ["y e s", "certainly"] {
        let mut talk = SessionState::default();
        let shown = offer(hear(&mut talk, COUNT, &here));
        let reply = hear(&mut talk, text, &here);
        assert!(matches!(reply, Reply::Unknown(_)), "{text}: {reply:#?}");
        assert_eq!(applied(hear(&mut talk, "yes", &here)), shown, "{text}");
    }
    for text in ["no", "Cancel!", "yes but only at night"] {
        let mut talk = SessionState::default();
        offer(hear(&mut talk, COUNT, &here));
        let reply = hear(&mut talk, text, &here);
        assert!(!matches!(reply, Reply::Apply(_)), "{text}");
        assert!(
            !matches!(hear(&mut talk, "yes", &here), Reply::Apply(offer) if offer.full_request() == COUNT),
            "{text}"
        );
    }
}

#[test]
fn correction_concerns_what_was_just_talked_about() {
    let here = watched();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, COUNT, &here));
    let set_up = applied(hear(&mut talk, "yes", &here));
    let id = set_up.proposal.changes[0].pipeline().clone();
    let later = after(&set_up, here.clone());
    let changed = offer(hear(&mut talk, "make it confidence 0.6", &later));
    assert_eq!(*changed.proposal.changes[0].pipeline(), id);
    // It still does after a no.
    hear(&mut talk, "no", &later);
    for text in ["make it confidence 0.7", "delete it"] {
        let changed = offer(hear(&mut talk, text, &later));
        assert_eq!(*changed.proposal.changes[0].pipeline(), id, "{text}");
        hear(&mut talk, "no", &later);
    }
    // It is the watch that was stopped, too.
    hear(&mut talk, "stop it", &later);
    applied(hear(&mut talk, "yes", &later));
    let mut paused = later.clone();
    let mut stopped = paused.pipelines.iter_mut();
    stopped.find(|p| p.spec.id == id).unwrap().spec.paused = true;
    for text in ["start it again", "delete it"] {
        let changed = offer(hear(&mut talk, text, &paused));
        assert_eq!(*changed.proposal.changes[0].pipeline(), id, "{text}");
        hear(&mut talk, "no", &paused);
    }
    // After a request that failed it concerns no other watch.
    let mut talk = SessionState::default();
    let failed = hear(&mut talk, "tell me when a red car is on camera gate", &here);
    assert!(matches!(failed, Reply::Unknown(_)), "{failed:#?}");
    let reply = hear(&mut talk, "make it confidence 0.6", &here);
    assert!(!matches!(reply, Reply::Proposal(_)), "{reply:#?}");
    // Once another request was understood, it is no longer the last one.
    for since in [&["pause gate", "no"][..], &["list the cameras"]] {
        let mut talk = SessionState::default();
        hear(&mut talk, "tell me when a red car is on camera gate", &here);
        for text in since {
            hear(&mut talk, text, &here);
        }
        let reply = hear(&mut talk, "make it confidence 0.6", &here);
        assert!(matches!(reply, Reply::Proposal(_)), "{since:?}: {reply:#?}");
    }
}

#[test]
fn look_up_keeps_and_request_drops_the_proposal() {
    let here = watched();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, "pause gate", &here));
    assert!(matches!(
        hear(&mut talk, "list cameras", &here),
        Reply::Look(_)
    ));
    assert!(talk.shown().is_some());
    offer(hear(&mut talk, "delete gate", &here));
    assert_eq!(
        applied(hear(&mut talk, "do it", &here)).request,
        "delete gate"
    );
}

#[test]
fn changed_pipeline_needs_a_second_yes() {
    let here = watched();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, "delete gate", &here));
    let mut later = here.clone();
    later.pipelines[0].spec.record = true;
    let Reply::ChangedProposal(changed) = hear(&mut talk, "yes", &later) else {
        panic!("no new proposal");
    };
    assert_eq!(applied(hear(&mut talk, "yes", &later)), *changed);
}

#[test]
fn proposal_for_a_deleted_pipeline_is_not_applied() {
    let here = watched();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, "delete gate", &here));
    let reply = hear(&mut talk, "yes", &situation());
    assert!(matches!(reply, Reply::Ask(_)), "{reply:#?}");
}

#[test]
fn new_counters_do_not_change_the_proposal() {
    let here = watched();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, "pause gate", &here));
    let mut later = here.clone();
    later.pipelines[0].results.frames += 100;
    later.now = later.now.checked_add(10.minutes()).unwrap();
    applied(hear(&mut talk, "yes", &later));
}

#[test]
fn expired_proposal_needs_a_second_yes() {
    let here = situation();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, COUNT, &here));
    let mut later = here.clone();
    later.now = later
        .now
        .checked_add((CONFIRM_TIMEOUT_S + 1).seconds())
        .unwrap();
    assert!(matches!(
        hear(&mut talk, "yes", &later),
        Reply::ChangedProposal(_)
    ));
    // A clock that was set back does not make the proposal fresh.
    let mut talk = SessionState::default();
    offer(hear(&mut talk, COUNT, &here));
    later.now = here.now.checked_sub(1.hour()).unwrap();
    assert!(matches!(
        hear(&mut talk, "yes", &later),
        Reply::ChangedProposal(_)
    ));
}

#[test]
fn answered_question_becomes_a_proposal() {
    let here = situation();
    let mut talk = SessionState::default();
    let reply = hear(
        &mut talk,
        "tell me when a person crosses the vertical line at 50%",
        &here,
    );
    let Reply::Ask(question) = reply else {
        panic!("{reply:#?}");
    };
    assert_eq!(question.about, Missing::Camera);
    // A useless answer leaves the question unchanged.
    assert!(!matches!(
        hear(&mut talk, "blue", &here),
        Reply::Proposal(_)
    ));
    let offer = offer(hear(&mut talk, "gate", &here));
    assert!(offer.proposal.understood.contains("On camera gate"));
    applied(hear(&mut talk, "yes", &here));
}

#[test]
fn next_request_drops_an_open_question() {
    let here = watched();
    let mut talk = SessionState::default();
    let reply = hear(&mut talk, "tell me when a person appears", &here);
    assert!(matches!(reply, Reply::Ask(_)), "{reply:#?}");
    let offer = offer(hear(&mut talk, "pause gate", &here));
    assert!(offer.proposal.understood.starts_with("Pause"));
    let mut talk = SessionState::default();
    hear(&mut talk, "tell me when a person appears", &here);
    assert_eq!(hear(&mut talk, "never mind", &here), Reply::Dropped);
    assert_eq!(talk, SessionState::default());
}

#[test]
fn yes_is_no_answer_and_a_refused_request_drops_the_question() {
    let here = watched();
    let mut talk = SessionState::default();
    let asked = hear(
        &mut talk,
        "tell me when a person is at the fence of the gate",
        &here,
    );
    assert!(matches!(asked, Reply::Ask(_)), "{asked:#?}");
    assert_eq!(hear(&mut talk, "yes", &here), asked);
    let Reply::Unknown(unknown) = hear(&mut talk, "purple", &here) else {
        panic!("purple is no place");
    };
    assert_eq!(unknown.not_understood, ["purple"]);
    assert!(
        unknown
            .text
            .starts_with("\"purple\" is not an answer. Where"),
        "{unknown:?}"
    );
    let refused = hear(&mut talk, "tell me when a red car is on camera gate", &here);
    let Reply::Unknown(unknown) = refused else {
        panic!("{refused:#?}");
    };
    assert_eq!(unknown.not_understood, ["red"]);
    assert!(talk.question().is_none());
}

#[test]
fn second_text_that_is_no_answer_ends_the_question() {
    let here = watched();
    let mut talk = SessionState::default();
    let asked = hear(
        &mut talk,
        "tell me when a person is at the fence of the gate",
        &here,
    );
    assert!(matches!(asked, Reply::Ask(_)), "{asked:#?}");
    for (text, still_asked) in [("purple", true), ("maybe", false)] {
        let Reply::Unknown(unknown) = hear(&mut talk, text, &here) else {
            panic!("{text} is no place");
        };
        assert!(unknown.text.contains("is not an answer"), "{unknown:?}");
        assert_eq!(talk.question().is_some(), still_asked, "{text}");
    }
}

#[test]
fn yes_applies_the_corrected_proposal() {
    let here = watched();
    let mut talk = SessionState::default();
    let waits = "tell me when a person waits in the left half on camera gate for 2 minutes";
    let first = offer(hear(&mut talk, waits, &here));
    let second = offer(hear(&mut talk, "make it 30 seconds", &here));
    assert_ne!(first.fingerprint(), second.fingerprint());
    let third = offer(hear(&mut talk, "no, for cars", &here));
    assert_eq!(
        third.full_request(),
        format!("{waits} – make it 30 seconds – no, for cars")
    );
    let [Change::Deploy(spec)] = &third.proposal.changes[..] else {
        panic!("{:#?}", third.proposal.changes);
    };
    assert!(spec.workflow.to_string().contains("\"car\""));
    let applied = applied(hear(&mut talk, "yes", &here));
    assert_eq!(applied.fingerprint(), third.fingerprint());
    assert_eq!(hear(&mut talk, "yes", &here), Reply::NothingPending);
}

#[test]
fn unknown_correction_leaves_the_last_shown_proposal_waiting() {
    let here = watched();
    for correction in [
        "make it faster",
        "change the colour",
        "no more than 5 of them",
        "only when it rains",
    ] {
        let mut talk = SessionState::default();
        offer(hear(&mut talk, COUNT, &here));
        let shown = offer(hear(&mut talk, "only at night", &here));
        let said = match hear(&mut talk, correction, &here) {
            Reply::Unknown(unknown) => unknown.text,
            Reply::Ask(question) => question.text,
            reply => panic!("{correction}: {reply:#?}"),
        };
        assert!(
            said.contains(&format!("\"{COUNT} – only at night\" still waits")),
            "{correction}: {said}"
        );
        // A yes confirms what was shown last.
        let applied = applied(hear(&mut talk, "yes", &here));
        assert_eq!(applied.fingerprint(), shown.fingerprint(), "{correction}");
    }
}

#[test]
fn text_that_is_not_understood_leaves_the_proposal() {
    let here = watched();
    for text in [
        "what will that do",
        "any time of day please",
        "forget the sundays",
        "no, tell me about each",
        "yes, and stop everything else too",
        "tell me when a red car is on camera gate",
    ] {
        for by_model in [false, true] {
            let mut talk = SessionState::default();
            let shown = offer(match by_model {
                true => talk.propose_by_llm("räum auf", llm_proposal(&here), &here),
                false => hear(&mut talk, COUNT, &here),
            });
            let said = match hear(&mut talk, text, &here) {
                Reply::Unknown(unknown) => unknown.text,
                Reply::Ask(question) => question.text,
                reply => panic!("{text}: {reply:#?}"),
            };
            assert!(said.contains("still waits for a yes"), "{text}: {said}");
            let applied = applied(hear(&mut talk, "yes", &here));
            assert_eq!(applied.fingerprint(), shown.fingerprint(), "{text}");
        }
    }
    // An hour later it waits no longer.
    let mut talk = SessionState::default();
    offer(hear(&mut talk, COUNT, &here));
    let mut later = here;
    later.now = later.now.checked_add(2.hours()).unwrap();
    hear(&mut talk, "forget the sundays", &later);
    assert_eq!(hear(&mut talk, "yes", &later), Reply::NothingPending);
}

#[test]
fn corrections_are_stored_for_another_process() {
    let here = situation();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, COUNT, &here));
    let shown = offer(hear(&mut talk, "only at night", &here));
    let kept = serde_json::to_string(talk.shown().unwrap()).unwrap();
    let mut other = SessionState::default();
    other.wait_for(serde_json::from_str(&kept).unwrap());
    let applied = applied(hear(&mut other, "yes", &here));
    assert_eq!(applied.fingerprint(), shown.fingerprint());
    // A changed proposal is shown with its corrections.
    let mut late = SessionState::default();
    late.wait_for(serde_json::from_str(&kept).unwrap());
    let Reply::ChangedProposal(changed) = hear(&mut late, "yes", &after(&applied, here)) else {
        panic!("no new proposal");
    };
    assert_eq!(changed.corrections, ["only at night"]);
}

#[test]
fn listed_choice_is_an_answer() {
    let mut here = watched();
    let mut other = here.pipelines[0].spec.clone();
    other.id = "cameras".parse().unwrap();
    here.pipelines.push(status(&other));
    let mut talk = SessionState::default();
    let Reply::Ask(asked) = hear(&mut talk, "pause it for an hour", &here) else {
        panic!("no question");
    };
    assert!(asked.choices.contains(&"cameras".to_owned()));
    let paused = offer(hear(&mut talk, "cameras", &here));
    assert!(
        matches!(&paused.proposal.changes[..], [Change::Pause { pipeline, .. }] if pipeline.as_str() == "cameras"),
        "{:#?}",
        paused.proposal.changes
    );
}

#[test]
fn unseen_camera_is_probed_before_a_question() {
    let mut here = situation();
    here.cameras_probed = false;
    let mut talk = SessionState::default();
    let text = "tell me when a person crosses the vertical line at 50% on camera dock";
    let Reply::ProbeCameras(cameras) = hear(&mut talk, text, &here) else {
        panic!("the camera was not probed");
    };
    assert_eq!(cameras, [SourceId::new("dock").unwrap()]);
    here.cameras_probed = true;
    let Reply::Ask(question) = hear(&mut talk, text, &here) else {
        panic!("there is no picture to place a line in");
    };
    assert_eq!(question.about, Missing::Picture);
    here.sources[1].size = Some([640, 480]);
    offer(hear(&mut talk, text, &here));
}

#[test]
fn pause_shows_its_end() {
    let here = watched();
    let offer = offer(hear(
        &mut SessionState::default(),
        "pause gate until 8 tomorrow",
        &here,
    ));
    assert!(offer.is_complete());
    let lines = offer.lines().join("\n");
    assert!(
        lines.contains("Until ") && lines.contains(" 08:00"),
        "{lines}"
    );
}

#[test]
fn request_without_effect_is_invalid() {
    let mut here = watched();
    here.pipelines[0].spec.paused = true;
    let reply = hear(&mut SessionState::default(), "pause gate", &here);
    let Reply::Invalid(_, why) = reply else {
        panic!("{reply:#?}");
    };
    assert_eq!(why, "it would change nothing");
}

/// A proposal of an LLM: to stop the running pipeline.
fn llm_proposal(here: &SystemSnapshot) -> LlmProposal {
    LlmProposal {
        model: "m".to_owned(),
        says: "Only counts cars.".to_owned(),
        changes: vec![crate::proposal::llm_proposal::ProposedChange::Stop {
            pipeline: here.pipelines[0].spec.id.clone(),
        }],
        ..LlmProposal::default()
    }
}

#[test]
fn llm_proposal_is_applied_once_after_a_yes() {
    let here = watched();
    let mut talk = SessionState::default();
    let offered = offer(talk.propose_by_llm("räum auf", llm_proposal(&here), &here));
    assert_eq!(talk.shown(), Some(&ShownProposal::from_proposal(&offered)));
    let lines = offered.lines().join("\n");
    for part in [
        "m proposes: Only counts cars.",
        "details:",
        "is stopped and deleted",
    ] {
        assert!(lines.contains(part), "{part}: {lines}");
    }
    assert!(!matches!(
        hear(&mut talk, "yes but later", &here),
        Reply::Apply(_)
    ));
    talk.propose_by_llm("räum auf", llm_proposal(&here), &here);
    assert_eq!(applied(hear(&mut talk, "yes", &here)), offered);
    assert!(!matches!(hear(&mut talk, "yes", &here), Reply::Apply(_)));
}

#[test]
fn rechecked_llm_proposal_keeps_its_trials() {
    let here = watched();
    let mut talk = SessionState::default();
    let mut offered = offer(talk.propose_by_llm("räum auf", llm_proposal(&here), &here));
    offered.trials = vec![TrialResult::new(&here.pipelines[0].spec)];
    let shown = ShownProposal::from_proposal(&offered);
    let again = shown.recheck(&PLAIN, &here).unwrap();
    assert_eq!(again.trials, offered.trials);
    assert!(shown.is_of(&again));
}

#[test]
fn outdated_llm_proposal_needs_a_second_yes() {
    let here = watched();
    let mut talk = SessionState::default();
    talk.propose_by_llm("räum auf", llm_proposal(&here), &here);
    let mut later = here.clone();
    later.pipelines[0].spec.record = true;
    let Reply::ChangedProposal(changed) = hear(&mut talk, "yes", &later) else {
        panic!("no new proposal");
    };
    assert_eq!(applied(hear(&mut talk, "yes", &later)), *changed);
    talk.propose_by_llm("räum auf", llm_proposal(&here), &here);
    later.now = later
        .now
        .checked_add((CONFIRM_TIMEOUT_S + 1).seconds())
        .unwrap();
    assert!(matches!(
        hear(&mut talk, "yes", &later),
        Reply::ChangedProposal(_)
    ));
    // The pipeline is deleted: nothing can be confirmed.
    talk.propose_by_llm("räum auf", llm_proposal(&here), &here);
    assert!(matches!(
        hear(&mut talk, "yes", &situation()),
        Reply::Invalid(..)
    ));
    assert_eq!(talk.shown(), None);
}

#[test]
fn llm_answer_drops_the_proposal() {
    let here = watched();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, "pause gate", &here));
    assert_eq!(
        talk.answer("yes".to_owned(), true),
        Reply::Answer {
            text: "yes".to_owned(),
            is_by_model: true
        }
    );
    assert_eq!(hear(&mut talk, "yes", &here), Reply::NothingPending);
}

#[test]
fn note_is_a_preference_or_knowledge() {
    let here = situation();
    let kept = |text: &str| match hear(&mut SessionState::default(), text, &here) {
        Reply::Remember(kind, words) => (kind, words),
        other => panic!("{text}: {other:#?}"),
    };
    assert_eq!(
        kept("Remember that the dock is the left half"),
        (Kind::Knowledge, "the dock is the left half".to_owned())
    );
    assert_eq!(
        kept("remember: we never want alerts on Sundays").0,
        Kind::Preference
    );
    for text in [
        "Note: the white van is our baker",
        "note that the white van is our baker",
    ] {
        assert_eq!(
            kept(text),
            (Kind::Knowledge, "the white van is our baker".to_owned()),
            "{text}"
        );
    }
    for text in ["remember", "note", "note the dock"] {
        assert!(
            !matches!(
                hear(&mut SessionState::default(), text, &here),
                Reply::Remember(..)
            ),
            "{text}"
        );
    }
}

/// Texts of users, and random ones.
fn text() -> impl Strategy<Value = String> {
    let said = prop::sample::select(vec![
        COUNT,
        "stop everything",
        "pause gate",
        "resume gate",
        "change the gate watch to only cars",
        "count cars on camera gate",
        "tell me when somebody stays in the left half",
        "gate",
        "for two minutes",
        "list cameras",
        "what happened last night",
        "remember that I like dogs",
        "make it 30 seconds",
        "no, for cars",
        "yes",
        "OK",
        "no",
        "yes please stop everything",
        "",
    ]);
    prop_oneof![4 => said.prop_map(str::to_owned), 1 => ".{0,80}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn only_shown_and_confirmed_proposals_are_applied(
        turns in prop::collection::vec((text(), 0..4_u8), 1..14),
    ) {
        let mut here = situation();
        let mut talk = SessionState::default();
        let mut shown: Option<CheckedProposal> = None;
        for (text, meanwhile) in turns {
            // Another user changes something between two texts.
            match (meanwhile, here.pipelines.first_mut()) {
                (1, Some(runs)) => runs.spec.record = !runs.spec.record,
                (2, _) => here.pipelines.clear(),
                _ => {}
            }
            let before = talk.shown().cloned();
            let reply = hear(&mut talk, &text, &here);
            match reply {
                Reply::Apply(offer) => {
                    let plain: String = text.to_lowercase().chars().filter(|c| c.is_alphabetic()).collect();
                    prop_assert!(["yes", "ok", "y"].contains(&plain.as_str()), "{text:?} is no yes");
                    prop_assert_eq!(before, Some(ShownProposal::from_proposal(&offer)));
                    prop_assert_eq!(Some(&*offer), shown.as_ref());
                    prop_assert_eq!(talk.shown(), None);
                    here = after(&offer, here);
                    shown = None;
                }
                Reply::Proposal(offer) | Reply::ChangedProposal(offer) => {
                    prop_assert_eq!(talk.shown(), Some(&ShownProposal::from_proposal(&offer)));
                    prop_assert_eq!(offer.invalid_reason(), None);
                    shown = Some(*offer);
                }
                // A correction that is not understood says that the last proposal still waits.
                Reply::Unknown(Unknown { text, .. }) | Reply::Ask(Question { text, .. })
                    if text.contains("still waits") =>
                {
                    prop_assert!(before.is_some());
                    prop_assert_eq!(talk.shown().cloned(), before);
                }
                Reply::Look(_) | Reply::Remember(..) | Reply::Empty => {
                    prop_assert_eq!(talk.shown().cloned(), before);
                }
                _ => prop_assert_eq!(talk.shown(), None),
            }
        }
    }
}

#[test]
fn order_that_is_complete_by_itself_wins_over_an_open_question() {
    let here = watched();
    for order in ["pause it", "delete that watch"] {
        let mut talk = SessionState::default();
        let asked = hear(
            &mut talk,
            "tell me when somebody loiters on camera gate",
            &here,
        );
        assert!(matches!(asked, Reply::Ask(_)), "{asked:#?}");
        let offer = offer(hear(&mut talk, order, &here));
        assert!(
            matches!(
                offer.proposal.changes.as_slice(),
                [Change::Pause { .. } | Change::Delete(_)]
            ),
            "{order}: {:#?}",
            offer.proposal.changes
        );
    }
    // One that asks which it means is asked about, and the question before it is gone.
    let mut two = watched();
    let mut spec = two.pipelines[0].spec.clone();
    spec.id = "second".parse().unwrap();
    two.pipelines.push(status(&spec));
    let mut talk = SessionState::default();
    hear(
        &mut talk,
        "tell me when somebody loiters on camera gate",
        &two,
    );
    let reply = hear(&mut talk, "pause it", &two);
    assert!(
        matches!(&reply, Reply::Ask(question) if question.about == Missing::Pipeline),
        "{reply:#?}"
    );
}
