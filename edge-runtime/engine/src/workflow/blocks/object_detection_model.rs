//! Detects objects with a model of the host.

use watchkeeper_vision::tiles::Tiles;

use crate::workflow::block_api::host::{ClassNames, DetectRequest};
use crate::workflow::block_api::prelude::*;

pub(super) const MODEL: Property = Property::value("model_id", Shape::Text)
    .about("model: a name from the zoo, or one of the platform's")
    .kinds(&[Kind::RoboflowModelId]);
pub(super) const CONFIDENCE: Property = Property::share("confidence", 0.4).about("minimum score");
pub(super) const CUSTOM_CONFIDENCE: Property = Property::share("custom_confidence", 0.4)
    .about("minimum score, in mode custom")
    .nullable();
pub(super) const MODE: Property =
    Property::one_of("confidence_mode", &["best", "default", "custom"])
        .about("which minimum score to use: the model's own (best, default) or custom_confidence");
/// Takes the place of [`MODE`] in versions without it that have properties after it.
pub(super) const NO_MODE: Property = Property::literal("confidence_mode", Shape::Any)
    .without_effect("kept for compatibility: the minimum score is `confidence`")
    .or(Or::Null);
pub(super) const AGNOSTIC: Property = Property::boolean("class_agnostic_nms", false)
    .about("whether boxes of different classes suppress each other");
pub(super) const NO_LEARNING: Property = Property::boolean("disable_active_learning", true)
    .without_effect("kept for compatibility: nothing is ever uploaded");
pub(super) const LEARNING_TARGET: Property =
    Property::optional("active_learning_target_dataset", Shape::Text)
        .without_effect("kept for compatibility: nothing is ever uploaded")
        .kinds(&[Kind::RoboflowProject]);

const PREDICTIONS: Output = Output::new("predictions", &[Kind::ObjectDetection]);

const BASE: Manifest = Manifest {
    summary: "Detects objects in pictures: a box, a class and a score for each.",
    role: Role::Detector(Task::Boxes),
    build: |_| Ok(Box::new(Model::for_task(Task::Boxes))),
    batch: &["images"],
    keeps_classes: true,
    ..Manifest::of("model")
};

/// Common properties of detection steps, in the order in which [`Model`] reads them, followed by
/// the step's own. `N` is the total number; a wrong one does not compile.
pub(super) const fn properties<const N: usize>(
    confidence: Property,
    agnostic: Property,
    own: &[Property],
) -> [Property; N] {
    let common = [
        IMAGES,
        MODEL,
        confidence,
        Property::optional("class_filter", Shape::Texts(0)).about("only objects of these classes"),
        Property::share("iou_threshold", 0.3)
            .about("overlap above which the weaker of two boxes is dropped"),
        Property::count("max_detections", 300).about("maximum number of boxes"),
        agnostic,
        Property::count("max_candidates", 3000)
            .without_effect("maximum number of boxes before suppression; kept for compatibility"),
        NO_LEARNING,
        LEARNING_TARGET,
    ];
    assert!(N == common.len() + own.len());
    let mut all = [confidence; N];
    let mut i = 0;
    while i < N {
        all[i] = if i < common.len() {
            common[i]
        } else {
            own[i - common.len()]
        };
        i += 1;
    }
    all
}

/// Outputs of the first versions.
pub(super) const fn outputs_v1(predictions: Output) -> [Output; 2] {
    [Output::new("inference_id", &[Kind::Text]), predictions]
}

/// Outputs of later versions.
pub(super) const fn outputs_v2(predictions: Output) -> [Output; 3] {
    [
        Output::new("inference_id", &[Kind::InferenceId]),
        predictions,
        Output::new("model_id", &[Kind::RoboflowModelId]),
    ]
}

const PROPERTIES_V1: &[Property] = &properties::<10>(CONFIDENCE, AGNOSTIC.nullable(), &[]);
const OUTPUTS_V2: &[Output] = &outputs_v2(PREDICTIONS);

pub(super) const BLOCKS: &[Manifest] = &[
    BASE.version(
        "roboflow_core/roboflow_object_detection_model@v1",
        PROPERTIES_V1,
        &outputs_v1(PREDICTIONS),
    ),
    BASE.version(
        "roboflow_core/roboflow_object_detection_model@v2",
        PROPERTIES_V1,
        OUTPUTS_V2,
    ),
    BASE.version(
        "roboflow_core/roboflow_object_detection_model@v3",
        &properties::<11>(CUSTOM_CONFIDENCE, AGNOSTIC.nullable(), &[MODE]),
        OUTPUTS_V2,
    ),
];

/// A detection step; its first eleven properties are those of [`BLOCKS`], in their order.
pub(super) struct Model {
    task: Task,
    /// Property with the minimum score of keypoints.
    keypoint_confidence: Option<Arg>,
    /// Tiles to examine besides the whole picture.
    tiles: Option<Tiles>,
}

impl Model {
    pub(super) fn for_task(task: Task) -> Self {
        Self {
            task,
            keypoint_confidence: None,
            tiles: None,
        }
    }

    /// Drops keypoints with a score below that of this property.
    pub(super) fn with_keypoint_confidence(mut self, least: Arg) -> Self {
        self.keypoint_confidence = Some(least);
        self
    }

    /// Examines tiles of the pictures too.
    pub(super) fn with_tiles(mut self, tiles: Tiles) -> Self {
        self.tiles = Some(tiles);
        self
    }
}

impl Block for Model {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        let image = call.image(arg!("images"))?;
        let model_id = call.text(arg!("model_id"))?;
        let confidence = match call.arg(arg!("confidence_mode")).as_str() {
            Some("best" | "default") => None,
            _ => Some(call.number_or_text(arg!("confidence" | "custom_confidence"))?),
        };
        let classes = class_filter(call.arg(arg!("class_filter")))?;
        let max_detections = call.number_or_text(arg!("max_detections"))? as usize;
        let request = DetectRequest {
            step: call.step,
            model_id,
            task: self.task,
            described: None,
            image,
            confidence,
            iou_threshold: Some(call.number_or_text(arg!("iou_threshold"))?),
            class_filter: classes,
            class_agnostic_nms: Some(call.boolean(arg!("class_agnostic_nms"))?),
            max_detections: Some(max_detections),
            tiles: self.tiles,
        };
        let mut blank = call.blank(1);
        let found = Arc::make_mut(&mut blank);
        call.host.detect_into(&request, found)?;
        limit(found, &request, call.host.knows_classes(&request));
        image.stamp(found);
        if let Some(least) = self.keypoint_confidence {
            let least = call.number(least)?;
            keep_keypoints(found, least);
        }
        // Counted in any case, so that no other identity depends on the readers of this one.
        let id = call.new_id();
        if call.is_read(0) {
            call.put(0, detection_id(&id));
        }
        call.put(1, blank);
        call.put(2, call.arg(arg!("model_id")).clone());
        Ok(())
    }
}

fn class_filter(value: &Value) -> Result<Option<ClassNames<'_>>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let names = value.as_list().and_then(ClassNames::of);
    let names = names.ok_or("class_filter has to be a list of class names")?;
    Ok(Some(names))
}

/// Applies the filters of the request again, for back ends that ignore them.
pub(super) fn limit(found: &mut Detections, request: &DetectRequest<'_>, knows_classes: bool) {
    if let Some(least) = request.confidence {
        found.boxes.retain(|d| d.confidence >= least);
    }
    if let Some(classes) = request.class_filter.filter(|_| knows_classes) {
        found.boxes.retain(|d| classes.contains(&d.class));
    }
    if let Some(most) = request.max_detections {
        found.boxes.truncate(most);
    }
}

fn keep_keypoints(found: &mut Detections, least: f64) {
    for d in &mut found.boxes {
        if let Some(extra) = d.extra.as_deref_mut()
            && let Some(points) = &extra.keypoints
        {
            let kept = points.iter().filter(|p| p.confidence >= least);
            extra.keypoints = Some(kept.cloned().collect());
        }
    }
}
