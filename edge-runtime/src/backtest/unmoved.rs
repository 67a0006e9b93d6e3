//! Objects of a replay that never moved.
//!
//! - The history has no pixels, so a replay knows no still objects. It counts each post and parked
//!   car that a running watch leaves out, and a limit of its report gives their number.
//! - At most [`MAX_TRACKS`] tracks are known; an event of an older one counts as moved.

use watchkeeper_contract::backtest::BacktestEvent;
use watchkeeper_contract::id::TrackId;
use watchkeeper_vision::analytics::recent::Recent;
use watchkeeper_vision::analytics::still::has_moved;
use watchkeeper_vision::detections::Detection;
use watchkeeper_vision::geometry::BBox;

const MAX_TRACKS: usize = 4096;

/// Least number of boxes of a track that is known not to move.
const MIN_BOXES: u32 = 5;

/// First box of each track and its number of boxes; `None` for one that moved.
#[derive(Debug)]
pub(super) struct UnmovedTracks(Recent<Option<(BBox, u32)>>);

impl Default for UnmovedTracks {
    fn default() -> Self {
        Self(Recent::new(MAX_TRACKS))
    }
}

impl UnmovedTracks {
    /// Processes the tracked boxes of a frame.
    pub(super) fn observe<'a>(&mut self, tracked: impl Iterator<Item = &'a Detection>) {
        self.0.next_round(u64::MAX);
        for d in tracked {
            let Some(track) = d.track else { continue };
            let first = self.0.touch_or_insert(track, Some((d.bbox, 0)));
            let unmoved = first.filter(|(first, _)| !has_moved(first, &d.bbox));
            *first = unmoved.map(|(first, boxes)| (first, boxes.saturating_add(1)));
        }
    }

    /// A sentence about the listed events of objects that never moved, if there are any.
    pub(super) fn limit(&self, events: &[BacktestEvent]) -> Option<String> {
        let is_unmoved = |track: &TrackId| {
            let boxes = self
                .0
                .get(*track)
                .and_then(|first| first.map(|(_, boxes)| boxes));
            boxes.is_some_and(|boxes| boxes >= MIN_BOXES)
        };
        let is_unmoved = |event: &&BacktestEvent| {
            let event = &event.event;
            let needs_movement = ["appears", "enters", "leaves"];
            needs_movement.contains(&event.condition.as_str())
                && !event.tracks.is_empty()
                && event.tracks.iter().all(is_unmoved)
        };
        let unmoved = events.iter().filter(is_unmoved).count();
        (unmoved > 0).then(|| {
            format!(
                "{unmoved} of the {} listed events are of objects that never moved; a running \
                 watch leaves out those that do not change either, such as posts",
                events.len()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watchkeeper_vision::detections::testing::tracked;

    use super::*;

    #[test]
    fn limit_gives_the_number_of_events_of_objects_that_never_moved() {
        let mut unmoved = UnmovedTracks::default();
        for x in [0.0, 20.0, 40.0, 60.0, 80.0] {
            let boxes = [
                (1, BBox::new(0.0, 0.0, 40.0, 80.0)),
                (2, BBox::new(x, 0.0, x + 40.0, 80.0)),
            ];
            unmoved.observe(tracked(&boxes).boxes.iter());
        }
        let event = |track: i64, condition: &str| -> BacktestEvent {
            let event = json!({
                "at_ms": 0, "severity": "info",
                "decision": {"verdict": "act", "confidence": 0.9, "reason": "r"},
                "event": {
                    "rule": "r", "condition": condition, "reason": "r", "tracks": [track],
                    "frame": 1, "pts_s": 0.0,
                },
            });
            serde_json::from_value(event).expect("an event")
        };
        let events = [event(1, "enters"), event(2, "enters"), event(1, "crosses")];
        let limit = unmoved.limit(&events).unwrap_or_default();
        assert!(limit.starts_with("1 of the 3 listed events "), "{limit}");
        assert_eq!(unmoved.limit(&events[1..]), None);
    }
}
