//! Stored form of the outbox, separate from the live one.
//!
//! - Keyspace `outbox`: key is the big-endian id.
//! - Keyspace `outbox_meta`: keys `cursor` and `next_id`, values big-endian `u64`.
//! - The store adds a checksum to every record. A record of `outbox`, version 2:
//!
//! ```text
//! version u8 = 2 │ kind u8 │ class u8 │ severity u8 │ flags u8 │ seq u64 BE
//! │ topic length u16 BE │ topic │ payload
//! ```
//!
//! - `kind`: 0 is a message; 1 is a loss record, with the JSON of [`Loss`] as payload and zeros in
//!   all other fields.
//! - `flags`: bit 0 is retained; bit 1 means that `seq` is valid.
//! - `topic` is relative to the root of the box, so that the entry is sent under its present name.

use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::Severity;

use super::entry::{Class, Content, Draft, Loss};

/// Version that this build writes.
pub(super) const VERSION: u8 = 2;
const HEADER: usize = 15;

const KIND_MESSAGE: u8 = 0;
const KIND_LOSS: u8 = 1;
const RETAIN: u8 = 1;
const HAS_SEQ: u8 = 2;

/// A stored entry that this build can't decode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A newer build wrote it.
    #[error("outbox entry has version {0}; this build reads up to {VERSION}")]
    Version(u8),
    #[error("outbox entry is malformed: {0}")]
    Malformed(&'static str),
}

/// Encodes `content` as a record of the current version.
pub fn encode(content: &Content) -> Vec<u8> {
    match content {
        Content::Message(draft) => {
            let mut flags = 0;
            if draft.retain {
                flags |= RETAIN;
            }
            if draft.seq.is_some() {
                flags |= HAS_SEQ;
            }
            // Topics consist of validated names and are far shorter than 64 KiB.
            let topic_len = u16::try_from(draft.topic.len()).unwrap_or(u16::MAX);
            let mut out = Vec::with_capacity(HEADER + draft.topic.len() + draft.payload.len());
            out.extend([
                VERSION,
                KIND_MESSAGE,
                class_code(draft.class),
                severity_code(draft.severity),
                flags,
            ]);
            out.extend(draft.seq.unwrap_or_default().0.to_be_bytes());
            out.extend(topic_len.to_be_bytes());
            out.extend(&draft.topic.as_bytes()[..usize::from(topic_len)]);
            out.extend(&draft.payload);
            out
        }
        Content::Loss(loss) => {
            let mut out = vec![VERSION, KIND_LOSS];
            out.resize(HEADER, 0);
            // Plain data: serde_json can't fail on it.
            out.extend(serde_json::to_vec(loss).unwrap_or_default());
            out
        }
    }
}

/// Decodes a stored entry.
///
/// # Errors
/// Returns [`DecodeError`] when a newer build wrote it or it is malformed.
pub fn decode(bytes: &[u8]) -> Result<Content, DecodeError> {
    let version = *bytes.first().ok_or(DecodeError::Malformed("empty"))?;
    match version {
        VERSION => {}
        ..VERSION => return Err(DecodeError::Malformed("of an earlier build")),
        _ => return Err(DecodeError::Version(version)),
    }
    let (header, rest) = bytes
        .split_at_checked(HEADER)
        .ok_or(DecodeError::Malformed("shorter than its header"))?;
    match header[1] {
        KIND_LOSS => {
            let loss: Loss = serde_json::from_slice(rest)
                .map_err(|_| DecodeError::Malformed("loss is not readable"))?;
            if !loss.is_valid() {
                return Err(DecodeError::Malformed(
                    "the ranges of the loss are not sorted",
                ));
            }
            Ok(Content::Loss(loss))
        }
        KIND_MESSAGE => {
            let seq = u64::from_be_bytes(array(&header[5..13])?);
            let topic_len = u16::from_be_bytes(array(&header[13..15])?);
            let (topic, payload) = rest
                .split_at_checked(usize::from(topic_len))
                .ok_or(DecodeError::Malformed("shorter than its topic"))?;
            let topic = std::str::from_utf8(topic)
                .map_err(|_| DecodeError::Malformed("topic is not UTF-8"))?;
            Ok(Content::Message(Draft {
                class: class_of(header[2])?,
                severity: severity_of(header[3])?,
                retain: header[4] & RETAIN != 0,
                seq: (header[4] & HAS_SEQ != 0).then_some(EventSeq(seq)),
                topic: topic.to_owned(),
                payload: payload.to_vec(),
            }))
        }
        _ => Err(DecodeError::Malformed("unknown kind")),
    }
}

fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], DecodeError> {
    bytes
        .try_into()
        .map_err(|_| DecodeError::Malformed("number is cut off"))
}

fn class_code(class: Class) -> u8 {
    match class {
        Class::Assured => 0,
        Class::Event => 1,
    }
}

fn class_of(code: u8) -> Result<Class, DecodeError> {
    match code {
        0 => Ok(Class::Assured),
        1 => Ok(Class::Event),
        _ => Err(DecodeError::Malformed("unknown class")),
    }
}

fn severity_code(severity: Severity) -> u8 {
    match severity {
        Severity::Info => 0,
        Severity::Warning => 1,
        Severity::Critical => 2,
    }
}

fn severity_of(code: u8) -> Result<Severity, DecodeError> {
    match code {
        0 => Ok(Severity::Info),
        1 => Ok(Severity::Warning),
        2 => Ok(Severity::Critical),
        _ => Err(DecodeError::Malformed("unknown severity")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fleet::outbox::LossFrom;

    fn any_content() -> impl Strategy<Value = Content> {
        let message = (
            any::<bool>(),
            0_u8..3,
            "[a-z/]{0,40}",
            any::<bool>(),
            proptest::option::of(any::<u64>()),
            proptest::collection::vec(any::<u8>(), 0..200),
        )
            .prop_map(|(assured, severity, topic, retain, seq, payload)| {
                Content::Message(Draft {
                    class: if assured {
                        Class::Assured
                    } else {
                        Class::Event
                    },
                    severity: severity_of(severity).expect("known"),
                    topic,
                    retain,
                    seq: seq.map(EventSeq),
                    payload,
                })
            });
        let loss = proptest::collection::vec(1_u64..1000, 0..20).prop_map(|seqs| {
            let mut loss = Loss::new(LossFrom::Journal);
            for seq in seqs {
                loss.add(seq, seq);
            }
            Content::Loss(loss)
        });
        prop_oneof![message, loss]
    }

    proptest! {
        #[test]
        fn encoded_content_is_decoded_back(content in any_content()) {
            prop_assert_eq!(decode(&encode(&content)), Ok(content));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ignored = decode(&bytes).is_ok();
        }
    }

    #[test]
    fn loss_with_invalid_ranges_is_refused() {
        for ranges in [vec![[3, 1]], vec![[1, 3], [3, 7]], vec![[5, 6], [1, 2]]] {
            let mut loss = Loss::new(LossFrom::Outbox);
            loss.ranges = ranges;
            assert!(decode(&encode(&Content::Loss(loss))).is_err());
        }
    }

    #[test]
    fn newer_version_is_named_and_an_older_one_is_damaged() {
        assert_eq!(decode(&[9, 0, 0]), Err(DecodeError::Version(9)));
        assert!(matches!(decode(&[1, 0, 0]), Err(DecodeError::Malformed(_))));
    }
}
