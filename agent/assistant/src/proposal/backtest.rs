//! Backtest of a proposal: what it would have reported in the last hours, in a sentence.
//!
//! - Pure; the numbers are the runtime's.
//! - A number a day is shown only where the history covers enough of one and no rule has hours.
//! - Where no hour of its rules was replayed, no number of events is shown.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::backtest::BacktestReport;
use watchkeeper_contract::event::Verdict;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::RuleSpec;
use watchkeeper_engine::rules::{LocalTime, is_awake};
use watchkeeper_engine::workflow::codec;

use super::counts::format_totals;
use super::price::{Estimate, clip_s};
use crate::moment::schedule_time;
use crate::wording::{counted, duration, local_minute, local_time};

/// Shortest covered time from which a number a day is shown, in seconds.
const MIN_FOR_DAY_S: f64 = 3_600.0;
/// Events a day from which a remark warns of too many.
const MANY_A_DAY: f64 = 50.0;
const DAY_S: f64 = 86_400.0;
/// Events from which a remark warns of too many if no rate is known.
const MIN_NOISY_EVENTS: u64 = 5;

/// Events that a pipeline would have reported.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BacktestSummary {
    /// Seconds that the history covers.
    pub covered_s: f64,
    /// Time of the first and of the last frame, in milliseconds since 1970.
    pub from_ms: i64,
    pub to_ms: i64,
    pub events: u64,
    /// Events that would wait for a person.
    pub doubtful: u64,
    pub by_class: BTreeMap<String, u64>,
    /// Start of the hour with the most events, in milliseconds since 1970, and their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest: Option<(i64, u64)>,
    /// Whether a rule is active at certain hours only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_schedule: bool,
    /// Whether no rule was active in the replayed time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_inactive: bool,
    /// Counts of the lines and zones of a pipeline without rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// How many of the events would be escalated, by the latest ones.
    #[serde(default)]
    pub escalated: Estimate,
    /// Seconds of the clips of one event.
    #[serde(default)]
    pub clip_s: f64,
    /// File with pictures of some of the events; `None` without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<String>,
}

impl BacktestSummary {
    /// Sums up the report about `spec`.
    ///
    /// # Errors
    /// Why nothing was replayed.
    pub fn from_report(report: &BacktestReport, spec: &PipelineSpec) -> Result<Self, String> {
        if let Some(why) = &report.not_replayed {
            return Err(why.clone());
        }
        if report.covered_s <= 0.0 {
            return Err("the history has a single frame so far".to_owned());
        }
        let mut summary = Self {
            covered_s: report.covered_s,
            from_ms: report.from_ms,
            to_ms: report.to_ms,
            has_schedule: spec
                .rules
                .iter()
                .flatten()
                .any(|rule| rule.schedule.is_some()),
            is_inactive: is_inactive(spec, report.from_ms..report.to_ms, &TimeZone::system()),
            counts: match report.rules.is_empty() {
                true => format_totals(&report.results),
                false => Vec::new(),
            },
            limits: report.limits.clone(),
            escalated: escalated(report),
            clip_s: clip_s(spec, &report.events),
            ..Self::default()
        };
        let mut hours: BTreeMap<i64, u64> = BTreeMap::new();
        for rule in &report.rules {
            summary.events += rule.events;
            summary.doubtful += rule.doubtful;
            for (class, events) in &rule.by_class {
                *summary.by_class.entry(class.clone()).or_default() += events;
            }
            for (hour, events) in &rule.by_hour {
                *hours.entry(*hour).or_default() += events;
            }
        }
        // Of equal hours the latest.
        summary.busiest = hours.into_iter().max_by_key(|(_, events)| *events);
        Ok(summary)
    }

    /// Factor from the covered time to a day.
    ///
    /// # Errors
    /// Why it is not known: a rule has hours, or the history covers less than an hour.
    pub fn per_day(&self) -> Result<f64, String> {
        if self.has_schedule {
            return Err("a rule is active at certain hours only".to_owned());
        }
        if self.covered_s < MIN_FOR_DAY_S {
            let covered = duration(self.covered_s);
            return Err(format!("the history covers only {covered}"));
        }
        Ok(DAY_S / self.covered_s)
    }

    /// Events a day, with their Poisson range.
    ///
    /// # Errors
    /// Those of [`Self::per_day`].
    pub fn events_a_day(&self) -> Result<Estimate, String> {
        let per_day = self.per_day()?;
        Ok(Estimate::of_events(self.events).scaled(per_day))
    }

    /// The events that it would have reported, as one sentence.
    pub fn sentence(&self) -> String {
        let events = if self.is_inactive && self.events == 0 {
            "no hour of its rules is in that time, so it is not known what they would report"
                .to_owned()
        } else if self.counts.is_empty() {
            counted(self.events, "event")
        } else {
            self.counts.join("; ")
        };
        let covered = duration(self.covered_s);
        let mut text = format!("{}, {covered} of it covered: {events}", self.span());
        let classes = self.by_class.iter();
        let classes: Vec<String> = classes.map(|(class, n)| format!("{n} {class}")).collect();
        if self.by_class.len() > 1 {
            text.push_str(&format!(" ({})", classes.join(", ")));
        }
        if self.doubtful > 0 {
            text.push_str(&format!(", {} for your review", self.doubtful));
        }
        if let (Some((hour, events)), Ok(a_day)) = (self.busiest, self.events_a_day()) {
            text.push_str(&format!(
                "; busiest {} ({events}), about {} a day",
                local_minute(hour),
                a_day.text(whole)
            ));
        }
        text
    }

    /// From when to when, in local time.
    fn span(&self) -> String {
        let (from, to) = (local_time(self.from_ms), local_time(self.to_ms));
        let day = |time: &str| time.split(' ').next().map(str::to_owned);
        let minute = |time: &str| {
            time.rsplit_once(':')
                .map_or(time.to_owned(), |(m, _)| m.to_owned())
        };
        let to = match day(&from) == day(&to) {
            true => local_minute(self.to_ms),
            false => minute(&to),
        };
        format!("{} to {to}", minute(&from))
    }

    /// A remark to read before a confirmation, if there is one.
    pub fn remark(&self) -> Option<String> {
        let rate = match self.events_a_day() {
            Ok(a_day) if a_day.likely >= MANY_A_DAY => {
                format!("about {} events a day", a_day.text(whole))
            }
            Err(_)
                if self.events as f64 * DAY_S / self.covered_s.max(1.0) >= MANY_A_DAY
                    && self.events >= MIN_NOISY_EVENTS =>
            {
                let events = counted(self.events, "event");
                format!("{events} in {}", duration(self.covered_s))
            }
            Ok(_) | Err(_) => return None,
        };
        Some(format!(
            "{rate} may be more than you want: a cool-down, a zone or a schedule makes it fewer"
        ))
    }
}

/// Whether all rules of a pipeline have hours, and no minute of `range`, in milliseconds since
/// 1970, is one of these.
fn is_inactive(spec: &PipelineSpec, range: Range<i64>, zone: &TimeZone) -> bool {
    let rules = spec.rules.as_deref().unwrap_or_default();
    let is_asleep = |rule: &RuleSpec, local: LocalTime| {
        let schedule = rule.schedule.as_ref();
        schedule.is_some_and(|schedule| is_awake(schedule, local) != Some(true))
    };
    let has_range = !range.is_empty();
    let mut minutes = range.step_by(60_000);
    has_range
        && !rules.is_empty()
        && minutes.all(|ms| {
            let at = Timestamp::from_millisecond(ms).unwrap_or_default();
            let local = schedule_time(at.to_zoned(zone.clone()).datetime());
            rules.iter().all(|rule| is_asleep(rule, local))
        })
}

/// The JPEG with pictures of events; `None` without one.
pub fn strip(report: &BacktestReport) -> Option<Bytes> {
    let jpeg = codec::from_base64(report.strip.as_ref()?).ok()?;
    Some(Bytes::from(jpeg))
}

/// How many of all events would be escalated, by the listed ones.
fn escalated(report: &BacktestReport) -> Estimate {
    let listed = report.events.iter();
    let escalated = listed.filter(|event| event.decision.verdict == Verdict::Escalate);
    let listed = report.events.len().max(1) as f64;
    let all = listed + report.more_events as f64;
    Estimate::of_events(escalated.count() as u64).scaled(all / listed)
}

fn whole(number: f64) -> String {
    format!("{number:.0}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_contract::backtest::{BacktestEvent, RuleBacktest};

    use super::*;

    fn report(covered_s: f64, classes: &[(&str, u64)], hours: &[(i64, u64)]) -> BacktestReport {
        let classes = classes.iter().map(|(c, n)| ((*c).to_owned(), *n));
        let rule = RuleBacktest {
            name: "r".to_owned(),
            events: hours.iter().map(|(_, n)| n).sum(),
            doubtful: 0,
            by_class: classes.collect(),
            by_hour: hours.iter().copied().collect(),
        };
        BacktestReport {
            covered_s,
            from_ms: 1,
            to_ms: 2,
            rules: vec![rule],
            ..BacktestReport::default()
        }
    }

    /// A pipeline with one rule, active at these hours only.
    fn spec(schedule: Option<&serde_json::Value>) -> PipelineSpec {
        serde_json::from_value(serde_json::json!({
            "id": "p", "source": "yard", "workflow": {}, "rules": [{
                "name": "r", "when": {"kind": "enters", "zone": "z"}, "schedule": schedule,
            }],
        }))
        .unwrap()
    }

    fn summary(report: &BacktestReport) -> BacktestSummary {
        BacktestSummary::from_report(report, &spec(None)).unwrap()
    }

    #[test]
    fn events_classes_busiest_hour_and_rate_are_told() {
        let hour = 1_800_000_000_000 / 3_600_000 * 3_600_000;
        let report = report(
            21_600.0 + 720.0,
            &[("cat", 2), ("person", 12)],
            &[(hour, 8), (hour + 3_600_000, 6)],
        );
        let summary = summary(&report);
        let text = summary.sentence();
        let told = ", 6 h 12 min of it covered: 14 events (2 cat, 12 person); busiest ";
        assert!(text.contains(told), "{text}");
        assert!(text.ends_with("(8), about 30 to 91 a day"), "{text}");
        let remark = summary.remark().unwrap();
        assert!(remark.contains("about 30 to 91 events a day"), "{remark}");
    }

    #[test]
    fn rate_needs_more_than_minutes_and_many_events_are_remarked() {
        let few = summary(&report(420.0, &[], &[(0, 1)]));
        let text = few.sentence();
        assert!(text.ends_with(", 7 min of it covered: 1 event"), "{text}");
        assert_eq!(few.remark(), None);
        let many = summary(&report(420.0, &[], &[(0, 286)]));
        assert!(
            many.remark()
                .unwrap()
                .starts_with("286 events in 7 min may")
        );
    }

    #[test]
    fn few_events_have_a_range_and_many_a_number() {
        let text = |events| {
            let a_day = summary(&report(7_200.0, &[], &[(0, events)])).events_a_day();
            a_day.unwrap().text(whole)
        };
        assert_eq!(
            [0, 4, 100].map(text),
            ["0 to 47", "12 to 124", "976 to 1460"]
        );
        assert_eq!(text(300), "3600");
    }

    #[test]
    fn few_escalated_events_of_many_have_a_range() {
        let event = |verdict: &str| -> BacktestEvent {
            serde_json::from_value(serde_json::json!({
                "at_ms": 1, "severity": "info",
                "decision": {"verdict": verdict, "confidence": 0.6, "reason": "r"},
                "event": {"rule": "r", "condition": "enters", "reason": "r", "tracks": [],
                    "frame": 1, "pts_s": 0.0},
            }))
            .unwrap()
        };
        let mut report = report(3_600.0, &[], &[(0, 400)]);
        report.events = vec![event("act"); 197];
        report.events.extend(vec![event("escalate"); 3]);
        report.more_events = 200;
        let found = summary(&report).escalated;
        let text = found.text(|number| format!("{number:.1}"));
        assert_eq!((found.likely, text.as_str()), (6.0, "1.1 to 17.8"));
    }

    #[test]
    fn reason_is_returned_where_nothing_was_replayed() {
        let report = BacktestReport {
            not_replayed: Some("no history".to_owned()),
            ..BacktestReport::default()
        };
        let summary = BacktestSummary::from_report(&report, &spec(None));
        assert_eq!(summary, Err("no history".to_owned()));
        let moment = BacktestSummary::from_report(&BacktestReport::default(), &spec(None));
        assert!(moment.unwrap_err().contains("single frame"));
    }

    #[test]
    fn rule_with_hours_has_no_rate_and_the_span_names_both_days() {
        let hours = serde_json::json!({"from": "22:00", "to": "06:00"});
        let mut report = report(28_800.0, &[], &[(0, 3)]);
        (report.from_ms, report.to_ms) = (1_800_000_000_000, 1_800_000_000_000 + 172_800_000);
        let summary = BacktestSummary::from_report(&report, &spec(Some(&hours))).unwrap();
        assert!(summary.events_a_day().is_err());
        let text = summary.sentence();
        assert!(text.contains(" to 2027-01-17 "), "{text}");
    }

    #[test]
    fn no_number_is_told_where_no_hour_of_the_rules_was_replayed() {
        let hours = serde_json::json!({"from": "22:00", "to": "06:00"});
        let spec = spec(Some(&hours));
        // 08:00 of a day in UTC.
        let morning = 1_800_000_000_000;
        let is_inactive = |hours: i64| {
            super::is_inactive(&spec, morning..morning + hours * 3_600_000, &TimeZone::UTC)
        };
        assert!(is_inactive(13));
        assert!(!is_inactive(15));
        let mut summary = BacktestSummary {
            is_inactive: true,
            ..summary(&report(420.0, &[], &[]))
        };
        let text = summary.sentence();
        assert!(text.contains("not known what they would report"), "{text}");
        // The hours began in the last minute.
        summary.events = 1;
        let text = summary.sentence();
        assert!(text.ends_with("1 event"), "{text}");
    }

    #[test]
    fn pipeline_without_rules_is_told_by_its_counts() {
        let mut report = report(420.0, &[], &[]);
        report.rules.clear();
        report.results.lines =
            serde_json::from_value(serde_json::json!({"line": {"in": 3, "out": 0}})).unwrap();
        let text = summary(&report).sentence();
        assert!(text.ends_with("of it covered: line: 3 in, 0 out"), "{text}");
    }
}
