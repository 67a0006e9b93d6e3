//! Properties of the budget's shares: no class starves a higher one.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{NOON, wall};
use crate::budget::{CallBound, CallClass, Limits, Period, Refusal};
use crate::ledger::state::{State, day, month};
use crate::ledger::{CallOutcome, Entry, Ticket};
use crate::money::Money;
use crate::usage::Usage;

const MINUTE: i64 = 60_000;
/// Share of one rule of a day's money.
const RULE_DAY: u64 = 200;
/// A call counts for up to 61 minutes.
const WINDOW: i64 = 61 * MINUTE;

fn limits() -> Limits {
    Limits {
        calls_per_hour: 20,
        day: Money(1_000),
        month: Money(5_000),
        ..Limits::default()
    }
}

/// An accepted call, as the test remembers it.
#[derive(Debug, Clone)]
struct Accepted {
    at_ms: i64,
    class: CallClass,
    rule: Option<String>,
    cost: Money,
}

/// The budget, a clock that the test moves, and the test's own account of what was accepted.
struct Bench {
    state: State,
    start: Instant,
    at_ms: i64,
    accepted: Vec<Accepted>,
    open: Vec<(usize, Ticket)>,
}

impl Bench {
    fn new() -> Self {
        let start = Instant::now();
        let mut state = State {
            limits: limits(),
            ..State::default()
        };
        let _ = state.report(start, wall(NOON));
        Self {
            state,
            start,
            at_ms: NOON,
            accepted: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Reserves a call; the wall clock lags by `lag_h` hours.
    fn reserve(&mut self, class: CallClass, worst: u64, lag_h: i64) -> Result<(), Refusal> {
        let passed = Duration::from_millis((self.at_ms - NOON).unsigned_abs());
        let wall = wall(self.at_ms - lag_h * 60 * MINUTE);
        let rule = (class == CallClass::Escalation).then(|| format!("gate/{}", worst % 3));
        let worst = Money(worst);
        let entry = Entry {
            job: "a".to_owned(),
            class,
            rule: rule.clone(),
            provider: "p".to_owned(),
            model: "m".to_owned(),
            tokens: 1,
            worst,
        };
        let (ticket, _) = self.state.reserve(self.start + passed, wall, &entry)?;
        self.open.push((self.accepted.len(), ticket));
        self.accepted.push(Accepted {
            at_ms: self.at_ms,
            class,
            rule,
            cost: worst,
        });
        Ok(())
    }

    fn settle(&mut self, percent: u64) {
        if let Some((n, ticket)) = self.open.pop() {
            let cost = Money(self.accepted[n].cost.0 * percent / 100);
            self.accepted[n].cost = cost;
            let (outcome, usage) = (CallOutcome::Answered, Usage::default());
            let _ = self.state.settle(ticket, outcome, usage, cost);
        }
    }

    /// Counts the calls of the hour that `counts` accepts.
    fn calls(&self, counts: impl Fn(&Accepted) -> bool) -> u32 {
        let hour = self.accepted.iter();
        let hour = hour.filter(|call| call.at_ms > self.at_ms - WINDOW);
        u32::try_from(hour.filter(|call| counts(call)).count()).expect("few")
    }

    /// Sums the money of the period that `counts` accepts.
    fn spent(&self, period: Period, counts: impl Fn(&Accepted) -> bool) -> Money {
        let now = self.at_ms;
        let calls = self.accepted.iter().filter(|call| match period {
            Period::Day => day(call.at_ms) == day(now),
            Period::Month => month(call.at_ms) == month(now),
        });
        calls
            .filter(|call| counts(call))
            .map(|call| call.cost)
            .sum()
    }

    /// Checks that a refused call of `class` is one above what lower classes leave. This class and
    /// the higher ones below the ceiling used that up.
    fn check_refused(&self, class: CallClass, worst: u64, refusal: &Refusal) -> Result<(), String> {
        let limits = limits();
        let lower = CallClass::ALL.into_iter().find(|lower| *lower < class);
        let left = |bound: CallClass, limit: u64| {
            bound.ceiling(limit) - lower.map_or(0, |lower| lower.ceiling(limit))
        };
        let is_own = |call: &Accepted, bound| (class..=bound).contains(&call.class);
        let is_earned = match refusal {
            Refusal::Calls {
                bound: CallBound::Rule(rule),
                ..
            } => self.calls(|call| call.rule.as_ref() == Some(rule)) >= 4,
            Refusal::Calls {
                bound: CallBound::Class(bound),
                ..
            } => {
                let own = self.calls(|call| is_own(call, *bound));
                u64::from(own) >= left(*bound, limits.calls_per_hour.into())
            }
            Refusal::Money {
                bound: CallBound::Rule(rule),
                ..
            } => {
                let own = self.spent(Period::Day, |call| call.rule.as_ref() == Some(rule));
                own > Money::ZERO && own.0 + worst > RULE_DAY
            }
            Refusal::Money {
                period,
                bound: CallBound::Class(bound),
                ..
            } => {
                let limit = match period {
                    Period::Day => limits.day.0,
                    Period::Month => limits.month.0,
                };
                let own = self.spent(*period, |call| is_own(call, *bound));
                own.0 + worst > left(*bound, limit)
            }
            Refusal::Tokens { .. } => false,
        };
        is_earned
            .then_some(())
            .ok_or_else(|| format!("{class:?} is starved: {refusal:?}"))
    }

    /// Checks that no class uses more than its ceiling.
    fn check_ceilings(&self) -> Result<(), String> {
        let limits = limits();
        for class in CallClass::ALL {
            let is_below = |call: &Accepted| call.class <= class;
            let is_kept = u64::from(self.calls(is_below))
                <= class.ceiling(limits.calls_per_hour.into())
                && self.spent(Period::Day, is_below).0 <= class.ceiling(limits.day.0)
                && self.spent(Period::Month, is_below).0 <= class.ceiling(limits.month.0);
            if !is_kept {
                return Err(format!(
                    "{class:?} is above its ceiling: {:?}",
                    self.accepted
                ));
            }
        }
        for rule in (0..3).map(|n| format!("gate/{n}")) {
            let is_own = |call: &Accepted| call.rule.as_ref() == Some(&rule);
            let own = self.accepted.iter().filter(|call| is_own(call));
            let first = own.map(|call| call.cost.0).max().unwrap_or(0);
            if self.spent(Period::Day, is_own).0 > RULE_DAY.max(first) {
                return Err(format!("{rule} is above its share: {:?}", self.accepted));
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone)]
enum Step {
    Reserve {
        class: CallClass,
        worst: u64,
        lag_h: i64,
    },
    Settle {
        percent: u64,
    },
    Pass {
        minutes: i64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let class = prop::sample::select(CallClass::ALL.to_vec());
    let step = prop_oneof![
        8 => (class, prop_oneof![8 => 0..90_u64, 1 => 200..400_u64], -2..48_i64)
            .prop_map(|(class, worst, lag)| Step::Reserve { class, worst, lag_h: lag.max(0) }),
        4 => (0..=100_u64).prop_map(|percent| Step::Settle { percent }),
        2 => (0..30_i64).prop_map(|minutes| Step::Pass { minutes }),
        1 => (0..3_000_i64).prop_map(|minutes| Step::Pass { minutes }),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn lower_classes_never_starve_a_higher_one(steps in steps()) {
        let mut bench = Bench::new();
        for step in steps {
            match step {
                Step::Reserve { class, worst, lag_h } => {
                    if let Err(refusal) = bench.reserve(class, worst, lag_h) {
                        bench.check_refused(class, worst, &refusal).map_err(TestCaseError::fail)?;
                    }
                }
                Step::Settle { percent } => bench.settle(percent),
                Step::Pass { minutes } => bench.at_ms += minutes * MINUTE,
            }
            bench.check_ceilings().map_err(TestCaseError::fail)?;
        }
    }

    #[test]
    fn looks_leave_half_of_the_heartbeats_share(mut looks in prop::collection::vec(0..60_i64, 0..200)) {
        let mut bench = Bench::new();
        looks.sort_unstable();
        for minute in looks {
            bench.at_ms = NOON + minute * MINUTE;
            bench.reserve(CallClass::Look, 0, 0).ok();
        }
        prop_assert!(bench.calls(|call| call.class == CallClass::Look) <= 2);
        for n in 0..2 {
            prop_assert!(bench.reserve(CallClass::Heartbeat, 0, 0).is_ok(), "call {n}");
        }
    }

    #[test]
    fn person_has_half_of_the_hour_whatever_the_box_does(
        mut automatic in prop::collection::vec((0..3_usize, 0..60_i64), 0..200),
    ) {
        let mut bench = Bench::new();
        automatic.sort_by_key(|(_, minute)| *minute);
        for (class, minute) in automatic {
            bench.at_ms = NOON + minute * MINUTE;
            let class = [CallClass::Escalation, CallClass::Heartbeat, CallClass::Look][class];
            bench.reserve(class, 0, 0).ok();
        }
        for n in 0..10 {
            prop_assert!(bench.reserve(CallClass::Person, 0, 0).is_ok(), "call {n}");
        }
    }
}
