//! Scores of every run of every task, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::grade::{Grade, Graded};
use super::outcome::Outcome;
use super::task::{Gate, Task};

#[derive(Debug, Clone)]
pub struct TaskRun {
    /// Number of the run, counted from 0; a run that could not take place has one too.
    pub nth: usize,
    pub outcome: Outcome,
    pub graded: Graded,
}

/// All runs of a task.
#[derive(Debug, Clone)]
pub struct TaskScore {
    pub task: Task,
    pub runs: Vec<TaskRun>,
    /// Runs that could not take place, counted from 0, with the reason. None of them passes.
    pub not_run: Vec<(usize, String)>,
    /// Models that the scene names and the box can't have.
    pub absent: Vec<String>,
}

impl TaskScore {
    pub fn new(task: Task) -> Self {
        Self {
            task,
            runs: Vec::new(),
            not_run: Vec::new(),
            absent: Vec::new(),
        }
    }

    /// Number of runs that were to take place.
    fn planned(&self) -> usize {
        self.runs.len() + self.not_run.len()
    }

    /// Whether all runs pass.
    pub fn every_run(&self) -> bool {
        self.not_run.is_empty() && self.runs.iter().all(|r| r.graded.passed)
    }

    fn table(&self, out: &mut String) -> std::fmt::Result {
        let Task { id, category, .. } = &self.task;
        for ran in &self.runs {
            let passed = if ran.graded.passed { "PASS" } else { "fail" };
            let first = if ran.graded.first_try != Some(false) {
                ""
            } else {
                ", not at the first try"
            };
            let drawn = ran.outcome.drawn.as_ref();
            let drawn = drawn
                .map(|d| format!(", {d} was drawn for it"))
                .unwrap_or_default();
            writeln!(
                out,
                "{id:5} {category:14} run {} {passed}{first}{drawn}",
                ran.nth + 1
            )?;
            writeln!(out, "      \"{}\"", ran.outcome.words)?;
            for Grade {
                op, holds, found, ..
            } in &ran.graded.grades
            {
                let mark = if *holds { "ok" } else { "NO" };
                let found: String = found.replace('\n', " ").chars().take(150).collect();
                writeln!(out, "      {mark} {op:9} {found}")?;
            }
        }
        for (nth, why) in &self.not_run {
            writeln!(
                out,
                "{id:5} {category:14} run {} COULD NOT RUN: {why}",
                nth + 1
            )?;
        }
        for absent in &self.absent {
            writeln!(out, "      mind: the box can't have the model {absent:?}")?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let run = |ran: &TaskRun| {
            let grade = |g: &Grade| json!({"op": g.op, "holds": g.holds, "found": g.found});
            let deployed: Vec<Value> = ran.outcome.changed().map(|d| json!(d.spec)).collect();
            let calls: Vec<&String> = ran
                .outcome
                .calls
                .iter()
                .filter_map(|c| c.names.first())
                .collect();
            json!({
                "nth": ran.nth, "words": ran.outcome.words, "passed": ran.graded.passed, "first_try": ran.graded.first_try,
                "first_valid": ran.graded.first_valid, "checks": ran.graded.grades.iter().map(grade).collect::<Vec<_>>(),
                "wrong_offer": ran.graded.wrong_offer, "wrong_change": ran.graded.wrong_change,
                "said": ran.outcome.said.text, "calls": calls, "drawn": ran.outcome.drawn, "deployed": deployed,
                "model_calls": ran.outcome.spent.model_calls, "usd": ran.outcome.spent.usd, "wall_s": ran.outcome.spent.wall_s,
            })
        };
        json!({
            "id": self.task.id, "category": self.task.category, "core": self.task.core, "every_run": self.every_run(),
            "runs": self.runs.iter().map(run).collect::<Vec<_>>(), "could_not_run": self.not_run, "absent_models": self.absent,
        })
    }
}

/// Score of an agent on a file of tasks.
#[derive(Debug, Clone)]
pub struct Score {
    /// Name of the agent.
    pub agent: String,
    pub tasks: Vec<TaskScore>,
    /// Tasks that cannot be read, with the reason.
    pub unreadable: Vec<(String, String)>,
    /// Whether an LLM was configured.
    pub has_model: bool,
    pub gate: Gate,
}

/// Counts of runs and tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Number of runs.
    pub runs: usize,
    /// Runs that have checks on specifications.
    pub specified: usize,
    /// Runs among them whose first specification passes all of these.
    pub first_try: usize,
    /// Runs that pass.
    pub passed: usize,
    /// Runs that have to deploy something and submitted a specification.
    pub to_deploy: usize,
    /// Runs among them whose first specification is valid.
    pub first_valid: usize,
    /// Runs that have to deploy something and submitted nothing.
    pub declined: usize,
    /// Runs in which something was changed that the task does not ask for.
    pub wrong_changes: usize,
    /// Runs in which the rules offered what the task does not ask for.
    pub wrong_offers: usize,
    /// Runs that could not take place. No other count of runs has them, and `every_run` has none of
    /// their tasks.
    pub not_run: usize,
    /// Number of tasks.
    pub tasks: usize,
    /// Tasks of which all runs pass.
    pub every_run: usize,
}

fn share(part: usize, of: usize) -> f64 {
    if of == 0 {
        1.0
    } else {
        part as f64 / of as f64
    }
}

impl Score {
    /// Returns the number of answered LLM calls.
    pub fn answered(&self) -> u64 {
        let runs = self.tasks.iter().flat_map(|task| &task.runs);
        runs.map(|ran| ran.outcome.spent.model_calls).sum()
    }

    /// Whether an LLM was configured and never answered, so that only the rules were graded.
    pub fn is_llm_silent(&self) -> bool {
        self.has_model && self.answered() == 0
    }

    /// Highest number of runs that a task was to have.
    fn runs_of_a_task(&self) -> Option<usize> {
        self.tasks.iter().map(TaskScore::planned).max()
    }

    /// Counts runs and tasks.
    pub fn shares(&self) -> Shares {
        let runs: Vec<&TaskRun> = self.tasks.iter().flat_map(|t| &t.runs).collect();
        let count =
            |holds: &dyn Fn(&Graded) -> bool| runs.iter().filter(|r| holds(&r.graded)).count();
        Shares {
            runs: runs.len(),
            specified: count(&|g| g.first_try.is_some()),
            first_try: count(&|g| g.first_try == Some(true)),
            passed: count(&|g| g.passed),
            to_deploy: count(&|g| g.first_valid.is_some()),
            first_valid: count(&|g| g.first_valid == Some(true)),
            declined: count(&|g| g.declined),
            wrong_changes: count(&|g| g.wrong_change),
            wrong_offers: count(&|g| g.wrong_offer),
            not_run: self.tasks.iter().map(|task| task.not_run.len()).sum(),
            tasks: self.tasks.len(),
            every_run: self.tasks.iter().filter(|t| t.every_run()).count(),
        }
    }

    /// Whether the gate is reached.
    pub fn is_released(&self) -> bool {
        let s = self.shares();
        self.unreadable.is_empty()
            && s.not_run == 0
            && share(s.first_valid, s.to_deploy) >= self.gate.first_try_valid
            && share(s.passed, s.runs) >= self.gate.final_pass
            && share(s.every_run, s.tasks) >= self.gate.every_run
    }

    /// Formats the score as a table.
    pub fn table(&self) -> String {
        let mut out = String::new();
        // Writing to a string can't fail.
        self.write(&mut out).ok();
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        for task in &self.tasks {
            task.table(out)?;
        }
        for (task, why) in &self.unreadable {
            writeln!(out, "{task:5} UNREADABLE: {why}")?;
        }
        let s = self.shares();
        let k = self.runs_of_a_task().unwrap_or(0);
        writeln!(out, "\n{}: {} tasks, {} runs", self.agent, s.tasks, s.runs)?;
        if s.not_run > 0 {
            writeln!(out, "  {} further runs could not run", s.not_run)?;
        }
        if self.has_model {
            writeln!(
                out,
                "  {} calls of the model were answered",
                self.answered()
            )?;
        }
        if self.is_llm_silent() {
            writeln!(
                out,
                "  no model answered, so what follows is what the rules do alone: see to the address, the key and the model's id"
            )?;
        }
        let mut line = |what: &str, part: usize, of: usize, gate: Option<f64>| {
            let gate = gate
                .map(|g| format!("  (gate {:.0} %)", g * 100.0))
                .unwrap_or_default();
            writeln!(
                out,
                "  {what:34} {part:3} of {of:3}  {:3.0} %{gate}",
                share(part, of) * 100.0
            )
        };
        line(
            "first specification valid",
            s.first_valid,
            s.to_deploy,
            Some(self.gate.first_try_valid),
        )?;
        line("first try", s.first_try, s.specified, None)?;
        line(
            "after self-correction",
            s.passed,
            s.runs,
            Some(self.gate.final_pass),
        )?;
        line(
            &format!("pass^{k}"),
            s.every_run,
            s.tasks,
            Some(self.gate.every_run),
        )?;
        line("declined", s.declined, s.declined + s.to_deploy, None)?;
        line("wrong offers of the rules", s.wrong_offers, s.runs, None)?;
        line("wrong changes", s.wrong_changes, s.runs, None)?;
        for (category, (passed, all)) in self.by_category() {
            line(&format!("  {category}"), passed, all, None)?;
        }
        Ok(())
    }

    /// Returns passed and all runs by category.
    fn by_category(&self) -> BTreeMap<&str, (usize, usize)> {
        let mut categories = BTreeMap::new();
        for task in &self.tasks {
            let entry = categories
                .entry(task.task.category.as_str())
                .or_insert((0, 0));
            entry.0 += task.runs.iter().filter(|r| r.graded.passed).count();
            entry.1 += task.runs.len();
        }
        categories
    }

    /// Formats the score as JSON.
    pub fn json(&self) -> Value {
        let s = self.shares();
        json!({
            "agent": self.agent, "calls_answered": self.answered(),
            "first_try_valid": share(s.first_valid, s.to_deploy), "first_try": share(s.first_try, s.specified),
            "after_self_correction": share(s.passed, s.runs), "pass^k": share(s.every_run, s.tasks),
            "declined": s.declined, "wrong_offers": s.wrong_offers, "wrong_changes": s.wrong_changes,
            "unreadable": self.unreadable, "could_not_run": s.not_run,
            "k": self.runs_of_a_task(), "released": self.is_released(),
            "tasks": self.tasks.iter().map(TaskScore::json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(has_model: bool) -> Score {
        Score {
            agent: "somebody".to_owned(),
            tasks: Vec::new(),
            unreadable: Vec::new(),
            has_model,
            gate: Gate::default(),
        }
    }

    #[test]
    fn task_with_a_run_without_a_box_does_not_pass_and_is_counted() {
        let mut task = TaskScore::new(Task::default());
        assert!(task.every_run());
        task.not_run.push((1, "the box: timed out".to_owned()));
        assert!(!task.every_run());
        let all = Score {
            tasks: vec![task],
            ..score(false)
        };
        let shares = all.shares();
        assert_eq!((shares.runs, shares.not_run, shares.every_run), (0, 1, 0));
        assert!(!all.is_released());
        assert!(
            all.table()
                .contains("run 2 COULD NOT RUN: the box: timed out")
        );
        assert_eq!(all.json()["could_not_run"], 1);
    }

    #[test]
    fn run_after_a_missing_one_keeps_its_number() {
        let mut task = TaskScore::new(Task::default());
        task.not_run.push((0, "the box: timed out".to_owned()));
        task.runs.push(TaskRun {
            nth: 1,
            outcome: Outcome::default(),
            graded: Graded {
                grades: Vec::new(),
                first_valid: None,
                declined: false,
                wrong_change: false,
                wrong_offer: false,
                first_try: None,
                passed: true,
            },
        });
        let all = Score {
            tasks: vec![task],
            ..score(false)
        };
        let table = all.table();
        for part in ["run 2 PASS", "run 1 COULD NOT RUN", "pass^2"] {
            assert!(table.contains(part), "{part} is not in\n{table}");
        }
        assert_eq!(all.json()["k"], 2);
        assert_eq!(all.json()["tasks"][0]["runs"][0]["nth"], 1);
    }

    #[test]
    fn score_reports_a_silent_llm_and_not_the_rules_alone() {
        let silent = score(true);
        assert!(silent.is_llm_silent());
        assert!(
            silent
                .table()
                .contains("0 calls of the model were answered")
        );
        assert!(silent.table().contains("no model answered"));
        assert!(!score(false).is_llm_silent());
        assert!(!score(false).table().contains("the model"));
    }
}
