//! Target `mqtt`: what any client may publish to the box, as topic, NUL and payload.
//!
//! - A topic of ours is parsed as exactly one request.
//! - Its answer goes to a valid topic of this box.
//! - A payload is refused with a sentence, or is a request for the operation of its topic.
//! - A request that is written again is parsed as the same request.

use watchkeeper_agent::fleet::command::OperationName;
use watchkeeper_agent::fleet::mqtt::{Inbound, RequestTopic, Topics, parse_request};
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
    // The topic alone, and below the root of this box.
    for topic in [topic.to_string(), format!("{}/{topic}", topics.root())] {
        match topics.parse(&topic) {
            None => {}
            Some(Inbound::State) => assert_eq!(topic, topics.state()),
            Some(Inbound::Request(RequestTopic {
                operation,
                id,
                raw_operation,
                raw_id,
            })) => {
                let answer = topics.status(raw_operation, raw_id);
                assert!(!answer.contains(['+', '#', '\0']), "{answer:?}");
                assert!(
                    answer.len() <= usize::from(u16::MAX),
                    "{} bytes",
                    answer.len()
                );
                assert!(answer.starts_with(topics.root()));
                assert_eq!(
                    topic,
                    format!("{}/cmd/{raw_operation}/{raw_id}/req", topics.root())
                );
                if let (Ok(known), Ok(id)) = (operation, id) {
                    assert_eq!(topics.request(known, &id), topic);
                    if let Err(reason) = parse_request(known, payload) {
                        assert!(!reason.trim().is_empty());
                    }
                }
            }
        }
    }
    for operation in OperationName::ALL {
        if let Ok(request) = parse_request(operation, payload) {
            let is_of_topic = match request.operation {
                Operation::Snapshot { .. } => operation == OperationName::Snapshot,
                Operation::Deploy { .. } => operation == OperationName::Deploy,
                Operation::Stop { .. } => operation == OperationName::Stop,
                Operation::Review { .. } => operation == OperationName::Review,
            };
            assert!(is_of_topic, "{operation} became {request:?}");
            let text = serde_json::to_vec(&request).expect("a request is plain data");
            assert_eq!(parse_request(operation, &text), Ok(request));
        }
    }
}
