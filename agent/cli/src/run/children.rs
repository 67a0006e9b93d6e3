//! The programs that `run` starts: broker, runtime, agent.
//!
//! Each lives in a process group of its own, so that Ctrl-C reaches only this command, and holds a pipe as standard
//! input: when this command ends in whatever way, the pipe closes and they stop by themselves.
//!
//! Invariant: none outlives this command.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio::process::{Child, ChildStdout, Command};

use crate::exit::{Exit, Failure};

/// How long a program may take to stop by itself.
/// The agent delivers for three seconds and takes leave for two more.
const STOP: Duration = Duration::from_secs(10);
/// Lines of its log that are shown when a program died.
const LAST_LINES: usize = 8;

/// Who reads the standard output of a program.
enum Hearing<'p> {
    /// Its log, or nobody.
    Nobody,
    /// This command, which also tells it these secrets, by the names of variables.
    Us(&'p [(String, SecretString)]),
}

/// The variable of the broker's password.
pub(super) fn password_variable() -> String {
    format!("{}MQTT__PASSWORD", watchkeeper_config::ENV_PREFIX)
}

/// One program that was started.
#[derive(Debug)]
pub(super) struct Program {
    name: &'static str,
    child: Child,
    /// Its log; absent where it writes to standard error.
    log: Option<PathBuf>,
}

impl Program {
    /// Starts a program of ours. Its standard output goes to its log, or with `verbose` nowhere.
    pub(super) fn start(
        name: &'static str,
        program: &Path,
        args: &[&std::ffi::OsStr],
        log_dir: &Path,
        verbose: bool,
    ) -> Result<Self, Failure> {
        Self::spawn(name, program, args, log_dir, verbose, Hearing::Nobody)
            .map(|(program, _)| program)
    }

    /// Like [`Self::start`], for one whose standard output is read here. It is told secrets by variables, which other users can't
    /// read, as they can arguments; no file holds them.
    pub(super) fn start_heard(
        name: &'static str,
        program: &Path,
        args: &[&std::ffi::OsStr],
        log_dir: &Path,
        verbose: bool,
        secrets: &[(String, SecretString)],
    ) -> Result<(Self, Option<ChildStdout>), Failure> {
        let hearing = Hearing::Us(secrets);
        Self::spawn(name, program, args, log_dir, verbose, hearing)
    }

    fn spawn(
        name: &'static str,
        program: &Path,
        args: &[&std::ffi::OsStr],
        log_dir: &Path,
        verbose: bool,
        hearing: Hearing<'_>,
    ) -> Result<(Self, Option<ChildStdout>), Failure> {
        let cannot = |what: &str, e: std::io::Error| {
            Failure::new(Exit::NoRuntime, format!("can't {what} {name}: {e}"))
        };
        let log = (!verbose).then(|| log_dir.join(format!("{name}.log")));
        let mut command = Command::new(program);
        command
            .arg0(name)
            .args(args)
            .stdin(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        // What holds for the box that is installed here must not leak into this run; its file says everything.
        for (key, _) in std::env::vars_os() {
            let key_text = key.to_string_lossy();
            let is_key = key_text.starts_with(watchkeeper_config::ENV_PREFIX)
                && (key_text.contains("__") || key_text == watchkeeper_config::FILE_VARIABLE);
            if is_key {
                command.env_remove(&key);
            }
        }
        match &log {
            Some(path) => {
                let out = File::create(path).map_err(|e| cannot("write the log of", e))?;
                let err = out.try_clone().map_err(|e| cannot("write the log of", e))?;
                command.stdout(out).stderr(err);
            }
            None => {
                command.stdout(Stdio::null()).stderr(Stdio::inherit());
            }
        }
        if let Hearing::Us(secrets) = hearing {
            command.stdout(Stdio::piped());
            for (variable, secret) in secrets {
                command.env(variable, secret.expose_secret());
            }
        }
        let mut child = command.spawn().map_err(|e| cannot("start", e))?;
        let said = child.stdout.take();
        Ok((Self { name, child, log }, said))
    }

    /// The failure when it has died.
    pub(super) fn death(&mut self) -> Option<Failure> {
        let status = self.child.try_wait().ok().flatten()?;
        let sentence = format!("{} stopped ({status})", self.name);
        Some(Failure::new(Exit::NoRuntime, sentence).with(self.last_lines()))
    }

    /// The last lines of its log.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let text = self.log.as_ref().and_then(|path| std::fs::read(path).ok());
        let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let skip = lines.len().saturating_sub(LAST_LINES);
        lines.into_iter().skip(skip).map(str::to_owned).collect()
    }

    /// Asks it to stop, waits, and ends it if it does not.
    pub(super) async fn stop(mut self) {
        drop(self.child.stdin.take());
        if tokio::time::timeout(STOP, self.child.wait()).await.is_err() {
            // It is gone either way; there is nobody to tell.
            self.child.kill().await.ok();
        }
    }
}

/// Finds a program of ours: beside this one, else on the search path.
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
