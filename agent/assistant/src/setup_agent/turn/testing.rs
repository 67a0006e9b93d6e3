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
        plan_required: false,
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
            arguments: RawJson::from_value(arguments),
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
