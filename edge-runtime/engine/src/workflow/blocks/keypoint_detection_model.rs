//! Finds objects in pictures with their keypoints, by a model that the program around the workflow runs.

use super::super::block::Task;
use super::super::kinds::Kind;
use super::super::manifest::{Default as Or, Manifest, NUMBER, Output, Property, Role, Shape};
use super::object_detection_model::{
    AGNOSTIC, CANDIDATES, CLASSES, CONFIDENCE, CUSTOM_CONFIDENCE, IMAGES, IOU, LEARNING_TARGET,
    MODEL, MOST, Model, NO_LEARNING,
};

const POINTS: Property = Property::value(
    "keypoint_confidence",
    "lowest score of a keypoint to report",
    NUMBER,
    &[Kind::FloatZeroToOne],
)
.or(Or::Float(0.0));
/// Position of [`POINTS`].
const POINTS_INDEX: usize = 11;
const MODE: Property = Property::value(
    "confidence_mode",
    "whose lowest score to use: the model's own (default) or custom_confidence",
    Shape::Choice(&["default", "custom"]),
    &[Kind::Text],
)
.or(Or::Text("default"));
const NO_MODE: Property = Property::literal(
    "confidence_mode",
    "kept for compatibility: the lowest score is `confidence`",
    Shape::Any,
)
.or(Or::Null);

const fn properties(confidence: Property, mode: Property) -> [Property; 12] {
    [
        IMAGES,
        MODEL,
        confidence,
        CLASSES,
        IOU,
        MOST,
        AGNOSTIC,
        CANDIDATES,
        NO_LEARNING,
        LEARNING_TARGET,
        mode,
        POINTS,
    ]
}

const PROPERTIES_V1: &[Property] = &properties(CONFIDENCE, NO_MODE);
const PROPERTIES_V3: &[Property] = &properties(CUSTOM_CONFIDENCE, MODE);
const PREDICTIONS: Output = Output::new("predictions", &[Kind::Keypoints]);
const OUTPUTS: &[Output] = &[
    Output::new("inference_id", &[Kind::InferenceId]),
    PREDICTIONS,
    Output::new("model_id", &[Kind::RoboflowModelId]),
];

const fn version(
    name: &'static str,
    properties: &'static [Property],
    outputs: &'static [Output],
) -> Manifest {
    Manifest {
        name,
        category: "model",
        summary: "Finds objects in pictures: a box, keypoints, a class and a score for each.",
        role: Role::Detector,
        properties,
        outputs,
        batch: &["images"],
        build: |_| {
            let model = Model::of(Task::Keypoints);
            Ok(Box::new(model.with_keypoint_confidence(POINTS_INDEX)))
        },
        ..Manifest::BASE
    }
}

pub(super) const BLOCKS: &[Manifest] = &[
    version(
        "roboflow_core/roboflow_keypoint_detection_model@v1",
        PROPERTIES_V1,
        &[Output::new("inference_id", &[Kind::Text]), PREDICTIONS],
    ),
    version(
        "roboflow_core/roboflow_keypoint_detection_model@v2",
        PROPERTIES_V1,
        OUTPUTS,
    ),
    version(
        "roboflow_core/roboflow_keypoint_detection_model@v3",
        PROPERTIES_V3,
        OUTPUTS,
    ),
];
