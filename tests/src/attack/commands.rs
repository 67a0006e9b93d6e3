//! Publishes mutated requests to the topics of commands.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rumqttc::{Client, Event, MqttOptions, Packet, PublishOptions, QoS};
use serde_json::{Value, json};

use super::arena::Arena;
use super::silence::SilenceWatch;
use super::{MAX_SILENCE, Report};
use crate::agent_api::Api;
use crate::daemons::wait_up_to;
use crate::fuzz::mutate::{mutate, seeds};
use crate::scene::deploy;

const ROOT: &str = "watchkeeper/v1/test/bench";
/// Requests that wait for an answer at a time.
const WINDOW: usize = 500;
/// One of so many requests is larger than a box accepts.
const OVERSIZED: u64 = 1_000;
/// Sizes of such a request in bytes.
const SIZES: std::ops::Range<usize> = 300 << 10..3 << 20;
/// Largest message that this client sends.
const MAX_PACKET: usize = 4 << 20;

/// Last status of each request, by its id.
type Statuses = BTreeMap<String, Vec<u8>>;

/// A foreign client that publishes requests and keeps their statuses.
struct Attacker {
    client: Client,
    statuses: Arc<Mutex<Statuses>>,
}

impl Attacker {
    /// Connects, and subscribes to every status.
    fn connect(port: u16) -> anyhow::Result<Self> {
        let mut options = MqttOptions::new("attacker", ("127.0.0.1", port));
        options
            .set_keep_alive(60)
            .set_max_packet_size(MAX_PACKET, MAX_PACKET);
        let (client, mut connection) = Client::builder(options).capacity(WINDOW).build();
        let statuses = Arc::new(Mutex::new(Statuses::new()));
        let kept = Arc::clone(&statuses);
        // The thread ends with the connection, when the client is dropped.
        std::thread::spawn(move || {
            for event in connection.iter() {
                if let Ok(Event::Incoming(Packet::Publish(message))) = event {
                    let topic = String::from_utf8_lossy(&message.topic);
                    let id = topic.split('/').nth_back(1).unwrap_or_default().to_owned();
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.insert(id, message.payload.to_vec());
                }
            }
        });
        client.subscribe(format!("{ROOT}/cmd/+/+/st"), QoS::AtLeastOnce)?;
        Ok(Self { client, statuses })
    }

    fn send(&self, operation: &str, id: &str, payload: Vec<u8>) -> anyhow::Result<()> {
        let topic = format!("{ROOT}/cmd/{operation}/{id}/req");
        let options = PublishOptions::new(QoS::AtLeastOnce);
        self.client.publish(topic, payload, options)?;
        Ok(())
    }

    fn statuses(&self) -> MutexGuard<'_, Statuses> {
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of answered requests.
    fn answers(&self) -> usize {
        self.statuses().len()
    }

    fn last_status(&self, id: &str) -> Option<Value> {
        serde_json::from_slice(self.statuses().get(id)?).ok()
    }
}

/// Publishes `count` mutated requests, some of them oversized. Each has to be answered, the daemons
/// have to continue to answer, and a valid request has to be executed afterwards.
///
/// # Errors
/// If a process can't be started, or the client loses its broker.
pub fn commands(count: u64, random: &mut fastrand::Rng) -> anyhow::Result<Report> {
    let mut report = Report::new("commands");
    let arena = Arena::start("")?;
    deploy(&arena.bench)?;
    let attacker = Attacker::connect(arena.broker.port)?;
    let api = Api::on(&arena.bench);
    let watch = SilenceWatch::start(move || api.request("GET", "/v1/health", None).is_ok());
    let payloads = payloads()?;
    let mut sent = 0;
    for n in 0..count {
        let payload = payload(n, &payloads, random);
        // An empty message is what removes a retained request; nobody answers it.
        if payload.is_empty() {
            continue;
        }
        let operation = ["snapshot", "deploy", "stop", "reboot", "Stop"][random.usize(..5)];
        attacker.send(operation, &format!("a{n}"), payload)?;
        sent += 1;
        if let Err(error) = wait_for_window(&attacker, sent) {
            report.violations.push(error.to_string());
            break;
        }
    }
    report.attempted("requests", sent as u64);
    let all = wait_up_to(MAX_SILENCE, "the last answers", || {
        (attacker.answers() >= sent).then_some(())
    });
    if all.is_err() {
        let unanswered = sent - attacker.answers();
        report.silent(unanswered, || {
            format!("{unanswered} requests have no answer")
        });
    }
    watch.end(&mut report);
    still_works(&arena, &attacker, &mut report)?;
    arena.finish(&mut report)?;
    Ok(report)
}

/// The payloads of the seeds, without their topics.
fn payloads() -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let seeds = seeds("mqtt")?.into_iter();
    Ok(seeds
        .filter_map(|(name, seed)| {
            let at = seed.iter().position(|byte| *byte == 0)?;
            Some((name, seed.get(at + 1..)?.to_vec()))
        })
        .collect())
}

fn payload(n: u64, payloads: &[(String, Vec<u8>)], random: &mut fastrand::Rng) -> Vec<u8> {
    if n % OVERSIZED == OVERSIZED - 1 {
        return vec![b'x'; random.usize(SIZES)];
    }
    let mut payload = random
        .choice(payloads)
        .map(|(_, payload)| payload.clone())
        .unwrap_or_default();
    for _ in 0..random.usize(1..=4) {
        mutate(&mut payload, payloads, random);
    }
    payload
}

/// Waits while [`WINDOW`] requests are unanswered.
fn wait_for_window(attacker: &Attacker, sent: usize) -> anyhow::Result<()> {
    let began = Instant::now();
    while sent > attacker.answers() + WINDOW {
        if began.elapsed() > MAX_SILENCE {
            bail!("no answer for {MAX_SILENCE:?} after {sent} requests");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// A valid request has to be executed.
fn still_works(arena: &Arena, attacker: &Attacker, report: &mut Report) -> anyhow::Result<()> {
    let began = Instant::now();
    let request = json!({"source": "street"}).to_string();
    attacker.send("snapshot", "afterwards", request.into_bytes())?;
    let last = || attacker.last_status("afterwards");
    let successful = wait_up_to(MAX_SILENCE, "the snapshot", || {
        last().filter(|said| said["status"] == "successful")
    });
    if successful.is_err() {
        report.silent(1, || format!("a valid request afterwards: {:?}", last()));
    }
    report.silence(began.elapsed());
    let running = arena.bench.get("/v1/pipelines")?;
    running.get(0).context("the pipeline is gone").map(drop)
}
