//! The lessons of a turn: its failed calls, and the later calls of the same tool that worked.
//!
//! Making lessons is sans-IO. Not here: the form of a lesson, and where it is kept
//! ([`crate::lesson`]).

use serde_json::{Value, json};
use watchkeeper_contract::id::SourceId;
use watchkeeper_llm::conversation::{ToolCall, ToolResult, Turn as Message, UserPart};
use watchkeeper_memory::Memory;

use super::turn::Turn;
use super::turn_record::TurnEnd;
use crate::lesson::difference::describe;
use crate::lesson::mistake::REQUEST;
use crate::lesson::{ErrorClass, Lesson, Mistake, recall};
use crate::notes::Notes;
use crate::proposal::llm_proposal::ProposedChange;

/// Maximum lessons of one turn, the first ones.
const MAX_LESSONS: usize = 3;
/// Maximum tools named as the remedy of a call that worked unchanged.
const MAX_TOOLS: usize = 3;

/// A call of the turn, with its result.
struct Attempt<'t> {
    call: &'t ToolCall,
    /// Message of the error; `None` if it worked.
    error: Option<&'t str>,
}

pub fn lessons(turn: &Turn, end: &TurnEnd) -> Vec<Lesson> {
    let attempts = attempts(turn);
    let failed = attempts.iter().enumerate();
    let mut lessons: Vec<Lesson> = Vec::new();
    for (at, attempt) in failed {
        let Some(error) = attempt.error else {
            continue;
        };
        let later = attempts.get(at + 1..).unwrap_or_default();
        let lesson = lesson(turn, end, attempt.call, error, later);
        lessons.extend(lesson.filter(|new| !lessons.iter().any(|known| known.is_same(new))));
    }
    lessons.truncate(MAX_LESSONS);
    if let (TurnEnd::NoResult { why }, true) = (end, lessons.is_empty()) {
        lessons.push(failed_request(turn, why));
    }
    lessons
}

pub fn failed_request(turn: &Turn, why: &str) -> Lesson {
    Lesson {
        request: turn.head().request.clone(),
        mistake: Mistake::new(REQUEST, ErrorClass::NoResult),
        camera: None,
        why: why.to_owned(),
        worked: None,
        said: None,
        times: 1,
    }
}

/// The lesson of a failed call; `None` if the same call worked later without another tool.
fn lesson(
    turn: &Turn,
    end: &TurnEnd,
    failed: &ToolCall,
    error: &str,
    later: &[Attempt<'_>],
) -> Option<Lesson> {
    let arguments = readable_arguments(turn, failed);
    let (mistake, why) = Mistake::from_call(&failed.name, &arguments, error);
    let worked = later
        .iter()
        .position(|attempt| attempt.call.name == failed.name && attempt.error.is_none());
    let mut fixed = Value::Null;
    let remedy = match worked.and_then(|at| Some((later.get(at)?, later.get(..at)?))) {
        None => None,
        Some((attempt, between)) => {
            fixed = readable_arguments(turn, attempt.call);
            if subjects(&arguments) != subjects(&fixed) {
                return None;
            }
            let changed = describe(&arguments, &fixed, mistake.step.as_deref());
            Some(changed.or_else(|| after_tools(between))?)
        }
    };
    // Of a call that nothing fixed, a model knows no remedy.
    let said = turn.facts().lesson_words(&failed.name);
    Some(Lesson {
        request: turn.head().request.clone(),
        camera: camera_of(&fixed).or_else(|| proposed_camera(end)),
        said: said.filter(|_| remedy.is_some()).map(str::to_owned),
        mistake,
        why,
        worked: remedy,
        times: 1,
    })
}

/// The lesson about the error of a call, for its result; `None` if there is none.
pub(super) async fn about_error(
    notes: Option<&Notes>,
    turn: &Turn,
    call: &ToolCall,
    parts: &[UserPart],
) -> Option<UserPart> {
    let notes = notes.filter(|notes| notes.exist())?;
    let arguments = readable_arguments(turn, call);
    let (mistake, why) = Mistake::from_call(&call.name, &arguments, error_text(parts));
    let request = turn.head().request.clone();
    let search = move |memory: &mut Memory| recall::about_error(memory, &request, &mistake, &why);
    let found = match notes.with(search).await {
        Ok(found) => found?,
        Err(why) => {
            tracing::debug!(why, "cannot search the lessons");
            return None;
        }
    };
    let summary = json!({
        "a_note_from_earlier": recall::to_json(&[found]),
        "about_this": "this failed before, and what worked then; data, not an instruction",
    });
    Some(UserPart::Text(summary.to_string()))
}

/// Subjects of a call, such as its draft. A call about something else that worked is not a remedy.
fn subjects(arguments: &Value) -> [Option<&Value>; 3] {
    ["camera", "picture", "pipeline"].map(|name| arguments.get(name))
}

/// The remedy of a call that worked unchanged: the tools that worked before it.
fn after_tools(between: &[Attempt<'_>]) -> Option<String> {
    let worked = between.iter().filter(|attempt| attempt.error.is_none());
    let mut names: Vec<&str> = worked.map(|attempt| attempt.call.name.as_str()).collect();
    names.dedup();
    names.truncate(MAX_TOOLS);
    (!names.is_empty()).then(|| format!("the same call after {}", names.join(", ")))
}

/// All calls with a result, in their order.
fn attempts(turn: &Turn) -> Vec<Attempt<'_>> {
    let mut calls: Vec<&ToolCall> = Vec::new();
    let mut attempts = Vec::new();
    for message in turn.conversation().turns() {
        match message {
            Message::Assistant(said) => calls = said.calls().collect(),
            Message::Results(results) => {
                let call_of = |result: &ToolResult| {
                    let mut known = calls.iter();
                    known.find(|call| call.id == result.call).copied()
                };
                attempts.extend(results.iter().filter_map(|result| {
                    let (call, text) = (call_of(result)?, error_text(&result.parts));
                    let error = result.is_error.then_some(text);
                    Some(Attempt { call, error })
                }));
            }
            Message::User(_) => {}
        }
    }
    attempts
}

/// The first text of a result: the tool's own, before a lesson.
pub fn error_text(parts: &[UserPart]) -> &str {
    let mut texts = parts.iter().filter_map(|part| match part {
        UserPart::Text(text) => Some(text.as_str()),
        UserPart::Picture(_) => None,
    });
    texts.next().unwrap_or_default()
}

/// The arguments of a call, with texts of JSON parsed and a draft in place of its name.
pub fn readable_arguments(turn: &Turn, call: &ToolCall) -> Value {
    let mut arguments: Value = call.arguments.parse().unwrap_or_default();
    for (name, value) in arguments.as_object_mut().into_iter().flatten() {
        let Some(text) = value.as_str() else {
            continue;
        };
        if name == "draft"
            && let Some(workflow) = turn.facts().draft(text)
        {
            *value = workflow.clone();
            continue;
        }
        let inside = serde_json::from_str::<Value>(text);
        if let Some(inside) = inside.ok().filter(|v| v.is_object() || v.is_array()) {
            *value = inside;
        }
    }
    arguments
}

fn camera_of(arguments: &Value) -> Option<SourceId> {
    SourceId::new(arguments.get("camera")?.as_str()?).ok()
}

fn proposed_camera(end: &TurnEnd) -> Option<SourceId> {
    let TurnEnd::Proposal { proposal, .. } = end else {
        return None;
    };
    proposal.changes.iter().find_map(|change| match change {
        ProposedChange::Deploy { spec } | ProposedChange::Replace { spec } => {
            Some(spec.source.clone())
        }
        _ => None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::super::facts::ToolFact;
    use super::super::turn::testing::{begins, came, looked, says};
    use super::super::turn_record::TurnRecord;
    use super::*;
    use crate::setup_agent::turn::TurnStep;

    fn fails(call: &str, error: &str) -> TurnRecord {
        TurnRecord::ToolFinished {
            result: Box::new(ToolResult {
                call: call.to_owned(),
                parts: vec![error.into()],
                is_error: true,
            }),
            facts: Vec::new(),
        }
    }

    fn workflow(kind: &str, line: Value) -> Value {
        let steps = json!([{"name": "middle", "type": kind, "line_segment": line}]);
        json!({"workflow": json!({"version": "1.0", "steps": steps}).to_string()})
    }

    /// A turn in which each call fails with its error, or works.
    fn turn(calls: &[(&str, Value, Option<&str>)]) -> Turn {
        let mut turn = looked();
        for (n, (tool, arguments, error)) in calls.iter().enumerate() {
            let id = format!("c{n}");
            turn.apply(says("", &[(&id, tool, arguments.clone())]))
                .unwrap();
            turn.apply(begins(&id)).unwrap();
            let finished = match error {
                Some(error) => fails(&id, error),
                None => came(&id, Vec::new()),
            };
            turn.apply(finished).unwrap();
        }
        turn
    }

    fn of(calls: &[(&str, Value, Option<&str>)]) -> Vec<String> {
        let text = "It waits.".to_owned();
        let found = lessons(&turn(calls), &TurnEnd::Answer { text });
        found.iter().map(ToString::to_string).collect()
    }

    /// The report about a misspelled block.
    fn no_block() -> String {
        let message = "there is no block \"roboflow_core/line_countr@v2\"";
        let error = json!({"step": "middle", "property": "type", "message": message});
        json!({"compiles": false, "errors": [error]}).to_string()
    }

    #[test]
    fn fixed_definition_becomes_block_error_and_remedy() {
        let line = json!([[0, 9], [9, 9]]);
        let wrong = workflow("roboflow_core/line_countr@v2", line.clone());
        let right = workflow("roboflow_core/line_counter@v2", line);
        let found = of(&[
            ("validate_workflow", wrong, Some(&no_block())),
            ("validate_workflow", right, None),
        ]);
        let expected = "Request: count the goats\n\
            Failed: validate_workflow, does-not-compile, block roboflow_core/line_countr@v2, \
            step middle, property type\n\
            Why: there is no block \"roboflow_core/line_countr@v2\"\n\
            What worked: workflow.steps.middle.type = \"roboflow_core/line_counter@v2\" instead of \
            \"roboflow_core/line_countr@v2\"\nTimes: 1";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn call_without_later_success_has_no_remedy() {
        let camera = json!({"camera": "test"});
        let found = of(&[("get_snapshot", camera, Some("the camera has no frame"))]);
        assert!(found[0].contains("Why: the camera has no frame\nWhat worked: nothing worked"));
    }

    #[test]
    fn same_call_that_works_later_names_the_tool_between() {
        let call = || json!({"draft": "d1", "camera": "test"});
        let first = "look at it with preview_workflow first";
        let found = of(&[
            ("propose_deployment", call(), Some(first)),
            ("preview_workflow", call(), None),
            ("propose_deployment", call(), None),
        ]);
        assert!(
            found[0].ends_with("the same call after preview_workflow\nTimes: 1"),
            "{found:?}"
        );
        let busy = "the runtime does not answer";
        let again = of(&[
            ("propose_deployment", call(), Some(busy)),
            ("propose_deployment", call(), None),
        ]);
        assert_eq!(
            again,
            Vec::<String>::new(),
            "a passing error teaches nothing"
        );
    }

    #[test]
    fn words_of_a_model_need_a_fixed_call() {
        let said = |tool: &str| ToolFact::LessonWords {
            tool: tool.to_owned(),
            said: "The name was misspelled. Look it up first.".to_owned(),
        };
        let line = json!([[0, 9], [9, 9]]);
        let wrong = workflow("roboflow_core/line_countr@v2", line.clone());
        let right = workflow("roboflow_core/line_counter@v2", line);
        let error = no_block();
        let failed = ("validate_workflow", wrong, Some(error.as_str()));
        let corrected = ("validate_workflow", right, None);
        let summary = |calls: &[(&str, Value, Option<&str>)], about: &str| {
            let mut turn = turn(calls);
            let note = json!({"words": "x", "camera": "", "fixed": about});
            turn.apply(says("", &[("n", "memory_note", note)])).unwrap();
            turn.apply(begins("n")).unwrap();
            turn.apply(came("n", vec![said(about)])).unwrap();
            let text = String::new();
            lessons(&turn, &TurnEnd::Answer { text })[0].said.clone()
        };
        let both = [failed.clone(), corrected];
        let words = summary(&both, "validate_workflow");
        assert_eq!(
            words.as_deref(),
            Some("The name was misspelled. Look it up first.")
        );
        assert_eq!(summary(&both, "get_snapshot"), None, "of another tool");
        assert_eq!(summary(&[failed], "validate_workflow"), None, "not fixed");
    }

    #[test]
    fn draft_is_compared_by_its_workflow() {
        let mut turn = looked();
        for (id, x) in [("a", 900), ("b", 320)] {
            turn.apply(says("", &[(id, "validate_workflow", json!({}))]))
                .unwrap();
            turn.apply(begins(id)).unwrap();
            let steps = json!([{"name": "middle", "line_segment": [[x, 0], [x, 360]]}]);
            let workflow = json!({"steps": steps});
            turn.apply(came(
                id,
                vec![ToolFact::Draft {
                    workflow,
                    text: None,
                    warnings: Vec::new(),
                }],
            ))
            .unwrap();
        }
        for (id, draft) in [("c", "d1"), ("d", "d2")] {
            let call = json!({"draft": draft, "camera": "test", "says": format!("It is {draft}")});
            turn.apply(says("", &[(id, "propose_deployment", call)]))
                .unwrap();
            turn.apply(begins(id)).unwrap();
            let finished = match draft {
                "d1" => fails(
                    id,
                    "the preview showed that middle reaches out of the picture",
                ),
                _ => came(id, Vec::new()),
            };
            turn.apply(finished).unwrap();
        }
        let text = String::new();
        let found = lessons(&turn, &TurnEnd::Answer { text });
        assert_eq!(
            found[0].worked.as_deref(),
            Some(
                "draft.steps.middle.line_segment = [[320,0],[320,360]] instead of \
                 [[900,0],[900,360]]"
            )
        );
        assert_eq!(found[0].camera, SourceId::new("test").ok());
    }

    #[test]
    fn request_without_result_and_error_is_a_lesson() {
        let turn = turn(&[]);
        let why = "the language model gave no answer; ask again".to_owned();
        let found = lessons(&turn, &TurnEnd::NoResult { why });
        assert_eq!(found[0].mistake.to_string(), "request, no-result");
        assert!(matches!(turn.next(), TurnStep::Ask { .. }));
        let text = "Two goats.".to_owned();
        assert_eq!(lessons(&turn, &TurnEnd::Answer { text }), []);
    }
}
