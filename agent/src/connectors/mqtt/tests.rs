//! Messages that a broker accepts, refuses, or never answers.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
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
/// - `void`: it never acknowledges.
struct FaultyBroker {
    port: u16,
    received: Arc<Mutex<Vec<(usize, String)>>>,
}

impl FaultyBroker {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&received);
        tokio::spawn(async move {
            for session in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let log = Arc::clone(&log);
                tokio::spawn(async move { serve(stream, session, &log).await });
            }
        });
        Self { port, received }
    }

    /// Numbers of the sessions that published to `topic`, one per message.
    fn sessions(&self, topic: &str) -> Vec<usize> {
        let received = self.received.lock();
        let matching = received.iter().filter(|(_, other)| other == topic);
        matching.map(|(session, _)| *session).collect()
    }
}

/// Serves one session of MQTT 3.1.1 with packets of less than 128 bytes.
async fn serve(stream: TcpStream, session: usize, log: &Mutex<Vec<(usize, String)>>) -> Option<()> {
    let (mut from, mut to) = stream.into_split();
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
                    _ => acknowledged,
                }
            }
            14 => return None,
            _ => continue,
        };
        to.write_all(&answer).await.ok()?;
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
    let (good, trap) = (
        effect("good", "go", broker.port),
        effect("bad", "trap", broker.port),
    );
    for _ in 0..2 {
        assert_eq!(publish(&brokers, &good).await, Ok(()));
        let fault = publish(&brokers, &trap).await.unwrap_err();
        assert!(fault.why.contains(&broker.port.to_string()), "{fault}");
    }
    assert_eq!(broker.sessions("go"), [0, 0], "its session continues");
    assert_eq!(broker.sessions("trap"), [1, 2], "one for each attempt");
}

#[tokio::test]
async fn changed_login_starts_a_new_session() {
    let broker = FaultyBroker::start().await;
    let brokers = Brokers::new(None);
    let mut spooled = effect("step", "go", broker.port);
    assert_eq!(publish(&brokers, &spooled).await, Ok(()));
    if let Effect::Mqtt(message) = &mut spooled.effect {
        message.username = Some("other".to_owned());
    }
    assert_eq!(publish(&brokers, &spooled).await, Ok(()));
    assert_eq!(broker.sessions("go"), [0, 1]);
}

#[tokio::test]
async fn unacknowledged_message_ends_its_session() {
    let faulty = FaultyBroker::start().await;
    let login = Login {
        host: "127.0.0.1".to_owned(),
        port: faulty.port,
        tls: false,
        username: None,
        password: None,
    };
    let (jobs, queued) = mpsc::channel(1);
    tokio::spawn(run_session(
        Brokers::new(None).broker(&login, MAX_TIMEOUT),
        queued,
    ));
    let (answer, answered) = oneshot::channel();
    let job = PublishJob {
        topic: "void".to_owned(),
        payload: String::new(),
        options: PublishOptions::new(QoS::AtLeastOnce),
        timeout: Duration::from_millis(50),
        answer,
    };
    jobs.send(job).await.unwrap();
    let outcome = answered.await.unwrap();
    assert!(
        matches!(&outcome, PublishOutcome::TimedOut(_)),
        "{outcome:?}"
    );
    assert!(jobs.is_closed());
}

#[tokio::test]
async fn timeouts_of_a_step_are_counted_until_a_success() {
    let brokers = Brokers::new(None);
    let spooled = effect("step", "go", 1);
    let Effect::Mqtt(message) = &spooled.effect else {
        panic!("a message");
    };
    let login = Login {
        host: "127.0.0.1".to_owned(),
        port: 1,
        tls: false,
        username: None,
        password: None,
    };
    let step = |n: usize| (PipelineId::new("p").unwrap(), n.to_string());
    let timeouts = |n: usize| brokers.session(&step(n), &login, message).1;
    assert_eq!(timeouts(0), 0);
    for n in 1..3 {
        let late = PublishOutcome::TimedOut(Fault::transient("late"));
        assert!(brokers.record(&step(0), late).is_err());
        assert_eq!(timeouts(0), n);
    }
    assert_eq!(brokers.record(&step(0), PublishOutcome::Done), Ok(()));
    assert_eq!(timeouts(0), 0);
    (0..MAX_STEPS + 9).for_each(|n| assert_eq!(timeouts(n), 0));
    assert_eq!(brokers.steps.lock().len(), MAX_STEPS);
}
