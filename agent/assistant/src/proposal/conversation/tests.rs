//! What is said back, and what a yes does.

use std::sync::LazyLock;

use jiff::ToSpan as _;
use proptest::prelude::*;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_plain::Change;

use super::super::snapshot::testing::{situation, status};
use super::*;

/// Made once: reading the words costs more than a request.
static PLAIN: LazyLock<Plain> = LazyLock::new(|| Plain::new().unwrap());

const COUNT: &str = "tell me when a person crosses the vertical line at 50% on camera gate";

fn hear(talk: &mut SessionState, text: &str, here: &SystemSnapshot) -> Reply {
    talk.hear(text, &PLAIN, here)
}

fn offer(reply: Reply) -> CheckedProposal {
    match reply {
        Reply::Offer(offer) => *offer,
        other => panic!("{other:#?}"),
    }
}

fn applied(reply: Reply) -> CheckedProposal {
    match reply {
        Reply::Apply(offer) => *offer,
        other => panic!("{other:#?}"),
    }
}

/// The box after this offer was carried out.
fn after(offer: &CheckedProposal, mut here: SystemSnapshot) -> SystemSnapshot {
    for change in &offer.proposal.changes {
        match change {
            Change::Deploy(spec) | Change::Replace(spec) => {
                here.pipelines.retain(|p| p.spec.id != spec.id);
                here.pipelines.push(status(spec));
            }
            Change::Stop(id) => here.pipelines.retain(|p| p.spec.id != *id),
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
fn a_permit_is_for_the_offer_that_it_was_given_for_and_what_runs_is_compared_as_on_a_yes() {
    use watchkeeper_config::{ChangeKind, PermissionsConfig};

    use super::super::auto_approval::{ApprovalDecision, ApprovalRules, Author};
    use crate::permissions::Entrypoint;

    let config = PermissionsConfig {
        chat: ChangeKind::ALL.to_vec(),
        ..PermissionsConfig::default()
    };
    let policy = ApprovalRules::of(&config, Entrypoint::Chat);
    let permit = |offer: &CheckedProposal| match policy.decide(offer, Author::Persons) {
        ApprovalDecision::Confirmed(permit) => permit,
        ApprovalDecision::Asks(why) => panic!("{why}"),
    };
    let here = situation();
    let mut talk = SessionState::default();
    let first = permit(&offer(hear(&mut talk, COUNT, &here)));
    let other = "count cars on camera dock";
    offer(hear(&mut talk, other, &here));
    assert_eq!(talk.permitted(&first, &PLAIN, &here), Reply::NothingWaits);
    assert_eq!(talk.shown().unwrap().request, other, "it goes on waiting");

    let shown = offer(hear(&mut talk, COUNT, &here));
    let applied = applied(talk.permitted(&permit(&shown), &PLAIN, &here));
    assert_eq!(applied.mark(), shown.mark());
    assert!(talk.shown().is_none());

    let shown = offer(hear(&mut talk, COUNT, &here));
    let meanwhile = after(&shown, here);
    let reply = talk.permitted(&permit(&shown), &PLAIN, &meanwhile);
    assert!(!matches!(reply, Reply::Apply(_)), "{reply:#?}");
}

#[test]
fn what_was_seen_in_a_trial_stays_with_the_offer_and_makes_no_other_one_of_it() {
    let here = situation();
    let mut talk = SessionState::default();
    let shown = offer(hear(&mut talk, COUNT, &here));
    let Some(Change::Deploy(spec)) = shown.proposal.changes.first() else {
        panic!("{shown:#?}");
    };
    let tried = vec![TrialResult {
        not_tried: Some("gate is away".to_owned()),
        ..TrialResult::new(spec)
    }];
    talk.tried(&tried);
    assert_eq!(talk.shown().unwrap().mark, shown.mark());
    let applied = applied(hear(&mut talk, "yes", &here));
    assert_eq!(applied.tried, tried);
    assert!(
        applied
            .lines()
            .join("\n")
            .contains("not tried on gate: gate is away")
    );
}

#[test]
fn what_was_shown_is_what_is_applied_and_only_once() {
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
    assert_eq!(hear(&mut talk, "yes", &here), Reply::NothingWaits);
}

#[test]
fn a_no_and_a_yes_with_more_behind_it_change_nothing() {
    let here = situation();
    for text in [
        "no",
        "Cancel!",
        "yes but only at night",
        "yes, and stop everything else too",
        "y e s",
        "certainly",
    ] {
        let mut talk = SessionState::default();
        offer(hear(&mut talk, COUNT, &here));
        let reply = hear(&mut talk, text, &here);
        assert!(!matches!(reply, Reply::Apply(_)), "{text}");
        assert!(
            !matches!(hear(&mut talk, "yes", &here), Reply::Apply(offer) if offer.words() == COUNT),
            "{text}"
        );
    }
}

#[test]
fn a_look_up_leaves_the_offer_waiting_and_another_request_puts_it_aside() {
    let here = watched();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, "pause gate", &here));
    assert!(matches!(
        hear(&mut talk, "list cameras", &here),
        Reply::Look(_)
    ));
    assert!(talk.shown().is_some());
    offer(hear(&mut talk, "stop gate", &here));
    assert_eq!(
        applied(hear(&mut talk, "do it", &here)).request,
        "stop gate"
    );
}

#[test]
fn an_offer_whose_pipeline_has_changed_since_is_shown_anew_and_then_applied() {
    let here = watched();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, "stop gate", &here));
    let mut later = here.clone();
    later.pipelines[0].spec.record = true;
    let Reply::Anew(anew) = hear(&mut talk, "yes", &later) else {
        panic!("it was not shown anew");
    };
    assert_eq!(applied(hear(&mut talk, "yes", &later)), *anew);
}

#[test]
fn an_offer_for_what_is_gone_can_not_be_applied() {
    let here = watched();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, "stop gate", &here));
    let reply = hear(&mut talk, "yes", &situation());
    assert!(matches!(reply, Reply::Ask(_)), "{reply:#?}");
}

#[test]
fn counters_and_states_that_go_on_meanwhile_are_no_change() {
    let here = watched();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, "pause gate", &here));
    let mut later = here.clone();
    later.pipelines[0].results.frames += 100;
    later.now = later.now.checked_add(10.minutes()).unwrap();
    applied(hear(&mut talk, "yes", &later));
}

#[test]
fn a_yes_after_more_than_an_hour_is_asked_for_again() {
    let here = situation();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, COUNT, &here));
    let mut later = here.clone();
    later.now = later.now.checked_add((PATIENCE_S + 1).seconds()).unwrap();
    assert!(matches!(hear(&mut talk, "yes", &later), Reply::Anew(_)));
    // A clock that was set back is no reason to believe that no time has passed.
    let mut talk = SessionState::default();
    offer(hear(&mut talk, COUNT, &here));
    later.now = here.now.checked_sub(1.hour()).unwrap();
    assert!(matches!(hear(&mut talk, "yes", &later), Reply::Anew(_)));
}

#[test]
fn a_question_is_answered_in_few_words_and_nothing_is_done_before_the_yes() {
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
    // An answer that answers nothing leaves the question as it is.
    assert!(!matches!(hear(&mut talk, "blue", &here), Reply::Offer(_)));
    let offer = offer(hear(&mut talk, "gate", &here));
    assert!(offer.proposal.understood.contains("On camera gate"));
    applied(hear(&mut talk, "yes", &here));
}

#[test]
fn a_question_that_somebody_does_not_answer_is_left_for_the_next_request() {
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
fn a_correction_is_shown_anew_and_a_yes_is_to_what_it_says() {
    let here = watched();
    let mut talk = SessionState::default();
    let waits = "tell me when a person waits in the left half on camera gate for 2 minutes";
    let first = offer(hear(&mut talk, waits, &here));
    let second = offer(hear(&mut talk, "make it 30 seconds", &here));
    assert_ne!(first.mark(), second.mark());
    let third = offer(hear(&mut talk, "no, for cars", &here));
    assert_eq!(
        third.words(),
        format!("{waits} – make it 30 seconds – no, for cars")
    );
    let [Change::Deploy(spec)] = &third.proposal.changes[..] else {
        panic!("{:#?}", third.proposal.changes);
    };
    assert!(spec.workflow.to_string().contains("\"car\""));
    let applied = applied(hear(&mut talk, "yes", &here));
    assert_eq!(applied.mark(), third.mark());
    assert_eq!(hear(&mut talk, "yes", &here), Reply::NothingWaits);
}

#[test]
fn a_correction_that_is_not_understood_leaves_nothing_that_a_yes_could_do_and_touches_nothing_that_runs()
 {
    let here = watched();
    for correction in [
        "make it faster",
        "change the colour",
        "no more than 5 of them",
        "only when it rains",
    ] {
        let mut talk = SessionState::default();
        offer(hear(&mut talk, "count cars on camera dock", &here));
        let reply = hear(&mut talk, correction, &here);
        assert!(
            !matches!(reply, Reply::Offer(_) | Reply::Apply(_)),
            "{correction}: {reply:#?}"
        );
        assert!(talk.shown().is_none(), "{correction}");
    }
}

#[test]
fn what_was_corrected_is_kept_for_a_yes_in_another_process() {
    let here = situation();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, COUNT, &here));
    let shown = offer(hear(&mut talk, "only at night", &here));
    let kept = serde_json::to_string(talk.shown().unwrap()).unwrap();
    let mut other = SessionState::with(serde_json::from_str(&kept).unwrap());
    let applied = applied(hear(&mut other, "yes", &here));
    assert_eq!(applied.mark(), shown.mark());
    // What has changed meanwhile is shown with its corrections.
    let mut late = SessionState::with(serde_json::from_str(&kept).unwrap());
    let Reply::Anew(anew) = hear(&mut late, "yes", &after(&applied, here)) else {
        panic!("not shown anew");
    };
    assert_eq!(anew.corrections, ["only at night"]);
}

#[test]
fn one_of_the_answers_that_were_named_is_an_answer_whatever_it_means_by_itself() {
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
fn a_camera_that_nobody_has_seen_is_looked_at_before_a_question_is_asked() {
    let mut here = situation();
    here.looked = false;
    let mut talk = SessionState::default();
    let text = "tell me when a person crosses the vertical line at 50% on camera dock";
    let Reply::See(cameras) = hear(&mut talk, text, &here) else {
        panic!("it was not looked at");
    };
    assert_eq!(cameras, [SourceId::new("dock").unwrap()]);
    here.looked = true;
    let Reply::Ask(question) = hear(&mut talk, text, &here) else {
        panic!("there is no picture to place a line in");
    };
    assert_eq!(question.about, Missing::Picture);
    here.sources[1].size = Some([640, 480]);
    offer(hear(&mut talk, text, &here));
}

#[test]
fn a_pause_with_an_end_says_when_that_is() {
    let here = watched();
    let offer = offer(hear(
        &mut SessionState::default(),
        "pause gate until 8 tomorrow",
        &here,
    ));
    assert!(offer.is_whole());
    let lines = offer.lines().join("\n");
    assert!(
        lines.contains("Until ") && lines.contains(" 08:00"),
        "{lines}"
    );
}

#[test]
fn what_changes_nothing_is_not_offered() {
    let mut here = watched();
    here.pipelines[0].spec.paused = true;
    let reply = hear(&mut SessionState::default(), "pause gate", &here);
    let Reply::Unsound(_, why) = reply else {
        panic!("{reply:#?}");
    };
    assert_eq!(why, "it would change nothing");
}

/// What a model proposes: the end of the pipeline that runs.
fn made(here: &SystemSnapshot) -> LlmProposal {
    LlmProposal {
        model: "m".to_owned(),
        says: "Only counts cars.".to_owned(),
        assumed: Vec::new(),
        not_possible: Vec::new(),
        evidence: Vec::new(),
        changes: vec![crate::proposal::llm_proposal::ProposedChange::Stop {
            pipeline: here.pipelines[0].spec.id.clone(),
        }],
    }
}

#[test]
fn what_a_model_proposes_waits_for_the_same_yes_and_is_done_once() {
    let here = watched();
    let mut talk = SessionState::default();
    let offered = offer(talk.propose("räum auf", made(&here), &here));
    assert_eq!(talk.shown(), Some(&ShownProposal::of(&offered)));
    let lines = offered.lines().join("\n");
    for part in [
        "m proposes: Only counts cars.",
        "what it is:",
        "ends and is gone",
    ] {
        assert!(lines.contains(part), "{part}: {lines}");
    }
    assert!(!matches!(
        hear(&mut talk, "yes but later", &here),
        Reply::Apply(_)
    ));
    talk.propose("räum auf", made(&here), &here);
    assert_eq!(applied(hear(&mut talk, "yes", &here)), offered);
    assert!(!matches!(hear(&mut talk, "yes", &here), Reply::Apply(_)));
}

#[test]
fn what_a_model_proposed_for_what_has_changed_or_is_long_ago_is_shown_anew() {
    let here = watched();
    let mut talk = SessionState::default();
    talk.propose("räum auf", made(&here), &here);
    let mut later = here.clone();
    later.pipelines[0].spec.record = true;
    let Reply::Anew(anew) = hear(&mut talk, "yes", &later) else {
        panic!("it was not shown anew");
    };
    assert_eq!(applied(hear(&mut talk, "yes", &later)), *anew);
    talk.propose("räum auf", made(&here), &here);
    later.now = later.now.checked_add((PATIENCE_S + 1).seconds()).unwrap();
    assert!(matches!(hear(&mut talk, "yes", &later), Reply::Anew(_)));
    // What it was about is gone: there is nothing to confirm.
    talk.propose("räum auf", made(&here), &here);
    assert!(matches!(
        hear(&mut talk, "yes", &situation()),
        Reply::Unsound(..)
    ));
    assert_eq!(talk.shown(), None);
}

#[test]
fn a_models_last_word_leaves_nothing_that_a_yes_could_do() {
    let here = watched();
    let mut talk = SessionState::default();
    offer(hear(&mut talk, "pause gate", &here));
    assert_eq!(
        talk.answer("yes".to_owned()),
        Reply::Answer("yes".to_owned())
    );
    assert_eq!(hear(&mut talk, "yes", &here), Reply::NothingWaits);
}

#[test]
fn words_to_remember_are_a_wish_or_a_fact() {
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

/// What people say, besides anything.
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
    #[test]
    fn nothing_is_applied_but_what_was_shown_and_confirmed(
        turns in prop::collection::vec((text(), 0..4_u8), 1..14),
    ) {
        let mut here = situation();
        let mut talk = SessionState::default();
        let mut shown: Option<CheckedProposal> = None;
        for (text, meanwhile) in turns {
            // Somebody else changes something between two turns.
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
                    prop_assert_eq!(before, Some(ShownProposal::of(&offer)));
                    prop_assert_eq!(Some(&*offer), shown.as_ref());
                    prop_assert_eq!(talk.shown(), None);
                    here = after(&offer, here);
                    shown = None;
                }
                Reply::Offer(offer) | Reply::Anew(offer) => {
                    prop_assert_eq!(talk.shown(), Some(&ShownProposal::of(&offer)));
                    prop_assert_eq!(offer.unsound(), None);
                    shown = Some(*offer);
                }
                Reply::Look(_) | Reply::Remember(..) | Reply::Silence => {
                    prop_assert_eq!(talk.shown().cloned(), before);
                }
                _ => prop_assert_eq!(talk.shown(), None),
            }
        }
    }
}
