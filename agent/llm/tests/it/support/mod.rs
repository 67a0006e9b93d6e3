//! A bench: a scripted model, its client, a ledger in memory, and a clock that only sleeps move.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_llm::budget::{CallClass, Limits};
use watchkeeper_llm::catalogue::{Catalogue, Tier};
use watchkeeper_llm::client::Clock;
use watchkeeper_llm::conversation::{ToolResult, UserPart};
use watchkeeper_llm::ledger::{CallOutcome, Ledger};
use watchkeeper_llm::picture::Detail;
use watchkeeper_llm::raw_json::RawJson;
use watchkeeper_llm::tool::Tool;
use watchkeeper_llm::{
    CallOptions, Client, Conversation, Job, JobSpec, Key, LlmError, Parts, Reply, Settings,
};
use watchkeeper_scripted_model::{Script, Server, ServerKind, Settings as Served, Step};
use watchkeeper_store::{FaultyStore, MemoryStore};

/// The key that the scripted model accepts.
pub(crate) const KEY: &str = "sk-scripted-0123456789abcdefghij";

/// 2026-11-22T12:00:00Z
pub(crate) const NOON: i64 = 1_795_348_800_000;

/// A clock that advances only by sleeps.
#[derive(Debug)]
pub(crate) struct TestClock {
    start: Instant,
    pauses: Mutex<Vec<Duration>>,
}

impl TestClock {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            pauses: Mutex::default(),
        }
    }

    /// The length of each sleep.
    pub(crate) fn pauses(&self) -> Vec<Duration> {
        self.pauses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Advances the clock.
    pub(crate) fn pass(&self, time: Duration) {
        self.pauses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(time);
    }

    fn passed(&self) -> Duration {
        self.pauses().iter().sum()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Instant {
        self.start + self.passed()
    }

    fn wall(&self) -> Wall {
        let passed = i64::try_from(self.passed().as_millis()).unwrap_or_default();
        Wall {
            unix_ms: NOON + passed,
            quality: TimeQuality::Synced,
        }
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'_, ()> {
        self.pass(pause);
        std::future::ready(()).boxed()
    }

    fn random(&self) -> f64 {
        0.5
    }
}

/// The server that is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Claude,
    Openai,
    Gemini,
    /// A local server: Ollama, which speaks Claude's protocol.
    Local,
}

impl Wire {
    pub(crate) const ALL: [Self; 4] = [Self::Claude, Self::Openai, Self::Gemini, Self::Local];

    /// Name of the protocol in the model file.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Openai => "openai",
            Self::Gemini => "gemini",
            Self::Local => "local",
        }
    }

    fn server_kind(self) -> ServerKind {
        let recording = |file: &str| {
            let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
            ServerKind::Recorded(tests.join("recorded").join(file))
        };
        match self {
            Self::Claude => ServerKind::Claude,
            Self::Local => ServerKind::Ollama,
            Self::Openai => recording("openai.json"),
            Self::Gemini => recording("gemini.json"),
        }
    }
}

pub(crate) type TestStore = Arc<FaultyStore<MemoryStore>>;

pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) store: TestStore,
}

/// Generous limits; a test sets the one it needs.
pub(crate) fn limits() -> Limits {
    Limits {
        calls_per_hour: 1_000,
        ..Limits::default()
    }
}

pub(crate) fn settings(server: &Server) -> Settings {
    settings_of(Wire::Claude, server)
}

fn settings_of(wire: Wire, server: &Server) -> Settings {
    let mut settings = Settings::new(wire.name());
    settings.base_url = Some(server.base_url());
    settings
}

impl Bench {
    pub(crate) async fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::with(limits(), steps, |_| {}).await
    }

    pub(crate) async fn on(wire: Wire, steps: impl IntoIterator<Item = Step>) -> Self {
        Self::at(wire, limits(), steps, |_| {}).await
    }

    pub(crate) async fn with(
        limits: Limits,
        steps: impl IntoIterator<Item = Step>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        Self::at(Wire::Claude, limits, steps, change).await
    }

    pub(crate) async fn at(
        wire: Wire,
        limits: Limits,
        steps: impl IntoIterator<Item = Step>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let steps = steps.into_iter().collect();
        let served = Served {
            key: Some(KEY.to_owned()),
            script: Script { steps },
            kind: wire.server_kind(),
            ..Served::default()
        };
        let server = Server::with(served).await.expect("server");
        Self::around(wire, limits, server, change)
    }

    /// A bench over a running server.
    pub(crate) fn over(server: Server) -> Self {
        Self::around(Wire::Claude, limits(), server, |_| {})
    }

    fn around(
        wire: Wire,
        limits: Limits,
        server: Server,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = settings_of(wire, &server);
        change(&mut settings);
        let store: TestStore = Arc::new(FaultyStore::new(MemoryStore::new()));
        let clock = Arc::new(TestClock::new());
        let ledger = Ledger::open(store.clone(), Path::new("/state"), limits).expect("ledger");
        let parts = Parts {
            catalogue: Catalogue::built_in().expect("catalogue"),
            // A local server asks for none.
            key: (wire != Wire::Local).then(|| Key::new(KEY, "a test").expect("key")),
            ledger: Arc::new(ledger),
            clock: clock.clone(),
        };
        let client = Client::new(&settings, parts).expect("client");
        Self {
            server,
            client,
            clock,
            store,
        }
    }

    /// Another client of the same server, with another key.
    pub(crate) fn with_key(&self, key: &str, wire: Wire) -> Client {
        let parts = Parts {
            catalogue: Catalogue::built_in().expect("catalogue"),
            key: Key::new(key, "a test").ok(),
            ledger: Arc::new(
                Ledger::open(self.store.clone(), Path::new("/state"), limits()).expect("ledger"),
            ),
            clock: self.clock.clone(),
        };
        Client::new(&settings_of(wire, &self.server), parts).expect("client")
    }

    /// A job that has two minutes.
    pub(crate) fn job(&self, tier: Tier) -> Job {
        self.client.start_job(JobSpec {
            name: "test".to_owned(),
            class: CallClass::Person,
            rule: None,
            tier,
            detail: Detail::Medium,
            time: Duration::from_secs(120),
        })
    }

    /// Checks that the contract was kept and the ledger is consistent.
    pub(crate) fn check(&self) {
        assert_eq!(self.server.violations(), Vec::<String>::new());
        let report = self.client.report();
        let open = report
            .calls
            .iter()
            .filter(|call| call.outcome == CallOutcome::Open);
        assert_eq!(open.count(), 0, "calls without an end in the ledger");
        let sum: u64 = report.calls.iter().map(|call| call.cost.0).sum();
        assert_eq!(report.month.0, sum);
        let stored =
            Ledger::open(self.store.clone(), Path::new("/state"), report.limits).expect("again");
        assert_eq!(
            stored.report(self.clock.now(), self.clock.wall()),
            report,
            "on the disk"
        );
    }
}

/// A tool without a guaranteed schema.
pub(crate) fn snapshot_tool() -> Tool {
    let schema = r#"{"type":"object","properties":{"camera":{"type":"string"}},"required":["camera"],"additionalProperties":false}"#;
    let schema = RawJson::new(schema.to_owned()).expect("schema");
    Tool::new("get_snapshot", "A picture of a camera.", schema, true).expect("tool")
}

/// A request with a tool.
pub(crate) fn setup_talk() -> Conversation {
    let system = vec!["You set watches up.".to_owned()];
    let mut talk = Conversation::new(system, vec![snapshot_tool()]).expect("new");
    talk.push_user(vec!["Watch the dock.".into()])
        .expect("user");
    talk
}

/// A question without tools.
pub(crate) fn verdict_talk() -> Conversation {
    let mut talk =
        Conversation::new(vec!["You judge events.".to_owned()], Vec::new()).expect("new");
    talk.push_user(vec!["Is somebody there?".into()])
        .expect("user");
    talk
}

/// Results for every open call.
pub(crate) fn results(talk: &Conversation, parts: &[UserPart]) -> Vec<ToolResult> {
    let calls = talk.open_calls().into_iter();
    calls
        .map(|call| ToolResult {
            call: call.id.clone(),
            parts: parts.to_vec(),
            is_error: false,
        })
        .collect()
}

/// Asks and ignores the retries.
pub(crate) async fn ask(
    job: &mut Job,
    talk: &Conversation,
    ask: &CallOptions,
) -> Result<Reply, LlmError> {
    job.ask(talk, ask, &mut |_, _| {}).await
}
