//! A bounded map by track that evicts the tracks unseen for longest.
//!
//! A track touched in the latest round is evicted only when that round alone exceeds the capacity.

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

/// Bounded state by track, or by another id. A *round* is one frame.
///
/// A sorted vector: track ids grow, so new tracks append, and evicted ones leave their memory for
/// reuse.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recent<T, K = TrackId> {
    /// Sorted by track.
    entries: Vec<Entry<T, K>>,
    capacity: usize,
    round: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry<T, K> {
    track: K,
    seen: u64,
    value: T,
}

impl<T, K: Copy + Ord> Recent<T, K> {
    pub fn new(capacity: usize) -> Self {
        Self {
            // Allocated at once, so that it does not grow while frames come; unused pages cost no
            // memory. A restored map grows on demand.
            entries: Vec::with_capacity(capacity),
            capacity,
            round: 0,
        }
    }

    /// Index of a track, or its insertion point.
    fn place(&self, track: K) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&track, |e| e.track)
    }

    /// Starts the next round and drops tracks not touched in the last `rounds` rounds.
    pub fn next_round(&mut self, rounds: u64) {
        self.round += 1;
        let now = self.round;
        self.entries.retain(|e| now - e.seen <= rounds);
    }

    /// Drops the states for which `keep` is false.
    pub fn retain_mut(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        self.entries.retain_mut(|e| keep(&mut e.value));
    }

    /// The state of a track, which counts as seen.
    pub fn touch(&mut self, track: K) -> Option<&mut T> {
        let place = self.place(track).ok()?;
        let entry = self.entries.get_mut(place)?;
        entry.seen = self.round;
        Some(&mut entry.value)
    }

    pub fn get(&self, track: K) -> Option<&T> {
        let place = self.place(track).ok()?;
        self.entries.get(place).map(|e| &e.value)
    }

    /// The state of a track, or `first`; it counts as seen.
    pub fn touch_or_insert(&mut self, track: K, first: T) -> &mut T {
        let seen = self.round;
        let place = match self.place(track) {
            Ok(place) => place,
            Err(mut place) => {
                if self.entries.len() >= self.capacity
                    && let Some(oldest) = self.oldest()
                {
                    self.entries.remove(oldest);
                    place -= usize::from(oldest < place);
                }
                let value = first;
                self.entries.insert(place, Entry { track, seen, value });
                place
            }
        };
        let entry = &mut self.entries[place];
        entry.seen = seen;
        &mut entry.value
    }

    /// Index of the track unseen for longest. Rare, so it scans.
    fn oldest(&self) -> Option<usize> {
        let each = self.entries.iter().enumerate();
        each.min_by_key(|(_, e)| e.seen).map(|(place, _)| place)
    }

    pub fn remove(&mut self, track: K) -> Option<T> {
        let place = self.place(track).ok()?;
        Some(self.entries.remove(place).value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        self.entries.iter().map(|e| (e.track, &e.value))
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
    fn tracks_are_known_and_evicted_in_any_order() {
        let mut m = Recent::new(3);
        for track in [7, 3, 9, 5] {
            m.next_round(100);
            *m.touch_or_insert(TrackId(track), 0) = track;
        }
        let known: Vec<(i64, i64)> = m.iter().map(|(t, v)| (t.0, *v)).collect();
        assert_eq!(known, [(3, 3), (5, 5), (9, 9)]);
        assert_eq!(m.remove(TrackId(5)), Some(5));
        assert_eq!((m.get(TrackId(5)), m.get(TrackId(9))), (None, Some(&9)));
    }

    #[test]
    fn a_track_is_forgotten_after_its_rounds() {
        let mut m = Recent::new(9);
        m.touch_or_insert(TrackId(1), ());
        m.next_round(1);
        assert_eq!(m.get(TrackId(1)), Some(&()));
        m.next_round(1);
        assert_eq!(m.get(TrackId(1)), None);
    }
}
