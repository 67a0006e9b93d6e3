//! mosquitto on a free loopback port, with `mosquitto_sub` and `mosquitto_pub` as clients.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest wait of a test for an expected message.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until `is_so`, or panics with `what` after [`WAIT_TIMEOUT`].
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + WAIT_TIMEOUT;
    while !is_so().await {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// State that a broker keeps over a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Subscriptions, queued and retained messages.
    Everything,
    /// No persistence, as many brokers are configured.
    Nothing,
}

/// A broker process; killed when dropped.
pub(crate) struct Mosquitto {
    pub(crate) port: u16,
    folder: PathBuf,
    memory: Memory,
    child: Option<Child>,
}

/// The broker's program, or `None` with the line that says why the test is skipped.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn mosquitto_or_skip(test: &str) -> Option<&'static str> {
    let found = [
        "/usr/sbin/mosquitto",
        "/usr/local/sbin/mosquitto",
        "/usr/bin/mosquitto",
    ]
    .into_iter()
    .find(|p| Path::new(p).exists());
    if found.is_none() {
        eprintln!(
            "SKIPPED: {test} (mosquitto is not installed: apt install mosquitto mosquitto-clients)"
        );
    }
    found
}

impl Mosquitto {
    /// Starts a broker with its files in `folder`.
    pub(crate) fn start(folder: &Path, memory: Memory) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|l| l.local_addr())
            .expect("a free port")
            .port();
        let mut broker = Self {
            port,
            folder: folder.to_owned(),
            memory,
            child: None,
        };
        broker.resume();
        broker
    }

    /// Terminates the process in order, so that it saves its persistence file if it has one.
    pub(crate) fn halt(&mut self) {
        if let Some(mut child) = self.child.take() {
            let pid = child.id().to_string();
            Command::new("kill").arg(&pid).status().expect("kill");
            child.wait().expect("reap the broker");
        }
    }

    /// Starts the broker again on the same port.
    pub(crate) fn resume(&mut self) {
        let program = mosquitto_or_skip("").expect("checked by the test");
        let conf = self.folder.join("mosquitto.conf");
        let text = format!(
            "listener {} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n\
             user root\npersistence {}\npersistence_location {}/\n",
            self.port,
            self.memory == Memory::Everything,
            self.folder.display(),
        );
        std::fs::write(&conf, text).expect("write mosquitto.conf");
        let child = Command::new(program)
            .arg("-c")
            .arg(&conf)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start mosquitto");
        self.child = Some(child);
        let until = Instant::now() + WAIT_TIMEOUT;
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < until, "mosquitto does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Publishes one message at QoS 1 with `mosquitto_pub`.
pub(crate) fn publish(port: u16, topic: &str, payload: &str, retain: bool) {
    let mut command = Command::new("mosquitto_pub");
    command.args([
        "-h",
        "127.0.0.1",
        "-p",
        &port.to_string(),
        "-q",
        "1",
        "-t",
        topic,
    ]);
    if retain {
        command.arg("-r");
    }
    // On standard input, because the largest payloads exceed an argument; `-n` sends an empty one.
    let mut child = command
        .arg(if payload.is_empty() { "-n" } else { "-s" })
        .stdin(Stdio::piped())
        .spawn()
        .expect("mosquitto_pub");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(payload.as_bytes()).expect("write");
    drop(stdin);
    let status = child.wait().expect("mosquitto_pub");
    assert!(status.success(), "mosquitto_pub failed");
}

/// Publishes `payload` retained at QoS 1 on every topic, over one connection of its own.
pub(crate) fn publish_to_all(port: u16, topics: impl Iterator<Item = String>, payload: &str) {
    fn text(text: &str) -> Vec<u8> {
        let length = u16::try_from(text.len()).expect("short").to_be_bytes();
        [&length[..], text.as_bytes()].concat()
    }
    fn packet(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u8::try_from(body.len()).expect("short");
        assert!(length < 128, "a remaining length of one byte");
        [&[kind, length][..], body].concat()
    }
    let mut broker = TcpStream::connect(("127.0.0.1", port)).expect("connect");
    // CONNECT: MQTT 3.1.1, clean session, 60 s.
    let hello = [text("MQTT"), vec![4, 2, 0, 60], text("bulk")].concat();
    broker.write_all(&packet(0x10, &hello)).expect("CONNECT");
    let mut answer = [0; 4];
    broker.read_exact(&mut answer).expect("CONNACK");
    for topic in topics {
        // PUBLISH at QoS 1, retained; one at a time, so one packet id does.
        let body = [text(&topic), vec![0, 1], payload.as_bytes().to_vec()].concat();
        broker.write_all(&packet(0x33, &body)).expect("PUBLISH");
        broker.read_exact(&mut answer).expect("PUBACK");
    }
    broker.write_all(&packet(0xe0, &[])).expect("DISCONNECT");
}

/// `mosquitto_sub` on `watchkeeper/#` with a persistent session; it reconnects by itself. Killed
/// when dropped.
pub(crate) struct Subscriber {
    child: Child,
    lines: Receiver<(String, String)>,
    /// Journal numbers of received events, in order of receipt.
    pub(crate) seqs: Vec<u64>,
    /// Whether a loss record was received.
    pub(crate) has_loss: bool,
    latest: BTreeMap<String, Value>,
}

impl Subscriber {
    pub(crate) fn start(port: u16, id: &str) -> Self {
        let mut child = Command::new("mosquitto_sub")
            .args(["-h", "127.0.0.1", "-p", &port.to_string()])
            .args([
                "-q",
                "1",
                "-i",
                id,
                "-c",
                "-t",
                "watchkeeper/#",
                "-F",
                "%t %p",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start mosquitto_sub");
        let stdout = child.stdout.take().expect("piped");
        let (sender, lines) = sync_channel(100_000);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let (topic, payload) = line.split_once(' ').unwrap_or((line.as_str(), ""));
                if sender.send((topic.to_owned(), payload.to_owned())).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            lines,
            seqs: Vec::new(),
            has_loss: false,
            latest: BTreeMap::new(),
        }
    }

    /// Waits until the subscription works: a probe message comes back.
    pub(crate) fn ready(mut self, port: u16) -> Self {
        let until = Instant::now() + WAIT_TIMEOUT;
        loop {
            publish(port, "watchkeeper/probe", "probe", false);
            let soon = Instant::now() + Duration::from_millis(300);
            while let Some((topic, _)) = self.next(soon) {
                if topic == "watchkeeper/probe" {
                    return self;
                }
            }
            assert!(Instant::now() < until, "mosquitto_sub receives nothing");
        }
    }

    /// Last received payload of the topic that ends like this.
    pub(crate) fn latest(&self, topic_end: &str) -> Value {
        let mut latest = self.latest.iter();
        let found = latest.find(|(topic, _)| topic.ends_with(topic_end));
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    }

    /// Waits until the last payload of a topic satisfies `wanted`; returns at once if it does.
    pub(crate) fn expect_state(&mut self, topic_end: &str, wanted: impl Fn(&Value) -> bool) {
        let latest = self
            .latest
            .iter()
            .find(|(topic, _)| topic.ends_with(topic_end));
        if !latest.is_some_and(|(_, value)| wanted(value)) {
            self.expect(topic_end, wanted);
        }
    }

    /// Waits for a message whose topic ends like this and whose payload satisfies `wanted`. Skips
    /// others, but records their journal numbers.
    pub(crate) fn expect(&mut self, topic_end: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + WAIT_TIMEOUT;
        let mut skipped = Vec::new();
        loop {
            let Some((topic, payload)) = self.next(until) else {
                panic!("nothing on …{topic_end} in time; received {skipped:#?}");
            };
            let value = serde_json::from_str(&payload).unwrap_or(Value::Null);
            if topic.ends_with(topic_end) && wanted(&value) {
                return value;
            }
            skipped.push(format!("{topic} {payload}"));
        }
    }

    /// Whether a message arrives within `timeout` on a topic that ends like this.
    pub(crate) fn receives(&mut self, topic_end: &str, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        while let Some((topic, _)) = self.next(until) {
            if topic.ends_with(topic_end) {
                return true;
            }
        }
        false
    }

    /// Waits until all journal numbers of `1..=last` were received. Panics on a loss record.
    pub(crate) fn expect_all_events(&mut self, last: u64) {
        let until = Instant::now() + WAIT_TIMEOUT;
        loop {
            let received: BTreeSet<u64> = self.seqs.iter().copied().collect();
            let missing: Vec<u64> = (1..=last).filter(|seq| !received.contains(seq)).collect();
            assert!(!self.has_loss, "unexpected loss record");
            if missing.is_empty() {
                return;
            }
            if self.next(until).is_none() {
                panic!("missing: {missing:?} of 1..={last}");
            }
        }
    }

    fn next(&mut self, until: Instant) -> Option<(String, String)> {
        let left = until.saturating_duration_since(Instant::now());
        let (topic, payload) = match self.lines.recv_timeout(left) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => panic!("mosquitto_sub ended"),
        };
        if topic.contains("/ev/") {
            let value: Value = serde_json::from_str(&payload).expect("json");
            self.seqs.extend(value["seq"].as_u64());
            self.has_loss |= !value["seqs"].is_null();
        }
        let value = serde_json::from_str(&payload).unwrap_or(Value::Null);
        self.latest.insert(topic.clone(), value);
        Some((topic, payload))
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
