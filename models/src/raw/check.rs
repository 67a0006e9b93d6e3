//! The values of a manifest, one table after the other.
//!
//! Invariant: a check goes on after a fault, so that one message names everything there is to mend.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::labels;
use crate::manifest::{
    ColourOrder, Cover, DecodeKind, Fill, Fit, FrameOrder, Input, Layout, Licence, LineNetwork,
    Manifest, MaskNetwork, ModelFile, Nms, Origin, Part, Placement, Task, TextNetwork,
};

use super::decode::check_decode;
use super::fault::{DisplayOr, Faults};
use super::is_name;
use super::shape::{
    RawFile, RawInput, RawLabels, RawLines, RawManifest, RawMasks, RawPart, RawText,
};

/// Largest input side, in pixels. A tensor of this size squared is 200 MB, which no small machine has to spare.
pub(super) const MAX_SIDE: u32 = 4096;
const MAX_LABELS: usize = 10_000;
/// Largest run of frames, in pixels of the input: 64 frames of 512 by 512, whose tensor takes 200 MB.
const MAX_RUN: u64 = 64 * 512 * 512;
/// Longest name of a class, or of what a model stands for, in characters.
pub(super) const MAX_NAME: usize = 64;
/// What a models folder calls its own files.
const OWN_ENDINGS: [&str; 5] = [".toml", ".sha256", ".part", ".etag", ".adding"];
const UNIT: &str = "0.0 to 1.0";
/// Tokens of CLIP's vocabulary, for all its sizes.
const USUAL_TOKENS: u16 = 49_408;
/// Every byte in the middle and at the end of a word, and the marks of beginning and end: without merges there are as many.
const LEAST_TOKENS: u16 = 514;

/// Every fault goes into `faults`; none is returned when a part could not be made at all.
pub(super) fn check(raw: RawManifest, faults: &mut Faults) -> Option<Manifest> {
    faults.need(
        is_name(&raw.name),
        "name",
        &raw.name,
        "1 to 64 of a-z, 0-9, `-`, `_` and `.`",
    );
    let task = faults.word("task", &raw.task, &Task::ALL);
    let files = check_files(raw.file, faults);
    let input = check_input("input", &raw.input, faults);
    let decode = check_decode(raw.decode, faults);
    let with_texts = raw.text.is_some();
    let done = decode.as_ref().map(|d| d.kind.task(with_texts));
    let confidence = check_confidence(raw.confidence, done, faults);
    let labels = check_names(raw.labels, done, faults);
    let text = raw.text.and_then(|text| check_text(text, done, faults));
    let lines = raw.lines.and_then(|lines| check_lines(lines, done, faults));
    let masks = check_masks(raw.masks, done, faults);
    for (i, name) in raw.stands_for.iter().enumerate() {
        faults.need(
            is_plain(name),
            &format!("stands_for[{i}]"),
            name,
            "1 to 64 characters, as a step names it, such as clip/ViT-B-32",
        );
    }
    let of_pixels = [
        Task::SemanticSegmentation,
        Task::DepthEstimation,
        Task::PromptedSegmentation,
        Task::AnomalyDetection,
    ];
    if let (Some(input), Some(done)) = (&input, done)
        && of_pixels.contains(&done)
    {
        faults.need(
            input.fit != Fit::Crop,
            "input.fit",
            &raw.input.fit,
            "letterbox or stretch, as something is said of every pixel",
        );
    }
    if let (Some(faces), Some(done)) = (&raw.faces, done) {
        faults.need(
            done == Task::GazeEstimation && *faces != raw.name,
            "faces",
            faces,
            "another model, which finds the faces that a model of layout gaze looks at",
        );
    }
    if let (Some(task), Some(decode), Some(done)) = (task, &decode, done) {
        faults.need(
            task == done,
            "task",
            task.name(),
            format!(
                "{}, which networks of layout {} do{}",
                done.name(),
                decode.kind.name(),
                if with_texts {
                    " beside one for texts"
                } else {
                    ""
                },
            ),
        );
    }
    if let (Some(input), Some(decode)) = (&input, &decode)
        && let DecodeKind::Actions { frames, order, .. } = decode.kind
    {
        let pixels = u64::from(frames) * u64::from(input.width) * u64::from(input.height);
        faults.need(
            pixels <= MAX_RUN,
            "decode.frames",
            frames,
            format!("no more than {MAX_RUN} pixels in all frames, which are {pixels}"),
        );
        faults.need(
            input.layout == Layout::Nchw || order == FrameOrder::FramesFirst,
            "decode.order",
            "channels-first",
            "frames-first, as the channels of nhwc come last",
        );
    }
    if let Some(nms) = &raw.nms {
        faults.need((0.0..=1.0).contains(&nms.iou), "nms.iou", nms.iou, UNIT);
    }
    Some(Manifest {
        name: raw.name,
        task: task?,
        summary: raw.summary,
        files,
        licence: raw.licence.map(|l| Licence {
            spdx: l.spdx,
            url: l.url,
        }),
        origin: raw.origin.map(|o| Origin {
            project: o.project,
            url: o.url,
        }),
        input: input?,
        decode: decode?,
        nms: raw.nms.map(|n| Nms {
            iou: n.iou,
            class_agnostic: n.class_agnostic,
        }),
        confidence,
        labels: labels?,
        stands_for: raw.stands_for,
        text,
        lines,
        masks,
        faces: raw.faces,
    })
}

/// The lowest score, for what has scores.
fn check_confidence(raw: Option<f32>, task: Option<Task>, faults: &mut Faults) -> f32 {
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
        None => faults.add("confidence", DisplayOr(raw), UNIT),
        Some(given) => {
            let name = task.map_or("", Task::name);
            faults.need(
                !without,
                "confidence",
                given,
                format!("no such key for {name}, which has no scores"),
            );
            faults.need((0.0..=1.0).contains(&given), "confidence", given, UNIT);
        }
    }
    raw.unwrap_or(0.0)
}

/// The names of classes, for what has classes of its own.
fn check_names(
    raw: Option<RawLabels>,
    task: Option<Task>,
    faults: &mut Faults,
) -> Option<Arc<[Arc<str>]>> {
    let without = match task {
        Some(Task::ZeroShotDetection) => "a step names what is to be found",
        Some(Task::TextReading) => "its characters are `decode.characters`",
        Some(
            Task::ImageEmbedding
            | Task::ImageTextEmbedding
            | Task::DepthEstimation
            | Task::GazeEstimation
            | Task::PromptedSegmentation
            | Task::AnomalyDetection,
        ) => "it knows no classes",
        _ => "",
    };
    match raw {
        None if without.is_empty() => {
            let known = labels::CLASSES.join(", ");
            let absent = DisplayOr(None::<&str>);
            faults.add("labels", absent, format!("{known}, or a list of names"));
            None
        }
        None => Some(Arc::default()),
        Some(raw) => {
            let name = task.map_or("", Task::name);
            faults.need(
                without.is_empty(),
                "labels",
                DisplayOr(Some("given")),
                format!("no such key for {name}: {without}"),
            );
            check_labels("labels", raw, &labels::CLASSES, faults)
        }
    }
}

/// A file beside the network's. Its name is never a path, so that a manifest from anywhere reaches nothing outside its folder.
fn check_part(key: &str, raw: RawPart, faults: &mut Faults) -> Part {
    let RawPart {
        file,
        sha256,
        bytes,
        url,
    } = raw;
    let good = (1..=128).contains(&file.len())
        && !file.starts_with('.')
        && file
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    faults.need(
        good,
        &format!("{key}.file"),
        &file,
        "the name of a file in the same folder: 1 to 128 of letters, digits, `-`, `_` and `.`",
    );
    let lower = file.to_ascii_lowercase();
    faults.need(
        !OWN_ENDINGS.iter().any(|ending| lower.ends_with(ending)),
        &format!("{key}.file"),
        &file,
        format!(
            "a name that does not end in {}, as the files do that the folder is kept by",
            OWN_ENDINGS.join(", ")
        ),
    );
    let sha256 = sha256.and_then(|text| {
        let sum = text.parse().ok();
        if sum.is_none() {
            faults.add(format!("{key}.sha256"), text, "64 hexadecimal digits");
        }
        sum
    });
    if let Some(url) = &url {
        check_url(&format!("{key}.url"), url, faults);
    }
    Part {
        file,
        sha256,
        bytes,
        url,
    }
}

fn check_url(key: &str, text: &str, faults: &mut Faults) {
    let good =
        url::Url::parse(text).is_ok_and(|u| matches!(u.scheme(), "https" | "http") && u.has_host());
    faults.need(good, key, text, "an http or https address");
}

fn check_text(raw: RawText, task: Option<Task>, faults: &mut Faults) -> Option<TextNetwork> {
    if let Some(task) = task
        && !matches!(task, Task::ImageTextEmbedding | Task::ZeroShotDetection)
    {
        faults.add(
            "text",
            DisplayOr(Some("given")),
            "no such part but beside a network of layout embedding, yolov8 or detr",
        );
        return None;
    }
    faults.need(
        raw.inputs.len() <= 2,
        "text.inputs",
        &raw.inputs,
        "the input for tokens, and the one that tells them from what is filled up",
    );
    faults.need(
        (3..=512).contains(&raw.context),
        "text.context",
        raw.context,
        "3 to 512 tokens",
    );
    let tokens = raw.tokens.unwrap_or(USUAL_TOKENS);
    faults.need(
        tokens >= LEAST_TOKENS,
        "text.tokens",
        tokens,
        format!("{LEAST_TOKENS} to 65535"),
    );
    let fill = raw.fill.as_deref().unwrap_or("zero");
    let fill = faults.word(
        "text.fill",
        fill,
        &[("zero", Fill::Zero), ("end", Fill::End)],
    );
    let vocabulary = raw.vocabulary;
    if vocabulary.sha256.is_none() {
        faults.add(
            "text.vocabulary.sha256",
            DisplayOr(None::<&str>),
            "64 hexadecimal digits: another vocabulary would make other numbers of every text",
        );
    }
    Some(TextNetwork {
        part: check_part(
            "text",
            RawPart {
                file: raw.file,
                sha256: raw.sha256,
                bytes: raw.bytes,
                url: raw.url,
            },
            faults,
        ),
        inputs: raw.inputs,
        outputs: raw.output.into_iter().collect(),
        context: raw.context,
        fill: fill?,
        vocabulary: check_part("text.vocabulary", vocabulary, faults),
        tokens,
    })
}

fn check_lines(raw: RawLines, task: Option<Task>, faults: &mut Faults) -> Option<LineNetwork> {
    if let Some(task) = task
        && task != Task::TextReading
    {
        faults.add(
            "lines",
            DisplayOr(Some("given")),
            "no such part but beside a network of layout ctc",
        );
        return None;
    }
    for (key, value) in [
        ("lines.threshold", raw.threshold),
        ("lines.confidence", raw.confidence),
    ] {
        faults.need((0.0..=1.0).contains(&value), key, value, UNIT);
    }
    faults.need(
        (0.0..=4.0).contains(&raw.unclip),
        "lines.unclip",
        raw.unclip,
        "0.0 to 4.0",
    );
    let input = check_input("lines.input", &raw.input, faults)?;
    if let Some(widest) = raw.widest {
        let least = input.width.max(input.height);
        faults.need(
            (least..=MAX_SIDE).contains(&widest),
            "lines.widest",
            widest,
            format!("{least} to {MAX_SIDE} pixels, as its input has {least}"),
        );
    }
    Some(LineNetwork {
        part: check_part(
            "lines",
            RawPart {
                file: raw.file,
                sha256: raw.sha256,
                bytes: raw.bytes,
                url: raw.url,
            },
            faults,
        ),
        input,
        widest: raw.widest,
        outputs: raw.output.into_iter().collect(),
        threshold: raw.threshold,
        confidence: raw.confidence,
        unclip: raw.unclip,
    })
}

/// The network that makes masks, which what a model sees is good for nothing without.
fn check_masks(
    raw: Option<RawMasks>,
    task: Option<Task>,
    faults: &mut Faults,
) -> Option<MaskNetwork> {
    let makes_masks = task == Some(Task::PromptedSegmentation);
    let Some(raw) = raw else {
        if makes_masks {
            faults.add(
                "masks",
                DisplayOr(None::<&str>),
                "the network that makes masks, beside one of layout features",
            );
        }
        return None;
    };
    if task.is_some() && !makes_masks {
        faults.add(
            "masks",
            DisplayOr(Some("given")),
            "no such part but beside a network of layout features",
        );
        return None;
    }
    faults.need(
        raw.outputs.is_empty() || raw.outputs.len() == 2,
        "masks.outputs",
        &raw.outputs,
        "the names of the masks and of how good each is, or none for the file's own order",
    );
    let cover = faults.word(
        "masks.cover",
        &raw.cover,
        &[("input", Cover::Input), ("picture", Cover::Picture)],
    );
    Some(MaskNetwork {
        part: check_part(
            "masks",
            RawPart {
                file: raw.file,
                sha256: raw.sha256,
                bytes: raw.bytes,
                url: raw.url,
            },
            faults,
        ),
        outputs: raw.outputs,
        cover: cover?,
    })
}

pub(super) fn check_labels(
    key: &str,
    raw: RawLabels,
    known: &[&str],
    faults: &mut Faults,
) -> Option<Arc<[Arc<str>]>> {
    match raw {
        RawLabels::Shared(name) => {
            let list = labels::list(&name).filter(|_| known.contains(&&*name));
            if list.is_none() {
                let known = known.join(", ");
                faults.add(key, &name, format!("{known}, or a list of names"));
            }
            list
        }
        RawLabels::Inline(names) => {
            faults.need(
                (1..=MAX_LABELS).contains(&names.len()),
                key,
                format!("a list of {}", names.len()),
                format!("1 to {MAX_LABELS} names"),
            );
            let mut seen = BTreeMap::new();
            for (i, name) in names.iter().enumerate() {
                let at = format!("{key}[{i}]");
                faults.need(
                    is_plain(name),
                    &at,
                    name,
                    format!("1 to {MAX_NAME} characters, none of them a control character"),
                );
                if let Some(first) = seen.insert(name, i) {
                    let allowed = format!("a name of its own: {key}[{first}] has that one");
                    faults.add(at, name, allowed);
                }
            }
            Some(names.iter().map(|n| Arc::from(n.as_str())).collect())
        }
    }
}

/// Whether a name can stand in a message, a table and a topic as it is.
fn is_plain(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}

fn check_files(raw: Vec<RawFile>, faults: &mut Faults) -> Vec<ModelFile> {
    let mut files = Vec::with_capacity(raw.len());
    for (i, file) in raw.into_iter().enumerate() {
        let key = |field: &str| format!("file[{i}].{field}");
        let sha256 = file.sha256.and_then(|text| {
            let sum = text.parse().ok();
            if sum.is_none() {
                faults.add(key("sha256"), text, "64 hexadecimal digits");
            }
            sum
        });
        if let Some(text) = &file.url {
            check_url(&key("url"), text, faults);
        }
        if file.url.is_none() && sha256.is_none() {
            faults.add(key("url"), "absent", "a url, a sha256 or both");
        }
        files.push(ModelFile {
            url: file.url,
            sha256,
            bytes: file.bytes,
            note: file.note,
        });
    }
    files
}

/// `at` is the key of the table.
fn check_input(at: &str, raw: &RawInput, faults: &mut Faults) -> Option<Input> {
    let key = |field: &str| format!("{at}.{field}");
    for (field, side) in [("width", raw.width), ("height", raw.height)] {
        faults.need(
            (1..=MAX_SIDE).contains(&side),
            &key(field),
            side,
            format!("1 to {MAX_SIDE} pixels"),
        );
    }
    faults.word(&key("dtype"), &raw.dtype, &[("f32", ())]);
    let finite = |v: &[f32]| v.iter().all(|x| x.is_finite());
    faults.need(
        raw.scale.is_finite() && raw.scale != 0.0,
        &key("scale"),
        raw.scale,
        "a number other than 0",
    );
    faults.need(
        finite(&raw.mean),
        &key("mean"),
        raw.mean,
        "three finite numbers",
    );
    faults.need(
        finite(&raw.std) && !raw.std.contains(&0.0),
        &key("std"),
        raw.std,
        "three numbers other than 0",
    );
    let layout = faults.word(
        &key("layout"),
        &raw.layout,
        &[("nchw", Layout::Nchw), ("nhwc", Layout::Nhwc)],
    );
    let colour = faults.word(
        &key("colour"),
        &raw.colour,
        &[("bgr", ColourOrder::Bgr), ("rgb", ColourOrder::Rgb)],
    );
    let unboxed = faults.word(
        &key("fit"),
        &raw.fit,
        &[
            ("letterbox", None),
            ("stretch", Some(Fit::Stretch)),
            ("crop", Some(Fit::Crop)),
        ],
    )?;
    let fit = if let Some(fit) = unboxed {
        let spare = raw.placement.is_some() || raw.pad.is_some();
        faults.need(
            !spare,
            &key("fit"),
            &raw.fit,
            "letterbox, as placement or pad is given",
        );
        fit
    } else {
        let placement = faults.word(
            &key("placement"),
            raw.placement.as_deref().unwrap_or("absent"),
            &[
                ("top-left", Placement::TopLeft),
                ("centre", Placement::Centre),
                ("centre-exact", Placement::CentreExact),
            ],
        );
        let pad = raw.pad.and_then(|pad| u8::try_from(pad).ok());
        faults.need(pad.is_some(), &key("pad"), DisplayOr(raw.pad), "0 to 255");
        Fit::Letterbox {
            placement: placement?,
            pad: pad?,
        }
    };
    Some(Input {
        width: raw.width,
        height: raw.height,
        layout: layout?,
        colour: colour?,
        scale: raw.scale,
        mean: raw.mean,
        std: raw.std,
        fit,
    })
}
