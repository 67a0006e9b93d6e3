//! Does what workflows want done outside: requests, messages, e-mails, files.
//!
//! Map: [`queue`] which effect is done when (sans-IO), [`service`] the task that asks the runtime and tells it what came of each, [`fault`] why one was not
//! done; [`http`], [`slack`], [`sms`], [`email`], [`s3`], [`mqtt`], [`mod@file`] and [`bundle`] how each kind is done, [`secrets`] what stands behind the names of secrets.
//!
//! Invariants:
//! - nothing is done that the section `[sinks]` does not allow, whatever the runtime kept;
//! - an effect is done at least once: the runtime forgets it when it was told of the outcome and not before. One that is done again carries the
//!   same identity, as `Idempotency-Key` where it is a request; an MQTT message has no place for one; a file gets its text once in any case, and a packed one is replaced by the same;
//! - a secret is read when it is used and sent where the effect says; no log, error, file of ours or answer shows one.

pub mod bundle;
mod context;
pub mod email;
pub mod fault;
pub mod file;
pub mod http;
mod http_client;
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
use watchkeeper_contract::effect::{Effect, HttpCall};
use watchkeeper_contract::spool::SpooledEffect;
use watchkeeper_store::Store;

use context::ConnectorContext;
use fault::Fault;
use http_client::HttpClient;
use mqtt::Brokers;
use secrets::EffectSecrets;

/// Does effects, one at a time for each step and several at a time in all.
#[derive(Debug)]
pub struct Executor {
    context: ConnectorContext,
    brokers: Brokers,
    /// Folder of the service's credentials.
    credentials: Option<PathBuf>,
}

impl Executor {
    /// One that may do what `config` says, and keeps what it has to remember in `store`.
    #[must_use]
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

    /// Does it.
    ///
    /// # Errors
    /// [`Fault`]: why not, without a secret, and whether to try again.
    pub async fn execute(&self, spooled: &SpooledEffect) -> Result<(), Fault> {
        let secrets = EffectSecrets::read(
            &spooled.effect,
            &self.context.config,
            self.credentials.as_deref(),
        );
        let done = match &secrets {
            Ok(secrets) => self.attempt(spooled, secrets).await,
            Err(fault) => Err(fault.clone()),
        };
        match secrets {
            Ok(secrets) => done.map_err(|fault| fault.without(secrets.redactor())),
            Err(_) => done,
        }
    }

    /// Makes a request that holds no secret of a workflow. `id` is its `Idempotency-Key`.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn request(&self, id: &str, call: &HttpCall) -> Result<(), Fault> {
        let nothing = EffectSecrets::none();
        let done = http::call(&self.context, id, call, &nothing).await;
        done.map_err(|fault| fault.without(nothing.redactor()))
    }

    async fn attempt(&self, spooled: &SpooledEffect, secrets: &EffectSecrets) -> Result<(), Fault> {
        self.context
            .config
            .admits(&spooled.effect)
            .map_err(Fault::never)?;
        match &spooled.effect {
            Effect::Http(call) => http::call(&self.context, &spooled.id, call, secrets).await,
            Effect::File(write) => {
                let place = self
                    .context
                    .config
                    .place(&write.directory)
                    .map_err(Fault::never)?;
                let store = Arc::clone(&self.context.store);
                let job = file::Job::new(spooled, write, place);
                let written = tokio::task::spawn_blocking(move || job.write(&*store)).await;
                written.unwrap_or_else(|died| Err(Fault::later(format!("the writer died: {died}"))))
            }
            Effect::Bundle(bundle) => {
                let place = self
                    .context
                    .config
                    .place(&bundle.directory)
                    .map_err(Fault::never)?;
                let job = bundle::Job::new(spooled, bundle, place);
                let written = tokio::task::spawn_blocking(move || job.write()).await;
                written.unwrap_or_else(|died| Err(Fault::later(format!("the writer died: {died}"))))
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
}
