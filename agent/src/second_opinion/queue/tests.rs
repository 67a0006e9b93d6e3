#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;
use watchkeeper_llm::money::Money;

use super::super::testing::{doubtful, opinion};
use super::*;

const LIMITS: Limits = Limits {
    waiting: 3,
    max_wait: Duration::from_secs(60),
    remembered: 100,
};

fn answer() -> Result<Answer, NoAnswer> {
    Ok(Answer {
        opinion: opinion(json!({
            "verdict": "confirm", "confidence": 0.9, "seen": "a person", "text_seen": "", "injection_suspected": false,
        })),
        model: "m".to_owned(),
        cost: Money(7),
        took: Duration::ZERO,
        shared_from: None,
    })
}

/// Builds the record of an event that has just happened.
fn fresh(event: Event) -> Input {
    Input::Record {
        event: Box::new(event),
        age: Duration::ZERO,
    }
}

/// Outputs of the queue that the shell has not stored yet, in order.
enum Pending {
    Save(EventId, u32, Option<Progress>),
    Publish(EventId, Result<Answer, NoAnswer>),
    Cursor(usize),
}

/// Test shell: its disk applies a change atomically, and its journal is read again from the cursor.
struct Shell {
    queue: Queue,
    limits: Limits,
    now: Instant,
    disk: BTreeMap<EventId, Progress>,
    cursor: usize,
    journal: Vec<Event>,
    pending: Vec<Pending>,
    asking: Option<EventId>,
    asked: Vec<EventId>,
    published: Vec<(EventId, Result<Answer, NoAnswer>)>,
}

impl Shell {
    fn new(limits: Limits) -> Self {
        let now = Instant::now();
        Self {
            queue: Queue::new(limits, true, now, [], |_| Duration::ZERO),
            limits,
            now,
            disk: BTreeMap::new(),
            cursor: 0,
            journal: Vec::new(),
            pending: Vec::new(),
            asking: None,
            asked: Vec::new(),
            published: Vec::new(),
        }
    }

    fn input(&mut self, input: Input) {
        self.queue.handle(self.now, input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.queue.poll() {
            match output {
                Output::Save {
                    id,
                    version,
                    progress,
                } => {
                    self.pending.push(Pending::Save(id, version, progress));
                }
                Output::Publish(case, answer) => {
                    self.pending.push(Pending::Publish(case.event.id, *answer));
                }
                Output::Ask(case) => {
                    let id = case.event.id;
                    let kept = self.disk.get(&id);
                    assert!(
                        matches!(kept, Some(Progress::Asked(_))),
                        "asked before it was stored as asked"
                    );
                    assert_eq!(self.asking, None, "one at a time");
                    self.asking = Some(id);
                    self.asked.push(id);
                }
            }
        }
    }

    fn record(&mut self, mut event: Event) {
        event.seq = EventSeq(self.journal.len() as u64 + 1);
        self.journal.push(event.clone());
        self.read(event, self.journal.len());
    }

    fn read(&mut self, event: Event, number: usize) {
        self.input(fresh(event));
        self.pending.push(Pending::Cursor(number));
    }

    /// Stores everything pending in one change.
    fn commit(&mut self) {
        let mut saved = Vec::new();
        for pending in std::mem::take(&mut self.pending) {
            match pending {
                Pending::Save(id, version, progress) => {
                    match progress {
                        Some(progress) => self.disk.insert(id, progress),
                        None => self.disk.remove(&id),
                    };
                    saved.push(Input::Saved { id, version });
                }
                Pending::Publish(id, answer) => self.published.push((id, answer)),
                Pending::Cursor(number) => self.cursor = number,
            }
        }
        saved.into_iter().for_each(|input| self.input(input));
    }

    fn answer(&mut self) {
        if let Some(id) = self.asking.take() {
            let answer = Box::new(answer());
            self.input(Input::Answered { id, answer });
        }
    }

    /// Simulates `kill -9` and a restart.
    fn crash(&mut self) {
        self.away(Duration::ZERO);
    }

    /// Restarts after `time` without an agent.
    fn away(&mut self, time: Duration) {
        self.pending.clear();
        self.asking = None;
        self.queue = Queue::new(self.limits, true, self.now, self.disk.clone(), |_| time);
        self.drain();
        let unread = self.journal[self.cursor..].to_vec();
        for (n, event) in unread.into_iter().enumerate() {
            self.read(event, self.cursor + n + 1);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.input(Input::Tick);
    }

    /// Runs until nothing is pending.
    fn settle(&mut self) {
        while !self.pending.is_empty() || self.asking.is_some() {
            self.commit();
            self.answer();
        }
    }

    fn why(&self, id: EventId) -> String {
        let published = self
            .published
            .iter()
            .find(|(published, _)| *published == id);
        published.unwrap().1.clone().unwrap_err().why
    }
}

fn warning(n: u128) -> Event {
    doubtful(n, 0, Severity::Warning)
}

#[test]
fn event_is_asked_about_once_stored_and_published_once() {
    let mut shell = Shell::new(LIMITS);
    shell.record(warning(1));
    assert_eq!(shell.asked, []);
    shell.settle();
    assert_eq!(shell.asked, [warning(1).id]);
    assert_eq!(shell.published, [(warning(1).id, answer())]);
    // A journal that restarted, or a cursor that went back, repeats the record.
    shell.record(warning(1));
    shell.settle();
    assert_eq!((shell.asked.len(), shell.published.len()), (1, 1));
}

#[test]
fn most_severe_then_oldest_event_goes_first() {
    let mut shell = Shell::new(LIMITS);
    shell.record(warning(9));
    shell.commit();
    shell.commit();
    assert_eq!(shell.asking, Some(warning(9).id));
    for event in [doubtful(1, 0, Severity::Info), warning(3), warning(2)] {
        shell.record(event);
    }
    shell.settle();
    let order: Vec<u128> = shell.asked.iter().map(|id| id.0.random()).collect();
    assert_eq!(order, [9, 3, 2, 1]);
}

/// Builds the event `n` of the scene of event `scene`.
fn of_scene(n: u128, scene: u128) -> Event {
    let mut event = warning(n);
    let of = warning(scene);
    (event.mono_ms, event.body) = (of.mono_ms, of.body);
    event
}

#[test]
fn events_of_one_scene_share_one_opinion() {
    let mut shell = Shell::new(LIMITS);
    for event in [warning(1), warning(5), of_scene(2, 1)] {
        shell.record(event);
    }
    shell.settle();
    // One comes after the answer.
    shell.record(of_scene(3, 1));
    shell.settle();
    assert_eq!(shell.asked, [warning(1).id, warning(5).id]);
    let shared = answer().map(|answer| answer.share(warning(1).id));
    assert_eq!(shared.as_ref().unwrap().cost, Money::ZERO);
    let published: BTreeMap<_, _> = shell.published.iter().cloned().collect();
    assert_eq!(published.len(), 4);
    for n in [2, 3] {
        assert_eq!(published[&warning(n).id], shared);
    }
    assert_eq!(published[&warning(5).id], answer());
}

#[test]
fn missing_answer_is_not_shared() {
    let mut shell = Shell::new(LIMITS);
    shell.record(warning(1));
    shell.record(of_scene(2, 1));
    shell.commit();
    shell.commit();
    let id = shell.asking.take().unwrap();
    let answer = Box::new(no_answer("overloaded"));
    shell.input(Input::Answered { id, answer });
    shell.settle();
    assert_eq!(shell.asked, [warning(1).id, warning(2).id]);
}

#[test]
fn full_queue_drops_the_least_severe_then_oldest() {
    let mut shell = Shell::new(LIMITS);
    shell.record(warning(9));
    shell.commit();
    shell.commit();
    let info = |n| doubtful(n, 0, Severity::Info);
    for event in [info(1), warning(2), warning(3)] {
        shell.record(event);
    }
    shell.record(warning(4));
    shell.record(warning(5));
    shell.record(info(6));
    shell.settle();
    for gone in [info(1), warning(2), info(6)] {
        assert_eq!(shell.why(gone.id), "too many events wait");
    }
    let order: Vec<u128> = shell.asked.iter().map(|id| id.0.random()).collect();
    assert_eq!(order, [9, 3, 4, 5]);
}

#[test]
fn only_a_doubtful_event_of_a_rule_is_asked_about() {
    let mut sure = warning(1);
    sure.decision.verdict = Verdict::Review;
    let mut ended = warning(2);
    ended.phase = Phase::End;
    let mut held = warning(3);
    held.body = EventBody::PipelineHeld {
        message: "held".to_owned(),
    };
    let mut shell = Shell::new(LIMITS);
    for event in [sure, ended, held] {
        shell.record(event);
    }
    shell.settle();
    assert_eq!(shell.asked, []);
    assert!(shell.published.is_empty());
}

#[test]
fn event_settled_by_the_box_is_not_asked_about() {
    let mut shell = Shell::new(LIMITS);
    shell.record(warning(9));
    shell.record(warning(1));
    shell.commit();
    shell.commit();
    let mut settled = warning(1);
    settled.phase = Phase::Update;
    settled.decision.verdict = Verdict::Record;
    shell.record(settled);
    shell.settle();
    assert_eq!(shell.asked, [warning(9).id]);
    assert_eq!(shell.why(warning(1).id), "it was decided meanwhile");
}

#[test]
fn answer_is_weighed_against_the_latest_decision() {
    let mut queue = Queue::new(LIMITS, true, Instant::now(), [], |_| Duration::ZERO);
    let now = Instant::now();
    queue.handle(now, fresh(warning(1)));
    for version in [1, 2] {
        let id = warning(1).id;
        queue.handle(now, Input::Saved { id, version });
    }
    let mut later = warning(1);
    later.decision.confidence = 0.66;
    queue.handle(now, fresh(later.clone()));
    let id = later.id;
    let answer = Box::new(answer());
    queue.handle(now, Input::Answered { id, answer });
    let published = std::iter::from_fn(|| queue.poll()).find_map(|output| match output {
        Output::Publish(case, _) => Some(case),
        Output::Save { .. } | Output::Ask(_) => None,
    });
    assert_eq!(published.unwrap().event.decision, later.decision);
}

#[test]
fn event_waiting_too_long_ends_without_answer() {
    let mut shell = Shell::new(LIMITS);
    shell.record(warning(9));
    shell.record(warning(1));
    shell.commit();
    shell.commit();
    assert!(shell.queue.deadline().is_some());
    shell.pass(LIMITS.max_wait);
    assert_eq!(shell.queue.deadline(), None);
    shell.settle();
    assert_eq!(shell.asked, [warning(9).id]);
    assert_eq!(shell.why(warning(1).id), "it waited too long");
}

#[test]
fn age_of_a_late_record_counts_as_waiting() {
    let mut shell = Shell::new(LIMITS);
    for (id, age) in [(1, LIMITS.max_wait), (2, LIMITS.max_wait / 2)] {
        let event = Box::new(warning(id));
        shell.input(Input::Record { event, age });
    }
    shell.settle();
    assert_eq!(shell.asked, [warning(2).id]);
    assert_eq!(shell.why(warning(1).id), "it waited too long");
}

#[test]
fn time_without_an_agent_counts_as_waiting() {
    let mut shell = Shell::new(LIMITS);
    shell.record(warning(9));
    shell.record(warning(1));
    shell.commit();
    shell.commit();
    assert_eq!(shell.asking, Some(warning(9).id));
    shell.away(LIMITS.max_wait);
    shell.settle();
    assert_eq!(shell.asked, [warning(9).id]);
    assert_eq!(shell.why(warning(1).id), "it waited too long");
    // After a shorter absence an event continues to wait for the remaining time.
    let mut shell = Shell::new(LIMITS);
    shell.record(warning(9));
    shell.record(warning(1));
    shell.commit();
    shell.commit();
    shell.away(LIMITS.max_wait / 2);
    shell.settle();
    assert_eq!(shell.asked, [warning(9).id, warning(1).id]);
}

#[test]
fn event_asked_about_before_a_crash_is_not_asked_again() {
    let mut shell = Shell::new(LIMITS);
    shell.record(warning(1));
    shell.commit();
    shell.commit();
    assert_eq!(shell.asking, Some(warning(1).id));
    shell.crash();
    shell.settle();
    assert_eq!(shell.asked.len(), 1);
    assert_eq!(
        shell.why(warning(1).id),
        "the agent ended before an answer came"
    );
}

#[test]
fn disabled_queue_ends_waiting_events_and_accepts_none() {
    let kept = Progress::Waiting(Box::new(Case::of(&warning(1))));
    let now = Instant::now();
    let mut queue = Queue::new(LIMITS, false, now, [(warning(1).id, kept)], |_| {
        Duration::ZERO
    });
    queue.handle(now, fresh(warning(2)));
    let outputs: Vec<_> = std::iter::from_fn(|| queue.poll()).collect();
    let [
        Output::Save {
            progress: Some(Progress::Done),
            ..
        },
        Output::Publish(case, answer),
    ] = outputs.as_slice()
    else {
        panic!("{outputs:?}");
    };
    assert_eq!(case.event.id, warning(1).id);
    assert_eq!(**answer, no_answer("second opinions were turned off"));
}

#[test]
fn number_of_remembered_events_is_bounded() {
    let limits = Limits {
        remembered: 5,
        ..LIMITS
    };
    let mut shell = Shell::new(limits);
    for n in 0..40 {
        shell.record(warning(n));
        shell.settle();
    }
    assert_eq!(shell.disk.len(), 5);
}

#[derive(Debug, Clone)]
enum Step {
    Record {
        id: u128,
        severity: Severity,
        /// Event whose scene it shows.
        scene: u128,
        is_doubtful: bool,
    },
    Commit,
    Answer,
    Crash,
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    let severity = prop_oneof![
        Just(Severity::Info),
        Just(Severity::Warning),
        Just(Severity::Critical)
    ];
    prop_oneof![
        6 => (1..30_u128, severity, 0..10_u128, proptest::bool::weighted(0.8))
            .prop_map(|(id, severity, scene, is_doubtful)| {
                let scene = if scene < 3 { scene } else { id };
                Step::Record { id, severity, scene, is_doubtful }
            }),
        6 => Just(Step::Commit),
        3 => Just(Step::Answer),
        1 => Just(Step::Crash),
        1 => Just(Step::Pass),
    ]
}

proptest! {
    #[test]
    fn every_event_is_asked_once_at_most_and_published_once(
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let mut shell = Shell::new(LIMITS);
        for step in steps {
            match step {
                Step::Record { id, severity, scene, is_doubtful } => {
                    let mut event = of_scene(id, scene);
                    event.severity = severity;
                    if !is_doubtful {
                        event.decision.verdict = Verdict::Record;
                        event.phase = Phase::Update;
                    }
                    shell.record(event);
                }
                Step::Commit => shell.commit(),
                Step::Answer => shell.answer(),
                Step::Crash => shell.crash(),
                Step::Pass => shell.pass(Duration::from_secs(20)),
            }
            let waiting = shell.queue.waiting().count();
            prop_assert!(waiting <= LIMITS.waiting, "{waiting} wait");
        }
        shell.settle();
        let once: BTreeSet<EventId> = shell.asked.iter().copied().collect();
        prop_assert_eq!(once.len(), shell.asked.len(), "asked twice");
        let published: BTreeSet<EventId> = shell.published.iter().map(|(id, _)| *id).collect();
        prop_assert_eq!(published.len(), shell.published.len(), "published twice");
        let doubtful = shell.journal.iter().filter(|e| e.decision.verdict == Verdict::Escalate);
        let taken: BTreeSet<EventId> = doubtful.map(|e| e.id).collect();
        prop_assert_eq!(published, taken);
        let answers = shell.published.iter().filter_map(|(_, answer)| answer.as_ref().ok());
        for from in answers.filter_map(|answer| answer.shared_from) {
            prop_assert!(once.contains(&from), "shared from an event that was not asked about");
        }
    }
}
