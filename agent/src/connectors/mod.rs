//! Connectors execute the effects of workflows: requests, messages, e-mails and files.
//!
//! Map: [`queue`] decides which effect is executed when (sans-IO). [`service`] is the task that
//! fetches effects from the runtime and reports their outcomes. [`fault`] is a failed attempt.
//! [`http`], [`slack`], [`sms`], [`email`], [`s3`], [`mqtt`], [`mod@file`] and [`bundle`] execute
//! one kind of effect each. [`secrets`] resolves the names of secrets.
//!
//! Invariants:
//! - An effect that `[sinks]` does not allow fails, even if the runtime accepted it.
//! - An effect is executed at least once: the runtime deletes it after its outcome is reported.
//! - A retry carries the same id. Requests send it as `Idempotency-Key`; MQTT has no field for it.
//!   A file gets a text once, and a retried bundle replaces itself.
//! - A secret is read when it is used. No log, error, file or answer of the agent contains one.

pub mod bundle;
mod context;
pub mod email;
pub mod fault;
pub mod file;
pub mod http;
pub(crate) mod http_client;
pub mod mqtt;
mod naming;
pub mod queue;
pub mod s3;
pub mod secrets;
pub mod service;
pub mod slack;
pub mod sms;

use std::path::PathBuf;
use std::sync::Arc;

use watchkeeper_config::SinksConfig;
use watchkeeper_config::sinks::Place;
use watchkeeper_contract::effect::{Effect, HttpCall};
use watchkeeper_contract::spool::SpooledEffect;
use watchkeeper_store::Store;

use crate::background::blocking;
use context::ConnectorContext;
use fault::Fault;
use http_client::HttpClient;
use mqtt::Brokers;
use secrets::EffectSecrets;

/// Executes single effects; [`queue`] decides on order and concurrency.
#[derive(Debug)]
pub struct Executor {
    context: ConnectorContext,
    brokers: Brokers,
    /// Folder of the systemd credentials of the agent's service.
    credentials: Option<PathBuf>,
}

impl Executor {
    /// Executor limited by `config`; connectors keep their state in `store`.
    pub fn new(config: SinksConfig, store: Arc<dyn Store>) -> Self {
        Self {
            brokers: Brokers::new(config.ca_file.clone()),
            credentials: secrets::credentials_folder(),
            context: ConnectorContext {
                http: HttpClient::new(config.ca_file.clone()),
                config,
                store,
            },
        }
    }

    /// Executes one effect.
    ///
    /// # Errors
    /// [`Fault`] with the reason, redacted, and whether a retry makes sense.
    pub async fn execute(&self, spooled: &SpooledEffect) -> Result<(), Fault> {
        let secrets = EffectSecrets::read(
            &spooled.effect,
            &self.context.config,
            self.credentials.as_deref(),
        )
        .await;
        let outcome = match &secrets {
            Ok(secrets) => self.attempt(spooled, secrets).await,
            Err(fault) => Err(fault.clone()),
        };
        match secrets {
            Ok(secrets) => outcome.map_err(|fault| fault.redacted(secrets.redactor())),
            Err(_) => outcome,
        }
    }

    /// Sends a request that contains no secret of a workflow. `id` is its `Idempotency-Key`.
    ///
    /// # Errors
    /// [`Fault`] of the connection or of the status.
    pub async fn request(&self, id: &str, call: &HttpCall) -> Result<(), Fault> {
        let secrets = EffectSecrets::empty();
        let outcome = http::call(&self.context, id, call, &secrets).await;
        outcome.map_err(|fault| fault.redacted(secrets.redactor()))
    }

    async fn attempt(&self, spooled: &SpooledEffect, secrets: &EffectSecrets) -> Result<(), Fault> {
        self.context
            .config
            .admits(&spooled.effect)
            .map_err(Fault::permanent)?;
        match &spooled.effect {
            Effect::Http(call) => http::call(&self.context, &spooled.id, call, secrets).await,
            Effect::File(write) => {
                let job = file::Job::new(spooled, write, self.place(&write.directory)?);
                let store = Arc::clone(&self.context.store);
                blocking(move || job.write(&*store))
                    .await
                    .map_err(Fault::transient)?
            }
            Effect::Bundle(bundle) => {
                let job = bundle::Job::new(spooled, bundle, self.place(&bundle.directory)?);
                blocking(move || job.write())
                    .await
                    .map_err(Fault::transient)?
            }
            Effect::Email(message) => {
                email::send(
                    &spooled.id,
                    message,
                    self.context.config.ca_file.as_deref(),
                    secrets,
                )
                .await
            }
            Effect::Slack(message) => {
                slack::post(&self.context, &spooled.id, message, secrets).await
            }
            Effect::Sms(sms) => sms::send(&self.context, &spooled.id, sms, secrets).await,
            Effect::S3(write) => s3::put(&self.context, spooled, write, secrets).await,
            Effect::Mqtt(message) => self.brokers.publish(spooled, message, secrets).await,
        }
    }

    /// The folder of a step's files.
    fn place(&self, directory: &str) -> Result<Place, Fault> {
        let place = self.context.config.place(directory);
        place.map_err(Fault::permanent)
    }
}
