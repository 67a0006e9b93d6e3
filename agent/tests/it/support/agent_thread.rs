//! The agent as a thread of the test, for settings that the configuration file lacks.

use std::path::Path;
use std::time::Duration;

use tokio::sync::oneshot;
use watchkeeper_agent::fleet::mqtt::broker::{Broker, Keys};
use watchkeeper_agent::fleet::outbox::Limits;
use watchkeeper_agent::run::{Agent, Setup};
use watchkeeper_config::{CommandAccess, MqttConfig};
use watchkeeper_contract::id::{BoxId, SiteId};

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
        change: impl FnOnce(&mut Setup),
    ) -> Self {
        let mut setup = Setup {
            site: SiteId::new("s").expect("name"),
            box_id: BoxId::new("b").expect("name"),
            state_dir: folder.join("state"),
            runtime_socket: runtime.socket().to_owned(),
            broker: Some(Broker {
                settings: MqttConfig {
                    commands: CommandAccess::All,
                    password_file: None,
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
                },
                keys: Keys::OWN,
            }),
            limits: Limits::default(),
            telemetry_every: Duration::from_secs(60),
            sinks: watchkeeper_config::SinksConfig::default(),
            channels: Vec::new(),
            opinions: None,
            lookups: Vec::new(),
            references: watchkeeper_config::ReferencesConfig::default(),
            api: None,
            memory: Default::default(),
            heartbeat: None,
            audit: Default::default(),
            job_limits: watchkeeper_config::JobLimitsConfig {
                max_jobs: 10,
                max_bytes: 1 << 30,
                max_days: 1,
            },
            job_tools: Default::default(),
            schedules: Vec::new(),
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

    /// Stops the agent and joins its thread.
    pub(crate) fn stop(self) {
        self.stop.send(()).expect("it runs");
        self.thread.join().expect("it ended in order");
    }
}
