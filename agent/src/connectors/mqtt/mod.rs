//! MQTT messages of workflows, over their own sessions with the brokers that workflows name.
//!
//! A session belongs to one step, whose effects run one after the other: a message that ends
//! sessions costs no other step an attempt. It is separate from the session with the box's broker:
//! no will, no subscription.
//!
//! Invariants:
//! - A message is done when the broker acknowledged it (QoS 1 and 2) or after it was written to the
//!   network (QoS 0). It may be sent twice and is never lost.
//! - Each acknowledgement that did not come doubles the next timeout, up to [`MAX_TIMEOUT`].
//! - A changed login or password starts a new session.

mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rumqttc::{PublishOptions, QoS};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::{mpsc, oneshot};
use watchkeeper_config::{CommandAccess, MqttConfig};
use watchkeeper_contract::effect::{MqttMessage, MqttQos};
use watchkeeper_contract::host::is_this_machine;
use watchkeeper_contract::spool::SpooledEffect;

use self::session::{PublishJob, PublishOutcome, run_session};
use super::fault::Fault;
use super::queue::LaneName;
use super::secrets::EffectSecrets;
use crate::fleet::mqtt::broker::{Broker, Keys};

/// Steps with a session; another one evicts the least recently used. More than active effects, so
/// the evicted session is idle.
const MAX_STEPS: usize = 16;
/// Brokers that a warning is logged about.
const MAX_WARNED: usize = 256;
/// Shortest timeout to connect and to write a message. The workflow language's default of half a
/// second suits a step that blocks its pipeline.
const MIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Shortest timeout of an acknowledgement; a shorter one would resend to slow brokers.
const MIN_ACK_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest timeout of both kinds.
const MAX_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval of keep-alive packets.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
struct Login {
    host: String,
    port: u16,
    tls: bool,
    username: Option<String>,
    password: Option<SecretString>,
}

impl Login {
    fn is_same(&self, other: &Self) -> bool {
        let password = |login: &Self| {
            let password = login.password.as_ref();
            password.map(|password| password.expose_secret().to_owned())
        };
        let user = |login: &Self| {
            (
                login.host.clone(),
                login.port,
                login.tls,
                login.username.clone(),
            )
        };
        user(self) == user(other) && password(self) == password(other)
    }
}

#[derive(Debug)]
struct StepSession {
    login: Login,
    jobs: mpsc::Sender<PublishJob>,
    /// Acknowledgement timeouts in a row, over all its sessions.
    timeouts: u32,
    used: Instant,
}

pub(crate) struct Brokers {
    ca_file: Option<PathBuf>,
    steps: Mutex<BTreeMap<LaneName, StepSession>>,
    /// Brokers with a logged warning about an unencrypted password.
    warned: Mutex<BTreeSet<(String, u16)>>,
}

impl fmt::Debug for Brokers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Brokers").finish_non_exhaustive()
    }
}

impl Brokers {
    pub(super) const fn new(ca_file: Option<PathBuf>) -> Self {
        Self {
            ca_file,
            steps: Mutex::new(BTreeMap::new()),
            warned: Mutex::new(BTreeSet::new()),
        }
    }

    /// Publishes the message of one effect.
    ///
    /// # Errors
    /// [`Fault`]; permanent if the broker refuses the login.
    pub(super) async fn publish(
        &self,
        spooled: &SpooledEffect,
        message: &MqttMessage,
        secrets: &EffectSecrets,
    ) -> Result<(), Fault> {
        let password = match &message.password {
            Some(sealed) => Some(SecretString::from(secrets.text(sealed)?.to_owned())),
            None => None,
        };
        let login = Login {
            host: message.host.clone(),
            port: message.port,
            tls: message.tls,
            username: message.username.clone(),
            password,
        };
        self.warn_if_unencrypted(&login);
        let step: LaneName = (spooled.pipeline.clone(), spooled.step.clone());
        // An idle session may end before it takes the message; the second one is new.
        for _ in 0..2 {
            let (jobs, timeouts) = self.session(&step, &login, message);
            let (answer, answered) = oneshot::channel();
            let job = PublishJob {
                topic: message.topic.clone(),
                payload: message.payload.clone(),
                options: PublishOptions::new(qos(message.qos)).retain(message.retain),
                timeout: publish_timeout(message.qos, message.timeout_s, timeouts),
                answer,
            };
            if jobs.send(job).await.is_ok()
                && let Ok(outcome) = answered.await
            {
                return self.record(&step, outcome);
            }
        }
        let MqttMessage { host, port, .. } = message;
        Err(Fault::transient(format!(
            "the session with {host}:{port} ended"
        )))
    }

    /// The running session of a step, started if there is none for this login, and the timeouts of
    /// the step.
    fn session(
        &self,
        step: &LaneName,
        login: &Login,
        message: &MqttMessage,
    ) -> (mpsc::Sender<PublishJob>, u32) {
        let mut steps = self.steps.lock();
        let known = steps.remove(step);
        let timeouts = known.as_ref().map_or(0, |known| known.timeouts);
        let running = known.filter(|known| !known.jobs.is_closed() && known.login.is_same(login));
        let jobs = running.map_or_else(
            || {
                let connect_timeout = publish_timeout(MqttQos::AtMostOnce, message.timeout_s, 0);
                let (jobs, queued) = mpsc::channel(1);
                tokio::spawn(run_session(self.broker(login, connect_timeout), queued));
                jobs
            },
            |running| running.jobs,
        );
        // A session whose sender is dropped finishes its message and disconnects.
        if steps.len() >= MAX_STEPS {
            let oldest = steps.iter().min_by_key(|(_, session)| session.used);
            if let Some(oldest) = oldest.map(|(step, _)| step.clone()) {
                steps.remove(&oldest);
            }
        }
        let session = StepSession {
            login: login.clone(),
            jobs: jobs.clone(),
            timeouts,
            used: Instant::now(),
        };
        steps.insert(step.clone(), session);
        (jobs, timeouts)
    }

    /// Counts the timeouts of a step.
    fn record(&self, step: &LaneName, outcome: PublishOutcome) -> Result<(), Fault> {
        let mut steps = self.steps.lock();
        let timeouts = steps.get_mut(step).map(|session| &mut session.timeouts);
        match (outcome, timeouts) {
            (PublishOutcome::Done, timeouts) => {
                timeouts.into_iter().for_each(|timeouts| *timeouts = 0);
                Ok(())
            }
            (PublishOutcome::TimedOut(fault), timeouts) => {
                timeouts
                    .into_iter()
                    .for_each(|timeouts| *timeouts = timeouts.saturating_add(1));
                Err(fault)
            }
            (PublishOutcome::Ended(fault), _) => Err(fault),
        }
    }

    /// Logs a warning once per broker to which a password is sent unencrypted over a network.
    fn warn_if_unencrypted(&self, login: &Login) {
        if login.password.is_none() || login.tls || is_this_machine(&login.host) {
            return;
        }
        let mut warned = self.warned.lock();
        if warned.len() < MAX_WARNED && warned.insert((login.host.clone(), login.port)) {
            tracing::warn!(
                host = login.host,
                port = login.port,
                "effects: password of a workflow is sent to this broker unencrypted; \
                 set tls in the step, or use a login with minimal permissions"
            );
        }
    }

    fn broker(&self, login: &Login, connect_timeout: Duration) -> Broker {
        Broker {
            settings: MqttConfig {
                commands: CommandAccess::Off,
                password_file: None,
                host: login.host.clone(),
                port: login.port,
                client_id: format!("watchkeeper-{:016x}", fastrand::u64(..)),
                username: login.username.clone(),
                password: login.password.clone(),
                tls: login.tls,
                ca_file: self.ca_file.clone(),
                client_cert: None,
                connect_timeout,
                keep_alive: KEEP_ALIVE,
            },
            keys: Keys::STEP,
        }
    }
}

/// Timeout of a message: that of the step, within bounds, doubled for each of `timeouts`.
fn publish_timeout(qos: MqttQos, seconds: f64, timeouts: u32) -> Duration {
    let min = match qos {
        MqttQos::AtMostOnce => MIN_TIMEOUT,
        MqttQos::AtLeastOnce | MqttQos::ExactlyOnce => MIN_ACK_TIMEOUT,
    };
    let timeout = Duration::try_from_secs_f64(seconds).unwrap_or(MAX_TIMEOUT);
    let factor = 2_u32.saturating_pow(timeouts);
    let timeout = timeout.clamp(min, MAX_TIMEOUT);
    timeout.saturating_mul(factor).min(MAX_TIMEOUT)
}

const fn qos(qos: MqttQos) -> QoS {
    match qos {
        MqttQos::AtMostOnce => QoS::AtMostOnce,
        MqttQos::AtLeastOnce => QoS::AtLeastOnce,
        MqttQos::ExactlyOnce => QoS::ExactlyOnce,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
