//! Sums up the events of a replay.
//!
//! - At most [`MAX_EVENTS`] are listed; the others are counted.
//! - The time between two frames counts as covered unless it is a gap of the history.
//! - An event counts as doubtful while its verdict waits for a person.

use std::collections::{BTreeMap, VecDeque};

use watchkeeper_contract::backtest::{BacktestEvent, BacktestReport, RuleBacktest};
use watchkeeper_contract::event::{Phase, Verdict};
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::pipeline::PipelineResults;
use watchkeeper_engine::rules::Change;

/// Maximum number of listed events, the latest ones.
const MAX_EVENTS: usize = 200;
const HOUR_MS: i64 = 3_600_000;

/// Clocks of one frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) wall_ms: i64,
    /// Milliseconds of source time in the chunk.
    pub(super) source_ms: u32,
}

/// Builds the report of a replay.
#[derive(Debug)]
pub(super) struct ReportWriter {
    report: BacktestReport,
    events: VecDeque<BacktestEvent>,
    /// Doubtful events that have not ended, with the place of their rule.
    doubtful: BTreeMap<EventId, usize>,
    covered_ms: i64,
    last: Option<Moment>,
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
            doubtful: BTreeMap::new(),
            covered_ms: 0,
            last: None,
        }
    }

    /// Clocks of the last frame.
    pub(super) fn last(&self) -> Option<Moment> {
        self.last
    }

    /// Counts the time up to a frame, unless it is longer than `max_gap_s`.
    pub(super) fn frame(&mut self, at: Moment, max_gap_s: f64) {
        match self.last {
            None => self.report.from_ms = at.wall_ms,
            Some(last) => {
                let step_ms = at.wall_ms - last.wall_ms;
                if step_ms >= 0 && step_ms as f64 <= max_gap_s * 1e3 {
                    self.covered_ms += step_ms;
                }
            }
        }
        self.report.to_ms = at.wall_ms;
        self.last = Some(at);
    }

    /// Adds the events that begin with a frame at `at_ms`.
    pub(super) fn add(&mut self, at_ms: i64, changes: Vec<Change>) {
        for change in changes {
            let is_doubtful = is_doubtful(change.decision.verdict);
            match change.phase {
                Phase::New => self.add_event(at_ms, change),
                Phase::Update | Phase::End => {
                    let is_over = change.phase == Phase::End || !is_doubtful;
                    let place = is_over.then(|| self.doubtful.remove(&change.id)).flatten();
                    // The box became certain by itself.
                    if let Some(rule) = place.and_then(|at| self.report.rules.get_mut(at)) {
                        rule.doubtful -= u64::from(!is_doubtful);
                    }
                }
                Phase::Clip | Phase::Assessed => {}
            }
        }
    }

    /// Adds the events that begin with the end of the history.
    pub(super) fn add_last(&mut self, changes: Vec<Change>) {
        self.add(self.report.to_ms, changes);
    }

    fn add_event(&mut self, at_ms: i64, change: Change) {
        let rules = self.report.rules.iter_mut().enumerate();
        let mut named = rules.filter(|(_, rule)| rule.name == change.event.rule);
        if let Some((place, rule)) = named.next() {
            rule.events += 1;
            if is_doubtful(change.decision.verdict) {
                rule.doubtful += 1;
                self.doubtful.insert(change.id, place);
            }
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
    pub(super) fn limit(&mut self, sentence: String) {
        self.report.limits.push(sentence);
    }

    pub(super) fn finish(self, mut results: PipelineResults) -> BacktestReport {
        results.events = self.report.rules.iter().map(|rule| rule.events).sum();
        BacktestReport {
            covered_s: self.covered_ms as f64 / 1e3,
            events: self.events.into(),
            results,
            ..self.report
        }
    }
}

/// Whether an event of this verdict waits for a person.
fn is_doubtful(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Review | Verdict::Escalate)
}
