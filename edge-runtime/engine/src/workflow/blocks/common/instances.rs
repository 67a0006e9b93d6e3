//! Remembers tracks, so that a step can distinguish new objects from known ones.
//!
//! - At most as many tracks as the step's property allows; the oldest is evicted.

use std::collections::VecDeque;

use watchkeeper_contract::id::TrackId;

use crate::workflow::block_api::prelude::*;

/// Default number of remembered tracks.
const USUAL_SIZE: i64 = 16_384;

/// Property with the number of remembered tracks.
pub(crate) const CACHE_SIZE: Property = Property::integer("instances_cache_size", USUAL_SIZE)
    .about("number of tracks remembered to tell new objects from known ones")
    .literal_only();

/// Frames for which a lost track is kept.
pub(crate) const BUFFER: Property = Property::integer("lost_track_buffer", 30)
    .about("frames, at 30 a second, for which a lost track is kept")
    .nullable();

/// The detections that a tracking step follows.
pub(crate) const fn followed(kinds: &[Kind]) -> Property {
    Property::data("detections", kinds).about("what to follow")
}

/// Outputs of a tracking step: all boxes, those of new tracks and those of known ones.
pub(crate) const fn outputs(kinds: &[Kind]) -> [Output; 3] {
    [
        Output::new("tracked_detections", kinds),
        Output::new("new_instances", kinds),
        Output::new("already_seen_instances", kinds),
    ]
}

/// A number of frames; 0 for a negative one. Fails if it is not a whole number.
pub(crate) fn frames(call: &Call<'_>, arg: Arg) -> Result<u32, String> {
    call.clamped(arg, 0..=u32::MAX.into())
}

/// State of one video in a tracking step.
#[derive(Serialize, Deserialize)]
pub(crate) struct Video<T> {
    pub(crate) tracker: T,
    pub(crate) instances: Instances,
}

impl<T> Video<T> {
    /// The first state of a video; a step without [`CACHE_SIZE`] remembers the usual number, and
    /// one with a negative number none.
    pub(crate) fn new(tracker: T, call: &Call<'_>) -> Result<Self, String> {
        let cache_size = call.named(CACHE_SIZE.name);
        let size = match call.has(cache_size) {
            true => call.integer(cache_size)?,
            false => USUAL_SIZE,
        };
        let instances = Instances::new(usize::try_from(size).unwrap_or(0));
        Ok(Self { tracker, instances })
    }
}

/// The latest tracks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "Saved")]
pub(crate) struct Instances {
    size: usize,
    /// In order of first sighting.
    order: VecDeque<TrackId>,
    /// The tracks, sorted: trackers count upwards, so a new one is added at the end.
    #[serde(skip_serializing)]
    known: Vec<TrackId>,
}

/// Their saved form.
#[derive(Deserialize)]
struct Saved {
    size: usize,
    order: VecDeque<TrackId>,
}

impl From<Saved> for Instances {
    fn from(saved: Saved) -> Self {
        let mut instances = Self::new(saved.size);
        instances.known.extend(&saved.order);
        instances.known.sort_unstable();
        instances.order.extend(saved.order);
        instances
    }
}

impl Instances {
    pub(crate) fn new(size: usize) -> Self {
        // Allocated at once, so that it does not grow while frames arrive.
        let room = size.min(usize::try_from(USUAL_SIZE).unwrap_or(0)) + 1;
        Self {
            size,
            order: VecDeque::with_capacity(room),
            known: Vec::with_capacity(room),
        }
    }

    /// Splits boxes into those of new tracks and those of known ones: outputs 1 and 2 of every
    /// tracking step. Reuses the memory of the last frame's.
    pub(crate) fn split_new(
        &mut self,
        tracked: &Detections,
        call: &mut Call<'_>,
    ) -> [Arc<Detections>; 2] {
        let [mut fresh, mut known] = [1, 2].map(|output| call.blank(output));
        self.split(
            tracked,
            Arc::make_mut(&mut fresh),
            Arc::make_mut(&mut known),
        );
        [fresh, known]
    }

    /// Adds boxes of new tracks to `fresh` and those of known tracks to `known`.
    fn split(&mut self, tracked: &Detections, fresh: &mut Detections, known: &mut Detections) {
        (fresh.size, known.size) = (tracked.size, tracked.size);
        for d in &tracked.boxes {
            let new = d.track.is_some_and(|track| self.note(track));
            let side = if new { &mut *fresh } else { &mut *known };
            side.boxes.push(d.clone());
        }
    }

    /// Adds a track; returns whether it is new.
    fn note(&mut self, track: TrackId) -> bool {
        let Err(place) = self.known.binary_search(&track) else {
            return false;
        };
        self.known.insert(place, track);
        self.order.push_back(track);
        while self.order.len() > self.size {
            if let Some(oldest) = self.order.pop_front()
                && let Ok(place) = self.known.binary_search(&oldest)
            {
                self.known.remove(place);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::block_api::stateful;
    use watchkeeper_vision::detections::testing::tracked;
    use watchkeeper_vision::geometry::BBox;

    fn new_ones(instances: &mut Instances, tracks: &[i64]) -> Vec<i64> {
        let boxes: Vec<_> = tracks.iter().map(|&t| (t, BBox::default())).collect();
        let (mut fresh, mut known) = (Detections::default(), Detections::default());
        instances.split(&tracked(&boxes), &mut fresh, &mut known);
        assert_eq!(fresh.boxes.len() + known.boxes.len(), tracks.len());
        fresh
            .boxes
            .iter()
            .filter_map(|b| b.track)
            .map(|t| t.0)
            .collect()
    }

    #[test]
    fn restored_tracks_are_evicted_in_the_same_order() {
        let mut instances = Instances::new(3);
        new_ones(&mut instances, &[5, 2, 9]);
        let bytes = stateful::write(&instances, 1 << 10).unwrap();
        let mut restored: Instances = stateful::read(&bytes).unwrap();
        assert_eq!(restored.order.capacity(), instances.order.capacity());
        assert_eq!(restored.known.capacity(), instances.known.capacity());
        for restored in [&mut instances, &mut restored] {
            assert_eq!(new_ones(restored, &[9, 5, 7]), [7]);
            // 5 was first and was evicted for 7.
            assert_eq!(new_ones(restored, &[2, 5]), [5]);
        }
    }

    #[test]
    fn track_is_new_once_until_it_is_evicted() {
        let mut instances = Instances::new(2);
        assert_eq!(new_ones(&mut instances, &[1, 2]), [1, 2]);
        assert!(new_ones(&mut instances, &[2, 1]).is_empty());
        assert_eq!(new_ones(&mut instances, &[3]), [3]);
        // 1 was first and was evicted for 3.
        assert_eq!(new_ones(&mut instances, &[1]), [1]);
    }
}
