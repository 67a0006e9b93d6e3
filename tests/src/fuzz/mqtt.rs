//! Target `mqtt`: what anybody may publish to the box, as topic, NUL and payload.
//!
//! Property: a topic of ours is understood as exactly one request, whose answer goes to a topic that can be published to
//! and belongs to this box; a payload is refused with a sentence, or is a request for the operation of its topic that is
//! understood the same when it is written again.

use watchkeeper_agent::fleet::command::OperationName;
use watchkeeper_agent::fleet::mqtt::{Inbound, Topics, parse_request};
use watchkeeper_contract::command::Operation;
use watchkeeper_contract::id::{BoxId, SiteId};

pub(super) fn mqtt(input: &[u8]) {
    let (topic, payload) = match input.iter().position(|b| *b == 0) {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &[][..]),
    };
    let topic = String::from_utf8_lossy(topic);
    let topics = Topics::new(
        &SiteId::new("s").expect("a name"),
        &BoxId::new("b").expect("a name"),
    );
    // As it came, and below this box.
    for topic in [topic.to_string(), format!("{}/{topic}", topics.root())] {
        match topics.parse(&topic) {
            None => {}
            Some(Inbound::State) => assert_eq!(topic, topics.state()),
            Some(Inbound::Request {
                operation,
                id,
                raw_operation,
            }) => {
                let answer = topics.status(raw_operation, &id);
                assert!(!answer.contains(['+', '#', '\0']), "{answer:?}");
                assert!(
                    answer.len() <= usize::from(u16::MAX),
                    "{} bytes",
                    answer.len()
                );
                assert!(answer.starts_with(topics.root()));
                assert_eq!(
                    topic,
                    format!("{}/cmd/{raw_operation}/{id}/req", topics.root())
                );
                if let Ok(known) = operation {
                    assert_eq!(topics.request(known, &id), topic);
                }
                if let Err(reason) = parse_request(operation, payload) {
                    assert!(!reason.trim().is_empty());
                }
            }
        }
    }
    for operation in OperationName::ALL {
        if let Ok(request) = parse_request(Ok(operation), payload) {
            let is_of_topic = match request.operation {
                Operation::Snapshot { .. } => operation == OperationName::Snapshot,
                Operation::Deploy { .. } => operation == OperationName::Deploy,
                Operation::Stop { .. } => operation == OperationName::Stop,
            };
            assert!(is_of_topic, "{operation} became {request:?}");
            let text = serde_json::to_vec(&request).expect("a request is plain data");
            assert_eq!(parse_request(Ok(operation), &text), Ok(request));
        }
    }
}
