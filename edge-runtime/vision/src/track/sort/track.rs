//! One track: its motion, its counters and, for OC-SORT, its observations.
//!
//! - Invariant: [`Past::seen`] is bounded by the span of directions and has the latest box.
//! - Not here: which box continues a track (`round`).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

use super::motion::{Form, Motion};
use super::settings::SortKind;
use crate::geometry::BBox;

/// OC-SORT's observations of a track.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Past {
    pub(super) last: BBox,
    /// Boxes with the track's age, over the span of directions, and always the latest.
    pub(super) seen: VecDeque<(u32, BBox)>,
    /// Unit vector `(down, across)`.
    pub(super) direction: Option<[f64; 2]>,
    /// The filter at the moment of loss.
    pub(super) frozen: Option<Motion>,
    pub(super) is_observed: bool,
}

impl Past {
    /// The box from which directions are measured: `span` frames ago, or the first one after it.
    pub(super) fn reference(&self, age: u32, span: u32) -> Option<BBox> {
        let within = self
            .seen
            .iter()
            .find(|(at, _)| age - at <= span && *at < age);
        within.or(self.seen.back()).map(|(_, b)| *b)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Track {
    pub(super) motion: Motion,
    pub(super) id: Option<TrackId>,
    pub(super) age: u32,
    /// Frames since it was seen.
    pub(super) unseen: u32,
    /// Number of its boxes; consecutive ones, where the algorithm counts so.
    pub(super) hits: u32,
    pub(super) past: Option<Past>,
}

impl Track {
    pub(super) fn new(kind: SortKind, bbox: &BBox) -> Self {
        let form = match kind {
            SortKind::Sort { .. } | SortKind::Byte { .. } => Form::Sides,
            SortKind::Oc { .. } => Form::AreaAndRatio,
            SortKind::Bot { .. } => Form::CenterAndSize,
        };
        let past = matches!(kind, SortKind::Oc { .. }).then(|| Past {
            last: *bbox,
            seen: VecDeque::new(),
            direction: None,
            frozen: None,
            is_observed: true,
        });
        Self {
            motion: Motion::new(form, bbox),
            id: None,
            age: 0,
            unseen: 0,
            hits: u32::from(past.is_none()),
            past,
        }
    }

    pub(super) fn predict(&mut self, kind: SortKind) {
        let was_unseen = self.unseen > 0;
        if let Some(past) = self.past.as_mut().filter(|p| p.is_observed && was_unseen) {
            past.frozen = Some(self.motion);
            past.is_observed = false;
        }
        self.motion.predict();
        if was_unseen && matches!(kind, SortKind::Byte { .. } | SortKind::Oc { .. }) {
            self.hits = 0;
        }
        self.age = self.age.saturating_add(1);
        self.unseen = self.unseen.saturating_add(1);
    }

    /// Updates the track by its box; directions are measured over `span` frames.
    pub(super) fn update(&mut self, bbox: &BBox, span: u32) {
        if let Some(past) = &mut self.past {
            if let Some(from) = past.reference(self.age, span) {
                let (from, to) = (from.center(), bbox.center());
                let [down, across] = [to.y - from.y, to.x - from.x];
                let length = down.hypot(across) + 1e-6;
                past.direction = Some([down / length, across / length]);
            }
            if let Some(frozen) = past.frozen.take().filter(|_| !past.is_observed) {
                self.motion = refound(frozen, &past.last, bbox, self.unseen);
            }
            past.is_observed = true;
            past.last = *bbox;
            past.seen.push_back((self.age, *bbox));
            let age = self.age;
            while past.seen.len() > 1 && past.seen.front().is_some_and(|(at, _)| age - at > span) {
                past.seen.pop_front();
            }
        }
        self.motion.correct(bbox);
        self.unseen = 0;
        self.hits = self.hits.saturating_add(1);
    }
}

/// Moves a frozen filter along the straight line to the place where the track is seen again.
fn refound(mut motion: Motion, last: &BBox, now: &BBox, frames: u32) -> Motion {
    let steps = f64::from(frames.max(1));
    let (from, to) = (last.center(), now.center());
    let sides = |b: &BBox| {
        let [_, _, area, ratio] = Form::AreaAndRatio.measure(b);
        [(area * ratio).sqrt(), (area / ratio).sqrt()]
    };
    let ([w1, h1], [w2, h2]) = (sides(last), sides(now));
    for step in 1..=frames {
        let share = f64::from(step) / steps;
        let (w, h) = (w1 + (w2 - w1) * share, h1 + (h2 - h1) * share);
        let x = from.x + (to.x - from.x) * share;
        let y = from.y + (to.y - from.y) * share;
        motion.correct_by([x, y, w * h, w / h]);
        if step < frames {
            motion.advance();
        }
    }
    motion
}
