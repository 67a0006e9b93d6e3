//! Assigns requests to conversations, so that a player reads only messages that are new.

use std::collections::VecDeque;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::request::NeutralRequest;

/// Capacity in requests. The messages of an evicted request count as new.
const MAX_REQUESTS: usize = 256;

/// The last requests: conversation number, and hashes of instructions and messages.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    requests: VecDeque<(u64, Vec<[u8; 32]>)>,
    count: u64,
}

/// Position of a request in its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// Number of the conversation, from 1.
    pub(super) conversation: u64,
    /// Number of leading messages that an earlier request of the conversation had.
    pub(super) known: usize,
}

impl Conversations {
    /// Locates a request and stores it.
    ///
    /// It continues the conversation of the longest earlier request that it begins with.
    pub(super) fn locate(&mut self, asked: &NeutralRequest) -> Position {
        let head = json!([asked.model, asked.system, asked.tools]);
        let messages = asked.messages.iter().map(|message| json!(message));
        let row: Vec<[u8; 32]> = std::iter::once(head)
            .chain(messages)
            .map(|value| Sha256::digest(value.to_string()).into())
            .collect();
        let continues =
            |(_, other): &&(u64, Vec<[u8; 32]>)| other.len() < row.len() && row.starts_with(other);
        let before = self
            .requests
            .iter()
            .filter(continues)
            .max_by_key(|(_, other)| other.len());
        let position = match before {
            Some((conversation, other)) => Position {
                conversation: *conversation,
                known: other.len().saturating_sub(1),
            },
            None => {
                self.count += 1;
                Position {
                    conversation: self.count,
                    known: 0,
                }
            }
        };
        if self.requests.len() == MAX_REQUESTS {
            self.requests.pop_front();
        }
        self.requests.push_back((position.conversation, row));
        position
    }
}
