//! A box with one camera, a user, and a scripted LLM; and the usual steps of such an LLM.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::broker::{Mosquitto, Subscriber};
use crate::daemons::{Bench, Process, wait_up_to};
use crate::person::command;
use crate::scene::LONG;
use crate::scripted_model::{KEY, ScriptedModel, calls, says};
use crate::wiretap::Wiretap;

/// The built-in scene, small enough to cost little CPU.
pub const DEMO: &str = "demo:?width=640&height=360";

/// Box, user and scripted LLM of one test.
#[derive(Debug)]
pub struct Site {
    /// Records requests to a runtime that sites share; absent if the site has its own. Dropped
    /// before the folder that holds its socket.
    tap: Option<Wiretap>,
    /// Folder of the box, and the client of its runtime.
    pub bench: Bench,
    /// LLM that the configuration names.
    pub model: ScriptedModel,
    _runtime: Option<Process>,
}

/// An agent that publishes, with a subscriber to all of it.
#[derive(Debug)]
pub struct PublishingAgent {
    pub broker: Mosquitto,
    pub subscriber: Subscriber,
    pub agent: Process,
}

impl Site {
    /// Starts the agent with a broker and second opinions; `more` is more of `[llm]`.
    ///
    /// # Errors
    /// If a process does not start.
    pub fn publishing_agent(&self, more: &str) -> anyhow::Result<PublishingAgent> {
        let broker = Mosquitto::start(&self.bench.path("broker"))?;
        let subscriber = broker.subscribe("#")?;
        self.bench.configure(&format!(
            "{}{more}second_opinion = true\n{}",
            self.model.section(),
            broker.section()
        ))?;
        Ok(PublishingAgent {
            broker,
            subscriber,
            agent: self.bench.agent()?,
        })
    }

    /// Starts a site whose camera `test` is at `uri`. `extra` holds more of its section and of the
    /// configuration.
    ///
    /// # Errors
    /// If a process does not start.
    pub fn new(uri: &str, extra: &str, steps: &[Value]) -> anyhow::Result<Self> {
        let bench = Bench::new("")?;
        let model = ScriptedModel::start(&bench.path(""), steps)?;
        bench.configure(&format!(
            "[sources.test]\nuri = {uri:?}\n{extra}{}",
            model.section()
        ))?;
        Ok(Self {
            _runtime: Some(bench.runtime()?),
            bench,
            model,
            tap: None,
        })
    }

    /// Starts a site with the built-in scene.
    ///
    /// # Errors
    /// If a process does not start.
    pub fn demo(steps: &[Value]) -> anyhow::Result<Self> {
        Self::new(DEMO, "", steps)
    }

    /// Starts another user with another LLM at the runtime of `other`, whose requests are recorded.
    /// `more` is added to the section of the LLM.
    ///
    /// # Errors
    /// If the LLM or the tap does not start.
    pub fn beside(other: &Bench, more: &str, steps: &[Value]) -> anyhow::Result<Self> {
        Self::beside_with("claude", other, more, steps)
    }

    /// Starts another user at the runtime of `other`, with an LLM of this provider of the model
    /// file.
    ///
    /// # Errors
    /// As [`Self::beside`].
    pub fn beside_with(
        provider: &'static str,
        other: &Bench,
        more: &str,
        steps: &[Value],
    ) -> anyhow::Result<Self> {
        let bench = Bench::new("")?;
        let model = ScriptedModel::start_as(provider, &bench.path(""), steps)?;
        bench.configure(&format!("{}{more}", model.section()))?;
        Ok(Self {
            tap: Some(Wiretap::start(&bench.socket(), &other.socket())?),
            bench,
            model,
            _runtime: None,
        })
    }

    /// Returns the requests to the runtime through this site's tap.
    pub fn asked(&self) -> Vec<String> {
        self.tap.as_ref().map(Wiretap::asked).unwrap_or_default()
    }

    /// Waits for an assessment of each of `events` through this site's tap; returns their bodies.
    ///
    /// # Errors
    /// If one does not come in [`LONG`].
    pub fn assessments(&self, events: &[Value]) -> anyhow::Result<Vec<Value>> {
        let tap = self.tap.as_ref().context("no tap")?;
        wait_up_to(LONG, "an assessment of each event", || {
            let found = events.iter().map(|event| {
                let mut all = tap.assessments().into_iter();
                all.find(|new| new["event"] == event["id"])
            });
            found.collect()
        })
    }

    /// Returns the pipelines of its runtime.
    ///
    /// # Errors
    /// If the runtime does not answer.
    pub fn pipelines(&self) -> anyhow::Result<Vec<Value>> {
        let pipelines = self.bench.get("/v1/pipelines")?;
        Ok(pipelines.as_array().cloned().unwrap_or_default())
    }

    /// Returns the user's trace and checks that it does not hold the key.
    ///
    /// # Errors
    /// If it can't be read, or holds the key.
    pub fn trace(&self) -> anyhow::Result<Vec<Value>> {
        let out = command(&self.bench)?
            .args(["trace", "--json", "--limit", "500"])
            .output()?;
        let text = String::from_utf8(out.stdout)?;
        ensure!(!text.contains(KEY), "the key is in the trace");
        let entries = text.lines().map(serde_json::from_str);
        Ok(entries.collect::<Result<_, _>>()?)
    }

    /// Returns the trace entries of this type.
    ///
    /// # Errors
    /// As [`Self::trace`].
    pub fn traced(&self, what: &str) -> anyhow::Result<Vec<Value>> {
        let entries = self.trace()?.into_iter();
        Ok(entries.filter(|entry| entry["what"] == what).collect())
    }

    /// Returns the results of a tool in the trace.
    ///
    /// # Errors
    /// As [`Self::trace`].
    pub fn results(&self, tool: &str) -> anyhow::Result<Vec<String>> {
        let results = self.traced("result")?;
        let of_it = results.iter().filter(|entry| entry["of"]["tool"] == tool);
        Ok(of_it.map(|entry| entry["of"].to_string()).collect())
    }
}

/// Makes a workflow that counts moving objects at a line.
pub fn line(from: [u32; 2], to: [u32; 2]) -> Value {
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image", "model_id": "motion"},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image", "detections": "$steps.detect.predictions"},
            {"type": "roboflow_core/line_counter@v2", "name": "middle", "image": "$inputs.image",
             "detections": "$steps.tracker.tracked_detections", "line_segment": [from, to]},
        ],
        "outputs": [{"type": "JsonField", "name": "in", "selector": "$steps.middle.count_in"}],
    })
}

/// Makes a workflow that counts at the line in the middle of [`DEMO`].
pub fn middle() -> Value {
    line([320, 0], [320, 360])
}

/// Rules for the counts of [`line()`], as JSON text.
pub const CROSSES: &str = r#"[{"name": "crossed", "when": {"kind": "crosses", "line": "middle"}}]"#;

/// Makes a step that submits this workflow.
pub fn validate(workflow: &Value) -> Value {
    calls(&[(
        "validate_workflow",
        json!({"workflow": workflow.to_string()}),
    )])
}

/// Makes a step that previews a draft on the camera.
pub fn preview(draft: &str) -> Value {
    calls(&[(
        "preview_workflow",
        json!({"draft": draft, "camera": "test"}),
    )])
}

/// Makes a step that proposes a draft, with [`CROSSES`].
pub fn propose(draft: &str) -> Value {
    propose_with(draft, CROSSES, 0)
}

/// Makes a step that proposes a draft with these rules as the pipeline `cars`, which stops after
/// `stop_after_s` seconds.
pub fn propose_with(draft: &str, rules: &str, stop_after_s: u32) -> Value {
    let arguments = json!({
        "draft": draft, "camera": "test", "pipeline": "cars", "rules": rules,
        "says": "Counts what crosses the middle.", "assumed": ["everything that moves"], "not_possible": [],
        "stop_after_s": stop_after_s,
    });
    calls(&[("propose_deployment", arguments)])
}

/// Makes a step in which the LLM can't reword the request.
pub fn not_reworded() -> Value {
    says(&json!({"request": "", "left_out": []}))
}

/// Returns the last object of this type that the command wrote.
///
/// # Errors
/// If there is none.
pub fn last<'o>(objects: &'o [Value], kind: &str) -> anyhow::Result<&'o Value> {
    let found = objects.iter().rev().find(|o| o["type"] == kind);
    found.with_context(|| format!("no {kind}: {objects:#?}"))
}

/// Returns the address of a clip of the real footage.
pub fn clip(data: &Path, name: &str) -> String {
    data.join("video").join(name).display().to_string()
}
