//! Asking the runtime about pictures.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Runtime;
use watchkeeper_archive::ContentHash;
use watchkeeper_client::{ClientError, Deadlines, RuntimeClient};
use watchkeeper_config::{AUTO_EMBEDDING, JobToolsConfig};
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_jobs::CameraNames;
use watchkeeper_jobs::answer_cache::AnswerCache;
use watchkeeper_jobs::tool::{Context, ToolError};
use watchkeeper_pictures::Picture;

use crate::embedding::{Embedder, EmbeddingError, EmbeddingModel};

/// The context is asked this often whether the tool must end.
const CHECK: Duration = Duration::from_millis(250);
/// How long a list of the runtime is used for plans.
const KEEP_LIST: Duration = Duration::from_secs(5);
/// Longest wait of a program for a list while it plans.
const LIST_DEADLINE: Duration = Duration::from_secs(3);
/// The same within an event loop, where others wait too.
const SHORT_DEADLINE: Duration = Duration::from_millis(250);
/// Unreadable pictures that a summary names.
const MAX_NAMED: usize = 3;

/// What the tools of this box may use.
#[derive(Debug, Clone, Default)]
pub struct ToolSetup {
    /// Socket of the runtime.
    pub socket: PathBuf,
    /// Socket of the agent, where the archive is.
    pub agent_socket: PathBuf,
    pub config: JobToolsConfig,
}

/// What the runtime listed last, for plans.
#[derive(Debug, Default)]
struct Listed<T> {
    /// Absent where the runtime was unreachable.
    found: Option<T>,
    /// When `found` came.
    at: Option<Instant>,
    /// Whether a thread asks for it; there is at most one.
    is_asked: bool,
}

/// The runtime as the tools use it.
#[derive(Debug)]
pub(crate) struct RuntimeAccess {
    setup: ToolSetup,
    models: Arc<Mutex<Listed<Vec<ModelInfo>>>>,
    cameras: Arc<Mutex<Listed<CameraNames>>>,
    rules: Arc<Mutex<Listed<Vec<String>>>>,
}

/// A picture with its embedding, of length 1.
pub(super) type EmbeddedPicture = (Picture, Vec<f32>);

/// A connection for one step.
pub(super) struct StepConnection<'c> {
    runtime: Runtime,
    pub(super) client: RuntimeClient,
    context: &'c Context<'c>,
    pub(super) answers: AnswerCache,
    /// Pictures that can't be used, with the reason.
    failed: Vec<String>,
}

impl RuntimeAccess {
    pub(crate) fn new(setup: ToolSetup) -> Self {
        Self {
            setup,
            models: Arc::default(),
            cameras: Arc::default(),
            rules: Arc::default(),
        }
    }

    pub(crate) fn client(&self) -> Result<RuntimeClient, ClientError> {
        RuntimeClient::new(&self.setup.socket)
    }

    pub(super) fn allows_faces(&self) -> bool {
        self.setup.config.faces
    }

    /// The model for embeddings, for the check of a plan; `None` while the runtime is unreachable.
    pub(super) fn embedding_model(&self) -> Option<Result<EmbeddingModel, EmbeddingError>> {
        let wanted = self.setup.config.embedding.as_deref();
        let models = self.models()?;
        Some(EmbeddingModel::among(
            &models,
            wanted.unwrap_or(AUTO_EMBEDDING),
        ))
    }

    /// The runtime's models, for the check of a plan.
    pub(super) fn models(&self) -> Option<Vec<ModelInfo>> {
        self.list(&self.models, async |client| client.models().await.ok())
    }

    /// The runtime's cameras, for requests that name them.
    pub(crate) fn cameras(&self) -> Option<CameraNames> {
        self.list(&self.cameras, async |client| {
            let mut cameras = CameraNames::default();
            for source in client.sources().await.ok()? {
                let name = source.spec.name.as_ref().map(|name| name.as_str());
                cameras.add(source.spec.id.as_str(), name);
            }
            Some(cameras)
        })
    }

    /// The rules in force, for requests that name their events.
    pub(crate) fn rules(&self) -> Option<Vec<String>> {
        self.list(&self.rules, async |client| {
            let pipelines = client.pipelines().await.ok()?.into_iter();
            Some(pipelines.flat_map(|pipeline| pipeline.rules).collect())
        })
    }

    /// What the runtime lists; `None` while it is unreachable. Within an event loop a slow runtime
    /// delays it by [`SHORT_DEADLINE`] once, and the list may be older.
    fn list<T: Clone + Send + 'static>(
        &self,
        kept: &Arc<Mutex<Listed<T>>>,
        ask: impl AsyncFnOnce(RuntimeClient) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let mut listed = kept.lock();
        let is_new = listed.at.is_some_and(|at| at.elapsed() < KEEP_LIST);
        if is_new || listed.is_asked {
            return listed.found.clone();
        }
        listed.is_asked = true;
        drop(listed);
        let is_in_event_loop = tokio::runtime::Handle::try_current().is_ok();
        let (done, is_done) = mpsc::sync_channel(1);
        let (socket, listed) = (self.setup.socket.clone(), Arc::clone(kept));
        std::thread::spawn(move || {
            let deadlines = Deadlines {
                answer: LIST_DEADLINE,
                ..Deadlines::USUAL
            };
            let client = RuntimeClient::with_deadlines(socket, deadlines).ok();
            let found = client
                .zip(event_loop().ok())
                .and_then(|(client, runtime)| runtime.block_on(ask(client)));
            *listed.lock() = Listed {
                found,
                at: Some(Instant::now()),
                is_asked: false,
            };
            done.send(()).ok();
        });
        let wait = match is_in_event_loop {
            true => SHORT_DEADLINE,
            false => LIST_DEADLINE,
        };
        // Without an answer in time the former list is used.
        is_done.recv_timeout(wait).ok();
        kept.lock().found.clone()
    }

    /// Connects for one step.
    pub(super) fn connect<'c>(
        &self,
        context: &'c Context<'c>,
    ) -> Result<StepConnection<'c>, ToolError> {
        let transient = |error: &dyn std::fmt::Display| ToolError::Transient(error.to_string());
        Ok(StepConnection {
            runtime: event_loop().map_err(|error| transient(&error))?,
            client: self.client().map_err(|error| transient(&error))?,
            context,
            answers: context.answers()?,
            failed: Vec::new(),
        })
    }

    /// Connects for one step that asks the configured model for embeddings.
    pub(super) fn connect_to_model<'c>(
        &self,
        context: &'c Context<'c>,
    ) -> Result<(StepConnection<'c>, Embedder, EmbeddingModel), ToolError> {
        let connection = self.connect(context)?;
        let wanted = self.setup.config.embedding.clone();
        let embedder = Embedder::new(connection.client.clone(), wanted);
        let model = connection.wait(embedder.model())?.map_err(tool_error)?;
        Ok((connection, embedder, model))
    }
}

/// Waits for an answer; ends early if the tool must.
pub(crate) fn wait<T>(
    runtime: &Runtime,
    context: &Context<'_>,
    answer: impl Future<Output = T>,
) -> Result<T, ToolError> {
    runtime.block_on(async {
        let mut answer = pin!(answer);
        loop {
            match tokio::time::timeout(CHECK, &mut answer).await {
                Ok(answer) => return Ok(answer),
                Err(_) => context.check_continue()?,
            }
        }
    })
}

pub(crate) fn event_loop() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

pub(super) fn tool_error(error: EmbeddingError) -> ToolError {
    match error {
        EmbeddingError::Away(why) => ToolError::Transient(why),
        EmbeddingError::Model(why) | EmbeddingError::Refused(why) => ToolError::Permanent(why),
    }
}

/// The answer about a picture, or why the picture has none. Other errors end the step.
pub(super) fn answered(
    answer: Result<Value, EmbeddingError>,
) -> Result<Result<Value, String>, ToolError> {
    match answer {
        Ok(value) => Ok(Ok(value)),
        Err(EmbeddingError::Refused(why)) => Ok(Err(why)),
        Err(error) => Err(tool_error(error)),
    }
}

impl StepConnection<'_> {
    /// Waits for an answer; ends early if the tool must.
    pub(super) fn wait<T>(&self, answer: impl Future<Output = T>) -> Result<T, ToolError> {
        wait(&self.runtime, self.context, answer)
    }

    /// Asks `ask` about each picture whose answer is not kept yet. A picture that is refused is
    /// left out and counted.
    pub(super) fn each<T>(
        &mut self,
        pictures: &[Picture],
        what: &str,
        mut ask: impl FnMut(&Self, Vec<u8>) -> Result<Result<Value, String>, ToolError>,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<(Picture, T)>, ToolError> {
        self.context.expect(pictures.len());
        let failed_before = self.failed.len();
        let mut done = Vec::with_capacity(pictures.len());
        for picture in pictures {
            self.context.check_continue()?;
            let bytes = match picture.bytes() {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.failed.push(error.to_string());
                    self.context.count();
                    continue;
                }
            };
            let key = format!("{what} {}", ContentHash::of(&bytes));
            let kept = self.answers.get(&key).and_then(&read);
            let answer = match kept {
                Some(kept) => Some(kept),
                None => match ask(self, bytes)? {
                    Ok(value) => {
                        let answer = read(&value);
                        let kept = self.answers.put(key, value);
                        kept.map_err(|error| ToolError::Transient(error.to_string()))?;
                        answer
                    }
                    Err(why) => {
                        self.failed.push(format!("{}: {why}", picture.name()));
                        None
                    }
                },
            };
            done.extend(answer.map(|answer| (picture.clone(), answer)));
            self.context.count();
        }
        match done.is_empty() && self.failed.len() > failed_before {
            true => Err(ToolError::Permanent(format!(
                "no picture can be used{}",
                self.unread()
            ))),
            false => Ok(done),
        }
    }

    /// The pictures with their embeddings by one model, of length 1.
    pub(super) fn embeddings(
        &mut self,
        embedder: &Embedder,
        model: &EmbeddingModel,
        pictures: &[Picture],
    ) -> Result<Vec<EmbeddedPicture>, ToolError> {
        let ask = |connection: &Self, bytes| {
            let made = connection.wait(embedder.embed_picture_with(model, bytes))?;
            answered(made.map(|made| kept(&made.vector)))
        };
        let what = format!("embedding {}", model.digest);
        self.each(pictures, &what, ask, vector)
    }

    /// Names pictures that could not be used at the end of a summary; empty if there is none.
    pub(super) fn unread(&self) -> String {
        let named = self.failed.iter().take(MAX_NAMED).map(String::as_str);
        let named = named.collect::<Vec<_>>().join("; ").replace('\n', " ");
        match self.failed.len() {
            0 => String::new(),
            number => format!("; {number} can't be used: {named}"),
        }
    }
}

/// A vector as it is kept: its numbers, little endian, in base64.
fn kept(vector: &[f32]) -> Value {
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    Value::from(BASE64.encode(bytes))
}

fn vector(kept: &Value) -> Option<Vec<f32>> {
    let bytes = BASE64.decode(kept.as_str()?).ok()?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| {
        numbers
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect()
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn check_within_an_event_loop_does_not_wait_for_a_runtime_that_never_answers() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _never_accepts = UnixListener::bind(&socket).unwrap();
        let config = JobToolsConfig::default();
        let access = RuntimeAccess::new(ToolSetup {
            socket,
            config,
            ..ToolSetup::default()
        });
        let models = event_loop().unwrap().block_on(async { access.models() });
        assert_eq!(models, None);
        // Its thread still waits, and a second check begins no other.
        assert!(access.models.lock().is_asked);
        assert_eq!(access.models(), None);
    }
}
