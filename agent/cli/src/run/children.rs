//! Child processes of `run`: runtime and agent.
//!
//! - Each has its own process group, so Ctrl-C reaches only this command.
//! - Each has a pipe as standard input, which closes when this command ends, even by a kill; then
//!   the child stops. So no child outlives this command.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio::process::{Child, ChildStdout, Command};

use crate::exit::{Exit, Failure};

/// Timeout of a child's exit. The agent delivers for 3 s and disconnects in 2 s.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a child's exit where the user waits no longer.
pub(super) const SHORT_STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// Last log lines in the report of a dead child.
const LAST_LINES: usize = 8;
/// Bytes of a log that are searched for them.
const MAX_LOG_END: u64 = 64 << 10;

/// Parameters with which a child is started.
pub(super) struct Launch<'p> {
    pub(super) name: &'static str,
    pub(super) program: &'p Path,
    pub(super) args: &'p [&'p OsStr],
    /// Folder of the log; `None`: the child logs to standard error.
    pub(super) log_dir: Option<&'p Path>,
}

impl Launch<'_> {
    /// Builds the command, and opens its log.
    fn command(&self) -> Result<(Command, Option<PathBuf>), Failure> {
        let mut command = Command::new(self.program);
        command
            .arg0(self.name)
            .args(self.args)
            .stdin(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        // Variables of the installed box must not override the run's configuration file.
        for (key, _) in std::env::vars_os() {
            let key_text = key.to_string_lossy();
            let is_key = key_text.starts_with(watchkeeper_config::ENV_PREFIX)
                && (key_text.contains("__") || key_text == watchkeeper_config::FILE_VARIABLE);
            if is_key {
                command.env_remove(&key);
            }
        }
        let Some(folder) = self.log_dir else {
            command.stdout(Stdio::null()).stderr(Stdio::inherit());
            return Ok((command, None));
        };
        let path = folder.join(format!("{}.log", self.name));
        let cannot_write = |e| cannot("write the log of", self.name, e);
        let out = File::create(&path).map_err(cannot_write)?;
        let err = out.try_clone().map_err(cannot_write)?;
        command.stdout(out).stderr(err);
        Ok((command, Some(path)))
    }
}

fn cannot(what: &str, name: &str, error: std::io::Error) -> Failure {
    Failure::new(Exit::NoRuntime, format!("can't {what} {name}: {error}"))
}

/// Returns the name of the variable with the broker's password.
pub(super) fn password_variable() -> String {
    format!("{}MQTT__PASSWORD", watchkeeper_config::ENV_PREFIX)
}

/// A started child process.
#[derive(Debug)]
pub(super) struct Program {
    name: &'static str,
    child: Child,
    /// Log file; `None` if the child logs to standard error.
    log: Option<PathBuf>,
}

impl Program {
    /// Starts a child. Its standard output goes to its log.
    pub(super) fn start(launch: &Launch<'_>) -> Result<Self, Failure> {
        let (command, log) = launch.command()?;
        Self::spawn(launch.name, command, log)
    }

    /// Starts a child and returns its standard output.
    ///
    /// Secrets are environment variables: other users can read arguments, and no file holds them.
    pub(super) fn start_piped(
        launch: &Launch<'_>,
        secrets: &[(String, SecretString)],
    ) -> Result<(Self, Option<ChildStdout>), Failure> {
        let (mut command, log) = launch.command()?;
        command.stdout(Stdio::piped());
        for (variable, secret) in secrets {
            command.env(variable, secret.expose_secret());
        }
        let mut started = Self::spawn(launch.name, command, log)?;
        let stdout = started.child.stdout.take();
        Ok((started, stdout))
    }

    fn spawn(
        name: &'static str,
        mut command: Command,
        log: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let child = command.spawn().map_err(|e| cannot("start", name, e))?;
        Ok(Self { name, child, log })
    }

    /// Returns the failure of a child that has exited.
    pub(super) fn death(&mut self) -> Option<Failure> {
        let status = self.child.try_wait().ok().flatten()?;
        let sentence = format!("{} stopped ({status})", self.name);
        Some(Failure::new(Exit::NoRuntime, sentence).with(self.last_lines()))
    }

    /// Returns the last non-empty lines of the log.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let end = self.log.as_ref().and_then(|path| read_end(path).ok());
        let text = String::from_utf8_lossy(&end.unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let skip = lines.len().saturating_sub(LAST_LINES);
        lines.into_iter().skip(skip).map(str::to_owned).collect()
    }

    /// Closes standard input, waits for the exit, and kills the child after `limit`.
    pub(super) async fn stop(mut self, limit: Duration) {
        drop(self.child.stdin.take());
        let exited = tokio::time::timeout(limit, self.child.wait()).await;
        if exited.is_err() {
            // `kill` fails only if the child has exited meanwhile.
            self.child.kill().await.ok();
        }
    }
}

/// Reads the last [`MAX_LOG_END`] bytes of a file.
fn read_end(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let skip = file.metadata()?.len().saturating_sub(MAX_LOG_END);
    file.seek(SeekFrom::Start(skip))?;
    let mut end = Vec::new();
    file.take(MAX_LOG_END).read_to_end(&mut end)?;
    Ok(end)
}
