//! Runs a file of tasks.

use super::grade::grade;
use super::provider::Agent;
use super::report::{Score, TaskRun, TaskScore};
use super::site;
use super::task::{Task, TaskFile};

/// Sends every task `runs` times to `agent` and grades the outcomes. Calls `done` after each task.
///
/// # Errors
/// If a box can't be set up. A task that fails is a score.
pub fn run(
    file: &TaskFile,
    agent: &Agent,
    runs: usize,
    done: &mut dyn FnMut(&TaskScore),
) -> anyhow::Result<Score> {
    let mut tasks = Vec::with_capacity(file.tasks.len());
    for task in &file.tasks {
        let score = run_task(task, agent, runs)?;
        done(&score);
        tasks.push(score);
    }
    Ok(Score {
        agent: agent.name(),
        has_model: agent.is_model(),
        tasks,
        unreadable: file.unreadable.clone(),
        gate: file.gate,
    })
}

fn run_task(task: &Task, agent: &Agent, runs: usize) -> anyhow::Result<TaskScore> {
    let mut absent = Vec::new();
    let mut ran = Vec::with_capacity(runs);
    for nth in 0..runs {
        let (outcome, models, without) = site::run(task, agent, nth)?;
        absent = without;
        ran.push(TaskRun {
            words: task.words(nth).to_owned(),
            graded: grade(task, &outcome, &models),
            outcome,
        });
    }
    Ok(TaskScore {
        task: task.clone(),
        runs: ran,
        absent,
    })
}
