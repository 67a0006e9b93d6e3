//! The trajectory of a job: what was known, done and gained, step by step.

use serde::Serialize;
use serde_json::{Map, Value};

use super::folder::JobFolder;
use super::info::JobId;
use super::log::{LogLine, LogRecord};
use crate::plan::{self, Fault, Rewards};

/// One attempt of a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Transition {
    /// Milliseconds since 1970 at which the attempt ended.
    pub at_ms: i64,
    pub state: State,
    pub action: Action,
    /// The summary, or why it failed.
    pub result: String,
    pub succeeded: bool,
    /// From the plan's `rewards`, if it has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
}

/// What was known when the attempt began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct State {
    /// The job that this one refines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<JobId>,
    /// Steps that were done.
    pub done: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Action {
    pub step: String,
    pub tool: String,
    pub params: Map<String, Value>,
    pub attempt: u64,
}

/// What a job did, step by step.
#[derive(Debug)]
pub struct Trajectory {
    /// The attempts that ended, in the order in which they ended.
    pub transitions: Vec<Transition>,
    /// Faults of the stored plan, whose rewards are unknown then.
    pub faults: Vec<Fault>,
}

impl JobFolder {
    /// Returns the trajectory that the records of the job's log show.
    pub fn trajectory(&self, log: &[LogLine]) -> Trajectory {
        let planned = self.info().from.planned.as_ref();
        let predecessor = planned.and_then(|planned| planned.predecessor.as_ref());
        let (rewards, faults) = match plan::read(&self.info().plan) {
            Ok(plan) => (plan.rewards, Vec::new()),
            Err(faults) => (None, faults),
        };
        Trajectory {
            transitions: transitions(log, rewards, predecessor),
            faults,
        }
    }
}

pub(super) fn transitions(
    log: &[LogLine],
    rewards: Option<Rewards>,
    predecessor: Option<&JobId>,
) -> Vec<Transition> {
    let mut open: Vec<(Action, State)> = Vec::new();
    let mut done: Vec<String> = Vec::new();
    let mut all = Vec::new();
    for line in log {
        let (step, result, succeeded) = match &line.record {
            LogRecord::Started {
                step,
                tool,
                params,
                attempt,
            } => {
                let action = Action {
                    step: step.clone(),
                    tool: tool.clone(),
                    params: params.clone(),
                    attempt: *attempt,
                };
                // An attempt that a crash interrupted has no end.
                open.retain(|(other, _)| other.step != *step);
                let state = State {
                    predecessor: predecessor.cloned(),
                    done: done.clone(),
                };
                open.push((action, state));
                continue;
            }
            LogRecord::Finished { step, result } => (step, &result.summary, true),
            LogRecord::Failed { step, why, .. } => (step, why, false),
            LogRecord::Opened
            | LogRecord::Claimed { .. }
            | LogRecord::Skipped { .. }
            | LogRecord::Ended { .. } => continue,
        };
        if succeeded {
            done.push(step.clone());
        }
        if let Some(place) = open.iter().position(|(action, _)| action.step == *step) {
            let (action, state) = open.remove(place);
            let reward = rewards.map(|rewards| match succeeded {
                true => rewards.success,
                false => rewards.failure,
            });
            all.push(Transition {
                at_ms: line.at_ms,
                state,
                action,
                result: result.clone(),
                succeeded,
                reward,
            });
        }
    }
    all
}
