//! Whole conversations with the scripted model, which refuses what the provider would: changed
//! thoughts, results out of order, too many breakpoints.

use serde_json::json;
use watchkeeper_llm::CallOptions;
use watchkeeper_llm::catalogue::{ImageTier, Tier};
use watchkeeper_llm::conversation::UserPart;
use watchkeeper_llm::picture::{Detail, prepare};
use watchkeeper_llm::{Conversation, StopReason};
use watchkeeper_scripted_model::Step;

use crate::support::{Bench, ask, results, setup_talk, snapshot_tool};

static ASK: CallOptions = CallOptions::new(4_000);

pub(crate) fn picture() -> UserPart {
    let mut file = std::io::Cursor::new(Vec::new());
    let image = image::RgbImage::from_fn(448, 252, |x, y| image::Rgb([x as u8, y as u8, 7]));
    image
        .write_to(&mut file, image::ImageFormat::Jpeg)
        .expect("encode");
    let made = prepare(&file.into_inner().into(), ImageTier::High, Detail::Low).expect("prepare");
    UserPart::Picture(made.picture)
}

/// Looks at two docks at once, then at one, then ends. Text with multi-byte characters, arguments
/// with unusual numbers.
pub(crate) fn script() -> Vec<Step> {
    let two = [
        (
            "get_snapshot",
            json!({"camera": "dock-1", "at": 1.0, "note": "Tor „Süd“ \\ \n"}),
        ),
        (
            "get_snapshot",
            json!({"camera": "dock-2", "at": 12_345_678_901_234_567_890_u64}),
        ),
    ];
    let mut first = Step::calls(&two).thinking("Two docks – 两个. I look at both.");
    first.reply.text = Some("Ich schaue nach: 📷".to_owned());
    let second = Step::calls(&[("get_snapshot", json!({}))]).thinking("");
    vec![first, second, Step::text("Done.").thinking("Enough.")]
}

async fn play(how: CallOptions, chunk: Option<usize>) -> (Bench, Conversation) {
    let steps = script().into_iter().map(|mut step| {
        step.reply.chunk_bytes = chunk;
        step
    });
    let bench = Bench::new(steps).await;
    let mut job = bench.job(Tier::Large);
    let mut talk = setup_talk();
    loop {
        let reply = ask(&mut job, &talk, &how).await.expect("answer");
        talk.push_turn(&reply.turn).expect("reply");
        if reply.stop == StopReason::End {
            break;
        }
        let seen = [picture(), "the dock, untrusted".into()];
        talk.push_results(results(&talk, &seen)).expect("results");
    }
    bench.check();
    (bench, talk)
}

#[tokio::test]
async fn thoughts_and_parallel_calls_go_back_unchanged() {
    let (bench, talk) = play(ASK.clone(), None).await;
    assert_eq!(bench.server.requests().len(), 3);
    assert_eq!(talk.turns().len(), 6);
}

#[tokio::test]
async fn streamed_and_whole_answers_give_one_conversation() {
    let (_, streamed) = play(ASK.clone(), Some(1)).await;
    let (_, in_one) = play(ASK.clone(), Some(1 << 20)).await;
    let (_, whole) = play(ASK.clone().whole(), None).await;
    assert_eq!(streamed, in_one);
    for (a, b) in streamed.turns().iter().zip(whole.turns()) {
        assert_eq!(a, b);
    }
}

#[tokio::test]
async fn every_turn_reads_the_cache_of_the_turn_before() {
    let bench = Bench::new(script()).await;
    let mut job = bench.job(Tier::Large);
    // Longer than the minimum of a cached prefix.
    let system = vec!["You set watches up. ".repeat(200)];
    let mut talk = Conversation::new(system, vec![snapshot_tool()]).expect("new");
    talk.push_user(vec!["Watch the docks.".into()])
        .expect("user");
    let mut before = None;
    for _ in 0..3 {
        let usage = {
            let reply = ask(&mut job, &talk, &ASK).await.expect("answer");
            talk.push_turn(&reply.turn).expect("reply");
            if reply.stop == StopReason::ToolUse {
                talk.push_results(results(&talk, &[picture()]))
                    .expect("results");
            }
            reply.usage
        };
        match before {
            None => assert_eq!((usage.cache_read, usage.input), (0, 0)),
            // All of the earlier prompt is read from the cache; only the addition is written.
            Some(prompt) => assert_eq!((usage.cache_read, usage.input), (prompt, 0)),
        }
        before = Some(usage.prompt());
    }
    // Another conversation with the same tools and system reads them from the cache.
    bench.server.add([Step::text("hm")]);
    let mut other = Conversation::new(talk.system().to_vec(), talk.tools().to_vec()).expect("new");
    other
        .push_user(vec!["Watch the gate.".into()])
        .expect("user");
    let usage = ask(&mut job, &other, &ASK).await.expect("answer").usage;
    assert!(
        usage.cache_read > 900 && usage.cache_write < 50,
        "{usage:?}"
    );
    bench.check();
}

#[tokio::test]
async fn estimate_lies_above_the_provider_s_count() {
    let (bench, talk) = play(ASK.clone(), None).await;
    let model = bench.job(Tier::Large).model().clone();
    let estimate = watchkeeper_llm::estimate::prompt(&talk, &model);
    let counted = bench
        .client
        .report()
        .calls
        .last()
        .map(|call| call.usage.prompt());
    assert!(
        counted.is_some_and(|n| n < estimate),
        "{counted:?} {estimate}"
    );
}

#[tokio::test]
async fn call_made_by_the_program_carries_a_picture() {
    use watchkeeper_llm::conversation::{AssistantPart, ToolCall};
    use watchkeeper_llm::raw_json::RawJson;

    let bench = Bench::new([Step::text("nobody")]).await;
    let mut talk = setup_talk();
    let call = ToolCall {
        id: "toolu_evidence".to_owned(),
        name: "get_snapshot".to_owned(),
        arguments: RawJson::from_value(&json!({"camera": "dock"})),
    };
    talk.push_assistant(vec![AssistantPart::Call(call)])
        .expect("assistant");
    talk.push_results(results(&talk, &[picture()]))
        .expect("results");
    let reply = ask(&mut bench.job(Tier::Small), &talk, &ASK.clone().whole())
        .await
        .expect("answer");
    assert_eq!(reply.text(), "nobody");
    bench.check();
}

#[tokio::test]
async fn stored_conversation_continues_after_a_restart() {
    let bench = Bench::new(script()).await;
    let mut talk = setup_talk();
    for _ in 0..3 {
        // As after a restart: from disk, with another job.
        let stored = serde_json::to_string(&talk).expect("store");
        talk = serde_json::from_str(&stored).expect("restore");
        let reply = ask(&mut bench.job(Tier::Large), &talk, &ASK)
            .await
            .expect("answer");
        talk.push_turn(&reply.turn).expect("reply");
        if reply.stop == StopReason::ToolUse {
            talk.push_results(results(&talk, &[picture()]))
                .expect("results");
        }
    }
    assert_eq!(bench.server.steps_left(), 0);
    bench.check();
}
