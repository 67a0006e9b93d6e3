//! The shell around [`crate::setup_agent`]: has a model work on a request by a blueprint. It begins or resumes the turn, tells what the model does, notes what was learned.
//!
//! Invariant: nothing here changes what the box does; what comes of a turn is a proposal that waits, or words.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use ulid::Ulid;
use watchkeeper_llm::conversation::ToolCall;
use watchkeeper_llm::picture::Detail;
use watchkeeper_llm::{Client, JobSpec};
use watchkeeper_memory::note::{Entry, Kind, Origin, Tag, Words};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::progress::{ProgressEvent, ProgressSink, ProgressStep};
use crate::notes::Notes;
use crate::permissions::{Entrypoint, ToolPermissions};
use crate::proposal::llm_proposal::words;
use crate::router::Route;
use crate::setup_agent::drive::{TurnDriver, TurnProgress};
use crate::setup_agent::job_spec::SetupSpec;
use crate::setup_agent::prompt;
use crate::setup_agent::tool_context::ToolContext;
use crate::setup_agent::turn::{FORMAT, TurnEnd, TurnHead, TurnRecord};
use crate::setup_agent::turn_log::{TurnKey, TurnLog};
use crate::trace::Trace;
use crate::wording::{counted, cut};
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::clock::wall_now;

/// Time for one request: a person waits, and cameras have to be opened and networks loaded.
const TIME: Duration = Duration::from_secs(600);
/// Folder of turns that go on, below that of what is kept.
const TURNS: &str = "turns";
/// The same of those that came over TCP: whoever shows the token goes on with none of those of the box, and hears of none.
const REMOTE_TURNS: &str = "turns-remote";
/// Folder of previews.
pub(super) const PICTURES: &str = "previews";
/// Longest line of what a model thinks or is told, in characters.
const SHOWN: usize = 200;

/// What a turn is begun with.
#[derive(Debug)]
pub struct SetupRequest<'r> {
    /// The person's words.
    pub text: &'r str,
    /// Who is to work on them, and who chose that.
    pub routed: Route,
    /// What tools may do for them.
    pub gate: ToolPermissions,
    /// Pictures that came with them.
    pub attached: Vec<(String, Bytes)>,
    /// What was said and done before; `null` where nothing was.
    pub earlier: Value,
}

/// What the words of a request came with, as [`TurnHead::context`] says.
fn context(request: &SetupRequest<'_>) -> String {
    let mut hash = Xxh3::new();
    for (name, picture) in &request.attached {
        hash.update(name.as_bytes());
        hash.update(&xxh3_128(picture).to_le_bytes());
    }
    // On the box it is one person, who says the same again in a chat that begins anew.
    if request.gate.channel.is_api() {
        hash.update(request.earlier.to_string().as_bytes());
    }
    format!("xxh3:{:032x}", hash.digest128())
}

/// Who has a model work.
pub struct SetupRunner<'s> {
    /// The way to the model.
    pub client: &'s Client,
    /// The runtime.
    pub runtime: &'s RuntimeClient,
    /// Model of the box that the configuration prefers.
    pub preferred: Option<String>,
    /// Folder of what is kept.
    pub folder: PathBuf,
    /// The notes.
    pub notes: Notes,
    /// The time that it is taken for; `None`: the clock's.
    pub at: Option<Timestamp>,
    /// Where it is traced; `None`: nowhere.
    pub trace: Option<&'s Trace>,
    /// Who listens.
    pub out: Arc<dyn ProgressSink>,
}

impl std::fmt::Debug for SetupRunner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Working")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl SetupRunner<'_> {
    /// Has the model work on a request. What it came to is handed over with its file, which the caller forgets when it has shown it.
    ///
    /// # Errors
    /// A sentence, when nothing came of it.
    pub async fn run(&self, request: SetupRequest<'_>) -> Result<(TurnEnd, TurnLog), String> {
        let context = context(&request);
        let Route { blueprint, by } = request.routed;
        let brief = SetupSpec::new(blueprint, request.gate.clone());
        let blueprint = &brief.blueprint;
        let turns = self.folder.join(match request.gate.channel {
            Entrypoint::Remote => REMOTE_TURNS,
            Entrypoint::Ask | Entrypoint::Chat | Entrypoint::Local => TURNS,
        });
        let socket = self.runtime.socket().display().to_string();
        let now = Timestamp::now();
        let wanted = TurnKey {
            request: request.text,
            context: &context,
            socket: &socket,
            now,
        };
        let left = TurnLog::left(&turns, &wanted, &brief).map_err(|e| e.to_string())?;
        for head in &left.closed {
            self.note("broken_off", json!({"turn": head.id, "text": head.request}));
            // Somebody else's words are not for this one.
            if head.channel.is_api() || request.gate.channel.is_api() {
                continue;
            }
            self.say(&format!(
                "an earlier request was broken off in the middle and is closed; nothing of it was changed: {}",
                words(&head.request)
            ));
        }
        let mut ahead = match left.same {
            Some(ahead) => {
                self.note(
                    "resumed",
                    json!({"turn": ahead.turn.head().id, "text": request.text}),
                );
                self.say("this request was broken off in the middle; it goes on from there");
                ahead
            }
            None => {
                let head = TurnHead {
                    id: Ulid::new().to_string(),
                    request: request.text.to_owned(),
                    at: now,
                    socket,
                    blueprint: blueprint.name.to_string(),
                    channel: request.gate.channel,
                    context,
                    steps: blueprint.steps,
                    cost: Some(blueprint.cost),
                };
                let talk = Box::new(prompt::talk(request.text, &brief)?);
                let first = TurnRecord::Begun {
                    format: FORMAT,
                    head,
                    talk,
                };
                TurnLog::begin(&turns, first).map_err(|e| e.to_string())?
            }
        };
        self.note("blueprint", json!({
            "turn": ahead.turn.head().id, "blueprint": blueprint.name, "job": blueprint.job, "chosen_by": by,
            "sentence": format!("{} works on it (job {})", blueprint.name, blueprint.job.name()),
        }));
        let mut job = self.client.start_job(JobSpec {
            name: format!("{}/{}", blueprint.name, ahead.turn.head().id),
            tier: blueprint.model.tier(),
            detail: Detail::Medium,
            time: TIME,
        });
        let hands = ToolContext {
            client: self.runtime.clone(),
            preferred: self.preferred.clone(),
            sees: job.model().image_tier,
            detail: job.detail(),
            memory: Some(self.notes.clone()),
            pictures: Some(self.folder.join(PICTURES)),
            attached: request.attached,
            earlier: request.earlier,
            at: self.at,
        };
        let driver = TurnDriver {
            hands: &hands,
            brief: &brief,
            trace: self.trace,
        };
        let came = driver
            .run(&mut ahead, &mut job, &mut |seen| self.show(&seen))
            .await;
        self.out.tell(ProgressEvent::Idle);
        self.cost(&ahead);
        match came {
            Ok(end) => {
                self.reflect(&hands, &ahead, &end, &brief);
                Ok((end, ahead))
            }
            Err(stopped) => {
                if !stopped.goes_on_later() {
                    ahead.forget();
                }
                Err(stopped.to_string())
            }
        }
    }

    fn say(&self, note: &str) {
        self.out.tell(ProgressEvent::Note(note));
    }

    fn show(&self, seen: &TurnProgress<'_>) {
        let out = &self.out;
        match seen {
            TurnProgress::Asking => out.tell(ProgressEvent::Busy("the model thinks")),
            TurnProgress::Spent(spent) => out.tell(ProgressEvent::Spent(spent)),
            TurnProgress::Thought(text) => {
                let of = json!({"text": words(text)});
                out.tell(ProgressEvent::Step(ProgressStep::Thought, &short(text), of));
            }
            TurnProgress::Using(call) => {
                out.tell(ProgressEvent::Busy(&format!("{} …", call.name)));
                let of = json!({"tool": call.name, "arguments": arguments(call)});
                out.tell(ProgressEvent::Step(ProgressStep::Action, &action(call), of));
            }
            TurnProgress::Failed(call, why) => {
                let line = format!("{}: {}", call.name, short(why));
                let of = json!({"tool": call.name, "sentence": words(why)});
                out.tell(ProgressEvent::Step(ProgressStep::Failure, &line, of));
            }
            TurnProgress::Plan(steps) => {
                let lines = steps
                    .iter()
                    .map(|s| format!("[{}] {}", if s.done { 'x' } else { ' ' }, s.step));
                let lines: Vec<String> = lines.collect();
                let of = json!({"steps": steps});
                out.tell(ProgressEvent::Step(
                    ProgressStep::Plan,
                    &lines.join("\n  "),
                    of,
                ));
            }
        }
    }

    /// Says what it has cost so far.
    fn cost(&self, ahead: &TurnLog) {
        let spent = ahead.turn.spent();
        if spent.asks == 0 {
            return;
        }
        let sentence = format!(
            "{}: {} of the model, {} of tools, {} tokens ({} from the cache), {} (blueprint {})",
            words(ahead.turn.model()),
            counted(u64::from(spent.asks), "call"),
            counted(u64::from(spent.runs), "call"),
            spent.usage.total(),
            spent.usage.cache_read,
            spent.cost,
            ahead.turn.head().blueprint,
        );
        self.note("cost", json!({
            "turn": ahead.turn.head().id, "sentence": sentence, "usd": spent.cost.dollars(), "tokens": spent.usage.total(),
            "blueprint": ahead.turn.head().blueprint,
        }));
        self.say(&sentence);
    }

    /// Keeps what was learned, in fixed sentences: names that were checked, and numbers.
    fn reflect(&self, hands: &ToolContext, ahead: &TurnLog, end: &TurnEnd, brief: &SetupSpec) {
        let turn = &ahead.turn;
        let came = match end {
            TurnEnd::Answer { .. } => "an answer".to_owned(),
            TurnEnd::Nothing { .. } => "nothing".to_owned(),
            TurnEnd::Proposal { made, .. } => {
                let names: Vec<&str> = made.changes.iter().map(|c| c.pipeline().as_str()).collect();
                format!("a proposal about {}", names.join(", "))
            }
        };
        let failed = turn.failed().iter();
        let failed: Vec<String> = failed
            .filter(|(name, _)| brief.tools.find(name).is_some())
            .map(|(name, times)| format!("{name} {times} times"))
            .collect();
        let failed = match failed.as_slice() {
            [] => "no tool failed".to_owned(),
            failed => format!("failed on the way: {}", failed.join(", ")),
        };
        let sentence = format!(
            "A request that the blueprint {} worked on came to {came} after {} calls of the model and {} of tools; {failed}.",
            brief.blueprint.name,
            turn.spent().asks,
            turn.spent().runs
        );
        self.note(
            "reflection",
            json!({"turn": turn.head().id, "sentence": sentence}),
        );
        let Some(notes) = &hands.memory else {
            return;
        };
        let kept = Words::new(&sentence)
            .map_err(|e| e.to_string())
            .and_then(|words| {
                let entry = Entry {
                    tags: Tag::new(brief.blueprint.name.as_str())
                        .into_iter()
                        .collect(),
                    ..Entry::new(Kind::Lesson, Origin::Agent, words)
                };
                let mut memory = notes.open()?;
                memory
                    .remember(wall_now(), entry)
                    .map_err(|e| e.to_string())
            });
        if let Err(error) = kept {
            tracing::debug!(%error, "the lesson can't be kept");
        }
    }

    fn note(&self, what: &str, particulars: Value) {
        if let Some(trace) = self.trace
            && let Err(error) = trace.note(Timestamp::now(), what, particulars)
        {
            tracing::debug!(%error, "the trace can't be written");
        }
    }
}

fn short(text: &str) -> String {
    cut(words(text), SHOWN)
}

fn arguments(call: &ToolCall) -> Value {
    call.arguments.parse().unwrap_or_default()
}

/// A call in one line: its tool, and its short arguments.
fn action(call: &ToolCall) -> String {
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
