//! Detects objects with keypoints.

use super::object_detection_model::{
    AGNOSTIC, CONFIDENCE, CUSTOM_CONFIDENCE, Model, NO_MODE, outputs_v1, outputs_v2, properties,
};
use crate::workflow::block_api::prelude::*;

const POINTS: Property =
    Property::share("keypoint_confidence", 0.0).about("minimum score of a keypoint");
const MODE: Property = Property::one_of("confidence_mode", &["default", "custom"])
    .about("which minimum score to use: the model's own (default) or custom_confidence");

const PROPERTIES_V1: &[Property] = &properties::<12>(CONFIDENCE, AGNOSTIC, &[NO_MODE, POINTS]);
const PREDICTIONS: Output = Output::new("predictions", &[Kind::Keypoints]);
const OUTPUTS_V2: &[Output] = &outputs_v2(PREDICTIONS);

const BASE: Manifest = Manifest {
    summary: "Detects objects in pictures: a box, keypoints, a class and a score for each.",
    role: Role::Detector(Task::Keypoints),
    batch: &["images"],
    build: |_| {
        let model = Model::for_task(Task::Keypoints);
        Ok(Box::new(
            model.with_keypoint_confidence(arg!("keypoint_confidence")),
        ))
    },
    keeps_classes: true,
    ..Manifest::of("model")
};

pub(super) const BLOCKS: &[Manifest] = &[
    BASE.version(
        "roboflow_core/roboflow_keypoint_detection_model@v1",
        PROPERTIES_V1,
        &outputs_v1(PREDICTIONS),
    ),
    BASE.version(
        "roboflow_core/roboflow_keypoint_detection_model@v2",
        PROPERTIES_V1,
        OUTPUTS_V2,
    ),
    BASE.version(
        "roboflow_core/roboflow_keypoint_detection_model@v3",
        &properties::<12>(CUSTOM_CONFIDENCE, AGNOSTIC, &[MODE, POINTS]),
        OUTPUTS_V2,
    ),
];
