//! `watchkeeper backends`: what runs models on this box, and the library of ONNX Runtime.
//!
//! - The running runtime answers, because it is the one that runs models; else the program is
//!   started for the answer. The output says which of them answered.
//! - A library gets its name only with the right checksum, after the texts of its licence.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use watchkeeper_client::{ClientError, RuntimeClient};
use watchkeeper_config::Config;
use watchkeeper_contract::backend::{BackendInfo, BackendReport, MeasuredModel};
use watchkeeper_models::library::LibraryError;
use watchkeeper_models::model_check::{Ending, Interruption, Outcome};
use watchkeeper_models::registry::library::LibraryManifest;
use watchkeeper_models::{Checked, Downloaded, PREFERRED, PullPlan};

use super::args::{BackendAction, BackendPullArgs, Global};
use super::download::{self, Fetcher};
use super::exit::Failure;
use super::output::Output;
use super::runtime_program::{self, PROGRAM};

/// Longest time for opening the libraries.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) async fn run(
    action: Option<BackendAction>,
    client: &RuntimeClient,
    config: &Config,
    global: &Global,
    out: &Output,
) -> Result<(), Failure> {
    match action.unwrap_or(BackendAction::List) {
        BackendAction::List => list(client, global, out).await,
        BackendAction::Pull(args) => pull(args, config, global, out).await,
    }
}

/// Lists the back ends that a start of the runtime would find.
///
/// # Errors
/// [`Exit::NoRuntime`](crate::exit::Exit) without the program, [`Exit::Failed`](crate::exit::Exit)
/// with its sentence.
pub(super) fn found_by_program(global: &Global) -> Result<Vec<BackendInfo>, Failure> {
    let mut command = runtime_program::command(global)?;
    runtime_program::answer_or(command.arg("backends"), TIMEOUT, |outcome| match outcome {
        Outcome::Refused(why) => why,
        Outcome::Ended(Ending::Crash(signal)) => format!(
            "a library crashes when it is opened (signal {signal}); set \
             runtime.inference.ort_library or trt_library to another one, or remove it"
        ),
        Outcome::Interrupted(Interruption::Overdue) => format!(
            "{PROGRAM} did not list them within {} s; try again when the box has less to do",
            TIMEOUT.as_secs()
        ),
        Outcome::Loaded | Outcome::Ended(_) | Outcome::Interrupted(_) => {
            format!("{PROGRAM} did not list them; `{PROGRAM} backends` prints the reason")
        }
    })
}

/// The back end of `--backend`; absent for `auto`.
pub(super) fn named(global: &Global) -> Option<&str> {
    global.backend.as_deref().filter(|name| *name != "auto")
}

/// The error for a back end that is named for the built-in motion detector; `remedy` says where a
/// network is named.
pub(super) fn no_network(backend: &str, remedy: &str) -> Failure {
    Failure::input(format!(
        "--backend {backend}: the motion detector runs on no back end; name {remedy} (watchkeeper \
         models pull {}), or leave --backend out",
        PREFERRED[0]
    ))
}

async fn list(client: &RuntimeClient, global: &Global, out: &Output) -> Result<(), Failure> {
    let (report, by) = match client.backends().await {
        Ok(report) => (report, "runtime"),
        Err(ClientError::Unreachable { .. }) => {
            let backends = found_by_program(global)?;
            let measured = Vec::new();
            (BackendReport { backends, measured }, "program")
        }
        Err(error) => return Err(error.into()),
    };
    let mut value = json!(report);
    value["answered_by"] = json!(by);
    out.object(&value);
    out.table(
        &["back end", "available", "version", "providers", "details"],
        report.backends.iter().map(row),
    );
    for model in &report.measured {
        out.line(describe_measured(model));
    }
    if !out.is_json() {
        out.note(match by {
            "runtime" => "the running runtime answered".to_owned(),
            _ => format!("no runtime is running; this is what {PROGRAM} would find"),
        });
    }
    Ok(())
}

fn row(backend: &BackendInfo) -> Vec<String> {
    let or_dash = |text: Option<&String>| text.cloned().unwrap_or_else(|| "–".to_owned());
    let details = match (&backend.why_not, &backend.remedy) {
        (Some(why), Some(remedy)) => format!("{why}; to have it: {remedy}"),
        (Some(why), None) => why.clone(),
        (None, _) => backend
            .library
            .clone()
            .unwrap_or_else(|| "part of the program".to_owned()),
    };
    let providers = backend.providers.join(", ");
    vec![
        backend.name.clone(),
        if backend.available { "yes" } else { "no" }.to_owned(),
        or_dash(backend.version.as_ref()),
        or_dash(Some(&providers).filter(|p| !p.is_empty())),
        details,
    ]
}

fn describe_measured(model: &MeasuredModel) -> String {
    let times = model.infer_ms.iter();
    let times: Vec<String> = times
        .map(|(backend, ms)| format!("{backend} {ms:.1} ms"))
        .collect();
    let (name, fastest) = (&model.model, &model.fastest);
    format!(
        "{name}: {fastest} was the fastest when the runtime measured it ({}); other work makes \
         these times longer",
        times.join(", ")
    )
}

fn bad_input(error: LibraryError) -> Failure {
    Failure::input(error.to_string())
}

/// Installs the library of ONNX Runtime, and has the runtime try it.
async fn pull(
    args: BackendPullArgs,
    config: &Config,
    global: &Global,
    out: &Output,
) -> Result<(), Failure> {
    let arch = std::env::consts::ARCH;
    // There is always one.
    let folder = config.library_folders().into_iter().next();
    let folder = folder.unwrap_or_else(|| config.state_dir.join("lib"));
    let manifest = LibraryManifest::onnx_runtime(&folder).map_err(bad_input)?;
    let mut plans = manifest.plans(arch, &folder).map_err(bad_input)?;
    if let Some(registry) = &args.registry {
        download::ask_registry(registry, &mut plans)?;
    }
    if let Some(package) = &args.from {
        manifest.check_package(package, arch).map_err(bad_input)?;
    }
    let unpack = |missing| unpack(missing, &args, out);
    let files = download::install(plans, unpack, out).await?;
    let Some((library, notices)) = files.split_last() else {
        return Ok(());
    };
    let notices: Vec<&PathBuf> = notices.iter().map(|file| &file.path).collect();
    let value = json!({
        "backend": "ort", "version": manifest.version, "licence": manifest.licence,
        "file": library.path, "sha256": library.sha256.to_string(), "bytes": library.bytes,
        "notices": notices,
    });
    out.both(&value, || {
        format!(
            "Installed ONNX Runtime {} ({}): {}, sha256 {}",
            manifest.version,
            manifest.licence,
            library.path.display(),
            library.sha256
        )
    });
    try_library(library, global, out)
}

/// Takes the files of `missing` out of their package.
async fn unpack(
    missing: Vec<PullPlan>,
    args: &BackendPullArgs,
    out: &Output,
) -> Result<Vec<Checked>, Failure> {
    let Some(archive) = missing.last().and_then(PullPlan::archive) else {
        return Ok(Vec::new());
    };
    let offline = format!(
        "copy it here and run `watchkeeper backends pull {} --from FILE`",
        args.name
    );
    let archive = match &args.from {
        Some(package) => download::copy(archive, package)?,
        None => Fetcher::new(out, &offline)?.fetch(archive).await?,
    };
    out.busy("taking the library out of its package");
    let unpacked = archive.unpack(missing);
    unpacked.map_err(|e| download::refused(&e))
}

/// Has the runtime's program open the library.
fn try_library(library: &Downloaded, global: &Global, out: &Output) -> Result<(), Failure> {
    if let Err(failure) = runtime_program::path() {
        out.note(format!("the library was not opened: {failure}"));
        return Ok(());
    }
    let shown = library.path.display();
    let backends = found_by_program(global)?;
    let Some(ort) = backends.iter().find(|backend| backend.name == "ort") else {
        return Ok(());
    };
    if let Some(why) = &ort.why_not {
        let sentence = format!("{shown} is in place, but {PROGRAM} can't use it: {why}");
        return Err(Failure::failed(sentence));
    }
    match &ort.library {
        Some(used) if *used != shown.to_string() => out.note(format!(
            "{PROGRAM} finds {used} first; set runtime.inference.ort_library to use this one"
        )),
        _ => out.note(
            "a running runtime uses it for the next model that it opens, or after a restart if \
             another ONNX Runtime is open",
        ),
    }
    Ok(())
}
