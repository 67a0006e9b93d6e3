//! The steps of a session on the archive and of `/manual`, with rewards. Sans-IO.
//!
//! - A reward is a score for comparing trajectories; nothing acts on it.
//! - Parameters and results are without secrets: a history is shown, exported and sent.

use std::collections::VecDeque;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::trace::{redact_value, without_secrets};
use crate::wording::counted;

/// Steps that are kept; the totals count all.
pub const MAX_STEPS: usize = 500;
/// Longest result, in characters.
const MAX_RESULT: usize = 300;

/// Rewards in hundredths, by the name of an operation; [`reward`] adds the cases of `retrieve`.
const REWARDS: [(&str, i64); 8] = [
    ("retrieve", MISS),
    ("ingest", 10),
    ("query", 10),
    ("find", 10),
    ("list", 10),
    ("prune", 5),
    ("destroy", 5),
    ("stat", 0),
];
/// Reward of a retrieval that a fast tier answered.
const HIT: i64 = 30;
/// Reward of a retrieval from the disk.
const MISS: i64 = 20;
/// Reward of anything that failed.
const ERROR: i64 = -50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOutcome {
    Done,
    Hit,
    Miss,
    Failed,
}

/// The reward of an operation, in hundredths.
pub fn reward(operation: &str, outcome: StepOutcome) -> i64 {
    match outcome {
        StepOutcome::Failed => ERROR,
        StepOutcome::Hit => HIT,
        StepOutcome::Miss => MISS,
        StepOutcome::Done => {
            let known = REWARDS.iter().find(|(name, _)| *name == operation);
            known.map_or(0, |(_, reward)| *reward)
        }
    }
}

/// A finished step, in the form of the steps of jobs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionStep {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    pub state: StepState,
    pub action: StepAction,
    /// The result, or the cause of the failure.
    pub result: String,
    pub succeeded: bool,
    pub reward: f64,
}

/// State that was known when a step began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepState {
    /// Number of steps before.
    pub steps: u64,
    pub hits: u64,
    pub misses: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepAction {
    pub tool: String,
    pub params: Map<String, Value>,
}

/// The latest steps of a session, and its totals.
#[derive(Debug, Default)]
pub struct SessionTrajectory {
    steps: VecDeque<SessionStep>,
    count: u64,
    hits: u64,
    misses: u64,
    /// In hundredths, so that sums are exact.
    total: i64,
}

impl SessionTrajectory {
    pub fn add(
        &mut self,
        at_ms: i64,
        tool: &str,
        params: &Value,
        outcome: StepOutcome,
        result: &str,
    ) {
        let reward = reward(tool, outcome);
        let step = SessionStep {
            at_ms,
            state: StepState {
                steps: self.count,
                hits: self.hits,
                misses: self.misses,
            },
            action: StepAction {
                tool: tool.to_owned(),
                params: match redact_value(None, params) {
                    Value::Object(params) => params,
                    _ => Map::new(),
                },
            },
            result: without_secrets(result).chars().take(MAX_RESULT).collect(),
            succeeded: outcome != StepOutcome::Failed,
            reward: in_units(reward),
        };
        self.count += 1;
        self.total += reward;
        match outcome {
            StepOutcome::Hit => self.hits += 1,
            StepOutcome::Miss => self.misses += 1,
            StepOutcome::Done | StepOutcome::Failed => {}
        }
        self.steps.push_back(step);
        if self.steps.len() > MAX_STEPS {
            self.steps.pop_front();
        }
    }

    /// The latest step.
    pub fn last(&self) -> Option<&SessionStep> {
        self.steps.back()
    }

    /// The steps as JSON, one object a line.
    pub(crate) fn to_json_lines(&self) -> Vec<Value> {
        // Plain data with string keys always serialises.
        let lines = self.steps.iter();
        lines
            .map(|step| serde_json::to_value(step).unwrap_or_default())
            .collect()
    }

    /// The totals in one line.
    pub fn summary(&self) -> String {
        let reads = self.hits + self.misses;
        let rate = match (self.hits * 100).checked_div(reads) {
            Some(rate) => format!(" ({rate}% hit rate)"),
            None => String::new(),
        };
        format!(
            "Trajectory: {}, total reward {:.2}. Fast tiers: hits {}, misses {}{rate}",
            counted(self.count, "step"),
            in_units(self.total),
            self.hits,
            self.misses
        )
    }

    /// The steps and the totals, one line each.
    pub fn describe(&self) -> String {
        let before = self.count.saturating_sub(self.steps.len() as u64);
        let mut lines = Vec::new();
        for (nth, step) in (before + 1..).zip(&self.steps) {
            let params = Value::Object(step.action.params.clone());
            lines.push(format!(
                "{nth}. {} {params}: {} ({:+.2})",
                step.action.tool, step.result, step.reward
            ));
        }
        lines.push(self.summary());
        lines.join("\n")
    }

    pub fn totals(&self) -> Value {
        json!({
            "steps": self.count, "hits": self.hits, "misses": self.misses,
            "total_reward": in_units(self.total),
        })
    }
}

/// Hundredths as a number with two decimals. A total stays far below 2^53.
fn in_units(hundredths: i64) -> f64 {
    hundredths as f64 / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewards_are_those_of_the_table() {
        for (operation, outcome, expected) in [
            ("ingest", StepOutcome::Done, 10),
            ("query", StepOutcome::Done, 10),
            ("list", StepOutcome::Done, 10),
            ("retrieve", StepOutcome::Hit, 30),
            ("retrieve", StepOutcome::Miss, 20),
            ("prune", StepOutcome::Done, 5),
            ("destroy", StepOutcome::Done, 5),
            ("stats", StepOutcome::Done, 0),
            ("ingest", StepOutcome::Failed, -50),
        ] {
            assert_eq!(reward(operation, outcome), expected, "{operation}");
        }
    }

    #[test]
    fn history_has_no_secret() {
        let mut all = SessionTrajectory::default();
        let source = "http::http://store/a.jpg?token=hunter2-7f";
        let params = json!({"source": source, "options": {"password": "hunter2-7f"}});
        let why = format!("{source}: no answer");
        all.add(0, "ingest", &params, StepOutcome::Failed, &why);
        for shown in [all.describe(), all.to_json_lines()[0].to_string()] {
            assert!(!shown.contains("hunter2"), "{shown}");
            assert!(shown.contains("http::http://store/a.jpg"), "{shown}");
        }
    }

    #[test]
    fn totals_count_steps_that_are_no_longer_kept() {
        let mut all = SessionTrajectory::default();
        for n in 0..MAX_STEPS as i64 + 3 {
            all.add(
                n,
                "retrieve",
                &json!({"name": "a/b"}),
                StepOutcome::Hit,
                "r",
            );
        }
        assert_eq!(all.to_json_lines().len(), MAX_STEPS);
        assert_eq!(all.totals()["steps"], MAX_STEPS + 3);
        assert_eq!(all.totals()["total_reward"], 150.9);
        let first = &all.to_json_lines()[0];
        assert_eq!(
            (&first["at_ms"], &first["state"]["steps"]),
            (&json!(3), &json!(3))
        );
        assert!(
            all.describe()
                .starts_with("4. retrieve {\"name\":\"a/b\"}: r (+0.30)")
        );
    }
}
