//! The ring of telemetry: measurements that could not be sent when they were made.
//!
//! Invariant: at most `capacity` messages, no two of one topic closer together than `spacing`; a newer one pushes the
//! oldest out. Memory only: telemetry tells how a box is doing, and a restart is part of that.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// A message and its topic.
pub type Measurement = (String, Vec<u8>);

/// Thinned measurements of the time without a link.
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
    #[must_use]
    pub fn new(capacity: usize, spacing: Duration) -> Self {
        Self {
            capacity,
            spacing,
            kept: VecDeque::new(),
            last: BTreeMap::new(),
            dropped: 0,
        }
    }

    /// Offers a message that can't be sent now.
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

    /// Takes everything that was kept, oldest first.
    pub fn drain(&mut self) -> Vec<Measurement> {
        self.last.clear();
        self.kept.drain(..).collect()
    }

    /// Messages thinned out or pushed out since the start.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_of_a_topic_is_kept_per_spacing_and_the_oldest_goes_first() {
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
