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
use super::configuration::absolute;
use super::exit::{Exit, Failure};

pub(super) const PROGRAM: &str = "watchkeeper-runtime";

/// Finds the program.
///
/// # Errors
/// [`Exit::NoRuntime`] without it.
pub(super) fn path() -> Result<PathBuf, Failure> {
    find(PROGRAM).ok_or_else(|| {
        let sentence = format!(
            "{PROGRAM}: not found next to this program or on PATH; install it, or build it with \
             cargo build -p {PROGRAM}"
        );
        Failure::new(Exit::NoRuntime, sentence)
    })
}

/// Finds a program beside this one, else on PATH.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let beside = std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.join(name)));
    let on_path = std::env::var_os("PATH");
    let on_path = on_path
        .iter()
        .flat_map(std::env::split_paths)
        .map(|dir| dir.join(name));
    beside
        .into_iter()
        .chain(on_path)
        .find(|path| path.is_file())
}

/// Makes the name of a source or folder absolute where it is a path that exists: it is found from
/// where the user stands.
pub(super) fn source(name: &str) -> PathBuf {
    absolute_where(name, Path::exists)
}

/// Makes the name of a model absolute where it is a file: it is found from where the user stands.
/// Any other is a name of the zoo, also beside a folder of that name.
pub(super) fn model(name: &str) -> PathBuf {
    absolute_where(name, Path::is_file)
}

fn absolute_where(name: &str, is_path: impl FnOnce(&Path) -> bool) -> PathBuf {
    let path = Path::new(name);
    match is_path(path) {
        true => absolute(path),
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
    answer_or(command, timeout, |outcome| match outcome {
        Outcome::Ended(ending) => ending.to_string(),
        Outcome::Interrupted(why) => why.to_string(),
        Outcome::Refused(why) => why,
        Outcome::Loaded => String::new(),
    })
}

/// Runs a command that prints one JSON object, for `timeout` at most. `describe` says why there is
/// none.
///
/// # Errors
/// [`Exit::Failed`].
pub(super) fn answer_or<T: DeserializeOwned>(
    command: &mut Command,
    timeout: Duration,
    describe: impl FnOnce(Outcome) -> String,
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
        (other, _) => Err(Failure::failed(describe(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_a_source_and_no_model() {
        // Unit tests run in the folder of this crate.
        assert_eq!(model("src"), Path::new("src"));
        assert!(source("src").is_absolute());
        assert!(model("Cargo.toml").is_absolute());
        assert_eq!(source("yolox-nano"), Path::new("yolox-nano"));
    }
}
