//! The loop: asks the model, runs what it calls, until the turn is over.
//!
//! Invariants: what happens is written down before the next thing is done about it; whatever keeps the model away is one sentence, and the turn stays
//! on the disk, so that the same request goes on from there; every call, result and decision of the gate is traced, pictures by their hash.

use std::sync::Mutex;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use watchkeeper_llm::attempt_error::AttemptErrorKind;
use watchkeeper_llm::call_options::ToolChoice;
use watchkeeper_llm::client::LlmError;
use watchkeeper_llm::conversation::{AssistantPart, ToolCall, ToolResult, UserPart};
use watchkeeper_llm::{CallOptions, Job};
use xxhash_rust::xxh3::xxh3_128;

use super::context_window::{self, ContextBudget};
use super::facts::ToolFact;
use super::job_spec::SetupSpec;
use super::tool::{ToolInput, ToolOutcome};
use super::tool_context::ToolContext;
use super::turn::{TurnEnd, TurnRecord, TurnStep, refusal};
use super::turn_log::{TurnLog, TurnLogError};
use crate::trace::{Trace, without_secrets};

/// Most tokens of one answer. A workflow of twenty steps takes some 2,000.
const MAX_OUTPUT: u32 = 6_000;
/// Longest text of a result in the trace, in characters.
const TRACED: usize = 2_000;

/// Something for the person to see while it goes on.
#[derive(Debug)]
pub enum TurnProgress<'s> {
    /// The model is asked.
    Asking,
    /// It answered: what the turn has cost so far.
    Spent(&'s super::turn::TurnCost),
    /// What it thought or said before a call; may be long.
    Thought(&'s str),
    /// A tool is used.
    Using(&'s ToolCall),
    /// A tool failed or was refused.
    Failed(&'s ToolCall, &'s str),
    /// The plan is this now.
    Plan(&'s [super::facts::PlanStep]),
}

/// Why a turn stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum TurnStopped {
    /// The model is away, or can't be afforded.
    #[error(transparent)]
    Model(#[from] LlmError),
    /// It can't be written down.
    #[error(transparent)]
    Ahead(#[from] TurnLogError),
}

impl TurnStopped {
    /// Whether the same request may go on from here later. A model that refused is not shown the same again.
    #[must_use]
    pub fn goes_on_later(&self) -> bool {
        match self {
            Self::Model(LlmError::Failed { error, .. }) => !matches!(
                error.kind,
                AttemptErrorKind::Refused
                    | AttemptErrorKind::ContextFull
                    | AttemptErrorKind::BadRequest
                    | AttemptErrorKind::TooLarge
            ),
            Self::Model(LlmError::Encode(_)) | Self::Ahead(_) => false,
            Self::Model(
                LlmError::Budget(_)
                | LlmError::BreakerOpen { .. }
                | LlmError::Deadline { .. }
                | LlmError::Ledger(_),
            ) => true,
        }
    }
}

/// What a turn is driven with.
#[derive(Debug)]
pub struct TurnDriver<'d> {
    /// The way to the box.
    pub hands: &'d ToolContext,
    /// What it works by.
    pub brief: &'d SetupSpec,
    /// Where it is traced; `None`: nowhere.
    pub trace: Option<&'d Trace>,
}

impl TurnDriver<'_> {
    /// Drives the turn of `ahead` to its end with `job`.
    ///
    /// # Errors
    /// [`TurnStopped`], when it can't go on now.
    pub async fn run(
        &self,
        ahead: &mut TurnLog,
        job: &mut Job,
        seen: &mut (dyn FnMut(TurnProgress<'_>) + Send),
    ) -> Result<TurnEnd, TurnStopped> {
        loop {
            match ahead.turn.next() {
                TurnStep::Ask { last } => self.ask(ahead, job, last, seen).await?,
                TurnStep::Run(call) => self.call(ahead, &call, seen).await?,
                TurnStep::End(end) => {
                    if !ahead.turn.is_over() {
                        let record = TurnRecord::Ended {
                            end: Box::new(end.clone()),
                        };
                        ahead.note(record)?;
                    }
                    return Ok(end);
                }
            }
        }
    }

    async fn ask(
        &self,
        ahead: &mut TurnLog,
        job: &mut Job,
        last: bool,
        seen: &mut (dyn FnMut(TurnProgress<'_>) + Send),
    ) -> Result<(), TurnStopped> {
        let (prompt, most) = (job.prompt(ahead.turn.talk()), job.max_prompt(MAX_OUTPUT));
        // The first question is never too long for its own sake: where it has no room, the sentence about the budget says so.
        let room = match ahead.turn.spent().asks {
            0 => ContextBudget::Enough,
            _ => context_window::ask(prompt, most),
        };
        if room != ContextBudget::Enough {
            self.note("little_room", || {
                json!({
                    "turn": ahead.turn.head().id, "tokens": prompt, "most": most,
                    "sentence": match room {
                        ContextBudget::None => "the conversation has no room for another call",
                        ContextBudget::Enough | ContextBudget::ForAnAnswer => "the conversation has room for an answer, and for no further tool",
                    },
                })
            });
        }
        if room == ContextBudget::None {
            let end = Box::new(ahead.turn.full(prompt, most));
            return Ok(ahead.note(TurnRecord::Ended { end })?);
        }
        seen(TurnProgress::Asking);
        let mut ask = CallOptions::new(MAX_OUTPUT);
        if last || room == ContextBudget::ForAnAnswer {
            ask = ask.choice(ToolChoice::Never);
        }
        let (_, before) = job.spent();
        let again = Mutex::new(Vec::new());
        let reply = job
            .ask(ahead.turn.talk(), &ask, &mut |progress| {
                if let watchkeeper_llm::client::Progress::Retry { error, .. } = progress
                    && let Ok(mut again) = again.lock()
                {
                    again.push(error.to_string());
                }
            })
            .await;
        for sentence in again.into_inner().unwrap_or_default() {
            self.note(
                "model_again",
                || json!({"turn": ahead.turn.head().id, "sentence": sentence}),
            );
        }
        let (_, after) = job.spent();
        let cost = watchkeeper_llm::money::Money(after.0.saturating_sub(before.0));
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => {
                self.note("model_away", || {
                    json!({"turn": ahead.turn.head().id, "sentence": error.to_string(), "usd": cost.dollars()})
                });
                // Longer by the provider's count than by ours: the same end as by ours.
                if let LlmError::Failed { error, .. } = &error
                    && matches!(
                        error.kind,
                        AttemptErrorKind::ContextFull | AttemptErrorKind::TooLarge
                    )
                    && ahead.turn.spent().asks > 0
                {
                    let end = Box::new(ahead.turn.full(prompt, most));
                    return Ok(ahead.note(TurnRecord::Ended { end })?);
                }
                return Err(error.into());
            }
        };
        self.note("model", || json!({
            "turn": ahead.turn.head().id, "model": reply.model, "stop": reply.stop, "usd": cost.dollars(),
            "tokens": reply.usage.total(), "nth": ahead.turn.spent().asks + 1, "of_most": ahead.turn.head().steps,
            "blueprint": ahead.turn.head().blueprint,
        }));
        for part in &reply.turn.parts {
            let (what, text) = match part {
                AssistantPart::Thinking(text) => ("thought", text),
                AssistantPart::Text(text) => ("said", text),
                AssistantPart::Call(_) => continue,
            };
            if !text.trim().is_empty() {
                self.note(
                    what,
                    || json!({"turn": ahead.turn.head().id, "text": cut(text)}),
                );
                if reply.calls().next().is_some() || what == "thought" {
                    seen(TurnProgress::Thought(text));
                }
            }
        }
        let record = TurnRecord::Said {
            turn: Box::new(reply.turn),
            stop: reply.stop,
            model: reply.model,
            usage: reply.usage,
            cost,
        };
        ahead.note(record)?;
        seen(TurnProgress::Spent(&ahead.turn.spent()));
        Ok(())
    }

    async fn call(
        &self,
        ahead: &mut TurnLog,
        call: &ToolCall,
        seen: &mut (dyn FnMut(TurnProgress<'_>) + Send),
    ) -> Result<(), TurnStopped> {
        let id = ahead.turn.head().id.clone();
        let permit = ahead.turn.permit(call, &self.brief.tools, &self.brief.gate);
        self.note("gate", || {
            let tool = permit.as_ref().ok();
            json!({
                "turn": id, "tool": call.name, "call": call.id, "effect": tool.map(|t| t.effect), "scope": tool.map(|t| t.scope),
                "decision": if tool.is_some() { "allowed" } else { "refused" }, "sentence": permit.as_ref().err(),
            })
        });
        let tool = match permit {
            Ok(tool) => tool,
            Err(why) => {
                seen(TurnProgress::Failed(call, &why));
                let record = TurnRecord::Came {
                    result: Box::new(refusal(call, &why)),
                    facts: Vec::new(),
                };
                return Ok(ahead.note(record)?);
            }
        };
        self.note("tool", || {
            json!({"turn": id, "tool": call.name, "call": call.id, "arguments": cut(&without_secrets(call.arguments.text()))})
        });
        ahead.note(TurnRecord::Begins {
            call: call.id.clone(),
        })?;
        seen(TurnProgress::Using(call));
        let given = ToolInput {
            hands: self.hands,
            head: ahead.turn.head(),
            facts: ahead.turn.facts(),
            arguments: &call.arguments,
        };
        let outcome = (tool.run)(given).await;
        self.note("result", || {
            let parts: Vec<Value> = outcome.parts.iter().map(traced).collect();
            json!({"turn": id, "tool": call.name, "call": call.id, "is_error": outcome.is_error, "parts": parts})
        });
        if outcome.is_error
            && let Some(UserPart::Text(why)) = outcome.parts.last()
        {
            seen(TurnProgress::Failed(call, why));
        }
        for fact in &outcome.facts {
            if let ToolFact::Plan { steps } = fact {
                seen(TurnProgress::Plan(steps));
            }
        }
        Ok(ahead.note(came(call, outcome))?)
    }

    /// Writes to the trace. That it can't be written is no reason to stop.
    fn note(&self, what: &str, particulars: impl FnOnce() -> Value) {
        if let Some(trace) = self.trace
            && let Err(error) = trace.note(Timestamp::now(), what, particulars())
        {
            tracing::debug!(%error, "the trace can't be written");
        }
    }
}

fn came(call: &ToolCall, outcome: ToolOutcome) -> TurnRecord {
    TurnRecord::Came {
        result: Box::new(ToolResult {
            call: call.id.clone(),
            parts: outcome.parts,
            is_error: outcome.is_error,
        }),
        facts: outcome.facts,
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TRACED).collect()
}

/// A part of a result as it is traced: a picture by its hash.
fn traced(part: &UserPart) -> Value {
    match part {
        UserPart::Text(text) => json!({"text": cut(&without_secrets(text))}),
        UserPart::Picture(picture) => {
            json!({"picture": hash(&picture.bytes), "bytes": picture.bytes.len(), "px": [picture.width, picture.height]})
        }
    }
}

/// What a picture is recognised by (XXH3, 128 bits): for finding the same one again, not against somebody.
fn hash(bytes: &Bytes) -> String {
    format!("xxh3:{:032x}", xxh3_128(bytes))
}
