//! The key is in one header and nowhere else.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;
use watchkeeper_llm::catalogue::{Catalogue, Tier};
use watchkeeper_llm::client::SetupError;
use watchkeeper_llm::{CallOptions, Client, Key, Parts, Settings};
use watchkeeper_scripted_model::{Fault, Step};

use crate::support::{Bench, KEY, ask, verdict_talk};

/// Everything that was logged.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;
    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn key_is_in_no_log_error_or_debug_when_the_server_repeats_it() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let repeats = |status| Fault::Status {
        status,
        content_type: "text/plain".to_owned(),
        body: "no: {key}".to_owned(),
    };
    let steps = [Step::from(repeats(500)), Step::from(repeats(401))];
    let bench = Bench::new(steps).await;
    let result = ask(
        &mut bench.job(Tier::Small),
        &verdict_talk(),
        &CallOptions::new(100),
    )
    .await;
    let error = result.expect_err("refused");
    assert!(error.in_full().contains("no: ***"), "{error:?}");
    let sent = bench.server.requests();
    assert_eq!(sent[0].header("x-api-key"), Some(KEY));
    let logged = log.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let logged = String::from_utf8_lossy(&logged).into_owned();
    assert!(logged.contains("call to the model failed"), "{logged}");
    for text in [format!("{error} {error:?} {:?}", bench.client), logged] {
        assert!(
            !text.contains(&KEY[..12]) && !text.contains(&KEY[KEY.len() - 12..]),
            "{text}"
        );
    }
}

#[tokio::test]
async fn wrong_key_names_the_remedy_and_suspends_calls() {
    let bench = Bench::new([Step::text("never")]).await;
    let parts = |key: &str| Parts {
        catalogue: Catalogue::built_in().expect("catalogue"),
        key: Key::new(key, "a test").ok(),
        ledger: Arc::new(
            watchkeeper_llm::ledger::Ledger::open(
                bench.store.clone(),
                std::path::Path::new("/state"),
                crate::support::limits(),
            )
            .expect("ledger"),
        ),
        clock: bench.clock.clone(),
    };
    let settings = crate::support::settings(&bench.server);
    let client = Client::new(&settings, parts("wrong-key-0123456789")).expect("client");
    let spec = |name: &str| watchkeeper_llm::JobSpec {
        name: name.to_owned(),
        class: watchkeeper_llm::budget::CallClass::Person,
        rule: None,
        tier: Tier::Small,
        detail: watchkeeper_llm::picture::Detail::Low,
        time: std::time::Duration::from_secs(20),
    };
    let said = ask(
        &mut client.start_job(spec("a")),
        &verdict_talk(),
        &CallOptions::new(100),
    )
    .await;
    let said = said.expect_err("wrong key").to_string();
    assert!(
        said.contains("does not accept the key") && !said.contains("wrong-key"),
        "{said}"
    );
    let said = ask(
        &mut client.start_job(spec("b")),
        &verdict_talk(),
        &CallOptions::new(100),
    )
    .await;
    let said = said.expect_err("suspended").to_string();
    assert!(
        said.contains("put a valid key into the credential"),
        "{said}"
    );
    assert_eq!(bench.server.requests().len(), 1);
    // A new client, as after a change of the configuration, tries at once.
    let client = Client::new(&settings, parts(KEY)).expect("client");
    ask(
        &mut client.start_job(spec("c")),
        &verdict_talk(),
        &CallOptions::new(100),
    )
    .await
    .expect("an answer");
}

#[tokio::test]
async fn client_without_key_or_encryption_is_refused() {
    let bench = Bench::new([]).await;
    let make = |url: &str, key: Option<&str>| {
        let mut settings = Settings::new("claude");
        settings.base_url = Some(url.to_owned());
        let store = Arc::new(watchkeeper_store::MemoryStore::new());
        let ledger = watchkeeper_llm::ledger::Ledger::open(
            store,
            std::path::Path::new("/state"),
            crate::support::limits(),
        );
        let parts = Parts {
            catalogue: Catalogue::built_in().expect("catalogue"),
            key: key.and_then(|key| Key::new(key, "a test").ok()),
            ledger: Arc::new(ledger.expect("ledger")),
            clock: bench.clock.clone(),
        };
        Client::new(&settings, parts)
    };
    let plain = make("http://models.example", Some(KEY));
    assert!(matches!(plain, Err(SetupError::PlainKey(host)) if host == "models.example"));
    assert!(matches!(
        make("https://models.example", None),
        Err(SetupError::NoKey(_))
    ));
    let said = make("https://me:secret@models.example", None)
        .map(drop)
        .expect_err("a credential");
    assert!(!said.to_string().contains("secret"), "{said}");
    make("http://[::1]:1/", Some(KEY))
        .map(drop)
        .expect("loopback");
}
