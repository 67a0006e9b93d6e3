//! Requests that are to be answered again, or refused, without anything being stored: who waits for an answer. Sans-IO.
//!
//! Invariants: at most [`MAX_PENDING`] wait and at most [`WINDOW`] are under way, however many requests the broker holds, so
//! that answers can't crowd out everything else on the same link; each command waits once, and the latest refusal counts.
//! What is told about a command that is known is looked up when its turn comes, never before: an answer that waited can't
//! overwrite a newer one.

use std::collections::{BTreeMap, VecDeque};

use watchkeeper_contract::command::CommandReport;

use super::key::CommandId;

/// Answers that may wait. Requests beyond that stay unanswered until they come again, as retained ones do with every session.
pub const MAX_PENDING: usize = 4096;
/// Answers that may be published and not acknowledged.
const WINDOW: usize = 32;

/// An operation as the requester wrote it, and the id.
type Asked = (String, CommandId);

/// Somebody to answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The operation as the requester wrote it.
    pub operation: String,
    /// Which command.
    pub id: CommandId,
    /// Why it was refused; absent: the status of a known command is asked for.
    pub refusal: Option<CommandReport>,
}

/// Those who wait for an answer.
#[derive(Debug, Default)]
pub struct Replies {
    pending: BTreeMap<Asked, Option<CommandReport>>,
    /// The keys of `pending`, first come first.
    order: VecDeque<Asked>,
    in_flight: usize,
}

impl Replies {
    /// Wants `reply` sent. False when too many wait already.
    pub fn push(&mut self, reply: Reply) -> bool {
        let asked = (reply.operation, reply.id);
        if let Some(waiting) = self.pending.get_mut(&asked) {
            *waiting = reply.refusal;
            return true;
        }
        if self.pending.len() >= MAX_PENDING {
            return false;
        }
        self.order.push_back(asked.clone());
        self.pending.insert(asked, reply.refusal);
        true
    }

    /// Whoever asked takes the request back: a refusal that has not left is not told any more.
    pub fn take_back(&mut self, operation: &str, id: &CommandId) {
        let asked = (operation.to_owned(), id.clone());
        if let Some(refusal) = self.pending.get_mut(&asked) {
            *refusal = None;
        }
    }

    /// The next one to answer; `None` while enough are under way.
    pub fn take_next(&mut self) -> Option<Reply> {
        if self.in_flight >= WINDOW {
            return None;
        }
        let asked = self.order.pop_front()?;
        let refusal = self.pending.remove(&asked).flatten();
        let (operation, id) = asked;
        Some(Reply {
            operation,
            id,
            refusal,
        })
    }

    /// An answer is on its way.
    pub fn sent(&mut self) {
        self.in_flight += 1;
    }

    /// The broker has an answer.
    pub fn acked(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// A new session: nothing is under way, and whoever still wants an answer asks again.
    pub fn begin_session(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(n: usize, refusal: Option<CommandReport>) -> Reply {
        Reply {
            operation: "reboot".to_owned(),
            id: CommandId::new(n.to_string()).expect("an id"),
            refusal,
        }
    }

    #[test]
    fn a_flood_is_answered_a_window_at_a_time_and_no_further_than_the_bound() {
        let mut replies = Replies::default();
        let taken = (0..6000).filter(|n| replies.push(reply(*n, None))).count();
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
    fn a_request_that_is_taken_back_while_its_refusal_waits_is_not_refused_any_more() {
        let refused = super::super::refusal("1".to_owned(), "nonsense".to_owned());
        let mut replies = Replies::default();
        for n in [1, 2] {
            assert!(replies.push(reply(n, Some(refused.clone()))));
        }
        replies.take_back("reboot", &reply(1, None).id);
        assert_eq!(replies.take_next(), Some(reply(1, None)));
        assert_eq!(replies.take_next(), Some(reply(2, Some(refused))));
    }

    #[test]
    fn whoever_asks_twice_is_answered_once_and_the_latest_refusal_counts() {
        let refused = |reason: &str| super::super::refusal("1".to_owned(), reason.to_owned());
        let mut replies = Replies::default();
        assert!(replies.push(reply(1, Some(refused("first")))));
        assert!(replies.push(reply(1, Some(refused("second")))));
        assert_eq!(replies.take_next(), Some(reply(1, Some(refused("second")))));
        assert_eq!(replies.take_next(), None);
    }
}
