//! Times and failures of jobs, from their stored logs.
//!
//! - An attempt that a crash cut off counts nowhere: when it ended is unknown.
//! - A job counts by its state now; its attempts count whatever that is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter, Result as FmtResult};

use serde::Serialize;

use super::info::JobInfo;
use super::log::{LogLine, LogRecord, attempts};
use super::state::JobState;
use crate::plan::Plan;

/// Times and failures of several jobs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobStatistics {
    /// Number of jobs by state.
    pub states: BTreeMap<&'static str, usize>,
    /// Share of the jobs that were done, of those that were done or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<f64>,
    /// Seconds from the request to the job, of jobs that were planned from words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planning_s: Option<Spread>,
    /// Seconds from the first start of a job to its end, of jobs that were done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_s: Option<Spread>,
    pub tools: BTreeMap<String, ToolStatistics>,
}

/// Attempts of steps with one tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolStatistics {
    pub done: usize,
    pub failed: usize,
    /// Seconds of an attempt that was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_s: Option<Spread>,
}

/// The middle and the largest of several values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub longest: f64,
}

impl Spread {
    /// Of milliseconds, in seconds; none of no values.
    fn of(mut values_ms: Vec<i64>) -> Option<Self> {
        values_ms.sort_unstable();
        let seconds = |ms: &i64| *ms as f64 / 1000.0;
        Some(Self {
            median: values_ms.get(values_ms.len() / 2).map(seconds)?,
            longest: values_ms.last().map(seconds)?,
        })
    }
}

impl JobStatistics {
    /// Returns the time that a plan is expected to take; `None` if none of its tools has run.
    pub fn expected_time(&self, plan: &Plan) -> Option<ExpectedTime> {
        let mut seconds = None;
        let mut unmeasured = BTreeSet::new();
        for step in &plan.steps {
            let tool = &step.call.tool;
            match self.tools.get(tool).and_then(|known| known.attempt_s) {
                Some(spread) => *seconds.get_or_insert(0.0) += spread.median,
                None => drop(unmeasured.insert(tool.clone())),
            }
        }
        Some(ExpectedTime {
            seconds: seconds?,
            unmeasured,
        })
    }
}

/// Time of a plan by earlier runs of its tools, whatever the number of their pictures.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedTime {
    /// Sum of the median times of the steps.
    pub seconds: f64,
    /// Tools that have not run yet, so their steps are not counted.
    pub unmeasured: BTreeSet<String>,
}

impl Display for ExpectedTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        let digits = usize::from(self.seconds < 10.0);
        let seconds = self.seconds;
        write!(
            f,
            "about {seconds:.digits$} s, by earlier runs of its tools"
        )?;
        if !self.unmeasured.is_empty() {
            let unmeasured = Vec::from_iter(self.unmeasured.iter().map(String::as_str));
            write!(
                f,
                "; not run yet and not counted: {}",
                unmeasured.join(", ")
            )?;
        }
        Ok(())
    }
}

/// Statistics collected from jobs so far.
#[derive(Debug, Default)]
pub struct JobStatisticsBuilder {
    states: BTreeMap<&'static str, usize>,
    planning_ms: Vec<i64>,
    run_ms: Vec<i64>,
    tools: BTreeMap<String, Attempts>,
}

#[derive(Debug, Default)]
struct Attempts {
    done_ms: Vec<i64>,
    failed: usize,
}

impl JobStatisticsBuilder {
    /// Adds a job that can be read.
    pub fn add(&mut self, info: &JobInfo, log: &[LogLine], state: JobState) {
        self.count(state);
        let planned = info.from.planned.as_ref();
        if let Some(planned) = planned.filter(|_| info.from.schedule.is_none()) {
            let asked_ms = planned.refined_at_ms.last().unwrap_or(&planned.at_ms);
            self.planning_ms.push((info.created_ms - asked_ms).max(0));
        }
        if let (JobState::Done, Some(first), Some(last)) = (state, log.first(), log.last()) {
            self.run_ms.push((last.at_ms - first.at_ms).max(0));
        }
        self.add_attempts(log);
    }

    /// Adds a job that can't be read.
    pub fn add_damaged(&mut self) {
        self.count(JobState::Damaged);
    }

    fn count(&mut self, state: JobState) {
        *self.states.entry(state.name()).or_default() += 1;
    }

    fn add_attempts(&mut self, log: &[LogLine]) {
        let attempts = attempts(log).into_iter();
        for (begin, end) in attempts.filter_map(|(a, b)| Some((log.get(a)?, log.get(b)?))) {
            let LogRecord::Started { tool, .. } = &begin.record else {
                continue;
            };
            let attempts = self.tools.entry(tool.clone()).or_default();
            match end.record {
                LogRecord::Finished { .. } => {
                    attempts.done_ms.push((end.at_ms - begin.at_ms).max(0));
                }
                LogRecord::Opened => {}
                _ => attempts.failed += 1,
            }
        }
    }

    pub fn build(self) -> JobStatistics {
        let number = |state: JobState| self.states.get(state.name()).copied().unwrap_or(0);
        let (done, failed) = (number(JobState::Done), number(JobState::Failed));
        let tools = self.tools.into_iter().map(|(tool, attempts)| {
            let statistics = ToolStatistics {
                done: attempts.done_ms.len(),
                failed: attempts.failed,
                attempt_s: Spread::of(attempts.done_ms),
            };
            (tool, statistics)
        });
        JobStatistics {
            success: (done + failed > 0).then(|| done as f64 / (done + failed) as f64),
            planning_s: Spread::of(self.planning_ms),
            run_s: Spread::of(self.run_ms),
            tools: tools.collect(),
            states: self.states,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::run::{Ended, Planned, PlannedBy, Provenance, StepResult};

    fn job(planned: Option<Planned>) -> JobInfo {
        JobInfo {
            id: "20261128-141502-kxq".to_owned(),
            created_ms: 5_000,
            origin: "photos by day".to_owned(),
            output: "/tmp/out".into(),
            plan: json!({"steps": []}),
            from: Provenance {
                planned,
                ..Provenance::default()
            },
        }
    }

    fn log(lines: Vec<(i64, LogRecord)>) -> Vec<LogLine> {
        let lines = lines.into_iter();
        lines
            .map(|(at_ms, record)| LogLine { at_ms, record })
            .collect()
    }

    fn started(step: &str, tool: &str) -> LogRecord {
        LogRecord::Started {
            step: step.to_owned(),
            tool: tool.to_owned(),
            params: Map::new(),
            attempt: 1,
        }
    }

    fn finished(step: &str) -> LogRecord {
        LogRecord::Finished {
            step: step.to_owned(),
            result: StepResult {
                sha256: String::new(),
                summary: String::new(),
                files: Vec::new(),
            },
        }
    }

    fn failed(step: &str) -> LogRecord {
        LogRecord::Failed {
            step: step.to_owned(),
            why: "the disk is full".to_owned(),
            again_in_s: Some(2.0),
        }
    }

    #[test]
    fn attempts_that_overlap_are_timed_by_step_and_counted_by_tool() {
        let log = log(vec![
            (0, LogRecord::Opened),
            (100, started("a", "list_pictures")),
            (200, started("b", "measure")),
            (1_100, finished("a")),
            (1_200, failed("b")),
            (3_200, started("b", "measure")),
            (3_700, finished("b")),
            (4_000, LogRecord::Ended { how: Ended::Done }),
        ]);
        let mut statistics = JobStatisticsBuilder::default();
        statistics.add(&job(None), &log, JobState::Done);
        let statistics = statistics.build();
        let list = &statistics.tools["list_pictures"];
        assert_eq!((list.done, list.failed), (1, 0));
        assert_eq!(list.attempt_s.map(|s| s.longest), Some(1.0));
        let measure = &statistics.tools["measure"];
        assert_eq!((measure.done, measure.failed), (1, 1));
        assert_eq!(measure.attempt_s.map(|s| s.median), Some(0.5));
        assert_eq!(statistics.run_s.map(|s| s.median), Some(4.0));
        assert_eq!(statistics.planning_s, None);
        assert_eq!(statistics.success, Some(1.0));
    }

    #[test]
    fn expected_time_adds_medians_and_names_tools_without_a_run() {
        let log = log(vec![
            (0, started("a", "list_pictures")),
            (1_500, finished("a")),
            (2_000, started("b", "group")),
            (4_000, failed("b")),
        ]);
        let mut statistics = JobStatisticsBuilder::default();
        statistics.add(&job(None), &log, JobState::Failed);
        let statistics = statistics.build();
        let plan = |tools: &[&str]| {
            let steps = tools.iter().enumerate();
            let steps = steps.map(|(n, tool)| json!({"name": format!("s{n}"), "tool": tool}));
            crate::plan::read(&json!({"name": "x", "steps": steps.collect::<Vec<_>>()})).unwrap()
        };
        let expected =
            statistics.expected_time(&plan(&["list_pictures", "group", "list_pictures"]));
        assert_eq!(
            expected.unwrap().to_string(),
            "about 3.0 s, by earlier runs of its tools; not run yet and not counted: group"
        );
        assert_eq!(statistics.expected_time(&plan(&["group"])), None);
    }

    #[test]
    fn attempt_that_a_crash_cut_off_counts_nowhere() {
        let log = log(vec![
            (0, LogRecord::Opened),
            (100, started("a", "measure")),
            (90_000, LogRecord::Opened),
            (90_100, started("a", "measure")),
            (90_300, finished("a")),
        ]);
        let mut statistics = JobStatisticsBuilder::default();
        statistics.add(&job(None), &log, JobState::Interrupted);
        let statistics = statistics.build();
        let longest = statistics.tools["measure"].attempt_s.map(|s| s.longest);
        assert_eq!(longest, Some(0.2));
        assert_eq!((statistics.success, statistics.run_s), (None, None));
    }

    #[test]
    fn planning_is_timed_from_the_last_words_of_a_person() {
        let planned = |refined_at_ms| Planned {
            by: PlannedBy::Rules,
            request: "photos by day".to_owned(),
            refinements: Vec::new(),
            refined_at_ms,
            at_ms: 1_000,
            predecessor: None,
            revisions: 0,
        };
        let mut statistics = JobStatisticsBuilder::default();
        statistics.add(&job(Some(planned(Vec::new()))), &[], JobState::Failed);
        statistics.add(&job(Some(planned(vec![4_500]))), &[], JobState::Done);
        statistics.add_damaged();
        let statistics = statistics.build();
        let planning = Spread {
            median: 4.0,
            longest: 4.0,
        };
        assert_eq!(statistics.planning_s, Some(planning));
        assert_eq!(statistics.success, Some(0.5));
        assert_eq!(statistics.states["damaged"], 1);
    }
}
