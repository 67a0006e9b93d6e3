//! Target `evidence`: what sources of a chain receive from outside. The first byte chooses.
//!
//! - The response of a service, the fields of a model and a chain from disk become an answer.
//!   Otherwise they give a sentence of one line that says what is wrong.
//! - A confidence is in `0.0..=1.0`, and a chain that was read reaches a final state.
//! - No value that was read changes host or path segments of an address.

use serde_json::json;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_evidence::chain::{Chain, Step};
use watchkeeper_evidence::fields::Schema;
use watchkeeper_evidence::http::{extract_answer, fill_url};
use watchkeeper_evidence::picture;
use watchkeeper_evidence::source::{SourceAnswer, SourceResult};

const NOW: Wall = Wall {
    unix_ms: 1_798_761_600_000,
    quality: TimeQuality::Synced,
};

pub(super) fn evidence(input: &[u8]) {
    let (choice, rest) = match input.split_first() {
        Some((choice, rest)) => (choice % 5, rest),
        None => return,
    };
    let text = String::from_utf8_lossy(rest);
    match choice {
        0 => match extract_answer("/status", rest) {
            Ok(answer) => check_answer(&answer),
            Err(why) => assert!(!why.trim().is_empty() && !why.contains('\n'), "{why:?}"),
        },
        1 => check_answer(&schema().read(&text)),
        2 => check_chain(&text),
        3 => check_url(&text),
        _ => match picture::check(&[rest]) {
            Ok(()) => {
                let cut = picture::cut(rest, Some([0.2, 0.1, 0.7, 1.4]));
                cut.expect("what passes the checks can be cut");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        },
    }
}

fn schema() -> Schema {
    let schema = json!({"properties": {"plate": {"type": "string"}, "axles": {"type": "integer"}}});
    let schema = schema.as_object().expect("an object").clone();
    Schema::parse(&schema).expect("a good schema")
}

fn check_answer(answer: &SourceAnswer) {
    let result = SourceResult {
        answer: answer.clone(),
        at: NOW,
        took_ms: 1,
        cost_usd: None,
    };
    let link = result.link("source", 0.45);
    assert!((0.0..=1.0).contains(&link.confidence), "{link:?}");
    assert!(!link.note.chars().any(char::is_control), "{link:?}");
    assert!(!link.failed || link.confidence == 0.0, "{link:?}");
}

fn check_chain(text: &str) {
    let Ok(mut chain) = serde_json::from_str::<Chain>(text) else {
        return;
    };
    chain.resume(NOW);
    for _ in 0..64 {
        match chain.next(NOW) {
            Step::Done(done) => {
                assert!((0.0..=1.0).contains(&done.confidence), "{done:?}");
                return;
            }
            Step::Ask { .. } => {
                chain.begin();
                chain.answer(SourceResult {
                    answer: SourceAnswer::failed("no network"),
                    at: NOW,
                    took_ms: 1,
                    cost_usd: None,
                });
            }
        }
    }
    // A stored chain has at most twelve sources; the program writes no longer one.
    chain.give_up("too long");
    assert!(matches!(chain.next(NOW), Step::Done(_)), "{chain:?}");
}

fn check_url(value: &str) {
    if let Ok(url) = fill_url("https://good.example/a/{value}", |_| Some(value)) {
        assert_eq!(url.host_str(), Some("good.example"), "{value:?}");
        let segments = url.path_segments().map(Iterator::count);
        assert_eq!(segments, Some(2), "{value:?}: {url}");
    }
}
