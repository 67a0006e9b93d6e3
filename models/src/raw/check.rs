//! Checks the values of a manifest, table by table.
//!
//! A check continues after an error, so that one message names all of them.

use std::sync::Arc;

use crate::labels;
use crate::manifest::{Decode, DecodeKind, Fit, FrameOrder, Input, Layout, Manifest, Task};

use super::decode::check_decode;
use super::error::{DisplayOrAbsent, FieldErrors};
use super::input::check_input;
use super::names::{check_labels, is_name, is_plain};
use super::packages::check_packages;
use super::parts::{UNIT, check_files, check_lines, check_masks, check_text};
use super::shape::{RawLabels, RawManifest};

/// Largest run of frames in pixels of the input: 64 frames of 512 by 512, whose tensor takes 200
/// MB.
const MAX_RUN: u64 = 64 * 512 * 512;

/// Adds every error to `errors`; returns `None` when a part could not be made at all.
pub(super) fn check(raw: RawManifest, errors: &mut FieldErrors) -> Option<Manifest> {
    errors.require(
        is_name(&raw.name),
        "name",
        &raw.name,
        "1 to 64 of a-z, 0-9, `-`, `_` and `.`",
    );
    let tasks = Task::ALL.map(|task| (task.name(), task));
    let task = errors.choose("task", &raw.task, &tasks);
    check_files(&raw.file, errors);
    let packages = check_packages(raw.package, errors);
    let input = check_input("input", &raw.input, errors);
    let decode = check_decode(raw.decode, errors);
    let with_texts = raw.text.is_some();
    let done = decode.as_ref().map(|d| d.kind.task(with_texts));
    let confidence = check_confidence(raw.confidence, done, errors);
    let labels = check_names(raw.labels, done, errors);
    let text = raw.text.and_then(|text| check_text(text, done, errors));
    let lines = raw.lines.and_then(|lines| check_lines(lines, done, errors));
    let masks = check_masks(raw.masks, done, errors);
    check_watch(&raw.watch, labels.as_deref().unwrap_or_default(), errors);
    check_stands_for(&raw.stands_for, errors);
    if let (Some(input), Some(done)) = (&input, done) {
        check_fit(input, &raw.input.fit, done, errors);
    }
    if let (Some(faces), Some(done)) = (&raw.faces, done) {
        check_faces(faces, &raw.name, done, errors);
    }
    if let (Some(task), Some(decode)) = (task, &decode) {
        check_task(task, decode, with_texts, errors);
    }
    if let (Some(input), Some(decode)) = (&input, &decode) {
        check_frames(input, decode, errors);
    }
    if let Some(iou) = raw.nms.map(|nms| nms.iou) {
        errors.require((0.0..=1.0).contains(&iou), "nms.iou", iou, UNIT);
    }
    Some(Manifest {
        name: raw.name,
        task: task?,
        summary: raw.summary,
        files: raw.file,
        packages,
        licence: raw.licence,
        origin: raw.origin,
        input: input?,
        decode: decode?,
        nms: raw.nms,
        confidence,
        labels: labels?,
        watch: raw.watch,
        stands_for: raw.stands_for,
        text,
        lines,
        masks,
        faces: raw.faces,
    })
}

/// Checks that the classes to watch are the model's.
fn check_watch(classes: &[String], labels: &[Arc<str>], errors: &mut FieldErrors) {
    for (i, class) in classes.iter().enumerate() {
        errors.require(
            labels.iter().any(|label| **label == **class),
            &format!("watch[{i}]"),
            class,
            "a name of `labels`",
        );
    }
}

fn check_stands_for(names: &[String], errors: &mut FieldErrors) {
    for (i, name) in names.iter().enumerate() {
        errors.require(
            is_plain(name),
            &format!("stands_for[{i}]"),
            name,
            "1 to 64 characters, as a step names it, such as clip/ViT-B-32",
        );
    }
}

/// Checks the name of the model that finds faces.
fn check_faces(faces: &str, own_name: &str, task: Task, errors: &mut FieldErrors) {
    errors.require(
        task == Task::GazeEstimation && faces != own_name,
        "faces",
        faces,
        "another model, which finds faces for one of layout gaze",
    );
}

/// Compares the task with that of the outputs.
fn check_task(task: Task, decode: &Decode, with_texts: bool, errors: &mut FieldErrors) {
    let done = decode.kind.task(with_texts);
    if task != done {
        let beside = if with_texts {
            " beside one for texts"
        } else {
            ""
        };
        let (done, layout) = (done.name(), decode.kind.name());
        let allowed = format!("{done}, as the network has layout {layout}{beside}");
        errors.push("task", task.name(), allowed);
    }
}

/// Refuses to crop the picture of a model whose output covers every pixel.
fn check_fit(input: &Input, fit: &str, task: Task, errors: &mut FieldErrors) {
    let covers_every_pixel = matches!(
        task,
        Task::SemanticSegmentation
            | Task::DepthEstimation
            | Task::PromptedSegmentation
            | Task::AnomalyDetection
    );
    errors.require(
        !covers_every_pixel || input.fit != Fit::Crop,
        "input.fit",
        fit,
        "letterbox or stretch, as the output covers every pixel",
    );
}

/// Checks size and order of a run of frames.
fn check_frames(input: &Input, decode: &Decode, errors: &mut FieldErrors) {
    let DecodeKind::Actions { frames, order, .. } = decode.kind else {
        return;
    };
    let pixels = u64::from(frames) * u64::from(input.width) * u64::from(input.height);
    errors.require(
        pixels <= MAX_RUN,
        "decode.frames",
        frames,
        format!("at most {MAX_RUN} pixels in all frames; these have {pixels}"),
    );
    errors.require(
        input.layout == Layout::Nchw || order == FrameOrder::FramesFirst,
        "decode.order",
        "channels-first",
        "frames-first, as the channels of nhwc come last",
    );
}

/// Reads the lowest score, for models with scores.
fn check_confidence(raw: Option<f32>, task: Option<Task>, errors: &mut FieldErrors) -> f32 {
    let without = matches!(
        task,
        Some(
            Task::ImageEmbedding
                | Task::ImageTextEmbedding
                | Task::DepthEstimation
                | Task::GazeEstimation
                | Task::PromptedSegmentation
                | Task::AnomalyDetection
        )
    );
    match raw {
        None if without => {}
        None => errors.push("confidence", DisplayOrAbsent(raw), UNIT),
        Some(given) => {
            let name = task.map_or("", Task::name);
            errors.require(
                !without,
                "confidence",
                given,
                format!("no such key for {name}: it has no scores"),
            );
            errors.require((0.0..=1.0).contains(&given), "confidence", given, UNIT);
        }
    }
    raw.unwrap_or(0.0)
}

/// Reads the names of classes, for models with their own classes.
fn check_names(
    raw: Option<RawLabels>,
    task: Option<Task>,
    errors: &mut FieldErrors,
) -> Option<Arc<[Arc<str>]>> {
    let without = match task {
        Some(Task::ZeroShotDetection) => "a step names its classes",
        Some(Task::TextReading) => "its characters are `decode.characters`",
        Some(
            Task::ImageEmbedding
            | Task::ImageTextEmbedding
            | Task::DepthEstimation
            | Task::GazeEstimation
            | Task::PromptedSegmentation
            | Task::AnomalyDetection,
        ) => "it has no classes",
        _ => "",
    };
    match raw {
        None if without.is_empty() => {
            let known = labels::CLASSES.join(", ");
            let absent = DisplayOrAbsent(None::<&str>);
            errors.push("labels", absent, format!("{known}, or a list of names"));
            None
        }
        None => Some(Arc::default()),
        Some(raw) => {
            let name = task.map_or("", Task::name);
            errors.require(
                without.is_empty(),
                "labels",
                DisplayOrAbsent(Some("given")),
                format!("no such key for {name}: {without}"),
            );
            check_labels("labels", raw, &labels::CLASSES, errors)
        }
    }
}
