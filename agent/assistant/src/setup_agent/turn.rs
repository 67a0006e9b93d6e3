//! One request worked on by a language model: what was said and called, and what is next.
//!
//! - A turn is the fold of its [`TurnRecord`]s ([`Turn::apply`]), also after a restart.
//! - A tool runs only after its [`TurnRecord::ToolStarted`] and gets one
//!   [`TurnRecord::ToolFinished`].
//!   A tool that was running when the process died runs again only if it is read-only
//!   ([`Turn::records_on_resume`]).
//! - Calls of an answer that did not stop for them never run.
//! - A turn ends: after its blueprint's maximum of model calls, at most [`MAX_STEPS`], the last
//!   without tools; after the call that spent its money; or when the conversation is full
//!   ([`super::context_window`]). The conversation is never shortened.
//!
//! Sans-IO. Not here: writing records ([`super::turn_log`]), the calls ([`super::drive`]).

use std::collections::BTreeMap;

use watchkeeper_llm::conversation::{
    AssistantTurn, Conversation, ConversationError, ToolCall, ToolResult,
};
use watchkeeper_llm::money::Money;
use watchkeeper_llm::usage::Usage;
use watchkeeper_llm::{Reply, StopReason};

use super::facts::TurnFacts;
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

/// The next step of a turn.
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

/// What a turn has cost so far.
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
                let call = result.call.clone();
                let open = self
                    .open_call(&call)
                    .ok_or(out_of_place("the result of an unknown call"))?;
                if result.is_error {
                    let (name, begun) = (open.call.name.clone(), open.started);
                    open.result = Some(*result);
                    if begun {
                        *self.failed_runs.entry(name.clone()).or_default() += 1;
                    }
                    *self.failed.entry(name).or_default() += 1;
                } else {
                    open.result = Some(*result);
                }
                facts.into_iter().for_each(|fact| self.facts.add(fact));
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
        self.conversation.push_reply(&reply)?;
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

    /// The next step.
    #[must_use]
    pub fn next(&self) -> TurnStep {
        if let Some(end) = &self.end {
            return TurnStep::End(end.clone());
        }
        if let Some(open) = self.open_calls.iter().find(|open| open.result.is_none()) {
            return TurnStep::Run(open.call.clone());
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
        // Text before calls that led to nothing is not an answer.
        let is_cut = self.stop.is_none() && self.has_spent_its_money();
        match text.as_str() {
            _ if is_cut => TurnEnd::NoResult {
                why: format!(
                    "the request cost {}, the limit of the blueprint {} for one request; ask for \
                     less at once, or raise limits.cost_usd",
                    self.spent.cost, self.head.blueprint
                ),
            },
            "" => TurnEnd::NoResult {
                why: "the language model gave no answer; ask again".to_owned(),
            },
            _ => TurnEnd::Answer { text },
        }
    }

    /// How the turn ends if a prompt of `prompt` tokens exceeds `max_prompt`: with the proposal so
    /// far, or with the reason.
    #[must_use]
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
    #[must_use]
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
        let times =
            |counts: &BTreeMap<String, u32>| counts.get(tool.name).copied().unwrap_or_default();
        // Failed runs are not counted, up to the same number: a mistake costs no use.
        let used = times(&self.runs);
        if used.saturating_sub(times(&self.failed_runs).min(tool.max_uses)) >= tool.max_uses {
            return Err(format!(
                "{} was used {used} times; one request may use it {} times, failed runs apart; \
                 continue with what you know",
                tool.name, tool.max_uses
            ));
        }
        Ok(tool)
    }

    #[must_use]
    pub fn head(&self) -> &TurnHead {
        &self.head
    }

    #[must_use]
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    #[must_use]
    pub fn facts(&self) -> &TurnFacts {
        &self.facts
    }

    /// By tool: failed and refused calls.
    #[must_use]
    pub fn failed(&self) -> &BTreeMap<String, u32> {
        &self.failed
    }

    #[must_use]
    pub fn spent(&self) -> TurnCost {
        self.spent
    }

    /// Name of the model that answered last.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Whether the turn has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }
}

/// The result of a refused call.
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

    use jiff::Timestamp;
    use serde_json::{Value, json};
    use watchkeeper_llm::conversation::AssistantPart;
    use watchkeeper_llm::raw_json::RawJson;

    use super::super::facts::ToolFact;
    use super::super::job_spec::{FIRST_CALL, SetupSpec};
    use super::*;
    use crate::blueprint::{Job, built_in};
    use crate::permissions::Entrypoint;

    pub(crate) fn head(request: &str) -> TurnHead {
        TurnHead {
            id: ulid::Ulid::from_parts(1, 1).to_string(),
            request: request.to_owned(),
            at: Timestamp::UNIX_EPOCH,
            socket: "/run/a.sock".to_owned(),
            blueprint: "set-up".to_owned(),
            entrypoint: Entrypoint::Ask,
            context: String::new(),
            steps: MAX_STEPS,
            cost: None,
        }
    }

    /// The specification of a set-up by its built-in blueprint.
    pub(crate) fn brief() -> SetupSpec {
        SetupSpec::new(
            built_in::blueprint(Job::SetUp).unwrap(),
            ToolPermissions::unrestricted(Entrypoint::Ask),
        )
    }

    pub(crate) fn begun(request: &str) -> TurnRecord {
        let conversation = brief().conversation(request).unwrap();
        TurnRecord::Started {
            format: FORMAT,
            head: head(request),
            conversation: Box::new(conversation),
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
        TurnRecord::Replied {
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
        TurnRecord::ToolStarted {
            call: call.to_owned(),
        }
    }

    pub(crate) fn came(call: &str, facts: Vec<ToolFact>) -> TurnRecord {
        TurnRecord::ToolFinished {
            result: Box::new(ToolResult {
                call: call.to_owned(),
                parts: vec!["seen".into()],
                is_error: false,
            }),
            facts,
        }
    }

    /// A turn after its first tool call.
    pub(crate) fn looked() -> Turn {
        let mut turn = Turn::start(begun("count the goats")).unwrap();
        turn.apply(begins(FIRST_CALL)).unwrap();
        turn.apply(came(FIRST_CALL, Vec::new())).unwrap();
        turn
    }

    pub(crate) fn nothing() -> Value {
        json!({})
    }

    /// Started calls with their tools, once per start.
    pub(crate) fn began_names(records: &[TurnRecord]) -> Vec<(String, String)> {
        let said = records.iter().filter_map(|record| match record {
            TurnRecord::Replied { turn, .. } => Some(turn),
            _ => None,
        });
        let names: BTreeMap<String, String> = said
            .flat_map(|turn| turn.calls())
            .map(|call| (call.id.clone(), call.name.clone()))
            .collect();
        let begun = records.iter().filter_map(|record| match record {
            TurnRecord::ToolStarted { call } => Some(call.clone()),
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

    use super::super::facts::{ModelWords, ToolFact};
    use super::super::job_spec::FIRST_CALL;
    use super::testing::{began_names, begins, begun, came, head, looked, nothing, says};
    use super::*;
    use crate::permissions::Entrypoint;
    use crate::proposal::llm_proposal::ProposedChange;

    fn tools() -> ToolSet {
        ToolSet::new(
            &ToolPermissions::unrestricted(Entrypoint::Chat),
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
    fn turn_starts_with_a_tool_call_without_the_model() {
        let turn = Turn::start(begun("x")).unwrap();
        assert!(matches!(turn.next(), TurnStep::Run(call) if call.id == FIRST_CALL));
        assert_eq!(looked().next(), TurnStep::Ask { last: false });
        assert_eq!(looked().spent().asks, 0);
    }

    #[test]
    fn text_without_calls_ends_with_answer_or_proposal() {
        let mut turn = looked();
        turn.apply(says("There are no goats.", &[])).unwrap();
        let answer = TurnEnd::Answer {
            text: "There are no goats.".to_owned(),
        };
        assert_eq!(turn.next(), TurnStep::End(answer));
        let mut turn = looked();
        turn.apply(says("", &[("a", "propose_control", nothing())]))
            .unwrap();
        turn.apply(begins("a")).unwrap();
        turn.apply(came("a", vec![stop()])).unwrap();
        turn.apply(says("It waits.", &[])).unwrap();
        let TurnStep::End(TurnEnd::Proposal { proposal, text }) = turn.next() else {
            panic!("{:?}", turn.next());
        };
        assert_eq!((proposal.changes.len(), text.as_str()), (1, "It waits."));
        let mut turn = looked();
        turn.apply(says("", &[])).unwrap();
        assert!(matches!(
            turn.next(),
            TurnStep::End(TurnEnd::NoResult { .. })
        ));
    }

    #[test]
    fn calls_of_a_cut_answer_never_run() {
        let mut turn = looked();
        let TurnRecord::Replied {
            turn: said,
            model,
            usage,
            cost,
            ..
        } = says("so", &[("a", "memory_note", nothing())])
        else {
            panic!("a reply");
        };
        let cut = TurnRecord::Replied {
            turn: said,
            stop: StopReason::MaxOutput,
            model,
            usage,
            cost,
        };
        turn.apply(cut).unwrap();
        assert!(matches!(turn.next(), TurnStep::End(TurnEnd::Answer { .. })));
        assert_eq!(turn.spent().runs, 1, "the first look alone");
    }

    #[test]
    fn interrupted_tool_runs_again_only_if_read_only() {
        let mut turn = looked();
        let calls = [
            ("a", "memory_note", nothing()),
            ("b", "get_snapshot", nothing()),
            ("c", "memory_note", nothing()),
        ];
        turn.apply(says("", &calls)).unwrap();
        turn.apply(begins("a")).unwrap();
        turn.apply(begins("b")).unwrap();
        let lost = turn.records_on_resume(&tools());
        assert_eq!(lost.len(), 1);
        for record in lost {
            turn.apply(record).unwrap();
        }
        assert!(matches!(turn.next(), TurnStep::Run(call) if call.id == "b"));
        turn.apply(begins("b")).unwrap();
        turn.apply(came("b", Vec::new())).unwrap();
        assert!(matches!(turn.next(), TurnStep::Run(call) if call.id == "c"));
        assert!(
            turn.records_on_resume(&tools()).is_empty(),
            "c had not begun"
        );
    }

    #[test]
    fn unknown_and_used_up_tools_are_refused() {
        let (mut turn, tools) = (looked(), tools());
        let call = |name: &str| ToolCall {
            id: "x".to_owned(),
            name: name.to_owned(),
            arguments: watchkeeper_llm::raw_json::RawJson::of(&nothing()),
        };
        let refused = turn.check_call(
            &call("deploy_now"),
            &tools,
            &ToolPermissions::unrestricted(Entrypoint::Chat),
        );
        assert!(refused.is_err_and(|why| why.contains("propose_deployment")));
        for n in 0..3 {
            let id = format!("n{n}");
            turn.apply(says("", &[(&id, "memory_note", nothing())]))
                .unwrap();
            assert!(
                turn.check_call(
                    &call("memory_note"),
                    &tools,
                    &ToolPermissions::unrestricted(Entrypoint::Chat)
                )
                .is_ok()
            );
            turn.apply(begins(&id)).unwrap();
            turn.apply(came(&id, Vec::new())).unwrap();
        }
        let refused = turn.check_call(
            &call("memory_note"),
            &tools,
            &ToolPermissions::unrestricted(Entrypoint::Chat),
        );
        assert!(refused.is_err_and(|why| why.contains("3 times")));
        // Failed runs are free, up to the same number.
        let mut failed = 0;
        while turn
            .check_call(
                &call("update_plan"),
                &tools,
                &ToolPermissions::unrestricted(Entrypoint::Chat),
            )
            .is_ok()
        {
            let id = format!("v{failed}");
            turn.apply(says("", &[(&id, "update_plan", nothing())]))
                .unwrap();
            turn.apply(begins(&id)).unwrap();
            let result = refusal(
                &ToolCall {
                    id,
                    ..call("update_plan")
                },
                "no such step",
            );
            let (result, facts) = (Box::new(result), Vec::new());
            turn.apply(TurnRecord::ToolFinished { result, facts })
                .unwrap();
            failed += 1;
        }
        let max_uses = tools.find("update_plan").unwrap().max_uses;
        assert_eq!(failed, 2 * max_uses);
        let mut config = PermissionsConfig::default();
        config.tools.chat = Some(vec![Effect::Read]);
        let looking = ToolPermissions::new(&config, Entrypoint::Chat);
        assert!(
            turn.check_call(&call("update_plan"), &tools, &looking)
                .is_err()
        );
    }

    #[test]
    fn turn_ends_after_the_maximum_of_model_calls() {
        let mut turn = looked();
        let mut asks = 0;
        loop {
            match turn.next() {
                TurnStep::Ask { last } => {
                    asks += 1;
                    assert_eq!(last, asks == MAX_STEPS);
                    let id = format!("c{asks}");
                    turn.apply(says("on and on", &[(&id, "list_cameras", nothing())]))
                        .unwrap();
                }
                TurnStep::Run(call) => {
                    turn.apply(begins(&call.id)).unwrap();
                    turn.apply(came(&call.id, Vec::new())).unwrap();
                }
                TurnStep::End(end) => {
                    assert!(matches!(end, TurnEnd::Answer { .. }));
                    break;
                }
            }
        }
        assert_eq!(asks, MAX_STEPS);
    }

    #[test]
    fn turn_ends_at_the_limits_of_its_blueprint() {
        let begin = |change: &dyn Fn(&mut TurnHead)| {
            let TurnRecord::Started {
                format,
                mut head,
                conversation,
            } = begun("x")
            else {
                panic!("a beginning");
            };
            change(&mut head);
            let mut turn = Turn::start(TurnRecord::Started {
                format,
                head,
                conversation,
            })
            .unwrap();
            turn.apply(begins(FIRST_CALL)).unwrap();
            turn.apply(came(FIRST_CALL, Vec::new())).unwrap();
            turn
        };
        let step = |turn: &mut Turn, id: &str| {
            turn.apply(says("so", &[(id, "list_cameras", nothing())]))
                .unwrap();
            turn.apply(begins(id)).unwrap();
            turn.apply(came(id, Vec::new())).unwrap();
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
        let TurnStep::End(TurnEnd::NoResult { why }) = poor.next() else {
            panic!("{:?}", poor.next());
        };
        assert!(why.contains("blueprint set-up"), "{why}");
        // The answer that spent the last money counts.
        let mut just = begin(&|head| head.cost = Some(Money(5)));
        just.apply(says("There are none.", &[])).unwrap();
        assert!(matches!(just.next(), TurnStep::End(TurnEnd::Answer { .. })));
    }

    #[test]
    fn old_turn_without_blueprint_is_a_set_up() {
        let mut old = serde_json::to_value(head("x")).unwrap();
        for member in ["blueprint", "steps"] {
            old.as_object_mut().unwrap().remove(member);
        }
        assert_eq!(serde_json::from_value::<TurnHead>(old).unwrap(), head("x"));
    }

    #[test]
    fn unexpected_record_is_rejected() {
        let mut turn = looked();
        assert!(turn.apply(begins("nothing")).is_err());
        assert!(
            turn.apply(came(FIRST_CALL, Vec::new())).is_err(),
            "answered already"
        );
        assert!(turn.apply(begun("x")).is_err());
        let end = TurnRecord::Ended {
            end: Box::new(TurnEnd::Answer {
                text: "x".to_owned(),
            }),
        };
        turn.apply(end.clone()).unwrap();
        assert!(turn.apply(end).is_err());
        assert!(turn.apply(says("more", &[])).is_err());
    }

    /// The turn as a new process reads it.
    fn restart(records: &mut Vec<TurnRecord>) -> Turn {
        let mut turn = Turn::start(records[0].clone()).unwrap();
        for record in &records[1..] {
            turn.apply(record.clone()).unwrap();
        }
        for lost in turn.records_on_resume(&tools()) {
            records.push(lost.clone());
            turn.apply(lost).unwrap();
        }
        turn
    }

    proptest! {
        /// No tool with an effect starts twice, wherever the process dies.
        #[test]
        fn turn_resumes_anywhere_without_repeating_an_effect(
            script in prop::collection::vec(prop::collection::vec(0..3_usize, 0..4), 1..6),
            dies in prop::collection::vec(any::<bool>(), 64),
        ) {
            let names = ["memory_note", "get_snapshot", "propose_control"];
            let mut records = vec![begun("count the goats")];
            let mut turn = Turn::start(records[0].clone()).unwrap();
            let mut dies = dies.into_iter().chain(std::iter::repeat(false));
            let mut script = script.into_iter();
            let mut called = 0;
            loop {
                // The process may die after any record.
                if dies.next() == Some(true) {
                    turn = restart(&mut records);
                }
                let record = match turn.next() {
                    TurnStep::End(_) => break,
                    TurnStep::Ask { .. } => {
                        let calls: Vec<(String,
                        &str)> = script.next().unwrap_or_default().into_iter().map(|n| {
                            called += 1;
                            (format!("c{called}"), names[n])
                        }).collect();
                        let calls: Vec<(&str, &str, serde_json::Value)> = calls.iter().map(|(id,
                        name)| (id.as_str(), *name, json!({}))).collect();
                        says("so", &calls)
                    }
                    TurnStep::Run(call) => {
                        let begin = begins(&call.id);
                        records.push(begin.clone());
                        turn.apply(begin).unwrap();
                        if dies.next() == Some(true) {
                            turn = restart(&mut records);
                            continue;
                        }
                        came(&call.id, Vec::new())
                    }
                };
                records.push(record.clone());
                turn.apply(record).unwrap();
            }
            let mut seen = std::collections::BTreeSet::new();
            for (call, name) in began_names(&records) {
                prop_assert!(name != "memory_note" || seen.insert(call), "a note was written \
                    twice");
            }
            prop_assert!(turn.conversation().open_calls().is_empty());
        }
    }
}
