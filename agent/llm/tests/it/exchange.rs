//! A model that is played through files, asked by the real client.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_llm::CallOptions;
use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::{Conversation, StopReason};
use watchkeeper_scripted_model::{Script, Server, Settings};

use crate::support::{Bench, KEY, ask, results, setup_talk};

static ASK: CallOptions = CallOptions::new(4_000);

/// Plays the model: waits for a request and writes this answer beside it.
async fn answer(folder: &Path, number: u32, reply: &Value) -> Value {
    let request = folder.join(format!("{number:04}.request.json"));
    while !request.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let asked = std::fs::read(request).expect("request");
    let part = folder.join("part");
    std::fs::write(&part, reply.to_string()).expect("reply");
    std::fs::rename(&part, folder.join(format!("{number:04}.reply.json"))).expect("reply");
    serde_json::from_slice(&asked).expect("JSON")
}

async fn play(how: &CallOptions) {
    let folder = tempfile::tempdir().expect("folder");
    let server = Server::with(Settings {
        key: Some(KEY.to_owned()),
        script: Script::default(),
        exchange: Some(folder.path().to_owned()),
        ..Settings::default()
    });
    let bench = Bench::over(server.await.expect("server"));
    let mut job = bench.job(Tier::Large);
    let mut talk: Conversation = setup_talk();

    let call = json!({"name": "get_snapshot", "arguments": {"camera": "dock"}});
    let reply = json!({"thinking": "I look.", "text": "One moment.", "calls": [call]});
    let (heard, asked) = tokio::join!(ask(&mut job, &talk, how), answer(folder.path(), 1, &reply));
    let heard = heard.expect("answer");
    assert_eq!(asked["known_messages"], 0);
    assert_eq!(asked["messages"][0]["role"], "user");
    assert!(
        asked["tools"].as_array().is_some_and(|t| !t.is_empty()),
        "{asked}"
    );
    assert_eq!(heard.text(), "One moment.");
    assert_eq!(heard.stop, StopReason::ToolUse);
    talk.push_turn(&heard.turn).expect("reply");
    talk.push_results(results(&talk, &["the dock is empty".into()]))
        .expect("results");

    let end = json!({"text": "It is empty."});
    let (heard, asked) = tokio::join!(ask(&mut job, &talk, how), answer(folder.path(), 2, &end));
    assert_eq!(asked["known_messages"], 1);
    let said = &asked["messages"][1]["parts"];
    assert_eq!(said[0]["thinking"], "I look.");
    assert_eq!(said[2]["call"]["arguments"]["camera"], "dock");
    let result = &asked["messages"][2]["parts"][0]["result"];
    assert_eq!(result["id"], said[2]["call"]["id"]);
    assert_eq!(result["parts"][0]["text"], "the dock is empty");
    assert_eq!(heard.expect("answer").stop, StopReason::End);
    assert_eq!(bench.server.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn files_answer_streamed_calls() {
    play(&ASK).await;
}

#[tokio::test]
async fn files_answer_whole_calls() {
    play(&ASK.clone().whole()).await;
}

#[tokio::test]
async fn refused_request_never_reaches_the_folder() {
    let folder = tempfile::tempdir().expect("folder");
    let server = Server::with(Settings {
        key: Some("another".to_owned()),
        exchange: Some(folder.path().to_owned()),
        ..Settings::default()
    });
    let bench = Bench::over(server.await.expect("server"));
    let mut job = bench.job(Tier::Large);
    assert!(ask(&mut job, &setup_talk(), &ASK).await.is_err());
    assert!(!folder.path().join("0001.request.json").exists());
}
