//! Which messages were in an earlier request, so that whoever plays the model reads only what is new.

use std::collections::VecDeque;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::NeutralRequest;

/// Requests that are remembered; older ones are forgotten, and their messages count as new.
const MAX_REQUESTS: usize = 256;

/// The last requests, as hashes of their instructions and messages, each with its conversation.
#[derive(Debug, Default)]
pub(super) struct Known {
    last: VecDeque<(u64, Vec<[u8; 32]>)>,
    conversations: u64,
}

/// What is known of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of its conversation, from 1.
    pub(super) conversation: u64,
    /// Leading messages that an earlier request of the conversation had.
    pub(super) known: usize,
}

impl Known {
    /// Where a request stands: it goes on with the conversation of an earlier one that it holds whole and adds to. It is remembered.
    pub(super) fn take(&mut self, asked: &NeutralRequest) -> Place {
        let head = json!([asked.model, asked.system, asked.tools]);
        let messages = asked.messages.iter().map(|message| json!(message));
        let row: Vec<[u8; 32]> = std::iter::once(head)
            .chain(messages)
            .map(|value| Sha256::digest(value.to_string()).into())
            .collect();
        let goes_on =
            |(_, other): &&(u64, Vec<[u8; 32]>)| other.len() < row.len() && row.starts_with(other);
        let before = self
            .last
            .iter()
            .filter(goes_on)
            .max_by_key(|(_, other)| other.len());
        let place = match before {
            Some((conversation, other)) => Place {
                conversation: *conversation,
                known: other.len().saturating_sub(1),
            },
            None => {
                self.conversations += 1;
                Place {
                    conversation: self.conversations,
                    known: 0,
                }
            }
        };
        if self.last.len() == MAX_REQUESTS {
            self.last.pop_front();
        }
        self.last.push_back((place.conversation, row));
        place
    }
}
