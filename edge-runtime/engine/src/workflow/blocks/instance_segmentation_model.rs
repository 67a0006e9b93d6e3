//! Detects objects with masks.

use super::object_detection_model::{
    AGNOSTIC, CONFIDENCE, CUSTOM_CONFIDENCE, MODE, Model, NO_MODE, outputs_v1, outputs_v2,
    properties,
};
use crate::workflow::block_api::prelude::*;
use crate::workflow::values::json::RLE;

const DECODE: Property = Property::one_of("mask_decode_mode", &["accurate", "tradeoff", "fast"])
    .without_effect("resolution of masks; kept for compatibility");
const TRADEOFF: Property = Property::share("tradeoff_factor", 0.0)
    .without_effect("trade-off between fast and accurate masks; kept for compatibility");
const DENSE: Property = Property::boolean("enforce_dense_masks_in_inference_models", true)
    .without_effect("kept for compatibility: masks are those of the model");

const PROPERTIES_V1: &[Property] =
    &properties::<14>(CONFIDENCE, AGNOSTIC, &[NO_MODE, DECODE, TRADEOFF, DENSE]);
const PROPERTIES_V3: &[Property] = &properties::<14>(
    CUSTOM_CONFIDENCE,
    AGNOSTIC,
    &[MODE, DECODE, TRADEOFF, DENSE],
);

const BASE: Manifest = Manifest {
    summary: "Detects objects in pictures: a box, a mask, a class and a score for each.",
    role: Role::Detector(Task::Masks),
    batch: &["images"],
    build: |_| Ok(Box::new(Model::for_task(Task::Masks))),
    keeps_classes: true,
    ..Manifest::of("model")
};

const PREDICTIONS: Output = Output::new("predictions", &[Kind::InstanceSegmentation]);
const OUTPUTS_V2: &[Output] = &outputs_v2(PREDICTIONS);
const OUTPUTS_V4: &[Output] = &outputs_v2(Output::new(
    "predictions",
    &[Kind::RleInstanceSegmentation, Kind::InstanceSegmentation],
));

pub(super) const BLOCKS: &[Manifest] = &[
    BASE.version(
        "roboflow_core/roboflow_instance_segmentation_model@v1",
        PROPERTIES_V1,
        &outputs_v1(PREDICTIONS),
    ),
    BASE.version(
        "roboflow_core/roboflow_instance_segmentation_model@v2",
        PROPERTIES_V1,
        OUTPUTS_V2,
    ),
    BASE.version(
        "roboflow_core/roboflow_instance_segmentation_model@v3",
        PROPERTIES_V3,
        OUTPUTS_V2,
    ),
    Manifest {
        build: |_| {
            let model = Model::for_task(Task::Masks);
            Ok(Box::new(move |call: &mut Call<'_>| {
                in_run_lengths(&model, call)
            }))
        },
        ..BASE.version(
            "roboflow_core/roboflow_instance_segmentation_model@v4",
            PROPERTIES_V3,
            OUTPUTS_V4,
        )
    },
];

fn in_run_lengths(model: &Model, call: &mut Call<'_>) -> Result<(), String> {
    model.run(call)?;
    if let Some(Value::Detections(all)) = call.out.get(1) {
        let mut all = Detections::clone(all);
        for d in &mut all.boxes {
            d.set_data(RLE, true);
        }
        call.put(1, all);
    }
    Ok(())
}
