//! The temporary house a run lives in: a state folder, a configuration, and the daemons in it.
//!
//! Owns their order: the runtime first, the agent once there is something to follow, the agent's end before the runtime's. Invariants: no daemon outlives
//! the run, however that ends; nothing but a folder that a person named is left behind; a password and a secret that the configuration holds are told the agent by its environment and stand in no file.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use watchkeeper_board::storage;
use watchkeeper_config::Config;
use watchkeeper_contract::health::Health;
use watchkeeper_store::Options;

use super::children::{Program, find, password_variable};
use super::delivery::Delivery;
use super::pending_effects;
use crate::configuration::{RUN_SITE, absolute, inference_section, mqtt_section, sinks_section};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use watchkeeper_client::RuntimeClient;

/// Beginning of the name of a temporary state folder; the process follows.
const TEMPORARY: &str = "watchkeeper-run-";
/// Beginning of the variables by which the agent is told secrets; no key of the configuration is meant by them.
const SECRET: &str = "WATCHKEEPER_RUN_SECRET_";
/// How long the runtime may take to answer.
const START: Duration = Duration::from_secs(30);

/// State folder, daemons and a client of the runtime.
#[derive(Debug)]
pub(super) struct House {
    /// Client of the runtime.
    pub(super) client: RuntimeClient,
    /// Health at the start: new events come after its `last_seq`.
    pub(super) health: Health,
    runtime: Program,
    /// Absent after it died: the run continues without it.
    agent: Option<Program>,
    /// What becomes of the events at a broker that a person named.
    delivery: Option<Delivery>,
    state: StateDir,
}

/// The state folder.
#[derive(Debug)]
enum StateDir {
    /// Removed at the end.
    Temporary(tempfile::TempDir),
    /// Kept.
    Kept(PathBuf),
}

impl StateDir {
    fn path(&self) -> &Path {
        match self {
            Self::Temporary(dir) => dir.path(),
            Self::Kept(path) => path,
        }
    }
}

impl House {
    /// Opens the house: makes the state folder, starts the daemons and waits until the runtime answers.
    pub(super) async fn open(
        config: &Config,
        keep: Option<&Path>,
        verbose: bool,
    ) -> Result<Self, Failure> {
        let runtime_program = find("watchkeeper-runtime").ok_or_else(|| {
            Failure::new(
                Exit::NoRuntime,
                "watchkeeper-runtime is neither beside this program nor on PATH; `cargo build -p watchkeeper-runtime` makes it",
            )
        })?;
        remove_stale(&std::env::temp_dir());
        let state = state_dir(keep)?;
        check_room(&state)?;
        let dir = state.path().to_path_buf();
        let named = config.mqtt.as_ref();
        let broker = named.map(mqtt_section);
        let mut secrets = Vec::new();
        let sinks = sinks_section(&config.sinks, ToString::to_string, |_, secret| {
            let variable = format!("{SECRET}{}", secrets.len());
            secrets.push((variable.clone(), secret.clone()));
            json!({"env": variable})
        });
        let file = write_config(&dir, config, broker, sinks)?;
        let args = [
            OsStr::new("--config"),
            file.as_os_str(),
            OsStr::new("--exit-with-parent"),
        ];
        let mut runtime = Program::start(
            "watchkeeper-runtime",
            &runtime_program,
            &args,
            &dir,
            verbose,
        )?;
        let client = RuntimeClient::new(dir.join("runtime.sock"))?;
        let health = wait_until_up(&client, &mut runtime).await?;
        // Started once there is something to follow, or its first report would be that the runtime is down.
        let password = named.and_then(|mqtt| mqtt.password.clone());
        secrets.extend(password.map(|password| (password_variable(), password)));
        let agent_args = [&args[..], &["--report", "--clear-at-end"].map(OsStr::new)].concat();
        let this =
            std::env::current_exe().map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
        let (agent, said) = Program::start_heard(
            watchkeeper_agent::program::NAME,
            &this,
            &agent_args,
            &dir,
            verbose,
            &secrets,
        )?;
        let delivery = named.zip(said).map(|(mqtt, said)| {
            let broker = format!("{}:{}", mqtt.host, mqtt.port);
            Delivery::listen(broker, mqtt.connect_timeout, said)
        });
        Ok(Self {
            client,
            health,
            runtime,
            agent: Some(agent),
            delivery,
            state,
        })
    }

    /// The failure when the runtime has died. A dead agent is reported once and the run continues.
    pub(super) fn death(&mut self, out: &Output) -> Option<Failure> {
        if let Some(failure) = self.agent.as_mut().and_then(Program::death) {
            out.note(failure.to_string());
            self.agent = None;
        }
        if let Some(delivery) = &mut self.delivery {
            delivery.tell(out);
        }
        self.runtime.death()
    }

    /// Stops the daemons, the agent first, and removes the state unless it is kept. Answers what a broker that a person
    /// named did not take, or what the workflow wanted done and nobody did.
    pub(super) async fn close(mut self, out: &Output) -> Option<Failure> {
        let undone = pending_effects::settle(&self.client, &self.health.effects, out).await;
        let last = match &mut self.delivery {
            Some(delivery) => {
                let last = self.client.health().await.map(|health| health.last_seq);
                let last = last.unwrap_or(self.health.last_seq);
                delivery.settle(last).await;
                delivery.tell(out);
                last
            }
            None => self.health.last_seq,
        };
        if let Some(agent) = self.agent {
            agent.stop().await;
        }
        self.runtime.stop().await;
        match self.state {
            StateDir::Kept(path) => out.note(format!(
                "journal, pictures and logs are in {}",
                path.display()
            )),
            StateDir::Temporary(dir) => {
                if let Err(e) = dir.close() {
                    out.note(format!("the temporary state could not be removed: {e}"));
                }
            }
        }
        let undelivered = match &mut self.delivery {
            Some(delivery) => delivery.verdict(last).await,
            None => None,
        };
        undelivered.or(undone)
    }
}

/// Removes the state of runs that were killed: ours, and no process of its number is there any more.
fn remove_stale(temp: &Path) {
    let us = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(temp).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| {
            let (pid, _) = name.strip_prefix(TEMPORARY)?.split_once('-')?;
            pid.parse::<u32>().ok()
        });
        let Some(pid) = pid else { continue };
        let is_dead = !Path::new("/proc").join(pid.to_string()).exists();
        // Not through a link, and nothing of somebody else.
        let is_ours = entry
            .path()
            .symlink_metadata()
            .is_ok_and(|found| found.is_dir() && found.uid() == us);
        if is_dead && is_ours {
            // What can't be removed is tried again by the next run.
            std::fs::remove_dir_all(entry.path()).ok();
        }
    }
}

fn state_dir(keep: Option<&Path>) -> Result<StateDir, Failure> {
    let failed = |what: String, e: std::io::Error| {
        Failure::new(Exit::Failed, format!("can't make {what}: {e}"))
    };
    match keep {
        Some(path) => {
            if path.exists() && !path.is_dir() {
                return Err(Failure::input(format!(
                    "--keep-state {} is no folder; give one, or a name that is still free",
                    path.display()
                )));
            }
            std::fs::create_dir_all(path).map_err(|e| {
                Failure::input(format!(
                    "--keep-state {}: the folder can't be made ({e}); name one that this user may write",
                    path.display()
                ))
            })?;
            let path =
                std::path::absolute(path).map_err(|e| failed(path.display().to_string(), e))?;
            Ok(StateDir::Kept(path))
        }
        None => tempfile::Builder::new()
            .prefix(&format!("{TEMPORARY}{}-", std::process::id()))
            .tempdir()
            .map(StateDir::Temporary)
            .map_err(|e| failed("a temporary folder".to_owned(), e)),
    }
}

/// Says before anything is started what the runtime would refuse: a folder that can't be written, a disk without room.
fn check_room(state: &StateDir) -> Result<(), Failure> {
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
        Ok(space) if space.free < needed => Err(Failure::new(
            Exit::Failed,
            format!(
                "the disk of {shown} is full ({} MiB free, {} needed); free some space, or name another folder with --keep-state",
                space.free >> 20,
                needed >> 20
            ),
        )),
        // What can't be asked is found out by trying.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Writes the configuration of the run: the box's own engine, models and `[sinks]`, everything else in the state folder.
fn write_config(
    dir: &Path,
    config: &Config,
    broker: Option<Value>,
    sinks: Option<Value>,
) -> Result<PathBuf, Failure> {
    let library = config.inference.ort_library.as_deref().map(absolute);
    let inference = inference_section(config, library.as_deref());
    let mut file = json!({
        "box": {"site": RUN_SITE, "id": config.box_id},
        "runtime": {
            "socket": dir.join("runtime.sock"),
            "socket_mode": "0600",
            "state_dir": dir.join("state"),
            // Parts that never get too long, so that `--video` is one file where it can be; room on the disk is looked after all the same.
            "recording_bytes": 1_u64 << 50,
            "inference": inference,
        },
        "agent": {"api": {"socket_mode": "0600"}},
    });
    // Left out, the runtime finds the same folders as this command: it runs as the same user.
    if let Some(models) = &config.models.dir {
        file["models"] = json!({"dir": absolute(models)});
    }
    if let Some(broker) = broker {
        file["mqtt"] = broker;
    }
    if let Some(sinks) = sinks {
        file["sinks"] = sinks;
    }
    let path = dir.join("watchkeeper.toml");
    let text = toml::to_string(&file).map_err(|e| {
        Failure::new(
            Exit::Failed,
            format!("can't write the configuration of the run: {e}"),
        )
    })?;
    std::fs::write(&path, text)
        .map_err(|e| Failure::new(Exit::Failed, format!("can't write {}: {e}", path.display())))?;
    Ok(path)
}

async fn wait_until_up(client: &RuntimeClient, runtime: &mut Program) -> Result<Health, Failure> {
    let begun = Instant::now();
    loop {
        if let Ok(health) = client.health().await {
            return Ok(health);
        }
        if let Some(mut failure) = runtime.death() {
            failure.sentence = format!("the runtime did not start: {}", failure.sentence);
            return Err(failure);
        }
        if begun.elapsed() > START {
            let sentence = format!("the runtime did not answer within {} s", START.as_secs());
            return Err(Failure::new(Exit::NoRuntime, sentence).with(runtime.last_lines()));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use super::*;

    #[test]
    fn the_state_of_a_killed_run_is_removed_and_that_of_a_living_one_is_not() {
        let temp = tempfile::tempdir().unwrap();
        // Beyond the largest process number that Linux gives away.
        let dead = temp.path().join(format!("{TEMPORARY}4294967295-a"));
        let living = temp
            .path()
            .join(format!("{TEMPORARY}{}-b", std::process::id()));
        let other = temp.path().join("watchkeeper-run-notes");
        for folder in [&dead, &living, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        remove_stale(temp.path());
        assert!(!dead.exists() && living.exists() && other.exists());
    }
}
