//! The shares of the LLM budget: second opinions leave a user's request its calls.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use watchkeeper_assistant::blueprint::{BlueprintName, BlueprintStore};
use watchkeeper_assistant::trace::{TRACE_FOLDER, Trace};
use watchkeeper_config::LlmConfig;
use watchkeeper_contract::event::{Event, EventBody};
use watchkeeper_scripted_model::{Script, Server, ServerKind, Settings, Step};

use crate::opinions::{opinion_step, picture, uncertain_event};
use crate::support::agent_api::{SOCKET, call, get};
use crate::support::agent_thread::EmbeddedAgent;
use crate::support::broker::WAIT_TIMEOUT;
use crate::support::fake_runtime::FakeRuntime;
use crate::support::model::{llm, model};

/// Returns the number of events that got an opinion, and of those that did not.
async fn results(socket: &Path) -> Option<(u64, u64)> {
    let counts = get(socket, "/v1/opinions").await?;
    Some((
        counts["raised"].as_u64()?,
        counts["without_answer"].as_u64()?,
    ))
}

/// Waits until so many events have a result.
async fn wait_for_results(socket: &Path, events: u64, timeout: Duration) -> bool {
    let until = Instant::now() + timeout;
    while Instant::now() < until {
        if results(socket)
            .await
            .is_some_and(|(with, without)| with + without >= events)
        {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

/// Builds an uncertain event of one of five rules.
fn event(number: u64) -> Event {
    let mut event = uncertain_event(false);
    if let EventBody::Rule(rule) = &mut event.body {
        rule.rule = format!("rule-{}", number % 5);
    }
    event
}

/// Starts an agent with second opinions and its API in `folder`.
fn start(folder: &Path, runtime: &FakeRuntime, config: &LlmConfig) -> EmbeddedAgent {
    EmbeddedAgent::start(folder, runtime, 0, |box_config| {
        box_config.llm = Some(config.clone());
    })
}

/// Appends events until one has a result: a new box skips what the journal holds before it reads
/// it.
async fn first_result(socket: &Path, runtime: &FakeRuntime) {
    let mut appended = 0;
    while !wait_for_results(socket, 1, Duration::from_secs(1)).await {
        runtime.append(event(appended));
        appended += 1;
        assert!(appended < 60, "no result");
    }
}

/// Makes a user's request that the model has to reword.
async fn ask_for_cameras(socket: &Path) {
    let talk = call(socket, "POST", "/v1/conversations", "").await;
    let talk: Value = serde_json::from_str(&talk.expect("a conversation")).expect("json");
    let path = format!(
        "/v1/conversations/{}/messages",
        talk["id"].as_str().expect("id")
    );
    let words = json!({"text": "Zeig mir alle Kameras"}).to_string();
    let said = call(socket, "POST", &path, &words)
        .await
        .expect("an answer");
    assert!(said.contains("\"type\":\"cameras\""), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn blueprint_asks_a_second_provider_within_the_same_budget() {
    let folder = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(folder.path());
    runtime.keeps_picture(picture());
    let reworded = json!({"language": "en", "request": "List the cameras.", "left_out": []});
    let first = model(vec![Step::text(&reworded.to_string())]).await;
    let steps = vec![opinion_step("confirm", 0.9); 60];
    let own = Server::with(Settings {
        kind: ServerKind::Ollama,
        script: Script { steps },
        ..Settings::default()
    });
    let own = own.await.expect("the other model");
    let home = folder.path().join("state").join(TRACE_FOLDER);
    let text = "+++\njob = \"triage\"\nwhen = \"An event is uncertain.\"\nprovider = \
                \"local\"\nmodel = \"qwen3-vl:8b\"\n+++\n";
    let name = BlueprintName::new("triage").expect("a name");
    BlueprintStore::new(&home)
        .update(&name, text)
        .expect("a blueprint");
    let second = LlmConfig {
        provider: "local".to_owned(),
        base_url: Some(own.base_url()),
        key: None,
        ..llm(&first)
    };
    let config = LlmConfig {
        second: Some(Box::new(second)),
        ..llm(&first)
    };
    let agent = start(folder.path(), &runtime, &config);
    let socket = folder.path().join(SOCKET);
    first_result(&socket, &runtime).await;
    assert_eq!(first.requests().len(), 0, "a picture left the box");
    ask_for_cameras(&socket).await;
    assert_eq!(first.requests().len(), 1);
    assert_eq!(own.requests()[0].json()["model"], "qwen3-vl:8b");
    assert_eq!(
        [first.violations(), own.violations()].concat(),
        Vec::<String>::new()
    );

    let cost = get(&socket, "/v1/cost").await.expect("costs");
    let calls = cost["calls"].as_array().expect("calls");
    let by = |provider: &str| {
        calls
            .iter()
            .filter(|call| call["provider"] == provider)
            .count()
    };
    assert_eq!(
        (by("claude"), by("local")),
        (1, own.requests().len()),
        "{cost:#}"
    );
    assert_eq!(cost["budget"]["calls_in_hour"], calls.len(), "{cost:#}");
    agent.stop();
    let trace = Trace::new(&home, "test")
        .latest(usize::MAX)
        .expect("the trace");
    let asked = trace
        .iter()
        .find(|entry| entry["of"]["blueprint"] == "triage");
    assert_eq!(
        asked.map(|entry| &entry["of"]["provider"]),
        Some(&json!("local"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_escalations_leave_a_users_request_its_answer() {
    let folder = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(folder.path());
    runtime.keeps_picture(picture());
    let reworded = json!({"language": "en", "request": "List the cameras.", "left_out": []});
    let mut steps = vec![opinion_step("confirm", 0.9); 10];
    steps.push(Step::text(&reworded.to_string()));
    let model = model(steps).await;
    let socket = folder.path().join(SOCKET);
    let limited = LlmConfig {
        calls_per_hour: 20,
        ..llm(&model)
    };
    let agent = start(folder.path(), &runtime, &limited);
    first_result(&socket, &runtime).await;
    for number in 0..40 {
        runtime.append(event(number));
        assert!(wait_for_results(&socket, number + 2, WAIT_TIMEOUT).await);
    }
    let (answered, _) = results(&socket).await.expect("counts");
    assert_eq!(answered, 10, "half of the hour's calls");
    assert_eq!(model.requests().len(), 10);

    ask_for_cameras(&socket).await;
    assert_eq!(model.requests().len(), 11);
    assert_eq!(model.violations(), Vec::<String>::new());

    let cost = get(&socket, "/v1/cost").await.expect("costs");
    let class = |name: &str| {
        let classes = cost["budget"]["classes"].as_array().into_iter().flatten();
        let mut classes = classes.filter(|class| class["class"] == name);
        classes.next().cloned().unwrap_or_default()
    };
    let escalation = class("escalation");
    assert_eq!(escalation["calls_in_hour"], 10, "{cost:#}");
    assert_eq!(escalation["calls_ceiling"], 10);
    let refused = escalation["refused"]["hour"].as_u64();
    assert!(refused.is_some_and(|n| n >= 30), "{escalation:#}");
    assert_eq!(class("person")["calls_in_hour"], 1);
    assert_eq!(class("person")["refused"], json!({}));
    agent.stop();
}
