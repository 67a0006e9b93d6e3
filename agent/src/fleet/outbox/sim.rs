//! Simulation: the outbox in a world that fails at every step.
//!
//! The world has:
//! - a journal that may lose records,
//! - a disk that may lose unsynced writes, always a suffix of them,
//! - a broker that answers late, a link that drops messages in transit, and a power switch.
//!
//! The test plays a generated list of actions, then repairs everything and compares. Every journal
//! number must have arrived, or be covered by a loss record that arrived. A publication of anything
//! that is not on disk fails the test at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::Severity;

use super::{
    Change, Class, ClassLimits, Content, Draft, Input, Limits, Outbox, OutboxId, Output, Restored,
    RestoredEntry,
};

#[derive(Debug, Clone)]
enum Action {
    /// The journal grows by one record and the agent reads it.
    Record(Severity, Class, u16),
    /// An unreadable record.
    Unreadable,
    /// The journal loses records before they were read.
    Gap(u64),
    /// A command report.
    Own(u16),
    /// The disk finishes the pending change.
    DiskDone,
    LinkUp,
    LinkDown,
    /// The broker takes one message from the link and sends its acknowledgement.
    BrokerTakes,
    /// One acknowledgement arrives.
    AckComes,
    Wait(u64),
    /// Power cut and restart.
    Crash(prop::sample::Index),
}

fn any_action() -> impl Strategy<Value = Action> {
    let severity = prop_oneof![
        Just(Severity::Info),
        Just(Severity::Warning),
        Just(Severity::Critical)
    ];
    let class = prop_oneof![3 => Just(Class::Event), 1 => Just(Class::Assured)];
    prop_oneof![
        12 => (severity, class, 0_u16..60).prop_map(|(s, c, n)| Action::Record(s, c, n)),
        1 => Just(Action::Unreadable),
        1 => (1_u64..5).prop_map(Action::Gap),
        2 => (0_u16..60).prop_map(Action::Own),
        6 => Just(Action::DiskDone),
        2 => Just(Action::LinkUp),
        1 => Just(Action::LinkDown),
        5 => Just(Action::BrokerTakes),
        5 => Just(Action::AckComes),
        1 => (1_u64..40).prop_map(Action::Wait),
        1 => any::<prop::sample::Index>().prop_map(Action::Crash),
    ]
}

const LIMITS: Limits = Limits {
    assured: ClassLimits {
        entries: 6,
        bytes: 400,
    },
    events: ClassLimits {
        entries: 8,
        bytes: 300,
    },
    window: 3,
    staged: 5,
    ack_timeout: Duration::from_secs(30),
};

#[derive(Debug, Default, Clone)]
struct Disk {
    entries: BTreeMap<OutboxId, Content>,
    cursor: Option<EventSeq>,
    next_id: OutboxId,
}

impl Disk {
    fn apply(&mut self, change: &Change) {
        for (id, content) in &change.puts {
            self.entries.insert(*id, content.clone());
        }
        for id in &change.deletes {
            self.entries.remove(id);
        }
        if change.must_sync() {
            self.cursor = change.cursor;
            self.next_id = change.next_id;
        }
    }
}

struct World {
    now: Instant,
    outbox: Outbox,
    /// State that survives a power cut.
    durable: Disk,
    /// Applied or in progress, not synced; a prefix survives a power cut.
    unsynced: Vec<Change>,
    /// The change without an answer.
    pending: Option<u64>,
    session: u64,
    up: bool,
    wire: VecDeque<(u64, OutboxId)>,
    acks: VecDeque<(u64, OutboxId)>,
    arrived: BTreeMap<OutboxId, Content>,
    /// Records in the journal by number; an error is an unreadable one.
    journal: BTreeMap<u64, Result<Draft, ()>>,
    last: u64,
    own: u64,
}

impl World {
    fn new() -> Self {
        let durable = Disk {
            next_id: OutboxId(1),
            ..Disk::default()
        };
        Self {
            now: Instant::now(),
            outbox: Outbox::new(LIMITS, restored(&durable)),
            durable,
            unsynced: Vec::new(),
            pending: None,
            session: 0,
            up: false,
            wire: VecDeque::new(),
            acks: VecDeque::new(),
            arrived: BTreeMap::new(),
            journal: BTreeMap::new(),
            last: 0,
            own: 0,
        }
    }

    /// State that a reader sees now: durable and unsynced writes.
    fn visible(&self) -> Disk {
        let mut disk = self.durable.clone();
        let done = self.unsynced.len() - usize::from(self.pending.is_some());
        for change in &self.unsynced[..done] {
            disk.apply(change);
        }
        disk
    }

    fn handle(&mut self, input: Input) {
        self.outbox.handle(self.now, input);
        while let Some(output) = self.outbox.poll() {
            match output {
                Output::Persist(change) => {
                    assert!(self.pending.is_none(), "one change at a time");
                    self.pending = Some(change.batch);
                    self.unsynced.push(change);
                }
                Output::Publish { session, id, .. } => {
                    assert!(
                        self.up && session == self.session,
                        "published into an ended session"
                    );
                    let seen = self.visible().entries.get(&id).cloned();
                    assert!(seen.is_some(), "{id:?} published before it was stored");
                    assert!(
                        self.durable.entries.contains_key(&id),
                        "{id:?} published before it was durable"
                    );
                    self.wire.push_back((session, id));
                }
                Output::LinkStuck { session } => {
                    assert_eq!(session, self.session);
                    self.act(Action::LinkDown);
                }
            }
        }
        self.outbox.check();
    }

    /// Feeds the outbox with unread records while it wants more.
    fn feed(&mut self) {
        while self.outbox.wants_more() {
            let after = self.outbox.cursor().map_or(0, |c| c.0);
            let next = self
                .journal
                .range(after + 1..)
                .next()
                .map(|(s, d)| (*s, d.clone()));
            let Some((seq, draft)) = next else { return };
            let seq = EventSeq(seq);
            self.handle(match draft {
                Ok(draft) => Input::Record { seq, draft },
                Err(()) => Input::Unreadable { seq },
            });
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    fn act(&mut self, action: Action) {
        match action {
            Action::Record(severity, class, size) => {
                self.last += 1;
                let draft = draft(class, severity, Some(self.last), size);
                self.journal.insert(self.last, Ok(draft));
                self.feed();
            }
            Action::Unreadable => {
                self.last += 1;
                self.journal.insert(self.last, Err(()));
                self.feed();
            }
            Action::Gap(n) => self.last += n,
            Action::Own(size) => {
                self.own += 1;
                self.handle(Input::Own(draft(
                    Class::Assured,
                    Severity::Info,
                    None,
                    size,
                )));
            }
            Action::DiskDone => {
                if let Some(batch) = self.pending.take() {
                    let synced = self.unsynced.last().is_some_and(Change::must_sync);
                    if synced {
                        for change in self.unsynced.drain(..) {
                            self.durable.apply(&change);
                        }
                    }
                    self.handle(Input::Stored { batch });
                    self.feed();
                }
            }
            Action::LinkUp => {
                if !self.up {
                    self.session += 1;
                    self.up = true;
                    self.handle(Input::LinkUp {
                        session: self.session,
                    });
                }
            }
            Action::LinkDown => {
                if self.up {
                    self.up = false;
                    self.wire.clear();
                    // A late acknowledgement of an ended session may still be read.
                    self.handle(Input::LinkDown);
                }
            }
            Action::BrokerTakes => {
                if let Some((session, id)) = self.wire.pop_front() {
                    let content = self
                        .visible()
                        .entries
                        .get(&id)
                        .cloned()
                        .expect("still stored");
                    let before = self.arrived.insert(id, content.clone());
                    assert!(
                        before.is_none_or(|before| before == content),
                        "{id:?} arrived twice with different contents"
                    );
                    self.acks.push_back((session, id));
                }
            }
            Action::AckComes => {
                if let Some((session, id)) = self.acks.pop_front() {
                    self.handle(Input::Acked { session, id });
                }
            }
            Action::Wait(seconds) => {
                self.now += Duration::from_secs(seconds);
                if self.outbox.deadline().is_some_and(|d| d <= self.now) {
                    self.handle(Input::Tick);
                }
            }
            Action::Crash(keep) => {
                let keep = keep.index(self.unsynced.len() + 1);
                for change in self.unsynced.drain(..).take(keep) {
                    self.durable.apply(&change);
                }
                self.pending = None;
                self.up = false;
                self.wire.clear();
                self.acks.clear();
                self.outbox = Outbox::new(LIMITS, restored(&self.durable));
                self.handle(Input::Tick);
                self.feed();
            }
        }
    }

    /// Repairs everything and runs until the outbox is idle.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.feed();
            self.act(Action::LinkUp);
            self.act(Action::DiskDone);
            self.act(Action::BrokerTakes);
            self.act(Action::AckComes);
            let read = self.outbox.cursor().map_or(0, |c| c.0);
            let newest = self.journal.keys().next_back().copied().unwrap_or(0);
            if self.outbox.is_idle() && self.wire.is_empty() && read >= newest {
                return;
            }
        }
        panic!("never idle: {:?}", self.outbox);
    }

    fn assert_no_silent_gap(&self) {
        let mut delivered = BTreeSet::new();
        let mut losses = Vec::new();
        for content in self.arrived.values() {
            match content {
                Content::Message(draft) => delivered.extend(draft.seq.map(|s| s.0)),
                Content::Loss(loss) => losses.push(loss),
            }
        }
        // The guarantee covers the first record up to the last existing one.
        let first = self.journal.keys().next().copied().unwrap_or(1);
        let newest = self.journal.keys().next_back().copied().unwrap_or(0);
        for seq in first..=newest {
            assert!(
                delivered.contains(&seq) || losses.iter().any(|l| l.covers(seq)),
                "record {seq} of {newest} is lost without a loss record"
            );
        }
    }
}

fn restored(disk: &Disk) -> Restored {
    Restored {
        entries: (disk.entries.iter())
            .map(|(id, content)| (*id, RestoredEntry::from_content(content.clone())))
            .collect(),
        cursor: disk.cursor,
        next_id: disk.next_id,
        damaged: 0,
    }
}

/// A message of `size` bytes.
pub(super) fn draft(class: Class, severity: Severity, seq: Option<u64>, size: u16) -> Draft {
    Draft {
        class,
        severity,
        topic: "t".to_owned(),
        retain: false,
        seq: seq.map(EventSeq),
        payload: vec![b'x'; usize::from(size)],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_failure_causes_a_gap_without_a_loss_record(
        actions in proptest::collection::vec(any_action(), 0..160),
    ) {
        let mut world = World::new();
        for action in actions {
            world.act(action);
        }
        world.settle();
        world.assert_no_silent_gap();
    }
}

/// Plays one fixed story, with a power cut after each of its steps.
#[test]
fn power_cut_after_any_step_leaves_no_gap() {
    let story: Vec<Action> = (0..12)
        .flat_map(|i| {
            [
                Action::Record(Severity::Info, Class::Event, 10),
                Action::DiskDone,
                Action::LinkUp,
                Action::BrokerTakes,
                Action::DiskDone,
                Action::AckComes,
                Action::Record(Severity::Warning, Class::Event, 30),
            ]
            .into_iter()
            .chain((i % 4 == 3).then_some(Action::LinkDown))
        })
        .collect();
    for cut in 0..story.len() {
        let mut world = World::new();
        for (step, action) in story.iter().enumerate() {
            world.act(action.clone());
            if step == cut {
                // No unsynced write survives.
                world.unsynced.clear();
                world.act(Action::Crash(first_index()));
            }
        }
        world.settle();
        world.assert_no_silent_gap();
    }
}

fn first_index() -> prop::sample::Index {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    any::<prop::sample::Index>()
        .new_tree(&mut TestRunner::deterministic())
        .expect("an index")
        .current()
}
