//! Target `model`: what an LLM provider sends, streamed, whole and as a refusal, and a model file
//! of the user.
//!
//! - The result of a stream does not depend on how it was cut.
//! - A call that may be executed has an object for its arguments.
//! - A refusal is one short line.
//! - An error in a model file is reported with its place and changes nothing.
//! - An opinion or a rewording matches its schema, or is rejected.

use watchkeeper_agent::second_opinion::verdict;
use watchkeeper_assistant::proposal::reword;
use watchkeeper_llm::attempt_error::{AttemptError, AttemptErrorKind};
use watchkeeper_llm::catalogue::Catalogue;
use watchkeeper_llm::wire::{Decoder, ResponseHead};
use watchkeeper_llm::{Protocol, Reply};

pub(super) fn model(input: &[u8]) {
    let (choice, body) = input
        .split_first()
        .map_or((0, input), |(c, body)| (*c, body));
    let protocol = match choice % 3 {
        0 => Protocol::Claude,
        1 => Protocol::Openai,
        _ => Protocol::Gemini,
    };
    let at_once = streamed(protocol, body, body.len().max(1));
    assert_eq!(
        at_once,
        streamed(protocol, body, usize::from(choice / 3) + 1)
    );
    for reply in [at_once, protocol.decode(body).map_err(|error| error.kind)] {
        let usable = reply.ok().and_then(|reply| reply.usable().ok());
        for call in usable.iter().flat_map(Reply::calls) {
            let object = call
                .arguments
                .parse::<serde_json::Map<String, serde_json::Value>>();
            assert!(object.is_ok(), "{:?}", call.arguments);
        }
    }
    let head = ResponseHead {
        status: 400 + u16::from(choice),
        ..ResponseHead::default()
    };
    one_line(&protocol.read_error(&head, body));
    let text = String::from_utf8_lossy(body);
    file(&text);
    answers(&text);
}

/// Checks that a structured answer matches its schema or is rejected: it is short, and an opinion's
/// texts have no line breaks.
fn answers(text: &str) {
    if let Ok(opinion) = verdict::parse_answer(text) {
        assert!((0.0..=1.0).contains(&opinion.confidence), "{opinion:?}");
        for words in [&opinion.seen, &opinion.text_seen] {
            assert!(
                words.chars().count() <= 300 && !words.contains(char::is_control),
                "{words:?}"
            );
        }
    }
    if let Ok(reworded) = reword::parse_reply(text) {
        assert!(!reworded.request.is_empty() && reworded.request.chars().count() <= 2_000);
    }
}

fn streamed(protocol: Protocol, body: &[u8], cut: usize) -> Result<Reply, AttemptErrorKind> {
    let mut decoder = Decoder::new(protocol);
    for piece in body.chunks(cut) {
        decoder.feed(piece).map_err(|error| error.kind)?;
    }
    decoder.finish().map_err(|error| error.kind)
}

fn one_line(error: &AttemptError) {
    let line = error.to_string();
    assert!(
        line.len() < 1_000 && !line.contains(char::is_control),
        "{line}"
    );
}

fn file(text: &str) {
    let built_in = Catalogue::built_in().expect("what is built in is sound");
    let mut catalogue = built_in.clone();
    if let Err(error) = catalogue.add("mine.toml", text) {
        assert_eq!(catalogue, built_in);
        assert!(
            !error.place.is_empty() && !error.problem.is_empty(),
            "{error}"
        );
    }
}
