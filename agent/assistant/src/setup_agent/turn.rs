//! One request on its way through a model: what was said, what was called, what came of it, and what is next.
//!
//! A turn is the fold of its [`TurnRecord`]s, in the order in which they were written: one that goes on after a crash was made of the same records as one
//! that never stopped, by the same code ([`Turn::take`]).
//!
//! Invariants:
//! - a call is run only after its [`TurnRecord::Begins`], and gets exactly one [`TurnRecord::Came`]; one that had begun when the process died is run again only
//!   where it only looks ([`Turn::resumed`]);
//! - calls of an answer that did not stop for them are never run;
//! - it ends: after as many calls of the model as its blueprint allows, at most [`MAX_ASKS`], the last of which may not use a tool; or after the call
//!   by which its money was spent; or where what was said has no room any more ([`super::context_window`]). Nothing that was said is taken back or made shorter.
//!
//! Sans-IO. Not here: who writes the records, who asks the model, who runs a tool.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use watchkeeper_llm::conversation::{
    AssistantTurn, Conversation, ConversationError, ToolCall, ToolResult,
};
use watchkeeper_llm::money::Money;
use watchkeeper_llm::usage::Usage;
use watchkeeper_llm::{Reply, StopReason};

use super::facts::{ToolFact, TurnFacts};
use super::tool::ToolSet;
use crate::permissions::{Effect, Entrypoint, ToolPermissions};
use crate::proposal::llm_proposal::LlmProposal;

/// Most calls of the model in one turn.
pub const MAX_ASKS: u32 = 20;
/// For how long a turn that broke off is gone on with, in seconds. After that the pictures in it are too old.
pub const PATIENCE_S: i64 = 3600;
/// The same of a question: what it was about has changed since.
pub const PATIENCE_OF_QUESTIONS_S: i64 = 300;
/// What is said of a call that had begun when the process died.
const INTERRUPTED: &str = "interrupted: the agent was ended while this ran, so it is not known whether it was done; it was not run again";

/// How a turn began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnHead {
    /// Name of the turn in the trace and the ledger.
    pub id: String,
    /// The person's words.
    pub request: String,
    /// When they were said.
    pub at: Timestamp,
    /// Socket of the runtime that it is about.
    pub socket: String,
    /// Name of the blueprint that it is done by.
    #[serde(default = "before_blueprints")]
    pub blueprint: String,
    /// Which way it came in.
    #[serde(default = "before_channels")]
    pub channel: Entrypoint,
    /// What the words came with, by hash: pictures, and over the API, where there are many conversations, what was said before. The same words with something
    /// else are another request.
    #[serde(default)]
    pub context: String,
    /// Most calls of the model, as the blueprint had them when it began.
    #[serde(default = "most_asks")]
    pub steps: u32,
    /// No further call is made once this was spent; `None`: the limits of the box alone count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
}

/// What every turn was before there were blueprints: a file of such a one may be gone on with.
fn before_blueprints() -> String {
    crate::blueprint::Job::SetUp.name().to_owned()
}

/// What every turn is taken for whose file does not say.
const fn before_channels() -> Entrypoint {
    Entrypoint::Ask
}

const fn most_asks() -> u32 {
    MAX_ASKS
}

/// What happened, as it is written down before anything is done about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum TurnRecord {
    /// The turn begins.
    Begun {
        /// Format of the records.
        format: u32,
        /// How.
        head: TurnHead,
        /// What the model is told of its job, its tools, and the request.
        talk: Box<Conversation>,
    },
    /// The model said something.
    Said {
        /// What.
        turn: Box<AssistantTurn>,
        /// Why it stopped.
        stop: StopReason,
        /// The model, in the provider's words.
        model: String,
        /// What it consumed.
        usage: Usage,
        /// What it cost.
        cost: Money,
    },
    /// A call is about to be run.
    Begins {
        /// Its id.
        call: String,
    },
    /// A call is answered.
    Came {
        /// With what.
        result: Box<ToolResult>,
        /// What it left.
        facts: Vec<ToolFact>,
    },
    /// It is over.
    Ended {
        /// How.
        end: Box<TurnEnd>,
    },
}

/// Format of the records.
pub const FORMAT: u32 = 1;

/// How a turn ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum TurnEnd {
    /// With an answer, and nothing to confirm.
    Answer {
        /// The model's words.
        text: String,
    },
    /// With a proposal.
    Proposal {
        /// What would change.
        made: Box<LlmProposal>,
        /// The model's words beside it; may be empty.
        text: String,
    },
    /// With nothing, and why.
    Nothing {
        /// One sentence.
        why: String,
    },
}

/// What is next.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnStep {
    /// The model is asked.
    Ask {
        /// Whether it may not use a tool any more.
        last: bool,
    },
    /// This call is run, or refused.
    Run(ToolCall),
    /// It is over.
    End(TurnEnd),
}

/// What was spent on a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnCost {
    /// Answers of the model.
    pub asks: u32,
    /// Calls of tools that were run.
    pub runs: u32,
    /// Tokens.
    pub usage: Usage,
    /// Money.
    pub cost: Money,
}

/// A turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    head: TurnHead,
    talk: Conversation,
    facts: TurnFacts,
    open: Vec<OpenCall>,
    used: BTreeMap<String, u32>,
    /// How often each was run and failed.
    in_vain: BTreeMap<String, u32>,
    /// How often each tool failed or was refused.
    failed: BTreeMap<String, u32>,
    spent: TurnCost,
    model: String,
    said: String,
    /// Why the last answer stopped, where nothing of it is open.
    stop: Option<StopReason>,
    end: Option<TurnEnd>,
}

/// A call of the last answer.
#[derive(Debug, Clone, PartialEq)]
struct OpenCall {
    call: ToolCall,
    begun: bool,
    result: Option<ToolResult>,
}

impl OpenCall {
    fn new(call: ToolCall) -> Self {
        Self {
            call,
            begun: false,
            result: None,
        }
    }
}

/// A record that does not belong there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The conversation can't go on so.
    #[error(transparent)]
    Talk(#[from] ConversationError),
    /// It answers nothing that was asked.
    #[error("a {what} does not belong there")]
    OutOfPlace {
        /// What it is.
        what: &'static str,
    },
    /// Another version wrote it.
    #[error("it has format {found}, this version reads {FORMAT}")]
    Format {
        /// The format.
        found: u32,
    },
}

const fn out_of_place(what: &'static str) -> TurnError {
    TurnError::OutOfPlace { what }
}

impl Turn {
    /// The turn that this record begins.
    ///
    /// # Errors
    /// When it is another record, or one of another version.
    pub fn begin(record: TurnRecord) -> Result<Self, TurnError> {
        let TurnRecord::Begun { format, head, talk } = record else {
            return Err(out_of_place("record before the beginning"));
        };
        if format != FORMAT {
            return Err(TurnError::Format { found: format });
        }
        let open = talk.open_calls().into_iter().cloned();
        Ok(Self {
            head,
            open: open.map(OpenCall::new).collect(),
            talk: *talk,
            facts: TurnFacts::default(),
            used: BTreeMap::new(),
            in_vain: BTreeMap::new(),
            failed: BTreeMap::new(),
            spent: TurnCost::default(),
            model: String::new(),
            said: String::new(),
            stop: None,
            end: None,
        })
    }

    /// Takes what happened next.
    ///
    /// # Errors
    /// When it does not belong there. The turn is to be given up then: part of the record may have been taken.
    pub fn take(&mut self, record: TurnRecord) -> Result<(), TurnError> {
        if self.end.is_some() {
            return Err(out_of_place("record after the end"));
        }
        match record {
            TurnRecord::Begun { .. } => Err(out_of_place("second beginning")),
            TurnRecord::Said {
                turn,
                stop,
                model,
                usage,
                cost,
            } => self.said(*turn, stop, model, usage, cost),
            TurnRecord::Begins { call } => {
                let open = self.open_call(&call).ok_or(out_of_place("call"))?;
                open.begun = true;
                let name = open.call.name.clone();
                *self.used.entry(name).or_default() += 1;
                self.spent.runs += 1;
                Ok(())
            }
            TurnRecord::Came { result, facts } => {
                let call = result.call.clone();
                let open = self.open_call(&call).ok_or(out_of_place("result"))?;
                if result.is_error {
                    let (name, begun) = (open.call.name.clone(), open.begun);
                    open.result = Some(*result);
                    if begun {
                        *self.in_vain.entry(name.clone()).or_default() += 1;
                    }
                    *self.failed.entry(name).or_default() += 1;
                } else {
                    open.result = Some(*result);
                }
                facts.into_iter().for_each(|fact| self.facts.add(fact));
                if self.open.iter().all(|open| open.result.is_some()) {
                    let open = std::mem::take(&mut self.open);
                    let results = open.into_iter().filter_map(|open| open.result);
                    self.talk.push_results(results.collect())?;
                }
                Ok(())
            }
            TurnRecord::Ended { end } => {
                self.end = Some(*end);
                Ok(())
            }
        }
    }

    fn said(
        &mut self,
        turn: AssistantTurn,
        stop: StopReason,
        model: String,
        usage: Usage,
        cost: Money,
    ) -> Result<(), TurnError> {
        if !self.open.is_empty() {
            return Err(out_of_place("word of the model while calls are open"));
        }
        let calls: Vec<ToolCall> = turn.calls().cloned().collect();
        let reply = Reply {
            id: String::new(),
            model: model.clone(),
            turn,
            stop: stop.clone(),
            usage,
        };
        self.talk.push_reply(&reply)?;
        let runs = matches!(stop, StopReason::ToolUse);
        if runs {
            self.open = calls.into_iter().map(OpenCall::new).collect();
        } else if !calls.is_empty() {
            let why = "not run: the answer did not stop for it";
            let results = calls.iter().map(|call| refusal(call, why));
            self.talk.push_results(results.collect())?;
        }
        self.said = reply.text();
        self.stop = (!runs).then_some(stop);
        self.model = model;
        self.spent.asks += 1;
        self.spent.usage = self.spent.usage.plus(&usage);
        self.spent.cost += cost;
        Ok(())
    }

    /// The call of this id that waits for its result.
    fn open_call(&mut self, id: &str) -> Option<&mut OpenCall> {
        let mut open = self.open.iter_mut();
        open.find(|open| open.call.id == id && open.result.is_none())
    }

    /// What is next.
    #[must_use]
    pub fn next(&self) -> TurnStep {
        if let Some(end) = &self.end {
            return TurnStep::End(end.clone());
        }
        if let Some(open) = self.open.iter().find(|open| open.result.is_none()) {
            return TurnStep::Run(open.call.clone());
        }
        let most = self.head.steps.clamp(1, MAX_ASKS);
        let may_ask = self.spent.asks < most && !self.is_spent();
        match &self.stop {
            Some(StopReason::Pause) | None if may_ask => TurnStep::Ask {
                last: self.spent.asks + 1 == most,
            },
            Some(_) | None => TurnStep::End(self.conclusion()),
        }
    }

    /// Whether the money of its blueprint is gone.
    fn is_spent(&self) -> bool {
        self.head.cost.is_some_and(|most| self.spent.cost >= most)
    }

    /// What all of it comes to.
    fn conclusion(&self) -> TurnEnd {
        let text = self.said.trim().to_owned();
        if let Some(made) = self.facts.made(&self.model) {
            let made = Box::new(made);
            return TurnEnd::Proposal { made, text };
        }
        // What was said before calls that led to nothing more is no answer.
        let is_cut = self.stop.is_none() && self.is_spent();
        match text.as_str() {
            _ if is_cut => TurnEnd::Nothing {
                why: format!(
                    "{} was spent on it, which is as much as the blueprint {} allows for one request",
                    self.spent.cost, self.head.blueprint
                ),
            },
            "" => TurnEnd::Nothing {
                why: "the model came to no answer".to_owned(),
            },
            _ => TurnEnd::Answer { text },
        }
    }

    /// How it ends where a prompt of so many tokens is more than the most that one may have: with what was put up, else with why.
    #[must_use]
    pub fn full(&self, prompt: u64, most: u64) -> TurnEnd {
        match self.facts.made(&self.model) {
            Some(made) => TurnEnd::Proposal {
                made: Box::new(made),
                text: String::new(),
            },
            None => TurnEnd::Nothing {
                why: format!(
                    "the request has grown to {prompt} tokens and one call may have {most}; ask for less at once, or raise `tokens_per_call` of [llm]"
                ),
            },
        }
    }

    /// What has to be written before a turn that broke off goes on: answers to calls that had begun and that must not be run twice.
    #[must_use]
    pub fn resumed(&self, tools: &ToolSet) -> Vec<TurnRecord> {
        let begun = self.open.iter().filter(|o| o.begun && o.result.is_none());
        let effect = |name: &str| tools.find(name).map(|tool| tool.effect);
        let lost = begun.filter(|open| effect(&open.call.name) != Some(Effect::Read));
        let answer = |open: &OpenCall| TurnRecord::Came {
            result: Box::new(refusal(&open.call, INTERRUPTED)),
            facts: Vec::new(),
        };
        lost.map(answer).collect()
    }

    /// Whether this call may be run. The error is a sentence for the model.
    ///
    /// # Errors
    /// When the tool is not there, not allowed, or was used as often as it may be.
    pub fn permit<'t>(
        &self,
        call: &ToolCall,
        tools: &'t ToolSet,
        gate: &ToolPermissions,
    ) -> Result<&'t super::tool::Tool, String> {
        let Some(tool) = tools.find(&call.name) else {
            return Err(format!(
                "there is no tool {:?}; there are: {}",
                call.name.chars().take(60).collect::<String>(),
                tools.names().join(", ")
            ));
        };
        gate.allows(tool.effect)?;
        let times =
            |counts: &BTreeMap<String, u32>| counts.get(tool.name).copied().unwrap_or_default();
        // What failed is forgiven, as often as it may be used: mending a mistake costs nobody the use of the tool.
        let used = times(&self.used);
        if used.saturating_sub(times(&self.in_vain).min(tool.per_turn)) >= tool.per_turn {
            return Err(format!(
                "{} was used {used} times, and one request may {} times besides what failed; go on with what you know",
                tool.name, tool.per_turn
            ));
        }
        Ok(tool)
    }

    /// How it began.
    #[must_use]
    pub fn head(&self) -> &TurnHead {
        &self.head
    }

    /// What was said so far.
    #[must_use]
    pub fn talk(&self) -> &Conversation {
        &self.talk
    }

    /// What the tools have left.
    #[must_use]
    pub fn facts(&self) -> &TurnFacts {
        &self.facts
    }

    /// How often each tool failed or was refused.
    #[must_use]
    pub fn failed(&self) -> &BTreeMap<String, u32> {
        &self.failed
    }

    /// What was spent.
    #[must_use]
    pub fn spent(&self) -> TurnCost {
        self.spent
    }

    /// The model that answered last.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }
}

/// The result of a call that is not run.
#[must_use]
pub fn refusal(call: &ToolCall, why: &str) -> ToolResult {
    ToolResult {
        call: call.id.clone(),
        parts: vec![why.into()],
        is_error: true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
pub(crate) mod testing {
    //! Turns for the tests of this module.

    use serde_json::{Value, json};
    use watchkeeper_llm::conversation::AssistantPart;
    use watchkeeper_llm::raw_json::RawJson;

    use super::super::job_spec::SetupSpec;
    use super::super::prompt::{self, FIRST_CALL};
    use super::*;
    use crate::blueprint::{Job, built_in};

    pub(crate) fn head(request: &str) -> TurnHead {
        TurnHead {
            id: ulid::Ulid::from_parts(1, 1).to_string(),
            request: request.to_owned(),
            at: Timestamp::UNIX_EPOCH,
            socket: "/run/a.sock".to_owned(),
            blueprint: "set-up".to_owned(),
            channel: Entrypoint::Ask,
            context: String::new(),
            steps: MAX_ASKS,
            cost: None,
        }
    }

    /// What the built-in blueprint of a set-up comes to.
    pub(crate) fn brief() -> SetupSpec {
        SetupSpec::new(
            built_in::of(Job::SetUp).unwrap(),
            ToolPermissions::open(Entrypoint::Ask),
        )
    }

    pub(crate) fn begun(request: &str) -> TurnRecord {
        let talk = prompt::talk(request, &brief()).unwrap();
        TurnRecord::Begun {
            format: FORMAT,
            head: head(request),
            talk: Box::new(talk),
        }
    }

    pub(crate) fn says(text: &str, calls: &[(&str, &str, Value)]) -> TurnRecord {
        let text = (!text.is_empty()).then(|| AssistantPart::Text(text.to_owned()));
        let called = calls.iter().map(|(id, name, arguments)| {
            AssistantPart::Call(ToolCall {
                id: (*id).to_owned(),
                name: (*name).to_owned(),
                arguments: RawJson::of(arguments),
            })
        });
        let stop = if calls.is_empty() {
            StopReason::End
        } else {
            StopReason::ToolUse
        };
        TurnRecord::Said {
            turn: Box::new(AssistantTurn {
                parts: text.into_iter().chain(called).collect(),
                raw: None,
            }),
            stop,
            model: "m".to_owned(),
            usage: Usage {
                input: 10,
                ..Usage::default()
            },
            cost: Money(5),
        }
    }

    pub(crate) fn begins(call: &str) -> TurnRecord {
        TurnRecord::Begins {
            call: call.to_owned(),
        }
    }

    pub(crate) fn came(call: &str, facts: Vec<ToolFact>) -> TurnRecord {
        TurnRecord::Came {
            result: Box::new(ToolResult {
                call: call.to_owned(),
                parts: vec!["seen".into()],
                is_error: false,
            }),
            facts,
        }
    }

    /// A turn whose first look was taken.
    pub(crate) fn looked() -> Turn {
        let mut turn = Turn::begin(begun("count the goats")).unwrap();
        turn.take(begins(FIRST_CALL)).unwrap();
        turn.take(came(FIRST_CALL, Vec::new())).unwrap();
        turn
    }

    pub(crate) fn nothing() -> Value {
        json!({})
    }

    /// The calls that began, each as often as it did, with their tools.
    pub(crate) fn began_names(records: &[TurnRecord]) -> Vec<(String, String)> {
        let said = records.iter().filter_map(|record| match record {
            TurnRecord::Said { turn, .. } => Some(turn),
            _ => None,
        });
        let names: BTreeMap<String, String> = said
            .flat_map(|turn| turn.calls())
            .map(|call| (call.id.clone(), call.name.clone()))
            .collect();
        let begun = records.iter().filter_map(|record| match record {
            TurnRecord::Begins { call } => Some(call.clone()),
            _ => None,
        });
        begun
            .filter_map(|call| Some((call.clone(), names.get(&call)?.clone())))
            .collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use watchkeeper_config::PermissionsConfig;
    use watchkeeper_contract::id::PipelineId;

    use super::super::facts::ModelWords;
    use super::super::prompt::FIRST_CALL;
    use super::testing::{began_names, begins, begun, came, head, looked, nothing, says};
    use super::*;
    use crate::proposal::llm_proposal::ProposedChange;

    fn tools() -> ToolSet {
        ToolSet::of(
            &ToolPermissions::open(Entrypoint::Chat),
            crate::blueprint::Job::SetUp.tools(),
        )
    }

    fn stop() -> ToolFact {
        ToolFact::Proposed {
            change: Box::new(ProposedChange::Stop {
                pipeline: PipelineId::new("p").unwrap(),
            }),
            draft: None,
            words: ModelWords::default(),
        }
    }

    #[test]
    fn a_request_begins_with_a_look_that_nobody_paid_a_model_for() {
        let turn = Turn::begin(begun("x")).unwrap();
        assert!(matches!(turn.next(), TurnStep::Run(call) if call.id == FIRST_CALL));
        assert_eq!(looked().next(), TurnStep::Ask { last: false });
        assert_eq!(looked().spent().asks, 0);
    }

    #[test]
    fn words_without_a_call_end_it_with_an_answer_or_with_what_was_put_up() {
        let mut turn = looked();
        turn.take(says("There are no goats.", &[])).unwrap();
        let answer = TurnEnd::Answer {
            text: "There are no goats.".to_owned(),
        };
        assert_eq!(turn.next(), TurnStep::End(answer));
        let mut turn = looked();
        turn.take(says("", &[("a", "propose_control", nothing())]))
            .unwrap();
        turn.take(begins("a")).unwrap();
        turn.take(came("a", vec![stop()])).unwrap();
        turn.take(says("It waits.", &[])).unwrap();
        let TurnStep::End(TurnEnd::Proposal { made, text }) = turn.next() else {
            panic!("{:?}", turn.next());
        };
        assert_eq!((made.changes.len(), text.as_str()), (1, "It waits."));
        let mut turn = looked();
        turn.take(says("", &[])).unwrap();
        assert!(matches!(
            turn.next(),
            TurnStep::End(TurnEnd::Nothing { .. })
        ));
    }

    #[test]
    fn calls_of_an_answer_that_was_cut_off_are_never_run() {
        let mut turn = looked();
        let TurnRecord::Said {
            turn: said,
            model,
            usage,
            cost,
            ..
        } = says("so", &[("a", "memory_note", nothing())])
        else {
            panic!("a reply");
        };
        let cut = TurnRecord::Said {
            turn: said,
            stop: StopReason::MaxOutput,
            model,
            usage,
            cost,
        };
        turn.take(cut).unwrap();
        assert!(matches!(turn.next(), TurnStep::End(TurnEnd::Answer { .. })));
        assert_eq!(turn.spent().runs, 1, "the first look alone");
    }

    #[test]
    fn what_had_begun_is_run_again_only_where_it_looks() {
        let mut turn = looked();
        let calls = [
            ("a", "memory_note", nothing()),
            ("b", "get_snapshot", nothing()),
            ("c", "memory_note", nothing()),
        ];
        turn.take(says("", &calls)).unwrap();
        turn.take(begins("a")).unwrap();
        turn.take(begins("b")).unwrap();
        let lost = turn.resumed(&tools());
        assert_eq!(lost.len(), 1);
        for record in lost {
            turn.take(record).unwrap();
        }
        assert!(matches!(turn.next(), TurnStep::Run(call) if call.id == "b"));
        turn.take(begins("b")).unwrap();
        turn.take(came("b", Vec::new())).unwrap();
        assert!(matches!(turn.next(), TurnStep::Run(call) if call.id == "c"));
        assert!(turn.resumed(&tools()).is_empty(), "c had not begun");
    }

    #[test]
    fn a_tool_that_is_not_there_or_was_used_up_is_refused_with_what_there_is() {
        let (mut turn, tools) = (looked(), tools());
        let call = |name: &str| ToolCall {
            id: "x".to_owned(),
            name: name.to_owned(),
            arguments: watchkeeper_llm::raw_json::RawJson::of(&nothing()),
        };
        let refused = turn.permit(
            &call("deploy_now"),
            &tools,
            &ToolPermissions::open(Entrypoint::Chat),
        );
        assert!(refused.is_err_and(|why| why.contains("propose_deployment")));
        for n in 0..3 {
            let id = format!("n{n}");
            turn.take(says("", &[(&id, "memory_note", nothing())]))
                .unwrap();
            assert!(
                turn.permit(
                    &call("memory_note"),
                    &tools,
                    &ToolPermissions::open(Entrypoint::Chat)
                )
                .is_ok()
            );
            turn.take(begins(&id)).unwrap();
            turn.take(came(&id, Vec::new())).unwrap();
        }
        let refused = turn.permit(
            &call("memory_note"),
            &tools,
            &ToolPermissions::open(Entrypoint::Chat),
        );
        assert!(refused.is_err_and(|why| why.contains("3 times")));
        // A mistake is forgiven, but not for ever.
        let mut vain = 0;
        while turn
            .permit(
                &call("update_plan"),
                &tools,
                &ToolPermissions::open(Entrypoint::Chat),
            )
            .is_ok()
        {
            let id = format!("v{vain}");
            turn.take(says("", &[(&id, "update_plan", nothing())]))
                .unwrap();
            turn.take(begins(&id)).unwrap();
            let result = refusal(
                &ToolCall {
                    id,
                    ..call("update_plan")
                },
                "no such step",
            );
            let (result, facts) = (Box::new(result), Vec::new());
            turn.take(TurnRecord::Came { result, facts }).unwrap();
            vain += 1;
        }
        let per_turn = tools.find("update_plan").unwrap().per_turn;
        assert_eq!(vain, 2 * per_turn);
        let mut config = PermissionsConfig::default();
        config.tools.chat = Some(vec![Effect::Read]);
        let looking = ToolPermissions::of(&config, Entrypoint::Chat);
        assert!(turn.permit(&call("update_plan"), &tools, &looking).is_err());
    }

    #[test]
    fn it_ends_whatever_the_model_does() {
        let mut turn = looked();
        let mut asks = 0;
        loop {
            match turn.next() {
                TurnStep::Ask { last } => {
                    asks += 1;
                    assert_eq!(last, asks == MAX_ASKS);
                    let id = format!("c{asks}");
                    turn.take(says("on and on", &[(&id, "list_cameras", nothing())]))
                        .unwrap();
                }
                TurnStep::Run(call) => {
                    turn.take(begins(&call.id)).unwrap();
                    turn.take(came(&call.id, Vec::new())).unwrap();
                }
                TurnStep::End(end) => {
                    assert!(matches!(end, TurnEnd::Answer { .. }));
                    break;
                }
            }
        }
        assert_eq!(asks, MAX_ASKS);
    }

    #[test]
    fn it_ends_when_its_blueprint_allows_no_more_calls_or_no_more_money() {
        let begin = |change: &dyn Fn(&mut TurnHead)| {
            let TurnRecord::Begun {
                format,
                mut head,
                talk,
            } = begun("x")
            else {
                panic!("a beginning");
            };
            change(&mut head);
            let mut turn = Turn::begin(TurnRecord::Begun { format, head, talk }).unwrap();
            turn.take(begins(FIRST_CALL)).unwrap();
            turn.take(came(FIRST_CALL, Vec::new())).unwrap();
            turn
        };
        let step = |turn: &mut Turn, id: &str| {
            turn.take(says("so", &[(id, "list_cameras", nothing())]))
                .unwrap();
            turn.take(begins(id)).unwrap();
            turn.take(came(id, Vec::new())).unwrap();
        };
        let mut short = begin(&|head| head.steps = 2);
        assert_eq!(short.next(), TurnStep::Ask { last: false });
        step(&mut short, "a");
        assert_eq!(short.next(), TurnStep::Ask { last: true });
        // Each answer costs 5.
        let mut poor = begin(&|head| head.cost = Some(Money(6)));
        step(&mut poor, "a");
        assert_eq!(poor.next(), TurnStep::Ask { last: false });
        step(&mut poor, "b");
        let TurnStep::End(TurnEnd::Nothing { why }) = poor.next() else {
            panic!("{:?}", poor.next());
        };
        assert!(why.contains("blueprint set-up"), "{why}");
        // An answer that came with the last of the money is one.
        let mut just = begin(&|head| head.cost = Some(Money(5)));
        just.take(says("There are none.", &[])).unwrap();
        assert!(matches!(just.next(), TurnStep::End(TurnEnd::Answer { .. })));
    }

    #[test]
    fn a_turn_of_a_version_without_blueprints_is_a_set_up() {
        let mut old = serde_json::to_value(head("x")).unwrap();
        for member in ["blueprint", "steps"] {
            old.as_object_mut().unwrap().remove(member);
        }
        assert_eq!(serde_json::from_value::<TurnHead>(old).unwrap(), head("x"));
    }

    #[test]
    fn a_record_that_does_not_belong_there_is_refused() {
        let mut turn = looked();
        assert!(turn.take(begins("nothing")).is_err());
        assert!(
            turn.take(came(FIRST_CALL, Vec::new())).is_err(),
            "answered already"
        );
        assert!(turn.take(begun("x")).is_err());
        let end = TurnRecord::Ended {
            end: Box::new(TurnEnd::Answer {
                text: "x".to_owned(),
            }),
        };
        turn.take(end.clone()).unwrap();
        assert!(turn.take(end).is_err());
        assert!(turn.take(says("more", &[])).is_err());
    }

    /// The turn as a new process has it.
    fn again(records: &mut Vec<TurnRecord>) -> Turn {
        let mut turn = Turn::begin(records[0].clone()).unwrap();
        for record in &records[1..] {
            turn.take(record.clone()).unwrap();
        }
        for lost in turn.resumed(&tools()) {
            records.push(lost.clone());
            turn.take(lost).unwrap();
        }
        turn
    }

    proptest! {
        /// Whenever the process dies, what goes on says the same, and no call with an effect has begun twice.
        #[test]
        fn a_turn_that_died_anywhere_goes_on_without_doing_anything_twice(
            script in prop::collection::vec(prop::collection::vec(0..3_usize, 0..4), 1..6),
            dies in prop::collection::vec(any::<bool>(), 64),
        ) {
            let names = ["memory_note", "get_snapshot", "propose_control"];
            let mut records = vec![begun("count the goats")];
            let mut turn = Turn::begin(records[0].clone()).unwrap();
            let mut dies = dies.into_iter().chain(std::iter::repeat(false));
            let mut script = script.into_iter();
            let mut called = 0;
            loop {
                // After any record the process may die; what is on the disk is read again.
                if dies.next() == Some(true) {
                    turn = again(&mut records);
                }
                let record = match turn.next() {
                    TurnStep::End(_) => break,
                    TurnStep::Ask { .. } => {
                        let calls: Vec<(String, &str)> = script.next().unwrap_or_default().into_iter().map(|n| {
                            called += 1;
                            (format!("c{called}"), names[n])
                        }).collect();
                        let calls: Vec<(&str, &str, serde_json::Value)> = calls.iter().map(|(id, name)| (id.as_str(), *name, json!({}))).collect();
                        says("so", &calls)
                    }
                    TurnStep::Run(call) => {
                        let begin = begins(&call.id);
                        records.push(begin.clone());
                        turn.take(begin).unwrap();
                        if dies.next() == Some(true) {
                            turn = again(&mut records);
                            continue;
                        }
                        came(&call.id, Vec::new())
                    }
                };
                records.push(record.clone());
                turn.take(record).unwrap();
            }
            let mut seen = std::collections::BTreeSet::new();
            for (call, name) in began_names(&records) {
                prop_assert!(name != "memory_note" || seen.insert(call), "a note was written twice");
            }
            prop_assert!(turn.talk().open_calls().is_empty());
        }
    }
}
