//! File of tasks: the request of a user, the scene, and the checks that have to hold afterwards.
//!
//! Nothing in a file is ignored. A task with an unknown operation, field or injected error is
//! unreadable and does not pass. So a table never claims more than was graded.

use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;

use super::check::Check;
use super::scene::Scene;

/// Supported version of the format.
const VERSION: u64 = 1;

#[derive(Debug, Clone)]
pub struct TaskFile {
    /// Shares that a release has to reach.
    pub gate: Gate,
    /// Tasks in the order of the file.
    pub tasks: Vec<Task>,
    /// Tasks that cannot be read, with the reason; none of them passes.
    pub unreadable: Vec<(String, String)>,
}

/// Shares of runs or tasks, `0.0..=1.0`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gate {
    /// Runs whose first specification the product's validator accepts, among those that have to
    /// deploy one.
    pub first_try_valid: f64,
    /// Runs in which every check holds at the end.
    pub final_pass: f64,
    /// Tasks of which all runs pass.
    pub every_run: f64,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            first_try_valid: 0.8,
            final_pass: 0.9,
            every_run: 0.75,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Task {
    pub id: String,
    /// Kind of the request, such as `alert`.
    pub category: String,
    /// Whether it is one of the core tasks, which have to pass.
    pub core: bool,
    /// Text of the request.
    pub instruction: String,
    /// Another wording of the request.
    pub paraphrase: String,
    pub scene: Scene,
    /// Errors that the harness injects for the LLM.
    pub inject: Inject,
    pub checks: Vec<Check>,
}

impl Task {
    /// Returns the wording of a run, counted from 0: instruction and paraphrase in turn.
    pub fn words(&self, run: usize) -> &str {
        match run % 2 {
            0 => &self.instruction,
            _ => &self.paraphrase,
        }
    }
}

/// Errors that the harness injects, so that the LLM has something to correct.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Inject {
    /// The first preview is mirrored left to right, and so is the draft of the first dry run.
    pub first_preview: Option<String>,
    /// The first validation is refused with this reason.
    pub first_submission: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTask {
    id: String,
    #[serde(default)]
    category: String,
    #[serde(default)]
    core: bool,
    instruction: String,
    paraphrase: Option<String>,
    #[serde(default)]
    scene: Scene,
    #[serde(default)]
    inject: Inject,
    checks: Vec<Value>,
    /// For readers of the file.
    #[serde(rename = "note")]
    _note: Option<String>,
}

impl TaskFile {
    /// The ids of all tasks, also of those that cannot be read.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        let unreadable = self.unreadable.iter().map(|(id, _)| id.as_str());
        self.tasks
            .iter()
            .map(|task| task.id.as_str())
            .chain(unreadable)
    }

    /// Reads a file of tasks.
    ///
    /// # Errors
    /// If it is not a file of tasks.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("can't read the tasks in {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    /// Parses a file of tasks.
    ///
    /// # Errors
    /// As [`TaskFile::read`].
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let file: Value = serde_json::from_str(text).context("the file is not JSON")?;
        let version = file["version"].as_u64();
        if version != Some(VERSION) {
            bail!(
                "version is {}; this program reads version {VERSION}",
                file["version"]
            );
        }
        let Some(tasks) = file["tasks"].as_array() else {
            bail!("tasks is missing; it is a list of tasks");
        };
        let mut read: Vec<Task> = Vec::with_capacity(tasks.len());
        let mut unreadable = Vec::new();
        for (nth, task) in tasks.iter().enumerate() {
            let name = task["id"].as_str().unwrap_or("without an id").to_owned();
            let task = match read_task(task).with_context(|| format!("task {nth} ({name})")) {
                Ok(task) => task,
                Err(error) => {
                    unreadable.push((name, format!("{error:#}")));
                    continue;
                }
            };
            if read.iter().any(|other| other.id == task.id) {
                bail!("task {nth}: the id {name:?} is used twice; every task has one of its own");
            }
            read.push(task);
        }
        Ok(Self {
            gate: gate(&file["scoring"]["release_gate"]),
            tasks: read,
            unreadable,
        })
    }
}

fn gate(written: &Value) -> Gate {
    let usual = Gate::default();
    let share = |name: &str, usual: f64| written[name].as_f64().unwrap_or(usual);
    Gate {
        first_try_valid: share("first_try_valid", usual.first_try_valid),
        final_pass: share("final_pass", usual.final_pass),
        every_run: share("pass^4", usual.every_run),
    }
}

fn read_task(task: &Value) -> anyhow::Result<Task> {
    let raw: RawTask = serde_json::from_value(task.clone())?;
    raw.scene.check()?;
    let checks = raw.checks.iter().enumerate();
    let checks = checks
        .map(|(nth, written)| Check::read(written).with_context(|| format!("checks[{nth}]")))
        .collect::<anyhow::Result<Vec<Check>>>()?;
    Ok(Task {
        paraphrase: raw.paraphrase.unwrap_or_else(|| raw.instruction.clone()),
        id: raw.id,
        category: raw.category,
        core: raw.core,
        instruction: raw.instruction,
        scene: raw.scene,
        inject: raw.inject,
        checks,
    })
}

/// Splits a text at `|`.
pub fn alternatives(text: &str) -> Vec<&str> {
    text.split('|').map(str::trim).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(task: &Value) -> anyhow::Result<TaskFile> {
        TaskFile::parse(&json!({"version": 1, "tasks": [task]}).to_string())
    }

    fn reason(task: &Value) -> String {
        let file = file(task).unwrap();
        assert!(file.tasks.is_empty(), "{task}");
        file.unreadable.into_iter().map(|(_, why)| why).collect()
    }

    #[test]
    fn task_error_names_task_and_field() {
        let bad =
            json!({"id": "A1", "instruction": "x", "checks": [{"op": "deployed", "n": "two"}]});
        let said = reason(&bad);
        assert!(said.contains("A1") && said.contains("checks[0]"), "{said}");
        assert!(reason(&json!({"id": "A2", "checks": []})).contains("instruction"));
        let old = TaskFile::parse("{\"version\": 7}").unwrap_err().to_string();
        assert!(old.contains("version is 7"), "{old}");
    }

    #[test]
    fn unknown_field_or_operation_is_refused_by_name() {
        let task = |part: &str, value: Value| {
            let mut task = json!({
                "id": "A", "instruction": "x", "scene": {"fixture": {"duration_s": 1, "fps": 1}},
                "checks": [{"op": "valid", "note": "for people"}],
            });
            assert!(file(&task).unwrap().unreadable.is_empty());
            *task.pointer_mut(part).unwrap() = value;
            task
        };
        for (part, value, field) in [
            ("/scene", json!({"weather": "rain"}), "weather"),
            (
                "/scene/fixture",
                json!({"duration_s": 1, "fps": 1, "fog": 1}),
                "fog",
            ),
            (
                "/checks/0",
                json!({"op": "valid", "loudly": true}),
                "loudly",
            ),
            ("/checks/0", json!({"op": "smell", "of": "smoke"}), "smell"),
            (
                "/checks/0",
                json!({"op": "behaviour", "events": {"most": 1}}),
                "most",
            ),
            (
                "/checks/0",
                json!({"op": "has", "family": "clip", "where": [{"key": "a", "is": 1}]}),
                "is",
            ),
        ] {
            let said = reason(&task(part, value));
            assert!(
                said.contains(field) && said.contains("task 0 (A)"),
                "{said}"
            );
        }
        let mut odd =
            json!({"id": "A", "instruction": "x", "checks": [], "inject": {"last_preview": "x"}});
        assert!(reason(&odd).contains("last_preview"));
        odd["inject"] = json!({});
        odd["mood"] = json!("good");
        assert!(reason(&odd).contains("mood"));
        odd.as_object_mut().unwrap().remove("mood");
        assert_eq!(
            file(&odd).unwrap().tasks[0].words(1),
            "x",
            "no paraphrase: the same words"
        );
    }
}
