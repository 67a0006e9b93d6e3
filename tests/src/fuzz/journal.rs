//! Target `journal`: records of the journal as they lie in the store, and events as JSON that
//! become records.
//!
//! - A stored event is read back unchanged.
//! - Reading or the hash chain detects any flipped bit of its text or hash.
//! - Other bytes are refused, or give an event that can be stored again.
//! - A hash and the journal's head print as they were read.

use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_runtime::fuzzing;
use watchkeeper_runtime::journal::{Hash, StoredEvent, verify};

use super::hostile::{Choices, text_and_choices};

/// Bytes of a record before its hash, which the chain does not cover: format and severity.
const UNCHAINED: usize = 3;

pub(super) fn journal(input: &[u8]) {
    let (text, mut choices) = text_and_choices(input);
    if let Ok(event) = serde_json::from_slice::<Event>(text) {
        written(&event, &mut choices);
    }
    if let Ok(stored) = fuzzing::stored_event(EventSeq(1), input) {
        assert!(stored.json().contains(&stored.hash().to_string()));
        if let Ok(event) = stored.event() {
            written(&event, &mut choices);
        }
    }
    if let Some(head) = fuzzing::journal_head(input) {
        assert_eq!(fuzzing::journal_head(&head).as_ref(), Some(&head));
    }
    let text = String::from_utf8_lossy(text);
    if let Some(hash) = Hash::parse(&text) {
        assert_eq!(hash.to_string(), text.to_ascii_lowercase());
    }
}

fn written(event: &Event, choices: &mut Choices<'_>) {
    let before = Hash(choices.bytes());
    let (bytes, hash) = fuzzing::store_event(event, &before);
    let stored = fuzzing::stored_event(event.seq, &bytes).expect("it was just written");
    assert_eq!(stored.hash(), hash);
    let chain = |stored: &StoredEvent| verify(Some(before), std::slice::from_ref(stored));
    assert_eq!(chain(&stored), Ok(()));
    let back = stored.event().expect("it was just written");
    let as_read = Event {
        hash: hash.to_string(),
        ..event.clone()
    };
    assert_eq!(back, as_read);

    let mut damaged = bytes;
    let bit = usize::from(u16::from_be_bytes(choices.bytes()));
    let span = damaged.len() - UNCHAINED;
    damaged[UNCHAINED + (bit / 8) % span] ^= 1 << (bit % 8);
    if let Ok(stored) = fuzzing::stored_event(event.seq, &damaged) {
        assert!(chain(&stored).is_err(), "a flipped bit goes unnoticed");
    }
}
