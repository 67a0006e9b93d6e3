//! Kinds: what a selector promises and what a property accepts.
//!
//! Owns the closed list of 46 kind names and the set type over them. Invariant: a [`KindSet`] is a plain bit set, so
//! that the kind check of an edge is one `and`; there is no sub-typing between kinds.

macro_rules! kinds {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// One kind of data.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum Kind { $($variant),+ }

        impl Kind {
            /// Every kind, in the order of its declaration.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant),+];

            /// Name of the kind as definitions write it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name),+ }
            }

            /// The kind of this name.
            #[must_use]
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

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KindSet(u64);

impl KindSet {
    /// The set with only the wildcard, which is compatible with everything.
    pub const ANY: Self = Self::of(&[Kind::Any]);

    /// The set of these kinds.
    #[must_use]
    pub const fn of(kinds: &[Kind]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < kinds.len() {
            bits |= 1 << kinds[i] as u64;
            i += 1;
        }
        Self(bits)
    }

    /// Whether `kind` is in the set.
    #[must_use]
    pub const fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u64) != 0
    }

    /// This set and `other` together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether data of these kinds may flow where `accepted` is declared: true unless both sides are free of the
    /// wildcard and share no kind.
    #[must_use]
    pub const fn fits(self, accepted: Self) -> bool {
        self.has(Kind::Any) || accepted.has(Kind::Any) || self.0 & accepted.0 != 0
    }

    /// Names of the kinds in the set.
    #[must_use]
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
    fn every_kind_is_found_by_its_name_and_fits_in_the_bit_set() {
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
