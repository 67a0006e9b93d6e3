//! The program `watchkeeper-runtime`, started for one answer.
//!
//! - It reads the configuration as this command does: file, variables, and flags as variables.
//! - Its log is shown with `--verbose` only.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::de::DeserializeOwned;
use watchkeeper_config::ENV_PREFIX;
use watchkeeper_models::model_check::{self, Outcome};

use super::args::Global;
use super::exit::{Exit, Failure};
use super::run::find;

pub(super) const PROGRAM: &str = "watchkeeper-runtime";

/// Finds the program.
///
/// # Errors
/// [`Exit::NoRuntime`] without it.
pub(super) fn path() -> Result<PathBuf, Failure> {
    find(PROGRAM).ok_or_else(|| {
        let sentence = format!("{PROGRAM}: not found beside this program or on PATH");
        Failure::new(Exit::NoRuntime, sentence)
    })
}

/// Makes the name of a model, source or folder absolute where it is a path that exists: it is found
/// from where the user stands, and a name of the zoo is no path.
pub(super) fn absolute(name: &str) -> PathBuf {
    let path = Path::new(name);
    match path.exists() {
        true => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        false => path.to_owned(),
    }
}

/// Makes the command, without a subcommand.
///
/// # Errors
/// [`Exit::NoRuntime`] without the program.
pub(super) fn command(global: &Global) -> Result<Command, Failure> {
    let mut command = Command::new(path()?);
    if let Some(config) = &global.config {
        command.arg("--config").arg(config);
    }
    if let Some(dir) = &global.models_dir {
        command.env(format!("{ENV_PREFIX}MODELS__DIR"), dir);
    }
    if let Some(backend) = &global.backend {
        command.env(format!("{ENV_PREFIX}RUNTIME__INFERENCE__BACKEND"), backend);
    }
    if !global.verbose {
        command.env("RUST_LOG", "error");
    }
    Ok(command)
}

/// Passes the settings of this user to a command whose environment is cleared otherwise.
pub(super) fn pass_settings(command: &mut Command) {
    let own: Vec<_> = command
        .get_envs()
        .map(|(name, _)| name.to_owned())
        .collect();
    let settings = std::env::vars_os().filter(|(name, _)| {
        let text = name.as_encoded_bytes();
        let is_setting = text.starts_with(ENV_PREFIX.as_bytes()) || name == "XDG_DATA_HOME";
        is_setting && !own.contains(name)
    });
    command.envs(settings.collect::<Vec<_>>());
}

/// Runs a command that prints one JSON object, for `timeout` at most.
///
/// # Errors
/// [`Exit::Failed`] with the sentence of the program.
pub(super) fn answer<T: DeserializeOwned>(
    command: &mut Command,
    timeout: Duration,
) -> Result<T, Failure> {
    pass_settings(command);
    let ran = model_check::run_for_answer(command, timeout, &|| false).map_err(|error| {
        let remedy = model_check::start_remedy(&error);
        Failure::failed(format!("can't start {PROGRAM}: {error}; {remedy}"))
    })?;
    match ran {
        (Outcome::Loaded, answer) => serde_json::from_str(&answer).map_err(|e| {
            Failure::failed(format!(
                "{PROGRAM} printed no answer ({e}); install all programs in the same version"
            ))
        }),
        (Outcome::Refused(why), _) => Err(Failure::failed(why)),
        (Outcome::Ended(ending), _) => Err(Failure::failed(ending.to_string())),
        (Outcome::Interrupted(why), _) => Err(Failure::failed(why.to_string())),
    }
}
