//! Steps, limits and resumption of turns.

use proptest::prelude::*;
use serde_json::json;
use watchkeeper_config::PermissionsConfig;
use watchkeeper_contract::id::PipelineId;

use super::super::facts::{ModelWords, ToolFact};
use super::super::job_spec::FIRST_CALL;
use super::testing::{began_names, begins, begun, came, looked, nothing, says};
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
fn answer_after_failed_proposal_says_nothing_was_proposed() {
    for (is_error, adds) in [(true, true), (false, false)] {
        let mut turn = looked();
        let call = [("a", "propose_control", nothing())];
        turn.apply(says("", &call)).unwrap();
        turn.apply(begins("a")).unwrap();
        let TurnRecord::ToolFinished { mut result, facts } = came("a", Vec::new()) else {
            panic!("a result");
        };
        result.is_error = is_error;
        let record = TurnRecord::ToolFinished { result, facts };
        turn.apply(record).unwrap();
        turn.apply(says("It waits for your yes.", &[])).unwrap();
        let TurnStep::End(TurnEnd::Answer { text }) = turn.next() else {
            panic!("{:?}", turn.next());
        };
        assert_eq!(text.ends_with(NOTHING_PROPOSED), adds, "{text}");
    }
}

#[test]
fn answer_about_the_past_carries_what_the_rules_know() {
    let mut turn = looked();
    turn.apply(says("", &[("q", "query_events", nothing())]))
        .unwrap();
    turn.apply(begins("q")).unwrap();
    let sentence = "I could not have known: yard, because nothing watched.".to_owned();
    turn.apply(came("q", vec![ToolFact::Past { sentence }]))
        .unwrap();
    turn.apply(says("Nothing happened.", &[])).unwrap();
    let text = "Nothing happened.\nBy the journal: I could not have known: yard, because nothing \
                watched.";
    let text = text.to_owned();
    assert_eq!(turn.next(), TurnStep::End(TurnEnd::Answer { text }));
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
        arguments: watchkeeper_llm::raw_json::RawJson::from_value(&nothing()),
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
    // Failed runs are free, up to three for each use.
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
    assert_eq!(failed, 4 * max_uses);
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
                let TurnEnd::NoResult { why } = end else {
                    panic!("{end:?}")
                };
                assert!(why.ends_with("or raise limits.steps"), "{why}");
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

#[test]
fn proposal_waits_for_the_plan_where_the_blueprint_requires_one() {
    let brief = super::testing::brief();
    let TurnRecord::Started {
        format,
        mut head,
        conversation,
    } = begun("count the goats")
    else {
        unreachable!("a turn begins so");
    };
    head.plan_required = true;
    let mut turn = Turn::start(TurnRecord::Started {
        format,
        head,
        conversation,
    })
    .unwrap();
    turn.apply(begins(FIRST_CALL)).unwrap();
    turn.apply(came(FIRST_CALL, Vec::new())).unwrap();
    let check = |turn: &Turn, name: &str| {
        let call = ToolCall {
            id: "c".to_owned(),
            name: name.to_owned(),
            arguments: watchkeeper_llm::raw_json::RawJson::from_value(&nothing()),
        };
        let checked = turn.check_call(&call, &brief.tools, &brief.permissions);
        checked.map(|tool| tool.name)
    };
    for name in ["propose_deployment", "propose_control"] {
        let refused = check(&turn, name).unwrap_err();
        assert!(refused.contains("call update_plan"), "{refused}");
    }
    assert!(check(&turn, "validate_workflow").is_ok());
    turn.apply(says("", &[("p", "update_plan", nothing())]))
        .unwrap();
    turn.apply(begins("p")).unwrap();
    let steps = vec![super::super::facts::PlanStep {
        step: "look".to_owned(),
        done: false,
    }];
    turn.apply(came("p", vec![ToolFact::Plan { steps }]))
        .unwrap();
    assert_eq!(check(&turn, "propose_deployment"), Ok("propose_deployment"));
}

#[test]
fn turn_ends_once_it_is_handed_over() {
    let mut turn = looked();
    turn.apply(says("", &[("h", "start_setup", nothing())]))
        .unwrap();
    turn.apply(begins("h")).unwrap();
    turn.apply(came("h", vec![ToolFact::HandOver])).unwrap();
    assert_eq!(turn.next(), TurnStep::End(TurnEnd::HandOver));
}
