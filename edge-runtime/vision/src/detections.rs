//! Detections: the boxes of one frame, as models, trackers and blocks pass them on.
//!
//! - Shared [`Detections`] are immutable; a block that changes boxes makes new ones.
//! - Boxes are in pixels of the picture in which they were found, whose size is `size`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

use crate::geometry::{Anchor, BBox, Point};
use crate::mask::{Bitmap, Mask};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    pub bbox: BBox,
    /// From 0.0 to 1.0.
    pub confidence: f64,
    /// Index into the model's labels.
    pub class_id: i64,
    pub class: Arc<str>,
    /// Set by a tracker.
    pub track: Option<TrackId>,
    /// Kept by filters and trackers.
    pub id: DetectionId,
    /// Seconds in the zone of the last time-in-zone step.
    pub time_in_zone: Option<f64>,
    /// Whether that step kept the box although it is outside of the zone.
    #[serde(default)]
    pub outside_zone: bool,
    /// Whether this box is of an earlier frame: nothing moved and the detector did not look at this
    /// one, or a step decided late. Held boxes are not evidence.
    pub held: bool,
    pub extra: Option<Box<Extra>>,
}

impl Detection {
    /// A new detection without further properties.
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
            outside_zone: false,
            held: false,
            extra: None,
        }
    }
}

/// Identity of one detection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DetectionId {
    /// Our own id, serialised as a UUID.
    Local {
        /// Distinguishes runs and sources.
        stream: u64,
        /// Number of the box in its stream.
        number: u64,
    },
    /// The id of an input.
    Given(Arc<str>),
}

/// Rare properties of a detection.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Extra {
    /// Id of the picture in which the box was found, unless `image`; empty for none.
    pub parent_id: Option<Arc<str>>,
    /// Id of the root picture of an input, unless it is `parent_id` or that of `place`.
    pub root_id: Option<Arc<str>>,
    /// Place of that picture, if it is a crop.
    pub place: Option<Arc<Place>>,
    /// Pixels of the object, from instance segmentation.
    pub mask: Option<Arc<Mask>>,
    pub keypoints: Option<Arc<[Keypoint]>>,
    /// Other properties by serialised name; ordered, so that output is deterministic.
    pub data: BTreeMap<Arc<str>, serde_json::Value>,
}

/// Place of a crop in its parent picture and in the root picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub parent: Origin,
    pub root_id: Arc<str>,
    pub root: Origin,
}

/// Place of a picture in another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Upper left corner, in pixels of the other picture.
    pub offset: [i64; 2],
    /// Width and height of the other picture in pixels.
    pub size: [u32; 2],
}

/// A named point of an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Keypoint {
    pub at: Point,
    /// From 0.0 to 1.0.
    pub confidence: f64,
    /// Index into the model's keypoint names.
    pub class_id: i64,
    pub class: Arc<str>,
}

impl Detection {
    /// The rare properties, created on demand.
    pub fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    pub fn mask(&self) -> Option<&Arc<Mask>> {
        self.extra.as_deref()?.mask.as_ref()
    }

    pub fn keypoints(&self) -> Option<&[Keypoint]> {
        self.extra.as_deref()?.keypoints.as_deref()
    }

    /// Place of the picture in which it was found, if that is a crop.
    pub fn place(&self) -> Option<&Arc<Place>> {
        self.extra.as_deref()?.place.as_ref()
    }

    /// A property by its serialised name.
    pub fn data(&self, name: &str) -> Option<&serde_json::Value> {
        self.extra.as_deref()?.data.get(name)
    }

    /// Sets a property by its serialised name.
    pub fn set_data(&mut self, name: &str, value: impl Into<serde_json::Value>) {
        self.extra_mut().data.insert(Arc::from(name), value.into());
    }

    pub fn set_mask(&mut self, pixels: Bitmap) {
        self.extra_mut().mask = Some(Arc::new(Mask::Bitmap(pixels)));
    }

    /// The anchor point in a picture of this size; the centre of mass is that of the mask, if any.
    pub fn anchor(&self, anchor: Anchor, size: [u32; 2]) -> Point {
        let center = || self.mask().and_then(|mask| mask.bitmap(size).center());
        match anchor {
            Anchor::CenterOfMass => center().unwrap_or_else(|| self.bbox.center()),
            other => self.bbox.anchor(other),
        }
    }

    /// Translates box, mask, keypoints and attached polygon into a picture of this size.
    pub fn moved(&self, by: [i64; 2], size: [u32; 2]) -> Self {
        let [dx, dy] = by.map(|n| n as f64);
        let mut out = self.clone();
        out.bbox = self.bbox.moved(dx, dy);
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

/// Translates a point written as `[x, y]`.
fn shift(point: &mut serde_json::Value, by: [f64; 2]) {
    for (i, by) in by.into_iter().enumerate() {
        if let Some(n) = point.get_mut(i)
            && let Some(old) = n.as_f64()
        {
            *n = serde_json::json!(old + by);
        }
    }
}

#[derive(Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Detections {
    /// In the model's order.
    pub boxes: Vec<Detection>,
    /// Width and height in pixels of their picture.
    pub size: [u32; 2],
}

impl Clone for Detections {
    fn clone(&self) -> Self {
        Self {
            boxes: self.boxes.clone(),
            size: self.size,
        }
    }

    /// Keeps the memory of the boxes, unlike a derived one.
    fn clone_from(&mut self, source: &Self) {
        self.boxes.clone_from(&source.boxes);
        self.size = source.size;
    }
}

impl Detections {
    /// No detections, in a picture of this size.
    pub fn none(size: [u32; 2]) -> Self {
        Self {
            boxes: Vec::new(),
            size,
        }
    }

    /// Selects detections by index; ignores indices out of range.
    pub fn pick(&self, which: impl IntoIterator<Item = usize>) -> Self {
        let mut out = Self::default();
        self.pick_into(which, &mut out);
        out
    }

    /// Like [`pick`](Self::pick), but replaces the contents of `out`.
    pub fn pick_into(&self, which: impl IntoIterator<Item = usize>, out: &mut Self) {
        let picked = which.into_iter().filter_map(|i| self.boxes.get(i).cloned());
        out.boxes.clear();
        out.boxes.extend(picked);
        out.size = self.size_with_boxes(&out.boxes);
    }

    /// Returns these detections reduced to `boxes`. If all are removed, `size` becomes `[0, 0]`,
    /// as in Roboflow's engine.
    #[must_use]
    pub fn with_boxes(&self, boxes: Vec<Detection>) -> Self {
        let size = self.size_with_boxes(&boxes);
        Self { boxes, size }
    }

    /// The value of `size` when only `rest` remains; see [`with_boxes`](Self::with_boxes).
    pub fn size_with_boxes(&self, rest: &[Detection]) -> [u32; 2] {
        let is_lost = rest.is_empty() && !self.boxes.is_empty();
        if is_lost { [0, 0] } else { self.size }
    }

    /// Converts boxes found in a crop to coordinates of the root picture.
    pub fn in_root(&self) -> Self {
        let mut size = self.size;
        let mut boxes = Vec::with_capacity(self.boxes.len());
        for d in &self.boxes {
            let Some(place) = d.place() else {
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

    /// Whether there are boxes and all are held.
    pub fn is_held(&self) -> bool {
        !self.boxes.is_empty() && self.boxes.iter().all(|d| d.held)
    }
}

#[doc(hidden)]
pub mod testing {
    //! Detections for tests, also of other crates.

    use watchkeeper_contract::id::TrackId;

    use super::{Detection, DetectionId, Detections};
    use crate::geometry::BBox;

    /// Tracked boxes of class `person` with score 0.8 in a picture of 640×480.
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
