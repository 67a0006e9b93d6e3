//! The agent's real process with a configuration of its own, killed when dropped; and the agent as a thread, for what no
//! configuration says.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::sync::oneshot;
use watchkeeper_agent::agent::{Agent, Setup};
use watchkeeper_agent::mqtt::link::{Broker, Keys};
use watchkeeper_agent::outbox::Limits;
use watchkeeper_contract::id::{BoxId, SiteId};

use super::fake_runtime::FakeRuntime;

pub(crate) struct AgentProcess {
    config: PathBuf,
    child: Child,
}

impl AgentProcess {
    pub(crate) fn start(folder: &Path, runtime: &FakeRuntime, broker_port: u16) -> Self {
        Self::start_with(folder, runtime, broker_port, "")
    }

    /// With more sections in its configuration.
    pub(crate) fn start_with(
        folder: &Path,
        runtime: &FakeRuntime,
        broker_port: u16,
        more: &str,
    ) -> Self {
        let config = folder.join("watchkeeper.toml");
        let text = format!(
            "[box]\nsite = \"s\"\nid = \"b\"\n\n[runtime]\nstate_dir = {:?}\nsocket = {:?}\n\n\
             [mqtt]\nhost = \"127.0.0.1\"\nport = {}\n\n{more}",
            folder.join("state"),
            runtime.socket(),
            broker_port,
        );
        std::fs::write(&config, text).expect("write the configuration");
        let child = spawn(&config);
        Self { config, child }
    }

    /// kill -9, then a fresh start on the same state folder.
    pub(crate) fn crash_and_restart(&mut self) {
        self.crash();
        self.restart();
    }

    /// A fresh start on the same state folder, after [`Self::crash`].
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.config);
    }

    /// kill -9.
    pub(crate) fn crash(&mut self) {
        self.child.kill().expect("kill the agent");
        self.child.wait().expect("reap the agent");
    }

    /// SIGTERM, and the exit status.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .expect("kill");
        assert!(killed.success());
        self.child.wait().expect("reap the agent")
    }

    /// Closes its standard input, and the exit status.
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

/// The agent on a thread of its own; stops when dropped.
pub(crate) struct EmbeddedAgent {
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl EmbeddedAgent {
    pub(crate) fn start(
        folder: &Path,
        runtime: &FakeRuntime,
        broker_port: u16,
        change: impl FnOnce(&mut Setup),
    ) -> Self {
        let mut setup = Setup {
            site: SiteId::new("s").expect("name"),
            box_id: BoxId::new("b").expect("name"),
            state_dir: folder.join("state"),
            runtime_socket: runtime.socket().to_owned(),
            broker: Some(Broker {
                host: "127.0.0.1".to_owned(),
                port: broker_port,
                client_id: "b".to_owned(),
                username: None,
                password: None,
                tls: false,
                ca_file: None,
                client_cert: None,
                connect_timeout: Duration::from_secs(5),
                keep_alive: Duration::from_secs(30),
                keys: Keys::OWN,
            }),
            limits: Limits::default(),
            telemetry_every: Duration::from_secs(60),
            flood_pause: Duration::from_secs(3600),
            sinks: watchkeeper_config::SinksConfig::default(),
            channels: Vec::new(),
            opinions: None,
            api: None,
            memory: Default::default(),
            heartbeat: None,
        };
        change(&mut setup);
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let event_loop = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("an event loop");
            event_loop.block_on(async {
                let agent = Agent::start(setup).expect("start");
                let stop = async { stopped.await.unwrap_or_default() };
                agent.run(stop).await.expect("run");
            });
        });
        Self { stop, thread }
    }

    /// Stops it in order.
    pub(crate) fn stop(self) {
        self.stop.send(()).expect("it runs");
        self.thread.join().expect("it ended in order");
    }
}
