//! Effects that wait, expire, or are refused.

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

/// A queue and its clock.
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

    /// Advances the clock to the next deadline.
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
    Output::Report(EffectNumber(number), EffectOutcome::Done)
}

#[test]
fn next_effect_of_a_step_starts_after_the_first_is_reported() {
    let mut world = World::new();
    let out = world.list(&[listed(1, "a", 0), listed(2, "a", 0)]);
    assert_eq!(out, [execute(1)]);
    assert_eq!(world.list(&[listed(2, "a", 0)]), [], "known already");
    assert_eq!(
        world.feed(Input::Finished(EffectNumber(1), Ok(()))),
        [done(1)]
    );
    assert_eq!(world.feed(Input::Reported(EffectNumber(1))), [execute(2)]);
}

#[test]
fn failing_step_delays_no_other_and_its_pauses_grow() {
    let mut world = World::new();
    let all = [listed(1, "a", 0), listed(2, "b", 0), listed(3, "c", 0)];
    assert_eq!(world.list(&all), [execute(1), execute(2)], "two at a time");
    let failed = || Input::Finished(EffectNumber(1), Err(Fault::transient("no answer")));
    assert_eq!(world.feed(failed()), [execute(3)]);
    let began = world.now;
    world.feed(Input::Finished(EffectNumber(2), Ok(())));
    world.feed(Input::Reported(EffectNumber(2)));
    assert_eq!(world.wait(), [execute(1)]);
    let first = world.now - began;
    assert!(first >= LIMITS.first / 2, "{first:?}");
    let retried = world.now;
    world.feed(failed());
    assert_eq!(world.wait(), [execute(1)]);
    assert!(
        world.now - retried >= LIMITS.first,
        "twice the first pause, less the jitter"
    );
    // The third try was the last.
    let out = world.feed(failed());
    let [Output::Report(_, EffectOutcome::Failed { why })] = &out[..] else {
        panic!("{out:?}");
    };
    assert!(
        why.contains("3 tries") && why.contains("no answer"),
        "{why}"
    );
}

#[test]
fn effect_that_may_have_been_received_is_repeated_a_few_times() {
    let mut world = World::new();
    world.queue = Queue::new(Limits::default(), 7);
    assert_eq!(world.list(&[listed(1, "a", 0)]), [execute(1)]);
    let unanswered = || Err(Fault::unanswered("no answer in time"));
    let failed = |world: &mut World| world.feed(Input::Finished(EffectNumber(1), unanswered()));
    for _ in 1..MAX_UNANSWERED {
        let began = world.now;
        assert_eq!(failed(&mut world), []);
        assert_eq!(world.wait(), [execute(1)]);
        assert!(world.now - began >= UNANSWERED_PAUSE);
    }
    let out = failed(&mut world);
    let [Output::Report(_, EffectOutcome::Failed { why })] = &out[..] else {
        panic!("{out:?}");
    };
    assert!(why.contains("it may have been sent"), "{why}");
}

#[test]
fn permanent_fault_and_excessive_age_give_up_at_once() {
    let mut world = World::new();
    world.list(&[listed(1, "a", 0), listed(2, "b", 101)]);
    let out = world.feed(Input::Finished(
        EffectNumber(1),
        Err(Fault::permanent("404")),
    ));
    let failed = |why: &str| EffectOutcome::Failed {
        why: why.to_owned(),
    };
    assert_eq!(out, [Output::Report(EffectNumber(1), failed("404"))]);
    let mut world = World::new();
    let out = world.list(&[listed(2, "b", 101)]);
    let [Output::Report(_, EffectOutcome::Failed { why })] = &out[..] else {
        panic!("{out:?}");
    };
    assert!(why.contains("before the first try"), "{why}");
}

#[test]
fn retry_after_is_respected_up_to_its_maximum() {
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
fn unreachable_runtime_counts_no_attempt() {
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
fn result_of_an_old_number_is_ignored_after_restart() {
    let mut world = World::new();
    world.list(&[listed(7, "a", 0)]);
    world.feed(Input::Restarted);
    assert_eq!(world.feed(Input::Finished(EffectNumber(7), Ok(()))), []);
    assert_eq!(world.list(&[listed(1, "a", 0)]), [execute(1)]);
}

proptest! {
    /// Every effect is reported once and in the order of its step, with at most
    /// [`Limits::active`] running.
    #[test]
    fn every_effect_is_reported_once_in_order(
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
        let mut reported = Vec::new();
        let mut rounds = 0;
        while reported.len() < all.len() {
            rounds += 1;
            prop_assert!(rounds < 10_000, "the queue does not come to an end");
            // Outputs without an answer are running.
            prop_assert!(todo.len() <= LIMITS.active, "{:?}", todo);
            let answer = match todo.pop_front() {
                None => {
                    todo.extend(world.wait());
                    continue;
                }
                Some(Output::Execute(number)) => match luck.next() {
                    Some(0) => Input::Unread(number),
                    Some(1) => Input::Finished(number, Err(Fault::transient("later"))),
                    Some(2) => Input::Finished(number, Err(Fault::permanent("never"))),
                    _ => Input::Finished(number, Ok(())),
                },
                Some(Output::Report(number, _)) => {
                    reported.push(number);
                    Input::Reported(number)
                }
            };
            todo.extend(world.feed(answer));
        }
        for step in 0..4 {
            let of_step: Vec<_> = reported
                .iter()
                .filter(|n| usize::try_from(n.0 - 1).ok().and_then(|n| steps.get(n)) == Some(&step))
                .collect();
            prop_assert!(of_step.is_sorted());
        }
        let once: BTreeSet<_> = reported.iter().collect();
        prop_assert_eq!(once.len(), all.len());
        prop_assert!(world.queue.is_empty());
    }
}
