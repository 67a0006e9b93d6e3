//! Which time of a schedule is due; without clock and file.
//!
//! | what happens | decision |
//! |---|---|
//! | a time comes, or came at most [`GRACE`] ago | it is due, once |
//! | times were missed | with `catch_up` the latest is due, else it is reported as missed |
//! | the clock goes back by at most [`MAX_STEP_BACK`] | nothing is due until it is where it was |
//! | the clock goes back further | it was wrong: the schedule begins where the clock is now |
//!
//! - A time is due at most once while the clock goes back by no more than [`MAX_STEP_BACK`].
//! - One call makes at most one time due, however many were missed.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Longest delay of a time that is not missed: a restart of the box.
pub(crate) const GRACE: SignedDuration = SignedDuration::from_mins(5);
/// Longest step back of a clock that was right before.
pub(crate) const MAX_STEP_BACK: SignedDuration = SignedDuration::from_hours(24);
/// Hours before now in which the latest time is looked for, one span after the other.
const SPANS_H: [i64; 4] = [1, 24, 24 * 31, 24 * 366];

/// State of the latest time of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CronTime {
    Due(Timestamp),
    /// The time was not taken within [`GRACE`], and is given up.
    Missed(Timestamp),
}

/// State of a schedule of times that survives restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CronState {
    /// Every time up to here is settled: it was due or is given up.
    settled: Timestamp,
    last_due: Option<Timestamp>,
}

impl CronState {
    /// A schedule that is new at `now`.
    pub(crate) const fn new(now: Timestamp) -> Self {
        Self {
            settled: now,
            last_due: None,
        }
    }

    /// Returns the time that is due or missed at `now` and settles it. `next_after` gives the
    /// schedule's first time after another.
    pub(crate) fn poll(
        &mut self,
        now: Timestamp,
        catch_up: bool,
        next_after: impl Fn(Timestamp) -> Option<Timestamp>,
    ) -> Option<CronTime> {
        if self.settled.duration_since(now) > MAX_STEP_BACK {
            self.settled = now;
        }
        let latest = self.latest_due(now, &next_after)?;
        // Settled up to the time, not to `now`: a time in a gap of the clock may lie between.
        self.settled = latest;
        if self.last_due == Some(latest) {
            return None;
        }
        if now.duration_since(latest) > GRACE && !catch_up {
            return Some(CronTime::Missed(latest));
        }
        self.last_due = Some(latest);
        Some(CronTime::Due(latest))
    }

    /// The latest time after the settled ones, up to `now`. Looked for in ever longer spans before
    /// `now`, so that a long outage costs no more than a short one.
    fn latest_due(
        &self,
        now: Timestamp,
        next_after: &impl Fn(Timestamp) -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        let spans = SPANS_H.map(|hours| now.checked_sub(SignedDuration::from_hours(hours)).ok());
        let begins = spans.into_iter().flatten().chain([self.settled]);
        for begin in begins.map(|begin| begin.max(self.settled)) {
            let times = std::iter::successors(next_after(begin), |time| next_after(*time));
            if let Some(latest) = times.take_while(|time| *time <= now).last() {
                return Some(latest);
            }
            if begin == self.settled {
                break;
            }
        }
        None
    }

    /// Returns when something is due next.
    pub(crate) fn next_due(
        &self,
        now: Timestamp,
        next_after: impl Fn(Timestamp) -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        let is_wrong = self.settled.duration_since(now) > MAX_STEP_BACK;
        next_after(if is_wrong { now } else { self.settled })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::tz::TimeZone;
    use proptest::prelude::*;
    use watchkeeper_config::CronTimes;

    use super::*;

    /// Berlin: in 2026 clocks go forward on 29 March and back on 25 October.
    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone")
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn due(time: CronTime) -> Option<Timestamp> {
        match time {
            CronTime::Due(time) => Some(time),
            CronTime::Missed(_) => None,
        }
    }

    /// Polls a schedule at these times and returns what was due.
    fn play(cron: &str, catch_up: bool, polls: &[Timestamp]) -> Vec<Timestamp> {
        let times = play_all(cron, catch_up, polls);
        times.into_iter().filter_map(due).collect()
    }

    /// Polls a schedule at these times and returns what was due or missed.
    fn play_all(cron: &str, catch_up: bool, polls: &[Timestamp]) -> Vec<CronTime> {
        let (times, zone) = (CronTimes::parse(cron).expect("cron"), berlin());
        let mut state = CronState::new(polls[0]);
        let mut all = Vec::new();
        for now in &polls[1..] {
            all.extend(state.poll(*now, catch_up, |after| times.next_after(after, &zone)));
        }
        all
    }

    const CRONS: [&str; 6] = [
        "* * * * *",
        "*/15 * * * *",
        "0 * * * *",
        "30 2 * * *",
        "0 6 * * MON",
        "0 0 1 * *",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The clock runs, jumps and steps back, around both clock changes, over restarts.
        #[test]
        fn time_is_due_at_most_once_and_never_early(
            cron in 0..CRONS.len(), catch_up: bool, spring: bool,
            steps in prop::collection::vec((0..10_u8, 1..4_000_i64), 1..80),
        ) {
            let zone = berlin();
            let times = CronTimes::parse(CRONS[cron]).expect("cron");
            let next = |after| times.next_after(after, &zone);
            let mut now = at(if spring { "2026-03-28T22:00:00Z" } else { "2026-10-24T22:00:00Z" });
            let mut highest = now;
            let mut state = CronState::new(now);
            let mut seen = BTreeSet::new();
            for (kind, seconds) in steps {
                now += match kind {
                    0 => SignedDuration::from_secs(seconds * 400),
                    1 | 2 => SignedDuration::from_secs(-seconds * 10),
                    _ => SignedDuration::from_secs(seconds),
                };
                // A wrong clock is another test.
                now = now.max(highest.checked_sub(MAX_STEP_BACK).expect("in range"));
                highest = highest.max(now);
                if kind == 3 {
                    // A restart: what was stored is all that is left.
                    let stored = serde_json::to_string(&state).expect("stored");
                    state = serde_json::from_str(&stored).expect("restored");
                }
                if let Some(due) = state.poll(now, catch_up, next).and_then(due) {
                    prop_assert!(seen.insert(due), "{due} is due twice");
                    prop_assert!(due <= now);
                    prop_assert!(catch_up || now.duration_since(due) <= GRACE);
                    prop_assert_eq!(next(due - SignedDuration::from_secs(1)), Some(due));
                }
            }
        }
    }

    /// A loop that polls each minute misses nothing.
    #[test]
    fn every_time_is_due_when_the_clock_runs() {
        let zone = berlin();
        for begin in ["2026-03-28T22:00:00Z", "2026-10-24T22:00:00Z"] {
            let begin = at(begin);
            let polls: Vec<Timestamp> = (0..300)
                .map(|minute| {
                    begin + SignedDuration::from_secs(minute * 60 + 7 * i64::from(minute > 0))
                })
                .collect();
            for cron in CRONS {
                let times = CronTimes::parse(cron).expect("cron");
                let mut expected = BTreeSet::new();
                let mut after = begin;
                while let Some(time) = times.next_after(after, &zone).filter(|t| *t <= polls[299]) {
                    expected.insert(time);
                    after = time;
                }
                let due: BTreeSet<Timestamp> = play(cron, false, &polls).into_iter().collect();
                assert_eq!(due, expected, "{cron}");
            }
        }
    }

    #[test]
    fn long_outage_makes_one_time_due() {
        let polls = [
            "2026-05-01T00:00:30Z",
            "2026-08-01T00:00:30Z",
            "2026-08-01T00:00:40Z",
        ];
        let polls = polls.map(at);
        assert_eq!(
            play("* * * * *", true, &polls),
            [at("2026-08-01T00:00:00Z")]
        );
        // The latest minute is no more than five minutes ago.
        assert_eq!(
            play("* * * * *", false, &polls),
            [at("2026-08-01T00:00:00Z")]
        );
        assert_eq!(play("0 6 * * *", false, &polls), []);
        assert_eq!(
            play("0 6 * * *", true, &polls),
            [at("2026-07-31T04:00:00Z")]
        );
    }

    #[test]
    fn time_that_was_not_taken_in_time_is_reported_as_missed_once() {
        let polls = [
            "2026-05-01T03:59:00Z",
            "2026-05-01T04:05:01Z",
            "2026-05-01T04:06:00Z",
        ];
        let expected = CronTime::Missed(at("2026-05-01T04:00:00Z"));
        assert_eq!(play_all("0 6 * * *", false, &polls.map(at)), [expected]);
        let caught_up = CronTime::Due(at("2026-05-01T04:00:00Z"));
        assert_eq!(play_all("0 6 * * *", true, &polls.map(at)), [caught_up]);
    }

    #[test]
    fn box_that_boots_in_1970_repeats_nothing() {
        let polls = [
            "2026-05-01T03:59:00Z",
            "2026-05-01T04:00:10Z",
            "1970-01-01T00:01:00Z",
            "2026-05-01T04:02:00Z",
            "2026-05-02T04:00:01Z",
        ];
        let due = play("0 6 * * *", true, &polls.map(at));
        assert_eq!(
            due,
            [at("2026-05-01T04:00:00Z"), at("2026-05-02T04:00:00Z")]
        );
    }

    #[test]
    fn clock_that_was_in_the_future_stops_no_schedule() {
        let polls = [
            "2038-01-01T00:00:00Z",
            "2026-05-01T03:00:00Z",
            "2026-05-01T04:00:01Z",
        ];
        let due = play("0 6 * * *", false, &polls.map(at));
        assert_eq!(due, [at("2026-05-01T04:00:00Z")]);
    }
}
