//! Replies that need no record on disk: repeated statuses, refusals and clears. Sans-IO.
//!
//! - At most [`MAX_PENDING`] replies wait and at most [`WINDOW`] are in flight, so that replies
//!   never crowd out other messages.
//! - A command has one pending reply; the latest replaces an earlier one.
//! - The status of a known command is read when its reply leaves, so a delayed reply never
//!   overwrites a newer one.

use std::collections::{BTreeMap, VecDeque};

use watchkeeper_contract::command::CommandReport;

/// Longest queue of replies. Requests beyond it get no reply until they arrive again, as retained
/// requests do in every session.
pub const MAX_PENDING: usize = 4096;
/// Replies in flight at a time.
const WINDOW: usize = 32;

/// Operation and command id as the requester wrote them.
type ReplyKey = (String, String);

#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Operation as the requester wrote it.
    pub operation: String,
    /// Command id as the requester wrote it.
    pub id: String,
    pub body: ReplyBody,
}

/// Status that a reply publishes.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyBody {
    /// The present status of a known command.
    Status,
    /// The refusal of a request that is not stored.
    Refusal(CommandReport),
    /// Nothing, because the requester cleared the request.
    Clear,
}

/// Queue of pending replies.
#[derive(Debug, Default)]
pub struct Replies {
    pending: BTreeMap<ReplyKey, ReplyBody>,
    /// Keys of `pending`, oldest first.
    order: VecDeque<ReplyKey>,
    in_flight: usize,
}

impl Replies {
    /// Queues `reply`. False when the queue is full.
    pub fn push(&mut self, reply: Reply) -> bool {
        let key = (reply.operation, reply.id);
        if let Some(waiting) = self.pending.get_mut(&key) {
            *waiting = reply.body;
            return true;
        }
        if self.pending.len() >= MAX_PENDING {
            return false;
        }
        self.order.push_back(key.clone());
        self.pending.insert(key, reply.body);
        true
    }

    /// Next reply; `None` while the window is full.
    pub(crate) fn take_next(&mut self) -> Option<Reply> {
        if self.in_flight >= WINDOW {
            return None;
        }
        let key = self.order.pop_front()?;
        let body = self.pending.remove(&key)?;
        let (operation, id) = key;
        Some(Reply {
            operation,
            id,
            body,
        })
    }

    /// Records that a reply was published.
    pub fn sent(&mut self) {
        self.in_flight += 1;
    }

    /// Records that the broker acknowledged a reply.
    pub fn acked(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Clears everything for a new session: retained requests arrive again.
    pub fn begin_session(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(n: usize, body: ReplyBody) -> Reply {
        Reply {
            operation: "reboot".to_owned(),
            id: n.to_string(),
            body,
        }
    }

    #[test]
    fn flood_is_answered_window_by_window_up_to_the_bound() {
        let mut replies = Replies::default();
        let taken = (0..6000).filter(|n| replies.push(reply(*n, ReplyBody::Status)));
        let taken = taken.count();
        assert_eq!(taken, MAX_PENDING);
        let mut answered = 0;
        loop {
            let mut burst = 0;
            while replies.take_next().is_some() {
                replies.sent();
                burst += 1;
            }
            assert!(burst <= WINDOW, "{burst} at once");
            if burst == 0 {
                break;
            }
            (0..burst).for_each(|_| replies.acked());
            answered += burst;
        }
        assert_eq!(answered, MAX_PENDING);
    }

    #[test]
    fn repeated_request_gets_one_reply_with_the_latest_body() {
        let refused = |reason: &str| {
            ReplyBody::Refusal(super::super::refusal("1".to_owned(), reason.to_owned()))
        };
        let mut replies = Replies::default();
        for latest in [refused("second"), ReplyBody::Clear] {
            assert!(replies.push(reply(1, refused("first"))));
            assert!(replies.push(reply(1, latest.clone())));
            assert_eq!(replies.take_next(), Some(reply(1, latest)));
            assert_eq!(replies.take_next(), None);
        }
    }
}
