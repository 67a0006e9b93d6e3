//! Tests of the ledger on a store that fails on demand.

mod fairness;
mod hanging;

use std::time::Duration;

use proptest::prelude::*;
use watchkeeper_contract::time::TimeQuality;
use watchkeeper_store::{FaultyStore, MemoryStore};

use super::on_disk::testing::{damage_call, damage_head, newer_head, older_head};
use super::*;
use crate::attempt_error::AttemptErrorKind;
use crate::budget::{CallBound, CallClass, Period, RefusalCause};

/// 2026-11-22T12:00:00Z
const NOON: i64 = 1_795_348_800_000;
const HOUR: i64 = 3_600_000;
const CENT: Money = Money(10_000_000);

fn wall(unix_ms: i64) -> Wall {
    let quality = TimeQuality::Estimated;
    Wall { unix_ms, quality }
}

fn limits() -> Limits {
    Limits {
        calls_per_hour: 3,
        tokens_per_call: 1_000,
        day: CENT.times(10),
        month: CENT.times(25),
        soft_percent: 80,
    }
}

fn entry(worst: Money) -> Entry {
    Entry {
        job: "verdict/1".to_owned(),
        class: CallClass::Person,
        rule: None,
        provider: "p".to_owned(),
        model: "m".to_owned(),
        tokens: 100,
        worst,
    }
}

fn used(output: u64) -> Usage {
    Usage {
        output,
        ..Usage::default()
    }
}

/// A ledger on a store, and a clock that the test moves.
struct Bench {
    store: Arc<FaultyStore<MemoryStore>>,
    ledger: Ledger,
    start: Instant,
    at_ms: i64,
}

impl Bench {
    fn new(limits: Limits) -> Self {
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let ledger = Ledger::open(store.clone(), Path::new("/state"), limits).expect("open");
        Self {
            store,
            ledger,
            start: Instant::now(),
            at_ms: NOON,
        }
    }

    fn restart(&mut self, limits: Limits) {
        self.ledger = Ledger::open(self.store.clone(), Path::new("/state"), limits).expect("open");
    }

    fn now(&self) -> (Instant, Wall) {
        let passed = Duration::from_millis((self.at_ms - NOON).unsigned_abs());
        (self.start + passed, wall(self.at_ms))
    }

    fn reserve(&self, worst: Money) -> Result<Ticket, LedgerError> {
        let (now, wall) = self.now();
        self.ledger.reserve(now, wall, &entry(worst))
    }

    fn spend(&self, cost: Money) {
        let ticket = self.reserve(cost).expect("reserve");
        let settled = self
            .ledger
            .settle(ticket, CallOutcome::Answered, used(7), cost);
        settled.expect("settle");
    }

    fn report(&self) -> Report {
        let (now, wall) = self.now();
        self.ledger.report(now, wall)
    }
}

fn refusal(result: Result<Ticket, LedgerError>) -> Refusal {
    match result {
        Err(LedgerError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn spent_sums_survive_a_restart() {
    let mut bench = Bench::new(limits());
    bench.spend(CENT);
    bench.spend(CENT.times(2));
    let before = bench.report();
    bench.restart(limits());
    let after = bench.report();
    assert_eq!(after, before);
    assert_eq!(after.day, CENT.times(3));
    let totals = Totals {
        calls: 2,
        usage: used(14),
        cost: CENT.times(3),
    };
    assert_eq!(after.jobs["verdict/1"], totals);
    // 2026-11-22 is day 20779, November 2026 month 682.
    assert_eq!(after.days[&20_779], totals);
    assert_eq!(after.months[&682], totals);
    assert_eq!(after.calls.len(), 2);
}

#[test]
fn call_left_open_by_a_crash_counts_in_full() {
    let mut bench = Bench::new(limits());
    let _lost = bench.reserve(CENT.times(6)).expect("reserve");
    bench.restart(limits());
    assert_eq!(bench.report().day, CENT.times(6));
    assert_eq!(bench.report().calls[0].outcome, CallOutcome::Open);
    assert!(matches!(
        refusal(bench.reserve(CENT.times(5))),
        Refusal::Money { .. }
    ));
}

#[test]
fn reservation_counts_until_it_is_settled() {
    let bench = Bench::new(limits());
    let first = bench.reserve(CENT.times(9)).expect("reserve");
    let refused = refusal(bench.reserve(CENT.times(2)));
    assert_eq!(
        refused,
        Refusal::Money {
            class: CallClass::Person,
            bound: CallBound::Class(CallClass::Person),
            period: Period::Day,
            spent: CENT.times(9),
            limit: CENT.times(10),
            allowed: CENT.times(10),
            needed: CENT.times(2),
            free_in: Some(Duration::from_secs(12 * 3600)),
        }
    );
    let failed = CallOutcome::Failed(AttemptErrorKind::Overloaded);
    let settled = bench
        .ledger
        .settle(first, failed, Usage::default(), Money::ZERO);
    settled.expect("settle");
    bench.reserve(CENT.times(2)).map(drop).expect("room again");
}

#[test]
fn hourly_limit_slides_and_a_large_call_is_refused() {
    let mut bench = Bench::new(limits());
    for _ in 0..3 {
        bench.spend(Money::ZERO);
    }
    bench.restart(limits());
    let refused = refusal(bench.reserve(Money::ZERO)).to_string();
    assert!(
        refused.contains("wait 61 min or raise `calls_per_hour`"),
        "{refused}"
    );
    bench.at_ms += HOUR + 60_000;
    bench.spend(Money::ZERO);
    let large = Entry {
        tokens: 1_001,
        ..entry(Money::ZERO)
    };
    let (now, wall) = bench.now();
    let result = bench.ledger.reserve(now, wall, &large);
    assert!(matches!(
        refusal(result),
        Refusal::Tokens {
            needed: 1_001,
            limit: 1_000
        }
    ));
}

#[test]
fn day_budget_renews_until_the_month_is_spent() {
    let mut bench = Bench::new(limits());
    for day in 0..2 {
        bench.at_ms = NOON + day * 24 * HOUR;
        bench.spend(CENT.times(10));
        assert!(matches!(
            refusal(bench.reserve(CENT)),
            Refusal::Money {
                period: Period::Day,
                ..
            }
        ));
    }
    bench.at_ms += 24 * HOUR;
    let refused = refusal(bench.reserve(CENT.times(6)));
    assert!(matches!(
        refused,
        Refusal::Money {
            period: Period::Month,
            ..
        }
    ));
    bench.spend(CENT.times(5));
}

#[test]
fn economy_is_reduced_above_the_soft_limit() {
    let bench = Bench::new(limits());
    let economy = || {
        let (now, wall) = bench.now();
        bench.ledger.economy(now, wall)
    };
    bench.spend(CENT.times(7));
    assert_eq!(economy(), Economy::Full);
    bench.spend(CENT);
    assert_eq!(economy(), Economy::Reduced);
}

#[test]
fn clock_set_back_restores_no_budget_even_after_a_restart() {
    let mut bench = Bench::new(limits());
    bench.spend(CENT.times(10));
    for days_back in [1, 40, 20_000] {
        let now = bench.now().0;
        let back = wall((NOON - days_back * 24 * HOUR).max(0));
        let result = bench.ledger.reserve(now, back, &entry(CENT));
        assert!(
            matches!(refusal(result), Refusal::Money { .. }),
            "{days_back}"
        );
        bench.restart(limits());
        let result = bench.ledger.reserve(now, back, &entry(CENT));
        assert!(
            matches!(refusal(result), Refusal::Money { .. }),
            "{days_back} and a restart"
        );
    }
}

#[test]
fn corrected_date_keeps_what_was_spent() {
    let mut bench = Bench::new(limits());
    bench.at_ms = NOON + 5_000 * 24 * HOUR;
    bench.spend(CENT.times(10));
    let truth = Wall {
        unix_ms: NOON,
        quality: TimeQuality::Synced,
    };
    let result = bench.ledger.reserve(bench.now().0, truth, &entry(CENT));
    assert!(matches!(
        refusal(result),
        Refusal::Money {
            period: Period::Day,
            ..
        }
    ));
}

#[test]
fn failed_write_refuses_the_call_and_counts_none() {
    let bench = Bench::new(limits());
    bench.spend(CENT);
    let before = bench.report();
    bench.store.syncs.blow_at(1);
    assert!(matches!(bench.reserve(CENT), Err(LedgerError::Store(_))));
    bench.store.syncs.repair();
    assert_eq!(bench.report(), before);
}

#[test]
fn damaged_head_resets_no_budget_and_a_newer_one_is_refused() {
    let mut bench = Bench::new(limits());
    bench.spend(CENT.times(10));
    damage_head(bench.store.as_ref());
    bench.restart(limits());
    assert!(matches!(
        refusal(bench.reserve(CENT)),
        Refusal::Money { .. }
    ));
    newer_head(bench.store.as_ref());
    let refused = Ledger::open(bench.store.clone(), Path::new("/state"), limits());
    let said = refused.expect_err("newer").to_string();
    assert!(
        said.contains("has format 2 and this version reads up to 1"),
        "{said}"
    );
}

#[test]
fn number_of_an_unreadable_call_is_not_used_again() {
    let mut bench = Bench::new(limits());
    bench.spend(CENT);
    damage_call(bench.store.as_ref(), 0);
    damage_head(bench.store.as_ref());
    bench.restart(limits());
    assert_eq!(bench.reserve(CENT).expect("reserve").seq, 1);
}

#[test]
fn refusals_of_a_day_are_counted_by_class_and_cause() {
    let mut bench = Bench::new(limits());
    let reserve = |bench: &Bench, class, worst| {
        let (now, wall) = bench.now();
        let entry = Entry {
            class,
            ..entry(worst)
        };
        refusal(bench.ledger.reserve(now, wall, &entry))
    };
    // One of three calls, and half of ten cents, is left to automatic calls.
    let dear = reserve(&bench, CallClass::Escalation, CENT.times(6)).to_string();
    assert!(
        dear.contains("may use $0.0500 of the day's LLM budget of $0.1000"),
        "{dear}"
    );
    reserve(&bench, CallClass::Heartbeat, Money::ZERO);
    reserve(&bench, CallClass::Heartbeat, Money::ZERO);
    // Every reservation writes the counts.
    bench.spend(Money::ZERO);
    bench.restart(limits());
    let of_class = |refused: &Refusals, class| {
        let causes = refused.get(&class).into_iter().flatten();
        causes.map(|(cause, n)| (*cause, *n)).collect::<Vec<_>>()
    };
    let refused = bench.report().refused;
    assert_eq!(
        of_class(&refused, CallClass::Escalation),
        [(RefusalCause::Day, 1)]
    );
    assert_eq!(
        of_class(&refused, CallClass::Heartbeat),
        [(RefusalCause::Hour, 2)]
    );
    bench.at_ms += 24 * HOUR;
    assert!(bench.report().refused.is_empty());
}

#[test]
fn older_ledger_opens_and_its_use_counts_as_that_of_persons() {
    let mut bench = Bench::new(limits());
    older_head(bench.store.as_ref(), NOON);
    bench.restart(limits());
    let report = bench.report();
    assert_eq!((report.calls_in_hour, report.day), (2, CENT.times(9)));
    assert_eq!(report.day_by_class.len(), 0);
    assert_eq!(report.refusal, None);
    bench.spend(CENT);
    let refused = refusal(bench.reserve(Money::ZERO));
    assert!(matches!(refused, Refusal::Calls { .. }));
    // A call that costs something waits for the next day, which is longer.
    let refused = bench.report().refusal;
    assert!(
        matches!(refused, Some(Refusal::Money { .. })),
        "{refused:?}"
    );
}

#[test]
fn ledger_stays_bounded_on_disk() {
    let mut bench = Bench::new(Limits {
        calls_per_hour: u32::MAX,
        ..limits()
    });
    for n in 0..700 {
        bench.at_ms = NOON + n * 24 * HOUR;
        let (now, wall) = bench.now();
        let entry = Entry {
            job: format!("job {n}"),
            ..entry(Money::ZERO)
        };
        drop(bench.ledger.reserve(now, wall, &entry).expect("reserve"));
    }
    bench.restart(limits());
    let report = bench.report();
    assert_eq!(
        (report.calls.len(), report.jobs.len(), report.days.len()),
        (500, 500, 400)
    );
    assert!(report.jobs.contains_key("job 699") && !report.jobs.contains_key("job 199"));
}

#[test]
fn one_rule_has_a_share_of_the_days_money() {
    let limits = Limits {
        calls_per_hour: 1_000,
        day: CENT.times(100),
        month: CENT.times(1_000),
        ..limits()
    };
    let mut bench = Bench::new(limits);
    let of = |rule: &str, worst| Entry {
        class: CallClass::Escalation,
        rule: Some(rule.to_owned()),
        ..entry(worst)
    };
    let reserve = |bench: &Bench, entry: &Entry| {
        let (now, wall) = bench.now();
        bench.ledger.reserve(now, wall, entry)
    };
    // The first call of a day fits whatever it may cost; its true cost counts.
    let ticket = reserve(&bench, &of("gate/door", CENT.times(24))).expect("the first call");
    let (outcome, usage) = (CallOutcome::Answered, used(1));
    bench
        .ledger
        .settle(ticket, outcome, usage, CENT.times(19))
        .expect("settled");
    bench.restart(limits);
    let refused = refusal(reserve(&bench, &of("gate/door", CENT.times(2))));
    assert_eq!(refused.cause(), RefusalCause::RuleDay);
    let said = refused.to_string();
    assert!(said.contains("one rule may use $0.2"), "{said}");
    assert!(said.contains("is used by gate/door"), "{said}");
    assert!(said.contains("wait 12 h"), "{said}");
    drop(reserve(&bench, &of("gate/door", CENT)).expect("below the share"));
    drop(reserve(&bench, &of("yard/fence", CENT.times(2))).expect("another rule"));
    let report = bench.report();
    assert_eq!(report.day_by_rule["gate/door"], CENT.times(20));
    assert_eq!(report.rule_day, CENT.times(20));
    let causes = &report.refused[&CallClass::Escalation];
    assert_eq!(causes[&RefusalCause::RuleDay], 1);
    bench.at_ms += 13 * HOUR;
    drop(reserve(&bench, &of("gate/door", CENT.times(2))).expect("a new day"));
}

#[test]
fn rules_above_the_bound_share_one_account() {
    let limits = Limits {
        calls_per_hour: 10_000,
        day: CENT.times(100_000),
        month: CENT.times(100_000),
        ..limits()
    };
    let bench = Bench::new(limits);
    for n in 0..300 {
        let entry = Entry {
            class: CallClass::Escalation,
            rule: Some(format!("gate/{n}")),
            ..entry(CENT)
        };
        let (now, wall) = bench.now();
        drop(bench.ledger.reserve(now, wall, &entry).expect("reserved"));
    }
    let by_rule = bench.report().day_by_rule;
    assert_eq!(by_rule.len(), 257);
    assert_eq!(by_rule["other rules"], CENT.times(44));
}

proptest! {
    #[test]
    fn day_limit_holds_for_any_order_of_calls_restarts_and_clocks(
        steps in prop::collection::vec((0_u64..6, 0_u64..100, -72_i64..0, any::<bool>()), 1..60),
    ) {
        let limits = Limits { calls_per_hour: u32::MAX, month: Money(u64::MAX), ..limits() };
        let mut bench = Bench::new(limits);
        bench.spend(Money::ZERO);
        let mut spent = Money::ZERO;
        for (worst, share, hours, restarts) in steps {
            // The wall clock only ever goes back: no day passes.
            let worst = CENT.times(worst);
            let now = bench.now().0;
            let back = wall(NOON + hours * HOUR);
            if let Ok(ticket) = bench.ledger.reserve(now, back, &entry(worst)) {
                let cost = Money(worst.0 / 100 * share);
                bench.ledger.settle(ticket, CallOutcome::Answered, used(1), cost).expect("settle");
                spent += cost;
            }
            if restarts {
                bench.restart(limits);
            }
            prop_assert!(spent <= limits.day);
            prop_assert_eq!(bench.ledger.report(now, back).day, spent);
        }
    }
}
