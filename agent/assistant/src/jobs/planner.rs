//! Asks a language model for a plan, and shows it the faults of each proposal.
//!
//! - Calls and money are bounded by the blueprint, and by the budget of the client.
//! - Each call, proposal and result is traced.

use std::time::Duration;

use jiff::civil::DateTime;
use serde_json::{Value, json};
use watchkeeper_config::redact;
use watchkeeper_jobs::plan::{Change, CheckedPlan};
use watchkeeper_jobs::{Toolbox, counted};
use watchkeeper_llm::client::LlmError;
use watchkeeper_llm::conversation::{ToolCall, ToolResult};
use watchkeeper_llm::money::Money;
use watchkeeper_llm::picture::Detail;
use watchkeeper_llm::{CallOptions, Client, Conversation, Job, JobSpec, Reply};

use super::prompt::{self, PROPOSE};
use super::proposal::{PlanTask, check_proposal};
use crate::blueprint::{Blueprint, Job as BlueprintJob};
use crate::llm::{ask_traced, start_job};
use crate::permissions::Entrypoint;
use crate::session::setup_runner::call_class;
use crate::trace::{self, Trace, without_secrets};
use crate::wording::{cut, printable};

/// Time for all calls of one request.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Most tokens of one answer. A plan of twenty steps takes about 1,500.
const MAX_OUTPUT: u32 = 6_000;
/// Longest text of a model that a user or the trace gets, in characters.
const MAX_TEXT: usize = 400;
/// Longest arguments and results in the trace, in characters.
const MAX_TRACED: usize = 2_000;

/// A plan that a model proposed and that is valid.
#[derive(Debug)]
pub struct ModelPlan {
    pub plan: CheckedPlan,
    /// Repairs of the plan.
    pub changes: Vec<Change>,
    pub model: String,
    pub calls: u32,
    pub cost: Money,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanningError {
    #[error("{0}")]
    Setup(String),
    #[error(transparent)]
    Model(#[from] LlmError),
    /// The model says why it can't be done.
    #[error("the language model has no plan for it: {0}")]
    Declined(String),
    /// The last proposal has faults, and no call is left.
    #[error("no valid plan in {}: {}", counted(*.calls as usize, "call"), .faults.join("; "))]
    Invalid { calls: u32, faults: Vec<String> },
}

/// Plans by a language model.
#[derive(Debug)]
pub struct ModelPlanner<'m> {
    pub client: &'m Client,
    pub blueprint: &'m Blueprint,
    pub entrypoint: Entrypoint,
    pub tools: &'m Toolbox,
    /// Preferences of the user, the newest first.
    pub preferences: Vec<Value>,
    /// `None`: no trace.
    pub trace: Option<&'m Trace>,
}

impl ModelPlanner<'_> {
    /// Asks for a plan; `now` is the local time of the request. `accepts` returns what else is
    /// wrong with a valid plan.
    ///
    /// # Errors
    /// [`PlanningError`], a sentence for the user.
    pub async fn propose(
        &self,
        request: &str,
        now: DateTime,
        task: &PlanTask<'_>,
        accepts: &(dyn Fn(&CheckedPlan) -> Vec<String> + Sync),
    ) -> Result<ModelPlan, PlanningError> {
        let shown = redact::message(request).unwrap_or_else(|| request.to_owned());
        // All of them: the same system prompt in each request is read from the provider's cache.
        let usable = self.tools.for_models();
        let tools: Vec<_> = usable.specs().collect();
        let words = prompt::UserWords {
            request: &shown,
            now,
            preferences: &self.preferences,
        };
        let mut conversation = prompt::conversation(self.blueprint, &tools, words, task)
            .map_err(PlanningError::Setup)?;
        trace::note(
            self.trace,
            "job_request",
            || json!({"text": shown, "task": name(task), "preferences": self.preferences}),
        );
        let mut job = self.start_job()?;
        let mut faults = Vec::new();
        let mut calls = 0;
        while calls < self.blueprint.steps && job.spent().1 < self.blueprint.cost {
            let reply = self.ask(&mut job, &conversation).await?;
            calls += 1;
            let proposals: Vec<ToolCall> = reply.turn.calls().cloned().collect();
            if proposals.is_empty() {
                return Err(PlanningError::Declined(reply_line(&reply)));
            }
            self.refresh_names().await;
            let is_complete = reply.calls().next().is_some();
            let mut results = Vec::new();
            for call in &proposals {
                let checked = match is_complete && call.name == PROPOSE {
                    true => {
                        let text = call.arguments.text();
                        check_proposal(text, request, task, &usable, accepts)
                    }
                    false => Err(vec![format!("not run; call {PROPOSE} with a plan")]),
                };
                self.trace_proposal(call, checked.as_ref().err());
                match checked {
                    Ok(repaired) => {
                        return Ok(ModelPlan {
                            plan: repaired.plan,
                            changes: repaired.changes,
                            model: reply.model.clone(),
                            calls,
                            cost: job.spent().1,
                        });
                    }
                    Err(found) => {
                        results.push(refusal(call, &found));
                        faults = found;
                    }
                }
            }
            let pushed = conversation
                .push_turn(&reply.turn)
                .and_then(|()| conversation.push_results(results));
            pushed.map_err(|error| PlanningError::Setup(error.to_string()))?;
        }
        Err(PlanningError::Invalid { calls, faults })
    }

    /// Asks the runtime for its lists off the event loop: the check of a proposal needs them.
    async fn refresh_names(&self) {
        let tools = self.tools.clone();
        let asked = tokio::task::spawn_blocking(move || drop(tools.names()));
        asked.await.ok();
    }

    /// Starts the job of the ledger, with the model of the blueprint.
    fn start_job(&self) -> Result<Job, PlanningError> {
        let blueprint = self.blueprint;
        let spec = JobSpec {
            name: format!("{}/{}", blueprint.name, ulid::Ulid::new()),
            class: call_class(BlueprintJob::Jobs, self.entrypoint),
            rule: None,
            tier: blueprint.model.tier(),
            detail: Detail::Low,
            time: TIMEOUT,
        };
        start_job(self.client, blueprint, spec).map_err(PlanningError::Setup)
    }

    async fn ask(
        &self,
        job: &mut Job,
        conversation: &Conversation,
    ) -> Result<Reply, PlanningError> {
        let options = CallOptions {
            parallel: false,
            ..CallOptions::new(MAX_OUTPUT)
        };
        let details = json!({"blueprint": self.blueprint.name});
        Ok(ask_traced(self.trace, job, conversation, &options, details).await?)
    }

    fn trace_proposal(&self, call: &ToolCall, faults: Option<&Vec<String>>) {
        trace::note(self.trace, "tool", || {
            let arguments = cut(without_secrets(call.arguments.text()), MAX_TRACED);
            json!({"tool": printable(&call.name), "call": call.id, "arguments": arguments})
        });
        trace::note(
            self.trace,
            "result",
            || json!({"call": call.id, "is_error": faults.is_some(), "faults": faults}),
        );
    }
}

const fn name(task: &PlanTask<'_>) -> &'static str {
    match task {
        PlanTask::New => "plan",
        PlanTask::Refine { .. } => "refine",
        PlanTask::Revise(_) => "revise",
    }
}

/// The words of a model in one line.
fn reply_line(reply: &Reply) -> String {
    let text = reply.text();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.is_empty() {
        true => "it says nothing".to_owned(),
        false => cut(printable(&line).into_owned(), MAX_TEXT),
    }
}

fn refusal(call: &ToolCall, faults: &[String]) -> ToolResult {
    let text = format!(
        "Not accepted. Correct all of these and propose the whole plan again:\n- {}",
        faults.join("\n- ")
    );
    ToolResult {
        call: call.id.clone(),
        parts: vec![text.as_str().into()],
        is_error: true,
    }
}
