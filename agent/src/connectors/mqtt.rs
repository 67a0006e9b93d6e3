//! Messages at the MQTT brokers that workflows name, over sessions of their own.
//!
//! A session belongs to one broker and one user ([`Name`]) and is a task; effects of all steps that name it go through it, at most as many at once as the
//! queue of effects does. It begins with the first message, ends after a minute without one, and has nothing to do with the session of the box's own
//! broker: other login, other client id, no will, no subscription.
//!
//! Invariants:
//! - a message is done when the broker acknowledged it (QoS 1 and 2) or when it was written to the network (QoS 0), and not before. What was in a session
//!   that ended waits in its effect for the next: it may come twice, and is never lost;
//! - no step pays for another. A message that is not acknowledged in time fails alone, and its session takes no new ones. When a broker ends a session that
//!   it had accepted, nobody knows over which message: each that was in the middle of it is published again at once in a session of its own, and only what
//!   happens there counts as a try. A step over which its own session ended keeps one for a while;
//! - who had no answer in time has twice as long for the next try, up to [`LONGEST`]: a slow answer is waited for and not asked for again and again;
//! - the session of a password that was exchanged is not used again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use rumqttc::{
    AsyncClient, ConnectReturnCode, ConnectionError, Event, Outgoing, Packet, PublishNoticeError,
    PublishOptions, PublishResult, QoS,
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::{mpsc, oneshot};
use watchkeeper_contract::effect::{MqttMessage, MqttQos};
use watchkeeper_contract::host::is_this_machine;
use watchkeeper_contract::spool::SpooledEffect;

use super::fault::Fault;
use super::queue::LaneName;
use super::secrets::EffectSecrets;
use crate::fleet::mqtt::broker::{Broker, Keys};
use crate::fleet::mqtt::link::{Events, connect};
use crate::fleet::mqtt::reason::reason;

/// Most sessions at once; one more ends the one that was used longest ago. More than effects are done at once, so that one is idle.
const MAX_SESSIONS: usize = 16;
/// Most steps of which something is remembered; the one of which it was learned longest ago is forgotten first.
const MAX_STEPS: usize = 256;
/// How long a step keeps a session of its own after one ended over it.
const ISOLATION_TIME: Duration = Duration::from_secs(3600);
/// Sessions that a message may be put into until one takes it; each of the others ended before it was its turn.
const MAX_MOVES: usize = 4;
/// Most messages that wait for a session; more wait in their effects.
const MAX_WAITING: usize = 16;
/// Time after which a session without a message ends.
const IDLE: Duration = Duration::from_secs(60);
/// Time to connect and to hand a message to the network, at least: the language's half a second is for a step that waits.
const SHORTEST: Duration = Duration::from_secs(5);
/// Time for the broker to acknowledge a message, at least: one that is slower would get it again.
const SHORTEST_ACKNOWLEDGED: Duration = Duration::from_secs(15);
/// Both, at most.
const LONGEST: Duration = Duration::from_secs(120);
/// Time to take leave.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of keep-alive packets.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// What tells sessions apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    host: String,
    port: u16,
    tls: bool,
    username: Option<String>,
    /// The one step that has it for itself; absent for the one that is shared.
    alone: Option<LaneName>,
}

/// What is remembered of a step.
#[derive(Debug, Default)]
struct StepHistory {
    /// Answers that did not come in time, in a row.
    late: u32,
    /// When a session of its own ended over it.
    isolated_at: Option<Instant>,
    /// When something of it was learned.
    at: Option<Instant>,
}

struct Session {
    jobs: mpsc::Sender<PublishJob>,
    password: Option<SecretString>,
    used: Instant,
}

/// A message that is to be published, and who waits for what comes of it.
struct PublishJob {
    topic: String,
    payload: String,
    options: PublishOptions,
    patience: Duration,
    answer: oneshot::Sender<PublishOutcome>,
}

/// What came of a message in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PublishOutcome {
    /// It is done.
    Done,
    /// The broker did not answer in time.
    Late(Fault),
    /// There is no session with this broker.
    Failed(Fault),
    /// The session ended while the message was on its way.
    Ended(Fault),
    /// The session ended before it was its turn.
    NotBegun(Fault),
}

/// The sessions with brokers.
pub struct Brokers {
    ca_file: Option<PathBuf>,
    sessions: Mutex<BTreeMap<Name, Session>>,
    past: Mutex<BTreeMap<LaneName, StepHistory>>,
    /// Brokers that get a password unencrypted, which was told.
    in_clear: Mutex<BTreeSet<Name>>,
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
            past: Mutex::new(BTreeMap::new()),
            in_clear: Mutex::new(BTreeSet::new()),
        }
    }

    /// Publishes the message of this effect.
    ///
    /// # Errors
    /// [`Fault`].
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
        let (late, mut is_isolated) = self.past_of(&step);
        let mut why = Fault::later("the session with the broker ended");
        for _ in 0..MAX_MOVES {
            let outcome = self
                .attempt(message, &password, late, is_isolated.then_some(&step))
                .await;
            match outcome {
                PublishOutcome::Done => {
                    self.learn(&step, |past| past.late = 0);
                    return Ok(());
                }
                PublishOutcome::Late(fault) => {
                    self.learn(&step, |past| past.late = past.late.saturating_add(1));
                    return Err(fault);
                }
                PublishOutcome::Failed(fault) => return Err(fault),
                PublishOutcome::Ended(fault) if is_isolated => {
                    self.learn(&step, |past| past.isolated_at = Some(Instant::now()));
                    return Err(fault);
                }
                // It may have been another's message over which it ended.
                PublishOutcome::Ended(fault) => (why, is_isolated) = (fault, true),
                PublishOutcome::NotBegun(fault) => why = fault,
            }
        }
        Err(why)
    }

    /// Puts it into a session, one of the step's own where it is to have that.
    async fn attempt(
        &self,
        message: &MqttMessage,
        password: &Option<SecretString>,
        late: u32,
        alone: Option<&LaneName>,
    ) -> PublishOutcome {
        let (answer, answered) = oneshot::channel();
        let order = PublishJob {
            topic: message.topic.clone(),
            payload: message.payload.clone(),
            options: PublishOptions::new(qos(message.qos)).retain(message.retain),
            patience: patience(message.qos, message.timeout_s, late),
            answer,
        };
        let name = Name {
            host: message.host.clone(),
            port: message.port,
            tls: message.tls,
            username: message.username.clone(),
            alone: alone.cloned(),
        };
        self.tell_if_in_clear(&name, password.is_some());
        let connecting = patience(MqttQos::AtMostOnce, message.timeout_s, 0);
        let ended = || PublishOutcome::NotBegun(Fault::later("the session with the broker ended"));
        // A session may be ending for want of messages at this very moment; the next one is new.
        match self
            .session(name, password.clone(), connecting)
            .send(order)
            .await
        {
            Ok(()) => answered.await.unwrap_or_else(|_| ended()),
            Err(_) => ended(),
        }
    }

    /// How many answers to a step did not come in time, and whether it has a session of its own.
    fn past_of(&self, step: &LaneName) -> (u32, bool) {
        let all = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(step).map_or((0, false), |past| {
            let is_isolated = past
                .isolated_at
                .is_some_and(|at| at.elapsed() < ISOLATION_TIME);
            (past.late, is_isolated)
        })
    }

    fn learn(&self, step: &LaneName, change: impl FnOnce(&mut StepHistory)) {
        let mut all = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let mut past = all.remove(step).unwrap_or_default();
        change(&mut past);
        if past.late == 0
            && past
                .isolated_at
                .is_none_or(|at| at.elapsed() >= ISOLATION_TIME)
        {
            return;
        }
        past.at = Some(Instant::now());
        if all.len() >= MAX_STEPS {
            let oldest = all.iter().min_by_key(|(_, past)| past.at);
            if let Some(oldest) = oldest.map(|(step, _)| step.clone()) {
                all.remove(&oldest);
            }
        }
        all.insert(step.clone(), past);
    }

    /// Says once for each login that its password can be read by whoever is on the way.
    fn tell_if_in_clear(&self, name: &Name, has_password: bool) {
        if !has_password || name.tls || is_this_machine(&name.host) {
            return;
        }
        let name = Name {
            alone: None,
            ..name.clone()
        };
        let mut told = self.in_clear.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MAX_STEPS && told.insert(name.clone()) {
            tracing::warn!(
                host = name.host,
                port = name.port,
                "a workflow's password goes to this broker unencrypted: give the step tls, or a user who may do nothing else"
            );
        }
    }

    /// The session of this name, begun where there is none.
    fn session(
        &self,
        name: Name,
        password: Option<SecretString>,
        patience: Duration,
    ) -> mpsc::Sender<PublishJob> {
        // Nothing panics with the lock held; what is under it is whole in any case.
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| !session.jobs.is_closed());
        if let Some(session) = sessions.get_mut(&name)
            && same(session.password.as_ref(), password.as_ref())
        {
            session.used = Instant::now();
            return session.jobs.clone();
        }
        // One whose sender is dropped finishes what it has and takes leave.
        if !sessions.contains_key(&name) && sessions.len() >= MAX_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                sessions.remove(&oldest);
            }
        }
        let broker = Broker {
            host: name.host.clone(),
            port: name.port,
            client_id: format!("watchkeeper-{:016x}", fastrand::u64(..)),
            username: name.username.clone(),
            password: password.clone(),
            tls: name.tls,
            ca_file: self.ca_file.clone(),
            client_cert: None,
            connect_timeout: patience,
            keep_alive: KEEP_ALIVE,
            keys: Keys::STEP,
        };
        let (jobs, taken) = mpsc::channel(MAX_WAITING);
        tokio::spawn(session(broker, taken));
        let session = Session {
            jobs: jobs.clone(),
            password,
            used: Instant::now(),
        };
        sessions.insert(name, session);
        jobs
    }
}

fn same(a: Option<&SecretString>, b: Option<&SecretString>) -> bool {
    a.map(SecretString::expose_secret) == b.map(SecretString::expose_secret)
}

/// How long a broker has for a message of this quality: what the step says, within bounds, and twice as long for each answer in a row that did not come.
fn patience(qos: MqttQos, seconds: f64, late: u32) -> Duration {
    let shortest = match qos {
        MqttQos::AtMostOnce => SHORTEST,
        MqttQos::AtLeastOnce | MqttQos::ExactlyOnce => SHORTEST_ACKNOWLEDGED,
    };
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST);
    let time = time.clamp(shortest, LONGEST);
    let times = 2_u32.saturating_pow(late);
    time.saturating_mul(times).min(LONGEST)
}

const fn qos(qos: MqttQos) -> QoS {
    match qos {
        MqttQos::AtMostOnce => QoS::AtMostOnce,
        MqttQos::AtLeastOnce => QoS::AtLeastOnce,
        MqttQos::ExactlyOnce => QoS::ExactlyOnce,
    }
}

/// One session, from CONNECT to its end; whoever still waits then is told why.
async fn session(broker: Broker, mut jobs: mpsc::Receiver<PublishJob>) {
    let mut talk = match connect(&broker, None, MAX_WAITING) {
        Ok((client, events)) => SessionTask {
            broker: &broker,
            client,
            events,
            is_up: false,
            flying: FuturesUnordered::new(),
            answers: BTreeMap::new(),
            ordered: 0,
        },
        Err(error) => {
            let fault = Fault::later(error.to_string());
            return refuse(jobs, &PublishOutcome::Failed(fault)).await;
        }
    };
    match talk.go(&mut jobs).await {
        Ok(()) => talk.leave().await,
        Err(fault) => {
            let fault = Fault {
                why: format!("{}:{}: {}", broker.host, broker.port, fault.why),
                ..fault
            };
            let was_up = talk.is_up;
            for answer in talk.answers.into_values() {
                answer.send(PublishOutcome::Ended(fault.clone())).ok();
            }
            let outcome = match was_up {
                true => PublishOutcome::NotBegun(fault),
                false => PublishOutcome::Failed(fault),
            };
            refuse(jobs, &outcome).await;
        }
    }
}

/// Takes no more orders and answers those that wait. Nobody listens to an answer whose effect was given up meanwhile.
async fn refuse(mut jobs: mpsc::Receiver<PublishJob>, outcome: &PublishOutcome) {
    jobs.close();
    while let Some(order) = jobs.recv().await {
        order.answer.send(outcome.clone()).ok();
    }
}

/// What came of a publication: the broker's answer, or none in time.
type Notice = Option<Result<PublishResult, PublishNoticeError>>;

/// A session and what it is in the middle of.
struct SessionTask<'a> {
    broker: &'a Broker,
    client: AsyncClient,
    events: Events,
    /// Whether the broker has accepted the session.
    is_up: bool,
    /// What the broker has not answered yet, by number.
    flying: FuturesUnordered<BoxFuture<'static, (u64, Notice)>>,
    answers: BTreeMap<u64, oneshot::Sender<PublishOutcome>>,
    /// Messages so far.
    ordered: u64,
}

impl SessionTask<'_> {
    /// Goes on until nobody wants anything any more.
    ///
    /// # Errors
    /// What broke the session.
    async fn go(&mut self, jobs: &mut mpsc::Receiver<PublishJob>) -> Result<(), Fault> {
        let late = || Fault::later("the broker did not answer in time");
        let connecting = Instant::now() + self.broker.connect_timeout;
        let mut idle = connecting + IDLE;
        let mut is_open = true;
        while is_open || !self.answers.is_empty() {
            let may_fly = self.is_up && is_open && self.answers.len() < MAX_WAITING;
            let is_idle = may_fly && self.answers.is_empty();
            tokio::select! {
                biased;
                event = self.events.next() => self.heard(event)?,
                Some((number, notice)) = self.flying.next() => {
                    let outcome = match notice {
                        // Its place in the client stays taken, so the next message is another session's; those that are on their way are waited for.
                        None => {
                            jobs.close();
                            PublishOutcome::Late(late())
                        }
                        Some(Ok(_)) => PublishOutcome::Done,
                        // What ended the session was heard before, where anything did.
                        Some(Err(error)) => return Err(Fault::later(error.to_string())),
                    };
                    if let Some(answer) = self.answers.remove(&number) {
                        answer.send(outcome).ok();
                    }
                    idle = Instant::now() + IDLE;
                }
                order = jobs.recv(), if may_fly => match order {
                    Some(order) => self.publish(order)?,
                    None => is_open = false,
                },
                () = sleep_until(connecting), if !self.is_up => return Err(late()),
                // What was ordered until this moment is still taken.
                () = sleep_until(idle), if is_idle => jobs.close(),
            }
        }
        Ok(())
    }

    fn publish(&mut self, order: PublishJob) -> Result<(), Fault> {
        let number = self.ordered;
        self.ordered += 1;
        let notice = self
            .client
            .try_publish_tracked(order.topic, order.payload, order.options);
        self.answers.insert(number, order.answer);
        let notice = notice.map_err(|_| Fault::later("the client took no message"))?;
        let landing = tokio::time::timeout(order.patience, notice.wait_async());
        self.flying
            .push(landing.map(move |outcome| (number, outcome.ok())).boxed());
        Ok(())
    }

    fn heard(&mut self, event: Option<Result<Event, ConnectionError>>) -> Result<(), Fault> {
        match event {
            Some(Ok(Event::Incoming(Packet::ConnAck(_)))) => self.is_up = true,
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                let why = reason(self.broker, self.is_up, &error);
                use ConnectReturnCode as Code;
                return Err(match error {
                    // A word of the broker; a network, a certificate may come back.
                    ConnectionError::ConnectionRefused(
                        Code::BadUserNamePassword | Code::NotAuthorized,
                    ) => Fault::never(why),
                    _ => Fault::later(why),
                });
            }
            None => return Err(Fault::later("the client ended")),
        }
        Ok(())
    }

    /// Ends the session in order.
    async fn leave(mut self) {
        if self
            .client
            .try_disconnect_with_timeout(STOP_TIMEOUT)
            .is_err()
        {
            return;
        }
        let drain = async {
            while let Some(Ok(event)) = self.events.next().await {
                if matches!(event, Event::Outgoing(Outgoing::Disconnect)) {
                    return;
                }
            }
        };
        // A broker that does not listen any more finds out by itself.
        tokio::time::timeout(STOP_TIMEOUT, drain).await.ok();
    }
}

async fn sleep_until(moment: Instant) {
    tokio::time::sleep_until(moment.into()).await;
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::watch;
    use watchkeeper_contract::effect::Effect;
    use watchkeeper_contract::id::PipelineId;
    use watchkeeper_contract::spool::EffectNumber;

    use super::*;

    #[test]
    fn a_broker_has_some_time_to_answer_and_more_after_it_had_too_little_and_not_for_ever() {
        use MqttQos::{AtLeastOnce, AtMostOnce};
        assert_eq!(patience(AtMostOnce, 7.5, 0), Duration::from_millis(7500));
        for (odd, is) in [
            (0.5, SHORTEST),
            (1e9, LONGEST),
            (f64::NAN, LONGEST),
            (-1.0, LONGEST),
        ] {
            assert_eq!(patience(AtMostOnce, odd, 0), is, "{odd}");
        }
        let seconds = |late| patience(AtLeastOnce, 0.5, late).as_secs();
        assert_eq!(
            [0, 1, 2, 3, 9, 99].map(seconds),
            [15, 30, 60, 120, 120, 120]
        );
    }

    /// A broker with bad habits: it hangs up on whoever publishes to `trap`, never acknowledges what goes to `void`, acknowledges what goes to `later` in
    /// no session but its first, and what goes to `held` once it is told to.
    struct Small {
        port: u16,
        heard: Arc<Mutex<Vec<(usize, String)>>>,
        release: watch::Sender<bool>,
    }

    impl Small {
        async fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let heard = Arc::new(Mutex::new(Vec::new()));
            let (release, released) = watch::channel(false);
            let notes = Arc::clone(&heard);
            tokio::spawn(async move {
                for session in 0.. {
                    let (stream, _) = listener.accept().await.unwrap();
                    let (notes, released) = (Arc::clone(&notes), released.clone());
                    tokio::spawn(async move { serve(stream, session, &notes, released).await });
                }
            });
            Self {
                port,
                heard,
                release,
            }
        }

        /// In which sessions something was published to `topic`.
        fn sessions(&self, topic: &str) -> Vec<usize> {
            let heard = self.heard.lock().unwrap();
            let of_topic = heard.iter().filter(|(_, heard)| heard == topic);
            of_topic.map(|(session, _)| *session).collect()
        }
    }

    /// One session of MQTT 3.1.1 with packets of less than 128 bytes, until somebody hangs up.
    async fn serve(
        stream: TcpStream,
        session: usize,
        notes: &Mutex<Vec<(usize, String)>>,
        released: watch::Receiver<bool>,
    ) -> Option<()> {
        let (mut from, to) = stream.into_split();
        let to = Arc::new(tokio::sync::Mutex::new(to));
        loop {
            let kind = from.read_u8().await.ok()?;
            let length = from.read_u8().await.ok()?;
            let mut body = vec![0; usize::from(length)];
            from.read_exact(&mut body).await.ok()?;
            let answer = match kind >> 4 {
                1 => [0x20, 2, 0, 0],
                3 => {
                    let end = 2 + usize::from(body[1]);
                    let topic = String::from_utf8(body[2..end].to_vec()).ok()?;
                    notes.lock().unwrap().push((session, topic.clone()));
                    let acknowledged = [0x40, 2, body[end], body[end + 1]];
                    match topic.as_str() {
                        "trap" => return None,
                        "void" => continue,
                        "later" if session == 0 => continue,
                        "held" => {
                            let (to, mut released) = (Arc::clone(&to), released.clone());
                            tokio::spawn(async move {
                                released.wait_for(|released| *released).await.unwrap();
                                to.lock().await.write_all(&acknowledged).await.unwrap();
                            });
                            continue;
                        }
                        _ => acknowledged,
                    }
                }
                14 => return None,
                _ => continue,
            };
            to.lock().await.write_all(&answer).await.ok()?;
        }
    }

    fn effect(step: &str, topic: &str, port: u16) -> SpooledEffect {
        SpooledEffect {
            number: EffectNumber(1),
            id: format!("{step}-1"),
            pipeline: PipelineId::new("p").unwrap(),
            step: step.to_owned(),
            at: watchkeeper_client::clock::wall_now(),
            effect: Effect::Mqtt(MqttMessage {
                host: "127.0.0.1".to_owned(),
                port,
                tls: false,
                username: None,
                password: None,
                topic: topic.to_owned(),
                payload: "x".to_owned(),
                qos: MqttQos::AtLeastOnce,
                retain: false,
                timeout_s: 0.5,
            }),
        }
    }

    async fn publish(brokers: &Brokers, spooled: &SpooledEffect) -> Result<(), Fault> {
        let Effect::Mqtt(message) = &spooled.effect else {
            panic!("a message");
        };
        brokers
            .publish(spooled, message, &EffectSecrets::none())
            .await
    }

    #[tokio::test]
    async fn a_step_over_which_a_broker_hangs_up_takes_no_try_from_another() {
        let broker = Small::start().await;
        let brokers = Brokers::new(None);
        let (later, trap) = (
            effect("patient", "later", broker.port),
            effect("bad", "trap", broker.port),
        );
        // The patient one is on its way when the other's message ends the session of both.
        let bad = async {
            while broker.sessions("later").is_empty() {
                tokio::task::yield_now().await;
            }
            publish(&brokers, &trap).await
        };
        let (patient, bad) = tokio::join!(publish(&brokers, &later), bad);
        let why = bad.unwrap_err();
        assert!(why.why.contains(&broker.port.to_string()), "{why}");
        assert_eq!(patient, Ok(()), "it was published again and not failed");
        assert_eq!(broker.sessions("later").len(), 2);
        assert_eq!(
            publish(&brokers, &effect("third", "go", broker.port)).await,
            Ok(())
        );
        // From now on the bad one ends nobody's session but its own.
        let shared = broker.sessions("go");
        assert!(publish(&brokers, &trap).await.is_err());
        let fourth = effect("fourth", "go", broker.port);
        assert_eq!(publish(&brokers, &fourth).await, Ok(()));
        let again = broker.sessions("go");
        assert_eq!(again, [shared[0], shared[0]], "the session lives on");
        assert_eq!(
            broker.sessions("trap").len(),
            3,
            "{:?}",
            broker.sessions("trap")
        );
    }

    #[tokio::test]
    async fn who_was_in_the_middle_of_a_session_that_ended_is_tried_again_at_once_and_once() {
        let broker = Small::start().await;
        let brokers = Brokers::new(None);
        let trap = effect("bad", "trap", broker.port);
        assert!(publish(&brokers, &trap).await.is_err());
        assert_eq!(broker.sessions("trap"), [0, 1]);
        assert!(publish(&brokers, &trap).await.is_err());
        assert_eq!(broker.sessions("trap"), [0, 1, 2], "it has its own by now");
    }

    #[tokio::test]
    async fn a_message_without_an_answer_fails_alone_and_its_session_takes_no_new_ones() {
        let small = Small::start().await;
        let broker = Broker {
            host: "127.0.0.1".to_owned(),
            port: small.port,
            client_id: "c".to_owned(),
            username: None,
            password: None,
            tls: false,
            ca_file: None,
            client_cert: None,
            connect_timeout: LONGEST,
            keep_alive: KEEP_ALIVE,
            keys: Keys::STEP,
        };
        let (jobs, taken) = mpsc::channel(MAX_WAITING);
        tokio::spawn(session(broker, taken));
        let order = async |topic: &str, patience| {
            let (answer, answered) = oneshot::channel();
            let order = PublishJob {
                topic: topic.to_owned(),
                payload: String::new(),
                options: PublishOptions::new(QoS::AtLeastOnce),
                patience,
                answer,
            };
            assert!(jobs.send(order).await.is_ok());
            // Not awaited here: both are on their way before either is answered.
            [answered]
        };
        let [held] = order("held", LONGEST).await;
        let [void] = order("void", Duration::from_millis(50)).await;
        let outcome = void.await.unwrap();
        assert!(matches!(&outcome, PublishOutcome::Late(_)), "{outcome:?}");
        assert!(jobs.is_closed());
        small.release.send(true).unwrap();
        assert_eq!(held.await.unwrap(), PublishOutcome::Done);
    }

    #[test]
    fn what_is_remembered_of_steps_is_bounded_and_goes_when_all_is_well() {
        let brokers = Brokers::new(None);
        let step = |n: usize| (PipelineId::new("p").unwrap(), n.to_string());
        for n in 0..MAX_STEPS + 9 {
            brokers.learn(&step(n), |past| past.late += 1);
        }
        assert_eq!(brokers.past.lock().unwrap().len(), MAX_STEPS);
        brokers.learn(&step(MAX_STEPS), |past| past.late = 0);
        assert_eq!(brokers.past.lock().unwrap().len(), MAX_STEPS - 1);
        assert_eq!(brokers.past_of(&step(MAX_STEPS)), (0, false));
    }
}
