//! What a foreign subscriber hears when the agent looks after its box: what deserves a word, once, with a model's words beside it or without.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use watchkeeper_agent::run::HeartbeatSetup;
use watchkeeper_config::{ChannelConfig, ChannelKind, LlmConfig, SecretSource};
use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::rule::Severity;
use watchkeeper_scripted_model::{Fault, Server, Step};

use crate::support::agent_thread::EmbeddedAgent;
use crate::support::broker::{Memory, Mosquitto, Subscriber, mosquitto_or_skip};
use crate::support::fake_runtime::{FakeRuntime, crossing};
use crate::support::hook::receiver;
use crate::support::model::{self, model};

/// So often that a test sees many looks; the configuration takes nothing below a quarter of an hour.
const EVERY: Duration = Duration::from_millis(50);
const AWAY: &str = "/heartbeat/runtime_away";

fn llm(model: &Server) -> LlmConfig {
    LlmConfig {
        second_opinion: false,
        ..model::llm(model)
    }
}

fn agent(folder: &Path, runtime: &FakeRuntime, port: u16, llm: Option<LlmConfig>) -> EmbeddedAgent {
    EmbeddedAgent::start(folder, runtime, port, |setup| {
        setup.heartbeat = Some(HeartbeatSetup { every: EVERY, llm });
    })
}

fn notes(folder: &Path) -> String {
    fn read(folder: &Path, all: &mut String) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                read(&entry.path(), all);
            } else {
                all.push_str(&std::fs::read_to_string(entry.path()).unwrap_or_default());
            }
        }
    }
    let mut all = String::new();
    read(&folder.join("state/assistant/memory"), &mut all);
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_is_away_is_told_once_with_a_models_words_also_over_a_restart() {
    let test = "a_runtime_that_is_away_is_told_once_with_a_models_words_also_over_a_restart";
    if mosquitto_or_skip(test).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("dir");
    let mut runtime = FakeRuntime::start(folder.path());
    let broker = Mosquitto::start(folder.path(), Memory::Nothing);
    let mut subscriber = Subscriber::start(broker.port, "foreign").ready(broker.port);
    let words = json!({"words": "Nothing else is wrong, so look at the runtime's log first."});
    let model = model(vec![Step::text(&words.to_string())]).await;
    let first = agent(folder.path(), &runtime, broker.port, Some(llm(&model)));
    // While it answers there is nothing to say: an event comes, and no word of the heartbeat before it.
    runtime.append(crossing(Severity::Info));
    subscriber.expect("/ev/crosses", |_| true);
    runtime.halt();
    let word = subscriber.expect(AWAY, |_| true);
    assert_eq!(word["severity"], "critical", "{word:#}");
    assert_eq!(word["by_model"], words["words"]);
    assert_eq!(word["model"], "claude-haiku-5-5");
    // The names that people gave stand in the result of a tool, and there is nothing to act with.
    let asked = model.requests()[0].json();
    assert_eq!(asked["tools"].as_array().map(Vec::len), Some(1));
    assert_eq!(asked["tools"][0]["name"], "get_findings");
    first.stop();
    // It is kept among the notes, the model's words as nobody's own.
    let notes = notes(folder.path());
    assert!(notes.contains("the runtime does not answer"), "{notes}");
    assert!(notes.contains("look at the runtime's log first"), "{notes}");

    let second = agent(folder.path(), &runtime, broker.port, Some(llm(&model)));
    let repeated = subscriber.hears(AWAY, Duration::from_secs(2));
    assert!(!repeated, "it was told before the restart");
    // Back and away again: that is news.
    runtime.resume();
    runtime.append(crossing(Severity::Info));
    subscriber.expect("/ev/crosses", |event| event["seq"] == 2);
    // A look that sees it back has to come before it goes again.
    tokio::time::sleep(EVERY * 20).await;
    runtime.halt();
    let again = subscriber.expect(AWAY, |_| true);
    assert_ne!(again["id"], word["id"]);
    assert!(
        again["by_model"].is_null(),
        "the script has no second answer"
    );
    second.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_or_with_one_that_is_away_what_was_found_is_told_all_the_same() {
    let test = "without_a_model_or_with_one_that_is_away_what_was_found_is_told_all_the_same";
    if mosquitto_or_skip(test).is_none() {
        return;
    }
    let refusal = Fault::Refusal {
        category: "general_harms".to_owned(),
    };
    for steps in [
        None,
        Some(vec![Step::from(refusal)]),
        Some(vec![Step::text("Stop everything.")]),
    ] {
        let folder = tempfile::tempdir().expect("dir");
        let mut runtime = FakeRuntime::start(folder.path());
        let broker = Mosquitto::start(folder.path(), Memory::Nothing);
        let mut subscriber = Subscriber::start(broker.port, "foreign").ready(broker.port);
        let model = match steps {
            Some(steps) => Some(model(steps).await),
            None => None,
        };
        let agent = agent(
            folder.path(),
            &runtime,
            broker.port,
            model.as_ref().map(llm),
        );
        runtime.append(crossing(Severity::Info));
        subscriber.expect("/ev/crosses", |_| true);
        runtime.halt();
        let word = subscriber.expect(AWAY, |_| true);
        assert!(word["by_model"].is_null(), "{word:#}");
        let reason = word["reason"].as_str().expect("a reason");
        assert!(reason.contains("does not answer"), "{reason}");
        assert_eq!(runtime.calls(), Vec::<String>::new(), "it only looks");
        agent.stop();
        assert!(notes(folder.path()).contains("the runtime does not answer"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_channel_could_not_tell_is_told_after_a_restart_without_broker_and_without_runtime()
{
    let folder = tempfile::tempdir().expect("dir");
    let mut runtime = FakeRuntime::start(folder.path());
    // From the first start on there is no runtime, so the channel has no place in the journal yet.
    runtime.halt();
    let (down, refused) = receiver(SocketAddr::from(([127, 0, 0, 1], 0)), "503 Not Now");
    let start = |receiver: SocketAddr| {
        EmbeddedAgent::start(folder.path(), &runtime, 0, |setup| {
            setup.broker = None;
            setup.heartbeat = Some(HeartbeatSetup {
                every: EVERY,
                llm: None,
            });
            setup.channels = vec![ChannelConfig {
                id: ChannelId::new("ops").expect("name"),
                kind: ChannelKind::Webhook,
                url: SecretSource::Value(format!("http://{receiver}/").into()),
                min_severity: Some(Severity::Critical),
                notify_end: false,
                pictures: false,
            }];
        })
    };
    let patience = Duration::from_secs(60);
    let first = start(down);
    let (id, text) = refused.recv_timeout(patience).expect("a request");
    assert!(text.contains("the runtime does not answer"), "{text}");
    first.stop();

    let (up, told) = receiver(SocketAddr::from(([127, 0, 0, 1], 0)), "200 OK");
    let second = start(up);
    let (again, text) = told
        .recv_timeout(patience)
        .expect("it is told after the restart");
    assert_eq!(again, id, "it is the same message");
    assert!(text.contains("the runtime does not answer"), "{text}");
    second.stop();

    // What was told is owed no longer, and is no news. The stop may have come between the receiver's answer and the note of it: then it is told once more.
    let is_quiet = (0..3).any(|_| {
        let next = start(up);
        let repeated = told.recv_timeout(Duration::from_secs(3));
        if let Ok((again, text)) = &repeated {
            assert_eq!(*again, id, "{text}");
            std::thread::sleep(Duration::from_secs(1));
        }
        next.stop();
        repeated.is_err()
    });
    assert!(is_quiet, "it is told after each start");
}
