//! File of tasks: the request of a user, the scene, and the checks that have to hold afterwards.
//!
//! Nothing in a file is ignored silently. A check of an unknown kind fails and says so.
//! [`Task::unread`] lists fields that nothing reads, so that a table never claims more than was
//! graded.

use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::check::Check;
use super::scene::Scene;

/// Supported version of the format.
const VERSION: u64 = 1;

/// File of tasks.
#[derive(Debug, Clone)]
pub struct TaskFile {
    /// Shares that a release has to reach.
    pub gate: Gate,
    /// Tasks in the order of the file.
    pub tasks: Vec<Task>,
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

#[derive(Debug, Clone)]
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
    /// Fields that nothing reads, such as `scene.weather`.
    pub unread: Vec<String>,
}

impl Task {
    /// Returns the wording of a run, counted from 0: instruction and paraphrase in turn.
    #[must_use]
    pub fn words(&self, run: usize) -> &str {
        match run % 2 {
            0 => &self.instruction,
            _ => &self.paraphrase,
        }
    }
}

/// Errors that the harness injects, so that the LLM has something to correct.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inject {
    /// The first preview is mirrored left to right, and so is the draft of the first dry run.
    pub mirrored_preview: bool,
}

#[derive(Deserialize)]
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
    inject: Map<String, Value>,
    checks: Vec<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl TaskFile {
    /// Reads a file of tasks.
    ///
    /// # Errors
    /// If it is invalid; the message names task and field.
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
        for (nth, task) in tasks.iter().enumerate() {
            let name = task["id"].as_str().unwrap_or("without an id").to_owned();
            let task = read_task(task).with_context(|| format!("task {nth} ({name})"))?;
            if read.iter().any(|other| other.id == task.id) {
                bail!("task {nth}: the id {name:?} is used twice; every task has one of its own");
            }
            read.push(task);
        }
        Ok(Self {
            gate: gate(&file["scoring"]["release_gate"]),
            tasks: read,
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
    let mut unread: Vec<String> = raw.rest.keys().cloned().collect();
    unread.extend(raw.scene.unread().into_iter().map(|f| format!("scene.{f}")));
    let mut checks = Vec::with_capacity(raw.checks.len());
    for (nth, written) in raw.checks.iter().enumerate() {
        let check = Check::read(written).with_context(|| format!("checks[{nth}]"))?;
        unread.extend(
            check
                .unread()
                .into_iter()
                .map(|f| format!("checks[{nth}].{f}")),
        );
        checks.push(check);
    }
    let inject = Inject {
        mirrored_preview: raw.inject.contains_key("first_preview"),
    };
    let others = raw.inject.keys().filter(|k| *k != "first_preview");
    unread.extend(others.map(|k| format!("inject.{k}")));
    Ok(Task {
        paraphrase: raw.paraphrase.unwrap_or_else(|| raw.instruction.clone()),
        id: raw.id,
        category: raw.category,
        core: raw.core,
        instruction: raw.instruction,
        scene: raw.scene,
        inject,
        checks,
        unread,
    })
}

/// Splits a text at `|`.
#[must_use]
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
        format!("{:#}", file(task).unwrap_err())
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
    fn unread_fields_are_listed_and_unknown_checks_fail() {
        let odd = json!({
            "id": "A", "instruction": "x", "scene": {"weather": "rain", "fixture": {"duration_s": 1, "fps": 1, "fog": 1}},
            "checks": [{"op": "smell", "of": "smoke"}, {"op": "valid", "loudly": true}],
        });
        let file = file(&odd).unwrap();
        let task = &file.tasks[0];
        for field in ["scene.weather", "scene.fixture.fog", "checks[1].loudly"] {
            assert!(task.unread.contains(&field.to_owned()), "{:?}", task.unread);
        }
        assert!(matches!(&task.checks[0], Check::Unknown(op) if op == "smell"));
        assert_eq!(task.words(1), "x", "no paraphrase: the same words");
    }
}
