//! The trajectory of a job: what was known, done and gained, step by step.

use serde::Serialize;
use serde_json::{Map, Value};

use super::folder::JobFolder;
use super::info::JobId;
use super::log::{LogLine, LogRecord, attempts};
use crate::plan::{self, Fault, Rewards};

/// One attempt of a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Transition {
    /// Milliseconds since 1970 at which the attempt ended, or was found to be cut off.
    pub at_ms: i64,
    pub state: State,
    pub action: Action,
    /// The summary, or why it failed.
    pub result: String,
    pub succeeded: bool,
    /// From the plan's `rewards`, if it has them. An attempt that was cut off has none: the step
    /// didn't end it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
}

/// State that was known when the attempt began.
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

/// The attempts of a job, step by step.
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
    let finished = log.iter().enumerate();
    let finished = finished.filter_map(|(place, line)| match &line.record {
        LogRecord::Finished { step, .. } => Some((place, step)),
        _ => None,
    });
    let finished: Vec<(usize, &String)> = finished.collect();
    let ended = attempts(log).into_iter().filter_map(|(begin, end)| {
        let LogRecord::Started {
            step,
            tool,
            params,
            attempt,
        } = &log.get(begin)?.record
        else {
            return None;
        };
        let line = log.get(end)?;
        let success = rewards.map(|rewards| rewards.success);
        let failure = rewards.map(|rewards| rewards.failure);
        let (result, succeeded, reward) = match &line.record {
            LogRecord::Finished { result, .. } => (result.summary.as_str(), true, success),
            LogRecord::Failed { why, .. } => (why.as_str(), false, failure),
            LogRecord::Opened => ("cut off: its process ended in the middle", false, None),
            _ => return None,
        };
        let done = finished.iter().take_while(|(place, _)| *place < begin);
        Some(Transition {
            at_ms: line.at_ms,
            state: State {
                predecessor: predecessor.cloned(),
                done: done.map(|(_, step)| (*step).clone()).collect(),
            },
            action: Action {
                step: step.clone(),
                tool: tool.clone(),
                params: params.clone(),
                attempt: *attempt,
            },
            result: result.to_owned(),
            succeeded,
            reward,
        })
    });
    ended.collect()
}
