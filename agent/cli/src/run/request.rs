//! Checks the flags of `run`: reads files, checks names, chooses the model.
//!
//! - Nothing is started before all flags are checked; a wrong one is wrong input (exit code 2).
//! - The engine checks a workflow here, as the runtime does later.
//! - Not here: the workflow that `--watch` and its like describe (`watchkeeper_engine::templates`).

use std::path::{Path, PathBuf};

use serde_json::Value;
use watchkeeper_config::address::Address;
use watchkeeper_config::bounded;
use watchkeeper_contract::problem::nearest_few;
use watchkeeper_contract::rule::RuleSpec;
use watchkeeper_contract::source::Pace;
use watchkeeper_engine::templates::annotate::with_drawing;
use watchkeeper_engine::templates::watch::{self as plan, Watch};
use watchkeeper_models::labels::MOVING;
use watchkeeper_models::{MOTION, PREFERRED, Zoo};
use watchkeeper_plain::Plain;

use crate::args::RunArgs;
use crate::backends::no_network;
use crate::exit::Failure;
use crate::user_file::folder_of;
use crate::watch::plain;

/// Value of `--watch` for every class of a model.
const ALL: &str = "all";
/// Most classes that an error suggests.
const MAX_NEAR: usize = 3;

/// Checked flags of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunRequest {
    /// Address of the source; the path of a file is absolute.
    pub(super) uri: String,
    /// The source is a file or folder on this machine.
    pub(super) is_local: bool,
    pub(super) pace: Pace,
    pub(super) tls_verify: bool,
    pub(super) workflow: Value,
    /// Model that replaces the workflow's.
    pub(super) model: Option<String>,
    /// Rules of `--rule`; without them the runtime derives rules from the workflow.
    pub(super) rules: Option<Vec<RuleSpec>>,
    /// Seconds of source time after which the run stops.
    pub(super) seconds: Option<f64>,
    /// Annotated video to write.
    pub(super) video: Option<PathBuf>,
    /// Shows the preview window.
    pub(super) show: bool,
    pub(super) keep_state: Option<PathBuf>,
    /// Notes to print before the start.
    pub(super) notes: Vec<String>,
}

impl RunRequest {
    /// Refuses the back end `named` where no network would run on it.
    ///
    /// # Errors
    /// [`Exit::BadInput`](crate::exit::Exit).
    pub(super) fn check_backend(&self, named: Option<&str>) -> Result<(), Failure> {
        let model = self.model.as_deref();
        let model = model.or_else(|| plan::named_model(&self.workflow));
        match named {
            Some(name) if model == Some(MOTION) => Err(no_network(name, "a network with --model")),
            _ => Ok(()),
        }
    }
}

/// Checks the flags.
///
/// # Errors
/// [`Exit::BadInput`](crate::exit::Exit).
pub(super) fn check(
    args: &RunArgs,
    zoo: &Zoo,
    default_model: Option<&str>,
) -> Result<RunRequest, Failure> {
    let mut notes = Vec::new();
    let (uri, is_local) = source(&args.source)?;
    let given = args.workflow.as_deref().map(read_workflow).transpose()?;
    let model = choose_model(args, zoo, default_model, given.as_ref(), &mut notes)?;
    let workflow = match given {
        Some(workflow) => with_drawing(workflow),
        None => build(args, &model, zoo, &mut notes)?,
    };
    let rules = match args.rule.as_slice() {
        [] => None,
        texts => Some(rules(texts)?),
    };
    if let Some(video) = &args.video {
        check_video(video)?;
    }
    if args.show {
        check_screen()?;
    }
    Ok(RunRequest {
        uri,
        is_local,
        pace: if args.native {
            Pace::Native
        } else {
            Pace::Fast
        },
        tls_verify: !args.no_tls_verify,
        workflow,
        model: model.and_then(|m| m.replacement),
        rules,
        seconds: args.seconds,
        video: args.video.clone(),
        show: args.show,
        keep_state: args.keep_state.clone(),
        notes,
    })
}

fn check_screen() -> Result<(), Failure> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if ["WAYLAND_DISPLAY", "DISPLAY"].iter().any(is_set) {
        return Ok(());
    }
    Err(Failure::input(
        "--show needs a screen, but neither WAYLAND_DISPLAY nor DISPLAY is set; write a file with --video OUT.mp4",
    ))
}

/// Returns the address, and whether it is a file or folder on this machine.
fn source(text: &str) -> Result<(String, bool), Failure> {
    let path = match Address::parse(text) {
        Ok(Address::Path(path)) => path,
        Err(_) if Path::new(text).exists() => PathBuf::from(text),
        Ok(_) => return Ok((text.to_owned(), false)),
        Err(e) => return Err(Failure::input(e.to_string())),
    };
    match std::fs::canonicalize(path) {
        Ok(path) if path.is_file() || path.is_dir() => Ok((path.display().to_string(), true)),
        // The node of a camera.
        Ok(_) => Ok((text.to_owned(), false)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(Failure::input(format!("no such file or folder: {text}")))
        }
        Err(e) => Err(Failure::input(format!("can't open {text}: {e}"))),
    }
}

/// Reads a definition and checks it with the engine, before any daemon starts.
fn read_workflow(path: &Path) -> Result<Value, Failure> {
    let shown = path.display();
    let text = bounded::read(path)
        .map_err(|e| Failure::input(format!("can't read the workflow {shown}: {e}")))?;
    let definition = serde_json::from_str(&text)
        .map_err(|e| Failure::input(format!("{shown} is not JSON: {e}")))?;
    let report = watchkeeper_engine::workflow::validate(&definition);
    if report.ok {
        return Ok(definition);
    }
    let lines = report.errors.iter().map(ToString::to_string);
    Err(Failure::input(format!("{shown} does not compile")).with(lines))
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Model {
    /// Name of its manifest, or `motion`.
    name: String,
    /// Name or path of the model that replaces the workflow's; `None` keeps it.
    replacement: Option<String>,
}

impl Model {
    fn motion() -> Self {
        Self {
            name: MOTION.to_owned(),
            replacement: Some(MOTION.to_owned()),
        }
    }
}

fn choose_model(
    args: &RunArgs,
    zoo: &Zoo,
    default_model: Option<&str>,
    workflow: Option<&Value>,
    notes: &mut Vec<String>,
) -> Result<Option<Model>, Failure> {
    if let Some(wanted) = args.model.as_deref() {
        return resolve(zoo, wanted).map(Some);
    }
    if let Some(workflow) = workflow {
        match plan::named_model(workflow) {
            Some(name) if name == MOTION || zoo.resolve(name).is_ok() => return Ok(None),
            // No detection step or several models: the runtime decides.
            None => return Ok(None),
            Some(name) => notes.push(format!("the workflow's model {name:?} is not installed")),
        }
    }
    if let Some(wanted) = default_model {
        return resolve(zoo, wanted).map(Some);
    }
    // Networks trained on photographs do not recognise the drawn figures of the demo.
    if args.source.starts_with("demo:") {
        return Ok(Some(Model::motion()));
    }
    if let Some(model) = PREFERRED.iter().find_map(|name| resolve(zoo, name).ok()) {
        return Ok(Some(model));
    }
    notes.push(format!(
        "using the built-in motion detector. To detect people and cars: watchkeeper models pull {}",
        PREFERRED[0]
    ));
    Ok(Some(Model::motion()))
}

fn resolve(zoo: &Zoo, wanted: &str) -> Result<Model, Failure> {
    if wanted == MOTION {
        return Ok(Model::motion());
    }
    let resolved = zoo
        .resolve(wanted)
        .map_err(|e| Failure::input(e.to_string()))?;
    let replacement = if zoo.manifest(wanted).is_some() {
        wanted.to_owned()
    } else {
        std::path::absolute(&resolved.path)
            .map_err(|e| Failure::input(format!("can't use {wanted}: {e}")))?
            .display()
            .to_string()
    };
    Ok(Model {
        name: resolved.manifest.name.clone(),
        replacement: Some(replacement),
    })
}

fn build(
    args: &RunArgs,
    model: &Option<Model>,
    zoo: &Zoo,
    notes: &mut Vec<String>,
) -> Result<Value, Failure> {
    let name = model.as_ref().map_or(MOTION, |m| m.name.as_str());
    let mut watch = Watch {
        classes: args
            .watch
            .iter()
            .map(|c| c.trim().to_owned())
            .filter(|c| !c.is_empty())
            .collect(),
        lines: args.line.clone(),
        zones: args.zone.clone(),
        confidence: args.confidence,
        counts: Vec::new(),
        tiles: args.tiles,
        regions: args.region.clone(),
    };
    plan::unique_names(&watch).map_err(|e| Failure::input(e.to_string()))?;
    plan::plain_classes(&watch).map_err(|e| Failure::input(e.to_string()))?;
    notes.extend(plan::lines_beside_regions(&watch).map(|name| {
        format!(
            "line {name:?} is in no --region, so it counts few objects or none; extend a region \
             to both sides of the line"
        )
    }));
    if name == MOTION {
        if watch.tiles.is_some() {
            return Err(Failure::input(
                "--tiles needs a network: the motion detector compares whole pictures; name one with \
                 --model, or leave --tiles out",
            ));
        }
        if !watch.classes.is_empty() && watch.classes != [ALL] {
            notes.push(format!(
                "the motion detector has no classes; ignoring --watch {}",
                watch.classes.join(",")
            ));
        }
        watch.classes.clear();
    } else if let Some(path_or_name) = model.as_ref().and_then(|m| m.replacement.as_deref())
        && let Ok(resolved) = zoo.resolve(path_or_name)
    {
        let labels: Vec<&str> = resolved.manifest.labels.iter().map(AsRef::as_ref).collect();
        watch.classes = classes(
            watch.classes,
            &labels,
            &resolved.manifest.watch,
            name,
            notes,
        )?;
    }
    Ok(plan::workflow(&watch, name))
}

/// Returns the classes to detect; empty for all. `usual` are those that the model's manifest names.
fn classes(
    wanted: Vec<String>,
    labels: &[&str],
    usual: &[String],
    model: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<String>, Failure> {
    if wanted == [ALL] && !labels.contains(&ALL) {
        return Ok(Vec::new());
    }
    if !wanted.is_empty() {
        return known_classes(wanted, labels, model, notes);
    }
    // Of COCO's 80 classes only moving objects are the default: a door detected as refrigerator, or
    // a shadow as bench, would be a visit. A model with other classes was trained for all of them.
    let usual = if !usual.is_empty() {
        usual.to_vec()
    } else if MOVING.iter().all(|class| labels.contains(class)) {
        MOVING.map(str::to_owned).to_vec()
    } else {
        return Ok(Vec::new());
    };
    let known = labels.iter().filter(|label| !label.is_empty()).count();
    notes.push(format!(
        "watching people, vehicles and animals; use --watch {ALL} for all {known} classes of {model}"
    ));
    Ok(usual)
}

/// Returns the labels of a model that the words of `--watch` stand for.
fn known_classes(
    words: Vec<String>,
    labels: &[&str],
    model: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<String>, Failure> {
    let mut known = Vec::new();
    for word in words {
        if labels.is_empty() || labels.contains(&word.as_str()) {
            known.push(word);
            continue;
        }
        let plain = plain()?;
        let meant = plain.classes(&word, labels);
        if meant.is_empty() {
            return Err(unknown_class(&word, labels, model, &plain));
        }
        notes.push(format!("--watch {word} watches {}", meant.join(", ")));
        known.extend(meant.into_iter().map(str::to_owned));
    }
    Ok(known)
}

fn unknown_class(word: &str, labels: &[&str], model: &str, plain: &Plain) -> Failure {
    let includes = |label: &&&str| !plain.classes(label, &[word]).is_empty();
    let mut likely: Vec<&str> = labels.iter().find(includes).copied().into_iter().collect();
    if likely.is_empty() {
        likely = nearest_few(word, labels.iter().copied(), MAX_NEAR);
    }
    let unknown = format!("{model} does not know the class {word:?}");
    match likely.is_empty() {
        true => {
            Failure::input(unknown).with([format!("classes of {model}: {}", labels.join(", "))])
        }
        false => Failure::input(format!("{unknown}; did you mean {}?", likely.join(", "))),
    }
}

fn rules(texts: &[String]) -> Result<Vec<RuleSpec>, Failure> {
    let mut rules = Vec::new();
    for text in texts {
        let json = match text.strip_prefix('@') {
            Some(path) => bounded::read(Path::new(path))
                .map_err(|e| Failure::input(format!("can't read the rules {path}: {e}")))?,
            None => text.clone(),
        };
        let wrong = |e: serde_json::Error| {
            let example = "docs/ref/rules.md has an example of each condition";
            Failure::input(format!("--rule {text}: {e}; {example}"))
        };
        let value: Value = serde_json::from_str(&json).map_err(wrong)?;
        if value.is_array() {
            rules.extend(serde_json::from_value::<Vec<RuleSpec>>(value).map_err(wrong)?);
        } else {
            rules.push(serde_json::from_value(value).map_err(wrong)?);
        }
    }
    Ok(rules)
}

fn check_video(path: &Path) -> Result<(), Failure> {
    let parent = folder_of(path);
    if path.is_dir() {
        return Err(Failure::input(format!(
            "--video {}: this is a folder; name a file",
            path.display()
        )));
    }
    if !parent.is_dir() {
        let folder = parent.display();
        return Err(Failure::input(format!("--video: no such folder: {folder}")));
    }
    if path.extension().is_none_or(|ending| ending != "mp4") {
        return Err(Failure::input(format!(
            "--video {}: the video is MP4; name it {}",
            path.display(),
            path.with_extension("mp4").display()
        )));
    }
    // Fails now rather than after an hour: the end of the run writes a temporary file beside the
    // video.
    tempfile::NamedTempFile::new_in(parent).map_err(|e| {
        Failure::input(format!("--video: can't write to {}: {e}", parent.display()))
    })?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
