//! Changes of a serving network, with candidates that are wrong, slow or break.
#![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use super::link::Link;
use super::serving::ChangingNetwork;
use super::*;
use crate::backend_in_use::{ChangeReport, ChangeState};
use crate::detector::Detector as _;
use crate::network::{Feed, LoadError, Network, Tensor};
use crate::neural::NeuralDetector;
use crate::stream_network::SharedNetwork;
use crate::testing::{detect, manifest, rgb_frame};

/// Behaviour of a test network, changed while it runs.
#[derive(Debug, Default)]
struct Switches {
    is_blind: AtomicBool,
    fails: AtomicBool,
    panics: AtomicBool,
    is_shared: AtomicBool,
    /// Held while no second session can be opened.
    opening: Mutex<()>,
}

/// Finds one object of score 0.9, plus noise of its own below the threshold.
struct Double {
    name: &'static str,
    noise: f32,
    switches: Arc<Switches>,
}

impl Network for Double {
    fn backend(&self) -> &'static str {
        self.name
    }

    fn lanes(&self) -> usize {
        1 + usize::from(self.switches.is_shared.load(Ordering::Relaxed))
    }

    fn share(&self) -> Result<(), String> {
        let _opening = self.switches.opening.lock();
        self.switches.is_shared.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn infer(&self, _: &[Feed<'_>], read: &mut dyn FnMut(&[Tensor<'_>])) -> Result<(), String> {
        let is_on = |switch: &AtomicBool| switch.load(Ordering::Relaxed);
        if is_on(&self.switches.fails) {
            return Err("the device is gone".to_owned());
        }
        assert!(!is_on(&self.switches.panics), "as intended by this test");
        let score = if is_on(&self.switches.is_blind) {
            0.0
        } else {
            0.9
        };
        let data = [
            [30.0, 30.0, 20.0, 20.0, score, 0.0],
            [10.0, 10.0, 9.0, 9.0, self.noise, 0.0],
        ];
        read(&[Tensor {
            name: "out",
            shape: &[1, 2, 6],
            data: data.as_flattened(),
        }]);
        Ok(())
    }
}

fn double(name: &'static str, switches: &Arc<Switches>) -> Box<dyn Network> {
    let noise = if name == "slow" { 0.1 } else { 0.2 };
    let switches = Arc::clone(switches);
    Box::new(Double {
        name,
        noise,
        switches,
    })
}

fn candidate(name: &'static str, switches: &Arc<Switches>) -> Candidate {
    let network = double(name, switches);
    let build: Build = Box::new(move |progress| {
        assert!(progress(0.5), "the network is used");
        Ok(network)
    });
    Candidate {
        backend: name,
        is_int8: false,
        build,
    }
}

#[derive(Default)]
struct Reports {
    all: Mutex<Vec<ChangeReport>>,
    is_stopping: AtomicBool,
}

impl ChangeReporter for Reports {
    fn report(&self, report: &ChangeReport) {
        self.all.lock().push(report.clone());
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    fn lower_priority(&self) {}
}

const AT_ONCE: ChangePolicy = ChangePolicy {
    start_delay: Duration::ZERO,
    interval: Duration::ZERO,
    frames: 20,
    conclusive: 10,
};

/// A network that serves as `slow`, and the thread of its change.
struct Bench {
    network: SharedNetwork,
    serving: Arc<Switches>,
    reports: Arc<Reports>,
    thread: JoinHandle<()>,
}

impl Bench {
    fn new(candidates: Vec<Candidate>) -> Self {
        let serving = Arc::<Switches>::default();
        let again = Arc::clone(&serving);
        let parts = ChangeParts {
            model: "scripted".to_owned(),
            reload: Box::new(move || Ok::<_, LoadError>(double("slow", &again))),
            candidates,
            comparison: Comparison::of(&manifest()),
            policy: AT_ONCE,
            turn: Arc::default(),
        };
        let (network, task) = ChangeTask::new(double("slow", &serving), parts);
        let reports = Arc::<Reports>::default();
        let to = Arc::clone(&reports);
        Self {
            network: SharedNetwork::new(Box::new(network)),
            serving,
            reports,
            thread: thread::spawn(move || task.run(&*to)),
        }
    }

    fn detector(&self) -> NeuralDetector {
        NeuralDetector::new(manifest(), self.network.clone())
    }

    /// Detects in frame after frame until `done`; each frame must show the object.
    fn run_until(&self, mut done: impl FnMut() -> bool) {
        let (mut detector, frame) = (self.detector(), rgb_frame(64, 64, [9, 9, 9]));
        while !done() {
            let found = detect(&mut detector, &frame).len();
            let is_blind = self.serving.is_blind.load(Ordering::Relaxed);
            assert!(found == 1 || is_blind, "a frame without its object");
            thread::yield_now();
        }
    }

    fn backend(&self) -> &'static str {
        self.network.get().backend()
    }

    fn has_reported(&self, number: usize) -> bool {
        self.reports.all.lock().len() >= number
    }

    /// Drops the network and waits for the end of its change; returns the reported states.
    fn finish(self) -> Vec<(&'static str, ChangeState)> {
        let Self {
            network,
            reports,
            thread,
            ..
        } = self;
        drop(network);
        thread.join().unwrap();
        let reports = reports.all.lock();
        let states = reports.iter().map(|r| (r.to, r.state.clone()));
        states.collect()
    }
}

const BEGUN: ChangeState = ChangeState::Building { share: 0.0 };

#[test]
fn agreed_candidate_serves_every_detector_of_the_network() {
    let bench = Bench::new(vec![candidate("fast", &Arc::default())]);
    let other = bench.detector();
    assert_eq!(other.info().backend.name(), "slow");
    bench.run_until(|| bench.has_reported(2));
    assert_eq!(other.info().backend.name(), "fast");
    assert_eq!(bench.backend(), "fast");
    let change = other.info().backend.change().unwrap();
    assert_eq!((change.from, change.state), ("slow", ChangeState::Swapped));
    drop(other);
    let states = bench.finish();
    assert_eq!(states, [("fast", BEGUN), ("fast", ChangeState::Swapped)]);
}

#[test]
fn candidate_is_prepared_for_several_streams_before_it_serves() {
    for is_shared in [false, true] {
        let bench = Bench::new(vec![candidate("fast", &Arc::default())]);
        if is_shared {
            bench.network.get().share().unwrap();
        }
        bench.run_until(|| bench.has_reported(2));
        assert_eq!(bench.backend(), "fast");
        assert_eq!(bench.network.get().lanes(), 1 + usize::from(is_shared));
        bench.finish();
    }
}

#[test]
fn stream_opened_before_the_take_over_has_a_lane_after_it() {
    for is_offered_first in [false, true] {
        let link = Arc::<Link>::default();
        let switches = Arc::<Switches>::default();
        let reload = || Ok::<_, LoadError>(double("slow", &Arc::default()));
        let slow = double("slow", &Arc::default());
        let network = ChangingNetwork::new(slow, Box::new(reload), Arc::clone(&link));
        if is_offered_first {
            assert!(link.offer(double("fast", &switches), false).is_none());
            network.share().unwrap();
        } else {
            network.share().unwrap();
            // The task prepares it and offers it again.
            assert!(link.offer(double("fast", &switches), false).is_some());
            link.offer(double("fast", &switches), true);
            switches.is_shared.store(true, Ordering::Relaxed);
        }
        network.infer(&[], &mut |_| {}).unwrap();
        assert_eq!((network.backend(), network.lanes()), ("fast", 2));
    }
}

#[test]
fn former_back_end_serves_again_with_a_lane_for_each_stream() {
    let fast = Arc::<Switches>::default();
    let bench = Bench::new(vec![candidate("fast", &fast)]);
    bench.network.get().share().unwrap();
    bench.run_until(|| bench.has_reported(2));
    // A network that is loaded again has one lane.
    bench.serving.is_shared.store(false, Ordering::Relaxed);
    fast.fails.store(true, Ordering::Relaxed);
    bench.run_until(|| bench.has_reported(3));
    assert_eq!((bench.backend(), bench.network.get().lanes()), ("slow", 2));
    bench.finish();
}

#[test]
fn frames_run_while_former_back_end_opens_second_session() {
    let (slow, fast) = (Arc::<Switches>::default(), Arc::<Switches>::default());
    let (link, again) = (Arc::<Link>::default(), Arc::clone(&slow));
    let reload = Box::new(move || Ok::<_, LoadError>(double("slow", &again)));
    let former = double("slow", &Arc::default());
    let network = Arc::new(ChangingNetwork::new(former, reload, Arc::clone(&link)));
    network.share().unwrap();
    link.offer(double("fast", &fast), true);
    network.infer(&[], &mut |_| {}).unwrap();
    fast.fails.store(true, Ordering::Relaxed);
    let opening = slow.opening.lock();
    let (done, frames) = mpsc::channel();
    // One of them goes back, and waits for the session.
    for _ in 0..2 {
        let (network, done) = (Arc::clone(&network), done.clone());
        thread::spawn(move || done.send(network.infer(&[], &mut |_| {})));
    }
    let first = frames.recv_timeout(Duration::from_secs(30));
    drop(opening);
    assert_eq!(first, Ok(Ok(())));
    assert_eq!(frames.recv_timeout(Duration::from_secs(30)), Ok(Ok(())));
    assert_eq!((network.backend(), network.lanes()), ("slow", 2));
}

#[test]
fn candidate_that_misses_object_is_refused_for_the_next() {
    let blind = Arc::<Switches>::default();
    blind.is_blind.store(true, Ordering::Relaxed);
    let candidates = vec![
        candidate("blind", &blind),
        candidate("fast", &Arc::default()),
    ];
    let bench = Bench::new(candidates);
    bench.run_until(|| bench.has_reported(4));
    let states = bench.finish();
    let ("blind", ChangeState::Refused { why }) = &states[1] else {
        panic!("{states:?}");
    };
    assert!(why.contains("does not find a `a` of score 0.90"), "{why}");
    assert_eq!(states[3], ("fast", ChangeState::Swapped));
}

#[test]
fn candidate_that_fails_or_panics_is_reported_and_never_serves() {
    let (fails, panics) = (Arc::<Switches>::default(), Arc::<Switches>::default());
    fails.fails.store(true, Ordering::Relaxed);
    panics.panics.store(true, Ordering::Relaxed);
    let broken = |name, build: Build| Candidate {
        backend: name,
        is_int8: false,
        build,
    };
    let bench = Bench::new(vec![
        broken("missing", Box::new(|_| Err("no library".to_owned()))),
        broken("bug", Box::new(|_| panic!("as intended by this test"))),
        candidate("fails", &fails),
        candidate("panics", &panics),
    ]);
    bench.run_until(|| bench.has_reported(8));
    assert_eq!(bench.backend(), "slow");
    let states = bench.finish();
    let whys: Vec<&str> = states
        .iter()
        .filter_map(|(_, state)| match state {
            ChangeState::Failed { why } => Some(why.as_str()),
            _ => None,
        })
        .collect();
    let expected = [
        "no library",
        "bug panicked",
        "the device is gone",
        "panics panicked",
    ];
    assert_eq!(whys, expected);
}

#[test]
fn frame_of_failed_candidate_goes_to_former_back_end() {
    let fast = Arc::<Switches>::default();
    let bench = Bench::new(vec![candidate("fast", &fast)]);
    bench.run_until(|| bench.has_reported(2));
    fast.fails.store(true, Ordering::Relaxed);
    bench.run_until(|| bench.has_reported(3));
    assert_eq!(bench.backend(), "slow");
    let states = bench.finish();
    let why = "the device is gone".to_owned();
    assert_eq!(states[2], ("fast", ChangeState::Reverted { why }));
}

#[test]
fn frame_that_neither_back_end_can_run_changes_nothing() {
    let fast = Arc::<Switches>::default();
    let bench = Bench::new(vec![candidate("fast", &fast)]);
    bench.run_until(|| bench.has_reported(2));
    let fail = |on| {
        bench.serving.fails.store(on, Ordering::Relaxed);
        fast.fails.store(on, Ordering::Relaxed);
    };
    fail(true);
    let ran = bench.network.get().infer(&[], &mut |_| {});
    assert_eq!(ran, Err("the device is gone".to_owned()));
    fail(false);
    bench.run_until(|| true);
    assert_eq!(bench.backend(), "fast");
    assert_eq!(bench.finish().len(), 2);
}

#[test]
fn empty_scene_waits_for_objects_unless_outputs_are_close() {
    let fast = Arc::<Switches>::default();
    let bench = Bench::new(vec![candidate("fast", &fast)]);
    for switches in [&fast, &bench.serving] {
        switches.is_blind.store(true, Ordering::Relaxed);
    }
    let state = || bench.detector().info().backend.change().map(|c| c.state);
    let waits = ChangeState::Comparing {
        agreed: 10,
        wanted: 20,
        needs_objects: true,
    };
    bench.run_until(|| state() == Some(waits.clone()));
    for switches in [&fast, &bench.serving] {
        switches.is_blind.store(false, Ordering::Relaxed);
    }
    // A frame may show its object to one of them only, because the switches are two.
    bench.run_until(|| state() != Some(waits.clone()));
    assert!(!matches!(state(), Some(ChangeState::Failed { .. })));
    drop(bench.finish());
}

#[test]
fn build_is_stopped_with_the_last_detector() {
    let (begun, has_begun) = mpsc::channel();
    let build: Build = Box::new(move |progress| {
        begun.send(()).unwrap();
        while progress(0.1) {
            thread::yield_now();
        }
        Err("stopped".to_owned())
    });
    let bench = Bench::new(vec![Candidate {
        backend: "fast",
        is_int8: false,
        build,
    }]);
    has_begun.recv().unwrap();
    let states = bench.finish();
    assert_eq!(states, [("fast", BEGUN), ("fast", ChangeState::Cancelled)]);
}

#[test]
fn stop_of_program_cancels_build_and_tries_nothing_else() {
    let (begun, has_begun) = mpsc::channel();
    let build: Build = Box::new(move |progress| {
        begun.send(()).unwrap();
        while progress(0.1) {
            thread::yield_now();
        }
        Err("the service stops".to_owned())
    });
    let first = Candidate {
        backend: "first",
        is_int8: false,
        build,
    };
    let bench = Bench::new(vec![first, candidate("fast", &Arc::default())]);
    has_begun.recv().unwrap();
    bench.reports.is_stopping.store(true, Ordering::Relaxed);
    while !bench.thread.is_finished() {
        thread::yield_now();
    }
    let states = bench.finish();
    assert_eq!(
        states,
        [("first", BEGUN), ("first", ChangeState::Cancelled)]
    );
}

#[test]
fn large_frame_ends_the_change() {
    let frame = vec![0.0; super::golden::MAX_BYTES / 4 + 1];
    let bench = Bench::new(vec![candidate("fast", &Arc::default())]);
    while !bench.has_reported(2) {
        let feed = Feed::floats(&[1], &frame);
        bench.network.get().infer(&[feed], &mut |_| {}).unwrap();
    }
    let states = bench.finish();
    let ChangeState::Failed { why } = &states[1].1 else {
        panic!("{states:?}");
    };
    assert!(why.contains("bytes"), "{why}");
}
