//! A map from tracks to what is known about them, which forgets those not seen for longest.
//!
//! Invariant: never more than its capacity; a track that was touched in the latest round is forgotten only when that
//! round alone has more tracks than the capacity.

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

/// Bounded memory about tracks. A *round* is one frame.
///
/// A sorted list: trackers number upwards, so a new track goes to its end, and what went makes room without giving
/// memory back and asking for it again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recent<T> {
    /// By track.
    entries: Vec<Entry<T>>,
    capacity: usize,
    round: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry<T> {
    track: TrackId,
    seen: u64,
    value: T,
}

impl<T> Recent<T> {
    /// An empty memory for at most `capacity` tracks.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            // Asked for at once, so that it doesn't grow while pictures come; what is never used costs no memory. One that
            // is restored has room for what it held and grows.
            entries: Vec::with_capacity(capacity),
            capacity,
            round: 0,
        }
    }

    /// The place of a track, or where it would stand.
    fn place(&self, track: TrackId) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&track, |e| e.track)
    }

    /// Begins the next round and forgets tracks that were not touched in the last `rounds` rounds.
    pub fn next_round(&mut self, rounds: u64) {
        self.round += 1;
        let now = self.round;
        self.entries.retain(|e| now - e.seen <= rounds);
    }

    /// What is known about a track, marking it as seen.
    pub fn touch(&mut self, track: TrackId) -> Option<&mut T> {
        let place = self.place(track).ok()?;
        let entry = self.entries.get_mut(place)?;
        entry.seen = self.round;
        Some(&mut entry.value)
    }

    /// What is known about a track.
    #[must_use]
    pub fn get(&self, track: TrackId) -> Option<&T> {
        let place = self.place(track).ok()?;
        self.entries.get(place).map(|e| &e.value)
    }

    /// What is known about a track, or `first` if nothing is, marking it as seen.
    pub fn touch_or_insert(&mut self, track: TrackId, first: T) -> &mut T {
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

    /// The place of the track that was not seen for longest. Asked for rarely, so a scan will do.
    fn oldest(&self) -> Option<usize> {
        let each = self.entries.iter().enumerate();
        each.min_by_key(|(_, e)| e.seen).map(|(place, _)| place)
    }

    /// Forgets a track.
    pub fn remove(&mut self, track: TrackId) -> Option<T> {
        let place = self.place(track).ok()?;
        Some(self.entries.remove(place).value)
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
    fn tracks_in_any_order_are_known_and_the_one_that_makes_room_may_stand_anywhere() {
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
        assert_eq!(m.len(), 1);
        m.next_round(1);
        assert!(m.is_empty());
    }
}
