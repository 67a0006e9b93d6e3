//! Sums up the events of a replay.

use std::collections::VecDeque;

use watchkeeper_contract::backtest::{BacktestEvent, BacktestReport, RuleBacktest};
use watchkeeper_contract::event::{Phase, Verdict};
use watchkeeper_contract::pipeline::PipelineResults;
use watchkeeper_engine::rules::Change;

/// Maximum number of listed events, the latest ones.
const MAX_EVENTS: usize = 200;
/// Longest distance of two frames of which the time between counts as covered.
const MAX_STEP_MS: i64 = 5_000;
const HOUR_MS: i64 = 3_600_000;

/// Builds the report of a replay.
#[derive(Debug)]
pub(super) struct ReportWriter {
    report: BacktestReport,
    events: VecDeque<BacktestEvent>,
    covered_ms: i64,
}

impl ReportWriter {
    pub(super) fn new(rules: Vec<String>) -> Self {
        let rules = rules.into_iter().map(|name| RuleBacktest {
            name,
            ..RuleBacktest::default()
        });
        Self {
            report: BacktestReport {
                rules: rules.collect(),
                ..BacktestReport::default()
            },
            events: VecDeque::new(),
            covered_ms: 0,
        }
    }

    /// Seconds from the last frame to one at `wall_ms`; 0 before the first.
    pub(super) fn seconds_since_last(&self, wall_ms: i64) -> f64 {
        match self.report.to_ms {
            0 => 0.0,
            last => (wall_ms - last).max(0) as f64 / 1e3,
        }
    }

    /// Counts the time of a frame; `earlier` is the frame before it in its chunk.
    pub(super) fn frame(&mut self, wall_ms: i64, earlier: Option<i64>) {
        if self.report.from_ms == 0 {
            self.report.from_ms = wall_ms;
        }
        let before = earlier.unwrap_or(self.report.to_ms);
        if (0..=MAX_STEP_MS).contains(&(wall_ms - before)) {
            self.covered_ms += wall_ms - before;
        }
        self.report.to_ms = wall_ms;
    }

    /// Adds the events that begin with a frame at `at_ms`.
    pub(super) fn add(&mut self, at_ms: i64, changes: Vec<Change>) {
        for change in changes {
            if change.phase == Phase::New {
                self.add_event(at_ms, change);
            }
        }
    }

    /// Adds the events that begin with the end of the history.
    pub(super) fn add_last(&mut self, changes: Vec<Change>) {
        self.add(self.report.to_ms, changes);
    }

    fn add_event(&mut self, at_ms: i64, change: Change) {
        let rules = &mut self.report.rules;
        if let Some(rule) = rules.iter_mut().find(|rule| rule.name == change.event.rule) {
            rule.events += 1;
            let verdict = change.decision.verdict;
            rule.doubtful += u64::from(matches!(verdict, Verdict::Review | Verdict::Escalate));
            if let Some(class) = &change.event.label {
                *rule.by_class.entry(class.clone()).or_default() += 1;
            }
            let hour = at_ms.div_euclid(HOUR_MS) * HOUR_MS;
            *rule.by_hour.entry(hour).or_default() += 1;
        }
        self.events.push_back(BacktestEvent {
            at_ms,
            severity: change.severity,
            decision: change.decision,
            event: change.event,
        });
        if self.events.len() > MAX_EVENTS {
            self.events.pop_front();
            self.report.more_events += 1;
        }
    }

    /// Adds a sentence about what the replay could not take into account.
    pub(super) fn limit(&mut self, sentence: &str) {
        self.report.limits.push(sentence.to_owned());
    }

    pub(super) fn finish(self, results: PipelineResults) -> BacktestReport {
        BacktestReport {
            covered_s: self.covered_ms as f64 / 1e3,
            events: self.events.into(),
            results,
            ..self.report
        }
    }
}
