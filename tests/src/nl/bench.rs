//! Runs a file of tasks.

use super::grade::grade;
use super::provider::Agent;
use super::report::{Score, TaskRun, TaskScore};
use super::site;
use super::task::{Task, TaskFile};

/// Sends every task `runs` times to `agent` and grades the outcomes. Calls `done` after each task.
/// A task that fails is a score, and so is a run that could not take place.
pub fn run(file: &TaskFile, agent: &Agent, runs: usize, done: &mut dyn FnMut(&TaskScore)) -> Score {
    let mut tasks = Vec::with_capacity(file.tasks.len());
    for task in &file.tasks {
        let score = run_task(task, agent, runs);
        done(&score);
        tasks.push(score);
    }
    Score {
        agent: agent.name(),
        has_model: agent.is_model(),
        tasks,
        unreadable: file.unreadable.clone(),
        gate: file.gate,
    }
}

fn run_task(task: &Task, agent: &Agent, runs: usize) -> TaskScore {
    let mut score = TaskScore::new(task.clone());
    for nth in 0..runs {
        match site::run(task, agent, nth) {
            Ok((outcome, models, absent)) => {
                score.absent = absent;
                score.runs.push(TaskRun {
                    nth,
                    graded: grade(task, &outcome, &models),
                    outcome,
                });
            }
            Err(why) => score.not_run.push((nth, format!("{why:#}"))),
        }
    }
    score
}
