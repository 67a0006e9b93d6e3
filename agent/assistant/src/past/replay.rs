//! Events that watches would have had without their cool-downs and hourly limits, by a backtest.
//!
//! - It is asked only where a cool-down or a limit left something out of the answer, and never from
//!   another machine. Each watch takes a core of the box for up to eight seconds. With more than
//!   [`MAX_REPLAYS`] such watches none is replayed.
//! - The detection history is replayed with the present rules of a watch, and the answer says so.
//! - A replay that fails leaves the answer unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::tz::TimeZone;
use serde_json::json;
use tokio::time::{Instant, timeout_at};
use watchkeeper_client::RuntimeClient;
use watchkeeper_contract::backtest::{
    Backtest, BacktestEvent, BacktestReport, MAX_BACKTEST_HOURS, RuleBacktest,
};
use watchkeeper_contract::coverage::CoverageReport;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{CrossDirection, Severity};

use super::describe::{moment, span};
use super::question::{PastQuestion, Tells};
use crate::wording::counted;

/// Timeout of all replays; the runtime takes eight seconds at most for one, and lets it wait nine.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(40);
/// Most watches that are replayed for one question.
const MAX_REPLAYS: usize = 4;
const HOUR_MS: f64 = 3_600_000.0;

/// Events that a watch would have had without its cool-downs and limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedEvents {
    pub pipeline: PipelineId,
    /// Replayed part of the question's range, milliseconds since 1970.
    pub range: (i64, i64),
    pub number: u64,
    /// When the last one began, milliseconds since 1970.
    pub last_ms: Option<i64>,
}

/// Replays the watches that answer a question and have cool-downs or limits, without these. Empty
/// where one of them can't be replayed: what the others had would be taken for all.
pub(super) async fn replay(
    client: &RuntimeClient,
    question: &PastQuestion,
    report: &CoverageReport,
) -> Vec<ReplayedEvents> {
    let (from, to) = question.range;
    if from >= to {
        return Vec::new();
    }
    let until = Instant::now() + REPLAY_TIMEOUT;
    let hours = ((report.at.unix_ms - from) as f64 / HOUR_MS).min(MAX_BACKTEST_HOURS);
    let answering = answering(question, report);
    let pipelines = client.pipelines().await.unwrap_or_default();
    let limited = pipelines.iter().filter_map(|status| {
        let rules = answering.get(&status.spec.id)?;
        Some((rules, without_limits(&status.spec, rules)?))
    });
    let limited: Vec<_> = limited.take(MAX_REPLAYS + 1).collect();
    if limited.len() > MAX_REPLAYS {
        return Vec::new();
    }
    let mut replayed = Vec::new();
    for (rules, pipeline) in limited {
        let id = pipeline.id.clone();
        let wanted = Backtest {
            pipeline,
            hours,
            pictures: false,
        };
        let events = match timeout_at(until, client.backtest(&wanted)).await {
            Ok(Ok(report)) => ReplayedEvents::new(&id, &report, question, rules),
            Ok(Err(error)) => {
                tracing::debug!(%error, %id, "no replay for an answer");
                None
            }
            Err(_) => None,
        };
        let Some(events) = events else {
            return Vec::new();
        };
        replayed.push(events);
    }
    replayed
}

/// The names of the rules that answer a question, wholly or in part, by pipeline.
fn answering<'a>(
    question: &PastQuestion,
    report: &'a CoverageReport,
) -> BTreeMap<&'a PipelineId, BTreeSet<&'a str>> {
    let mut answering: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for span in &report.spans {
        let mut cameras = question.cameras.iter();
        if !cameras.any(|camera| question.is_about(span, camera)) {
            continue;
        }
        let rules = span.watch.rules.iter();
        let rules = rules.filter(|rule| !matches!(question.tells(span, rule), Tells::No(_)));
        let names = answering.entry(&span.watch.pipeline).or_default();
        names.extend(rules.map(|rule| rule.name.as_str()));
    }
    answering
}

/// The pipeline with these rules free of cool-downs and limits; `None` if they have neither.
fn without_limits(spec: &PipelineSpec, names: &BTreeSet<&str>) -> Option<PipelineSpec> {
    let mut spec = spec.clone();
    let mut is_limited = false;
    for rule in spec.rules.iter_mut().flatten() {
        if names.contains(rule.name.as_str()) && rule.severity != Severity::Critical {
            is_limited |= rule.cooldown_s > 0.0 || rule.max_per_hour.is_some();
            (rule.cooldown_s, rule.shared_cooldown) = (0.0, false);
            rule.max_per_hour = None;
        }
    }
    is_limited.then_some(spec)
}

impl ReplayedEvents {
    /// Counts the events of a replay that a question is about, of the rules with these `names`.
    /// `None` if the replay says nothing about its range.
    pub(super) fn new(
        pipeline: &PipelineId,
        report: &BacktestReport,
        question: &PastQuestion,
        names: &BTreeSet<&str>,
    ) -> Option<Self> {
        let (from, end) = question.range;
        let (from, to) = (from.max(report.from_ms), end.min(report.to_ms));
        // Of events that are not listed only rule and class are known.
        let is_listed = |first: &BacktestEvent| question.direction.is_none() && first.at_ms < end;
        let is_counted = report.more_events == 0 || report.events.first().is_some_and(is_listed);
        if report.not_replayed.is_some() || from >= to || !is_counted {
            return None;
        }
        let is_wanted = |listed: &&BacktestEvent| {
            let event = &listed.event;
            let is_label = |label: &String| question.labels.contains(label);
            let is_way = |way: CrossDirection| {
                event
                    .direction
                    .as_deref()
                    .is_some_and(|of| json!(way) == of)
            };
            names.contains(event.rule.as_str())
                && (question.labels.is_empty() || event.label.as_ref().is_some_and(is_label))
                && question.direction.is_none_or(is_way)
        };
        let times: Vec<i64> = {
            let wanted = report.events.iter().filter(is_wanted);
            wanted.map(|listed| listed.at_ms).collect()
        };
        let inside = times.iter().filter(|at| (from..end).contains(*at));
        let number = match report.more_events {
            0 => inside.clone().count(),
            _ => {
                let later = times.iter().filter(|at| **at >= end);
                total(report, question, names).saturating_sub(later.count())
            }
        };
        Some(Self {
            pipeline: pipeline.clone(),
            range: (from, to),
            number: number as u64,
            last_ms: inside.max().copied(),
        })
    }

    /// The number of events as a sentence. The range is named where it is not all of `asked`.
    pub(crate) fn sentence(&self, asked: (i64, i64), zone: &TimeZone) -> String {
        let number = match self.number {
            0 => "no event".to_owned(),
            number => counted(number, "event"),
        };
        let last = self.last_ms.map_or_else(String::new, |ms| {
            format!(", the last at {}", moment(ms, true, false, zone))
        });
        let range = span(self.range, zone);
        let range = match range == span(asked, zone) {
            true => String::new(),
            false => format!(" from {range}"),
        };
        format!(
            "Without cool-downs and limits {} would have had {number}{range}{last}, by the \
             detection history and its present rules.",
            self.pipeline
        )
    }
}

/// All replayed events of these rules with the labels of a question.
fn total(report: &BacktestReport, question: &PastQuestion, names: &BTreeSet<&str>) -> usize {
    let events = |rule: &RuleBacktest| match question.labels.as_slice() {
        [] => rule.events,
        labels => labels
            .iter()
            .filter_map(|label| rule.by_class.get(label))
            .sum(),
    };
    let rules = report.rules.iter();
    let rules = rules.filter(|rule| names.contains(rule.name.as_str()));
    rules.map(events).sum::<u64>() as usize
}
