//! The command's configuration: loading, `config check` and `config show`.
//!
//! - Not here: the rules of the file and their result (`watchkeeper-config`). Nor whether the
//!   files, models and folders that it names exist ([`inspect`](super::inspect)).

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use watchkeeper_config::{
    BrokerLayers, Config, ConfigError, LoadRequest, Origin, load, load_usable,
};
use watchkeeper_jobs::counted;

use super::args::{ConfigAction, Global};
use super::deployed;
use super::exit::Failure;
use super::output::Output;

/// Site of a run's topics and client id, which keeps them apart from those of the box.
pub(super) const RUN_SITE: &str = "run";

/// Loads the configuration, overridden by the flags of the command line.
pub(super) fn read(global: &Global) -> Result<Config, Failure> {
    load(&request(global, None)).map_err(|_| invalid(&all_errors(global)))
}

/// Loads the usable part of the configuration; defaults replace wrong values.
pub(super) fn read_usable(global: &Global) -> Config {
    load_usable(&request(global, None)).0
}

/// Everything that `config check` finds wrong. Every command counts and shows this list.
pub(super) fn all_errors(global: &Global) -> Vec<ConfigError> {
    let report = watchkeeper_config::check(&request(global, None), &super::inspect::check);
    by_line(report.errors, report.warnings)
}

fn by_line(mut errors: Vec<ConfigError>, warnings: Vec<ConfigError>) -> Vec<ConfigError> {
    errors.extend(warnings);
    errors.sort_by_key(|error| error.line);
    errors
}

/// The request for a configuration without the broker's password, which this user may be unable to
/// read.
pub(super) fn without_broker(global: &Global) -> LoadRequest {
    LoadRequest {
        broker: BrokerLayers::Nobody,
        ..request(global, None)
    }
}

/// Loads the configuration without the broker.
pub(super) fn read_without_broker(global: &Global) -> Result<Config, Failure> {
    load(&without_broker(global)).map_err(|_| invalid(&all_errors(global)))
}

/// Loads what is usable of the configuration, for a command that needs only the sockets. Its errors
/// become one note.
pub(super) fn read_for_sockets(global: &Global, out: &Output) -> Config {
    let (config, errors) = load_usable(&without_broker(global));
    if errors.is_empty() {
        return config;
    }
    let errors = all_errors(global);
    if let [first, ..] = errors.as_slice() {
        out.aside(&format!(
            "note: the configuration has {}, the first: {first}; `watchkeeper config check` shows all. \
             Using {}",
            counted(errors.len(), "error"),
            config.runtime_socket.display()
        ));
    }
    config
}

/// The request for the configuration of a run with `--mqtt`, which the caller adds.
///
/// The file's `[mqtt]` is ignored: it names the box's broker, and its client id would disconnect
/// the box's agent.
pub(super) fn for_run(global: &Global) -> LoadRequest {
    let request = LoadRequest {
        broker: BrokerLayers::Asked,
        ..request(global, None)
    };
    request.with("run", "box.site", Some(RUN_SITE))
}

fn request(global: &Global, file: Option<&Path>) -> LoadRequest {
    let text = |path: &PathBuf| path.display().to_string();
    let file = file.map(Path::to_owned).or_else(|| global.config.clone());
    LoadRequest::from_process(file)
        .with(
            "--socket",
            "runtime.socket",
            global.socket.as_ref().map(text),
        )
        .with(
            "--models-dir",
            "models.dir",
            global.models_dir.as_ref().map(text),
        )
        .with(
            "--backend",
            "runtime.inference.backend",
            global.backend.as_ref(),
        )
}

pub(super) fn invalid(errors: &[ConfigError]) -> Failure {
    let sentence = format!("the configuration has {}:", counted(errors.len(), "error"));
    Failure::input(sentence).with(errors.iter().map(ToString::to_string))
}

pub(super) fn run(action: ConfigAction, global: &Global, out: &Output) -> Result<(), Failure> {
    match action {
        ConfigAction::Check { file } => check(&request(global, file.as_deref()), out),
        ConfigAction::Show => {
            let config = read(global)?;
            for warning in &config.warnings {
                out.note(warning.to_string());
            }
            let shown = watchkeeper_config::effective(&request(global, None), &config);
            out.both(&shown, || {
                toml::to_string_pretty(&shown).unwrap_or_default()
            });
            Ok(())
        }
    }
}

fn check(request: &LoadRequest, out: &Output) -> Result<(), Failure> {
    let watchkeeper_config::Report {
        errors,
        warnings,
        mut notes,
        file,
        config,
    } = watchkeeper_config::check(request, &super::inspect::check);
    if file.is_none() && config.is_some() {
        notes.insert(
            0,
            "no configuration file found; checking defaults and environment variables".to_owned(),
        );
    }
    let deployed = config.as_ref().and_then(deployed::besides);
    if let (Some(config), Some(deployed)) = (&config, &deployed) {
        notes.extend(super::inspect::deployed(config, deployed));
    }
    for note in &notes {
        out.note(note);
    }
    let report = json!({
        "ok": errors.is_empty() && warnings.is_empty(),
        "errors": errors.iter().map(error_object).collect::<Vec<_>>(),
        "warnings": warnings.iter().map(error_object).collect::<Vec<_>>(),
        "notes": notes,
        "file": file,
    });
    out.object(&report);
    match config {
        None => Err(invalid(&by_line(errors, warnings))),
        Some(config) if warnings.is_empty() => {
            let file = file.map(|file| format!(" ({})", file.display()));
            let besides = match deployed {
                Some(deployed) if deployed.is_empty() => String::new(),
                Some(deployed) => format!(" of the file, {} deployed by hand", deployed.len()),
                None => "; no runtime answers, so only the file was checked".to_owned(),
            };
            out.line(format!(
                "the configuration is valid{}: box {} at site {}, {}, {}{besides}",
                file.unwrap_or_default(),
                config.box_id,
                config.site,
                counted(config.sources.len(), "camera"),
                counted(config.pipelines.len(), "pipeline")
            ));
            Ok(())
        }
        Some(_) => {
            let sentence = "warning: the box starts, but these parts do not work:";
            let lines = warnings.iter().map(ToString::to_string);
            Err(Failure::input(sentence).with(lines))
        }
    }
}

fn error_object(error: &ConfigError) -> Value {
    let (kind, name) = match &error.origin {
        Origin::File(path) => ("file", path.display().to_string()),
        Origin::Variable(name) => ("variable", name.clone()),
        Origin::Flag(name) => ("flag", name.clone()),
        Origin::Default => ("default", String::new()),
    };
    json!({
        "key": error.key, "found": error.found, "problem": error.problem,
        "remedy": error.remedy, "allowed": error.allowed,
        "nearest": error.nearest, "from": {"kind": kind, "name": name, "line": error.line},
        "message": error.to_string(),
    })
}

/// Makes a path absolute: the file may be read by a process with another working folder.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
