//! Which effect is done when: lanes in front of the world.
//!
//! ```text
//!  handle(Listed) ─► its step's lane ─► its turn ─► Execute ─► handle(Finished) ─► Settle ─► handle(Settled): the next of the lane
//!                                          ▲                        │ may pass
//!                                          └──── a growing pause ◄──┘
//! ```
//!
//! Invariants:
//! - what one step wants is done one after the other, in the order of the numbers; a step that fails holds up nobody but itself;
//! - at most [`Limits::active`] are under way at a time, of those whose turn it is the one that has waited longest first;
//! - every effect that was listed is settled: as done, or as given up, after so many tries or at such an age;
//! - nothing is tried again before its pause is over.
//!
//! Not here: the runtime, the network, the clock (callers pass `now`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::spool::{EffectNumber, EffectOutcome};

use super::fault::{Fault, Retry};
use watchkeeper_client::backoff::Backoff;

/// Longest pause that somebody else may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// Bounds of what is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most effects that are under way at a time.
    pub active: usize,
    /// Most tries of one.
    pub tries: u32,
    /// Age at which one is given up.
    pub age: Duration,
    /// First pause after a failure.
    pub first: Duration,
    pub ceiling: Duration,
}

impl Default for Limits {
    /// Pauses from a second to five minutes: some 300 tries fill a day.
    fn default() -> Self {
        Self {
            active: 8,
            tries: 500,
            age: Duration::from_secs(86_400),
            first: Duration::from_secs(1),
            ceiling: Duration::from_secs(300),
        }
    }
}

/// Whose effects wait for each other: a step of a pipeline.
pub type LaneName = (PipelineId, String);

/// An effect that waits, as it was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEffect {
    pub number: EffectNumber,
    pub lane: LaneName,
    /// How old it is by now.
    pub age: Duration,
}

/// What happens to the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// These wait at the runtime. One that is known already is passed over.
    Listed(Vec<ListedEffect>),
    /// What came of [`Output::Execute`].
    Finished(EffectNumber, Result<(), Fault>),
    /// It could not be had from the runtime; that is no try.
    Unread(EffectNumber),
    /// It waits no more: somebody else settled it.
    Gone(EffectNumber),
    /// The runtime knows what came of it.
    Settled(EffectNumber),
    /// The runtime has other numbers than it had: everything that is known is out of date.
    Restarted,
    /// A deadline passed.
    Tick,
}

/// What the shell has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Do it, then answer [`Input::Finished`], [`Input::Unread`] or [`Input::Gone`].
    Execute(EffectNumber),
    /// Tell the runtime, however long that takes, then answer [`Input::Settled`].
    Settle(EffectNumber, EffectOutcome),
}

#[derive(Debug)]
struct Item {
    lane: LaneName,
    born: Instant,
    tries: u32,
    last: Option<String>,
}

#[derive(Debug)]
struct Lane {
    numbers: BTreeSet<EffectNumber>,
    /// Whether its first is under way or being settled.
    is_busy: bool,
    due: Instant,
    backoff: Backoff,
}

/// The state machine. Feed it with [`Queue::handle`], then drain [`Queue::poll`].
#[derive(Debug)]
pub struct Queue {
    limits: Limits,
    seed: u64,
    items: BTreeMap<EffectNumber, Item>,
    lanes: BTreeMap<LaneName, Lane>,
    active: usize,
    outputs: VecDeque<Output>,
}

impl Queue {
    /// An empty one; `seed` fixes the jitter of its pauses.
    #[must_use]
    pub fn new(limits: Limits, seed: u64) -> Self {
        Self {
            limits,
            seed,
            items: BTreeMap::new(),
            lanes: BTreeMap::new(),
            active: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input; drain [`Self::poll`] afterwards.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Listed(listed) => {
                for listed in listed {
                    self.take(now, listed);
                }
            }
            Input::Finished(number, result) => self.finished(now, number, result),
            Input::Unread(number) => self.pause(now, number, None),
            Input::Gone(number) | Input::Settled(number) => self.forget(now, number),
            Input::Restarted => {
                // What is under way comes back under a number that nobody knows.
                self.items.clear();
                self.lanes.clear();
                self.active = 0;
                self.outputs.clear();
            }
            Input::Tick => {}
        }
        self.plan(now);
    }

    /// The next thing to do, until there is nothing left.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Tick`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.active >= self.limits.active {
            return None;
        }
        let idle = self.lanes.values().filter(|lane| !lane.is_busy);
        idle.map(|lane| lane.due).min()
    }

    /// Effects that are known and not settled.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether none are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn take(&mut self, now: Instant, listed: ListedEffect) {
        let ListedEffect { number, lane, age } = listed;
        if self.items.contains_key(&number) {
            return;
        }
        let seed = self.seed.wrapping_add(number.0);
        let limits = self.limits;
        let entry = self.lanes.entry(lane.clone()).or_insert_with(|| Lane {
            numbers: BTreeSet::new(),
            is_busy: false,
            due: now,
            backoff: Backoff::new(limits.first, limits.ceiling, seed),
        });
        entry.numbers.insert(number);
        let item = Item {
            lane,
            born: now.checked_sub(age).unwrap_or(now),
            tries: 0,
            last: None,
        };
        self.items.insert(number, item);
    }

    fn finished(&mut self, now: Instant, number: EffectNumber, result: Result<(), Fault>) {
        let Some(item) = self.items.get_mut(&number) else {
            return;
        };
        item.tries += 1;
        match result {
            Ok(()) => self.settle(number, EffectOutcome::Done),
            Err(fault) => match fault.retry {
                Retry::Never => self.settle(number, EffectOutcome::Failed { why: fault.why }),
                Retry::After(retry_after) => {
                    item.last = Some(fault.why);
                    if item.tries >= self.limits.tries {
                        self.give_up(now, number);
                    } else {
                        self.pause(now, number, retry_after);
                    }
                }
            },
        }
    }

    fn settle(&mut self, number: EffectNumber, outcome: EffectOutcome) {
        self.outputs.push_back(Output::Settle(number, outcome));
    }

    fn give_up(&mut self, now: Instant, number: EffectNumber) {
        let Some(item) = self.items.get(&number) else {
            return;
        };
        let age = now.saturating_duration_since(item.born).as_secs();
        let tries = item.tries;
        let why = match &item.last {
            Some(last) => format!("given up after {tries} tries, {age} s old; the last: {last}"),
            None => format!("given up before it was tried: it was {age} s old"),
        };
        self.settle(number, EffectOutcome::Failed { why });
    }

    /// Its lane waits a while.
    fn pause(&mut self, now: Instant, number: EffectNumber, retry_after: Option<Duration>) {
        if let Some(lane) = self.lane_of(number)
            && std::mem::take(&mut lane.is_busy)
        {
            let pause = lane.backoff.next_delay();
            lane.due = now + pause.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER));
            self.active = self.active.saturating_sub(1);
        }
    }

    fn forget(&mut self, now: Instant, number: EffectNumber) {
        let Some(lane) = self.lane_of(number) else {
            return;
        };
        let was_first = lane.numbers.first() == Some(&number);
        lane.numbers.remove(&number);
        let is_empty = lane.numbers.is_empty();
        let was_busy = was_first && std::mem::take(&mut lane.is_busy);
        if was_busy {
            lane.backoff.reset();
            lane.due = now;
        }
        if let Some(item) = self.items.remove(&number)
            && is_empty
        {
            self.lanes.remove(&item.lane);
        }
        if was_busy {
            self.active = self.active.saturating_sub(1);
        }
    }

    fn lane_of(&mut self, number: EffectNumber) -> Option<&mut Lane> {
        let item = self.items.get(&number)?;
        self.lanes.get_mut(&item.lane)
    }

    /// Begins what has become possible.
    fn plan(&mut self, now: Instant) {
        while self.active < self.limits.active {
            let idle = self
                .lanes
                .values_mut()
                .filter(|lane| !lane.is_busy && lane.due <= now);
            let Some(lane) = idle.min_by_key(|lane| lane.due) else {
                return;
            };
            let Some(number) = lane.numbers.first().copied() else {
                return;
            };
            lane.is_busy = true;
            self.active += 1;
            let born = self.items.get(&number).map(|item| item.born);
            let is_old =
                born.is_some_and(|born| now.saturating_duration_since(born) >= self.limits.age);
            if is_old {
                self.give_up(now, number);
            } else {
                self.outputs.push_back(Output::Execute(number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits {
        active: 2,
        tries: 3,
        age: Duration::from_secs(100),
        first: Duration::from_secs(1),
        ceiling: Duration::from_secs(10),
    };

    fn lane(step: &str) -> LaneName {
        (PipelineId::new("gate").expect("a name"), step.to_owned())
    }

    fn listed(number: u64, step: &str, age_s: u64) -> ListedEffect {
        ListedEffect {
            number: EffectNumber(number),
            lane: lane(step),
            age: Duration::from_secs(age_s),
        }
    }

    /// A queue, the time, and what it wants done.
    struct World {
        queue: Queue,
        now: Instant,
    }

    impl World {
        fn new() -> Self {
            Self {
                queue: Queue::new(LIMITS, 7),
                now: Instant::now(),
            }
        }

        fn feed(&mut self, input: Input) -> Vec<Output> {
            self.queue.handle(self.now, input);
            std::iter::from_fn(|| self.queue.poll()).collect()
        }

        fn list(&mut self, listed: &[ListedEffect]) -> Vec<Output> {
            self.feed(Input::Listed(listed.to_vec()))
        }

        /// Goes on to the next deadline.
        fn wait(&mut self) -> Vec<Output> {
            self.now = self
                .queue
                .deadline()
                .map_or(self.now, |due| due.max(self.now));
            self.feed(Input::Tick)
        }
    }

    fn execute(number: u64) -> Output {
        Output::Execute(EffectNumber(number))
    }

    fn done(number: u64) -> Output {
        Output::Settle(EffectNumber(number), EffectOutcome::Done)
    }

    #[test]
    fn a_step_has_one_under_way_and_the_next_only_when_that_is_settled() {
        let mut world = World::new();
        let out = world.list(&[listed(1, "a", 0), listed(2, "a", 0)]);
        assert_eq!(out, [execute(1)]);
        assert_eq!(world.list(&[listed(2, "a", 0)]), [], "known already");
        assert_eq!(
            world.feed(Input::Finished(EffectNumber(1), Ok(()))),
            [done(1)]
        );
        assert_eq!(world.feed(Input::Settled(EffectNumber(1))), [execute(2)]);
    }

    #[test]
    fn a_step_that_fails_holds_up_nobody_else_and_pauses_grow() {
        let mut world = World::new();
        let all = [listed(1, "a", 0), listed(2, "b", 0), listed(3, "c", 0)];
        assert_eq!(world.list(&all), [execute(1), execute(2)], "two at a time");
        let failed = || Input::Finished(EffectNumber(1), Err(Fault::later("no answer")));
        assert_eq!(world.feed(failed()), [execute(3)]);
        let began = world.now;
        world.feed(Input::Finished(EffectNumber(2), Ok(())));
        world.feed(Input::Settled(EffectNumber(2)));
        assert_eq!(world.wait(), [execute(1)]);
        let first = world.now - began;
        assert!(first >= LIMITS.first / 2, "{first:?}");
        let again = world.now;
        world.feed(failed());
        assert_eq!(world.wait(), [execute(1)]);
        assert!(
            world.now - again >= LIMITS.first,
            "twice as long, less the jitter"
        );
        // The third try was the last.
        let out = world.feed(failed());
        let [Output::Settle(_, EffectOutcome::Failed { why })] = &out[..] else {
            panic!("{out:?}");
        };
        assert!(
            why.contains("3 tries") && why.contains("no answer"),
            "{why}"
        );
    }

    #[test]
    fn what_can_never_be_done_is_given_up_at_once_and_what_is_too_old_untried() {
        let mut world = World::new();
        world.list(&[listed(1, "a", 0), listed(2, "b", 101)]);
        let out = world.feed(Input::Finished(EffectNumber(1), Err(Fault::never("404"))));
        let failed = |why: &str| EffectOutcome::Failed {
            why: why.to_owned(),
        };
        assert_eq!(out, [Output::Settle(EffectNumber(1), failed("404"))]);
        let mut world = World::new();
        let out = world.list(&[listed(2, "b", 101)]);
        let [Output::Settle(_, EffectOutcome::Failed { why })] = &out[..] else {
            panic!("{out:?}");
        };
        assert!(why.contains("before it was tried"), "{why}");
    }

    #[test]
    fn a_server_that_asks_for_time_gets_it_within_an_hour() {
        let mut world = World::new();
        let began = world.now;
        world.list(&[listed(1, "a", 0)]);
        let retry_after = |s| Fault {
            retry: Retry::After(Some(Duration::from_secs(s))),
            why: "busy".to_owned(),
        };
        world.feed(Input::Finished(EffectNumber(1), Err(retry_after(50))));
        world.wait();
        assert!(world.now - began >= Duration::from_secs(50));
        let began = world.now;
        world.feed(Input::Finished(
            EffectNumber(1),
            Err(retry_after(1_000_000)),
        ));
        world.wait();
        assert!(world.now - began <= MAX_RETRY_AFTER);
    }

    #[test]
    fn a_runtime_that_is_away_costs_no_try() {
        let mut world = World::new();
        world.list(&[listed(1, "a", 0)]);
        for _ in 0..5 {
            assert_eq!(world.feed(Input::Unread(EffectNumber(1))), []);
            assert_eq!(world.wait(), [execute(1)]);
        }
        assert_eq!(world.feed(Input::Gone(EffectNumber(1))), []);
        assert!(world.queue.is_empty());
        assert_eq!(world.queue.deadline(), None);
    }

    #[test]
    fn what_was_under_way_when_the_numbers_began_anew_is_nobodys() {
        let mut world = World::new();
        world.list(&[listed(7, "a", 0)]);
        world.feed(Input::Restarted);
        assert_eq!(world.feed(Input::Finished(EffectNumber(7), Ok(()))), []);
        assert_eq!(world.list(&[listed(1, "a", 0)]), [execute(1)]);
    }

    proptest! {
        /// Whatever fails: every effect is settled once, each step's in order, and never more than so many are under way.
        #[test]
        fn everything_ends_in_order(
            steps in proptest::collection::vec(0_u64..4, 1..40),
            luck in proptest::collection::vec(0_u8..6, 1..60),
        ) {
            let mut world = World::new();
            let mut luck = luck.iter().cycle();
            let all: Vec<ListedEffect> = (1..)
                .zip(&steps)
                .map(|(number, step)| listed(number, &step.to_string(), 0))
                .collect();
            let mut todo: VecDeque<Output> = world.list(&all).into();
            let mut settled = Vec::new();
            let mut turns = 0;
            while settled.len() < all.len() {
                turns += 1;
                prop_assert!(turns < 10_000, "it goes on for ever");
                // What was wanted and not answered yet is under way.
                prop_assert!(todo.len() <= LIMITS.active, "{:?}", todo);
                let answer = match todo.pop_front() {
                    None => {
                        todo.extend(world.wait());
                        continue;
                    }
                    Some(Output::Execute(number)) => match luck.next() {
                        Some(0) => Input::Unread(number),
                        Some(1) => Input::Finished(number, Err(Fault::later("later"))),
                        Some(2) => Input::Finished(number, Err(Fault::never("never"))),
                        _ => Input::Finished(number, Ok(())),
                    },
                    Some(Output::Settle(number, _)) => {
                        settled.push(number);
                        Input::Settled(number)
                    }
                };
                todo.extend(world.feed(answer));
            }
            for step in 0..4 {
                let of_step: Vec<_> = settled
                    .iter()
                    .filter(|n| usize::try_from(n.0 - 1).ok().and_then(|n| steps.get(n)) == Some(&step))
                    .collect();
                prop_assert!(of_step.is_sorted());
            }
            let once: BTreeSet<_> = settled.iter().collect();
            prop_assert_eq!(once.len(), all.len());
            prop_assert!(world.queue.is_empty());
        }
    }
}
