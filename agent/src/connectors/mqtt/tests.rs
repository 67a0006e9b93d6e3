//! Messages that a broker accepts, refuses, or never answers.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use watchkeeper_contract::effect::Effect;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::spool::EffectNumber;

use super::*;

#[test]
fn publish_timeout_is_clamped_and_doubles_per_timeout() {
    use MqttQos::{AtLeastOnce, AtMostOnce};
    assert_eq!(
        publish_timeout(AtMostOnce, 7.5, 0),
        Duration::from_millis(7500)
    );
    for (odd, is) in [
        (0.5, MIN_TIMEOUT),
        (1e9, MAX_TIMEOUT),
        (f64::NAN, MAX_TIMEOUT),
        (-1.0, MAX_TIMEOUT),
    ] {
        assert_eq!(publish_timeout(AtMostOnce, odd, 0), is, "{odd}");
    }
    let seconds = |timeouts| publish_timeout(AtLeastOnce, 0.5, timeouts).as_secs();
    assert_eq!(
        [0, 1, 2, 3, 9, 99].map(seconds),
        [15, 30, 60, 120, 120, 120]
    );
}

/// A faulty broker. Topics select the fault:
/// - `trap`: it closes the connection;
/// - `void`: it never acknowledges;
/// - `later`: it acknowledges in all sessions but the first;
/// - `held`: it acknowledges after `release`.
struct FaultyBroker {
    port: u16,
    received: Arc<Mutex<Vec<(usize, String)>>>,
    release: watch::Sender<bool>,
}

impl FaultyBroker {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let (release, released) = watch::channel(false);
        let log = Arc::clone(&received);
        tokio::spawn(async move {
            for session in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let (log, released) = (Arc::clone(&log), released.clone());
                tokio::spawn(async move { serve(stream, session, &log, released).await });
            }
        });
        Self {
            port,
            received,
            release,
        }
    }

    /// Numbers of the sessions that published to `topic`, one per message.
    fn sessions(&self, topic: &str) -> Vec<usize> {
        let received = self.received.lock();
        let matching = received.iter().filter(|(_, other)| other == topic);
        matching.map(|(session, _)| *session).collect()
    }
}

/// Serves one session of MQTT 3.1.1 with packets of less than 128 bytes.
async fn serve(
    stream: TcpStream,
    session: usize,
    log: &Mutex<Vec<(usize, String)>>,
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
                log.lock().push((session, topic.clone()));
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
        .publish(spooled, message, &EffectSecrets::empty())
        .await
}

#[tokio::test]
async fn step_that_ends_sessions_costs_other_steps_no_attempt() {
    let broker = FaultyBroker::start().await;
    let brokers = Brokers::new(None);
    let (later, trap) = (
        effect("good", "later", broker.port),
        effect("bad", "trap", broker.port),
    );
    // The message of `good` is unacknowledged when that of `bad` ends the shared session.
    let bad = async {
        while broker.sessions("later").is_empty() {
            tokio::task::yield_now().await;
        }
        publish(&brokers, &trap).await
    };
    let (good, bad) = tokio::join!(publish(&brokers, &later), bad);
    let fault = bad.unwrap_err();
    assert!(fault.why.contains(&broker.port.to_string()), "{fault}");
    assert_eq!(good, Ok(()), "published again in a new session");
    assert_eq!(broker.sessions("later").len(), 2);
    assert_eq!(
        publish(&brokers, &effect("third", "go", broker.port)).await,
        Ok(())
    );
    // From now on `bad` ends only sessions of its own.
    let shared = broker.sessions("go");
    assert!(publish(&brokers, &trap).await.is_err());
    let fourth = effect("fourth", "go", broker.port);
    assert_eq!(publish(&brokers, &fourth).await, Ok(()));
    let go = broker.sessions("go");
    assert_eq!(go, [shared[0], shared[0]], "the shared session continues");
    assert_eq!(
        broker.sessions("trap").len(),
        3,
        "{:?}",
        broker.sessions("trap")
    );
}

#[tokio::test]
async fn interrupted_message_is_published_once_more_in_isolation() {
    let broker = FaultyBroker::start().await;
    let brokers = Brokers::new(None);
    let trap = effect("bad", "trap", broker.port);
    assert!(publish(&brokers, &trap).await.is_err());
    assert_eq!(broker.sessions("trap"), [0, 1]);
    assert!(publish(&brokers, &trap).await.is_err());
    assert_eq!(broker.sessions("trap"), [0, 1, 2], "isolated from now on");
}

#[tokio::test]
async fn unacknowledged_message_fails_alone_and_closes_the_queue() {
    let faulty = FaultyBroker::start().await;
    let broker = Broker {
        settings: MqttConfig {
            commands: CommandAccess::Off,
            password_file: None,
            host: "127.0.0.1".to_owned(),
            port: faulty.port,
            client_id: "c".to_owned(),
            username: None,
            password: None,
            tls: false,
            ca_file: None,
            client_cert: None,
            connect_timeout: MAX_TIMEOUT,
            keep_alive: KEEP_ALIVE,
        },
        keys: Keys::STEP,
    };
    let (jobs, queued) = mpsc::channel(MAX_WAITING);
    tokio::spawn(run_session(broker, queued));
    let publish = async |topic: &str, timeout| {
        let (answer, answered) = oneshot::channel();
        let job = PublishJob {
            topic: topic.to_owned(),
            payload: String::new(),
            options: PublishOptions::new(QoS::AtLeastOnce),
            timeout,
            answer,
        };
        assert!(jobs.send(job).await.is_ok());
        // In an array, so that it is not awaited here: both are sent before any answer.
        [answered]
    };
    let [held] = publish("held", MAX_TIMEOUT).await;
    let [void] = publish("void", Duration::from_millis(50)).await;
    let outcome = void.await.unwrap();
    assert!(
        matches!(&outcome, PublishOutcome::TimedOut(_)),
        "{outcome:?}"
    );
    assert!(jobs.is_closed());
    faulty.release.send(true).unwrap();
    assert_eq!(held.await.unwrap(), PublishOutcome::Done);
}

#[test]
fn history_is_bounded_and_deleted_after_success() {
    let brokers = Brokers::new(None);
    let step = |n: usize| (PipelineId::new("p").unwrap(), n.to_string());
    for n in 0..MAX_STEPS + 9 {
        brokers.update_history(&step(n), |history| history.timeouts += 1);
    }
    assert_eq!(brokers.history.lock().len(), MAX_STEPS);
    brokers.update_history(&step(MAX_STEPS), |history| history.timeouts = 0);
    assert_eq!(brokers.history.lock().len(), MAX_STEPS - 1);
    assert_eq!(brokers.history_of(&step(MAX_STEPS)), (0, false));
}
