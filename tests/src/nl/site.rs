//! The box of a task and its user: the real runtime with one camera for each of the scene's, and
//! the real command `watchkeeper`.
//!
//! - Cameras show the drawn script ([`super::drawn`]): its busiest moment, and some others unless
//!   an LLM has to see the same picture twice.
//! - Models are stand-ins ([`super::stand_in`]); previews and dry runs see the script
//!   ([`super::seeing`]).
//! - The user confirms every proposal that leaves no words out. It answers only questions about a
//!   place, with the region of the scene whose name is most similar; the outcome records that.
//!
//! Every run has its own box, which is deleted afterwards.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use watchkeeper_contract::pipeline::{PipelineState, PipelineStatus};
use watchkeeper_vision::jpeg;

use super::drawn;
use super::outcome::{AgentReply, Call, Cost, Deployed, Outcome, Pipelines, RunState};
use super::play::{Models, words};
use super::provider::Agent;
use super::scene::{Existing, Scene};
use super::seeing::{Script, ScriptProxy};
use super::stand_in::{self, USUAL};
use super::task::Task;
use crate::daemons::{Bench, Process, json_lines, wait_up_to};
use crate::http::HttpCamera;
use crate::person;

/// Time between two pictures of a camera.
const INTERVAL: Duration = Duration::from_millis(500);
/// Moments of the script that a camera shows.
const MOMENTS: u32 = 4;
/// Longest wait for the first frame of a pipeline.
const SETTLE: Duration = Duration::from_secs(60);
/// Trace entries to read: more than a request can make.
const TRACE: &str = "5000";
/// Sources of notes, and the file or folder of each.
const NOTES: [(&str, &str); 5] = [
    ("preference", "preferences.md"),
    ("knowledge", "knowledge.md"),
    ("observation", "observations"),
    ("lesson", "journal"),
    ("config", "active.json"),
];

/// A box that is set up for a task.
#[derive(Debug)]
pub struct Site<'t> {
    task: &'t Task,
    agent: &'t Agent,
    /// Models of the box with their classes.
    pub models: Models,
    /// Models of the scene that the box can't have.
    pub absent: Vec<String>,
    // Fields drop in their order: the runtime has to end before its folder is deleted.
    _runtime: Process,
    /// Socket for the command, and the proxy that listens there.
    seeing: (PathBuf, ScriptProxy),
    _cameras: Vec<HttpCamera>,
    bench: Bench,
}

/// Output of one use of the command.
#[derive(Default)]
struct CommandOutput {
    objects: Vec<Value>,
    errors: String,
    ok: bool,
}

impl CommandOutput {
    /// Returns the last object of this type.
    fn last(&self, kind: &str) -> Option<&Value> {
        self.objects.iter().rev().find(|o| o["type"] == kind)
    }
}

impl<'t> Site<'t> {
    /// Sets up the box: cameras, models, existing pipelines.
    ///
    /// # Errors
    /// If a part can't be started, or the scene is invalid.
    pub fn new(task: &'t Task, agent: &'t Agent) -> anyhow::Result<Self> {
        let scene = &task.scene;
        let bench = Bench::new("")?;
        let (models, absent) = stand_in::models(&scene.models);
        let folder = bench.path("models");
        stand_in::write(&models, &folder)?;
        bench.configure(&configuration(&folder, agent, &scene.channels))?;
        let looks = matches!(agent, Agent::Model { .. });
        let cameras = scene.cameras.iter().map(|c| show(scene, &c.id, looks));
        let cameras = cameras.collect::<anyhow::Result<Vec<HttpCamera>>>()?;
        let runtime = bench.runtime()?;
        let script = Script {
            scene: scene.clone(),
            models: models.clone(),
            moment: scene.busiest(),
            mirrors: task.inject.first_preview.is_some(),
            refuses: task.inject.first_submission.clone(),
        };
        let socket = bench.path("seen.sock");
        let seeing = (
            socket.clone(),
            ScriptProxy::start(&socket, &bench.socket(), script)?,
        );
        let site = Self {
            _runtime: runtime,
            task,
            agent,
            bench,
            models,
            absent,
            seeing,
            _cameras: cameras,
        };
        for (camera, shown) in scene.cameras.iter().zip(&site._cameras) {
            let source =
                json!({"id": camera.id, "name": camera.name, "uri": shown.uri(None, "/live")});
            let path = format!("/v1/sources/{}", camera.id);
            site.bench.json("PUT", &path, Some(&source))?;
        }
        for existing in &scene.existing {
            site.deploy_existing(existing)?;
        }
        site.settle()?;
        Ok(site)
    }

    fn deploy_existing(&self, existing: &Existing) -> anyhow::Result<()> {
        if existing.state.as_deref() == Some("stopped") {
            return Ok(());
        }
        let spec = existing_spec(&self.task.scene, existing);
        self.bench
            .json("POST", "/v1/pipelines", Some(&spec))
            .with_context(|| format!("what runs already: {}", existing.id))?;
        Ok(())
    }

    /// Sends the request of a run and confirms the proposals.
    ///
    /// # Errors
    /// If a program can't be started or its output is invalid. A request that fails is an outcome.
    pub fn run(&self, run: usize) -> anyhow::Result<Outcome> {
        let before = self.pipelines()?;
        let began = Instant::now();
        let said = self.task.words(run).replace('\n', " ");
        let mut output = self.ask(&said)?;
        let mut drawn = None;
        if let Some((region, answer)) = output.last("question").and_then(|q| self.place(q)) {
            drawn = Some(region);
            output = self.talk(&[&said, &answer, "yes"])?;
        } else if let Some(id) = output.last("proposal").and_then(|p| p["id"].as_str()) {
            let confirmed = self.speak(&["--confirm", id])?;
            output.objects.extend(confirmed.objects);
            output.ok &= confirmed.ok;
            output.errors.push_str(&confirmed.errors);
        }
        // A pipeline without a frame is an outcome.
        self.settle().ok();
        let wall_s = began.elapsed().as_secs_f64();
        let trace = self.trace()?;
        let calls = calls(&trace, &before);
        let submissions = ["validate_workflow", "propose_deployment"];
        let submissions = calls.iter().filter(|c| c.is(&submissions));
        let refused = submissions.clone().filter(|c| c.failed);
        let invalid = refused.clone().filter(|c| c.is(&["validate_workflow"]));
        // The injected refusal is not a mistake of the agent.
        let injected = u64::from(self.task.inject.first_submission.is_some());
        let without = |failed: usize| (failed as u64).saturating_sub(injected);
        let (refused, invalid) = (without(refused.count()), without(invalid.count()));
        let offers = output.objects.iter().filter(|o| o["type"] == "proposal");
        let offers = offers.filter(|o| o["by_model"].is_null());
        Ok(Outcome {
            words: self.task.words(run).to_owned(),
            after: self.pipelines()?,
            before,
            said: reply(&output),
            notes: self.notes()?,
            spent: Cost {
                wall_s,
                ..spent(&trace)
            },
            submitted: submissions.count() as u64,
            refused,
            invalid,
            offers_of_rules: offers.count() as u64,
            calls,
            drawn,
        })
    }

    /// Runs `watchkeeper ask` with the request of the task, its pictures and its time.
    fn ask(&self, words: &str) -> anyhow::Result<CommandOutput> {
        let mut arguments: Vec<String> = Vec::new();
        let scene = &self.task.scene;
        let attached = scene.attachments.iter().map(|name| (name.as_str(), None));
        let folder = self.bench.path("attached");
        std::fs::create_dir_all(&folder)?;
        for (name, text) in attached.chain(scene.files.entries()) {
            let name = Path::new(name)
                .file_name()
                .context("an attachment without a name")?;
            let path = folder.join(name);
            if let Some(text) = text {
                std::fs::write(&path, text)?;
                continue;
            }
            let picture = drawn::attachment(scene);
            std::fs::write(&path, jpeg::encode(&picture, 85)?)?;
            arguments.extend(["--image".to_owned(), path.display().to_string()]);
        }
        arguments.extend(["--".to_owned(), words.to_owned()]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.speak(&arguments)
    }

    fn command(&self) -> anyhow::Result<std::process::Command> {
        let mut command = person::command(&self.bench)?;
        command.arg("--socket").arg(&self.seeing.0);
        let scene = &self.task.scene;
        if let Some(zone) = scene.zone_file()? {
            command.env("TZ", zone);
        } else if scene.now.is_some() {
            command.env("TZ", "UTC");
        }
        if let Some(key) = self.agent.key() {
            command.env("WATCHKEEPER_LLM__KEY", key);
        }
        Ok(command)
    }

    fn speak(&self, arguments: &[&str]) -> anyhow::Result<CommandOutput> {
        let mut command = self.command()?;
        // The folder of the user's files.
        command.current_dir(self.bench.path("attached"));
        command.args(["ask", "--json"]);
        if let Some(now) = self.task.scene.now()? {
            command.args(["--at", &now.timestamp().to_string()]);
        }
        let out = command.args(arguments).output()?;
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        Ok(CommandOutput {
            objects: json_lines(&out.stdout).with_context(|| errors.clone())?,
            errors,
            ok: out.status.success(),
        })
    }

    /// Runs `watchkeeper chat` with these lines.
    fn talk(&self, lines: &[&str]) -> anyhow::Result<CommandOutput> {
        Ok(CommandOutput {
            objects: person::chat_with(self.command()?, &format!("{}\n", lines.join("\n")))?,
            errors: String::new(),
            ok: true,
        })
    }

    /// Finds the region that answers a question about a place, and a user's answer. `None` for
    /// another question or an unknown place.
    fn place(&self, question: &Value) -> Option<(String, String)> {
        let text = question["text"].as_str()?;
        if !text.starts_with("Where ") {
            return None;
        }
        let regions = &self.task.scene.regions;
        let wants_line = text.starts_with("Where is the line");
        // What follows the question mark are examples.
        let question = text.split('?').next().unwrap_or_default();
        let asked = words(&format!("{question} {}", self.task.instruction));
        let like = |name: &str| words(name).intersection(&asked).count();
        let fits = regions
            .iter()
            .filter(|(_, points)| !wants_line || points.len() == 2);
        // The first of equal ones.
        let (name, points) = fits.rev().max_by_key(|(name, _)| like(name))?;
        let points: Vec<String> = points.iter().map(|[x, y]| format!("{x},{y}")).collect();
        let answer = match points.as_slice() {
            [a, b] => format!("the line from {a} to {b}"),
            points => format!("the polygon {}", points.join(" ")),
        };
        Some((name.clone(), answer))
    }

    fn statuses(&self) -> anyhow::Result<Vec<PipelineStatus>> {
        Ok(serde_json::from_value(self.bench.get("/v1/pipelines")?)?)
    }

    /// Reads the deployed pipelines.
    ///
    /// # Errors
    /// If the runtime does not answer.
    pub fn pipelines(&self) -> anyhow::Result<Pipelines> {
        let deployed = self.statuses()?.into_iter().map(|status| {
            let doing = match status.state {
                PipelineState::Starting | PipelineState::Running => RunState::Running,
                PipelineState::Paused if status.paused_until.is_some() => RunState::Paused,
                PipelineState::Paused => RunState::PausedByUser,
                PipelineState::Ended | PipelineState::Stopped | PipelineState::Failed { .. } => {
                    RunState::Stopped
                }
            };
            let spec = status.spec;
            (spec.id.to_string(), Deployed { spec, doing })
        });
        Ok(deployed.collect())
    }

    /// Waits until every running pipeline has its first frame.
    fn settle(&self) -> anyhow::Result<()> {
        wait_up_to(SETTLE, "the first frames", || {
            let statuses = self.statuses().ok()?;
            let starts = statuses.iter().any(|s| s.state == PipelineState::Starting);
            (!starts).then_some(())
        })
    }

    fn trace(&self) -> anyhow::Result<Vec<Value>> {
        let mut command = self.command()?;
        let out = command
            .args(["trace", "--json", "--limit", TRACE])
            .output()?;
        json_lines(&out.stdout)
    }

    /// Reads the notes with their source.
    fn notes(&self) -> anyhow::Result<Vec<(String, String)>> {
        let folder = self.bench.path("home/watchkeeper/memory");
        let mut notes = Vec::new();
        for (kind, place) in NOTES {
            for file in files(&folder.join(place))? {
                let text = std::fs::read_to_string(&file)?;
                notes.push((kind.to_owned(), text));
            }
        }
        Ok(notes)
    }
}

/// Returns a file, or the files of a folder; empty if nothing exists there.
fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let Ok(entries) = std::fs::read_dir(path) else {
        return Ok(Vec::new());
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.retain(|f| f.is_file());
    files.sort();
    Ok(files)
}

/// Writes the configuration: models, allowed effects, the channels of the scene. Nothing listens at
/// their addresses.
fn configuration(models: &Path, agent: &Agent, channels: &[String]) -> String {
    let mut text = format!(
        "[models]\ndir = {models:?}\ndefault = {USUAL:?}\n\n\
         [sinks]\nhosts = [\"slack.com\", \"files.slack.com\", \"api.twilio.com\"]\n\n\
         [sinks.secrets.slack_token]\nvalue = \"xoxb-of-the-bench\"\n\n"
    );
    for channel in channels {
        let name = stand_in::slug(channel);
        text.push_str(&format!(
            "[channels.{name}]\nkind = \"slack\"\nurl = \"http://127.0.0.1:9/{name}\"\n\n"
        ));
    }
    text.push_str(&agent.section());
    text
}

/// Starts a camera that shows the busiest moment of the script, and some others unless
/// `stands_still`.
fn show(scene: &Scene, camera: &str, stands_still: bool) -> anyhow::Result<HttpCamera> {
    let duration = scene.fixture.as_ref().map_or(1.0, |f| f.duration_s);
    let busiest = scene.busiest();
    let moments = (0..MOMENTS).map(|n| match n {
        n if n == 0 || stands_still => busiest,
        n => duration * f64::from(n) / f64::from(MOMENTS),
    });
    let pictures = (0..)
        .zip(moments)
        .map(|(nth, t)| {
            let picture = drawn::picture(scene, camera, t, nth);
            Ok(jpeg::encode(&picture, 85)?)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    HttpCamera::showing(pictures, INTERVAL)
}

/// Specifies an existing pipeline: detection and tracking with the task's settings. It makes an
/// event for every visitor, or for one who stays for the named duration.
pub fn existing_spec(scene: &Scene, existing: &Existing) -> Value {
    let params = &existing.params;
    let mut detect = json!({
        "type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image",
        "model_id": USUAL, "confidence": params.confidence.unwrap_or(0.4),
    });
    if !params.classes.is_empty() {
        detect["class_filter"] = json!(params.classes);
    }
    let tracker = json!({
        "type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image",
        "detections": "$steps.detect.predictions",
    });
    let mut steps = vec![detect, tracker];
    let [w, h] = scene
        .camera(&existing.camera)
        .map_or([1280, 720], |c| c.size())
        .map(f64::from);
    let zone: Option<Vec<[f64; 2]>> = match &params.zone {
        Some(Value::String(name)) => scene.regions.get(name).cloned(),
        Some(points) => serde_json::from_value(points.clone()).ok(),
        None => None,
    };
    let zone = zone.or_else(|| {
        params
            .duration_s
            .map(|_| vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    });
    let mut when = json!({"kind": "appears", "detections": "$steps.tracker.tracked_detections"});
    if let Some(zone) = zone {
        let zone: Vec<[f64; 2]> = zone
            .iter()
            .map(|[x, y]| [(x * w).round(), (y * h).round()])
            .collect();
        steps.push(json!({
            "type": "roboflow_core/time_in_zone@v3", "name": "place", "image": "$inputs.image",
            "detections": "$steps.tracker.tracked_detections", "zone": zone,
        }));
        when = match params.duration_s {
            Some(for_s) => json!({"kind": "stays", "zone": "place", "for_s": for_s}),
            None => json!({"kind": "enters", "zone": "place"}),
        };
    }
    let mut rule = json!({"name": "alarm", "when": when, "severity": "warning"});
    if let Some(seconds) = params.cooldown_s {
        rule["cooldown_s"] = json!(seconds);
    }
    json!({
        "id": existing.id, "name": existing.name, "source": existing.camera, "paused": existing.state.as_deref() == Some("paused"),
        "workflow": {
            "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": steps,
            "outputs": [{"type": "JsonField", "name": "tracked", "selector": "$steps.tracker.tracked_detections"}],
        },
        "rules": [rule],
    })
}

/// Collects the agent's reply, and whether it ends with a question.
fn reply(output: &CommandOutput) -> AgentReply {
    let mut said: Vec<String> = Vec::new();
    let mut asks = false;
    for object in &output.objects {
        let kind = object["type"].as_str().unwrap_or_default();
        let mut say = |value: &Value| match value {
            Value::String(text) => said.push(text.clone()),
            Value::Array(texts) => {
                said.extend(texts.iter().filter_map(|t| t.as_str()).map(str::to_owned))
            }
            _ => {}
        };
        match kind {
            "proposal" => ["understood", "assumed", "not_possible"]
                .iter()
                .for_each(|f| say(&object[*f])),
            "question" | "answer" | "said" | "events" => say(&object["text"]),
            "failure" => say(&object["message"]),
            "pipelines" | "status" | "cameras" => {
                for list in ["pipelines", "sources"] {
                    let rows = object[list].as_array().into_iter().flatten();
                    said.extend(rows.map(shown_row));
                }
            }
            "done" => {
                let id = object["removed"]
                    .as_str()
                    .or(object["pipeline"]["spec"]["id"].as_str());
                said.extend(id.map(|id| format!("{id} is done")));
            }
            _ => {}
        }
        let text = object["text"].as_str().unwrap_or_default();
        match kind {
            "question" => asks = true,
            "answer" => asks = text.contains('?'),
            "proposal" => asks = false,
            _ => {}
        }
    }
    if !output.ok {
        let lines = output.errors.lines().filter(|line| !line.trim().is_empty());
        said.extend(lines.map(str::to_owned));
    }
    AgentReply {
        text: said.join("\n"),
        asks,
    }
}

/// Formats a camera or a pipeline as a user sees it: name, place and status.
fn shown_row(row: &Value) -> String {
    let spec = &row["spec"];
    let cells = [
        &spec["id"],
        &spec["name"],
        &spec["source"],
        &row["state"]["state"],
    ];
    let cells: Vec<&str> = cells.into_iter().filter_map(|cell| cell.as_str()).collect();
    cells.join(" ")
}

/// Sums up the cost in the trace.
fn spent(trace: &[Value]) -> Cost {
    let asked = trace.iter().filter(|e| e["what"] == "model");
    let usd = asked.clone().filter_map(|e| e["of"]["usd"].as_f64());
    Cost {
        model_calls: asked.count() as u64,
        // The sum of no numbers is -0.
        usd: usd.sum::<f64>() + 0.0,
        wall_s: 0.0,
    }
}

/// Returns the names by which checks may refer to a tool.
fn also(tool: &str, arguments: &Value) -> Vec<&'static str> {
    match tool {
        "list_available_models" => vec!["list_models"],
        "list_workflow_blocks" => vec!["list_blocks"],
        "get_block_details" => vec!["get_block", "describe_block"],
        "propose_deployment" => vec!["deploy_workflow"],
        "infer_image" => vec!["describe_image"],
        "memory_note" => vec!["remember", "memory_write"],
        "propose_control" => match arguments["action"].as_str() {
            Some("pause") => vec!["pause_stream"],
            Some("resume") => vec!["resume_stream"],
            _ => vec!["stop_stream"],
        },
        _ => Vec::new(),
    }
}

/// Lists what was used in order, under the names of the checks: tools of the LLM, look-ups and
/// trials of the rules, and confirmed changes. The engine compiles a proposal of the rules before
/// it is shown, so it counts as validated.
fn calls(trace: &[Value], before: &Pipelines) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut by_id: Vec<(String, usize)> = Vec::new();
    for entry in trace {
        let of = &entry["of"];
        let text = |key: &str| of[key].as_str().unwrap_or_default();
        match entry["what"].as_str().unwrap_or_default() {
            "gate" if text("decision") == "refused" => {
                let call = Call::new(&[text("tool")], Value::Null);
                calls.push(Call {
                    failed: true,
                    ..call
                });
            }
            "tool" => {
                let arguments = serde_json::from_str(text("arguments")).unwrap_or(Value::Null);
                let mut names = vec![text("tool")];
                names.extend(also(text("tool"), &arguments));
                by_id.push((text("call").to_owned(), calls.len()));
                calls.push(Call::new(&names, arguments));
            }
            "result" if of["is_error"] == true => {
                let id = text("call");
                let at = by_id.iter().rev().find(|(known, _)| known == id);
                if let Some(call) = at.and_then(|(_, at)| calls.get_mut(*at)) {
                    call.failed = true;
                }
            }
            "previewed" => calls.push(Call::new(&["preview_workflow"], of.clone())),
            "tried" => calls.push(Call::new(&["dry_run_workflow"], of.clone())),
            "look_up" => calls.extend(looked_up(text("text"))),
            "unsound" => {
                let call = Call::new(&["validate_workflow"], Value::Null);
                calls.push(Call {
                    failed: true,
                    ..call
                });
            }
            "confirmed" if of["by_model"].is_null() => calls.extend(done(&of["changes"], before)),
            _ => {}
        }
    }
    calls
}

fn looked_up(what: &str) -> Option<Call> {
    let names: &[&str] = match what {
        "the cameras" => &["list_cameras"],
        "the pipelines" => &["list_streams", "list_pipelines"],
        "the status" => &["stream_status", "status"],
        "events" => &["query_events"],
        "the classes" => &["list_models", "list_available_models"],
        "the templates" => &["list_templates"],
        _ => return None,
    };
    Some(Call::new(names, json!({})))
}

fn done(changes: &Value, before: &Pipelines) -> Vec<Call> {
    let mut calls = Vec::new();
    let changes = changes.as_array().map(Vec::as_slice).unwrap_or_default();
    let kind = |change: &Value, wanted: &str| change["change"] == wanted;
    let stops = changes.iter().filter(|c| kind(c, "stop")).count();
    if stops > 1 && stops == before.len() {
        calls.push(Call::new(&["stop_all"], json!({})));
    }
    for change in changes {
        let spec = &change["spec"];
        match change["change"].as_str().unwrap_or_default() {
            "deploy" => {
                calls.push(Call::new(&["validate_workflow"], json!({})));
                let names = ["deploy_workflow"];
                calls.push(Call::new(
                    &names,
                    json!({"camera": spec["source"], "pipeline": spec["id"]}),
                ));
            }
            "replace" => {
                calls.push(Call::new(&["validate_workflow"], json!({})));
                let names = ["update_workflow", "deploy_workflow", "update_stream"];
                calls.push(Call::new(
                    &names,
                    json!({"camera": spec["source"], "pipeline": spec["id"]}),
                ));
            }
            "pause" => {
                let arguments = json!({"stream": change["pipeline"], "pipeline": change["pipeline"], "until": change["until"]});
                calls.push(Call::new(&["pause_stream"], arguments));
            }
            "resume" => calls.push(Call::new(
                &["resume_stream"],
                json!({"stream": change["pipeline"]}),
            )),
            "stop" => calls.push(Call::new(
                &["stop_stream"],
                json!({"stream": change["pipeline"]}),
            )),
            _ => {}
        }
    }
    calls
}

/// Runs a task once on its own box.
///
/// # Errors
/// If the box can't be set up; the message names the task.
pub fn run(
    task: &Task,
    agent: &Agent,
    nth: usize,
) -> anyhow::Result<(Outcome, Models, Vec<String>)> {
    let site = Site::new(task, agent).with_context(|| format!("task {}: the box", task.id))?;
    let outcome = site
        .run(nth)
        .with_context(|| format!("task {}, run {nth}", task.id))?;
    if outcome.before.len() > task.scene.existing.len() {
        bail!("task {}: more runs than the scene has", task.id);
    }
    Ok((outcome, site.models, site.absent))
}
