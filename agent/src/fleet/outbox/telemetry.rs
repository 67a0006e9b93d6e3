//! Ring of measurements that could not be sent at once.
//!
//! Invariants:
//! - At most `capacity` messages; a newer one evicts the oldest.
//! - Two messages of one topic are at least `spacing` apart.
//! - In memory only: a restart loses them.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// A message and its topic.
pub type Measurement = (String, Vec<u8>);

/// Measurements of the time without a link, at most one per topic and `spacing`.
#[derive(Debug)]
pub struct TelemetryRing {
    capacity: usize,
    spacing: Duration,
    kept: VecDeque<Measurement>,
    last: BTreeMap<String, Instant>,
    dropped: u64,
}

impl TelemetryRing {
    /// A ring of `capacity` messages that keeps one of each topic per `spacing`.
    pub fn new(capacity: usize, spacing: Duration) -> Self {
        Self {
            capacity,
            spacing,
            kept: VecDeque::new(),
            last: BTreeMap::new(),
            dropped: 0,
        }
    }

    /// Adds a message that can't be sent now, unless one of its topic is too recent.
    pub fn offer(&mut self, now: Instant, topic: String, payload: Vec<u8>) {
        let too_soon = self
            .last
            .get(&topic)
            .is_some_and(|last| now < *last + self.spacing);
        if too_soon {
            self.dropped += 1;
            return;
        }
        self.last.insert(topic.clone(), now);
        self.kept.push_back((topic, payload));
        while self.kept.len() > self.capacity {
            self.kept.pop_front();
            self.dropped += 1;
        }
    }

    /// Removes and returns all messages, oldest first.
    pub fn drain(&mut self) -> Vec<Measurement> {
        self.last.clear();
        self.kept.drain(..).collect()
    }

    /// Messages thinned out or evicted since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_keeps_one_message_per_spacing_and_evicts_oldest() {
        let start = Instant::now();
        let mut ring = TelemetryRing::new(2, Duration::from_secs(300));
        for minute in 0..16 {
            ring.offer(
                start + Duration::from_secs(60 * minute),
                "t".into(),
                vec![minute as u8],
            );
        }
        let kept: Vec<u8> = ring.drain().into_iter().map(|(_, p)| p[0]).collect();
        assert_eq!(kept, [10, 15]);
        assert_eq!(ring.dropped(), 14);
    }
}
