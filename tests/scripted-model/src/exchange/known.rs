//! Which messages were in an earlier request, so that whoever plays the model reads only what is new.

use std::collections::VecDeque;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::Asked;

/// Requests that are remembered; older ones are forgotten, and their messages count as new.
const REMEMBERED: usize = 256;

/// The last requests, as hashes of their instructions and messages.
#[derive(Debug, Default)]
pub(super) struct Known(VecDeque<Vec<[u8; 32]>>);

impl Known {
    /// How many leading messages of `asked` an earlier request had under the same instructions; it is remembered with them.
    pub(super) fn take(&mut self, asked: &Asked) -> usize {
        let head = json!([asked.model, asked.system, asked.tools]);
        let messages = asked.messages.iter().map(|message| json!(message));
        let row: Vec<[u8; 32]> = std::iter::once(head)
            .chain(messages)
            .map(|value| Sha256::digest(value.to_string()).into())
            .collect();
        let shared = |other: &Vec<[u8; 32]>| {
            let pairs = row.iter().zip(other);
            pairs.take_while(|(a, b)| a == b).count()
        };
        let known = self.0.iter().map(shared).max().unwrap_or(0);
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(row);
        known.saturating_sub(1)
    }
}
