//! SORT and its descendants: `ByteTrack` with SORT's filter, OC-SORT and BoT-SORT.
//!
//! - They differ in the motion of a box, the order of matching, and when a track is confirmed.
//! - Constants are those of the `trackers` library (Apache 2.0). Sources: Bewley et al., "Simple
//!   online and realtime tracking", 2016. Zhang et al., "ByteTrack", 2022. Cao et al.,
//!   "Observation-centric SORT", 2023. Aharon et al., "BoT-SORT", 2022 (without appearance and
//!   camera motion).
//! - Without gaps, results equal those of that library. With known frame times, a gap longer than
//!   the buffer ends every track.
//! - The number of tracks is bounded, no input panics, and only confirmed tracks are returned.

mod motion;
mod round;
mod settings;
mod track;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

use self::round::{MAX_TRACKS, Round};
use self::track::Track;
use super::assign::Matcher;
use super::cadence::Cadence;
use crate::detections::{Detection, DetectionId, Detections};

pub use settings::{SortConfig, SortKind};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SortTracker {
    config: SortConfig,
    #[serde(default)]
    cadence: Cadence,
    frame: u64,
    tracks: Vec<Track>,
    /// Tracks of the last frame's boxes, for held boxes.
    last: Vec<(DetectionId, TrackId)>,
    #[serde(skip)]
    matcher: Matcher,
}

impl SortTracker {
    pub fn new(config: SortConfig) -> Self {
        Self {
            config,
            cadence: Cadence::default(),
            frame: 0,
            tracks: Vec::new(),
            last: Vec::new(),
            matcher: Matcher::default(),
        }
    }

    /// Sets the frame rate, for sources whose rate is known late.
    pub const fn set_frame_rate(&mut self, fps: f64) {
        self.config.frame_rate = fps;
    }

    /// Processes a frame at `time_s` seconds of source time, if known; returns the boxes of
    /// confirmed tracks, matched ones first. `ids` counts the tracks of all sources. Held boxes
    /// keep their tracks.
    pub fn update(
        &mut self,
        detections: &Detections,
        time_s: Option<f64>,
        ids: &mut i64,
    ) -> Detections {
        let passed = time_s.and_then(|time_s| self.cadence.next(time_s));
        if passed.is_some_and(|p| p.is_late() && p.seconds > self.config.buffer_s()) {
            self.tracks.clear();
            self.last.clear();
        }
        let mut out = Detections {
            boxes: Vec::new(),
            size: detections.size,
        };
        let reported: Vec<(usize, TrackId)> = if detections.is_held() {
            let had = |d: &Detection| self.last.iter().find(|(id, _)| *id == d.id).map(|l| l.1);
            let all = detections.boxes.iter().enumerate();
            all.filter_map(|(i, d)| Some((i, had(d)?))).collect()
        } else {
            self.track_boxes(detections, ids)
        };
        self.last.clear();
        for (i, track) in reported {
            if let Some(d) = detections.boxes.get(i) {
                let mut d = d.clone();
                d.track = Some(track);
                self.last.push((d.id.clone(), track));
                out.boxes.push(d);
            }
        }
        out
    }

    /// Continues the tracks with the boxes of a frame; returns the boxes of confirmed tracks.
    fn track_boxes(&mut self, detections: &Detections, ids: &mut i64) -> Vec<(usize, TrackId)> {
        // OC-SORT does not count frames without tracks and boxes.
        let is_idle = self.tracks.is_empty() && detections.boxes.is_empty();
        if !is_idle || matches!(self.config.kind, SortKind::Bot { .. }) {
            self.frame = self.frame.saturating_add(1);
        }
        if is_idle {
            return Vec::new();
        }
        for track in &mut self.tracks {
            track.predict(self.config.kind);
        }
        let mut round = Round {
            boxes: detections
                .boxes
                .iter()
                .map(|d| (d.bbox, d.confidence))
                .collect(),
            predicted: self.tracks.iter().map(|t| t.motion.bbox()).collect(),
            tracks: std::mem::take(&mut self.tracks),
            config: self.config,
            frame: self.frame,
            ids,
            reported: Vec::new(),
        };
        let matcher = &mut self.matcher;
        match self.config.kind {
            SortKind::Sort {
                activation,
                overlap,
            } => round.sort(matcher, activation, overlap),
            SortKind::Byte {
                activation,
                overlap,
                good,
            } => round.byte(matcher, activation, overlap, good),
            SortKind::Oc {
                overlap,
                good,
                direction,
                span,
            } => round.oc(matcher, overlap, good, direction, span),
            SortKind::Bot { .. } => round.bot(matcher),
        }
        self.tracks = round.tracks;
        self.tracks.truncate(MAX_TRACKS);
        round.reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detections::testing::tracked;
    use crate::geometry::BBox;

    /// The track of a standing object before and after two seconds without frames.
    fn tracks_around_a_gap(kind: SortKind, timed: bool) -> [Option<TrackId>; 2] {
        let mut tracker = SortTracker::new(SortConfig {
            kind,
            lost_track_buffer: 30,
            minimum_consecutive_frames: 1,
            frame_rate: 30.0,
        });
        let standing = tracked(&[(7, BBox::new(10.0, 10.0, 50.0, 90.0))]);
        let mut ids = 0;
        [0.0, 3.0].map(|start_s| {
            let frames = (0..30).map(|n| start_s + f64::from(n) / 30.0);
            let last =
                frames.map(|time_s| tracker.update(&standing, timed.then_some(time_s), &mut ids));
            last.last()?.boxes.first()?.track
        })
    }

    #[test]
    fn gap_longer_than_the_buffer_ends_every_track() {
        let (activation, overlap, good) = (0.25, 0.2, 0.5);
        let kinds = [
            SortKind::Sort {
                activation,
                overlap,
            },
            SortKind::Byte {
                activation,
                overlap,
                good,
            },
            SortKind::Oc {
                overlap,
                good,
                direction: 0.2,
                span: 3,
            },
            SortKind::Bot {
                activation,
                overlap,
                poor_overlap: 0.5,
                new_overlap: 0.3,
                good,
                at_once: true,
            },
        ];
        for kind in kinds {
            let [before, after] = tracks_around_a_gap(kind, true);
            assert!(
                before.is_some() && after.is_some() && before != after,
                "{kind:?}"
            );
            let [before, after] = tracks_around_a_gap(kind, false);
            assert_eq!(before, after, "{kind:?}");
        }
    }
}
