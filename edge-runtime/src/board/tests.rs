use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

use watchkeeper_board::identity::Identity;
use watchkeeper_board::reading::{Board, Power, Reading, Sensed, Temperature, Throttling};
use watchkeeper_board::units::{Celsius, Milliwatts};
use watchkeeper_contract::id::EventSeq;

use super::{BoardSampler, State};
use crate::boot::Boot;
use crate::pipeline::recorder::FlushResult;
use crate::pipeline::recorder::tests::recorder;

const LONG: Duration = Duration::from_secs(30);

/// The reading of a board that is 40 °C warm, takes 5 W and is not throttled.
pub(crate) fn reading() -> Reading {
    Reading {
        temperatures: vec![Temperature {
            name: "cpu-thermal".into(),
            sensed: Sensed::Value(Celsius(40.0)),
            throttles_at: Some(Celsius(95.0)),
            critical_at: Some(Celsius(105.0)),
        }],
        throttling: Throttling {
            thermal: Some(false),
            ..Throttling::default()
        },
        power: Power {
            total: Some(Milliwatts(5_000.0)),
            ..Power::default()
        },
        ..Reading::default()
    }
}

/// A board with a constant reading that reports each sample.
struct Reported {
    identity: Identity,
    reading: Reading,
    sampled: SyncSender<()>,
}

impl Board for Reported {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn sample(&mut self, now: Duration) -> &Reading {
        // Only the first sample is waited for.
        self.sampled.try_send(()).ok();
        self.reading.at = now;
        &self.reading
    }
}

fn weakly_supplied_board() -> (Reported, Receiver<()>) {
    let (sampled, samples) = mpsc::sync_channel(1);
    let mut reading = reading();
    reading.throttling.under_voltage = Some(true);
    let board = Reported {
        identity: Identity::default(),
        reading,
        sampled,
    };
    (board, samples)
}

#[test]
fn throttling_of_board_is_event_that_ends_with_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, journal) = recorder(folder.path());
    let (board, samples) = weakly_supplied_board();
    let sampler = BoardSampler::spawn(move || board, recorder.clone(), Boot::new()).unwrap();
    samples.recv_timeout(LONG).unwrap();
    sampler.shut_down(LONG);
    assert_eq!(recorder.flush(None, LONG), FlushResult::Durable);
    let page = journal.read_after(EventSeq::default(), 10).unwrap();
    let records: Vec<String> = page
        .events
        .iter()
        .map(|event| event.canonical().to_owned())
        .collect();
    let [begin, end] = &records[..] else {
        panic!("two records, not {records:?}");
    };
    assert!(begin.contains("\"phase\":\"new\"") && end.contains("\"phase\":\"end\""));
    for record in [begin, end] {
        assert!(record.contains("\"kind\":\"board_throttled\""), "{record}");
    }
    let (reading, _) = sampler.latest();
    assert_eq!(reading.throttling.is_active(), Some(true));
    let report = sampler.report();
    assert_eq!(report.minute.len(), 1);
    assert!(
        report
            .findings
            .iter()
            .any(|finding| finding.what.starts_with("power"))
    );
}

#[test]
fn report_before_the_first_sample_finds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, _journal) = recorder(folder.path());
    let (allow, allowed) = mpsc::sync_channel::<()>(1);
    let (board, _samples) = weakly_supplied_board();
    let open = move || {
        allowed.recv_timeout(LONG).ok();
        board
    };
    let sampler = BoardSampler::spawn(open, recorder, Boot::new()).unwrap();
    let report = sampler.report();
    assert_eq!(report.findings, []);
    let unknown: Vec<&str> = report.unknown.iter().map(|each| &*each.what).collect();
    assert_eq!(unknown, ["sensors"]);
    allow.send(()).unwrap();
    sampler.shut_down(LONG);
}

#[test]
fn throttling_of_one_sample_is_taken_once() {
    let sample = |thermal| {
        let mut reading = Reading::default();
        reading.throttling.thermal = Some(thermal);
        reading
    };
    let mut state = State::default();
    state.store(&sample(true));
    state.store(&sample(false));
    assert_eq!(state.take().throttling.thermal, Some(true));
    assert_eq!(state.take().throttling.thermal, Some(false));
}
