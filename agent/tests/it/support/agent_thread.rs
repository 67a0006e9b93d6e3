//! The agent as a thread of the test, for settings that the configuration file lacks.

use std::path::Path;
use std::time::Duration;

use tokio::sync::oneshot;
use watchkeeper_agent::run::Agent;
use watchkeeper_config::{Config, LoadRequest, load};

use super::agent::write_config;
use super::agent_api::SOCKET;
use super::broker::WAIT_TIMEOUT;
use super::fake_runtime::FakeRuntime;

/// The agent on its own thread; stops when dropped.
pub(crate) struct EmbeddedAgent {
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl EmbeddedAgent {
    pub(crate) fn start(
        folder: &Path,
        runtime: &FakeRuntime,
        broker_port: u16,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        Self::start_with(folder, runtime, broker_port, WAIT_TIMEOUT, change)
    }

    /// Starts an agent whose second opinions take at most `opinion_timeout`.
    pub(crate) fn start_with(
        folder: &Path,
        runtime: &FakeRuntime,
        broker_port: u16,
        opinion_timeout: Duration,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let socket = folder.join(SOCKET);
        let agent =
            format!("[agent.api]\nsocket = {socket:?}\n\n[agent.archive]\nindex_events = false\n");
        let request = LoadRequest {
            file: Some(write_config(folder, runtime, broker_port, &agent)),
            hostname: "h".to_owned(),
            ..LoadRequest::default()
        };
        let mut config = load(&request).expect("a configuration");
        config.memory = Default::default();
        change(&mut config);
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let event_loop = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("an event loop");
            event_loop.block_on(async {
                let agent = Agent::start(&config, opinion_timeout).expect("start");
                let stop = async { stopped.await.unwrap_or_default() };
                agent.run(stop).await.expect("run");
            });
        });
        Self { stop, thread }
    }

    /// Stops the agent and joins its thread.
    pub(crate) fn stop(self) {
        self.stop.send(()).expect("it runs");
        self.thread.join().expect("it ended in order");
    }
}
