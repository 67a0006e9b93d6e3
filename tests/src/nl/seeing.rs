//! Proxy between the command and the runtime that answers previews and dry runs from the script.
//!
//! The models of the box find nothing, so the runtime's own preview or dry run would show an empty
//! scene. The preview is answered by the engine on the camera's own picture, the dry run by
//! [`super::play`]. Everything else is forwarded unchanged.
//!
//! The task may inject errors that the LLM can see and correct. The first preview and the first dry
//! run use the workflow mirrored left to right, or the first validation is refused.
//!
//! Everything that is deployed passes to the runtime unchanged.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use serde_json::{Value, json};
use watchkeeper_contract::workflow::{DryRun, FailedStep, WorkflowRun, WorkflowRunResult};
use watchkeeper_engine::workflow::{
    self, DetectRequest, Host, ImageValue, Packed, Pictures, RuntimeInput, VideoMeta, codec,
};
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::geometry::BBox;

use super::play::{Models, dry_run};
use super::scene::Scene;
use crate::hooks::Request;

/// Longest wait for the rest of a request.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Most camera pictures that are remembered.
const MAX_SHOWN: usize = 64;

/// Script from which previews and dry runs are answered.
#[derive(Debug)]
pub struct Script {
    pub scene: Scene,
    /// Models of the box with their classes.
    pub models: Models,
    /// Moment that the cameras show.
    pub moment: f64,
    /// Whether the first preview is mirrored.
    pub mirrors: bool,
    /// Why the first validation is refused.
    pub refuses: Option<String>,
}

/// Proxy socket; nothing listens once it is dropped.
#[derive(Debug)]
pub struct ScriptProxy {
    socket: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Between {
    upstream: PathBuf,
    script: Script,
    previewed: AtomicBool,
    tried: AtomicBool,
    validated: AtomicBool,
    /// Pictures that the command received, each with its camera.
    shown: Mutex<Vec<(Vec<u8>, String)>>,
}

impl ScriptProxy {
    /// Listens at `socket` for the runtime at `upstream`.
    ///
    /// # Errors
    /// If the socket can't be bound.
    pub fn start(socket: &Path, upstream: &Path, script: Script) -> anyhow::Result<Self> {
        let listener = UnixListener::bind(socket).with_context(|| socket.display().to_string())?;
        let is_over = Arc::new(AtomicBool::new(false));
        let between = Arc::new(Between {
            upstream: upstream.to_owned(),
            script,
            previewed: AtomicBool::new(false),
            tried: AtomicBool::new(false),
            validated: AtomicBool::new(false),
            shown: Mutex::default(),
        });
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let between = Arc::clone(&between);
                // A client may disconnect; its error is ignored.
                std::thread::spawn(move || between.serve(stream).ok());
            }
        });
        Ok(Self {
            socket: socket.to_owned(),
            is_over,
            thread: Some(thread),
        })
    }
}

impl Drop for ScriptProxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts clients.
        drop(UnixStream::connect(&self.socket));
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Between {
    fn serve(&self, mut stream: UnixStream) -> anyhow::Result<()> {
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let request = Request::read(&line, &mut reader)?;
        let answer = match (request.method.as_str(), request.target.as_str()) {
            ("POST", "/v1/workflows/run") => self.preview(&request.body)?,
            ("POST", "/v1/workflows/dry-run") => Some(self.dry_run(&request.body)?),
            ("POST", "/v1/workflows/validate") => self.refusal()?,
            _ => None,
        };
        if let Some((status, body)) = answer {
            let head = format!(
                "HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes())?;
            return Ok(stream.write_all(&body)?);
        }
        let answer = self.forward(&request)?;
        self.remember(&request.target, &answer);
        Ok(stream.write_all(&answer)?)
    }

    /// Forwards a request and returns the answer unchanged.
    fn forward(&self, request: &Request) -> anyhow::Result<Vec<u8>> {
        let mut upstream = UnixStream::connect(&self.upstream)?;
        let headers = request
            .headers
            .iter()
            .filter(|(name, _)| *name != "connection");
        let headers: String = headers
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let head = format!(
            "{} {} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n",
            request.method, request.target
        );
        upstream.write_all(head.as_bytes())?;
        upstream.write_all(&request.body)?;
        let mut answer = Vec::new();
        upstream.read_to_end(&mut answer)?;
        Ok(answer)
    }

    /// Remembers the picture of a camera, so that it is recognised later.
    fn remember(&self, target: &str, answer: &[u8]) {
        let camera = target
            .strip_prefix("/v1/sources/")
            .and_then(|rest| rest.split_once("/frame"))
            .map(|(camera, _)| camera.to_owned());
        let mut windows = answer.windows(4);
        let at = windows.position(|window| window == b"\r\n\r\n");
        let body = at.and_then(|at| answer.get(at + 4..));
        if let (Some(camera), Some(body)) = (camera, body) {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            if shown.len() >= MAX_SHOWN {
                shown.remove(0);
            }
            shown.push((body.to_vec(), camera));
        }
    }

    fn camera_of(&self, picture: &[u8]) -> Option<String> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let known = shown.iter().rev().find(|(known, _)| known == picture);
        known.map(|(_, camera)| camera.clone())
    }

    /// Runs a workflow on the picture of a camera. `None` for another picture, which the runtime
    /// processes.
    fn preview(&self, body: &[u8]) -> anyhow::Result<Option<(u16, Vec<u8>)>> {
        let wanted: WorkflowRun = serde_json::from_slice(body)?;
        let Some(file) = wanted.images.first() else {
            return Ok(None);
        };
        let file = codec::from_base64(file).map_err(|e| anyhow!(e))?;
        let Some(camera) = self.camera_of(&file) else {
            return Ok(None);
        };
        let pixels = codec::decode(&file).map_err(|e| anyhow!(e))?;
        let mut definition = wanted.workflow;
        let has_place = definition["steps"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|s| s["zone"].is_array() || s["line_segment"].is_array());
        if self.script.mirrors && has_place && !self.previewed.swap(true, Ordering::Relaxed) {
            mirror(&mut definition, f64::from(pixels.width));
        }
        let compiled = match workflow::compile(&definition, &BTreeMap::new()) {
            Ok(compiled) => compiled,
            Err(_) => return Ok(None),
        };
        let mut inputs = compiled
            .inputs_from_json(&wanted.parameters, u64::MAX)
            .map_err(|e| anyhow!(e.message))?;
        for name in compiled.image_inputs() {
            let picture: ImageValue = ImageValue::new(
                Arc::new(Packed(Arc::clone(&pixels))),
                VideoMeta::still(name),
            );
            inputs.insert(name.to_owned(), RuntimeInput::Many(vec![picture.into()]));
        }
        let mut eye = SceneDetector {
            script: &self.script,
            camera: &camera,
            size: [pixels.width, pixels.height],
            boxes: 0,
        };
        let mut execution = compiled.instantiate();
        let report = execution
            .run_batch(inputs, Duration::ZERO, &mut eye)
            .map_err(|e| anyhow!(e.message))?;
        let failed = report.errors.into_iter().map(|e| FailedStep {
            step: e.step,
            message: e.message,
        });
        let result = WorkflowRunResult {
            results: execution.rows_json(Pictures::Jpeg),
            failed: failed.collect(),
            notes: Vec::new(),
        };
        Ok(Some((200, serde_json::to_vec(&result)?)))
    }

    /// The injected answer to the first validation.
    fn refusal(&self) -> anyhow::Result<Option<(u16, Vec<u8>)>> {
        let Some(message) = &self.script.refuses else {
            return Ok(None);
        };
        if self.validated.swap(true, Ordering::Relaxed) {
            return Ok(None);
        }
        let error = json!({"class": "InvalidDefinition", "message": message});
        let report = json!({"ok": false, "errors": [error], "steps": {}, "outputs": {}});
        Ok(Some((200, serde_json::to_vec(&report)?)))
    }

    fn dry_run(&self, body: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
        let mut wanted: DryRun = serde_json::from_slice(body)?;
        if self.script.mirrors && !self.tried.swap(true, Ordering::Relaxed) {
            let camera = self.script.scene.camera(wanted.pipeline.source.as_str());
            let width = camera.map_or(1, |c| c.size()[0]);
            mirror(&mut wanted.pipeline.workflow, f64::from(width));
        }
        Ok(
            match dry_run(&self.script.scene, &wanted, &self.script.models) {
                Ok(report) => (200, serde_json::to_vec(&report)?),
                Err(problem) => (problem.status, serde_json::to_vec(&problem)?),
            },
        )
    }
}

/// Mirrors the zones and lines of a definition left to right.
fn mirror(definition: &mut Value, width: f64) {
    let steps = definition["steps"].as_array_mut();
    for step in steps.into_iter().flatten() {
        for key in ["zone", "line_segment"] {
            let points = step.get_mut(key).and_then(Value::as_array_mut);
            for x in points.into_iter().flatten().filter_map(|p| p.get_mut(0)) {
                if let Some(at) = x.as_f64() {
                    *x = Value::from(width - at);
                }
            }
        }
    }
}

/// Detector that reports the script at the moment that the cameras show.
struct SceneDetector<'s> {
    script: &'s Script,
    camera: &'s str,
    size: [u32; 2],
    boxes: u64,
}

impl Host for SceneDetector<'_> {
    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        let mut found = Detections {
            boxes: Vec::new(),
            size: request.image.size(),
        };
        if found.size != self.size {
            return Ok(found);
        }
        let model = request.model_id;
        let Some(labels) = self.script.models.get(model) else {
            return Ok(found);
        };
        let [w, h] = self.size.map(f64::from);
        for actor in self.script.scene.actors(self.camera) {
            let Some(seen) = actor.at(self.script.moment) else {
                continue;
            };
            let wanted = request
                .class_filter
                .is_none_or(|all| all.contains(&seen.class));
            let sure = request.confidence.is_none_or(|least| seen.score >= least);
            let Some(class) = labels
                .iter()
                .position(|l| *l == seen.class)
                .filter(|_| wanted && sure)
            else {
                continue;
            };
            self.boxes += 1;
            let b = seen.bbox;
            let bbox = BBox::new(b.x1 * w, b.y1 * h, b.x2 * w, b.y2 * h).clip(w, h);
            let id = DetectionId::Local {
                stream: 0,
                number: self.boxes,
            };
            found.boxes.push(Detection::new(
                bbox,
                seen.score,
                class as i64,
                Arc::from(seen.class),
                id,
            ));
        }
        Ok(found)
    }
}
