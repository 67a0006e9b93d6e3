//! A map from tracks to what is known about them, which forgets those not seen for longest.
//!
//! Invariant: never more than its capacity; a track that was touched in the latest round is forgotten only when that
//! round alone has more tracks than the capacity.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

/// Bounded memory about tracks. A *round* is one frame.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recent<T> {
    entries: BTreeMap<TrackId, Entry<T>>,
    capacity: usize,
    round: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry<T> {
    value: T,
    seen: u64,
}

impl<T> Recent<T> {
    /// An empty memory for at most `capacity` tracks.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            capacity,
            round: 0,
        }
    }

    /// Begins the next round and forgets tracks that were not touched in the last `rounds` rounds.
    pub fn next_round(&mut self, rounds: u64) {
        self.round += 1;
        let now = self.round;
        self.entries.retain(|_, e| now - e.seen <= rounds);
    }

    /// What is known about a track, marking it as seen.
    pub fn touch(&mut self, track: TrackId) -> Option<&mut T> {
        let entry = self.entries.get_mut(&track)?;
        entry.seen = self.round;
        Some(&mut entry.value)
    }

    /// What is known about a track.
    #[must_use]
    pub fn get(&self, track: TrackId) -> Option<&T> {
        self.entries.get(&track).map(|e| &e.value)
    }

    /// What is known about a track, or `first` if nothing is, marking it as seen.
    pub fn touch_or_insert(&mut self, track: TrackId, first: T) -> &mut T {
        if !self.entries.contains_key(&track) && self.entries.len() >= self.capacity {
            // Rare, so a scan will do.
            if let Some(oldest) = self
                .entries
                .iter()
                .min_by_key(|(_, e)| e.seen)
                .map(|(&t, _)| t)
            {
                self.entries.remove(&oldest);
            }
        }
        let seen = self.round;
        let entry = self
            .entries
            .entry(track)
            .or_insert(Entry { value: first, seen });
        entry.seen = seen;
        &mut entry.value
    }

    /// Forgets a track.
    pub fn remove(&mut self, track: TrackId) -> Option<T> {
        self.entries.remove(&track).map(|e| e.value)
    }

    /// How many tracks are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no track is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Everything known, by track.
    pub fn iter(&self) -> impl Iterator<Item = (TrackId, &T)> {
        self.entries.iter().map(|(&t, e)| (t, &e.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_track_unseen_for_longest_makes_room() {
        let mut m = Recent::new(2);
        m.touch_or_insert(TrackId(1), 'a');
        m.next_round(100);
        m.touch_or_insert(TrackId(2), 'b');
        m.next_round(100);
        m.touch(TrackId(1));
        m.touch_or_insert(TrackId(3), 'c');
        assert_eq!(m.iter().map(|(t, _)| t.0).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn a_track_is_forgotten_after_its_rounds() {
        let mut m = Recent::new(9);
        m.touch_or_insert(TrackId(1), ());
        m.next_round(1);
        assert_eq!(m.len(), 1);
        m.next_round(1);
        assert!(m.is_empty());
    }
}
