//! Manifests as written in TOML, and the check that makes a [`Manifest`] of them.
//!
//! Two stages: the file's shape first (unknown keys are refused), then the values, all of them, so that one message names
//! everything there is to mend.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::labels;
use crate::manifest::{
    Blank, CellPoint, ClassScores, ColourOrder, Cover, Decode, DecodeKind, DetrScores, Fill, Fit,
    FrameOrder, Input, Layout, Licence, LineNetwork, Manifest, MaskNetwork, ModelFile, Nms, Origin,
    Part, Placement, Task, TextNetwork,
};

/// Why a manifest was refused.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file can't be read.
    #[error("{file}: {source}")]
    Read {
        /// Which file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not TOML, or of another shape.
    #[error("{file}: {key}{message}")]
    Shape {
        /// Which file.
        file: PathBuf,
        /// Where in it, as `key: `; empty when the text is not TOML at all.
        key: String,
        /// What is wrong.
        message: String,
    },
    /// Values that can't be.
    #[error("{file}: {faults}")]
    Values {
        /// Which file.
        file: PathBuf,
        /// Every wrong value.
        faults: Faults,
    },
}

/// One wrong value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Path of the key, such as `input.layout`.
    pub key: String,
    /// What stands there.
    pub value: String,
    /// What would be accepted.
    pub allowed: String,
}

/// Wrong values of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            let Fault {
                key,
                value,
                allowed,
            } = fault;
            write!(f, "`{key}` is {value}, allowed: {allowed}")?;
        }
        Ok(())
    }
}

impl Faults {
    fn add(&mut self, key: impl Into<String>, value: impl fmt::Debug, allowed: impl Into<String>) {
        self.0.push(Fault {
            key: key.into(),
            value: format!("{value:?}"),
            allowed: allowed.into(),
        });
    }

    fn need(
        &mut self,
        good: bool,
        key: &str,
        value: impl fmt::Debug,
        allowed: impl Into<String>,
    ) -> bool {
        if !good {
            self.add(key, value, allowed);
        }
        good
    }

    /// The value that `word` stands for in `table`; the first one and a fault when it stands for none.
    fn word<T: Copy>(&mut self, key: &str, word: &str, table: &[(&str, T)]) -> Option<T> {
        let found = table.iter().find(|(name, _)| *name == word);
        if found.is_none() {
            let names: Vec<_> = table.iter().map(|(name, _)| *name).collect();
            self.add(key, word, names.join(", "));
        }
        found.map(|(_, value)| *value)
    }
}

/// A value for a message, or the word that it is not there.
struct DisplayOr<T>(Option<T>);

impl<T: fmt::Display> fmt::Debug for DisplayOr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("absent"),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawManifest {
    name: String,
    task: String,
    summary: Option<String>,
    confidence: Option<f32>,
    labels: Option<RawLabels>,
    #[serde(default)]
    stands_for: Vec<String>,
    licence: Option<RawLicence>,
    origin: Option<RawOrigin>,
    #[serde(default)]
    file: Vec<RawFile>,
    input: RawInput,
    decode: RawDecode,
    nms: Option<RawNms>,
    text: Option<RawText>,
    lines: Option<RawLines>,
    masks: Option<RawMasks>,
    faces: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPart {
    file: String,
    sha256: Option<String>,
    bytes: Option<u64>,
    url: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawText {
    file: String,
    sha256: Option<String>,
    bytes: Option<u64>,
    url: Option<String>,
    #[serde(default)]
    inputs: Vec<String>,
    output: Option<String>,
    context: u32,
    fill: Option<String>,
    vocabulary: RawPart,
    tokens: Option<u16>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLines {
    file: String,
    sha256: Option<String>,
    bytes: Option<u64>,
    url: Option<String>,
    output: Option<String>,
    threshold: f32,
    confidence: f32,
    unclip: f32,
    widest: Option<u32>,
    input: RawInput,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMasks {
    file: String,
    sha256: Option<String>,
    bytes: Option<u64>,
    url: Option<String>,
    #[serde(default)]
    outputs: Vec<String>,
    cover: String,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "labels must be the name of a shared list or a list of names"
)]
enum RawLabels {
    Shared(String),
    Inline(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLicence {
    spdx: String,
    url: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOrigin {
    project: String,
    url: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    url: Option<String>,
    sha256: Option<String>,
    bytes: Option<u64>,
    note: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInput {
    width: u32,
    height: u32,
    layout: String,
    colour: String,
    dtype: String,
    #[serde(default = "one")]
    scale: f32,
    #[serde(default)]
    mean: [f32; 3],
    #[serde(default = "ones")]
    std: [f32; 3],
    fit: String,
    placement: Option<String>,
    pad: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDecode {
    kind: String,
    #[serde(default)]
    outputs: Vec<String>,
    strides: Option<Vec<u32>>,
    reg_max: Option<u32>,
    cell: Option<String>,
    has_objectness: Option<bool>,
    sigmoid: Option<bool>,
    scores: Option<String>,
    coefficients: Option<u32>,
    keypoints: Option<RawLabels>,
    has_visibility: Option<bool>,
    characters: Option<String>,
    blank: Option<String>,
    widest: Option<u32>,
    bins: Option<u32>,
    degrees_per_bin: Option<f32>,
    has_features: Option<bool>,
    threshold: Option<f32>,
    deviation: Option<f32>,
    frames: Option<u32>,
    fps: Option<f32>,
    order: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNms {
    iou: f32,
    class_agnostic: bool,
}

fn one() -> f32 {
    1.0
}

fn ones() -> [f32; 3] {
    [1.0; 3]
}

/// Largest input side, in pixels. A tensor of this size squared is 200 MB, which no small machine has to spare.
const MAX_SIDE: u32 = 4096;
const MAX_LABELS: usize = 10_000;
/// Frames of one run; published networks take 8 to 32.
const MAX_FRAMES: u32 = 64;
/// Largest run of frames, in pixels of the input: 64 frames of 512 by 512, whose tensor takes 200 MB.
const MAX_RUN: u64 = 64 * 512 * 512;
/// More tensors than any published pair of networks hands on; SAM 2 has three.
const MAX_FEATURES: usize = 8;
/// Longest name of a class, or of what a model stands for, in characters.
const MAX_NAME: usize = 64;
/// What a models folder calls its own files.
const OWN_ENDINGS: [&str; 5] = [".toml", ".sha256", ".part", ".etag", ".adding"];
/// More than the largest published readers know, Chinese ones with 18,000.
const MAX_CHARACTERS: usize = 32_000;
const UNIT: &str = "0.0 to 1.0";
/// Prototypes of the published segmentation networks.
const USUAL_COEFFICIENTS: u32 = 32;
/// Tokens of CLIP's vocabulary, for all its sizes.
const USUAL_TOKENS: u16 = 49_408;
/// Every byte in the middle and at the end of a word, and the marks of beginning and end: without merges there are as many.
const LEAST_TOKENS: u16 = 514;

/// Largest manifest, in bytes: all the labels there may be, with long names.
const MAX_FILE: u64 = 1 << 20;

/// The text of a file that is not larger than `most` bytes.
pub(crate) fn read_small(file: &Path, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file)?;
    opened.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("it is larger than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    String::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

impl Manifest {
    /// Reads and checks a manifest. `file` only names it in errors.
    ///
    /// # Errors
    /// [`ManifestError`], naming file, key, value and what is allowed.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ManifestError> {
        let shape = |key: String, message: &str| ManifestError::Shape {
            file: file.to_owned(),
            key,
            message: message.lines().collect::<Vec<_>>().join(", "),
        };
        let toml = toml::Deserializer::parse(text).map_err(|e| {
            let at = e.span().map_or(String::new(), |span| {
                let before = text.get(..span.start).unwrap_or(text);
                format!("line {}: ", before.matches('\n').count() + 1)
            });
            shape(at, e.message())
        })?;
        let raw: RawManifest = serde_path_to_error::deserialize(toml).map_err(|e| {
            let path = e.path().to_string();
            let key = if path == "." {
                String::new()
            } else {
                format!("`{path}`: ")
            };
            shape(key, e.inner().message())
        })?;
        let mut faults = Faults::default();
        match check(raw, &mut faults) {
            Some(manifest) if faults.0.is_empty() => Ok(manifest),
            _ => Err(ManifestError::Values {
                file: file.to_owned(),
                faults,
            }),
        }
    }

    /// Reads and checks the manifest in a file.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn read(file: &Path) -> Result<Self, ManifestError> {
        let text = read_small(file, MAX_FILE).map_err(|source| ManifestError::Read {
            file: file.to_owned(),
            source,
        })?;
        Self::parse(file, &text)
    }
}

/// Whether this can name a model, and so a file: lower case letters, digits, `-`, `_` and inner dots.
#[must_use]
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && !text.starts_with(['.', '-'])
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b))
}

/// Every fault goes into `faults`; none is returned when a part could not be made at all.
fn check(raw: RawManifest, faults: &mut Faults) -> Option<Manifest> {
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

fn check_labels(
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

/// What makes scores of the numbers of classes.
fn class_scores(word: Option<&str>, faults: &mut Faults) -> Option<ClassScores> {
    faults.word(
        "decode.scores",
        word.unwrap_or("absent"),
        &[
            ("plain", ClassScores::Plain),
            ("softmax", ClassScores::Softmax),
            ("sigmoid", ClassScores::Sigmoid),
        ],
    )
}

fn check_decode(raw: RawDecode, faults: &mut Faults) -> Option<Decode> {
    #[derive(Clone, Copy)]
    enum Kind {
        Yolox,
        Yolov8,
        Yolov8Seg,
        Yolov8Pose,
        Classes,
        Nanodet,
        Detr,
        Embedding,
        Ctc,
        Segments,
        Depth,
        Gaze,
        Features,
        Anomaly,
        Actions,
    }
    let kind = faults.word(
        "decode.kind",
        &raw.kind,
        &[
            ("yolox", Kind::Yolox),
            ("yolov8", Kind::Yolov8),
            ("yolov8-seg", Kind::Yolov8Seg),
            ("yolov8-pose", Kind::Yolov8Pose),
            ("classes", Kind::Classes),
            ("nanodet", Kind::Nanodet),
            ("detr", Kind::Detr),
            ("embedding", Kind::Embedding),
            ("ctc", Kind::Ctc),
            ("segments", Kind::Segments),
            ("depth", Kind::Depth),
            ("gaze", Kind::Gaze),
            ("features", Kind::Features),
            ("anomaly", Kind::Anomaly),
            ("actions", Kind::Actions),
        ],
    )?;
    let given = [
        ("strides", raw.strides.is_some()),
        ("reg_max", raw.reg_max.is_some()),
        ("cell", raw.cell.is_some()),
        ("has_objectness", raw.has_objectness.is_some()),
        ("sigmoid", raw.sigmoid.is_some()),
        ("scores", raw.scores.is_some()),
        ("coefficients", raw.coefficients.is_some()),
        ("keypoints", raw.keypoints.is_some()),
        ("has_visibility", raw.has_visibility.is_some()),
        ("characters", raw.characters.is_some()),
        ("blank", raw.blank.is_some()),
        ("widest", raw.widest.is_some()),
        ("bins", raw.bins.is_some()),
        ("degrees_per_bin", raw.degrees_per_bin.is_some()),
        ("has_features", raw.has_features.is_some()),
        ("threshold", raw.threshold.is_some()),
        ("deviation", raw.deviation.is_some()),
        ("frames", raw.frames.is_some()),
        ("fps", raw.fps.is_some()),
        ("order", raw.order.is_some()),
    ];
    let used: &[&str] = match kind {
        Kind::Yolox => &["strides"],
        Kind::Yolov8 => &["has_objectness", "sigmoid"],
        Kind::Nanodet => &["strides", "reg_max", "cell", "sigmoid"],
        Kind::Yolov8Seg => &["coefficients"],
        Kind::Yolov8Pose => &["keypoints", "has_visibility"],
        Kind::Classes => &["scores", "has_features"],
        Kind::Detr | Kind::Segments => &["scores"],
        Kind::Anomaly => &["threshold", "deviation"],
        Kind::Actions => &["scores", "frames", "fps", "order"],
        Kind::Embedding | Kind::Depth | Kind::Features => &[],
        Kind::Ctc => &["characters", "blank", "scores", "widest"],
        Kind::Gaze => &["bins", "degrees_per_bin"],
    };
    for (key, _) in given
        .iter()
        .filter(|(k, given)| *given && !used.contains(k))
    {
        let allowed = match used {
            [] => format!("no such key for {}, which needs none", raw.kind),
            used => format!("no such key for {}, only {}", raw.kind, used.join(", ")),
        };
        faults.add(format!("decode.{key}"), "given", allowed);
    }
    let strides = raw.strides.unwrap_or_default();
    if used.contains(&"strides") {
        let good =
            (1..=8).contains(&strides.len()) && strides.iter().all(|s| (1..=256).contains(s));
        faults.need(
            good,
            "decode.strides",
            &strides,
            "1 to 8 of 1 to 256 pixels",
        );
    }
    let kind = match kind {
        Kind::Yolox => DecodeKind::Yolox { strides },
        Kind::Yolov8 => DecodeKind::Yolov8 {
            has_objectness: raw.has_objectness.unwrap_or(false),
            sigmoid: raw.sigmoid.unwrap_or(false),
        },
        Kind::Yolov8Seg => {
            let coefficients = raw.coefficients.unwrap_or(USUAL_COEFFICIENTS);
            faults.need(
                (1..=256).contains(&coefficients),
                "decode.coefficients",
                coefficients,
                "1 to 256",
            );
            DecodeKind::Yolov8Seg { coefficients }
        }
        Kind::Yolov8Pose => {
            let Some(names) = raw.keypoints else {
                faults.add(
                    "decode.keypoints",
                    "absent",
                    "the names of the points, or coco-17",
                );
                return None;
            };
            DecodeKind::Yolov8Pose {
                keypoints: check_labels("decode.keypoints", names, &labels::KEYPOINTS, faults)?,
                has_visibility: raw.has_visibility.unwrap_or(true),
            }
        }
        Kind::Classes => DecodeKind::Classes {
            scores: class_scores(raw.scores.as_deref(), faults)?,
            has_features: raw.has_features.unwrap_or(false),
        },
        Kind::Segments => DecodeKind::Segments {
            scores: class_scores(raw.scores.as_deref(), faults)?,
        },
        Kind::Embedding => DecodeKind::Embedding,
        Kind::Ctc => {
            let characters = raw.characters.unwrap_or_default();
            let number = characters.chars().count();
            let count = format!("{number} characters");
            faults.need(
                (1..=MAX_CHARACTERS).contains(&number),
                "decode.characters",
                DisplayOr(Some(count)),
                format!("1 to {MAX_CHARACTERS} characters in one text, in the order of the network's classes"),
            );
            if let Some(widest) = raw.widest {
                faults.need(
                    (1..=MAX_SIDE).contains(&widest),
                    "decode.widest",
                    widest,
                    format!("1 to {MAX_SIDE} pixels"),
                );
            }
            let blank = faults.word(
                "decode.blank",
                raw.blank.as_deref().unwrap_or("absent"),
                &[("first", Blank::First), ("last", Blank::Last)],
            );
            DecodeKind::Ctc {
                characters: characters
                    .chars()
                    .map(|c| Arc::from(c.to_string()))
                    .collect(),
                scores: class_scores(raw.scores.as_deref(), faults)?,
                blank: blank?,
                widest: raw.widest,
            }
        }
        Kind::Depth => DecodeKind::Depth,
        Kind::Gaze => {
            let (bins, degrees) = (raw.bins.unwrap_or(0), raw.degrees_per_bin.unwrap_or(0.0));
            faults.need(
                (2..=720).contains(&bins),
                "decode.bins",
                DisplayOr(raw.bins),
                "2 to 720",
            );
            faults.need(
                degrees > 0.0 && degrees * bins as f32 <= 360.0,
                "decode.degrees_per_bin",
                DisplayOr(raw.degrees_per_bin),
                "a number over 0 that makes no more than 360 degrees of all bins",
            );
            DecodeKind::Gaze {
                bins,
                degrees_per_bin: degrees,
            }
        }
        Kind::Features => {
            let tensors = raw.outputs.len();
            faults.need(
                (1..=MAX_FEATURES).contains(&tensors),
                "decode.outputs",
                &raw.outputs,
                format!("1 to {MAX_FEATURES} names, under which the network of masks takes them"),
            );
            DecodeKind::Features { tensors }
        }
        Kind::Anomaly => {
            let threshold = raw.threshold.unwrap_or(f32::NAN);
            faults.need(
                threshold.is_finite(),
                "decode.threshold",
                DisplayOr(raw.threshold),
                "the score from which on a picture is unusual",
            );
            let deviation = raw.deviation.unwrap_or(1.0);
            faults.need(
                deviation.is_finite() && deviation > 0.0,
                "decode.deviation",
                deviation,
                "a number over 0: by how much a score over the threshold is rather sure",
            );
            DecodeKind::Anomaly {
                threshold,
                deviation,
            }
        }
        Kind::Actions => {
            let (frames, fps) = (raw.frames.unwrap_or(0), raw.fps.unwrap_or(0.0));
            faults.need(
                (2..=MAX_FRAMES).contains(&frames),
                "decode.frames",
                DisplayOr(raw.frames),
                format!("2 to {MAX_FRAMES}"),
            );
            faults.need(
                fps.is_finite() && (0.1..=60.0).contains(&fps),
                "decode.fps",
                DisplayOr(raw.fps),
                "0.1 to 60.0 frames a second",
            );
            let order = faults.word(
                "decode.order",
                raw.order.as_deref().unwrap_or("absent"),
                &[
                    ("frames-first", FrameOrder::FramesFirst),
                    ("channels-first", FrameOrder::ChannelsFirst),
                ],
            );
            DecodeKind::Actions {
                scores: class_scores(raw.scores.as_deref(), faults)?,
                frames,
                fps,
                order: order?,
            }
        }
        Kind::Nanodet => {
            let reg_max = raw.reg_max.unwrap_or(0);
            faults.need(
                (1..=64).contains(&reg_max),
                "decode.reg_max",
                DisplayOr(raw.reg_max),
                "1 to 64",
            );
            let cell = faults.word(
                "decode.cell",
                raw.cell.as_deref().unwrap_or("absent"),
                &[
                    ("corner", CellPoint::Corner),
                    ("pixel-centre", CellPoint::PixelCentre),
                    ("cell-centre", CellPoint::CellCentre),
                ],
            );
            DecodeKind::Nanodet {
                strides,
                reg_max,
                cell: cell?,
                sigmoid: raw.sigmoid.unwrap_or(false),
            }
        }
        Kind::Detr => DecodeKind::Detr {
            scores: faults.word(
                "decode.scores",
                raw.scores.as_deref().unwrap_or("absent"),
                &[
                    ("sigmoid", DetrScores::Sigmoid),
                    ("softmax", DetrScores::Softmax),
                ],
            )?,
        },
    };
    let wanted = kind.tensors();
    faults.need(
        raw.outputs.is_empty() || raw.outputs.len() == wanted,
        "decode.outputs",
        &raw.outputs,
        format!("{wanted} names, or none for the file's own order"),
    );
    Some(Decode {
        kind,
        outputs: raw.outputs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = include_str!("../zoo/yolox-nano.toml");

    fn refused(text: &str) -> String {
        Manifest::parse(Path::new("m.toml"), text)
            .expect_err("must be refused")
            .to_string()
    }

    #[test]
    fn unknown_key_is_refused_with_its_neighbours() {
        let message = refused(&GOOD.replace("width = 416", "widht = 416"));
        assert!(message.starts_with("m.toml: "), "{message}");
        assert!(
            message.contains("widht") && message.contains("width"),
            "{message}"
        );
    }

    #[test]
    fn every_wrong_value_is_named_at_once_with_what_is_allowed() {
        let message = refused(
            &GOOD
                .replace("\"nchw\"", "\"chw\"")
                .replace("iou = 0.45", "iou = 45")
                .replace("labels = \"coco-80\"", "labels = \"coco\"")
                .replace("pad = 114", "pad = 300"),
        );
        for part in [
            "`input.layout` is \"chw\", allowed: nchw, nhwc",
            "`nms.iou` is 45.0, allowed: 0.0 to 1.0",
            "`labels` is \"coco\", allowed: coco-80, coco-91, or a list of names",
            "`input.pad` is 300, allowed: 0 to 255",
        ] {
            assert!(message.contains(part), "{part} missing in {message}");
        }
    }

    #[test]
    fn wrong_type_names_its_key() {
        let message = refused(&GOOD.replace("width = 416", "width = \"wide\""));
        assert!(message.contains("`input.width`"), "{message}");
    }

    #[test]
    fn example_in_the_readme_is_accepted() {
        let readme = include_str!("../README.md");
        let block = readme
            .split("```")
            .find_map(|part| part.strip_prefix("toml\n"));
        let text = block
            .expect("the readme has an example")
            .replace("…64 hexadecimal digits…", &"0".repeat(64));
        let manifest = Manifest::parse(Path::new("README.md"), &text).expect("a good example");
        assert_eq!(manifest.labels.len(), 2);
    }

    #[test]
    fn names_of_classes_are_plain_and_each_is_there_once() {
        let named =
            |names: &str| GOOD.replace("labels = \"coco-80\"", &format!("labels = {names}"));
        let good = named(&format!(
            "[\"car\", \"Größe\", \"{}\"]",
            "x".repeat(MAX_NAME)
        ));
        assert!(Manifest::parse(Path::new("m.toml"), &good).is_ok());
        let long = format!("[\"{}\"]", "x".repeat(MAX_NAME + 1));
        for (names, key, told) in [
            ("[\"car\", \"\"]", "`labels[1]`", "1 to 64 characters"),
            ("[\"a\\nb\"]", "`labels[0]`", "control character"),
            ("[\"\\u001b[2Jcar\"]", "`labels[0]`", "control character"),
            (&*long, "`labels[0]`", "1 to 64 characters"),
            (
                "[\"car\", \"bus\", \"car\"]",
                "`labels[2]`",
                "labels[0] has that one",
            ),
        ] {
            let message = refused(&named(names));
            assert!(
                message.contains(key) && message.contains(told),
                "{names}: {message}"
            );
        }
    }

    #[test]
    fn a_file_of_a_model_is_not_called_as_those_are_by_which_the_folder_is_kept() {
        let clip = include_str!("../zoo/clip-vit-b-32.toml");
        for name in [
            "yolox-nano.toml",
            "yolox-nano.onnx.sha256",
            "a.onnx.PART",
            "a.etag",
        ] {
            let message = refused(&clip.replace("bpe_simple_vocab_16e6.txt.gz", name));
            assert!(
                message.contains("`text.vocabulary.file`") && message.contains("does not end in"),
                "{name}: {message}"
            );
        }
    }

    #[test]
    fn broken_toml_names_its_line() {
        let message = refused("name = \"a\"\ntask = \n");
        assert!(message.contains("line 2"), "{message}");
    }

    #[test]
    fn key_of_another_family_is_refused() {
        let message = refused(&GOOD.replace("strides = [8, 16, 32]", "strides = [8]\nreg_max = 7"));
        assert!(
            message.contains("`decode.reg_max`") && message.contains("yolox"),
            "{message}"
        );
    }

    #[test]
    fn task_and_layout_have_to_agree() {
        let seg = include_str!("../zoo/yolov8n-seg.toml");
        let message = refused(&seg.replace("instance-segmentation", "classification"));
        assert!(
            message.contains("`task`") && message.contains("instance-segmentation"),
            "{message}"
        );
        let pose = include_str!("../zoo/yolov8n-pose.toml");
        let message = refused(&pose.replace("\"coco-17\"", "\"coco-80\""));
        assert!(
            message.contains("`decode.keypoints`") && message.contains("coco-17"),
            "{message}"
        );
    }

    #[test]
    fn what_a_model_has_besides_its_network_is_checked_with_it() {
        let clip = include_str!("../zoo/clip-vit-b-32.toml");
        let good = Manifest::parse(Path::new("clip.toml"), clip).expect("a good manifest");
        let parts: Vec<_> = good.parts().map(|part| part.file.as_str()).collect();
        assert_eq!(
            parts,
            ["clip-vit-b-32-text.onnx", "bpe_simple_vocab_16e6.txt.gz"]
        );
        assert_eq!(good.stands_for, ["clip/ViT-B-32"]);
        for (from, to, key, told) in [
            (
                "bpe_simple",
                "../bpe_simple",
                "`text.vocabulary.file`",
                "in the same folder",
            ),
            (
                "context = 77",
                "context = 2",
                "`text.context`",
                "3 to 512 tokens",
            ),
            (
                "fill = \"end\"",
                "fill = \"stop\"",
                "`text.fill`",
                "zero, end",
            ),
            (
                ", sha256 = \"924691ac",
                ", sha256 = \"x",
                "`text.vocabulary.sha256`",
                "64 hexadecimal digits",
            ),
            (
                "task = \"image-text",
                "task = \"image",
                "`task`",
                "image-text-embedding",
            ),
            (
                "kind = \"embedding\"\noutputs = [\"image_embeds\"]",
                "kind = \"depth\"",
                "`text`",
                "no such part",
            ),
            (
                "[licence]",
                "labels = [\"a\"]\n[licence]",
                "`labels`",
                "it knows no classes",
            ),
            (
                "[licence]",
                "confidence = 0.5\n[licence]",
                "`confidence`",
                "has no scores",
            ),
            (
                "stands_for = [\"clip/ViT-B-32\"]",
                "stands_for = [\"\"]",
                "`stands_for[0]`",
                "as a step names it",
            ),
        ] {
            let message = refused(&clip.replacen(from, to, 1));
            assert!(
                message.contains(key) && message.contains(told),
                "{to}: {message}"
            );
        }
        let without = clip.replace(
            ", sha256 = \"924691ac288e54409236115652ad4aa250f48203de50a9e4722a6ecd48d6804a\"",
            "",
        );
        let message = refused(&without);
        assert!(
            message.contains("`text.vocabulary.sha256` is absent"),
            "{message}"
        );
    }

    #[test]
    fn a_reader_says_what_it_reads_and_what_finds_its_lines() {
        let ocr = include_str!("../zoo/pp-ocr-v4.toml");
        let good = Manifest::parse(Path::new("ocr.toml"), ocr).expect("a good manifest");
        let DecodeKind::Ctc { characters, .. } = &good.decode.kind else {
            panic!("{:?}", good.decode.kind);
        };
        assert_eq!((characters.len(), &*characters[6623]), (6624, " "));
        for (from, to, key) in [
            ("blank = \"first\"", "blank = \"none\"", "`decode.blank`"),
            ("widest = 1600", "widest = 100000", "`decode.widest`"),
            ("threshold = 0.3", "threshold = 30.0", "`lines.threshold`"),
            ("unclip = 1.6", "unclip = -1.0", "`lines.unclip`"),
            ("width = 736", "width = 0", "`lines.input.width`"),
            ("widest = 1920", "widest = 700", "`lines.widest`"),
            ("file = \"ch_PP", "file = \"/etc/ch_PP", "`lines.file`"),
            ("confidence = 0.5\nstands", "stands", "`confidence`"),
        ] {
            let message = refused(&ocr.replacen(from, to, 1));
            assert!(message.contains(key), "{to}: {message}");
        }
        let start = ocr.find("characters").unwrap_or_default();
        let end = ocr.find("# Finds lines").unwrap_or_default();
        let without = format!("{}{}", &ocr[..start], &ocr[end..]);
        assert!(refused(&without).contains("`decode.characters`"));
    }

    #[test]
    fn what_a_network_of_runs_of_frames_needs_is_bounded() {
        let run = "name = \"moves\"\ntask = \"action-recognition\"\nconfidence = 0.5\nlabels = [\"wave\", \"fall\"]\n[input]\nwidth = 224\n\
                   height = 224\nlayout = \"nchw\"\ncolour = \"rgb\"\ndtype = \"f32\"\nfit = \"stretch\"\n[decode]\nkind = \"actions\"\n\
                   scores = \"softmax\"\nframes = 16\nfps = 4.0\norder = \"channels-first\"\n";
        assert!(Manifest::parse(Path::new("m.toml"), run).is_ok());
        for (from, to, key) in [
            ("frames = 16", "frames = 1", "`decode.frames`"),
            ("224", "1025", "`decode.frames`"),
            ("fps = 4.0", "fps = 0.0", "`decode.fps`"),
            (
                "order = \"channels-first\"",
                "order = \"last\"",
                "`decode.order`",
            ),
            ("\"nchw\"", "\"nhwc\"", "`decode.order`"),
        ] {
            let message = refused(&run.replace(from, to));
            assert!(message.contains(key), "{to}: {message}");
        }
    }

    #[test]
    fn what_is_unusual_needs_a_threshold() {
        let odd = "name = \"odd\"\ntask = \"anomaly-detection\"\n[input]\nwidth = 256\nheight = 256\nlayout = \"nchw\"\ncolour = \"rgb\"\n\
                   dtype = \"f32\"\nfit = \"stretch\"\n[decode]\nkind = \"anomaly\"\nthreshold = 0.5\n";
        let good = Manifest::parse(Path::new("m.toml"), odd).expect("a good manifest");
        let wanted = DecodeKind::Anomaly {
            threshold: 0.5,
            deviation: 1.0,
        };
        assert_eq!(good.decode.kind, wanted);
        assert!(
            refused(&odd.replace("threshold = 0.5", "")).contains("`decode.threshold` is absent")
        );
        assert!(refused(&format!("{odd}deviation = 0.0\n")).contains("`decode.deviation`"));
        assert!(refused(&odd.replace("stretch", "crop")).contains("every pixel"));
    }

    #[test]
    fn what_sees_for_masks_names_what_it_hands_on_and_what_makes_them() {
        let sam = include_str!("../zoo/sam2-hiera-tiny.toml");
        let good = Manifest::parse(Path::new("sam.toml"), sam).expect("a good manifest");
        assert_eq!(good.decode.kind, DecodeKind::Features { tensors: 3 });
        let parts: Vec<_> = good.parts().map(|part| part.file.as_str()).collect();
        assert_eq!(parts, ["sam2-hiera-tiny-masks.onnx"]);
        for (from, to, key) in [
            ("cover = \"input\"", "cover = \"all\"", "`masks.cover`"),
            ("\"masks\", ", "", "`masks.outputs`"),
            ("file = \"sam2", "file = \"../sam2", "`masks.file`"),
            ("fit = \"stretch\"", "fit = \"crop\"", "`input.fit`"),
            (
                "outputs = [\"high_res_feats_0\", \"high_res_feats_1\", \"image_embed\"]",
                "",
                "`decode.outputs`",
            ),
        ] {
            let message = refused(&sam.replacen(from, to, 1));
            assert!(message.contains(key), "{to}: {message}");
        }
        let (alone, masks) = sam.split_once("[masks]").unwrap_or_default();
        assert!(refused(alone).contains("`masks` is absent"));
        let elsewhere = refused(&format!("{GOOD}\n[masks]{masks}"));
        assert!(elsewhere.contains("layout features"), "{elsewhere}");
    }

    #[test]
    fn what_says_something_of_every_pixel_sees_every_pixel() {
        let map = GOOD
            .replace("object-detection", "semantic-segmentation")
            .replace(
                "kind = \"yolox\"\nstrides = [8, 16, 32]",
                "kind = \"segments\"\nscores = \"softmax\"",
            );
        let cut = map
            .replace("fit = \"letterbox\"", "fit = \"crop\"")
            .replace("placement = \"top-left\"\n", "")
            .replace("pad = 114\n", "");
        let message = refused(&cut);
        assert!(
            message.contains("something is said of every pixel"),
            "{message}"
        );
    }

    #[test]
    fn a_name_can_never_leave_its_folder() {
        for bad in [
            "",
            "../x",
            "a/b",
            ".hidden",
            "UPPER",
            "a b",
            &"a".repeat(65),
        ] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(is_name("rf-detr_nano.v2"));
    }
}
