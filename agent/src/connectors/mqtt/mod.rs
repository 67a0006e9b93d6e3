//! MQTT messages of workflows, over sessions of their own with the brokers that workflows name.
//!
//! A session is a task and belongs to one broker and user ([`SessionName`]). Steps that name it
//! share it. It is separate from the session with the box's broker: no will, no subscription.
//!
//! Invariants:
//! - A message is done when the broker acknowledged it (QoS 1 and 2) or after it was written to the
//!   network (QoS 0). It may be sent twice and is never lost.
//! - A message that is not acknowledged in time fails alone; its session takes no new messages.
//! - When a broker ends an accepted session, the message that caused it is unknown. Each unfinished
//!   message is published again in a session of its own, and only that counts as an attempt. The
//!   step whose own session ended keeps one for [`ISOLATION_TIME`].
//! - Each acknowledgement that did not come doubles the next timeout, up to [`MAX_TIMEOUT`].
//! - A changed password starts a new session.

mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rumqttc::{PublishOptions, QoS};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use watchkeeper_config::{CommandAccess, MqttConfig};
use watchkeeper_contract::effect::{MqttMessage, MqttQos};
use watchkeeper_contract::host::is_this_machine;
use watchkeeper_contract::spool::SpooledEffect;

use self::session::{MAX_WAITING, PublishJob, PublishOutcome, run_session};
use super::fault::Fault;
use super::queue::LaneName;
use super::secrets::EffectSecrets;
use crate::fleet::mqtt::broker::{Broker, Keys};

/// Sessions at once; another one evicts the least recently used. More than active effects, so the
/// evicted session is idle.
const MAX_SESSIONS: usize = 16;
/// Steps with a history; another one evicts the least recently changed.
const MAX_STEPS: usize = 256;
/// How long a step has a session of its own after its message ended one.
const ISOLATION_TIME: Duration = Duration::from_secs(3600);
/// Sessions tried for one message, if sessions end before they publish it.
const MAX_SESSION_TRIES: usize = 4;
/// Shortest timeout to connect and to write a message. The workflow language's default of half a
/// second suits a step that blocks its pipeline.
const MIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Shortest timeout of an acknowledgement; a shorter one would resend to slow brokers.
const MIN_ACK_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest timeout of both kinds.
const MAX_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval of keep-alive packets.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Identity of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SessionName {
    host: String,
    port: u16,
    tls: bool,
    username: Option<String>,
    /// Step with a session of its own; absent for a shared session.
    isolated: Option<LaneName>,
}

/// Recent failures of a step.
#[derive(Debug, Default)]
struct StepHistory {
    /// Acknowledgement timeouts in a row.
    timeouts: u32,
    /// When its own session ended because of its message.
    isolated_at: Option<Instant>,
    /// Last change, for eviction.
    changed_at: Option<Instant>,
}

struct Session {
    jobs: mpsc::Sender<PublishJob>,
    password: Option<SecretString>,
    used: Instant,
}

/// Sessions with the brokers of workflows.
pub(crate) struct Brokers {
    ca_file: Option<PathBuf>,
    sessions: Mutex<BTreeMap<SessionName, Session>>,
    history: Mutex<BTreeMap<LaneName, StepHistory>>,
    /// Logins with a logged warning about an unencrypted password.
    warned: Mutex<BTreeSet<SessionName>>,
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
            sessions: Mutex::new(BTreeMap::new()),
            history: Mutex::new(BTreeMap::new()),
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
        let step: LaneName = (spooled.pipeline.clone(), spooled.step.clone());
        let (timeouts, mut is_isolated) = self.history_of(&step);
        let mut last_fault = Fault::transient("the session with the broker ended");
        for _ in 0..MAX_SESSION_TRIES {
            let outcome = self
                .attempt(message, &password, timeouts, is_isolated.then_some(&step))
                .await;
            match outcome {
                PublishOutcome::Done => {
                    self.update_history(&step, |history| history.timeouts = 0);
                    return Ok(());
                }
                PublishOutcome::TimedOut(fault) => {
                    self.update_history(&step, |history| {
                        history.timeouts = history.timeouts.saturating_add(1);
                    });
                    return Err(fault);
                }
                PublishOutcome::NoSession(fault) => return Err(fault),
                PublishOutcome::Interrupted(fault) if is_isolated => {
                    self.update_history(&step, |history| {
                        history.isolated_at = Some(Instant::now());
                    });
                    return Err(fault);
                }
                // Another step's message may have ended the shared session.
                PublishOutcome::Interrupted(fault) => (last_fault, is_isolated) = (fault, true),
                PublishOutcome::NotPublished(fault) => last_fault = fault,
            }
        }
        Err(last_fault)
    }

    /// Publishes the message in the shared session, or in that of the step `isolated`.
    async fn attempt(
        &self,
        message: &MqttMessage,
        password: &Option<SecretString>,
        timeouts: u32,
        isolated: Option<&LaneName>,
    ) -> PublishOutcome {
        let (answer, answered) = oneshot::channel();
        let job = PublishJob {
            topic: message.topic.clone(),
            payload: message.payload.clone(),
            options: PublishOptions::new(qos(message.qos)).retain(message.retain),
            timeout: publish_timeout(message.qos, message.timeout_s, timeouts),
            answer,
        };
        let name = SessionName {
            host: message.host.clone(),
            port: message.port,
            tls: message.tls,
            username: message.username.clone(),
            isolated: isolated.cloned(),
        };
        self.warn_if_unencrypted(&name, password.is_some());
        let connect_timeout = publish_timeout(MqttQos::AtMostOnce, message.timeout_s, 0);
        let ended =
            || PublishOutcome::NotPublished(Fault::transient("the session with the broker ended"));
        let queued = match self.queue(name, password.clone(), connect_timeout, job) {
            None => true,
            Some((jobs, job)) => jobs.send(job).await.is_ok(),
        };
        match queued {
            true => answered.await.unwrap_or_else(|_| ended()),
            // The session ended meanwhile; the next attempt opens a new one.
            false => ended(),
        }
    }

    /// Timeouts in a row of a step, and whether it has a session of its own.
    fn history_of(&self, step: &LaneName) -> (u32, bool) {
        let all = self.history.lock();
        all.get(step).map_or((0, false), |history| {
            let is_isolated = history
                .isolated_at
                .is_some_and(|at| at.elapsed() < ISOLATION_TIME);
            (history.timeouts, is_isolated)
        })
    }

    /// Changes the history of a step; one without failures is deleted.
    fn update_history(&self, step: &LaneName, change: impl FnOnce(&mut StepHistory)) {
        let mut all = self.history.lock();
        let mut history = all.remove(step).unwrap_or_default();
        change(&mut history);
        if history.timeouts == 0
            && history
                .isolated_at
                .is_none_or(|at| at.elapsed() >= ISOLATION_TIME)
        {
            return;
        }
        history.changed_at = Some(Instant::now());
        if all.len() >= MAX_STEPS {
            let oldest = all.iter().min_by_key(|(_, history)| history.changed_at);
            if let Some(oldest) = oldest.map(|(step, _)| step.clone()) {
                all.remove(&oldest);
            }
        }
        all.insert(step.clone(), history);
    }

    /// Logs a warning once per login whose password is sent unencrypted over a network.
    fn warn_if_unencrypted(&self, name: &SessionName, has_password: bool) {
        if !has_password || name.tls || is_this_machine(&name.host) {
            return;
        }
        let name = SessionName {
            isolated: None,
            ..name.clone()
        };
        let mut warned = self.warned.lock();
        if warned.len() < MAX_STEPS && warned.insert(name.clone()) {
            tracing::warn!(
                host = name.host,
                port = name.port,
                "effects: password of a workflow is sent to this broker unencrypted; \
                 set tls in the step, or use a login with minimal permissions"
            );
        }
    }

    /// Queues `job` in the session `name`, which is started if there is none; returns it with the
    /// queue if that is full.
    ///
    /// A new session has its first job before it runs: it may end at once, and its reason is the
    /// outcome of that job.
    fn queue(
        &self,
        name: SessionName,
        password: Option<SecretString>,
        connect_timeout: Duration,
        job: PublishJob,
    ) -> Option<(mpsc::Sender<PublishJob>, PublishJob)> {
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, session| !session.jobs.is_closed());
        let mut job = job;
        if let Some(session) = sessions.get_mut(&name)
            && is_same_secret(session.password.as_ref(), password.as_ref())
        {
            session.used = Instant::now();
            match session.jobs.try_send(job) {
                Ok(()) => return None,
                Err(TrySendError::Full(refused)) => return Some((session.jobs.clone(), refused)),
                Err(TrySendError::Closed(refused)) => job = refused,
            }
        }
        // A session whose sender is dropped finishes its messages and disconnects.
        if !sessions.contains_key(&name) && sessions.len() >= MAX_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                sessions.remove(&oldest);
            }
        }
        let broker = self.broker(&name, password.clone(), connect_timeout);
        let (jobs, queued) = mpsc::channel(MAX_WAITING);
        let refused = jobs.try_send(job).err().map(TrySendError::into_inner);
        tokio::spawn(run_session(broker, queued));
        let session = Session {
            jobs: jobs.clone(),
            password,
            used: Instant::now(),
        };
        sessions.insert(name, session);
        refused.map(|job| (jobs, job))
    }

    fn broker(
        &self,
        name: &SessionName,
        password: Option<SecretString>,
        connect_timeout: Duration,
    ) -> Broker {
        Broker {
            settings: MqttConfig {
                commands: CommandAccess::Off,
                password_file: None,
                host: name.host.clone(),
                port: name.port,
                client_id: format!("watchkeeper-{:016x}", fastrand::u64(..)),
                username: name.username.clone(),
                password,
                tls: name.tls,
                ca_file: self.ca_file.clone(),
                client_cert: None,
                connect_timeout,
                keep_alive: KEEP_ALIVE,
            },
            keys: Keys::STEP,
        }
    }
}

fn is_same_secret(a: Option<&SecretString>, b: Option<&SecretString>) -> bool {
    a.map(SecretString::expose_secret) == b.map(SecretString::expose_secret)
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
