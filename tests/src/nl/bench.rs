//! Runs a file of tasks, or the mutants of their solutions.

use super::grade::{Graded, grade};
use super::mutate::mutants;
use super::oracle::Oracles;
use super::provider::Agent;
use super::report::{MutantResult, Mutation, Score, TaskRun, TaskScore};
use super::site;
use super::stand_in;
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

/// Grades the solution of each task, and each of its mutants.
///
/// # Errors
/// If a pipeline of a scene is invalid.
pub fn mutate(file: &TaskFile, oracles: &Oracles) -> anyhow::Result<Mutation> {
    let mut mutation = Mutation::default();
    for task in &file.tasks {
        let Some(oracle) = oracles.get(&task.id) else {
            mutation.unsolved.push(task.id.clone());
            continue;
        };
        if let Some(why) = &oracle.impossible {
            mutation.impossible.push((task.id.clone(), why.clone()));
            continue;
        }
        let (models, _) = stand_in::models(&task.scene.models);
        let outcome = oracle.outcome(&task.scene)?;
        let graded = grade(task, &outcome, &models);
        if !graded.passed {
            mutation
                .wrong
                .push((task.id.clone(), failed(&graded).join("; ")));
            continue;
        }
        for mutant in mutants(&outcome, task, &models) {
            let graded = grade(task, &mutant.outcome, &models);
            let caught_by = match graded.passed {
                true => Vec::new(),
                false => caught_by(&graded),
            };
            mutation.tried.push(MutantResult {
                task: task.id.clone(),
                mutant,
                caught_by,
            });
        }
    }
    Ok(mutation)
}

fn failed(graded: &Graded) -> Vec<String> {
    let failed = graded.grades.iter().filter(|g| !g.holds);
    failed.map(|g| format!("{}: {}", g.op, g.found)).collect()
}

/// Lists the operations that do not hold; if all hold, the bound on refused submissions.
fn caught_by(graded: &Graded) -> Vec<String> {
    let failed = graded.grades.iter().filter(|g| !g.holds);
    let mut ops: Vec<String> = failed.map(|g| g.op.clone()).collect();
    ops.dedup();
    if ops.is_empty() {
        ops.push("refusals".to_owned());
    }
    ops
}
