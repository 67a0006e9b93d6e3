//! Reviews and assessments in the journal.

use watchkeeper_contract::assessment::{
    Assessment, AssessmentAnswer, Assessor, ChainDetails, ChainResult, OpinionDetails, Person, Via,
};
use watchkeeper_contract::event::{Evidence, RuleEvent};
use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::review::{MAX_REVIEWS, NewAssessment};

use super::*;

/// A `new` record of a rule's event, with `siren` in `on_act`.
pub(super) fn of_rule(verdict: Verdict, severity: Severity) -> Event {
    let rule: RuleEvent = serde_json::from_value(serde_json::json!({
        "rule": "door", "condition": "enters", "reason": "person 1 entered door", "tracks": [1],
        "frame": 1, "pts_s": 0.5, "on_act": ["siren"],
    }))
    .unwrap();
    let event = event(severity);
    Event {
        body: EventBody::Rule(Box::new(rule)),
        decision: Decision {
            verdict,
            confidence: 0.75,
            ..event.decision.clone()
        },
        ..event
    }
}

pub(super) fn stamp() -> Stamp {
    Stamp {
        boot_id: "later".to_owned(),
        mono_ms: 99,
        at: Wall {
            unix_ms: 1_700_000_001_000,
            quality: TimeQuality::Synced,
        },
        id: EventId::generate(),
    }
}

pub(super) fn of_person(answer: AssessmentAnswer, label: Option<&str>) -> NewAssessment {
    NewAssessment {
        event: None,
        assessment: Assessment {
            by: Assessor::Person(Person {
                name: None,
                via: Via::CommandLine,
            }),
            answer,
            label: label.map(str::to_owned),
            fields: BTreeMap::new(),
            note: None,
        },
        only_if_unanswered: false,
        decision: None,
        links: Vec::new(),
    }
}

fn of_model(verdict: Verdict) -> NewAssessment {
    NewAssessment {
        event: None,
        assessment: Assessment {
            by: Assessor::SecondOpinion(Box::new(OpinionDetails {
                model: Some("m".to_owned()),
                confidence: Some(0.9),
                picture_sha256: Some("00".to_owned()),
                cost_usd: Some(0.002),
                took_s: Some(1.5),
                shared_from: None,
            })),
            answer: AssessmentAnswer::Approve,
            label: None,
            fields: BTreeMap::new(),
            note: Some("a person".to_owned()),
        },
        only_if_unanswered: false,
        decision: Some(Decision {
            verdict,
            confidence: 0.8,
            raw_confidence: None,
            reason: "with the second opinion".to_owned(),
            asks: None,
        }),
        links: Vec::new(),
    }
}

pub(super) fn journal(dir: &Path) -> Journal {
    let (journal, losses) = opened(Journal::open(dir, Limits::default()));
    assert_eq!(losses, []);
    journal
}

pub(super) fn waiting(journal: &Journal) -> Vec<u64> {
    let queue = journal.reviews(MAX_REVIEWS).unwrap();
    assert_eq!(queue.waiting as usize, queue.reviews.len());
    queue.reviews.iter().map(|r| r.event.seq.0).collect()
}

pub(super) fn channels(event: &Event) -> &[ChannelId] {
    match &event.body {
        EventBody::Rule(rule) => &rule.on_act,
        other => panic!("{other:?}"),
    }
}

#[test]
fn doubtful_events_wait_most_severe_first_over_restart() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    let events = vec![
        of_rule(Verdict::Review, Severity::Info),
        of_rule(Verdict::Act, Severity::Info),
        of_rule(Verdict::Escalate, Severity::Critical),
        of_rule(Verdict::Record, Severity::Critical),
        of_rule(Verdict::Review, Severity::Critical),
    ];
    journal.append(events).unwrap();
    assert_eq!(waiting(&journal), [3, 5, 1]);
    let answer = of_person(AssessmentAnswer::Reject, None);
    let given = journal
        .assess(EventSeq(3), answer.clone(), &stamp())
        .unwrap();
    assert_eq!((given.is_new, given.event.seq), (true, EventSeq(6)));
    assert_eq!(given.event.decision.verdict, Verdict::Discard);
    assert_eq!(waiting(&journal), [5, 1]);
    drop(journal);

    let journal = self::journal(dir.path());
    assert_eq!(waiting(&journal), [5, 1]);
    // The same answer again, after a lost reply.
    let again = journal.assess(EventSeq(3), answer, &stamp()).unwrap();
    assert!(!again.is_new);
    assert_eq!(again.event, given.event);
    assert!(
        journal
            .verify_after(EventSeq(0), 100)
            .unwrap()
            .broken
            .is_none()
    );
}

#[test]
fn second_opinion_is_recorded_once_and_settles_if_certain() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    let doubtful = || of_rule(Verdict::Escalate, Severity::Info);
    journal.append(vec![doubtful(), doubtful()]).unwrap();
    let assess = |seq, verdict| {
        let assessed = journal.assess(EventSeq(seq), of_model(verdict), &stamp());
        assessed.unwrap().event
    };
    let raised = assess(1, Verdict::Review);
    let recorded = assess(2, Verdict::Record);
    assert_eq!(waiting(&journal), [1]);
    assert_eq!(assess(1, Verdict::Record), raised);
    assert_eq!(recorded.phase, Phase::Assessed);
    let queue = journal.reviews(10).unwrap();
    let opinion = queue.reviews[0].opinion.as_ref().unwrap();
    assert_eq!(opinion.note.as_deref(), Some("a person"));
}

#[test]
fn approval_makes_an_event_certain_once() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    let events = vec![
        of_rule(Verdict::Review, Severity::Info),
        of_rule(Verdict::Act, Severity::Info),
        of_rule(Verdict::Record, Severity::Info),
    ];
    journal.append(events).unwrap();
    let approve = |seq| {
        let answer = of_person(AssessmentAnswer::Approve, None);
        journal
            .assess(EventSeq(seq), answer, &stamp())
            .unwrap()
            .event
    };
    assert_eq!(channels(&approve(1)).len(), 1);
    assert_eq!(channels(&approve(2)).len(), 0, "it was certain before");
    let third = approve(3);
    assert_eq!(channels(&third).len(), 1);
    assert_eq!(third.decision.verdict, Verdict::Act);
    let rejected = of_person(AssessmentAnswer::Reject, None);
    let rejected = journal.assess(EventSeq(1), rejected, &stamp()).unwrap();
    assert_eq!(channels(&rejected.event).len(), 0);
}

#[test]
fn event_that_becomes_certain_by_itself_leaves_the_queue() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    let first = of_rule(Verdict::Review, Severity::Info);
    let update = Event {
        phase: Phase::Update,
        decision: of_rule(Verdict::Act, Severity::Info).decision,
        ..first.clone()
    };
    journal.append(vec![first, update]).unwrap();
    assert!(waiting(&journal).is_empty());
    let answer = of_person(AssessmentAnswer::Approve, None);
    let approved = journal.assess(EventSeq(1), answer, &stamp()).unwrap();
    assert_eq!(channels(&approved.event).len(), 0, "the update told it");
}

#[test]
fn event_notifies_once_when_several_answers_make_it_certain() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    let act = of_rule(Verdict::Act, Severity::Info).decision;
    let later = |first: &Event, phase| Event {
        phase,
        decision: act.clone(),
        ..first.clone()
    };
    let give = |seq, answer| {
        let assessed = journal.assess(EventSeq(seq), of_person(answer, None), &stamp());
        assessed.unwrap().event
    };
    let names = |events: Vec<Event>| -> Vec<usize> {
        let appended = journal.append(events).unwrap();
        appended.iter().map(|event| channels(event).len()).collect()
    };
    // Approved, then certain by itself.
    let approved = of_rule(Verdict::Review, Severity::Info);
    assert_eq!(names(vec![approved.clone()]), [1]);
    assert_eq!(channels(&give(1, AssessmentAnswer::Approve)).len(), 1);
    assert_eq!(names(vec![later(&approved, Phase::Update)]), [0]);
    // Rejected, then certain by itself, then approved after all: by the number of any record.
    let rejected = of_rule(Verdict::Review, Severity::Info);
    assert_eq!(names(vec![rejected.clone()]), [1]);
    let rejection = give(4, AssessmentAnswer::Reject);
    assert_eq!(channels(&rejection).len(), 0);
    assert_eq!(names(vec![later(&rejected, Phase::End)]), [0]);
    let approval = give(rejection.seq.0, AssessmentAnswer::Approve);
    assert_eq!(channels(&approval).len(), 1);
    give(4, AssessmentAnswer::Reject);
    assert_eq!(channels(&give(4, AssessmentAnswer::Approve)).len(), 0);
    // Certain at once, with its end in the same batch.
    let certain = of_rule(Verdict::Act, Severity::Info);
    let end = later(&certain, Phase::End);
    assert_eq!(names(vec![certain, end]), [1, 0]);
}

#[test]
fn end_after_a_crash_notifies_nobody_again() {
    let dir = tempfile::tempdir().unwrap();
    let first = journal(dir.path());
    first
        .append(vec![of_rule(Verdict::Act, Severity::Info)])
        .unwrap();
    drop(first);
    let second = journal(dir.path());
    let ends = second
        .close_open_events(&stamp(), &|_| false, &|_| None)
        .unwrap();
    let ends = second.append(ends).unwrap();
    assert_eq!((ends.len(), channels(&ends[0]).len()), (1, 0));
}

#[test]
fn event_that_outlives_its_first_record_notifies_once() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        max_events: 5,
        ..Limits::default()
    };
    let (journal, _) = opened(Journal::open(dir.path(), limits));
    let first = of_rule(Verdict::Act, Severity::Info);
    let later = |phase| Event {
        phase,
        ..first.clone()
    };
    let mut named = 0;
    let mut append = |event: Event| {
        let appended = journal.append(vec![event]).unwrap();
        named += channels(&appended[0]).len();
    };
    append(first.clone());
    for _ in 0..4 {
        append(later(Phase::Update));
        for _ in 0..3 {
            let mut other = of_rule(Verdict::Record, Severity::Info);
            if let EventBody::Rule(rule) = &mut other.body {
                rule.on_act.clear();
            }
            append(other);
        }
    }
    append(later(Phase::End));
    assert!(journal.head().first > EventSeq(1));
    assert_eq!(named, 1);
}

#[test]
fn opinion_after_a_person_keeps_what_the_person_decided() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    journal
        .append(vec![of_rule(Verdict::Escalate, Severity::Info)])
        .unwrap();
    let reject = of_person(AssessmentAnswer::Reject, None);
    let rejected = journal.assess(EventSeq(1), reject, &stamp()).unwrap().event;
    let opinion = journal.assess(EventSeq(1), of_model(Verdict::Record), &stamp());
    let opinion = opinion.unwrap().event;
    assert_eq!(opinion.decision, rejected.decision);
    assert_eq!(opinion.evidence, rejected.evidence);
    assert!(waiting(&journal).is_empty());
}

#[test]
fn surplus_gives_up_the_least_severe_and_then_the_oldest() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    let mut events = vec![
        of_rule(Verdict::Review, Severity::Critical),
        of_rule(Verdict::Review, Severity::Info),
    ];
    events.extend((0..MAX_REVIEWS - 1).map(|_| of_rule(Verdict::Review, Severity::Info)));
    journal.append(events).unwrap();
    let queue = journal.reviews(1).unwrap();
    assert_eq!((queue.waiting as usize, queue.given_up), (MAX_REVIEWS, 1));
    assert_eq!(queue.reviews[0].event.seq, EventSeq(1));
    let all = waiting(&journal);
    assert!(!all.contains(&2) && all.contains(&3), "{:?}", &all[..4]);
}

#[test]
fn invalid_assessments_name_field_and_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    let events = vec![
        of_rule(Verdict::Review, Severity::Info),
        event(Severity::Info),
    ];
    journal.append(events).unwrap();
    let refused = |seq, new| {
        let error = journal.assess(EventSeq(seq), new, &stamp()).unwrap_err();
        error.to_string()
    };
    let approve = of_person(AssessmentAnswer::Approve, None);
    assert!(refused(9, approve.clone()).contains("no event 9"));
    assert!(refused(2, approve.clone()).contains("not made by a rule"));
    let labelled = of_person(AssessmentAnswer::Approve, Some("dog"));
    assert!(refused(1, labelled).contains("assessment.label belongs to the answer correct"));
    let unlabelled = of_person(AssessmentAnswer::Correct, None);
    assert!(refused(1, unlabelled).contains("which needs it"));
    let mut long = approve;
    long.assessment.note = Some("a\nb".to_owned());
    assert!(refused(1, long).contains("one line of at most 300"));
    let mut undecided = of_model(Verdict::Review);
    undecided.decision = None;
    assert!(refused(1, undecided).contains("decision is required"));
    let certain = of_model(Verdict::Act);
    assert!(refused(1, certain).contains("makes no event certain"));
    let undecided = of_person(AssessmentAnswer::None, None);
    assert!(refused(1, undecided).contains("a person answers approve"));
    let mut other = of_person(AssessmentAnswer::Approve, None);
    other.event = Some(EventId::generate());
    assert!(refused(1, other).contains("not of event"));
    let mut wrong = of_model(Verdict::Review);
    wrong.decision.as_mut().unwrap().confidence = 1.5;
    assert!(refused(1, wrong).contains("must be 0 to 1"));
    assert_eq!(waiting(&journal), [1]);
}

proptest! {
    // Each step waits for the disk.
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is appended, answered and deleted: the queue holds exactly the doubtful,
    /// unanswered events that the journal still has, and a restart changes nothing.
    #[test]
    fn queue_follows_the_journal(
        steps in proptest::collection::vec((0u8..6, 0usize..20), 1..60),
        max_events in 5u64..40,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits { max_events, ..Limits::default() };
        let (journal, _) = opened(Journal::open(dir.path(), limits));
        let mut doubtful = BTreeMap::new();
        for (kind, nth) in steps {
            let verdict = [Verdict::Act, Verdict::Record, Verdict::Review, Verdict::Escalate];
            if let Some(verdict) = verdict.get(usize::from(kind)) {
                let appended = journal.append(vec![of_rule(*verdict, Severity::Info)]).unwrap();
                if *verdict <= Verdict::Review {
                    doubtful.insert(appended[0].seq.0, ());
                }
            } else {
                let seq = doubtful.keys().nth(nth).copied().unwrap_or(1);
                let answer = match kind {
                    4 => of_person(AssessmentAnswer::Reject, None),
                    _ => of_model(Verdict::Record),
                };
                if journal.assess(EventSeq(seq), answer, &stamp()).is_ok() {
                    doubtful.remove(&seq);
                }
            }
            let first = journal.head().first.0;
            doubtful.retain(|seq, ()| *seq >= first);
            let expected: Vec<u64> = doubtful.keys().copied().collect();
            prop_assert_eq!(waiting(&journal), expected);
        }
        let before = waiting(&journal);
        drop(journal);
        let (journal, _) = opened(Journal::open(dir.path(), limits));
        prop_assert_eq!(waiting(&journal), before);
    }
}

#[test]
fn answer_if_unanswered_counts_once_by_raw_confidence() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    journal
        .append(vec![of_rule(Verdict::Review, Severity::Info)])
        .unwrap();
    let once = |answer| NewAssessment {
        only_if_unanswered: true,
        ..of_person(answer, None)
    };
    let given = journal
        .assess(EventSeq(1), once(AssessmentAnswer::Reject), &stamp())
        .unwrap();
    let decision = &given.event.decision;
    assert_eq!(
        (decision.confidence, decision.raw_confidence),
        (0.0, Some(0.75))
    );
    let retried = journal.assess(EventSeq(1), once(AssessmentAnswer::Reject), &stamp());
    let retried = retried.unwrap();
    assert_eq!(
        (retried.event.seq, retried.is_new),
        (given.event.seq, false)
    );
    let other = journal.assess(EventSeq(1), once(AssessmentAnswer::Approve), &stamp());
    assert!(matches!(other, Err(AssessError::Answered(_))), "{other:?}");
    // A person who answers otherwise may change it, of the record of the answer too.
    let changed = of_person(AssessmentAnswer::Approve, None);
    let changed = journal.assess(EventSeq(2), changed, &stamp()).unwrap();
    assert_eq!(changed.event.decision.raw_confidence, Some(0.75));
}

#[test]
fn raw_confidence_is_that_of_new_record_for_any_record() {
    let mut found = Vec::new();
    for named in 1..=3 {
        let dir = tempfile::tempdir().unwrap();
        let journal = journal(dir.path());
        let mut new = of_rule(Verdict::Review, Severity::Info);
        if let EventBody::Rule(rule) = &mut new.body {
            rule.on_act.clear();
        }
        let later = |phase, confidence| Event {
            phase,
            decision: Decision {
                confidence,
                ..new.decision.clone()
            },
            ..new.clone()
        };
        let end = later(Phase::End, 0.99);
        let records = vec![new.clone(), later(Phase::Update, 0.9), end];
        journal.append(records).unwrap();
        let answer = of_person(AssessmentAnswer::Approve, None);
        let given = journal.assess(EventSeq(named), answer, &stamp()).unwrap();
        found.push(given.event.decision.raw_confidence);
        // The answer itself may be named too.
        let changed = of_person(AssessmentAnswer::Reject, None);
        let changed = journal.assess(given.event.seq, changed, &stamp()).unwrap();
        found.push(changed.event.decision.raw_confidence);
    }
    assert_eq!(found, [Some(0.75); 6]);
}

#[test]
fn raw_confidence_is_unknown_once_the_new_record_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        max_events: 3,
        ..Limits::default()
    };
    let (journal, _) = opened(Journal::open(dir.path(), limits));
    let new = of_rule(Verdict::Review, Severity::Info);
    let later = |phase| Event {
        phase,
        ..new.clone()
    };
    for phase in [
        Phase::New,
        Phase::Update,
        Phase::Update,
        Phase::Update,
        Phase::End,
    ] {
        journal.append(vec![later(phase)]).unwrap();
    }
    assert!(journal.head().first > EventSeq(1));
    let answer = of_person(AssessmentAnswer::Approve, None);
    let last = journal.head().last;
    let given = journal.assess(last, answer, &stamp()).unwrap();
    assert_eq!(given.event.decision.raw_confidence, None);
}

pub(super) fn of_chain(result: ChainResult, verdict: Verdict) -> NewAssessment {
    let details = ChainDetails {
        result,
        asked: vec!["code".to_owned(), "members".to_owned()],
        fields: vec!["plate".to_owned()],
        cost_usd: 0.0,
        took_s: 0.2,
    };
    let answer = match result {
        ChainResult::Decided => AssessmentAnswer::Approve,
        ChainResult::Person | ChainResult::Unknown => AssessmentAnswer::None,
    };
    let mut failed = Evidence::new("code", 0.0, 0.45, "unreadable".to_owned());
    failed.failed = true;
    let mut new = NewAssessment {
        links: vec![
            failed,
            Evidence::new("members", 0.95, 0.45, "row 7".to_owned()),
        ],
        ..of_model(verdict)
    };
    new.assessment.by = Assessor::Chain(Box::new(details));
    new.assessment.answer = answer;
    new
}

#[test]
fn second_opinion_leaves_its_link_also_after_failure() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    let link = |is_failed: bool| Evidence {
        failed: is_failed,
        took_ms: (!is_failed).then_some(1500),
        cost_usd: (!is_failed).then_some(0.002),
        at: Some(stamp().at),
        ..Evidence::new(
            "second_opinion",
            if is_failed { 0.0 } else { 0.95 },
            0.0,
            "it".to_owned(),
        )
    };
    for (seq, is_failed) in [(1, false), (3, true)] {
        let doubtful = of_rule(Verdict::Escalate, Severity::Info);
        journal.append(vec![doubtful]).unwrap();
        let mut new = of_model(Verdict::Escalate);
        new.links = vec![link(is_failed)];
        let given = journal.assess(EventSeq(seq), new, &stamp()).unwrap();
        assert_eq!(given.event.evidence.last(), Some(&link(is_failed)));
    }
}

#[test]
fn deciding_chain_settles_event_once_and_notifies_on_act() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    let mut event = of_rule(Verdict::Escalate, Severity::Info);
    if let EventBody::Rule(rule) = &mut event.body {
        rule.on_act = vec![ChannelId::new("barrier").unwrap()];
    }
    journal.append(vec![event]).unwrap();
    let new = of_chain(ChainResult::Decided, Verdict::Act);
    let given = journal.assess(EventSeq(1), new.clone(), &stamp()).unwrap();
    assert_eq!(given.event.decision.verdict, Verdict::Act);
    assert_eq!(channels(&given.event).len(), 1, "the barrier opens");
    let sources: Vec<&str> = given.event.evidence.iter().map(|e| &*e.source).collect();
    assert!(sources.ends_with(&["code", "members"]), "{sources:?}");
    assert_eq!(waiting(&journal), Vec::<u64>::new());
    let again = journal.assess(EventSeq(1), new, &stamp()).unwrap();
    assert!(!again.is_new, "one result for an event");
}

#[test]
fn chain_without_decision_keeps_event_in_review_queue() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    journal
        .append(vec![of_rule(Verdict::Escalate, Severity::Info)])
        .unwrap();
    let new = of_chain(ChainResult::Unknown, Verdict::Review);
    journal.assess(EventSeq(1), new, &stamp()).unwrap();
    assert_eq!(waiting(&journal), [1]);
    let queue = journal.reviews(MAX_REVIEWS).unwrap();
    assert!(
        queue.reviews[0].opinion.is_some(),
        "the queue shows the result"
    );
}

#[test]
fn result_of_a_chain_that_does_not_fit_its_links_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    journal
        .append(vec![of_rule(Verdict::Escalate, Severity::Info)])
        .unwrap();
    let refused = |change: &dyn Fn(&mut NewAssessment)| {
        let mut new = of_chain(ChainResult::Decided, Verdict::Act);
        change(&mut new);
        let error = journal.assess(EventSeq(1), new, &stamp()).unwrap_err();
        error.to_string()
    };
    let no_answer = refused(&|new| new.links.truncate(1));
    assert!(no_answer.contains("decision.verdict"), "{no_answer}");
    let discard = refused(&|new| {
        *new = of_chain(ChainResult::Person, Verdict::Discard);
    });
    assert!(discard.contains("discard"), "{discard}");
    let sure = refused(&|new| new.links[0].confidence = 0.5);
    assert!(sure.contains("evidence.confidence"), "{sure}");
    let long = refused(&|new| new.links[1].data = Some("x".repeat(5000).into()));
    assert!(long.contains("evidence.data"), "{long}");
    let of_model = refused(&|new| {
        let links = new.links.clone();
        *new = of_model(Verdict::Review);
        new.links = links;
    });
    assert!(of_model.contains("links must be at most 1"), "{of_model}");
}

#[test]
fn record_of_an_older_version_reads_as_before() {
    let old = serde_json::json!({
        "source": "detector_score", "confidence": 0.9, "weight": 0.3, "note": "best 0.81",
    });
    let read: Evidence = serde_json::from_value(old.clone()).unwrap();
    assert_eq!(
        read,
        Evidence::new("detector_score", 0.9, 0.3, "best 0.81".to_owned())
    );
    assert_eq!(
        serde_json::to_value(&read).unwrap(),
        old,
        "and is written as before"
    );
}
