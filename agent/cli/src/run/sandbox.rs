//! Environment of a run: a state folder, a configuration file and the daemons.
//!
//! - Order: the runtime starts before the agent, the agent stops before the runtime.
//! - No daemon outlives the run, however it ends.
//! - Only a folder named by `--keep-state` stays.
//! - Passwords, secrets and logins of addresses reach the agent by its environment; no file holds
//!   them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use secrecy::SecretString;
use serde_json::{Value, json};
use url::Url;
use watchkeeper_agent::program::NAME as AGENT;
use watchkeeper_board::storage;
use watchkeeper_config::{Config, ENV_PREFIX, MODEL_CHECKS, SecretSource, redact};
use watchkeeper_contract::health::Health;
use watchkeeper_contract::id::{EventSeq, PipelineId};
use watchkeeper_contract::pipeline::PipelineStatus;
use watchkeeper_contract::privacy::PrivacyMask;
use watchkeeper_store::Options;
use watchkeeper_store::private_folder::make_private;

use super::children::{Launch, Program, SHORT_STOP_TIMEOUT, STOP_TIMEOUT, password_variable};
use super::delivery::Delivery;
use super::state_folders::{self, SOCKET, remove_stale};
use super::{pending_effects, signals};
use crate::configuration::{RUN_SITE, absolute};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::runtime_program::{self, PROGRAM as RUNTIME};
use crate::state_folder::state_folder;
use crate::user_file::unwritten;
use watchkeeper_client::RuntimeClient;

/// Name of the runtime's state folder in that of the run.
const STATE: &str = "state";
/// Prefix of the variables with the agent's secrets; no key of the configuration maps to it.
const SECRET_PREFIX: &str = "WATCHKEEPER_RUN_SECRET_";
/// Timeout of the runtime's first answer.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which that answer is requested.
const START_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// State folder and daemons of a run, with a client of the runtime.
#[derive(Debug)]
pub(super) struct RunEnvironment {
    pub(super) client: RuntimeClient,
    /// Health at the start: new events follow its `last_seq`.
    pub(super) health: Health,
    /// Number of the last record that was printed.
    pub(super) last_seq: EventSeq,
    /// Nothing more is asked of the runtime: it was silent for long, or the user waits no longer.
    pub(super) gave_up: bool,
    /// `[sinks]` allows effects.
    has_effects: bool,
    runtime: Program,
    /// Absent in a run without broker and `[sinks]`, and after it died: the run continues.
    agent: Option<Program>,
    /// Delivery of the events to the broker of `--mqtt`.
    delivery: Option<Delivery>,
    state: StateDir,
}

#[derive(Debug)]
pub(super) struct RunSetup<'r> {
    pub(super) config: &'r Config,
    /// The configuration in the shape of the file, without secrets.
    pub(super) written: Value,
    pub(super) mask: Option<&'r PrivacyMask>,
    /// Folder of `--keep-state`.
    pub(super) keep: Option<&'r Path>,
    pub(super) verbose: bool,
}

#[derive(Debug)]
enum StateDir {
    /// Removed at the end; the lock says until then that the run lives.
    Temporary(tempfile::TempDir, std::fs::File),
    Kept(PathBuf),
}

impl StateDir {
    fn path(&self) -> &Path {
        match self {
            Self::Temporary(dir, _) => dir.path(),
            Self::Kept(path) => path,
        }
    }
}

/// Variables of the agent with their secret values.
type Secrets = Vec<(String, SecretString)>;

impl RunEnvironment {
    /// Creates the state folder, starts the daemons and waits until the runtime answers.
    pub(super) async fn open(setup: RunSetup<'_>) -> Result<Self, Failure> {
        let runtime_program = runtime_program::path()?;
        remove_stale(&std::env::temp_dir());
        let config = setup.config;
        let state = state_dir(setup.keep)?;
        check_space(&state)?;
        let dir = state.path().to_path_buf();
        let (sinks, secrets) = sinks_with_secrets(config, &setup.written);
        // Without a broker nothing is published; without `[sinks]` every effect is refused.
        let has_effects = sinks.is_some();
        let needs_agent = config.mqtt.is_some() || has_effects;
        let file = write_config(&dir, &setup, sinks)?;
        link_folders(&dir.join(STATE), config)?;
        let args = [
            OsStr::new("--config"),
            file.as_os_str(),
            OsStr::new("--exit-with-parent"),
        ];
        let of_runtime = [&args[..], &[OsStr::new("--one-run")]].concat();
        let log_dir = (!setup.verbose).then_some(&*dir);
        let mut runtime = Program::start(&Launch {
            name: RUNTIME,
            program: &runtime_program,
            args: &of_runtime,
            log_dir,
        })?;
        let client = RuntimeClient::new(dir.join(SOCKET))?;
        let health = wait_until_up(&client, &mut runtime).await?;
        // After the runtime, or the agent's first message would report it as down.
        let started = needs_agent
            .then(|| start_agent(config, &args, log_dir, secrets))
            .transpose()?;
        let (agent, delivery) = started.unzip();
        Ok(Self {
            client,
            last_seq: health.last_seq,
            gave_up: false,
            has_effects,
            health,
            runtime,
            agent,
            delivery: delivery.flatten(),
            state,
        })
    }

    /// Returns the failure of a dead runtime. A dead agent is a note, once.
    pub(super) fn death(&mut self, out: &Output) -> Option<Failure> {
        if let Some(failure) = self.agent.as_mut().and_then(Program::death) {
            out.note(failure.to_string());
            self.agent = None;
        }
        if let Some(delivery) = &mut self.delivery {
            delivery.report(out);
        }
        self.runtime.death()
    }

    /// Asks for the status of a pipeline; `None` if the answer fails and may come at the next try.
    ///
    /// # Errors
    /// A runtime that died, or a failure that lasts.
    pub(super) async fn status(
        &mut self,
        pipeline: &PipelineId,
        out: &Output,
    ) -> Result<Option<PipelineStatus>, Failure> {
        if let Some(death) = self.death(out) {
            return Err(death);
        }
        match self.client.pipeline(pipeline).await {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.is_transient() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks for the status of a pipeline, every `interval`, until it takes no more frames or
    /// `timeout` has passed. Returns the last status, at first `known`.
    ///
    /// # Errors
    /// Those of [`status`](Self::status).
    pub(super) async fn wait_for_end(
        &mut self,
        pipeline: &PipelineId,
        mut known: Option<PipelineStatus>,
        [interval, timeout]: [Duration; 2],
        out: &Output,
    ) -> Result<Option<PipelineStatus>, Failure> {
        let deadline = Instant::now() + timeout;
        while known.as_ref().is_none_or(|it| it.state.takes_frames()) && Instant::now() < deadline {
            tokio::time::sleep(interval).await;
            known = self.status(pipeline, out).await?.or(known);
        }
        Ok(known)
    }

    /// Waits for effects and messages. Returns the failure of effects, and the number of the last
    /// record.
    async fn wait_for_outcomes(&mut self, out: &Output) -> (Option<Failure>, EventSeq) {
        let undone = match self.has_effects {
            true => {
                pending_effects::wait_for_effects(&self.client, &self.health.effects, out).await
            }
            false => {
                pending_effects::note_refused(&self.client, out).await;
                None
            }
        };
        let Some(delivery) = &mut self.delivery else {
            return (undone, self.last_seq);
        };
        let last = self.client.health().await.map(|health| health.last_seq);
        let last = last.unwrap_or(self.last_seq);
        delivery.wait_for_acks(last).await;
        delivery.report(out);
        (undone, last)
    }

    /// Stops the daemons and removes the state, unless it is kept. A signal ends the wait for
    /// effects and messages.
    ///
    /// Returns the failure of undelivered messages or effects.
    pub(super) async fn close(mut self, out: &Output) -> Option<Failure> {
        let waited = match self.gave_up {
            true => None,
            false => tokio::select! {
                waited = self.wait_for_outcomes(out) => Some(waited),
                () = signals::next() => None,
            },
        };
        let limit = match waited {
            Some(_) => STOP_TIMEOUT,
            None => SHORT_STOP_TIMEOUT,
        };
        let (undone, last) = waited.unwrap_or_else(|| {
            let unknown = || pending_effects::unknown("the run did not wait for them");
            (self.has_effects.then(unknown), self.last_seq)
        });
        if let Some(agent) = self.agent {
            agent.stop(limit).await;
        }
        self.runtime.stop(limit).await;
        match self.state {
            StateDir::Kept(path) => out.note(format!(
                "journal, snapshots and logs are in {}",
                path.display()
            )),
            StateDir::Temporary(dir, _lock) => {
                if let Err(e) = dir.close() {
                    out.note(format!("can't remove the temporary state folder: {e}"));
                }
            }
        }
        let undelivered = match &mut self.delivery {
            Some(delivery) => delivery.failure(last).await,
            None => None,
        };
        undelivered.or(undone)
    }
}

/// Returns the section `[sinks]` without secrets and logins of addresses, unless it allows nothing,
/// and the variables that hold them.
fn sinks_with_secrets(config: &Config, written: &Value) -> (Option<Value>, Secrets) {
    let sinks = &config.sinks;
    if sinks.hosts.is_empty() && sinks.folders.is_empty() && sinks.secrets.is_empty() {
        return (None, Vec::new());
    }
    let mut section = written["sinks"].clone();
    let mut secrets = Vec::new();
    for (name, source) in &sinks.secrets {
        if let SecretSource::Value(secret) = source {
            let variable = format!("{SECRET_PREFIX}{}", secrets.len());
            section["secrets"][name] = json!({"env": variable});
            secrets.push((variable, secret.clone()));
        }
    }
    for (key, url) in [
        ("slack_url", &sinks.slack_url),
        ("twilio_url", &sinks.twilio_url),
        ("s3_url", &sinks.s3_url),
    ] {
        let Some(url) = url else { continue };
        let without_login = without_login(url);
        if without_login != *url {
            let variable = format!("{ENV_PREFIX}SINKS__{}", key.to_uppercase());
            secrets.push((variable, url.as_str().into()));
        }
        section[key] = json!(without_login.as_str());
    }
    (Some(section), secrets)
}

fn without_login(url: &Url) -> Url {
    let mut url = url.clone();
    // Neither fails for an address with a host.
    url.set_username("").ok();
    url.set_password(None).ok();
    url
}

/// Starts the agent, which executes effects and publishes events to the broker of `--mqtt`.
fn start_agent(
    config: &Config,
    args: &[&OsStr],
    log_dir: Option<&Path>,
    mut secrets: Secrets,
) -> Result<(Program, Option<Delivery>), Failure> {
    let mqtt = config.mqtt.as_ref();
    let password = mqtt.and_then(|mqtt| mqtt.password.clone());
    secrets.extend(password.map(|password| (password_variable(), password)));
    let args = [args, &["--report", "--clear-at-end"].map(OsStr::new)].concat();
    // This program is the agent by another name.
    let program =
        std::env::current_exe().map_err(|e| Failure::new(Exit::NoRuntime, e.to_string()))?;
    let launch = Launch {
        name: AGENT,
        program: &program,
        args: &args,
        log_dir,
    };
    let (agent, stdout) = Program::start_piped(&launch, &secrets)?;
    let delivery = mqtt.zip(stdout).map(|(mqtt, stdout)| {
        let broker = format!("{}:{}", mqtt.host, mqtt.port);
        Delivery::listen(broker, mqtt.connect_timeout, stdout)
    });
    Ok((agent, delivery))
}

fn state_dir(keep: Option<&Path>) -> Result<StateDir, Failure> {
    let failed =
        |what: String, e: std::io::Error| Failure::failed(format!("can't create {what}: {e}"));
    match keep {
        Some(path) => {
            if path.exists() && !path.is_dir() {
                return Err(Failure::input(format!(
                    "--keep-state {}: not a folder; give a folder or a new name",
                    path.display()
                )));
            }
            std::fs::create_dir_all(path).map_err(|e| {
                Failure::input(format!(
                    "--keep-state {}: can't create the folder ({e}); name one that this user may write",
                    path.display()
                ))
            })?;
            let path =
                std::path::absolute(path).map_err(|e| failed(path.display().to_string(), e))?;
            Ok(StateDir::Kept(path))
        }
        None => state_folders::create()
            .map(|(folder, lock)| StateDir::Temporary(folder, lock))
            .map_err(|e| failed("a temporary folder".to_owned(), e)),
    }
}

/// Refuses an unwritable folder or a full disk before any daemon starts.
fn check_space(state: &StateDir) -> Result<(), Failure> {
    let path = state.path();
    let shown = path.display();
    if let Err(e) = tempfile::tempfile_in(path)
        && e.kind() != std::io::ErrorKind::StorageFull
    {
        return Err(Failure::input(format!(
            "{shown} can't be written ({e}); name a folder that this user may write with --keep-state"
        )));
    }
    let needed = Options::default().min_free_bytes;
    match storage::space(path) {
        Ok(space) if space.free < needed => Err(Failure::failed(format!(
            "the disk of {shown} is full ({} MiB free, {} needed); free some space, or name another folder with --keep-state",
            space.free >> 20,
            needed >> 20
        ))),
        // An unknown free space is not a reason to refuse.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Links folders that outlast the run into its state folder, where it looks for them. They are the
/// libraries of the box, and this user's results of models' checks.
fn link_folders(state: &Path, config: &Config) -> Result<(), Failure> {
    let checks = state_folder().map(|folder| folder.join(MODEL_CHECKS));
    // Without the folder each run checks its model.
    let checks = checks.ok().filter(|folder| make_private(folder).is_ok());
    let libraries = absolute(&config.state_libraries());
    for folder in checks.into_iter().chain([libraries]) {
        let Some(name) = folder.file_name().filter(|_| folder.is_dir()) else {
            continue;
        };
        let link = state.join(name);
        let linked = std::fs::create_dir_all(state).and_then(|()| match link.symlink_metadata() {
            // Of an earlier run with the same folder.
            Ok(_) => Ok(()),
            Err(_) => std::os::unix::fs::symlink(&folder, &link),
        });
        linked.map_err(|e| {
            let shown = link.display();
            Failure::failed(format!("can't create the link {shown}: {e}"))
        })?;
    }
    Ok(())
}

/// Writes the configuration of the run: inference, models, `[mqtt]` and `[sinks]`, the privacy
/// mask, paths in the state folder.
fn write_config(
    dir: &Path,
    setup: &RunSetup<'_>,
    sinks: Option<Value>,
) -> Result<PathBuf, Failure> {
    let RunSetup {
        config, written, ..
    } = setup;
    let mut inference = written["runtime"]["inference"].clone();
    // An engine takes minutes to build, and the folder of the run is temporary.
    if config.inference.engine_dir.is_none()
        && let Ok(state) = state_folder()
    {
        inference["engine_dir"] = json!(state.join("engines"));
    }
    let mut file = json!({
        "box": {"site": RUN_SITE, "id": config.box_id},
        "runtime": {
            "socket": dir.join(SOCKET),
            "socket_mode": "0600",
            "state_dir": dir.join(STATE),
            // Large enough that `--video` stays one file; the disk space guard still works.
            "recording_bytes": 1_u64 << 50,
            "inference": inference,
        },
        "agent": {"api": {"socket_mode": "0600"}},
    });
    // By default the runtime, of the same user, finds the same folders as this command.
    if let Some(models) = &config.models.dir {
        file["models"] = json!({"dir": absolute(models)});
    }
    if let Some(mask) = setup.mask {
        // Only a configuration sets a mask; the run deploys the source over this section.
        file["sources"][mask.source.as_str()] = json!({
            "uri": redact::uri(&mask.uri),
            "privacy": {"regions": mask.regions, "classes": mask.classes, "fill": mask.fill},
        });
    }
    if config.mqtt.is_some() {
        file["mqtt"] = written["mqtt"].clone();
        // The agent gets the password as a variable.
        if let Some(section) = file["mqtt"].as_object_mut() {
            section.retain(|key, _| !key.starts_with("password"));
        }
    }
    if let Some(sinks) = sinks {
        file["sinks"] = sinks;
    }
    let path = dir.join("watchkeeper.toml");
    let text = toml::to_string(&file)
        .map_err(|e| Failure::failed(format!("can't write the configuration of the run: {e}")))?;
    std::fs::write(&path, text).map_err(unwritten(&path))?;
    Ok(path)
}

async fn wait_until_up(client: &RuntimeClient, runtime: &mut Program) -> Result<Health, Failure> {
    let started = Instant::now();
    loop {
        if let Ok(health) = client.health().await {
            return Ok(health);
        }
        if let Some(mut failure) = runtime.death() {
            failure.sentence = format!("the runtime did not start: {}", failure.sentence);
            return Err(failure);
        }
        if started.elapsed() > START_TIMEOUT {
            let timeout = START_TIMEOUT.as_secs();
            let sentence = format!("the runtime did not answer within {timeout} s");
            return Err(Failure::new(Exit::NoRuntime, sentence).with(runtime.last_lines()));
        }
        tokio::time::sleep(START_POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use watchkeeper_config::{LoadRequest, effective, load};

    use super::*;

    #[test]
    fn login_of_an_address_is_in_a_variable_and_not_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("watchkeeper.toml");
        let text = "[sinks]\nhosts = [\"10.0.0.5\"]\n\
                    s3_url = \"http://user:hunter2@10.0.0.5:9000/\"\n";
        std::fs::write(&file, text).unwrap();
        let request = LoadRequest {
            file: Some(file),
            ..LoadRequest::default()
        };
        let config = load(&request).unwrap();
        let (section, secrets) = sinks_with_secrets(&config, &effective(&request, &config));
        let section = section.unwrap();
        assert_eq!(section["s3_url"], "http://10.0.0.5:9000/");
        assert!(!section.to_string().contains("hunter2"), "{section}");
        let [(variable, address)] = secrets.as_slice() else {
            panic!("{secrets:?}");
        };
        assert_eq!(variable, "WATCHKEEPER_SINKS__S3_URL");
        let address = secrecy::ExposeSecret::expose_secret(address);
        assert_eq!(address, "http://user:hunter2@10.0.0.5:9000/");
    }
}
