//! The loop of a turn: calls the language model and the tools it asks for, until the turn ends.
//!
//! - A record is in the turn log before the next step.
//! - An error of the model is one sentence. The turn log stays, so the same request can resume.
//! - Every call, result and permission is traced; pictures by their hash.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use watchkeeper_llm::attempt_error::{AttemptError, AttemptErrorKind};
use watchkeeper_llm::call_options::ToolChoice;
use watchkeeper_llm::client::LlmError;
use watchkeeper_llm::conversation::{AssistantPart, ToolCall, ToolResult, UserPart};
use watchkeeper_llm::money::Money;
use watchkeeper_llm::{CallOptions, Job, Reply};
use xxhash_rust::xxh3::xxh3_128;

use super::context_window::{self, ContextBudget};
use super::delegation::Delegation;
use super::facts::ToolFact;
use super::job_spec::SetupSpec;
use super::reflection::{about_error, error_text};
use super::tool::{ToolInput, ToolOutcome};
use super::tool_context::ToolContext;
use super::turn::{TurnStep, refusal};
use super::turn_log::{TurnLog, TurnLogError};
use super::turn_record::{TurnEnd, TurnRecord};
use crate::llm::ask_and_report;
use crate::trace::{self, Trace, without_secrets};

/// Maximum tokens of one answer. A workflow of twenty steps takes about 2,000.
const MAX_OUTPUT: u32 = 6_000;
/// Longest text of a result in the trace, in characters.
const MAX_TRACED_CHARS: usize = 2_000;

/// Progress of a turn that a user sees.
#[derive(Debug)]
pub enum TurnProgress<'s> {
    /// The model is called.
    Asking,
    /// A call failed, and is repeated after the pause.
    Retrying(&'s AttemptError, Duration),
    /// The model answered: the cost of the turn so far.
    Spent(&'s super::turn::TurnCost),
    /// Text or thought of the model before a call; may be long.
    Thought(&'s str),
    Using(&'s ToolCall),
    Failed(&'s ToolCall, &'s str),
    Plan(&'s [super::facts::PlanStep]),
}

/// Why a turn stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum TurnStopped {
    /// The model failed, or the budget does not allow the call.
    #[error(transparent)]
    Model(#[from] LlmError),
    /// The turn log can't be written.
    #[error(transparent)]
    Log(#[from] TurnLogError),
}

impl TurnStopped {
    /// Whether the same request may resume here later. A refused conversation is not sent again.
    pub fn is_resumable(&self) -> bool {
        match self {
            Self::Model(LlmError::Failed { error, .. }) => !matches!(
                error.kind,
                AttemptErrorKind::Refused
                    | AttemptErrorKind::ContextFull
                    | AttemptErrorKind::BadRequest
                    | AttemptErrorKind::TooLarge
            ),
            Self::Model(LlmError::Encode(_)) | Self::Log(_) => false,
            Self::Model(
                LlmError::Budget(_)
                | LlmError::BreakerOpen { .. }
                | LlmError::Deadline { .. }
                | LlmError::Ledger(_),
            ) => true,
        }
    }
}

/// Drives a turn from its log with a client job.
#[derive(Debug)]
pub struct TurnDriver<'d> {
    pub context: &'d ToolContext,
    pub spec: &'d SetupSpec,
    /// `None`: no trace.
    pub trace: Option<&'d Trace>,
    /// Other blueprints; `None` for a turn that reaches none.
    pub delegation: Option<&'d dyn Delegation>,
}

impl TurnDriver<'_> {
    /// Drives the turn of `log` to its end with `job`.
    ///
    /// # Errors
    /// [`TurnStopped`], if it can't continue now.
    pub async fn run(
        &self,
        log: &mut TurnLog,
        job: &mut Job,
        on_progress: &mut (dyn FnMut(TurnProgress<'_>) + Send),
    ) -> Result<TurnEnd, TurnStopped> {
        loop {
            match log.turn.next() {
                TurnStep::Ask { last } => self.ask(log, job, last, on_progress).await?,
                TurnStep::Run(call) => self.call(log, &call, on_progress).await?,
                TurnStep::End(end) => {
                    if !log.turn.is_over() {
                        let record = TurnRecord::Ended {
                            end: Box::new(end.clone()),
                        };
                        log.append_in_background(record).await?;
                    }
                    return Ok(end);
                }
            }
        }
    }

    /// Calls the language model once, or ends the turn if the conversation has no room.
    async fn ask(
        &self,
        log: &mut TurnLog,
        job: &mut Job,
        last: bool,
        on_progress: &mut (dyn FnMut(TurnProgress<'_>) + Send),
    ) -> Result<(), TurnStopped> {
        let prompt = job.prompt(log.turn.conversation());
        let max_prompt = job.max_prompt(MAX_OUTPUT);
        let budget = self.context_budget(log, prompt, max_prompt);
        if budget == ContextBudget::Exhausted {
            let end = Box::new(log.turn.end_when_full(prompt, max_prompt));
            return Ok(log.append_in_background(TurnRecord::Ended { end }).await?);
        }
        on_progress(TurnProgress::Asking);
        let mut options = CallOptions::new(MAX_OUTPUT);
        if last || budget == ContextBudget::AnswerOnly {
            options = options.choice(ToolChoice::Never);
        }
        let head = log.turn.head();
        let details = json!({
            "turn": head.id, "nth": log.turn.spent().asks + 1, "of_most": head.steps,
            "blueprint": head.blueprint,
        });
        let (_, before) = job.spent();
        let mut on_retry = |error: &AttemptError, pause: Duration| {
            on_progress(TurnProgress::Retrying(error, pause));
        };
        let talk = log.turn.conversation();
        let reply = ask_and_report(self.trace, job, talk, &options, details, &mut on_retry).await;
        let (_, after) = job.spent();
        let cost = Money(after.0.saturating_sub(before.0));
        match reply {
            Ok(reply) => self.record_reply(log, reply, cost, on_progress).await,
            // The provider counts more tokens than the estimate: the turn ends as if by ours.
            Err(error) if is_too_long(&error) && log.turn.spent().asks > 0 => {
                let end = Box::new(log.turn.end_when_full(prompt, max_prompt));
                Ok(log.append_in_background(TurnRecord::Ended { end }).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The room of the conversation, traced if it is little.
    fn context_budget(&self, log: &TurnLog, prompt: u64, max_prompt: u64) -> ContextBudget {
        // The first call always goes out: if it does not fit, the LLM client's error says so.
        let budget = match log.turn.spent().asks {
            0 => ContextBudget::Enough,
            _ => context_window::budget(prompt, max_prompt),
        };
        let sentence = match budget {
            ContextBudget::Enough => return budget,
            ContextBudget::AnswerOnly => {
                "the conversation has room for an answer, but not for another tool"
            }
            ContextBudget::Exhausted => "the conversation has no room for another call",
        };
        trace::note(self.trace, "little_room", || {
            json!({
                "turn": log.turn.head().id, "tokens": prompt, "most": max_prompt,
                "sentence": sentence,
            })
        });
        budget
    }

    /// Traces and reports the thoughts of a reply, and appends it to the turn log.
    async fn record_reply(
        &self,
        log: &mut TurnLog,
        reply: Reply,
        cost: Money,
        on_progress: &mut (dyn FnMut(TurnProgress<'_>) + Send),
    ) -> Result<(), TurnStopped> {
        let head = log.turn.head();
        for part in &reply.turn.parts {
            let (what, text) = match part {
                AssistantPart::Thinking(text) => ("thought", text),
                AssistantPart::Text(text) => ("said", text),
                AssistantPart::Call(_) => continue,
            };
            if !text.trim().is_empty() {
                trace::note(
                    self.trace,
                    what,
                    || json!({"turn": head.id, "text": cut(text)}),
                );
                if reply.calls().next().is_some() || what == "thought" {
                    on_progress(TurnProgress::Thought(text));
                }
            }
        }
        log.append_in_background(TurnRecord::Replied {
            turn: Box::new(reply.turn),
            stop: reply.stop,
            model: reply.model,
            usage: reply.usage,
            cost,
        })
        .await?;
        on_progress(TurnProgress::Spent(&log.turn.spent()));
        Ok(())
    }

    /// Runs one tool call, or refuses it, and appends the result to the turn log.
    async fn call(
        &self,
        log: &mut TurnLog,
        call: &ToolCall,
        on_progress: &mut (dyn FnMut(TurnProgress<'_>) + Send),
    ) -> Result<(), TurnStopped> {
        let id = log.turn.head().id.clone();
        let checked = log
            .turn
            .check_call(call, &self.spec.tools, &self.spec.permissions);
        trace::note(self.trace, "gate", || {
            let tool = checked.as_ref().ok();
            json!({
                "turn": id, "tool": call.name, "call": call.id, "effect": tool.map(|t| t.effect),
                "decision": if tool.is_some() { "allowed" } else { "refused" },
                "sentence": checked.as_ref().err(),
            })
        });
        let tool = match checked {
            Ok(tool) => tool,
            Err(why) => {
                on_progress(TurnProgress::Failed(call, &why));
                let record = TurnRecord::ToolFinished {
                    result: Box::new(refusal(call, &why)),
                    facts: Vec::new(),
                };
                return Ok(log.append_in_background(record).await?);
            }
        };
        trace::note(self.trace, "tool", || {
            json!({"turn": id, "tool": call.name, "call": call.id,
            "arguments": cut(&without_secrets(call.arguments.text()))})
        });
        log.append_in_background(TurnRecord::ToolStarted {
            call: call.id.clone(),
        })
        .await?;
        on_progress(TurnProgress::Using(call));
        let given = ToolInput {
            context: self.context,
            head: log.turn.head(),
            facts: log.turn.facts(),
            spent: log.turn.spent().cost,
            arguments: &call.arguments,
            delegation: self.delegation,
        };
        let outcome = (tool.run)(given).await;
        let mut outcome = outcome.within_one_yes(log.turn.facts());
        if outcome.is_error {
            let notes = self.context.memory.as_ref();
            let reminder = about_error(notes, &log.turn, call, &outcome.parts).await;
            outcome.parts.extend(reminder);
        }
        trace::note(self.trace, "result", || {
            let parts: Vec<Value> = outcome.parts.iter().map(to_trace).collect();
            json!({"turn": id, "tool": call.name, "call": call.id, "is_error": outcome.is_error,
            "parts": parts})
        });
        report_outcome(call, &outcome, on_progress);
        Ok(log.append_in_background(finished(call, outcome)).await?)
    }
}

/// Shows a failure and a new plan to the user.
fn report_outcome(
    call: &ToolCall,
    outcome: &ToolOutcome,
    on_progress: &mut (dyn FnMut(TurnProgress<'_>) + Send),
) {
    if outcome.is_error {
        on_progress(TurnProgress::Failed(call, error_text(&outcome.parts)));
    }
    for fact in &outcome.facts {
        if let ToolFact::Plan { steps } = fact {
            on_progress(TurnProgress::Plan(steps));
        }
    }
}

/// Whether the provider rejected a conversation as too long.
fn is_too_long(error: &LlmError) -> bool {
    matches!(
        error,
        LlmError::Failed { error, .. }
            if matches!(error.kind, AttemptErrorKind::ContextFull | AttemptErrorKind::TooLarge)
    )
}

fn finished(call: &ToolCall, outcome: ToolOutcome) -> TurnRecord {
    TurnRecord::ToolFinished {
        result: Box::new(ToolResult {
            call: call.id.clone(),
            parts: outcome.parts,
            is_error: outcome.is_error,
        }),
        facts: outcome.facts,
    }
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_TRACED_CHARS).collect()
}

/// A part of a result for the trace; a picture by its hash.
fn to_trace(part: &UserPart) -> Value {
    match part {
        UserPart::Text(text) => json!({"text": cut(&without_secrets(text))}),
        UserPart::Picture(picture) => {
            json!({"picture": hash(&picture.bytes), "bytes": picture.bytes.len(),
            "px": [picture.width, picture.height]})
        }
    }
}

/// XXH3 of a picture, 128 bits: identifies equal pictures, and is not protection against forgery.
fn hash(bytes: &Bytes) -> String {
    format!("xxh3:{:032x}", xxh3_128(bytes))
}
