//! The same conversations over every protocol: the same turns, the same end of every fault, and no
//! violation of the contract.
//!
//! Claude and a local server are played by the scripted model. OpenAI and Gemini answer from
//! `recorded/`, where a request has to equal a recorded one in method, path, headers and body.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_llm::attempt_error::AttemptErrorKind;
use watchkeeper_llm::call_options::ToolChoice;
use watchkeeper_llm::catalogue::{Catalogue, Tier};
use watchkeeper_llm::conversation::{AssistantPart, ToolCall, Turn};
use watchkeeper_llm::raw_json::RawJson;
use watchkeeper_llm::usage::Usage;
use watchkeeper_llm::{CallOptions, Conversation, LlmError, Reply, StopReason};
use watchkeeper_scripted_model::{Fault, Step};

use crate::support::{
    Bench, KEY, Wire, ask, limits, results, setup_talk, snapshot_tool, verdict_talk,
};
use crate::talk::{picture, script};

static ASK: CallOptions = CallOptions::new(2_000);

/// Plays the script of [`script`] to its end.
async fn play(wire: Wire, how: &CallOptions, chunk: Option<usize>) -> Conversation {
    let steps = script().into_iter().map(|mut step| {
        step.reply.chunk_bytes = chunk;
        step
    });
    let name = wire.name();
    let bench = Bench::on(wire, steps).await;
    let mut job = bench.job(Tier::Large);
    let mut talk = setup_talk();
    loop {
        let reply = ask(&mut job, &talk, how).await.expect(name);
        talk.push_turn(&reply.turn).expect("reply");
        if reply.stop == StopReason::End {
            assert_eq!(reply.text(), "Done.");
            break;
        }
        let seen = [picture(), "the dock, untrusted".into()];
        talk.push_results(results(&talk, &seen)).expect("results");
    }
    assert_eq!(bench.server.requests().len(), 3);
    bench.check();
    talk
}

/// The conversation without the provider's raw items.
fn said(talk: &Conversation) -> Vec<Vec<AssistantPart>> {
    let turns = talk.turns().iter().filter_map(|turn| match turn {
        Turn::Assistant(turn) => Some(turn.parts.clone()),
        Turn::User(_) | Turn::Results(_) => None,
    });
    turns.collect()
}

#[tokio::test]
async fn tool_loop_with_pictures_is_one_conversation_in_every_form() {
    for wire in Wire::ALL {
        let streamed = said(&play(wire, &ASK, None).await);
        assert_eq!(streamed.len(), 3);
        let calls: Vec<&ToolCall> = streamed[0]
            .iter()
            .filter_map(|part| match part {
                AssistantPart::Call(call) => Some(call),
                AssistantPart::Thinking(_) | AssistantPart::Text(_) => None,
            })
            .collect();
        let [first, second] = calls[..] else {
            panic!("{calls:?}");
        };
        assert_ne!(first.id, second.id);
        let arguments: Value = first.arguments.parse().expect("arguments");
        assert_eq!(arguments["note"], "Tor „Süd“ \\ \n");
        assert!(second.arguments.text().contains("12345678901234567890"));
        let thought = AssistantPart::Thinking("Two docks – 两个. I look at both.".to_owned());
        assert_eq!(streamed[0][0], thought, "{}", wire.name());
        for chunk in [1, 1 << 20] {
            assert_eq!(said(&play(wire, &ASK, Some(chunk)).await), streamed);
        }
        let whole = said(&play(wire, &ASK.clone().whole(), None).await);
        assert_eq!(whole, streamed, "{}", wire.name());
    }
}

#[tokio::test]
async fn verdict_on_a_picture_is_json_of_its_schema() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["verdict"],
        "properties": {"verdict": {"type": "string", "enum": ["confirm", "refute", "abstain"]}},
    });
    for (wire, place) in [
        (Wire::Claude, "/output_config/format/schema"),
        (Wire::Openai, "/text/format/schema"),
        (Wire::Gemini, "/generationConfig/responseJsonSchema"),
        (Wire::Local, ""),
    ] {
        let bench = Bench::on(wire, [Step::text(r#"{"verdict": "refute"}"#)]).await;
        let mut talk = Conversation::new(vec!["You judge.".to_owned()], Vec::new()).expect("new");
        talk.push_user(vec![picture(), "Is somebody there?".into()])
            .expect("user");
        let how = ASK.clone().whole().schema("verdict", &schema);
        let reply = ask(&mut bench.job(Tier::Small), &talk, &how).await;
        assert_eq!(reply.expect("answer").text(), r#"{"verdict": "refute"}"#);
        let sent = bench.server.requests()[0].json();
        match place {
            // The prompt alone asks for it.
            "" => assert_eq!(sent.get("output_config"), None),
            place => assert_eq!(sent.pointer(place), Some(&schema), "{}", wire.name()),
        }
        bench.check();
    }
}

#[tokio::test]
async fn second_turn_reads_the_cache_and_costs_its_price() {
    for wire in Wire::ALL {
        let bench = Bench::on(wire, script()).await;
        let mut job = bench.job(Tier::Large);
        let is_recorded = matches!(wire, Wire::Openai | Wire::Gemini);
        // Claude caches no short prompt.
        let times = if is_recorded { 1 } else { 300 };
        let system = vec!["You set watches up.".repeat(times)];
        let mut talk = Conversation::new(system, vec![snapshot_tool()]).expect("new");
        talk.push_user(vec!["Watch the dock.".into()])
            .expect("user");
        let mut prompts = Vec::new();
        for _ in 0..2 {
            let reply = ask(&mut job, &talk, &ASK).await.expect("answer");
            talk.push_turn(&reply.turn).expect("reply");
            let seen = [picture(), "the dock, untrusted".into()];
            talk.push_results(results(&talk, &seen)).expect("results");
            prompts.push(reply.usage);
        }
        let [first, second] = prompts[..] else {
            panic!("{prompts:?}");
        };
        assert_eq!(first.cache_read, 0);
        let read = second.cache_read;
        match wire {
            Wire::Local => assert_eq!(read, 0, "it says nothing of its own"),
            Wire::Claude => assert_eq!(read, first.prompt()),
            Wire::Openai | Wire::Gemini => assert_eq!(read, 64),
        }
        assert!(second.prompt() > first.prompt(), "{first:?} {second:?}");
        let catalogue = Catalogue::built_in().expect("catalogue");
        let model = catalogue.model(wire.name(), &job.model().id);
        let prices = model.expect("model").prices;
        let mut cost = prices.cost(&first);
        cost += prices.cost(&second);
        let uncached = Usage {
            input: second.prompt(),
            cache_read: 0,
            cache_write: 0,
            ..second
        };
        let is_cheaper = prices.cost(&second) < prices.cost(&uncached);
        assert_eq!(is_cheaper, wire != Wire::Local, "{second:?}");
        assert_eq!(bench.client.report().day, cost);
        assert_eq!(cost.0 == 0, wire == Wire::Local);
        bench.check();
    }
}

#[tokio::test]
async fn call_made_by_the_program_carries_a_picture() {
    for wire in Wire::ALL {
        let bench = Bench::on(wire, [Step::text("nobody")]).await;
        let mut talk = setup_talk();
        talk.push_assistant(vec![AssistantPart::Call(ToolCall {
            id: "toolu_evidence".to_owned(),
            name: "get_snapshot".to_owned(),
            arguments: RawJson::from_value(&json!({"camera": "dock"})),
        })])
        .expect("assistant");
        talk.push_results(results(&talk, &[picture()]))
            .expect("results");
        let how = ASK.clone().whole();
        let reply = ask(&mut bench.job(Tier::Small), &talk, &how).await;
        assert_eq!(reply.expect("answer").text(), "nobody");
        bench.check();
    }
}

#[tokio::test]
async fn conversation_continues_with_any_other_provider() {
    for one in Wire::ALL {
        let bench = Bench::on(one, script()).await;
        let mut talk = setup_talk();
        let reply = ask(&mut bench.job(Tier::Large), &talk, &ASK).await;
        talk.push_turn(&reply.expect("answer").turn).expect("reply");
        talk.push_results(results(&talk, &[picture()]))
            .expect("results");
        for other in Wire::ALL.into_iter().filter(|other| *other != one) {
            let name = other.name();
            let bench = Bench::on(other, script().split_off(1)).await;
            let mut talk = talk.clone();
            for _ in 0..2 {
                let reply = ask(&mut bench.job(Tier::Large), &talk, &ASK).await;
                let reply = reply.expect(name);
                talk.push_turn(&reply.turn).expect("reply");
                if reply.stop == StopReason::ToolUse {
                    talk.push_results(results(&talk, &["seen".into()]))
                        .expect("results");
                }
            }
            bench.check();
        }
    }
}

#[tokio::test]
async fn results_match_their_calls_in_any_order() {
    let two = [
        ("get_snapshot", json!({"camera": "dock-1"})),
        ("list_cameras", json!({})),
    ];
    for wire in Wire::ALL {
        let steps = [
            Step::calls(&two[..1]),
            Step::calls(&two),
            Step::calls(&two),
            Step::text("Done."),
        ];
        let name = wire.name();
        let bench = Bench::on(wire, steps).await;
        let mut job = bench.job(Tier::Large);
        let mut talk = setup_talk();
        loop {
            let reply = ask(&mut job, &talk, &ASK).await.expect(name);
            talk.push_turn(&reply.turn).expect("reply");
            if reply.stop == StopReason::End {
                break;
            }
            let mut answers = results(&talk, &["seen".into()]);
            answers.reverse();
            talk.push_results(answers).expect("results");
        }
        bench.check();
    }
}

#[tokio::test]
async fn empty_thought_does_not_stop_the_conversation() {
    for wire in Wire::ALL {
        let name = wire.name();
        let steps = [Step::default().thinking("Hm."), Step::text("Done.")];
        let bench = Bench::on(wire, steps).await;
        let mut job = bench.job(Tier::Large);
        let mut talk = setup_talk();
        let reply = ask(&mut job, &talk, &ASK).await.expect("a thought");
        assert_eq!((reply.text().as_str(), &reply.stop), ("", &StopReason::End));
        talk.push_turn(&reply.turn).expect("reply");
        talk.push_user(vec!["Go on.".into()]).expect("user");
        let reply = ask(&mut job, &talk, &ASK).await.expect(name);
        assert_eq!(reply.text(), "Done.");
        bench.check();
    }
}

#[tokio::test]
async fn turn_with_nothing_to_send_back_is_left_out() {
    for wire in Wire::ALL {
        let bench = Bench::on(wire, [Step::text("Done.")]).await;
        let mut talk = setup_talk();
        // As another provider's model left it.
        talk.push_assistant(vec![AssistantPart::Thinking("Hm.".to_owned())])
            .expect("a thought");
        talk.push_user(vec!["Go on.".into()]).expect("user");
        // Two turns of one role are in no recorded request, so the answer does not matter.
        drop(ask(&mut bench.job(Tier::Large), &talk, &ASK).await);
        let sent = bench.server.requests()[0].json().to_string();
        let has_empty = ["\"parts\":[]", "\"content\":[]"].map(|part| sent.contains(part));
        assert_eq!(has_empty, [false, false], "{}", wire.name());
    }
}

#[tokio::test]
async fn model_without_calls_gets_a_choice_or_no_tools() {
    for wire in Wire::ALL {
        let bench = Bench::on(wire, [Step::text("Done.")]).await;
        let how = ASK.clone().choice(ToolChoice::Never);
        let reply = ask(&mut bench.job(Tier::Large), &setup_talk(), &how).await;
        reply.expect("answer");
        let sent = bench.server.requests()[0].json();
        let is_told = match wire {
            Wire::Claude => sent["tool_choice"]["type"] == "none",
            Wire::Openai => sent["tool_choice"] == "none",
            Wire::Gemini => sent["toolConfig"]["functionCallingConfig"]["mode"] == "NONE",
            Wire::Local => sent.get("tools").is_none() && sent.get("tool_choice").is_none(),
        };
        assert!(is_told, "{sent}");
        bench.check();
    }
}

/// How a fault ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultEnd {
    /// The answer, at once.
    Harmless,
    /// The answer, after another attempt.
    Retried,
    /// No answer, for this reason.
    GivenUp(AttemptErrorKind),
    /// An answer that words the refusal.
    Worded,
}

/// Every fault, how often it occurs in a row, and how it ends.
fn table(wire: Wire) -> Vec<(Fault, usize, FaultEnd)> {
    use FaultEnd::{GivenUp, Harmless, Retried, Worded};
    let is_local = wire == Wire::Local;
    let limited = |retry_after: Option<&str>| Fault::RateLimited {
        retry_after: retry_after.map(str::to_owned),
    };
    let refusal = Fault::Refusal {
        category: "general_harms".to_owned(),
    };
    let status = |status| Fault::Status {
        status,
        content_type: "text/html".to_owned(),
        body: "<h1>No</h1> {key}".to_owned(),
    };
    vec![
        (limited(Some("7")), 1, Retried),
        (limited(None), 2, Retried),
        (Fault::Overloaded, 3, Retried),
        (Fault::Overloaded, 4, GivenUp(AttemptErrorKind::Overloaded)),
        (Fault::OutOfCredit, 1, GivenUp(AttemptErrorKind::Billing)),
        (status(401), 1, GivenUp(AttemptErrorKind::WrongKey)),
        (status(404), 1, GivenUp(AttemptErrorKind::NotFound)),
        (status(502), 1, Retried),
        (Fault::ResetAfterHeaders, 1, Retried),
        (Fault::Stall, 1, Retried),
        (Fault::ErrorInToolInput, 1, Retried),
        (Fault::NoMessageStop, 1, Retried),
        (Fault::InvalidArguments, 1, Retried),
        (
            refusal,
            1,
            if is_local {
                Worded
            } else {
                GivenUp(AttemptErrorKind::Refused)
            },
        ),
        (Fault::UnknownEvents, 1, Harmless),
    ]
}

fn check_end(
    name: &str,
    bench: &Bench,
    comes: FaultEnd,
    times: usize,
    result: Result<Reply, LlmError>,
) {
    let asked = bench.server.requests();
    let most = match comes {
        FaultEnd::Harmless | FaultEnd::Worded => 1,
        FaultEnd::Retried => times + 1,
        FaultEnd::GivenUp(_) => times,
    };
    assert_eq!(asked.len(), most, "{name}: {result:?}");
    assert_eq!(bench.client.report().calls.len(), most, "{name}");
    bench.check();
    match (comes, result) {
        (FaultEnd::GivenUp(kind), Err(error)) => {
            assert!(!error.to_string().contains(KEY), "{error}");
            match error {
                LlmError::Failed { error, .. } => assert_eq!(error.kind, kind, "{name}: {error}"),
                other => panic!("{name}: {other}"),
            }
        }
        (FaultEnd::GivenUp(_), Ok(reply)) => panic!("{name}: {reply:?}"),
        (FaultEnd::Worded, reply) => {
            let reply = reply.expect(name);
            assert!(reply.text().contains("general_harms"), "{reply:?}");
            assert_eq!(reply.calls().count(), 0);
        }
        (_, reply) => {
            reply.expect(name);
        }
    }
}

#[tokio::test]
async fn every_fault_of_every_provider_is_retried_or_reported() {
    let call = [("get_snapshot", json!({"camera": "dock", "note": "größer"}))];
    for wire in Wire::ALL {
        for (fault, times, comes) in table(wire) {
            let name = format!("{} {fault:?}", wire.name());
            for is_setup in [true, false] {
                let step = || match is_setup {
                    true => Step::calls(&call).thinking("hm"),
                    false => Step::text("yes"),
                };
                let faulty = (0..times).map(|_| step().with(fault.clone()));
                let last = (comes == FaultEnd::Retried).then(step);
                let bench = Bench::at(wire, limits(), faulty.chain(last), |settings| {
                    settings.idle_timeout = Duration::from_millis(200);
                })
                .await;
                let (talk, how, tier) = match is_setup {
                    true => (setup_talk(), ASK.clone(), Tier::Large),
                    false => (verdict_talk(), ASK.clone().whole(), Tier::Small),
                };
                let result = ask(&mut bench.job(tier), &talk, &how).await;
                if let (true, Ok(reply)) = (is_setup && comes != FaultEnd::Worded, &result) {
                    let called: Vec<&str> = reply.calls().map(|c| c.name.as_str()).collect();
                    assert_eq!(called, ["get_snapshot"], "{name}");
                }
                if matches!(
                    fault,
                    Fault::RateLimited {
                        retry_after: Some(_)
                    }
                ) {
                    let pauses = bench.clock.pauses();
                    assert_eq!(pauses, [Duration::from_millis(7_500)], "{name}");
                }
                check_end(&name, &bench, comes, times, result);
            }
        }
    }
}

#[tokio::test]
async fn truncated_or_missing_call_gets_more_output_once() {
    let call = [("get_snapshot", json!({"camera": "dock"}))];
    for wire in Wire::ALL {
        for how in [ASK.clone(), ASK.clone().whole()] {
            let name = wire.name();
            let cut = Step::calls(&call).with(Fault::TruncatedCall);
            let bench = Bench::on(wire, [cut, Step::calls(&call)]).await;
            let reply = ask(&mut bench.job(Tier::Large), &setup_talk(), &how).await;
            assert_eq!(reply.expect(name).calls().count(), 1);
            let place = match wire {
                Wire::Claude | Wire::Local => "/max_tokens",
                Wire::Openai => "/max_output_tokens",
                Wire::Gemini => "/generationConfig/maxOutputTokens",
            };
            let sent = bench.server.requests();
            let room = sent
                .iter()
                .map(|request| request.json().pointer(place).cloned());
            let room: Vec<Value> = room.flatten().collect();
            assert_eq!(room, [json!(2_000), json!(4_000)]);
            bench.check();
        }
    }
}

#[tokio::test]
async fn blocked_prompt_is_refused() {
    let refusal = || Fault::Refusal {
        category: "PROHIBITED_CONTENT".to_owned(),
    };
    for how in [ASK.clone(), ASK.clone().whole()] {
        let bench = Bench::on(Wire::Gemini, [Step::from(refusal())]).await;
        let result = ask(&mut bench.job(Tier::Small), &verdict_talk(), &how).await;
        let said = result.expect_err("refused").to_string();
        assert!(said.contains("PROHIBITED_CONTENT"), "{said}");
        bench.check();
    }
}

#[tokio::test]
async fn wrong_key_is_reported_by_every_provider_with_keys() {
    for wire in [Wire::Claude, Wire::Openai, Wire::Gemini] {
        let bench = Bench::on(wire, []).await;
        let client = bench.with_key("wrong-key-0123456789", wire);
        let mut job = client.start_job(watchkeeper_llm::JobSpec {
            name: "a".to_owned(),
            class: watchkeeper_llm::budget::CallClass::Person,
            rule: None,
            tier: Tier::Small,
            detail: watchkeeper_llm::picture::Detail::Low,
            time: Duration::from_secs(20),
        });
        let said = ask(&mut job, &verdict_talk(), &ASK).await;
        let said = said.expect_err("wrong key").to_string();
        assert!(
            said.contains("does not accept the key") && !said.contains("wrong-key"),
            "{said}"
        );
        assert_eq!(bench.server.violations(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn request_unlike_its_recording_is_a_violation() {
    for wire in [Wire::Openai, Wire::Gemini] {
        let bench = Bench::on(wire, [Step::text("yes")]).await;
        let mut talk =
            Conversation::new(vec!["You judge events.".to_owned()], Vec::new()).expect("new");
        talk.push_user(vec!["Is nobody there?".into()])
            .expect("user");
        let said = ask(&mut bench.job(Tier::Small), &talk, &ASK.clone().whole()).await;
        assert!(said.is_err(), "{said:?}");
        let violations = bench.server.violations().concat();
        assert!(violations.contains("Is nobody there?"), "{violations}");
    }
}
