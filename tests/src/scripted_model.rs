//! Runs the scripted LLM as a process: the provider for the programs under test.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use serde_json::{Value, json};

use crate::daemons::{Process, START_TIMEOUT, program, wait_for};

/// API key that it accepts.
pub const KEY: &str = "sk-scripted-0123456789abcdefghij";

/// Provider of the model file that needs no key.
const LOCAL: &str = "local";

/// Scripted LLM on a loopback port; killed on drop.
#[derive(Debug)]
pub struct ScriptedModel {
    provider: &'static str,
    base_url: String,
    requests: PathBuf,
    process: Process,
}

impl ScriptedModel {
    /// Starts an LLM with Claude's API that plays these steps, with its files in `folder`.
    ///
    /// # Errors
    /// If the process can't be started.
    pub fn start(folder: &Path, steps: &[Value]) -> anyhow::Result<Self> {
        Self::start_as("claude", folder, steps)
    }

    /// Starts an LLM with the API of this provider of the model file. OpenAI and Gemini are
    /// recordings, which have answers for [`recorded_steps`] only.
    ///
    /// # Errors
    /// If the process can't be started.
    pub fn start_as(
        provider: &'static str,
        folder: &Path,
        steps: &[Value],
    ) -> anyhow::Result<Self> {
        let scenario = folder.join("scenario.json");
        let requests = folder.join("requests.jsonl");
        std::fs::write(&scenario, json!({"steps": steps}).to_string())?;
        let mut command = Command::new(program("watchkeeper-scripted-model")?);
        command.arg("--scenario").arg(scenario).args(["--key", KEY]);
        command.arg("--requests").arg(&requests);
        match provider {
            "claude" => {}
            LOCAL => {
                command.args(["--as", "ollama"]);
            }
            recorded => {
                let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/recorded");
                let file = folder.join(recorded).with_extension("json");
                command.arg("--recorded").arg(file);
            }
        }
        let process = Process::start(command, &folder.join("model.log"))?;
        let base_url = wait_for("the model's address", || {
            let text = process.log_text();
            let (line, _) = text.split_once('\n')?;
            Some(line.to_owned())
        })?;
        Ok(Self {
            provider,
            base_url,
            requests,
            process,
        })
    }

    /// Stops it; fails if it received a request that a provider would refuse, or more requests than
    /// its script has.
    ///
    /// # Errors
    /// With its log.
    pub fn finish(self) -> anyhow::Result<()> {
        self.process.interrupt()?;
        let (code, log) = self.process.wait_for_exit(START_TIMEOUT)?;
        ensure!(code == Some(0), "{log}");
        Ok(())
    }

    /// Returns every request so far, with `status` and `usage` of its answer.
    ///
    /// # Errors
    /// If the file of requests can't be read.
    pub fn requests(&self) -> anyhow::Result<Vec<Value>> {
        let text = std::fs::read_to_string(&self.requests)?;
        // The last line may be incomplete.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines = whole.lines().map(serde_json::from_str);
        Ok(lines.collect::<Result<_, _>>()?)
    }

    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Returns the section of the configuration that names it.
    pub fn section(&self) -> String {
        let (provider, url) = (self.provider, &self.base_url);
        let section = format!("[llm]\nprovider = {provider:?}\nbase_url = {url:?}\n");
        match provider {
            LOCAL => section,
            _ => format!("{section}key = {KEY:?}\n"),
        }
    }
}

/// Makes the steps for which OpenAI and Gemini are recorded: two calls, then "Noted.".
pub fn recorded_steps() -> [Value; 2] {
    let noted = json!({"words": "the door is left", "camera": "test"});
    let looks = json!({"camera": "test"});
    let works = [("memory_note", noted), ("get_snapshot", looks)];
    [thinks("I look first.", &works), answers("Noted.")]
}

/// Makes a step in which the LLM writes this JSON.
pub fn says(answer: &Value) -> Value {
    json!({"reply": {"text": answer.to_string()}})
}

/// Makes a step in which the LLM replies with this text.
pub fn answers(text: &str) -> Value {
    json!({"reply": {"text": text}})
}

/// Makes a step in which the LLM calls these tools.
pub fn calls(calls: &[(&str, Value)]) -> Value {
    let calls = calls.iter();
    let calls: Vec<Value> = calls
        .map(|(name, arguments)| json!({"name": name, "arguments": arguments}))
        .collect();
    json!({"reply": {"calls": calls}})
}

/// Makes a step in which the LLM thinks this and then calls these tools.
pub fn thinks(thinking: &str, calls_of_tools: &[(&str, Value)]) -> Value {
    let mut step = calls(calls_of_tools);
    step["reply"]["thinking"] = Value::from(thinking);
    step
}

/// Adds a fault to a step.
pub fn faulty(mut step: Value, fault: &Value) -> Value {
    step["fault"] = fault.clone();
    step
}

/// Makes a step that the LLM leaves out if its prompt has this text, without quotes.
pub fn unless_told(mut step: Value, text: &str) -> Value {
    step["unless_prompt_has"] = Value::from(text);
    step
}
