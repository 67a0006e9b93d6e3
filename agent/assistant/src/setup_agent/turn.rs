//! One request worked on by a language model: what was said and called, and what is next.
//!
//! - A turn is the fold of its [`TurnRecord`]s ([`Turn::apply`]), also after a restart.
//! - A tool runs only after its [`TurnRecord::ToolStarted`] and gets one
//!   [`TurnRecord::ToolFinished`].
//!   A tool that was running when the process died runs again only if it is read-only
//!   ([`Turn::records_on_resume`]).
//! - Calls of an answer that did not stop for them never run.
//! - A turn ends after its blueprint's maximum of model calls, at most [`MAX_STEPS`], the last
//!   without tools. It ends when it is handed over, after the call that spent its money, or when
//!   the conversation is full ([`super::context_window`]). The conversation is never shortened.
//!
//! Sans-IO. Not here: writing records ([`super::turn_log`]), the calls ([`super::drive`]).

use std::collections::BTreeMap;

use watchkeeper_llm::conversation::{
    AssistantTurn, Conversation, ConversationError, ToolCall, ToolResult,
};
use watchkeeper_llm::money::Money;
use watchkeeper_llm::usage::Usage;
use watchkeeper_llm::{Reply, StopReason};

use super::facts::{ToolFact, TurnFacts};
use super::tool::ToolSet;
use super::turn_record::{FORMAT, TurnEnd, TurnHead, TurnRecord};
use crate::blueprint::job::MAX_STEPS;
use crate::permissions::{Effect, ToolPermissions};

/// Age up to which an unfinished turn can resume, in seconds. Later its pictures are too old.
pub const RESUME_WINDOW_S: i64 = 3600;
/// Age up to which an unfinished question can resume, in seconds: its subject changes faster.
pub const QUESTION_RESUME_WINDOW_S: i64 = 300;
/// Result of a tool that was running when the process died.
const INTERRUPTED: &str = "interrupted: the agent stopped while this tool ran, so its effect is \
    unknown; it was not run \
    again";

/// Failed runs of a tool that are not counted, for each of its uses.
const FREE_FAILURES: u32 = 3;

/// Tools that make or propose a draft.
const DRAFT_TOOLS: [&str; 3] = ["validate_workflow", "propose_deployment", "propose_control"];
/// Added to an answer after which nothing waits, although a draft was made or failed.
const NOTHING_PROPOSED: &str = "Nothing was changed or proposed, so nothing waits for a yes.";

#[derive(Debug, Clone, PartialEq)]
pub enum TurnStep {
    /// Call the model.
    Ask {
        /// Whether it is the last call, without tools.
        last: bool,
    },
    /// Run or refuse this tool call.
    Run(ToolCall),
    End(TurnEnd),
}

/// Cost of a turn so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnCost {
    /// Calls of the model.
    pub asks: u32,
    /// Tools that were run.
    pub runs: u32,
    pub usage: Usage,
    pub cost: Money,
}

/// The state of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    head: TurnHead,
    conversation: Conversation,
    facts: TurnFacts,
    open_calls: Vec<OpenCall>,
    /// By tool: runs.
    runs: BTreeMap<String, u32>,
    /// By tool: runs that failed.
    failed_runs: BTreeMap<String, u32>,
    /// By tool: failed and refused calls.
    failed: BTreeMap<String, u32>,
    /// Whether the last draft or proposal failed.
    is_draft_failed: bool,
    spent: TurnCost,
    model: String,
    last_text: String,
    /// Why the last answer stopped, unless its calls are open.
    stop: Option<StopReason>,
    end: Option<TurnEnd>,
}

/// A tool call of the last answer.
#[derive(Debug, Clone, PartialEq)]
struct OpenCall {
    call: ToolCall,
    started: bool,
    result: Option<ToolResult>,
}

impl OpenCall {
    fn new(call: ToolCall) -> Self {
        Self {
            call,
            started: false,
            result: None,
        }
    }
}

/// A record that does not fit the turn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    #[error(transparent)]
    Conversation(#[from] ConversationError),
    #[error("unexpected record: {what}")]
    OutOfPlace { what: &'static str },
    #[error("the turn log has format {found}; this version reads {FORMAT}")]
    Format { found: u32 },
}

const fn out_of_place(what: &'static str) -> TurnError {
    TurnError::OutOfPlace { what }
}

impl Turn {
    /// Starts a turn from its first record.
    ///
    /// # Errors
    /// If it is not [`TurnRecord::Started`], or has another format.
    pub fn start(record: TurnRecord) -> Result<Self, TurnError> {
        let TurnRecord::Started {
            format,
            head,
            conversation,
        } = record
        else {
            return Err(out_of_place("not a start"));
        };
        if format != FORMAT {
            return Err(TurnError::Format { found: format });
        }
        let open = conversation.open_calls().into_iter().cloned();
        Ok(Self {
            head,
            open_calls: open.map(OpenCall::new).collect(),
            conversation: *conversation,
            facts: TurnFacts::default(),
            runs: BTreeMap::new(),
            failed_runs: BTreeMap::new(),
            failed: BTreeMap::new(),
            is_draft_failed: false,
            spent: TurnCost::default(),
            model: String::new(),
            last_text: String::new(),
            stop: None,
            end: None,
        })
    }

    /// Applies the next record.
    ///
    /// # Errors
    /// If the record does not fit. Drop the turn then: part of the record may be applied.
    pub fn apply(&mut self, record: TurnRecord) -> Result<(), TurnError> {
        if self.end.is_some() {
            return Err(out_of_place("a record after the end"));
        }
        match record {
            TurnRecord::Started { .. } => Err(out_of_place("a second start")),
            TurnRecord::Replied {
                turn,
                stop,
                model,
                usage,
                cost,
            } => self.apply_reply(*turn, stop, model, usage, cost),
            TurnRecord::ToolStarted { call } => {
                let open = self
                    .open_call(&call)
                    .ok_or(out_of_place("the start of an unknown call"))?;
                open.started = true;
                let name = open.call.name.clone();
                *self.runs.entry(name).or_default() += 1;
                self.spent.runs += 1;
                Ok(())
            }
            TurnRecord::ToolFinished { result, facts } => {
                let (call, is_error) = (result.call.clone(), result.is_error);
                let open = self
                    .open_call(&call)
                    .ok_or(out_of_place("the result of an unknown call"))?;
                let (name, begun) = (open.call.name.clone(), open.started);
                open.result = Some(*result);
                if begun && DRAFT_TOOLS.contains(&name.as_str()) {
                    self.is_draft_failed = is_error;
                }
                if is_error {
                    if begun {
                        *self.failed_runs.entry(name.clone()).or_default() += 1;
                    }
                    *self.failed.entry(name).or_default() += 1;
                }
                for fact in facts {
                    if let ToolFact::Delegated { cost, usage, .. } = &fact {
                        self.spent.usage = self.spent.usage.plus(usage);
                        self.spent.cost += *cost;
                    }
                    self.facts.add(fact);
                }
                if self.open_calls.iter().all(|open| open.result.is_some()) {
                    let open = std::mem::take(&mut self.open_calls);
                    let results = open.into_iter().filter_map(|open| open.result);
                    self.conversation.push_results(results.collect())?;
                }
                Ok(())
            }
            TurnRecord::Ended { end } => {
                self.end = Some(*end);
                Ok(())
            }
        }
    }

    fn apply_reply(
        &mut self,
        turn: AssistantTurn,
        stop: StopReason,
        model: String,
        usage: Usage,
        cost: Money,
    ) -> Result<(), TurnError> {
        if !self.open_calls.is_empty() {
            return Err(out_of_place("an answer while calls are open"));
        }
        let calls: Vec<ToolCall> = turn.calls().cloned().collect();
        let reply = Reply {
            id: String::new(),
            model: model.clone(),
            turn,
            stop: stop.clone(),
            usage,
        };
        self.conversation.push_turn(&reply.turn)?;
        self.facts.mark_answered();
        let runs = matches!(stop, StopReason::ToolUse);
        if runs {
            self.open_calls = calls.into_iter().map(OpenCall::new).collect();
        } else if !calls.is_empty() {
            let why = "not run: the answer did not stop for this call";
            let results = calls.iter().map(|call| refusal(call, why));
            self.conversation.push_results(results.collect())?;
        }
        self.last_text = reply.text();
        self.stop = (!runs).then_some(stop);
        self.model = model;
        self.spent.asks += 1;
        self.spent.usage = self.spent.usage.plus(&usage);
        self.spent.cost += cost;
        Ok(())
    }

    /// The call with this id, if it waits for its result.
    fn open_call(&mut self, id: &str) -> Option<&mut OpenCall> {
        let mut open = self.open_calls.iter_mut();
        open.find(|open| open.call.id == id && open.result.is_none())
    }

    pub fn next(&self) -> TurnStep {
        if let Some(end) = &self.end {
            return TurnStep::End(end.clone());
        }
        if let Some(open) = self.open_calls.iter().find(|open| open.result.is_none()) {
            return TurnStep::Run(open.call.clone());
        }
        if self.facts.is_handed_over() {
            return TurnStep::End(TurnEnd::HandOver);
        }
        let most = self.head.steps.clamp(1, MAX_STEPS);
        let may_ask = self.spent.asks < most && !self.has_spent_its_money();
        match &self.stop {
            Some(StopReason::Pause) | None if may_ask => TurnStep::Ask {
                last: self.spent.asks + 1 == most,
            },
            Some(_) | None => TurnStep::End(self.conclusion()),
        }
    }

    /// Whether the turn spent the money of its blueprint.
    fn has_spent_its_money(&self) -> bool {
        self.head.cost.is_some_and(|most| self.spent.cost >= most)
    }

    /// How the turn ends after the last answer.
    fn conclusion(&self) -> TurnEnd {
        let text = self.last_text.trim().to_owned();
        if let Some(made) = self.facts.to_proposal(&self.model) {
            let proposal = Box::new(made);
            return TurnEnd::Proposal { proposal, text };
        }
        let actions = self.facts.actions();
        if !actions.is_empty() {
            return TurnEnd::Actions { actions, text };
        }
        // Text before calls that led to nothing is not an answer.
        let is_cut = self.stop.is_none();
        match text.as_str() {
            _ if is_cut => {
                let (took, key) = match self.has_spent_its_money() {
                    true => (format!("cost {}", self.spent.cost), "cost_usd"),
                    false => (format!("took {} steps", self.spent.asks), "steps"),
                };
                let why = format!(
                    "the request {took}, the limit of the blueprint {} for one request; ask for \
                     less at once, or raise limits.{key}",
                    self.head.blueprint
                );
                TurnEnd::NoResult { why }
            }
            "" => TurnEnd::NoResult {
                why: "the language model gave no answer; ask again".to_owned(),
            },
            // The text may say that something waits for a yes.
            _ => TurnEnd::Answer {
                text: self.checked_answer(text),
            },
        }
    }

    /// The model's answer, with what it may not contradict: the rules' answers about the past, and
    /// that nothing was proposed.
    fn checked_answer(&self, text: String) -> String {
        let is_drafted = self.is_draft_failed || self.facts.draft_count() > 0;
        let mut lines = vec![text];
        lines.extend(
            self.facts
                .past()
                .map(|past| format!("By the journal: {past}")),
        );
        // Two searches may have been for the same.
        lines.dedup();
        lines.extend(is_drafted.then(|| NOTHING_PROPOSED.to_owned()));
        lines.join("\n")
    }

    /// How the turn ends if a prompt of `prompt` tokens exceeds `max_prompt`: with the proposal so
    /// far, or with the reason.
    pub fn end_when_full(&self, prompt: u64, max_prompt: u64) -> TurnEnd {
        match self.facts.to_proposal(&self.model) {
            Some(made) => TurnEnd::Proposal {
                proposal: Box::new(made),
                text: String::new(),
            },
            None => TurnEnd::NoResult {
                why: format!(
                    "the request has grown to {prompt} tokens and one call may have {max_prompt}; \
                        ask \
                     for less at once, or raise `tokens_per_call` of [llm]"
                ),
            },
        }
    }

    /// Records to append before an unfinished turn resumes: results of started tools that must not
    /// run twice.
    pub fn records_on_resume(&self, tools: &ToolSet) -> Vec<TurnRecord> {
        let begun = self
            .open_calls
            .iter()
            .filter(|o| o.started && o.result.is_none());
        let effect = |name: &str| tools.find(name).map(|tool| tool.effect);
        let lost = begun.filter(|open| effect(&open.call.name) != Some(Effect::Read));
        let answer = |open: &OpenCall| TurnRecord::ToolFinished {
            result: Box::new(refusal(&open.call, INTERRUPTED)),
            facts: Vec::new(),
        };
        lost.map(answer).collect()
    }

    /// Returns the tool of a call, if it may run.
    ///
    /// # Errors
    /// A sentence for the language model: the tool is unknown, forbidden or used up.
    pub fn check_call<'t>(
        &self,
        call: &ToolCall,
        tools: &'t ToolSet,
        permissions: &ToolPermissions,
    ) -> Result<&'t super::tool::Tool, String> {
        let Some(tool) = tools.find(&call.name) else {
            return Err(format!(
                "there is no tool {:?}; the tools are: {}",
                call.name.chars().take(60).collect::<String>(),
                tools.names().join(", ")
            ));
        };
        permissions.allows(tool.effect)?;
        let proposes = matches!(tool.effect, Effect::Propose | Effect::ProposeLoss);
        if proposes && self.head.plan_required && self.facts.plan().is_empty() {
            return Err(format!(
                "the blueprint {} requires a plan before a proposal: call update_plan with your \
                    steps, then {} again",
                self.head.blueprint, tool.name
            ));
        }
        let times =
            |counts: &BTreeMap<String, u32>| counts.get(tool.name).copied().unwrap_or_default();
        // A mistake costs no use, up to a number of them.
        let (used, failed, most) = (times(&self.runs), times(&self.failed_runs), tool.max_uses);
        if used.saturating_sub(failed.min(FREE_FAILURES * most)) >= most {
            return Err(format!(
                "{} was used {used} times, of which {failed} failed, and no call of it is left; \
                 continue with what you know",
                tool.name
            ));
        }
        Ok(tool)
    }

    pub fn head(&self) -> &TurnHead {
        &self.head
    }

    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    pub fn facts(&self) -> &TurnFacts {
        &self.facts
    }

    /// By tool: failed and refused calls.
    pub fn failed(&self) -> &BTreeMap<String, u32> {
        &self.failed
    }

    pub fn spent(&self) -> TurnCost {
        self.spent
    }

    /// Name of the model that answered last.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Whether the turn has ended.
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }
}

pub fn refusal(call: &ToolCall, why: &str) -> ToolResult {
    ToolResult {
        call: call.id.clone(),
        parts: vec![why.into()],
        is_error: true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
pub(crate) mod testing;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
