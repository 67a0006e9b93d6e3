//! Plays the script of a scene to deployed pipelines: the runtime's own processing ([`Run`]), frame
//! by frame, with scripted detectors in place of networks.
//!
//! Everything after the detector is the product: the compiled workflow, trackers, rules, effects. A
//! scripted model finds the actors of the classes that it knows; `motion` finds every actor that
//! moves. On a cropped picture a scripted model finds nothing, because its place in the scene is
//! unknown.
//!
//! - The same pipelines on the same script give the same result.
//! - No clock is read, but for the names of files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use jiff::{SignedDuration, Zoned};
use serde_json::Value;
use watchkeeper_config::SinksConfig;
use watchkeeper_config::sinks::{HostRule, SecretSource};
use watchkeeper_contract::event::{Phase, Verdict};
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::pipeline::{PipelineResults, PipelineSpec, PipelineWarning};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::spool::EffectNumber;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_contract::workflow::{DryRun, DryRunEvent, DryRunReport};
use watchkeeper_detect::{
    DetectError, DetectParams, DetectTimes, Detector, DetectorInfo, OwnThresholds, RawDetection,
};
use watchkeeper_engine::rules::Change;
use watchkeeper_models::MOTION;
use watchkeeper_models::manifest::Task as ModelTask;
use watchkeeper_runtime::clock;
use watchkeeper_runtime::effects::{Effects, Limits};
use watchkeeper_runtime::pipeline::inference::detectors::Detectors;
use watchkeeper_runtime::pipeline::inference::host::DetectHost;
use watchkeeper_runtime::pipeline::plan;
use watchkeeper_runtime::pipeline::run::Run;
use watchkeeper_vision::frame::{Frame, FrameId, Picture};
use watchkeeper_vision::geometry::BBox;

use super::families::{Graph, Notifying, texts};
use super::scene::{Actor, Scene};

/// Most frames of a script.
const MAX_FRAMES: u64 = 100_000;
/// Longest write of effects to disk.
const FLUSH: Duration = Duration::from_secs(10);
/// Effects that notify nobody, as named by
/// [`Effect::what`](watchkeeper_contract::effect::Effect::what).
const RECORDS: [&str; 2] = ["a file", "an object in S3"];

/// Models of a box, each with its classes.
pub type Models = BTreeMap<String, Vec<String>>;

/// Event that started.
#[derive(Debug, Clone, PartialEq)]
pub struct PlayedEvent {
    /// Camera of the event.
    pub camera: String,
    /// Name of the rule.
    pub rule: String,
    /// Start in seconds of the script.
    pub at_s: f64,
    /// Class of the event.
    pub class: Option<String>,
    /// Whether it asks for a second opinion.
    pub escalates: bool,
}

/// Count at the end, with the words by which checks may ask for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Counter {
    /// Camera of the count.
    pub camera: String,
    /// Name of the counter, the counted classes, `in`, `out`, `total`, `visits`, `present`.
    pub words: BTreeSet<String>,
    pub value: f64,
}

/// Result of playing a script.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Played {
    /// Events, sorted by time.
    pub events: Vec<PlayedEvent>,
    /// Number of notifications: messages of the workflow's own steps and events of rules that name
    /// a channel. Without both, the events; of these only the warnings if there are any.
    pub alerts: u64,
    /// Counts at the end.
    pub counters: Vec<Counter>,
    /// Failures on the way, a sentence each.
    pub trouble: Vec<String>,
}

/// Plays the script of `scene` to each of `specs`.
///
/// # Errors
/// If the scene has no valid script, or a specification can't run.
pub fn play(scene: &Scene, specs: &[PipelineSpec], models: &Models) -> anyhow::Result<Played> {
    let fixture = scene.fixture.as_ref().context("the scene has no fixture")?;
    let (fps, duration) = (fixture.fps, fixture.duration_s);
    if !(fps > 0.0 && fps <= 1000.0 && duration > 0.0 && duration.is_finite()) {
        return Err(anyhow!(
            "fixture: {duration} s at {fps} pictures a second can't be played"
        ));
    }
    let frames = ((duration * fps).round() as u64).min(MAX_FRAMES);
    let start = scene.start()?;
    let mut played = Played::default();
    for spec in specs {
        let stage = Stage {
            scene,
            spec,
            models,
            fps,
            start: &start,
        };
        stage.play(frames, &mut played)?;
    }
    played.events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    Ok(played)
}

/// Dry-runs a deployment as the runtime does, from the moment at which the first actor is visible
/// on its camera.
///
/// # Errors
/// Like the runtime's own refusals.
pub fn dry_run(scene: &Scene, wanted: &DryRun, models: &Models) -> Result<DryRunReport, Problem> {
    let refuse = |why: String| Problem::new(422, ProblemCode::InvalidRequest, why);
    let fps = scene
        .fixture
        .as_ref()
        .map_or(1.0, |f| f.fps)
        .clamp(0.1, 100.0);
    let spec = PipelineSpec {
        stop_after_s: None,
        ..wanted.pipeline.clone()
    };
    let start = scene.start().map_err(|e| refuse(e.to_string()))?;
    let stage = Stage {
        scene,
        spec: &spec,
        models,
        fps,
        start: &start,
    };
    let actors = scene.actors(spec.source.as_str());
    let first = actors.iter().map(|a| a.t[0]).fold(f64::MAX, f64::min);
    let from_s = if actors.is_empty() {
        0.0
    } else {
        (first - 1.0).max(0.0)
    };
    let frames = (wanted.seconds.clamp(0.0, 60.0) * fps).round() as u64;
    let progress = stage
        .process_frames(from_s, frames)
        .map_err(|e| refuse(format!("{e:#}")))?;
    let event = |change: Change| DryRunEvent {
        severity: change.severity,
        decision: change.decision,
        event: change.event,
    };
    let mut results = progress.results;
    results.events = progress.started.len() as u64;
    Ok(DryRunReport {
        detector: progress.detector,
        rules: progress.rules,
        results,
        events: progress.started.into_iter().map(event).collect(),
        warnings: progress.warnings,
        ..DryRunReport::default()
    })
}

/// One pipeline on the script.
struct Stage<'s> {
    scene: &'s Scene,
    spec: &'s PipelineSpec,
    models: &'s Models,
    fps: f64,
    start: &'s Zoned,
}

/// Result of some frames.
struct Progress {
    /// Events that started.
    started: Vec<Change>,
    results: PipelineResults,
    detector: Option<String>,
    rules: Vec<String>,
    /// Rules that notify people.
    notifying: Notifying,
    /// Names of the rules that notify people.
    notifying_names: BTreeSet<String>,
    warnings: Vec<PipelineWarning>,
    /// Messages of steps that notify people.
    messages: u64,
    /// Messages that were refused.
    refused: u64,
}

impl Stage<'_> {
    /// Processes `frames` frames from this second of the script on.
    fn process_frames(&self, from_s: f64, frames: u64) -> anyhow::Result<Progress> {
        let camera = self.spec.source.as_str();
        let of_scene = self.scene.camera(camera);
        let [width, height] = of_scene
            .with_context(|| format!("the scene has no camera {camera:?}"))?
            .size();
        let plan = plan::plan(self.spec).map_err(|p| anyhow!("{}: {}", self.spec.id, p.detail))?;
        let notifying = Notifying::of(&plan.rule_specs);
        let notifying_names = plan
            .rule_specs
            .iter()
            .filter(|rule| notifying.notifies(rule));
        let notifying_names: BTreeSet<String> =
            notifying_names.map(|rule| rule.name.clone()).collect();
        let actors: Arc<[Actor]> = self.scene.actors(camera).into();
        let open = |model: &str| self.detector(model, [width, height], Arc::clone(&actors));
        let detectors = Detectors::open(self.spec, &plan, &open)
            .map_err(|p| anyhow!("{}: {}", self.spec.id, p.detail))?;
        let folder = tempfile::tempdir()?;
        let effects = Effects::open(folder.path(), &allowed(self.spec), Limits::default())?;
        let host = DetectHost::new(detectors, 0).with_effects(effects.sender(&self.spec.id));
        let mut run = Run::new(plan, host, self.spec);
        let picture = Picture::rgb(
            width,
            height,
            vec![96; width as usize * height as usize * 3],
        );
        let arrived = Instant::now();
        let mut started = Vec::new();
        for number in 0..frames {
            let (frame, local) = self.frame(from_s, number, arrived, &picture);
            let local = Some(clock::local_time(&local));
            let outcome = run.process(&frame, local, &mut EventId::generate);
            let processed = outcome.processed.into_iter();
            let changes = processed.flat_map(|seen| seen.changes);
            started.extend(changes.filter(|c| c.phase == Phase::New));
            if outcome.is_last {
                break;
            }
        }
        effects.shut_down(FLUSH);
        let waiting = effects.page(EffectNumber::default(), usize::MAX).effects;
        let messages = waiting
            .iter()
            .filter(|e| !RECORDS.contains(&e.what.as_str()));
        Ok(Progress {
            started,
            results: run.results(),
            detector: run.detector(),
            rules: run.rule_names().to_vec(),
            notifying,
            notifying_names,
            warnings: run.warnings().to_vec(),
            messages: messages.count() as u64,
            refused: effects.counts().refused,
        })
    }

    fn play(&self, frames: u64, played: &mut Played) -> anyhow::Result<()> {
        let progress = self.process_frames(0.0, frames)?;
        let camera = self.spec.source.as_str();
        let size = self.scene.camera(camera).map_or([1, 1], |c| c.size());
        let graph = Graph::of(self.spec, size);
        let results = progress.results;
        for (step, error) in &results.step_errors {
            played.trouble.push(format!(
                "{}: step {step} failed {} times: {}",
                self.spec.id, error.count, error.message
            ));
        }
        if progress.refused > 0 {
            played.trouble.push(format!(
                "{}: {} messages were refused",
                self.spec.id, progress.refused
            ));
        }
        // Steps that notify people add to rules that name a channel, and replace other rules.
        let has_steps = graph
            .steps("alert_sink")
            .iter()
            .any(|s| s.get("kind").is_some_and(|k| k != "mqtt" && k != "channel"));
        if !has_steps || progress.notifying == Notifying::Named {
            let told = progress.started.iter();
            let told = told.filter(|c| progress.notifying_names.contains(&c.event.rule));
            played.alerts += told.count() as u64;
        }
        played.alerts += progress.messages;
        played
            .events
            .extend(progress.started.into_iter().map(|change| PlayedEvent {
                camera: camera.to_owned(),
                rule: change.event.rule,
                at_s: change.event.pts_s,
                class: change.event.label,
                escalates: change.decision.verdict == Verdict::Escalate,
            }));
        self.count_results(&results, &graph, played);
        Ok(())
    }

    /// Makes frame `number` of a run from this second of the script on, and its local time.
    fn frame(
        &self,
        from_s: f64,
        number: u64,
        arrived: Instant,
        picture: &Picture,
    ) -> (Frame, Zoned) {
        let seconds = from_s + number as f64 / self.fps;
        let local = self
            .start
            .saturating_add(SignedDuration::from_secs_f64(seconds));
        let frame = Frame {
            id: FrameId {
                source: self.spec.source.clone(),
                seq: number + 1,
            },
            pts: Duration::from_secs_f64(seconds),
            arrived,
            wall: Wall {
                unix_ms: local.timestamp().as_millisecond(),
                quality: TimeQuality::Synced,
            },
            fps: Some(self.fps),
            recorded: true,
            is_damaged: false,
            picture: picture.clone(),
        };
        (frame, local)
    }

    /// Adds the counts of outputs, lines and zones.
    fn count_results(&self, results: &PipelineResults, graph: &Graph, played: &mut Played) {
        let camera = self.spec.source.as_str();
        let classes = classes_of(graph, self.models);
        let mut count = |name: &str, more: &str, value: f64| {
            let mut words = words(name);
            words.extend(classes.iter().flat_map(|class| self::words(class)));
            words.extend(self::words(more));
            played.counters.push(Counter {
                camera: camera.to_owned(),
                words,
                value,
            });
        };
        for (name, value) in results.outputs.as_object().into_iter().flatten() {
            if let Some(value) = value.as_f64() {
                count(name, "", value);
            }
        }
        for (name, line) in &results.lines {
            count(name, "in", line.r#in as f64);
            count(name, "out", line.out as f64);
            count(name, "total", (line.r#in + line.out) as f64);
        }
        for (name, zone) in &results.zones {
            count(name, "visits", zone.count as f64);
            count(name, "present", f64::from(zone.present));
        }
    }

    /// Makes the scripted replacement of a model.
    fn detector(
        &self,
        model: &str,
        size: [u32; 2],
        actors: Arc<[Actor]>,
    ) -> Result<Box<dyn Detector>, Problem> {
        let is_motion = model == MOTION;
        let labels = match self.models.get(model) {
            Some(labels) => labels.clone(),
            None if is_motion => vec![MOTION.to_owned()],
            None => {
                let detail = format!("there is no model {model:?} on the box of this task");
                return Err(Problem::new(422, ProblemCode::Model, detail));
            }
        };
        Ok(Box::new(Scripted {
            info: DetectorInfo {
                model: model.into(),
                backend: "the script".into(),
                threads: None,
                tensor_copies: None,
                task: ModelTask::ObjectDetection,
                input: None,
                labels: labels.into_iter().map(Arc::from).collect(),
                knows_classes: !is_motion,
                follows_one_picture: is_motion,
                space: None,
                own: OwnThresholds::default(),
            },
            size,
            actors,
        }))
    }
}

/// Detector that reports the actors of the script.
struct Scripted {
    info: DetectorInfo,
    size: [u32; 2],
    actors: Arc<[Actor]>,
}

impl Scripted {
    /// Returns the boxes of a moment: class number, place in shares, score.
    fn seen(&self, frame: &Frame) -> Vec<(usize, BBox, f64)> {
        let t = frame.pts.as_secs_f64();
        let seen = self.actors.iter().filter_map(|actor| actor.at(t));
        seen.filter_map(|seen| {
            let class = match self.info.knows_classes {
                true => self.info.labels.iter().position(|l| **l == *seen.class)?,
                false if seen.moves => 0,
                false => return None,
            };
            Some((class, seen.bbox, seen.score))
        })
        .collect()
    }

    fn is_cut_out(&self, frame: &Frame) -> bool {
        [frame.picture.width, frame.picture.height] != self.size
    }
}

impl Detector for Scripted {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn detect(
        &mut self,
        frame: &Frame,
        params: &DetectParams,
        out: &mut Vec<RawDetection>,
    ) -> Result<DetectTimes, DetectError> {
        out.clear();
        if self.is_cut_out(frame) {
            return Ok(DetectTimes::default());
        }
        let [w, h] = self.size.map(f64::from);
        for (class_id, bbox, score) in self.seen(frame) {
            let score = score as f32;
            if params.confidence.is_some_and(|least| score < least) {
                continue;
            }
            let bbox = BBox::new(bbox.x1 * w, bbox.y1 * h, bbox.x2 * w, bbox.y2 * h).clip(w, h);
            if bbox.area() > 0.0 {
                out.push(RawDetection {
                    bbox,
                    score,
                    class_id,
                    column: 0,
                });
            }
        }
        out.sort_by(|a, b| b.score.total_cmp(&a.score));
        out.truncate(params.max_detections);
        Ok(DetectTimes::default())
    }

    fn classify(&mut self, frame: &Frame, out: &mut Vec<f32>) -> Result<DetectTimes, DetectError> {
        out.clear();
        out.resize(self.info.labels.len(), 0.0);
        if !self.is_cut_out(frame) {
            for (class, _, score) in self.seen(frame) {
                if let Some(best) = out.get_mut(class) {
                    *best = best.max(score as f32);
                }
            }
        }
        Ok(DetectTimes::default())
    }
}

/// Allows every effect that the specification names. Effects are only counted, never executed.
fn allowed(spec: &PipelineSpec) -> SinksConfig {
    let mut found = Vec::new();
    texts(&spec.workflow, &mut found);
    spec.parameters.values().for_each(|v| texts(v, &mut found));
    let hosts = found.iter().filter_map(|text| {
        let (_, rest) = text.split_once("://")?;
        let host = rest.split(['/', '?', '#']).next()?;
        HostRule::parse(host.rsplit('@').next()?).ok()
    });
    let named = spec.workflow["steps"].as_array().into_iter().flatten();
    let servers = named.filter_map(|s| HostRule::parse(s["smtp_server"].as_str()?).ok());
    let usual = ["slack.com", "files.slack.com", "api.twilio.com"];
    let usual = usual.iter().filter_map(|host| HostRule::parse(host).ok());
    let steps = spec.workflow["steps"].as_array().into_iter().flatten();
    let secrets = steps.filter_map(|s| s["variables_storing_secrets"].as_array());
    let secrets = secrets.flatten().filter_map(Value::as_str);
    SinksConfig {
        hosts: hosts.chain(servers).chain(usual).collect(),
        folders: vec![PathBuf::from("/")],
        secrets: secrets
            .map(|name| (name.to_owned(), SecretSource::Variable(name.to_owned())))
            .collect(),
        ..SinksConfig::default()
    }
}

/// Returns the classes that a pipeline looks for: its class filters, else the classes of its
/// models.
fn classes_of(graph: &Graph, models: &Models) -> BTreeSet<String> {
    let listed = |family: &str| -> BTreeSet<String> {
        let steps = graph.steps(family);
        let lists = steps.iter().filter_map(|s| s.get("classes")?.as_array());
        lists
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let filtered = listed("class_filter");
    if !filtered.is_empty() {
        return filtered;
    }
    let steps = graph.steps("object_detection");
    let named = steps.iter().filter_map(|s| s.get("model")?.as_str());
    named
        .filter_map(|model| models.get(model))
        .flatten()
        .cloned()
        .collect()
}

/// Splits a name into words, in lower case and without a trailing `s`.
pub fn words(name: &str) -> BTreeSet<String> {
    let parts = name.split(|c: char| !c.is_alphanumeric());
    let parts = parts.filter(|part| !part.is_empty()).map(str::to_lowercase);
    parts
        .map(|word| match word.as_str() {
            "people" => "person".to_owned(),
            _ if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") => {
                word.trim_end_matches('s').to_owned()
            }
            _ => word,
        })
        .collect()
}
