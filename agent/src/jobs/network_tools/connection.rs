//! Asking the runtime about pictures.

use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Runtime;
use watchkeeper_archive::ContentHash;
use watchkeeper_assistant::jobs::known_names;
use watchkeeper_client::{ClientError, RuntimeClient};
use watchkeeper_config::{AUTO_EMBEDDING, Config, JobToolsConfig};
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_jobs::KnownNames;
use watchkeeper_jobs::answer_cache::AnswerCache;
use watchkeeper_jobs::tool::{Context, ToolError};
use watchkeeper_pictures::Picture;

use crate::embedding::{Embedder, EmbeddingError, EmbeddingModel};

/// The context is asked this often whether the tool must end.
const CHECK: Duration = Duration::from_millis(250);
/// How long the lists of the runtime are used for plans before it is asked again.
const KEEP_LIST: Duration = Duration::from_secs(5);
/// Longest wait for the lists of the runtime.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);
/// Unreadable pictures that a summary names.
const MAX_NAMED: usize = 3;

/// Resources that the tools of this box may use.
#[derive(Debug, Clone, Default)]
pub struct ToolSetup {
    pub socket: PathBuf,
    /// Socket of the agent, where the archive is.
    pub agent_socket: PathBuf,
    pub config: JobToolsConfig,
}

impl ToolSetup {
    pub fn new(config: &Config) -> Self {
        Self {
            socket: config.runtime_socket.clone(),
            agent_socket: config.agent_api.socket.clone(),
            config: config.job_tools(),
        }
    }
}

/// Lists of the runtime, for requests and for the check of plans.
#[derive(Debug, Clone)]
pub(crate) struct RuntimeLists {
    pub(crate) models: Vec<ModelInfo>,
    pub(crate) names: KnownNames,
}

/// Latest lists of the runtime.
#[derive(Debug, Default)]
struct Listed {
    /// `None` until the runtime has answered once.
    found: Option<RuntimeLists>,
    /// When the runtime was asked last.
    at: Option<Instant>,
}

/// The runtime as the tools use it.
#[derive(Debug)]
pub(crate) struct RuntimeAccess {
    setup: ToolSetup,
    /// Locked while the runtime is asked, for [`LIST_TIMEOUT`] at most: others wait for the answer.
    listed: Mutex<Listed>,
}

/// A picture with its embedding, of length 1.
pub(super) type EmbeddedPicture = (Picture, Vec<f32>);

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
            listed: Mutex::default(),
        }
    }

    pub(crate) fn client(&self) -> Result<RuntimeClient, ClientError> {
        RuntimeClient::new(&self.setup.socket)
    }

    pub(super) fn allows_faces(&self) -> bool {
        self.setup.config.faces
    }

    /// Why there is no model for embeddings, for the check of a plan; `None` while the runtime is
    /// unreachable.
    pub(super) fn missing_model(
        &self,
        choose: impl Fn(&[ModelInfo], &str) -> Result<EmbeddingModel, EmbeddingError>,
    ) -> Option<String> {
        let wanted = self.setup.config.embedding.as_deref();
        let lists = self.lists()?;
        let chosen = choose(&lists.models, wanted.unwrap_or(AUTO_EMBEDDING));
        chosen.err().map(|error| error.to_string())
    }

    /// What the runtime lists, at most [`KEEP_LIST`] old while it answers; `None` until it has.
    /// Blocks for [`LIST_TIMEOUT`] at most.
    pub(crate) fn lists(&self) -> Option<RuntimeLists> {
        let mut listed = self.listed.lock();
        if listed.at.is_none_or(|at| at.elapsed() >= KEEP_LIST) {
            let answer = ask_for_lists(self.setup.socket.clone());
            listed.take(answer, Instant::now());
        }
        listed.found.clone()
    }

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

impl Listed {
    /// Takes the answer of the runtime. Without one the former lists stay.
    fn take(&mut self, answer: Option<RuntimeLists>, now: Instant) {
        self.found = answer.or(self.found.take());
        self.at = Some(now);
    }
}

fn ask_for_lists(socket: PathBuf) -> Option<RuntimeLists> {
    let ask = async |client: &RuntimeClient| {
        let (models, sources, pipelines) =
            tokio::try_join!(client.models(), client.sources(), client.pipelines())?;
        let names = known_names(&sources, &models, &pipelines);
        Ok::<_, ClientError>(RuntimeLists { models, names })
    };
    let run = move || {
        let client = RuntimeClient::new(&socket).ok()?;
        let answer = async { tokio::time::timeout(LIST_TIMEOUT, ask(&client)).await };
        event_loop().ok()?.block_on(answer).ok()?.ok()
    };
    // A caller may be within an event loop, where no other can be entered.
    let thread = std::thread::Builder::new().name("lists".to_owned());
    thread.spawn(run).ok()?.join().ok()?
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
        EmbeddingError::Away(why) | EmbeddingError::Step(why) => ToolError::Transient(why),
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
            answered(made.map(|made| encode_vector(&made.vector)))
        };
        let what = format!("embedding {}", model.digest);
        self.each(pictures, &what, ask, decode_vector)
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
fn encode_vector(vector: &[f32]) -> Value {
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    Value::from(BASE64.encode(bytes))
}

fn decode_vector(kept: &Value) -> Option<Vec<f32>> {
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
    use super::*;

    fn lists(rule: &str) -> RuntimeLists {
        let mut names = KnownNames::default();
        names.rules.push(rule.to_owned());
        RuntimeLists {
            models: Vec::new(),
            names,
        }
    }

    #[test]
    fn runtime_that_answers_no_more_leaves_the_former_names() {
        let folder = tempfile::tempdir().unwrap();
        let access = RuntimeAccess::new(ToolSetup {
            socket: folder.path().join("nobody.sock"),
            config: JobToolsConfig::default(),
            ..ToolSetup::default()
        });
        assert!(access.lists().is_none());
        access
            .listed
            .lock()
            .take(Some(lists("old")), Instant::now());
        access.listed.lock().at = None;
        let names = access.lists().map(|lists| lists.names.rules);
        assert_eq!(names, Some(vec!["old".to_owned()]));
        access
            .listed
            .lock()
            .take(Some(lists("new")), Instant::now());
        let names = access.lists().map(|lists| lists.names.rules);
        assert_eq!(names, Some(vec!["new".to_owned()]));
    }

    #[test]
    fn lists_are_asked_for_within_an_event_loop() {
        let access = RuntimeAccess::new(ToolSetup::default());
        let listed = event_loop().unwrap().block_on(async { access.lists() });
        assert!(listed.is_none());
    }
}
