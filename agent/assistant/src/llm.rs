//! The configured LLM client: opens it on first use, with its key, its limits and its ledger, and
//! asks it with a trace.
//!
//! - A question is audited as `model`, or as `model_away` if there is no reply; a failed attempt
//!   before it as `model_again`.
//! - Nothing is opened before the first use, so an error in `[llm]` stops nothing else.
//! - Every error is one sentence without the key.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use watchkeeper_config::{LlmConfig, bounded};
use watchkeeper_llm::attempt_error::AttemptError;
use watchkeeper_llm::budget::Limits;
use watchkeeper_llm::catalogue::Catalogue;
use watchkeeper_llm::client::{LlmError, SetupError, SystemClock};
use watchkeeper_llm::key::{CREDENTIALS_VARIABLE, KeySource};
use watchkeeper_llm::ledger::Ledger;
use watchkeeper_llm::money::Money;
use watchkeeper_llm::{
    CallOptions, Client, Conversation, Job, JobSpec, Key, Parts, Reply, Settings,
};
use watchkeeper_store::{Store, StoreError};

use crate::blueprint::Blueprint;
use crate::trace::{Trace, note_in_background};
use watchkeeper_client::clock::wall_now;

/// Asks the model of `job` and traces each attempt, with `details` about the question.
///
/// # Errors
/// As [`Job::ask`].
pub async fn ask_traced(
    trace: Option<&Trace>,
    job: &mut Job,
    conversation: &Conversation,
    options: &CallOptions,
    details: Value,
) -> Result<Reply, LlmError> {
    ask_and_report(trace, job, conversation, options, details, &mut |_, _| {}).await
}

/// Like [`ask_traced`]; hands each failed attempt, with the pause after it, to `on_retry` at once.
///
/// # Errors
/// As [`Job::ask`].
pub(crate) async fn ask_and_report(
    trace: Option<&Trace>,
    job: &mut Job,
    conversation: &Conversation,
    options: &CallOptions,
    mut details: Value,
    on_retry: &mut (dyn FnMut(&AttemptError, Duration) + Send),
) -> Result<Reply, LlmError> {
    let before = job.spent();
    let mut retries = Vec::new();
    let mut note_retry = |error: &AttemptError, pause| {
        on_retry(error, pause);
        retries.push(error.in_full());
    };
    let reply = job.ask(conversation, options, &mut note_retry).await;
    details["provider"] = json!(job.model().provider);
    details["model"] = json!(job.model().id);
    for sentence in retries {
        let mut attempt = details.clone();
        attempt["sentence"] = sentence.into();
        note_in_background(trace, "model_again", attempt).await;
    }
    let (usage, cost) = job.spent();
    details["usd"] = json!(Money(cost.0.saturating_sub(before.1.0)).dollars());
    details["tokens"] = json!(usage.total().saturating_sub(before.0.total()));
    let what = match &reply {
        Ok(reply) => {
            details["stop"] = json!(reply.stop);
            "model"
        }
        Err(error) => {
            details["sentence"] = json!(error.in_full());
            "model_away"
        }
    };
    note_in_background(trace, what, details).await;
    reply
}

/// The LLM client of a `[llm]` section, opened on first use.
#[derive(Debug)]
pub struct LazyLlmClient {
    config: LlmConfig,
    opened: Mutex<Opened>,
    is_kept: bool,
}

#[derive(Debug, Default)]
struct Opened {
    /// Absent before the first use, and if it is not kept.
    client: Option<Client>,
    /// One ledger for all clients: a second one on its store would contradict it.
    ledger: Weak<Ledger>,
}

impl LazyLlmClient {
    /// A client that stays open, with the ledger's store.
    pub fn new(config: LlmConfig) -> Self {
        Self {
            config,
            opened: Mutex::default(),
            is_kept: true,
        }
    }

    /// A client that closes when it is unused, so that other processes of the user can open the
    /// ledger's store. Each time it is opened its circuit breakers start closed.
    pub fn closing_between_uses(config: LlmConfig) -> Self {
        Self {
            is_kept: false,
            ..Self::new(config)
        }
    }

    /// Returns the client, opening it on first use. The next call retries a failed attempt, because
    /// a missing key may have been added. `open_store` opens the ledger's store in `folder`.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn client(
        &self,
        folder: &Path,
        open_store: impl FnOnce() -> Result<Arc<dyn Store>, StoreError>,
    ) -> Result<Client, String> {
        let mut opened = self.opened.lock();
        if let Some(client) = &opened.client {
            return Ok(client.clone());
        }
        let ledger = match opened.ledger.upgrade() {
            Some(ledger) => ledger,
            None => open_ledger(&self.config, folder, open_store)?,
        };
        let client = open(&self.config, &ledger)?;
        opened.ledger = Arc::downgrade(&ledger);
        opened.client = self.is_kept.then(|| client.clone());
        Ok(client)
    }
}

/// The built-in catalogue of language models, with the entries of `llm.models_file`.
///
/// # Errors
/// A sentence for the user, with the file and the place in it.
pub fn catalogue(config: &LlmConfig) -> Result<Catalogue, String> {
    let mut catalogue = Catalogue::built_in().map_err(|e| e.to_string())?;
    if let Some(path) = &config.models_file {
        let wrong = |why: String| {
            format!("{why}; correct it, or remove llm.models_file from the configuration")
        };
        let name = path.display().to_string();
        let text = bounded::read(path)
            .map_err(|e| wrong(format!("model file {name} can't be read: {e}")))?;
        catalogue
            .add(&name, &text)
            .map_err(|e| wrong(e.to_string()))?;
    }
    Ok(catalogue)
}

/// Returns why no job can use the model that `blueprint` names. `None` if one can, if it names a
/// size, or if no provider is configured.
pub fn refused_model(blueprint: &Blueprint, config: Option<&LlmConfig>) -> Option<String> {
    let (named, config) = blueprint.named_model.as_ref().zip(config)?;
    let configured: Vec<&str> = config.providers().map(|p| p.provider.as_str()).collect();
    let why = match configured.contains(&named.provider.as_str()) {
        false => SetupError::NotConfigured {
            wanted: named.provider.clone(),
            configured: configured.join(" and "),
        }
        .to_string(),
        true => {
            let known = catalogue(config).and_then(|catalogue| {
                let model = catalogue.model(&named.provider, &named.id);
                model.map_err(|e| e.to_string())
            });
            known.err()?
        }
    };
    let name = &blueprint.name;
    Some(format!("blueprint {name}: {why}; its requests are refused"))
}

/// Starts a job of the ledger with the model that `blueprint` names, if it names one.
///
/// # Errors
/// A sentence for the user, if the client has no such model.
pub fn start_job(client: &Client, blueprint: &Blueprint, spec: JobSpec) -> Result<Job, String> {
    let Some(named) = &blueprint.named_model else {
        return Ok(client.start_job(spec));
    };
    let job = client.start_job_with(spec, &named.provider, &named.id);
    job.map_err(|e| format!("blueprint {}: {e}", blueprint.name))
}

fn open_ledger(
    config: &LlmConfig,
    folder: &Path,
    open_store: impl FnOnce() -> Result<Arc<dyn Store>, StoreError>,
) -> Result<Arc<Ledger>, String> {
    let ledger = open_store().and_then(|store| Ledger::open(store, folder, limits(config)));
    ledger.map(Arc::new).map_err(|e| e.to_string())
}

fn open(config: &LlmConfig, ledger: &Arc<Ledger>) -> Result<Client, String> {
    let client = client_of(config, ledger)?;
    Ok(match &config.second {
        Some(second) => client.with_second(client_of(second, ledger)?),
        None => client,
    })
}

/// Makes the client of one provider.
fn client_of(config: &LlmConfig, ledger: &Arc<Ledger>) -> Result<Client, String> {
    let catalogue = catalogue(config)?;
    let provider = catalogue.provider(&config.provider);
    let needs_key = provider.map_err(|e| e.to_string())?.needs_key;
    let source = KeySource {
        text: config.key.clone(),
        file: config.key_file.clone(),
        credentials: std::env::var_os(CREDENTIALS_VARIABLE).map(Into::into),
    };
    let key = match Key::load(&config.provider, &source) {
        Ok(key) => Some(key),
        Err(_) if !needs_key && source.text.is_none() && source.file.is_none() => None,
        Err(error) => return Err(error.to_string()),
    };
    let settings = Settings {
        base_url: config.base_url.clone(),
        program: config.program.clone(),
        small: config.model.clone(),
        large: config.large_model.clone(),
        idle_timeout: config.idle_timeout,
        timeout_factor: config.timeout_factor,
        ..Settings::new(&config.provider)
    };
    let parts = Parts {
        catalogue,
        key,
        ledger: Arc::clone(ledger),
        clock: Arc::new(SystemClock::new(wall_now)),
    };
    Client::new(&settings, parts).map_err(|e| e.to_string())
}

fn limits(config: &LlmConfig) -> Limits {
    // The bounds of the configuration keep both within the range of `Money`.
    let money = |dollars| Money::from_dollars(dollars).unwrap_or_default();
    Limits {
        calls_per_hour: config.calls_per_hour,
        tokens_per_call: config.tokens_per_call,
        day: money(config.day_usd),
        month: money(config.month_usd),
        ..Limits::default()
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_store::MemoryStore;

    use super::*;
    use crate::blueprint::{BlueprintName, BlueprintStore};

    fn config() -> LlmConfig {
        LlmConfig {
            base_url: Some("http://127.0.0.1:1".to_owned()),
            key: Some("sk-secret-0123456789".to_owned().into()),
            calls_per_hour: 7,
            tokens_per_call: 8_000,
            day_usd: 0.5,
            month_usd: 3.0,
            ..LlmConfig::new("claude")
        }
    }

    fn client(config: LlmConfig) -> Result<Client, String> {
        LazyLlmClient::new(config).client(Path::new("/state"), || Ok(Arc::new(MemoryStore::new())))
    }

    #[test]
    fn blueprint_with_a_model_of_another_provider_is_named() {
        let home = tempfile::tempdir().expect("a folder");
        let store = BlueprintStore::new(home.path());
        let made = |name: &str, named: &str| {
            let text = format!("+++\njob = \"question\"\nwhen = \"x\"\n{named}\n+++\n");
            let name = BlueprintName::new(name).expect("a name");
            store.create(&name, &text).expect("a blueprint")
        };
        let why = |blueprint| refused_model(blueprint, Some(&config()));
        let sized = made("sized", "model = \"large\"");
        let own = made("own", "provider = \"claude\"\nmodel = \"claude-opus-5-5\"");
        assert_eq!((why(&sized), why(&own)), (None, None));
        let other = made("other", "provider = \"openai\"\nmodel = \"gpt-9\"");
        let said = why(&other).expect("another provider");
        assert!(
            said.contains("blueprint other: the provider openai is not configured"),
            "{said}"
        );
        assert_eq!(refused_model(&other, None), None, "no provider at all");
        let second = LlmConfig {
            provider: "openai".to_owned(),
            ..config()
        };
        let both = LlmConfig {
            second: Some(Box::new(second)),
            ..config()
        };
        let said = refused_model(&other, Some(&both)).expect("no such model");
        assert!(said.contains("gpt-9"), "{said}");
        let unknown = made("unknown", "provider = \"claude\"\nmodel = \"claude-0\"");
        let said = why(&unknown).expect("no such model");
        assert!(said.contains("claude-0"), "{said}");
    }

    #[test]
    fn limits_come_from_the_configuration() {
        let limits = client(config()).expect("a client").report().limits;
        assert_eq!((limits.calls_per_hour, limits.tokens_per_call), (7, 8_000));
        assert_eq!(limits.day, Money(500_000_000));
        assert_eq!(limits.month, Money(3_000_000_000));
    }

    #[test]
    fn error_is_one_sentence_without_the_key() {
        let wrong = |change: &dyn Fn(&mut LlmConfig)| {
            let mut config = config();
            change(&mut config);
            let error = client(config).expect_err("refused");
            assert!(
                !error.contains("sk-secret") && !error.contains('\n'),
                "{error}"
            );
            error
        };
        assert!(wrong(&|c| c.provider = "nobody".to_owned()).contains("is not in the model file"));
        assert!(wrong(&|c| c.model = Some("gpt-9".to_owned())).contains("gpt-9"));
        let plain = wrong(&|c| c.base_url = Some("http://models.example".to_owned()));
        assert!(plain.contains("https://"), "{plain}");
        let none = wrong(&|c| {
            c.key = None;
            c.key_file = Some("/nowhere/key".into());
        });
        assert!(none.contains("/nowhere/key"), "{none}");
    }

    const MODELS_FILE: &str = r#"
        format = 1
        [[models]]
        provider = "claude"
        id = "claude-haiku-6"
        context = 200000
        max_output = 8000
        bytes_per_token = 2.7
        thinking = "none"
        price = [{ input = 1, output = 5 }]
    "#;

    #[test]
    fn model_of_models_file_is_accepted() {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("models.toml");
        let with_file = |text: &str| {
            std::fs::write(&file, text).expect("write");
            LlmConfig {
                model: Some("claude-haiku-6".to_owned()),
                models_file: Some(file.clone()),
                ..config()
            }
        };
        assert!(client(with_file(MODELS_FILE)).is_ok());
        let without = LlmConfig {
            models_file: None,
            ..with_file(MODELS_FILE)
        };
        let error = client(without).expect_err("unknown");
        assert!(
            error.contains("claude-haiku-6") && error.contains("llm.models_file"),
            "{error}"
        );
        for (text, place) in [
            (MODELS_FILE.replace("8000", "0"), "models[0].max_output"),
            (MODELS_FILE.replace("thinking", "thinks"), "thinks"),
            (MODELS_FILE.replace("format = 1", "format = 9"), "format"),
            (MODELS_FILE.replace("id =", "id"), "line 5"),
        ] {
            let error = client(with_file(&text)).expect_err(place);
            let name = file.display().to_string();
            assert!(
                error.contains(&name) && error.contains(place) && error.contains("llm.models_file"),
                "{place}: {error}"
            );
        }
        std::fs::remove_file(&file).expect("remove");
        let gone = LlmConfig {
            models_file: Some(file.clone()),
            ..config()
        };
        let error = client(gone).expect_err("gone");
        assert!(
            error.contains("can't be read") && error.contains("models.toml"),
            "{error}"
        );
    }

    #[test]
    fn ledger_is_open_only_while_it_is_used() {
        let lazy = LazyLlmClient::closing_between_uses(config());
        let stores = std::cell::RefCell::new(Vec::new());
        let client = || {
            let client = lazy.client(Path::new("/state"), || {
                let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
                stores.borrow_mut().push(Arc::downgrade(&store));
                Ok(store)
            });
            client.expect("a client")
        };
        let (first, second) = (client(), client());
        assert_eq!(stores.borrow().len(), 1, "both have one ledger");
        drop((first, second));
        assert!(stores.borrow()[0].upgrade().is_none(), "closed");
        drop(client());
        assert_eq!(stores.borrow().len(), 2);
    }

    #[test]
    fn key_added_later_serves_the_next_call() {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("key");
        let lazy = LazyLlmClient::new(LlmConfig {
            key: None,
            key_file: Some(file.clone()),
            ..config()
        });
        let client = || {
            lazy.client(dir.path(), || {
                Ok(Arc::new(MemoryStore::new()) as Arc<dyn Store>)
            })
        };
        assert!(client().is_err());
        std::fs::write(&file, "sk-secret-0123456789\n").expect("write");
        assert!(client().is_ok());
    }
}
