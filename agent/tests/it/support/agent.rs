//! The agent as a process with its own configuration, killed when dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use super::fake_runtime::FakeRuntime;

/// Writes the configuration of a box, with the sections `more`; without a broker for port 0.
pub(super) fn write_config(
    folder: &Path,
    runtime: &FakeRuntime,
    broker_port: u16,
    more: &str,
) -> PathBuf {
    let config = folder.join("watchkeeper.toml");
    let (state, socket) = (folder.join("state"), runtime.socket());
    let broker = match broker_port {
        0 => String::new(),
        port => format!("[mqtt]\nhost = \"127.0.0.1\"\nport = {port}\ncommands = \"all\"\n\n"),
    };
    let text = format!(
        "[box]\nsite = \"s\"\nid = \"b\"\n\n[runtime]\nstate_dir = {state:?}\n\
         socket = {socket:?}\n\n{broker}{more}"
    );
    std::fs::write(&config, text).expect("write the configuration");
    config
}

pub(crate) struct AgentProcess {
    config: PathBuf,
    child: Child,
}

impl AgentProcess {
    pub(crate) fn start(folder: &Path, runtime: &FakeRuntime, broker_port: u16) -> Self {
        Self::start_with(folder, runtime, broker_port, "")
    }

    /// Starts the agent with the sections `more` added to its configuration.
    pub(crate) fn start_with(
        folder: &Path,
        runtime: &FakeRuntime,
        broker_port: u16,
        more: &str,
    ) -> Self {
        let config = write_config(folder, runtime, broker_port, more);
        let child = spawn(&config);
        Self { config, child }
    }

    /// Kills the agent by SIGKILL and starts it with the same state folder.
    pub(crate) fn crash_and_restart(&mut self) {
        self.crash();
        self.restart();
    }

    /// Starts the agent with the same state folder, after [`Self::crash`].
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.config);
    }

    pub(crate) fn crash(&mut self) {
        self.child.kill().expect("kill the agent");
        self.child.wait().expect("reap the agent");
    }

    /// Sends SIGTERM and returns the exit status.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .expect("kill");
        assert!(killed.success());
        self.child.wait().expect("reap the agent")
    }

    /// Closes standard input, as a dead parent does, and returns the exit status.
    pub(crate) fn orphan(&mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().expect("reap the agent")
    }
}

fn spawn(config: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_watchkeeper-agent"))
        .arg("--config")
        .arg(config)
        .arg("--exit-with-parent")
        .env("RUST_LOG", "info,watchkeeper_agent=debug")
        .stdin(Stdio::piped())
        .spawn()
        .expect("start the agent")
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
