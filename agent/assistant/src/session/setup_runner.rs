//! Runs the setup agent on a request: begins or resumes a turn, reports its progress, saves what
//! was learned.
//!
//! Invariant: nothing here changes what the box does. A turn ends in a proposal that waits for
//! confirmation, or in an answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use ulid::Ulid;
use watchkeeper_llm::budget::CallClass;
use watchkeeper_llm::conversation::ToolCall;
use watchkeeper_llm::picture::Detail;
use watchkeeper_llm::{Client, Job, JobSpec};
use watchkeeper_memory::Memory;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::progress::{ProgressEvent, ProgressSink, ProgressStep};
use crate::blueprint::{Blueprint, Job as BlueprintJob};
use crate::lesson::{Lesson, store};
use crate::llm::start_job;
use crate::permissions::{Entrypoint, ToolPermissions};
use crate::proposal::llm_proposal::words;
use crate::router::Route;
use crate::setup_agent::delegation::Delegation;
use crate::setup_agent::drive::{TurnDriver, TurnProgress};
use crate::setup_agent::job_spec::SetupSpec;
use crate::setup_agent::reflection;
use crate::setup_agent::tool_context::ToolContext;
use crate::setup_agent::turn::TurnCost;
use crate::setup_agent::turn_log::{TurnKey, TurnLog, TurnLogError};
use crate::setup_agent::turn_record::{FORMAT, TurnEnd, TurnHead, TurnRecord};
use crate::trace::{self, Trace};
use crate::wording::{counted, cut};
use watchkeeper_client::clock::wall_now;

/// Timeout of one request. A user waits, while cameras are opened and models loaded.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// Folder of open turns, below the state folder.
const TURNS_FOLDER: &str = "turns";
/// Folder of open turns over TCP: a remote user resumes no turn of the box and learns of none.
const REMOTE_TURNS_FOLDER: &str = "turns-remote";
pub(super) const PREVIEWS_FOLDER: &str = "previews";
/// Most characters of a line about the LLM's work.
const MAX_LINE_CHARS: usize = 200;

#[derive(Debug)]
pub struct SetupRequest<'r> {
    pub text: &'r str,
    /// Blueprint that works on it, and who chose it.
    pub routed: Route,
    /// Tools that it may use.
    pub permissions: ToolPermissions,
    /// Attached pictures with their names.
    pub attached: Vec<(String, Bytes)>,
    /// Earlier exchanges as JSON; `null` for none.
    pub earlier: Value,
}

/// Does `work`, which waits for the disk, on a blocking thread.
async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TurnLogError> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
}

/// Hashes what belongs to a request besides its text, for [`TurnHead::context`].
fn hash_context(request: &SetupRequest<'_>) -> String {
    let mut hash = Xxh3::new();
    for (name, picture) in &request.attached {
        hash.update(name.as_bytes());
        hash.update(&xxh3_128(picture).to_le_bytes());
    }
    // The user at the box may repeat a request in a new chat, so its history does not matter.
    if request.permissions.entrypoint.is_api() {
        hash.update(request.earlier.to_string().as_bytes());
    }
    format!("xxh3:{:032x}", hash.digest128())
}

pub(super) struct TurnRun {
    /// A sentence if it stopped before its end.
    pub(super) end: Result<TurnEnd, String>,
    pub(super) log: TurnLog,
    pub(super) spent: TurnCost,
}

pub struct SetupRunner<'s> {
    pub client: &'s Client,
    pub folder: PathBuf,
    /// Tool context without the pictures and the conversation of a request.
    pub tools: ToolContext,
    /// Trace; `None`: no trace is written.
    pub trace: Option<&'s Trace>,
    /// Receiver of progress events.
    pub out: Arc<dyn ProgressSink>,
}

impl std::fmt::Debug for SetupRunner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetupRunner")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl SetupRunner<'_> {
    /// Lets the LLM work on a request; a coordinator by `delegation`. The caller deletes the
    /// returned log once it has shown the result.
    ///
    /// # Errors
    /// A sentence for the user.
    pub async fn run(
        &self,
        request: SetupRequest<'_>,
        delegation: &dyn Delegation,
    ) -> Result<(TurnEnd, TurnLog), String> {
        let ran = self.run_turn(request, None, Some(delegation)).await?;
        Ok((ran.end?, ran.log))
    }

    /// Runs a turn; `ledger` is the name of its costs in the ledger, if they are another turn's.
    /// `delegation` is for a coordinator only.
    pub(super) async fn run_turn(
        &self,
        request: SetupRequest<'_>,
        ledger: Option<String>,
        delegation: Option<&dyn Delegation>,
    ) -> Result<TurnRun, String> {
        let context = hash_context(&request);
        let Route { blueprint, by } = request.routed;
        let entrypoint = request.permissions.entrypoint;
        let delegates = blueprint.job == BlueprintJob::Coordinator;
        let brief = SetupSpec::new(blueprint, request.permissions);
        let mut turn_log = self
            .open_turn(request.text, context, entrypoint, &brief)
            .await?;
        let blueprint = &brief.blueprint;
        trace::note(self.trace, "blueprint", || {
            json!({
                "turn": turn_log.turn.head().id, "blueprint": blueprint.name, "job": blueprint.job, "chosen_by": by,
                "sentence": format!("{} works on it (job {})", blueprint.name, blueprint.job.name()),
            })
        });
        let name = format!("{}/{}", blueprint.name, turn_log.turn.head().id);
        let mut job = self.start_job(blueprint, ledger.unwrap_or(name), entrypoint)?;
        let tools = ToolContext {
            sees: job.model().image_tier,
            detail: job.detail(),
            attached: request.attached,
            earlier: request.earlier,
            ..self.tools.clone()
        };
        let driver = TurnDriver {
            context: &tools,
            spec: &brief,
            trace: self.trace,
            delegation: delegation.filter(|_| delegates),
        };
        let outcome = driver
            .run(&mut turn_log, &mut job, &mut |seen| {
                self.report_progress(&seen)
            })
            .await;
        self.out.report(ProgressEvent::Idle);
        self.report_cost(&turn_log);
        let spent = turn_log.turn.spent();
        let end = match outcome {
            Ok(end) => {
                self.save_lessons(&turn_log, reflection::lessons(&turn_log.turn, &end))
                    .await;
                Ok(end)
            }
            Err(stopped) => {
                if !stopped.is_resumable() {
                    let why = "the conversation was refused and can't be resumed";
                    let lesson = reflection::failed_request(&turn_log.turn, why);
                    self.save_lessons(&turn_log, vec![lesson]).await;
                    turn_log.remove();
                }
                Err(stopped.to_string())
            }
        };
        Ok(TurnRun {
            end,
            log: turn_log,
            spent,
        })
    }

    /// Starts the job of a turn, with the model of its blueprint.
    fn start_job(
        &self,
        blueprint: &Blueprint,
        name: String,
        entrypoint: Entrypoint,
    ) -> Result<Job, String> {
        let spec = JobSpec {
            name,
            class: call_class(blueprint.job, entrypoint),
            rule: None,
            tier: blueprint.model.tier(),
            detail: Detail::Medium,
            time: REQUEST_TIMEOUT,
        };
        start_job(self.client, blueprint, spec)
    }

    /// Resumes an interrupted turn of the same request, or begins one.
    async fn open_turn(
        &self,
        text: &str,
        context: String,
        entrypoint: Entrypoint,
        brief: &SetupSpec,
    ) -> Result<TurnLog, String> {
        let folder = self.folder.join(match entrypoint {
            Entrypoint::Remote => REMOTE_TURNS_FOLDER,
            Entrypoint::Ask | Entrypoint::Chat | Entrypoint::Local => TURNS_FOLDER,
        });
        let socket = self.tools.client.socket().display().to_string();
        let now = Timestamp::now();
        let left = {
            let (folder, brief) = (folder.clone(), brief.clone());
            let (request, context, socket) = (text.to_owned(), context.clone(), socket.clone());
            let find = move || {
                let wanted = TurnKey {
                    request: &request,
                    context: &context,
                    socket: &socket,
                    now,
                };
                TurnLog::find_unfinished(&folder, &wanted, &brief)
            };
            on_blocking_thread(find).await?
        };
        self.report_closed_turns(&left.closed, entrypoint);
        if let Some(turn_log) = left.resumable {
            trace::note(
                self.trace,
                "resumed",
                || json!({"turn": turn_log.turn.head().id, "text": text}),
            );
            self.report_note("resuming this request, which was interrupted");
            return Ok(turn_log);
        }
        let blueprint = &brief.blueprint;
        let head = TurnHead {
            id: Ulid::new().to_string(),
            request: text.to_owned(),
            at: now,
            socket,
            blueprint: blueprint.name.to_string(),
            entrypoint,
            context,
            steps: blueprint.steps,
            cost: Some(blueprint.cost),
            plan_required: blueprint.plan_required,
        };
        let conversation = Box::new(brief.conversation(text)?);
        let first = TurnRecord::Started {
            format: FORMAT,
            head,
            conversation,
        };
        on_blocking_thread(move || TurnLog::create(&folder, first)).await
    }

    /// Reports turns that were interrupted and are closed now, to the user who asked for them.
    fn report_closed_turns(&self, closed: &[TurnHead], entrypoint: Entrypoint) {
        for head in closed {
            trace::note(
                self.trace,
                "broken_off",
                || json!({"turn": head.id, "text": head.request}),
            );
            // Requests over the API may be another user's.
            if head.entrypoint.is_api() || entrypoint.is_api() {
                continue;
            }
            self.report_note(&format!(
                "an earlier request was interrupted and is closed; it changed nothing: {}",
                words(&head.request)
            ));
        }
    }

    fn report_note(&self, note: &str) {
        self.out.report(ProgressEvent::Note(note));
    }

    fn report_progress(&self, seen: &TurnProgress<'_>) {
        let out = &self.out;
        match seen {
            TurnProgress::Asking => out.report(ProgressEvent::Busy("the LLM thinks")),
            TurnProgress::Retrying(error, pause) => {
                let wait = pause.as_secs_f64().ceil();
                let line = format!("{error}; the LLM is asked again in {wait} s");
                out.report(ProgressEvent::Busy(&line));
            }
            TurnProgress::Spent(spent) => out.report(ProgressEvent::Spent(spent)),
            TurnProgress::Thought(text) => {
                let of = json!({"text": words(text)});
                out.report(ProgressEvent::Step(
                    ProgressStep::Thought,
                    &shorten(text),
                    of,
                ));
            }
            TurnProgress::Using(call) => {
                out.report(ProgressEvent::Busy(&format!("{} …", call.name)));
                let of = json!({"tool": call.name, "arguments": arguments(call)});
                out.report(ProgressEvent::Step(
                    ProgressStep::Action,
                    &describe_call(call),
                    of,
                ));
            }
            TurnProgress::Failed(call, why) => {
                let line = format!("{}: {}", call.name, shorten(why));
                let of = json!({"tool": call.name, "sentence": words(why)});
                out.report(ProgressEvent::Step(ProgressStep::Failure, &line, of));
            }
            TurnProgress::Plan(steps) => {
                let lines = steps
                    .iter()
                    .map(|s| format!("[{}] {}", if s.done { 'x' } else { ' ' }, s.step));
                let lines: Vec<String> = lines.collect();
                let of = json!({"steps": steps});
                out.report(ProgressEvent::Step(
                    ProgressStep::Plan,
                    &lines.join("\n  "),
                    of,
                ));
            }
        }
    }

    /// Reports the costs so far.
    fn report_cost(&self, turn_log: &TurnLog) {
        let spent = turn_log.turn.spent();
        if spent.asks == 0 {
            return;
        }
        let sentence = format!(
            "{}: {} of the LLM, {} of tools, {} tokens ({} cached), {} (blueprint {})",
            words(turn_log.turn.model()),
            counted(u64::from(spent.asks), "call"),
            counted(u64::from(spent.runs), "call"),
            spent.usage.total(),
            spent.usage.cache_read,
            spent.cost,
            turn_log.turn.head().blueprint,
        );
        trace::note(self.trace, "cost", || {
            json!({
                "turn": turn_log.turn.head().id, "sentence": sentence, "usd": spent.cost.dollars(), "tokens": spent.usage.total(),
                "blueprint": turn_log.turn.head().blueprint,
            })
        });
        self.report_note(&sentence);
    }

    /// Saves the lessons of a turn that ended, and traces them.
    async fn save_lessons(&self, turn_log: &TurnLog, lessons: Vec<Lesson>) {
        let turn = &turn_log.turn;
        let texts: Vec<String> = lessons.iter().map(ToString::to_string).collect();
        let spent = turn.spent();
        let sentence = format!(
            "{} learned from {} of the LLM and {} of tools",
            counted(lessons.len() as u64, "lesson"),
            counted(u64::from(spent.asks), "call"),
            counted(u64::from(spent.runs), "call"),
        );
        trace::note(
            self.trace,
            "reflection",
            || json!({"turn": turn.head().id, "sentence": sentence, "lessons": texts}),
        );
        let (Some(notes), false) = (&self.tools.memory, lessons.is_empty()) else {
            return;
        };
        let save = |memory: &mut Memory| {
            let mut lessons = lessons.into_iter();
            lessons.try_for_each(|lesson| store::save(memory, wall_now(), lesson).map(drop))
        };
        if let Err(error) = notes.with(save).await {
            tracing::warn!(%error, "cannot save a lesson");
        }
    }
}

/// Returns the class of the calls of a job. Only a set-up that a program asks for is below a user's
/// requests, because it takes many calls; a question over the API takes few.
pub(crate) const fn call_class(job: BlueprintJob, entrypoint: Entrypoint) -> CallClass {
    match job {
        BlueprintJob::SetUp | BlueprintJob::Jobs if entrypoint.is_api() => CallClass::SetUp,
        BlueprintJob::SetUp
        | BlueprintJob::Jobs
        | BlueprintJob::Triage
        | BlueprintJob::Question
        | BlueprintJob::Notes
        | BlueprintJob::Ingestor
        | BlueprintJob::Retriever
        | BlueprintJob::Organiser
        | BlueprintJob::Identifier
        | BlueprintJob::Coordinator => CallClass::Person,
    }
}

fn shorten(text: &str) -> String {
    cut(words(text), MAX_LINE_CHARS)
}

fn arguments(call: &ToolCall) -> Value {
    call.arguments.parse().unwrap_or_default()
}

/// Describes a tool call by its name and short arguments.
fn describe_call(call: &ToolCall) -> String {
    let arguments = arguments(call);
    let short = arguments.as_object().into_iter().flatten();
    let short: Vec<String> = short
        .filter_map(|(_, value)| {
            value
                .as_str()
                .filter(|text| !text.is_empty() && text.len() <= 40)
        })
        .map(words)
        .collect();
    match short.as_slice() {
        [] => call.name.clone(),
        short => format!("{} {}", words(&call.name), short.join(" ")),
    }
}
