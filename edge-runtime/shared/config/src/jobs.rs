//! Schedules of jobs: the sections `[agent.jobs.NAME]`.
//!
//! - A schedule has one plan or request, and one trigger: times or events.
//! - Times are local. A time that the clock leaves out in spring comes at the end of the gap. One
//!   that it has twice in autumn counts once, at its first pass.
//!
//! Not here: the plan's content, which the agent checks.

use std::path::PathBuf;
use std::time::Duration;

use cronexpr::{Crontab, FallbackTimezoneOption, ParseOptions};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use watchkeeper_contract::event::Verdict;
use watchkeeper_contract::id::SourceId;

/// Most schedules of one box.
pub const MAX_SCHEDULES: usize = 32;

/// Fields of a cron expression.
const CRON_FIELDS: usize = 5;
/// Longest gap of a clock change.
const MAX_GAP: SignedDuration = SignedDuration::from_hours(2);
/// Bound of the candidates for one next time: each minute of [`MAX_GAP`] and of a repeated hour.
const MAX_CANDIDATES: usize = 400;

/// One section `[agent.jobs.NAME]`.
#[derive(Debug, Clone)]
pub struct ScheduleConfig {
    pub name: String,
    pub work: ScheduledWork,
    pub trigger: Trigger,
    /// Pattern of the output folder, with `%Y` and others of `strftime`; absent: in the job's own.
    pub output: Option<String>,
    /// Most finished jobs of the schedule that are kept; absent: as many as of all jobs.
    pub keep_last: Option<usize>,
    /// Whether the channels are notified of a failed job.
    pub notify_failure: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduledWork {
    /// File of a plan.
    Plan(PathBuf),
    /// Words that the templates understand.
    Request(String),
}

/// When a schedule is due.
#[derive(Debug, Clone)]
pub enum Trigger {
    Cron {
        times: CronTimes,
        /// Whether one missed time is made up for.
        catch_up: bool,
    },
    On(EventFilter),
}

/// Events that make a schedule due; an absent field fits all.
#[derive(Debug, Clone, PartialEq)]
pub struct EventFilter {
    pub camera: Option<SourceId>,
    /// Class of the object.
    pub class: Option<String>,
    /// Name of the rule.
    pub rule: Option<String>,
    pub verdict: Option<Verdict>,
    /// Shortest time between two jobs.
    pub min_interval: Duration,
}

/// Times of a cron expression in the local time zone.
#[derive(Debug, Clone)]
pub struct CronTimes {
    text: String,
    /// Evaluated on local dates and times without zone, as if they were UTC.
    crontab: Crontab,
}

impl CronTimes {
    /// Parses five fields, such as `0 6 * * MON`.
    ///
    /// # Errors
    /// One phrase, if the text is no such expression or never matches a date.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.split_whitespace().count() != CRON_FIELDS {
            return Err(
                "is not a cron expression of five fields: minute, hour, day, month, weekday"
                    .to_owned(),
            );
        }
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let crontab = cronexpr::parse_crontab_with(text, options).map_err(|error| {
            // The error draws the place over several lines.
            let error = error.to_string();
            let phrase = error.lines().last().unwrap_or_default().trim();
            let phrase = phrase.trim_start_matches(['^', ' ']);
            format!("is not a cron expression: {phrase}")
        })?;
        let times = Self {
            text: text.to_owned(),
            crontab,
        };
        match times.crontab.find_next(Timestamp::UNIX_EPOCH) {
            Ok(_) => Ok(times),
            Err(_) => Err("never comes: no month has this day".to_owned()),
        }
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the first time after `after` in the zone.
    #[must_use]
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        // A time in a gap is later on the clock than its date and time say.
        let from = after.checked_sub(MAX_GAP).unwrap_or(after);
        let local = from.to_zoned(zone.clone()).datetime();
        let as_utc = local.to_zoned(TimeZone::UTC).ok()?.timestamp();
        let candidates = self.crontab.iter_after(as_utc).ok()?.take(MAX_CANDIDATES);
        let mut times = candidates.map_while(|candidate| {
            let local = candidate.ok()?.datetime();
            // In a gap that after it, of two the first.
            Some(local.to_zoned(zone.clone()).ok()?.timestamp())
        });
        times.find(|time| *time > after)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    /// Berlin: in 2026 clocks go forward on 29 March and back on 25 October.
    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

    fn next(cron: &str, after: &str) -> String {
        let times = CronTimes::parse(cron).unwrap();
        let zone = TimeZone::posix(BERLIN).unwrap();
        let next = times.next_after(after.parse().unwrap(), &zone).unwrap();
        next.to_string()
    }

    #[test]
    fn time_that_spring_leaves_out_comes_after_the_gap() {
        assert_eq!(
            next("30 2 * * *", "2026-03-28T12:00:00Z"),
            "2026-03-29T01:30:00Z"
        );
        // 03:10 on the clock, and 02:30 has not come yet.
        assert_eq!(
            next("30 2 * * *", "2026-03-29T01:10:00Z"),
            "2026-03-29T01:30:00Z"
        );
        assert_eq!(
            next("30 2 * * *", "2026-03-29T01:30:00Z"),
            "2026-03-30T00:30:00Z"
        );
    }

    #[test]
    fn time_that_autumn_has_twice_comes_once() {
        assert_eq!(
            next("30 2 * * *", "2026-10-24T12:00:00Z"),
            "2026-10-25T00:30:00Z"
        );
        assert_eq!(
            next("30 2 * * *", "2026-10-25T00:30:00Z"),
            "2026-10-26T01:30:00Z"
        );
        assert_eq!(
            next("*/10 * * * *", "2026-10-25T00:50:00Z"),
            "2026-10-25T02:00:00Z"
        );
    }

    #[test]
    fn weekday_is_a_local_one() {
        assert_eq!(
            next("0 0 * * MON", "2026-07-01T00:00:00Z"),
            "2026-07-05T22:00:00Z"
        );
    }

    #[test]
    fn wrong_expressions_are_refused() {
        for bad in [
            "",
            "6 o'clock",
            "61 * * * *",
            "0 6 * * MON Europe/Berlin",
            "0 0 30 2 *",
        ] {
            assert!(CronTimes::parse(bad).is_err(), "{bad}");
        }
    }
}
