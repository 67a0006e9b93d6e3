//! Detections: the boxes of one frame, as every model, tracker and block hands them on.
//!
//! Invariant: a [`Detections`] is immutable once it is shared; a block that changes boxes makes a new one. Boxes are in
//! pixels of the picture they were found in, `size` says how large that was.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

use crate::geometry::{Anchor, BBox, Point};
use crate::mask::Mask;

/// One box.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// Where, in pixels.
    pub bbox: BBox,
    /// Score, `0.0..=1.0`.
    pub confidence: f64,
    /// Index into the model's labels.
    pub class_id: i64,
    /// Name of the class.
    pub class: Arc<str>,
    /// Identity over time, once tracked.
    pub track: Option<TrackId>,
    /// Identity of this box, kept through filters and trackers: text as it came in, or a number we gave.
    pub id: DetectionId,
    /// Seconds in the zone of the last time-in-zone step.
    pub time_in_zone: Option<f64>,
    /// The detector did not look at this frame, because nothing moved, and this is its box from the last frame that it
    /// looked at. It says where something is believed to be; it is no sight of it and proves nothing.
    pub held: bool,
    /// Everything that only some boxes have.
    pub extra: Option<Box<Extra>>,
}

impl Detection {
    /// A box that a detector has just found, with nothing more known about it than that.
    #[must_use]
    pub fn new(
        bbox: BBox,
        confidence: f64,
        class_id: i64,
        class: impl Into<Arc<str>>,
        id: DetectionId,
    ) -> Self {
        Self {
            bbox,
            confidence,
            class_id,
            class: class.into(),
            track: None,
            id,
            time_in_zone: None,
            held: false,
            extra: None,
        }
    }

    /// Whether this box is only kept from an earlier frame, see [`Self::held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held
    }
}

/// Identity of one box.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DetectionId {
    /// Given by us: `(stream, number)`, formatted as a UUID when serialised.
    Local {
        /// Tells runs and sources apart.
        stream: u64,
        /// Counts boxes in that stream.
        number: u64,
    },
    /// As it came in.
    Given(Arc<str>),
}

/// Properties that only some boxes have. All absent by default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Extra {
    /// Id of the picture this box was found in, where that isn't `image`; empty for a box that was found in none.
    pub parent_id: Option<Arc<str>>,
    /// Id of the first picture of all, where that is neither `parent_id` nor that of `place`: for boxes that came in.
    pub root_id: Option<Arc<str>>,
    /// Where that picture lies, where it is a crop.
    pub place: Option<Arc<Place>>,
    /// Which pixels belong to the object, from an instance segmentation.
    pub mask: Option<Arc<Mask>>,
    /// Points of the object, from a keypoint model.
    pub keypoints: Option<Arc<[Keypoint]>>,
    /// Anything else by its serialised name; ordered, so that output is deterministic.
    pub data: BTreeMap<Arc<str>, serde_json::Value>,
}

/// Where a crop lies in the picture it was cut from, and in the first picture of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// In the picture it was cut from.
    pub parent: Origin,
    /// Id of the first picture.
    pub root_id: Arc<str>,
    /// In the first picture.
    pub root: Origin,
}

/// Where a picture lies in another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Left upper corner, in pixels of the other picture.
    pub offset: [i64; 2],
    /// Width and height of the other picture in pixels.
    pub size: [u32; 2],
}

/// A named point of an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Keypoint {
    /// Where, in pixels.
    pub at: Point,
    /// Score, `0.0..=1.0`.
    pub confidence: f64,
    /// Index into the model's names of points.
    pub class_id: i64,
    /// Name of the point.
    pub class: Arc<str>,
}

impl Detection {
    /// What only some boxes have, made if need be.
    pub fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Which pixels belong to the object, where that is known.
    #[must_use]
    pub fn mask(&self) -> Option<&Arc<Mask>> {
        self.extra.as_deref()?.mask.as_ref()
    }

    /// Something that a block attached, by its serialised name.
    #[must_use]
    pub fn data(&self, name: &str) -> Option<&serde_json::Value> {
        self.extra.as_deref()?.data.get(name)
    }

    /// The anchor point, in a picture of this size; the centre of mass is that of the mask, where there is one.
    #[must_use]
    pub fn anchor(&self, anchor: Anchor, size: [u32; 2]) -> Point {
        let center = || self.mask().and_then(|mask| mask.bitmap(size).center());
        match anchor {
            Anchor::CenterOfMass => center().unwrap_or_else(|| self.bbox.center()),
            other => self.bbox.anchor(other),
        }
    }

    /// The same object moved by whole pixels into a picture of this size: box, mask, keypoints and attached polygon.
    #[must_use]
    pub fn moved(&self, by: [i64; 2], size: [u32; 2]) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "picture sizes are small")]
        let [dx, dy] = by.map(|n| n as f64);
        let mut out = self.clone();
        let b = self.bbox;
        out.bbox = BBox::new(b.x1 + dx, b.y1 + dy, b.x2 + dx, b.y2 + dy);
        let Some(extra) = out.extra.as_deref_mut() else {
            return out;
        };
        if let Some(mask) = &extra.mask {
            extra.mask = Some(Arc::new(mask.moved(by, size)));
        }
        if let Some(points) = &extra.keypoints {
            let moved = |p: &Keypoint| Keypoint {
                at: Point::new(p.at.x + dx, p.at.y + dy),
                ..p.clone()
            };
            extra.keypoints = Some(points.iter().map(moved).collect());
        }
        for name in ["polygon", "rect"] {
            if let Some(serde_json::Value::Array(points)) = extra.data.get_mut(name) {
                for point in points {
                    shift(point, [dx, dy]);
                }
            }
        }
        out
    }
}

/// Moves a point written as `[x, y]`.
fn shift(point: &mut serde_json::Value, by: [f64; 2]) {
    for (i, by) in by.into_iter().enumerate() {
        if let Some(n) = point.get_mut(i)
            && let Some(old) = n.as_f64()
        {
            *n = serde_json::json!(old + by);
        }
    }
}

/// The boxes of one frame.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Detections {
    /// The boxes, in the order in which the model gave them.
    pub boxes: Vec<Detection>,
    /// Width and height in pixels of the picture they were found in.
    pub size: [u32; 2],
}

impl Detections {
    /// No boxes, in a picture of this size.
    #[must_use]
    pub fn none(size: [u32; 2]) -> Self {
        Self {
            boxes: Vec::new(),
            size,
        }
    }

    /// Some of these boxes, by their places in the list; places that aren't there are left out.
    #[must_use]
    pub fn pick(&self, which: impl IntoIterator<Item = usize>) -> Self {
        let mut out = Self::default();
        self.pick_into(which, &mut out);
        out
    }

    /// Puts them into `out` in the place of what is there.
    pub fn pick_into(&self, which: impl IntoIterator<Item = usize>, out: &mut Self) {
        let picked = which.into_iter().filter_map(|i| self.boxes.get(i).cloned());
        out.boxes.clear();
        out.boxes.extend(picked);
        out.size = self.size_of_rest(&out.boxes);
    }

    /// What is left of these boxes. Where it is nothing of something, the size of the picture is no longer known, as
    /// Roboflow's engine keeps it with the boxes.
    #[must_use]
    pub fn left(&self, boxes: Vec<Detection>) -> Self {
        let size = self.size_of_rest(&boxes);
        Self { boxes, size }
    }

    /// Size of the picture where this is what is left of these boxes, as in [`left`](Self::left).
    #[must_use]
    pub fn size_of_rest(&self, rest: &[Detection]) -> [u32; 2] {
        let is_lost = rest.is_empty() && !self.boxes.is_empty();
        if is_lost { [0, 0] } else { self.size }
    }

    /// The same boxes in the coordinates of the first picture, for those that were found in a crop.
    #[must_use]
    pub fn in_root(&self) -> Self {
        let mut size = self.size;
        let mut boxes = Vec::with_capacity(self.boxes.len());
        for d in &self.boxes {
            let place = d.extra.as_deref().and_then(|e| e.place.clone());
            let Some(place) = place else {
                boxes.push(d.clone());
                continue;
            };
            size = place.root.size;
            let mut moved = d.moved(place.root.offset, place.root.size);
            let extra = moved.extra_mut();
            extra.parent_id = Some(Arc::clone(&place.root_id));
            extra.place = None;
            boxes.push(moved);
        }
        Self { boxes, size }
    }

    /// Whether there are boxes and no detector looked at this frame for any of them.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.boxes.is_empty() && self.boxes.iter().all(Detection::is_held)
    }
}

#[doc(hidden)]
pub mod testing {
    //! Boxes for tests, of this crate and of those above it.

    use watchkeeper_contract::id::TrackId;

    use super::{Detection, DetectionId, Detections};
    use crate::geometry::BBox;

    /// Tracked boxes of class `person` with a score of 0.8 in a picture of 640×480.
    #[must_use]
    pub fn tracked(boxes: &[(i64, BBox)]) -> Detections {
        let boxes = boxes
            .iter()
            .enumerate()
            .map(|(i, &(track, bbox))| Detection {
                track: Some(TrackId(track)),
                ..Detection::new(
                    bbox,
                    0.8,
                    0,
                    "person",
                    DetectionId::Local {
                        stream: 0,
                        number: i as u64,
                    },
                )
            })
            .collect();
        Detections {
            boxes,
            size: [640, 480],
        }
    }
}
