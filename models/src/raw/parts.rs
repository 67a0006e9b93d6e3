//! Checks the files of a model: its network, and the networks and vocabularies beside it.

use crate::manifest::{Cover, Fill, LineNetwork, MaskNetwork, ModelFile, Part, Task, TextNetwork};

use super::error::{DisplayOrAbsent, FieldErrors};
use super::input::{MAX_SIDE, check_input};
use super::shape::{RawLines, RawMasks, RawText};

/// Endings of the models folder's own files.
const OWN_ENDINGS: [&str; 6] = [".toml", ".sha256", ".part", ".etag", ".adding", ".tmp"];
/// Tokens of CLIP's vocabulary, in all its sizes.
const USUAL_TOKENS: u16 = 49_408;
/// Every byte within and at the end of a word, and the marks of beginning and end: the tokens
/// without merges.
const MIN_TOKENS: u16 = 514;
/// Range of likelihoods, as an error shows it.
pub(super) const UNIT: &str = "0.0 to 1.0";

pub(super) fn check_text(
    raw: RawText,
    task: Option<Task>,
    errors: &mut FieldErrors,
) -> Option<TextNetwork> {
    if let Some(task) = task
        && !matches!(task, Task::ImageTextEmbedding | Task::ZeroShotDetection)
    {
        errors.push(
            "text",
            DisplayOrAbsent(Some("given")),
            "only with a network of layout embedding, yolov8 or detr",
        );
        return None;
    }
    errors.require(
        raw.inputs.len() <= 2,
        "text.inputs",
        &raw.inputs,
        "the input for tokens, and the mask of real tokens",
    );
    errors.require(
        (3..=512).contains(&raw.context),
        "text.context",
        raw.context,
        "3 to 512 tokens",
    );
    let tokens = raw.tokens.unwrap_or(USUAL_TOKENS);
    errors.require(
        tokens >= MIN_TOKENS,
        "text.tokens",
        tokens,
        format!("{MIN_TOKENS} to 65535"),
    );
    let fill = raw.fill.as_deref().unwrap_or("zero");
    let fill = errors.choose(
        "text.fill",
        fill,
        &[("zero", Fill::Zero), ("end", Fill::End)],
    );
    Some(TextNetwork {
        part: check_part(
            "text",
            Part {
                file: raw.file,
                sha256: raw.sha256,
                bytes: raw.bytes,
                url: raw.url,
            },
            errors,
        ),
        inputs: raw.inputs,
        outputs: raw.output.into_iter().collect(),
        context: raw.context,
        fill: fill?,
        vocabulary: check_vocabulary(raw.vocabulary, errors),
        tokens,
    })
}

fn check_vocabulary(raw: Part, errors: &mut FieldErrors) -> Part {
    if raw.sha256.is_none() {
        errors.push(
            "text.vocabulary.sha256",
            DisplayOrAbsent(None::<&str>),
            "64 hexadecimal digits: embeddings depend on the exact vocabulary",
        );
    }
    check_part("text.vocabulary", raw, errors)
}

pub(super) fn check_lines(
    raw: RawLines,
    task: Option<Task>,
    errors: &mut FieldErrors,
) -> Option<LineNetwork> {
    if let Some(task) = task
        && task != Task::TextReading
    {
        errors.push(
            "lines",
            DisplayOrAbsent(Some("given")),
            "only with a network of layout ctc",
        );
        return None;
    }
    for (key, value) in [
        ("lines.threshold", raw.threshold),
        ("lines.confidence", raw.confidence),
    ] {
        errors.require((0.0..=1.0).contains(&value), key, value, UNIT);
    }
    errors.require(
        (0.0..=4.0).contains(&raw.unclip),
        "lines.unclip",
        raw.unclip,
        "0.0 to 4.0",
    );
    let input = check_input("lines.input", &raw.input, errors)?;
    if let Some(widest) = raw.widest {
        let least = input.width.max(input.height);
        errors.require(
            (least..=MAX_SIDE).contains(&widest),
            "lines.widest",
            widest,
            format!("{least} to {MAX_SIDE} pixels, as its input has {least}"),
        );
    }
    Some(LineNetwork {
        part: check_part(
            "lines",
            Part {
                file: raw.file,
                sha256: raw.sha256,
                bytes: raw.bytes,
                url: raw.url,
            },
            errors,
        ),
        input,
        widest: raw.widest,
        outputs: raw.output.into_iter().collect(),
        threshold: raw.threshold,
        confidence: raw.confidence,
        unclip: raw.unclip,
    })
}

/// Reads the network that makes masks; a model of features is useless without.
pub(super) fn check_masks(
    raw: Option<RawMasks>,
    task: Option<Task>,
    errors: &mut FieldErrors,
) -> Option<MaskNetwork> {
    let makes_masks = task == Some(Task::PromptedSegmentation);
    let Some(raw) = raw else {
        if makes_masks {
            errors.push(
                "masks",
                DisplayOrAbsent(None::<&str>),
                "the network that makes masks; layout features needs it",
            );
        }
        return None;
    };
    if task.is_some() && !makes_masks {
        errors.push(
            "masks",
            DisplayOrAbsent(Some("given")),
            "only with a network of layout features",
        );
        return None;
    }
    errors.require(
        raw.outputs.is_empty() || raw.outputs.len() == 2,
        "masks.outputs",
        &raw.outputs,
        "the names of the masks and of their quality, or none for the file's own order",
    );
    let cover = errors.choose(
        "masks.cover",
        &raw.cover,
        &[("input", Cover::Input), ("picture", Cover::Picture)],
    );
    Some(MaskNetwork {
        part: check_part(
            "masks",
            Part {
                file: raw.file,
                sha256: raw.sha256,
                bytes: raw.bytes,
                url: raw.url,
            },
            errors,
        ),
        outputs: raw.outputs,
        cover: cover?,
    })
}

pub(super) fn check_files(files: &[ModelFile], errors: &mut FieldErrors) {
    for (i, file) in files.iter().enumerate() {
        let key = format!("file[{i}].url");
        match &file.url {
            Some(text) => check_url(&key, text, errors),
            None if file.sha256.is_none() => {
                let absent = DisplayOrAbsent(None::<&str>);
                errors.push(key, absent, "a url, a sha256 or both");
            }
            None => {}
        }
    }
}

/// Checks a file beside the network's. Its name is never a path, so a manifest reaches nothing
/// outside its folder.
fn check_part(key: &str, part: Part, errors: &mut FieldErrors) -> Part {
    let file = &part.file;
    let good = (1..=128).contains(&file.len())
        && !file.starts_with('.')
        && file
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    errors.require(
        good,
        &format!("{key}.file"),
        file,
        "the name of a file in the same folder: 1 to 128 of letters, digits, `-`, `_` and `.`",
    );
    let lower = file.to_ascii_lowercase();
    errors.require(
        !OWN_ENDINGS.iter().any(|ending| lower.ends_with(ending)),
        &format!("{key}.file"),
        file,
        format!(
            "a name that does not end in {}, which the folder's own files have",
            OWN_ENDINGS.join(", ")
        ),
    );
    if let Some(url) = &part.url {
        check_url(&format!("{key}.url"), url, errors);
    }
    part
}

pub(super) fn check_url(key: &str, text: &str, errors: &mut FieldErrors) {
    let good =
        url::Url::parse(text).is_ok_and(|u| matches!(u.scheme(), "https" | "http") && u.has_host());
    errors.require(good, key, text, "an http or https address");
}
