//! Finds objects in pictures with their masks, by a model that the program around the workflow runs.

use std::sync::Arc;

use super::super::block::{Block, Call, Task};
use super::super::json::RLE;
use super::super::kinds::Kind;
use super::super::manifest::{Default as Or, Manifest, NUMBER, Output, Property, Role, Shape};
use super::super::value::Value;
use super::object_detection_model::{
    AGNOSTIC, CANDIDATES, CLASSES, CONFIDENCE, CUSTOM_CONFIDENCE, IMAGES, IOU, LEARNING_TARGET,
    MODE, MODEL, MOST, Model, NO_LEARNING,
};
use crate::detections::Detections;

const DECODE: Property = Property::value(
    "mask_decode_mode",
    "how finely masks are made; kept for compatibility",
    Shape::Choice(&["accurate", "tradeoff", "fast"]),
    &[Kind::Text],
)
.or(Or::Text("accurate"));
const TRADEOFF: Property = Property::value(
    "tradeoff_factor",
    "how finely, between fast and accurate; kept for compatibility",
    NUMBER,
    &[Kind::FloatZeroToOne],
)
.or(Or::Float(0.0));
const DENSE: Property = Property::value(
    "enforce_dense_masks_in_inference_models",
    "kept for compatibility: masks are as the model gives them",
    Shape::Boolean,
    &[Kind::Boolean],
)
.or(Or::Bool(true));

const PROPERTIES_V1: &[Property] = &[
    IMAGES,
    MODEL,
    CONFIDENCE,
    CLASSES,
    IOU,
    MOST,
    AGNOSTIC,
    CANDIDATES,
    NO_LEARNING,
    LEARNING_TARGET,
    NO_MODE,
    DECODE,
    TRADEOFF,
    DENSE,
];
/// Keeps the place of the mode in versions that have none.
const NO_MODE: Property = Property::literal(
    "confidence_mode",
    "kept for compatibility: the lowest score is `confidence`",
    Shape::Any,
)
.or(Or::Null);
const PROPERTIES_V3: &[Property] = &[
    IMAGES,
    MODEL,
    CUSTOM_CONFIDENCE,
    CLASSES,
    IOU,
    MOST,
    AGNOSTIC,
    CANDIDATES,
    NO_LEARNING,
    LEARNING_TARGET,
    MODE,
    DECODE,
    TRADEOFF,
    DENSE,
];

const fn version(
    name: &'static str,
    properties: &'static [Property],
    outputs: &'static [Output],
) -> Manifest {
    Manifest {
        name,
        category: "model",
        summary: "Finds objects in pictures: a box, a mask, a class and a score for each.",
        role: Role::Detector,
        properties,
        outputs,
        batch: &["images"],
        build: |_| Ok(Box::new(Model::of(Task::Masks))),
        ..Manifest::BASE
    }
}

const PREDICTIONS: Output = Output::new("predictions", &[Kind::InstanceSegmentation]);
const OUTPUTS: &[Output] = &[
    Output::new("inference_id", &[Kind::InferenceId]),
    PREDICTIONS,
    Output::new("model_id", &[Kind::RoboflowModelId]),
];

pub(super) const BLOCKS: &[Manifest] = &[
    version(
        "roboflow_core/roboflow_instance_segmentation_model@v1",
        PROPERTIES_V1,
        &[Output::new("inference_id", &[Kind::Text]), PREDICTIONS],
    ),
    version(
        "roboflow_core/roboflow_instance_segmentation_model@v2",
        PROPERTIES_V1,
        OUTPUTS,
    ),
    version(
        "roboflow_core/roboflow_instance_segmentation_model@v3",
        PROPERTIES_V3,
        OUTPUTS,
    ),
    Manifest {
        build: |_| Ok(Box::new(InRunLengths(Model::of(Task::Masks)))),
        ..version(
            "roboflow_core/roboflow_instance_segmentation_model@v4",
            PROPERTIES_V3,
            &[
                Output::new("inference_id", &[Kind::InferenceId]),
                Output::new(
                    "predictions",
                    &[Kind::RleInstanceSegmentation, Kind::InstanceSegmentation],
                ),
                Output::new("model_id", &[Kind::RoboflowModelId]),
            ],
        )
    },
];

/// Hands masks out as run lengths.
struct InRunLengths(Model);

impl Block for InRunLengths {
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String> {
        self.0.run(call)?;
        if let Some(Value::Detections(all)) = call.out.get(1) {
            let mut all = Detections::clone(all);
            for d in &mut all.boxes {
                d.extra_mut().data.insert(Arc::from(RLE), true.into());
            }
            call.put(1, all);
        }
        Ok(())
    }
}
