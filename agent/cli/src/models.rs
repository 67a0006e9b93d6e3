//! `watchkeeper models`.
//!
//! - Not here: the transfer of a download (`download`), and its resuming, size limits, checksums
//!   and renaming, which are sans-IO in `watchkeeper-models`.

mod bench;
mod calibrate;
mod list;

use std::path::Path;
use std::process::Command;

use serde_json::json;
use watchkeeper_assistant::wording::counted;
use watchkeeper_config::ModelsConfig;
use watchkeeper_contract::model::ModelState;
use watchkeeper_models::model_check::{self, Outcome};
use watchkeeper_models::zoo::{ChecksumSource, Verified};
use watchkeeper_models::{Checked, Downloaded, MOTION, Manifest, PullPlan, Trust, Zoo};

use super::args::{Global, ModelAction, PullArgs};
use super::download::{self, Fetcher};
use super::exit::Failure;
use super::output::Output;
use super::runtime_program;

/// Remedy if the network fails every time.
const OFFLINE: &str = "copy the file here and run `watchkeeper models add`";

pub(super) async fn run(
    action: Option<ModelAction>,
    config: &ModelsConfig,
    global: &Global,
    out: &Output,
) -> Result<(), Failure> {
    let mut zoo = Zoo::with_dirs(config.folders());
    for problem in zoo.problems() {
        out.note(problem.to_string());
    }
    match action.unwrap_or(ModelAction::List) {
        ModelAction::List => list::list(&zoo, out),
        ModelAction::Pull(PullArgs {
            name,
            trust,
            sha256,
            registry,
        }) => {
            let trust = match (trust, sha256) {
                (_, Some(hex)) => Trust::Sum(
                    hex.parse()
                        .map_err(|e| Failure::input(format!("--sha256 {hex}: {e}")))?,
                ),
                (true, None) => Trust::FirstUse,
                (false, None) => Trust::KnownOnly,
            };
            let mut plans = zoo
                .pull_plan(&name, trust, config.mirror.as_deref())
                .map_err(bad_input)?;
            if let Some(registry) = registry {
                download::ask_registry(&registry, &mut plans)?;
            }
            show_downloaded(&name, &pull(plans, out).await?, out);
        }
        ModelAction::Bench(args) => {
            if args.name != MOTION {
                zoo.resolve(&args.name).map_err(bad_input)?;
            }
            return bench::run(&args, global, out);
        }
        ModelAction::Calibrate(args) => return calibrate::run(&args, global, out),
        ModelAction::Verify { names } => return verify(&zoo, names, out),
        ModelAction::Add {
            file,
            manifest,
            like,
            name,
        } => {
            out.busy(format!("opening {}", file.display()));
            let added = zoo
                .add(
                    &file,
                    manifest.as_deref(),
                    like.as_deref(),
                    name.as_deref(),
                    &|path, manifest| try_open(path, manifest, out),
                )
                .map_err(bad_input)?;
            let name = &added.manifest.name;
            let value = json!({"model": name, "file": added.path});
            out.both(&value, || format!("Added {name}: {}", added.path.display()));
        }
    }
    Ok(())
}

/// Prints the files of a downloaded model; its network is the last.
fn show_downloaded(name: &str, files: &[Downloaded], out: &Output) {
    let object = |file: &Downloaded| json!({"file": file.path, "sha256": file.sha256.to_string(), "bytes": file.bytes});
    let Some((network, parts)) = files.split_last() else {
        return;
    };
    let mut value = object(network);
    value["model"] = json!(name);
    if !parts.is_empty() {
        value["parts"] = parts.iter().map(object).collect();
    }
    out.both(&value, || {
        let parts = parts
            .iter()
            .map(|part| format!("\nwith {}, sha256 {}", part.path.display(), part.sha256));
        format!(
            "Installed {name}: {}, sha256 {}{}",
            network.path.display(),
            network.sha256,
            parts.collect::<String>()
        )
    });
}

/// Has `watchkeeper-runtime` open a model file with this manifest. The error is its message.
fn try_open(path: &Path, manifest: &str, out: &Output) -> Result<(), String> {
    let program = match runtime_program::path() {
        Ok(program) => program,
        Err(failure) => {
            out.note(format!("the file was not opened: {failure}"));
            return Ok(());
        }
    };
    let failed = |e: std::io::Error| format!("can't try to open it: {e}");
    // The runtime reads the manifest beside the file; the user's folder must stay unchanged.
    let folder = tempfile::tempdir().map_err(failed)?;
    let link = folder.path().join(path.file_name().unwrap_or_default());
    let target = std::path::absolute(path).map_err(failed)?;
    std::os::unix::fs::symlink(&target, &link).map_err(failed)?;
    let described = link.with_extension("toml");
    std::fs::write(&described, manifest).map_err(failed)?;
    // Other files of the model are beside it.
    let parts = Manifest::parse(&described, manifest).map_err(|e| e.to_string())?;
    for part in parts.parts() {
        let target = target.with_file_name(&part.file);
        if target.is_file() {
            let link = folder.path().join(&part.file);
            std::os::unix::fs::symlink(target, link).map_err(failed)?;
        }
    }
    let mut command = Command::new(program);
    command.arg(model_check::SUBCOMMAND).arg(&link);
    runtime_program::pass_settings(&mut command);
    let outcome = model_check::run(&mut command, &|| false).map_err(|error| {
        let remedy = model_check::start_remedy(&error);
        format!("can't try to open it: {error}; {remedy}")
    });
    match outcome? {
        Outcome::Loaded => Ok(()),
        Outcome::Refused(message) => {
            Err(message.replace(&link.display().to_string(), &path.display().to_string()))
        }
        Outcome::Ended(ending) => Err(ending.to_string()),
        Outcome::Interrupted(why) => Err(why.to_string()),
    }
}

fn bad_input(error: watchkeeper_models::ZooError) -> Failure {
    Failure::input(error.to_string())
}

fn verify(zoo: &Zoo, names: Vec<String>, out: &Output) -> Result<(), Failure> {
    let names = if names.is_empty() {
        let is_present = |state: &ModelState| matches!(state, ModelState::Present { .. });
        zoo.list()
            .into_iter()
            .filter(|m| is_present(&m.state))
            .map(|m| m.name)
            .collect()
    } else {
        names
    };
    if names.is_empty() {
        out.note("no model is installed");
    }
    let mut errors = Vec::new();
    for name in names {
        if name == MOTION {
            continue;
        }
        out.busy(format!("reading {name}"));
        match zoo.verify(&name) {
            Ok(Verified {
                path,
                sha256,
                bytes,
                against,
            }) => {
                // `against` is read by scripts: its values stay.
                let (against, result) = match against {
                    ChecksumSource::Manifest => ("the zoo", "matches the published checksum"),
                    ChecksumSource::Record => {
                        ("when it was put here", "unchanged since installation")
                    }
                    ChecksumSource::Nothing => (
                        "nothing: its checksum is not known",
                        "not verified, it has no known checksum; `models pull` fetches a known file",
                    ),
                };
                let value = json!({"model": name, "file": path, "sha256": sha256.to_string(), "bytes": bytes, "against": against});
                out.both(&value, || format!("{name}: {sha256}, {result}"));
            }
            Err(e) => errors.push(e.to_string()),
        }
    }
    match errors.len() {
        0 => Ok(()),
        count => {
            let sentence = format!("{} failed verification", counted(count, "model"));
            Err(Failure::failed(sentence).with(errors))
        }
    }
}

/// Downloads the missing files of a model.
async fn pull(plans: Vec<PullPlan>, out: &Output) -> Result<Vec<Downloaded>, Failure> {
    let fetcher = Fetcher::new(out, OFFLINE)?;
    let fetch = async |missing: Vec<PullPlan>| {
        let mut checked = Vec::new();
        for plan in missing {
            checked.extend(fetch_or_unpack(&fetcher, plan, out).await?);
        }
        Ok(checked)
    };
    download::install(plans, fetch, out).await
}

/// Downloads a file, or the package that it comes out of.
async fn fetch_or_unpack(
    fetcher: &Fetcher<'_>,
    plan: PullPlan,
    out: &Output,
) -> Result<Vec<Checked>, Failure> {
    let Some(archive) = plan.archive() else {
        return Ok(vec![fetcher.fetch(plan).await?]);
    };
    let archive = fetcher.fetch(archive).await?;
    out.busy(format!("taking {} out of its package", plan.name));
    let unpacked = archive.unpack(vec![plan]);
    unpacked.map_err(|e| download::refused(&e))
}
