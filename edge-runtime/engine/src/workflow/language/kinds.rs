//! Kinds: the types of data that a selector promises and a property accepts.
//!
//! - The list of 46 kinds is closed; there is no sub-typing between them.
//! - A [`KindSet`] is a bit set, so the check of an edge is one `and`.

macro_rules! kinds {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
                pub enum Kind { $($variant),+ }

        impl Kind {
            pub const ALL: &'static [Kind] = &[$(Kind::$variant),+];

            pub const fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name),+ }
            }

            pub fn parse(name: &str) -> Option<Self> {
                match name { $($name => Some(Kind::$variant),)+ _ => None }
            }
        }
    };
}

kinds! {
    Any = "*",
    Image = "image",
    VideoMetadata = "video_metadata",
    Timestamp = "timestamp",
    ObjectDetection = "object_detection_prediction",
    InstanceSegmentation = "instance_segmentation_prediction",
    RleInstanceSegmentation = "rle_instance_segmentation_prediction",
    SemanticSegmentation = "semantic_segmentation_prediction",
    Keypoints = "keypoint_detection_prediction",
    Classification = "classification_prediction",
    Detection = "detection",
    DetectionsOverlaps = "detections_overlaps",
    QrCode = "qr_code_detection",
    BarCode = "bar_code_detection",
    Text = "string",
    Integer = "integer",
    Float = "float",
    FloatZeroToOne = "float_zero_to_one",
    Boolean = "boolean",
    Dictionary = "dictionary",
    ListOfValues = "list_of_values",
    SerialisedPayloads = "serialised_payloads",
    Bytes = "bytes",
    RgbColor = "rgb_color",
    Point = "point",
    LabeledPoints = "labeled_points",
    Zone = "zone",
    Contours = "contours",
    ImageKeypoints = "image_keypoints",
    NumpyArray = "numpy_array",
    Tensor = "tensor",
    Embedding = "embedding",
    TopClass = "top_class",
    PredictionType = "prediction_type",
    ParentId = "parent_id",
    ImageMetadata = "image_metadata",
    LanguageModelOutput = "language_model_output",
    InferenceId = "inference_id",
    Secret = "secret",
    RoboflowModelId = "roboflow_model_id",
    RoboflowProject = "roboflow_project",
    RoboflowSolution = "roboflow_solution",
    RoboflowApiKey = "roboflow_api_key",
    RoboflowManagedKey = "ROBOFLOW_MANAGED_KEY",
    ActionRecognition = "action_recognition_prediction",
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KindSet(u64);

impl KindSet {
    /// The wildcard, compatible with every kind.
    pub const ANY: Self = Self::of(&[Kind::Any]);

    pub const fn of(kinds: &[Kind]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < kinds.len() {
            bits |= 1 << kinds[i] as u64;
            i += 1;
        }
        Self(bits)
    }

    pub const fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u64) != 0
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether data of these kinds may flow where `accepted` is declared: one side has the
    /// wildcard, or they share a kind.
    pub const fn fits(self, accepted: Self) -> bool {
        self.has(Kind::Any) || accepted.has(Kind::Any) || self.0 & accepted.0 != 0
    }

    pub fn names(self) -> Vec<String> {
        Kind::ALL
            .iter()
            .filter(|k| self.has(**k))
            .map(|k| k.name().to_owned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, KindSet};

    #[test]
    fn every_kind_parses_and_fits_in_the_bit_set() {
        assert!(Kind::ALL.len() <= 64);
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.name()), Some(*kind));
        }
    }

    #[test]
    fn disjoint_sets_fit_only_with_a_wildcard() {
        let image = KindSet::of(&[Kind::Image]);
        let text = KindSet::of(&[Kind::Text]);
        assert!(!image.fits(text));
        assert!(image.fits(KindSet::ANY));
        assert!(KindSet::ANY.fits(text));
        assert!(image.union(text).fits(text));
    }
}
