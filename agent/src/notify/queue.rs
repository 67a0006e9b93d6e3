//! Decides when a channel sends which delivery, and its position in the journal. Sans-IO.
//!
//! Invariants:
//! - Notifications leave in the order of the journal, one delivery at a time.
//! - A delivery that was tried stays unchanged until it is finished, and one [key](Delivery::key)
//!   always names the same contents. So a receiver that accepts each key once misses nothing.
//! - [`DeliveryQueue::reached`] passes an event only after it was delivered or given up, and never
//!   decreases within one journal.
//! - At most [`MAX_EVENTS`] events and [`MAX_NOTICES`] notices are in memory. Each notice is
//!   reported as finished once.
//!
//! A permanent refusal may be caused by the picture, so one retry goes out without it. Then the
//! delivery is given up, because later ones must not wait. A receiver that does not answer is
//! retried until the events reach [`DeliveryPolicy::max_age`].

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use watchkeeper_assistant::wording::counted;
use watchkeeper_contract::id::{ChannelId, EventSeq};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::Wall;

use super::message::Notification;
use super::pending::MAX_PENDING;
use crate::connectors::fault::{Fault, Retry};
use watchkeeper_client::backoff::Backoff;
use watchkeeper_client::clock::is_older;

/// Events in memory.
pub(crate) const MAX_EVENTS: usize = 64;
/// Notices in memory: the bound of stored ones, with the same eviction order.
pub(crate) const MAX_NOTICES: usize = MAX_PENDING;
/// First pause after a failed delivery.
const RETRY_FIRST: Duration = Duration::from_secs(2);
/// Longest pause, unless `Retry-After` is longer.
const RETRY_CEILING: Duration = Duration::from_secs(300);
/// Longest `Retry-After` that is respected.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// Batching and age limits of a channel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryPolicy {
    /// Events per delivery.
    pub max_batch: usize,
    /// Shortest time between two deliveries.
    pub min_interval: Duration,
    /// Age at which an event is given up.
    pub max_age: Duration,
}

/// Contents of one request to the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// At least one notification.
    pub notifications: Vec<Notification>,
    /// Whether media are to be attached.
    pub has_media: bool,
}

impl Delivery {
    /// Idempotency key; changes with the contents, because after a restart a retry may carry more
    /// events or no picture.
    pub(crate) fn key(&self, has_picture: bool) -> String {
        let ids_key = match self.notifications.as_slice() {
            [] => String::new(),
            [one] => one.id.clone(),
            [first, ..] => {
                let ids: Vec<&str> = self
                    .notifications
                    .iter()
                    .map(|notification| notification.id.as_str())
                    .collect();
                // No id contains a line break.
                let sum = Sha256::digest(ids.join("\n"));
                let sum: String = sum.iter().take(8).map(|b| format!("{b:02x}")).collect();
                format!("{}+{}-{sum}", first.id, self.notifications.len() - 1)
            }
        };
        // The picture may be deleted already, or refused by the receiver.
        let may_have_media = self
            .notifications
            .iter()
            .any(|notification| notification.media.is_some());
        match may_have_media && !has_picture {
            true => format!("{ids_key}-text"),
            false => ids_key,
        }
    }

    /// Entry of the audit log, once `channel` has accepted it.
    pub(crate) fn effect(&self, channel: &ChannelId) -> Value {
        let ids: Vec<&str> = self
            .notifications
            .iter()
            .map(|one| one.id.as_str())
            .collect();
        let accepted = counted(ids.len(), "notification");
        json!({
            "channel": channel, "notifications": ids,
            "sentence": format!("channel {channel} accepted {accepted}"),
        })
    }
}

/// Events of a channel since the agent's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub delivered: u64,
    pub given_up: u64,
}

/// State machine of one channel.
#[derive(Debug)]
pub(crate) struct DeliveryQueue {
    policy: DeliveryPolicy,
    waiting: VecDeque<Notification>,
    /// Last record that was read.
    read: EventSeq,
    in_flight: usize,
    /// Notifications of the delivery that failed and will be retried, else zero.
    attempted: usize,
    /// Whether the next delivery may attach media.
    has_media: bool,
    /// Earliest time of the next delivery.
    not_before: Option<Instant>,
    backoff: Backoff,
    counts: Counts,
    /// Severities of the waiting notices, by id.
    severities: BTreeMap<String, Severity>,
    /// Ids of notices that were delivered or given up.
    finished: Vec<String>,
}

impl DeliveryQueue {
    /// Queue that continues after the record `reached`; `seed` fixes the jitter of its pauses.
    pub(crate) fn new(policy: DeliveryPolicy, reached: EventSeq, seed: u64) -> Self {
        Self {
            policy,
            waiting: VecDeque::new(),
            read: reached,
            in_flight: 0,
            attempted: 0,
            has_media: true,
            not_before: None,
            backoff: Backoff::new(RETRY_FIRST, RETRY_CEILING, seed),
            counts: Counts::default(),
            severities: BTreeMap::new(),
            finished: Vec::new(),
        }
    }

    /// Continues after `seq`: the end of the journal for a new channel, 0 for a new journal.
    /// Waiting notifications are still sent, first.
    pub(crate) fn start_after(&mut self, seq: EventSeq) {
        self.read = seq;
    }

    /// Whether another record may be read; until then the journal keeps them.
    pub(crate) fn wants_more(&self) -> bool {
        self.waiting.len() - self.notice_count() < MAX_EVENTS
    }

    /// Number of waiting notices.
    fn notice_count(&self) -> usize {
        self.waiting
            .iter()
            .filter(|notification| notification.seq.is_none())
            .count()
    }

    /// Handles the record `seq`, with its notification if the channel receives one.
    pub(crate) fn push_event(&mut self, seq: EventSeq, notification: Option<Notification>) {
        if seq <= self.read {
            return;
        }
        self.read = seq;
        self.waiting.extend(notification);
    }

    /// Queues a notice. Above [`MAX_NOTICES`] the oldest untried one of the lowest severity is
    /// given up.
    pub(crate) fn push_notice(&mut self, notification: Notification, severity: Severity) {
        self.severities.insert(notification.id.clone(), severity);
        self.waiting.push_back(notification);
        if self.notice_count() <= MAX_NOTICES {
            return;
        }
        let untried = self.waiting.iter().enumerate();
        let untried = untried.skip(self.in_flight.max(self.attempted));
        let evicted = untried
            .filter(|(_, notification)| notification.seq.is_none())
            .min_by_key(|(at, notification)| (self.severities.get(&notification.id).copied(), *at))
            .map(|(at, _)| at);
        if let Some(evicted) = evicted.and_then(|at| self.waiting.remove(at)) {
            self.counts.given_up += 1;
            self.finish(evicted);
        }
    }

    /// Takes the ids of notices that were delivered or given up since the last call.
    pub(crate) fn take_finished(&mut self) -> Vec<String> {
        std::mem::take(&mut self.finished)
    }

    fn finish(&mut self, notification: Notification) {
        if notification.seq.is_none() {
            self.severities.remove(&notification.id);
            self.finished.push(notification.id);
        }
    }

    /// Position in the journal: no record up to this one has an unfinished notification.
    pub(crate) fn reached(&self) -> EventSeq {
        // The minimum of all, because a waiting notification may be of an older journal.
        let open = self.waiting.iter().filter_map(|waiting| waiting.seq);
        let before = open.min().map(|seq| EventSeq(seq.0.saturating_sub(1)));
        before.map_or(self.read, |before| before.min(self.read))
    }

    /// Time of the next delivery; `None` while nothing waits or a delivery is in flight.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let is_idle = self.in_flight == 0 && !self.waiting.is_empty();
        is_idle.then(|| self.not_before.map_or(now, |at| at.max(now)))
    }

    /// Gives up what is too old and returns the next delivery, which is in flight until
    /// [`Self::delivered`] or [`Self::failed`].
    pub(crate) fn next_delivery(&mut self, now: Wall) -> Option<Delivery> {
        if self.in_flight > 0 {
            return None;
        }
        while let Some(first) = self.waiting.front()
            && is_older(first.at, now, self.policy.max_age)
        {
            if let Some(expired) = self.waiting.pop_front() {
                self.finish(expired);
            }
            self.counts.given_up += 1;
            self.has_media = true;
            self.attempted = 0;
        }
        let max = match self.attempted {
            0 => self.policy.max_batch.max(1),
            attempted => attempted,
        };
        self.in_flight = self.waiting.len().min(max);
        (self.in_flight > 0).then(|| Delivery {
            notifications: self.waiting.iter().take(self.in_flight).cloned().collect(),
            has_media: self.attaches_media(),
        })
    }

    /// Whether the delivery in flight attaches media.
    fn attaches_media(&self) -> bool {
        let mut delivery = self.waiting.iter().take(self.in_flight);
        self.has_media && delivery.any(|notification| notification.media.is_some())
    }

    /// Handles the acceptance by the receiver.
    pub(crate) fn delivered(&mut self, now: Instant) {
        self.counts.delivered += self.finish_delivery();
        self.backoff.reset();
        self.not_before = Some(now + self.policy.min_interval);
    }

    /// Handles a failed delivery that carried a picture or none. Returns whether it was given up.
    pub(crate) fn failed(&mut self, now: Instant, fault: &Fault, had_picture: bool) -> bool {
        let pause = self.backoff.next_delay();
        let retry_after = match fault.retry {
            Retry::After(retry_after) => retry_after.unwrap_or_default().min(MAX_RETRY_AFTER),
            Retry::Unanswered | Retry::Never => Duration::ZERO,
        };
        self.not_before = Some(now + pause.max(retry_after));
        match fault.retry {
            Retry::Never if had_picture => self.has_media = false,
            Retry::Never => {
                self.counts.given_up += self.finish_delivery();
                return true;
            }
            Retry::After(_) | Retry::Unanswered => {}
        }
        self.attempted = std::mem::take(&mut self.in_flight);
        false
    }

    fn finish_delivery(&mut self) -> u64 {
        let number = std::mem::take(&mut self.in_flight);
        self.attempted = 0;
        for _ in 0..number {
            if let Some(notification) = self.waiting.pop_front() {
                self.finish(notification);
            }
        }
        self.has_media = true;
        number as u64
    }

    /// Failed deliveries in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.backoff.attempts()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests;
