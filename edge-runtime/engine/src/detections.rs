//! Detections: the boxes of one frame, as every model, tracker and block hands them on.
//!
//! Invariant: a [`Detections`] is immutable once it is shared; a block that changes boxes makes a new one. Boxes are in
//! pixels of the picture they were found in, `size` says how large that was.

use std::collections::BTreeMap;
use std::sync::Arc;

use watchkeeper_contract::id::TrackId;

use crate::geometry::BBox;

/// One box.
#[derive(Debug, Clone, PartialEq)]
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
    /// Everything that only some boxes have.
    pub extra: Option<Box<Extra>>,
}

/// Identity of one box.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extra {
    /// Seconds in the zone of the last time-in-zone step.
    pub time_in_zone: Option<f64>,
    /// Id of the picture this box was found in, where that is a crop.
    pub parent_id: Option<Arc<str>>,
    /// Anything else by its serialised name; ordered, so that output is deterministic.
    pub data: BTreeMap<Arc<str>, serde_json::Value>,
}

/// The boxes of one frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Detections {
    /// The boxes, in the order in which the model gave them.
    pub boxes: Vec<Detection>,
    /// Width and height in pixels of the picture they were found in.
    pub size: [u32; 2],
}

#[cfg(test)]
pub(crate) mod testing {
    //! Boxes for tests.

    use super::*;

    /// Tracked boxes of class `person` with a score of 0.8 in a picture of 640×480.
    pub(crate) fn tracked(boxes: &[(i64, BBox)]) -> Detections {
        let boxes = boxes
            .iter()
            .enumerate()
            .map(|(i, &(track, bbox))| Detection {
                bbox,
                confidence: 0.8,
                class_id: 0,
                class: "person".into(),
                track: Some(TrackId(track)),
                id: DetectionId::Local {
                    stream: 0,
                    number: i as u64,
                },
                extra: None,
            })
            .collect();
        Detections {
            boxes,
            size: [640, 480],
        }
    }
}
