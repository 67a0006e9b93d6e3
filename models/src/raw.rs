//! Manifests as written in TOML, and the check that makes a [`Manifest`] of them.
//!
//! Two stages: the file's shape first (unknown keys are refused), then the values, all of them, so that one message names
//! everything there is to mend.

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::labels;
use crate::manifest::{
    CellPoint, ClassScores, ColourOrder, Decode, DecodeKind, DetrScores, Fit, Input, Layout,
    Licence, Manifest, ModelFile, Nms, Origin, Placement, Task,
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
    confidence: f32,
    labels: RawLabels,
    licence: Option<RawLicence>,
    origin: Option<RawOrigin>,
    #[serde(default)]
    file: Vec<RawFile>,
    input: RawInput,
    decode: RawDecode,
    nms: Option<RawNms>,
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
const UNIT: &str = "0.0 to 1.0";
/// Prototypes of the published segmentation networks.
const USUAL_COEFFICIENTS: u32 = 32;

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
    faults.need(
        (0.0..=1.0).contains(&raw.confidence),
        "confidence",
        raw.confidence,
        UNIT,
    );
    let labels = check_labels("labels", raw.labels, &labels::CLASSES, faults);
    let files = check_files(raw.file, faults);
    let input = check_input(&raw.input, faults);
    let decode = check_decode(raw.decode, faults);
    if let (Some(task), Some(decode)) = (task, &decode) {
        let done = decode.kind.task();
        faults.need(
            task == done,
            "task",
            task.name(),
            format!(
                "{}, which networks of layout {} do",
                done.name(),
                decode.kind.name()
            ),
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
        confidence: raw.confidence,
        labels: labels?,
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
            Some(names.iter().map(|n| Arc::from(n.as_str())).collect())
        }
    }
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
            let good = url::Url::parse(text)
                .is_ok_and(|u| matches!(u.scheme(), "https" | "http") && u.has_host());
            faults.need(good, &key("url"), text, "an http or https address");
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

fn check_input(raw: &RawInput, faults: &mut Faults) -> Option<Input> {
    for (key, side) in [("input.width", raw.width), ("input.height", raw.height)] {
        faults.need(
            (1..=MAX_SIDE).contains(&side),
            key,
            side,
            format!("1 to {MAX_SIDE} pixels"),
        );
    }
    faults.word("input.dtype", &raw.dtype, &[("f32", ())]);
    let finite = |v: &[f32]| v.iter().all(|x| x.is_finite());
    faults.need(
        raw.scale.is_finite() && raw.scale != 0.0,
        "input.scale",
        raw.scale,
        "a number other than 0",
    );
    faults.need(
        finite(&raw.mean),
        "input.mean",
        raw.mean,
        "three finite numbers",
    );
    faults.need(
        finite(&raw.std) && !raw.std.contains(&0.0),
        "input.std",
        raw.std,
        "three numbers other than 0",
    );
    let layout = faults.word(
        "input.layout",
        &raw.layout,
        &[("nchw", Layout::Nchw), ("nhwc", Layout::Nhwc)],
    );
    let colour = faults.word(
        "input.colour",
        &raw.colour,
        &[("bgr", ColourOrder::Bgr), ("rgb", ColourOrder::Rgb)],
    );
    let unboxed = faults.word(
        "input.fit",
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
            "input.fit",
            &raw.fit,
            "letterbox, as placement or pad is given",
        );
        fit
    } else {
        let placement = faults.word(
            "input.placement",
            raw.placement.as_deref().unwrap_or("absent"),
            &[
                ("top-left", Placement::TopLeft),
                ("centre", Placement::Centre),
            ],
        );
        let pad = raw.pad.and_then(|pad| u8::try_from(pad).ok());
        faults.need(pad.is_some(), "input.pad", DisplayOr(raw.pad), "0 to 255");
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
    ];
    let used: &[&str] = match kind {
        Kind::Yolox => &["strides"],
        Kind::Yolov8 => &["has_objectness", "sigmoid"],
        Kind::Nanodet => &["strides", "reg_max", "cell", "sigmoid"],
        Kind::Yolov8Seg => &["coefficients"],
        Kind::Yolov8Pose => &["keypoints", "has_visibility"],
        Kind::Detr | Kind::Classes => &["scores"],
    };
    for (key, _) in given
        .iter()
        .filter(|(k, given)| *given && !used.contains(k))
    {
        let allowed = format!("no such key for {}, only {}", raw.kind, used.join(", "));
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
            scores: faults.word(
                "decode.scores",
                raw.scores.as_deref().unwrap_or("absent"),
                &[
                    ("plain", ClassScores::Plain),
                    ("softmax", ClassScores::Softmax),
                    ("sigmoid", ClassScores::Sigmoid),
                ],
            )?,
        },
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
