//! Commands about workflows and blocks.
//!
//! - They use the engine itself and need no running runtime.
//! - `workflow run` alone starts `watchkeeper-runtime`, since it loads networks.
//! - A definition that can't be parsed has a report like an invalid one.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use watchkeeper_config::bounded;
use watchkeeper_contract::workflow::{BlockDetails, ValidateReport, WorkflowError};
use watchkeeper_engine::workflow::replay::{self, Recording};
use watchkeeper_engine::workflow::{
    AcceptedForm, accepted_forms, catalogue, compile, details, nearest_block, validate,
    why_unsupported,
};

use super::args::Global;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::runtime_program::{self, PROGRAM};
use super::user_file::unread;

/// Maximum bytes of a recording of detections: hours of a busy street.
const MAX_RECORDING_BYTES: u64 = 256 << 20;

/// `watchkeeper workflow validate`: prints one [`ValidateReport`], also for an invalid definition.
pub(super) fn check(file: &Path, out: &Output) -> Result<(), Failure> {
    let report = match bounded::read(file) {
        Ok(text) => match serde_json::from_str(&text) {
            Ok(definition) => validate(&definition),
            Err(e) => syntax_error(format!(
                "the file is not JSON ({e}); save the workflow as JSON, as Roboflow exports it"
            )),
        },
        Err(e) if matches!(e.kind(), ErrorKind::InvalidData | ErrorKind::FileTooLarge) => {
            syntax_error(e.to_string())
        }
        Err(e) => return Err(unread(file)(e)),
    };
    out.object(&report);
    if report.ok {
        let (steps, outputs) = (report.steps.len(), report.outputs.len());
        out.line(format!(
            "{} compiles: {steps} steps, {outputs} outputs",
            file.display()
        ));
        for warning in &report.warnings {
            let nearest = warning.nearest.as_ref();
            let suggestion = nearest
                .map(|n| format!("; did you mean {n}?"))
                .unwrap_or_default();
            out.line(format!("note: {}{suggestion}", warning.message));
        }
        return Ok(());
    }
    let sentence = format!("{} does not compile", file.display());
    let lines = report.errors.iter().map(ToString::to_string);
    Err(Failure::input(sentence).with(lines))
}

/// `watchkeeper workflow run`: starts `watchkeeper-runtime`, which loads networks and prints the
/// result.
pub(super) fn run(
    file: &Path,
    images: &[PathBuf],
    params: &[String],
    detector: Option<&str>,
    global: &Global,
    out: &Output,
) -> Result<(), Failure> {
    for path in images.iter().map(PathBuf::as_path).chain([file]) {
        std::fs::File::open(path).map_err(unread(path))?;
    }
    let mut command = runtime_program::command(global)?;
    command.arg("workflow-run").arg(file);
    for image in images {
        command.arg("--image").arg(image);
    }
    for param in params {
        command.arg("--param").arg(param);
    }
    if let Some(detector) = detector {
        command.arg("--detector").arg(detector);
    }
    if global.json {
        command.arg("--json");
    }
    let status = command.status();
    let status =
        status.map_err(|e| Failure::new(Exit::NoRuntime, format!("can't start {PROGRAM}: {e}")))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(1) => {
            out.set_has_result();
            Err(Failure::failed("a step failed"))
        }
        Some(2) => {
            let sentence = format!("{} was not run, for the reason above", file.display());
            Err(Failure::input(sentence))
        }
        _ => Err(Failure::failed(format!("{PROGRAM} ended with {status}"))),
    }
}

/// `watchkeeper workflow replay`: prints a line per frame, or one JSON list with an object per
/// frame.
pub(super) fn replay(
    file: &Path,
    detections: &Path,
    outputs: bool,
    out: &Output,
) -> Result<(), Failure> {
    let text = bounded::read(file).map_err(unread(file))?;
    let definition: serde_json::Value = serde_json::from_str(&text).map_err(unread(file))?;
    let recording = bounded::read_up_to(detections, MAX_RECORDING_BYTES);
    let recording = recording.map_err(unread(detections))?;
    let recording =
        Recording::read(bounded::without_mark(&recording)).map_err(unread(detections))?;
    let sentence = || format!("{} does not compile", file.display());
    let compiled = compile(&definition, &BTreeMap::new()).map_err(|errors| {
        Failure::input(sentence()).with(errors.iter().map(ToString::to_string))
    })?;
    let replay = replay::replay(&compiled, &recording, outputs)
        .map_err(|error| Failure::input(error.to_string()))?;
    out.object(&replay.frames);
    for frame in &replay.frames {
        out.line(frame.to_string());
    }
    if let Some((frame, failure)) = replay.failures.first() {
        let sentence = format!(
            "step {} failed in frame {frame} ({} failures in total): {}",
            failure.step,
            replay.failures.len(),
            failure.message
        );
        return Err(Failure::failed(sentence));
    }
    Ok(())
}

/// Reports a file that can't be parsed, with the engine's class for it.
fn syntax_error(message: String) -> ValidateReport {
    ValidateReport {
        ok: false,
        errors: vec![WorkflowError {
            class: "WorkflowSyntaxError".to_owned(),
            step: None,
            property: None,
            message,
            allowed: Vec::new(),
            nearest: None,
        }],
        ..ValidateReport::default()
    }
}

/// Finds a block by type; a type without a version is its latest.
fn find(wanted: &str) -> Option<BlockDetails> {
    details(wanted).or_else(|| {
        if wanted.contains('@') {
            return None;
        }
        let is_full = wanted.contains('/');
        let versions = catalogue().into_iter().filter_map(|block| {
            let (base, version) = block.r#type.split_once("@v")?;
            let own = base.rsplit('/').next().unwrap_or(base);
            let found = if is_full { base } else { own };
            (found == wanted).then(|| Some((version.parse::<u32>().ok()?, block.r#type.clone())))?
        });
        let (_, latest) = versions.max()?;
        details(&latest)
    })
}

/// `watchkeeper blocks`: lists all blocks, or describes one.
pub(super) fn blocks(block: Option<&str>, out: &Output) -> Result<(), Failure> {
    match block {
        None => list_blocks(out),
        Some(wanted) => {
            let found = find(wanted).ok_or_else(|| unknown_block(wanted))?;
            out.object(&found);
            describe_block(&found, out);
        }
    }
    Ok(())
}

fn list_blocks(out: &Output) {
    let blocks = catalogue();
    blocks.iter().for_each(|block| out.object(block));
    let rows = blocks.iter().map(|block| {
        vec![
            block.r#type.clone(),
            block.category.clone(),
            block.summary.clone(),
        ]
    });
    out.table(&["block", "category", "what it does"], rows);
}

fn unknown_block(wanted: &str) -> Failure {
    if let Some(why) = why_unsupported(wanted) {
        let nearest = why
            .nearest
            .map(|name| format!("; the nearest supported block is {name}"))
            .unwrap_or_default();
        let reason = why.reason;
        return Failure::input(format!(
            "block {wanted:?} is not supported because it {reason}{nearest}"
        ));
    }
    let nearest = nearest_block(wanted)
        .map(|name| format!("; did you mean {name}?"))
        .unwrap_or_default();
    Failure::input(format!("unknown block {wanted:?}{nearest}"))
}

/// Prints a block with its properties and outputs.
fn describe_block(block: &BlockDetails, out: &Output) {
    out.line(format!(
        "{}: {}",
        block.summary.r#type, block.summary.summary
    ));
    if !block.summary.aliases.is_empty() {
        out.line(format!("aliases: {}", block.summary.aliases.join(", ")));
    }
    let required = block.schema["required"].as_array();
    let is_required =
        |name: &str| required.is_some_and(|r| r.iter().any(|n| n.as_str() == Some(name)));
    let properties = block.schema["properties"].as_object().into_iter().flatten();
    let rows = properties.map(|(name, schema)| {
        let default = match schema.get("default") {
            Some(default) => default.to_string(),
            None if is_required(name) => "required".to_owned(),
            None => String::new(),
        };
        let meaning = schema["description"].as_str().unwrap_or_default();
        vec![
            name.clone(),
            default,
            meaning.to_owned(),
            accepted_values(schema),
        ]
    });
    out.line("");
    out.table(&["property", "default", "meaning", "value"], rows);
    let outputs = block
        .outputs
        .iter()
        .map(|(name, kinds)| vec![name.clone(), kinds.join(", ")]);
    out.line("");
    out.table(&["output", "kinds"], outputs);
}

/// Describes the values that a property of this schema accepts.
fn accepted_values(schema: &serde_json::Value) -> String {
    let word = |way| match way {
        AcceptedForm::Selector(kinds) => format!("a selector of {}", kinds.join(", ")),
        AcceptedForm::OneOf(choices) => choices.join(", "),
        AcceptedForm::Literal(said) => said,
    };
    let words: Vec<String> = accepted_forms(schema).into_iter().map(word).collect();
    words.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_file_is_refused_with_the_limit() {
        let out = Output::new(false);
        let endless = Path::new("/dev/zero");
        let failure = check(endless, &out).expect_err("it has no end");
        assert!(failure.sentence.contains("/dev/zero"), "{failure:?}");
        assert!(failure.details.concat().contains("4 MiB"), "{failure:?}");
        let folder = tempfile::tempdir().expect("a folder");
        let definition = folder.path().join("workflow.json");
        std::fs::write(&definition, "{}").expect("a file");
        let huge = folder.path().join("detections.json");
        let file = std::fs::File::create(&huge).expect("a file");
        file.set_len(MAX_RECORDING_BYTES + 1)
            .expect("a sparse file");
        let replayed = replay(&definition, &huge, false, &out).map_err(|failure| failure.sentence);
        let sentence = replayed.expect_err("it is too large");
        assert!(sentence.contains("256 MiB"), "{sentence}");
    }

    #[test]
    fn byte_order_mark_is_accepted_in_a_definition() {
        let out = Output::new(false);
        let folder = tempfile::tempdir().expect("a folder");
        let definition = folder.path().join("workflow.json");
        let written =
            b"\xef\xbb\xbf{\"version\": \"1.0\", \"inputs\": [], \"steps\": [], \"outputs\": []}";
        std::fs::write(&definition, written).expect("a file");
        check(&definition, &out)
            .map_err(|failure| failure.details)
            .expect("it compiles");
    }

    #[test]
    fn unsupported_block_is_refused_with_the_reason() {
        let described = blocks(Some("roboflow_core/google_gemini@v1"), &Output::new(false));
        let sentence = described.expect_err("not supported").sentence;
        assert!(
            sentence.contains("because it needs a hosted vision-language model"),
            "{sentence}"
        );
    }

    #[test]
    fn block_without_a_version_is_the_latest() {
        let found = |wanted| find(wanted).map(|block| block.summary.r#type);
        let latest = Some("roboflow_core/line_counter@v2".to_owned());
        assert_eq!(found("roboflow_core/line_counter"), latest);
        assert_eq!(found("line_counter"), latest);
        assert_eq!(found("line_countr"), None);
    }
}
