//! Measures a model on the back ends of this box.
//!
//! - The whole chain of one frame is measured: scaling, network, reading of the outputs.
//! - Back ends take turns frame by frame, so that other load affects all of them alike.
//! - [`WARM_UP_RUNS`] runs of each come before; no figure includes them.
//! - A back end that can't run the model has its reason; the others are measured.
//! - The motion detector runs on no back end and is measured once, as [`BUILT_IN`].
//! - Not here: models that neither detect objects nor classify.

use std::time::{Duration, Instant};

use watchkeeper_contract::backend::{BUILT_IN, BackendBench, ModelBench, StageTimes};
use watchkeeper_contract::id::SourceId;
use watchkeeper_detect::{BackendChoice, DetectError, DetectParams, DetectTimes, Detector};
use watchkeeper_models::manifest::Task;
use watchkeeper_vision::frame::{Frame, FrameId, Picture};

use super::models::{ModelError, Models};
use super::settings::ModelSettings;
use crate::clock;

/// Runs of each back end before the measurement.
pub const WARM_UP_RUNS: u32 = 3;

/// Most runs of each back end; their times are in memory.
const MAX_RUNS: usize = 100_000;

/// Size of the examined picture, that of a common camera's second stream.
const PICTURE: [u32; 2] = [1280, 720];

/// Why a model can't be measured. One sentence each.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error(transparent)]
    Open(#[from] ModelError),
    #[error(
        "{model} is a model for {task}; only models that detect objects or classify pictures are \
         measured"
    )]
    Task { model: String, task: &'static str },
    #[error("{model} can't be measured: {why}")]
    Nowhere { model: String, why: String },
}

/// A model on one back end, with the times so far.
struct Candidate {
    name: &'static str,
    detector: Box<dyn Detector>,
    times: Vec<DetectTimes>,
}

/// Measures `model` on each of `backends` in turns for `budget`, once at least.
///
/// # Errors
/// [`BenchError`].
pub fn bench(
    settings: &ModelSettings,
    model: &str,
    backends: &[BackendChoice],
    budget: Duration,
) -> Result<ModelBench, BenchError> {
    let (mut candidates, mut absent) = (Vec::new(), Vec::new());
    for choice in backends {
        match open(settings, model, *choice) {
            Ok(candidate) => {
                let is_built_in = candidate.name == BUILT_IN;
                candidates.push(candidate);
                if is_built_in {
                    break;
                }
            }
            Err(error @ BenchError::Task { .. }) => return Err(error),
            Err(error) => absent.push((choice.name(), error.to_string())),
        }
    }
    absent.extend(take_turns(&mut candidates, budget));
    let Some(first) = candidates.first() else {
        let why: Vec<String> = absent.into_iter().map(|(_, why)| why).collect();
        return Err(BenchError::Nowhere {
            model: model.to_owned(),
            why: why.join("; "),
        });
    };
    let input = first.detector.info().input.unwrap_or_default();
    let peak = peak_memory_mb().filter(|_| candidates.len() == 1);
    let measured = candidates.iter().map(|candidate| report(candidate, peak));
    let refused = absent.into_iter().map(|(name, why)| BackendBench {
        why_not: Some(why),
        ..empty(name)
    });
    Ok(ModelBench {
        model: model.to_owned(),
        input,
        picture: PICTURE,
        warm_up_runs: WARM_UP_RUNS,
        backends: measured.chain(refused).collect(),
    })
}

fn open(
    settings: &ModelSettings,
    model: &str,
    choice: BackendChoice,
) -> Result<Candidate, BenchError> {
    let detector = Models::with_settings(settings.clone().with_backend(choice)).open(model)?;
    let task = detector.info().task;
    match task {
        Task::ObjectDetection
        | Task::InstanceSegmentation
        | Task::KeypointDetection
        | Task::Classification => Ok(Candidate {
            name: match detector.info().input {
                Some(_) => choice.name(),
                None => BUILT_IN,
            },
            detector,
            times: Vec::new(),
        }),
        task => Err(BenchError::Task {
            model: model.to_owned(),
            task: task.name(),
        }),
    }
}

/// Runs each candidate in turns; removes one that fails, and returns its name and why.
fn take_turns(candidates: &mut Vec<Candidate>, budget: Duration) -> Vec<(&'static str, String)> {
    let frame = noise();
    let mut failed = Vec::new();
    let mut run_all = |candidates: &mut Vec<Candidate>, keeps_times: bool| {
        candidates.retain_mut(|candidate| match run(candidate.detector.as_mut(), &frame) {
            Ok(times) => {
                candidate.times.extend(keeps_times.then_some(times));
                true
            }
            Err(error) => {
                failed.push((candidate.name, error.to_string()));
                false
            }
        });
    };
    for _ in 0..WARM_UP_RUNS {
        run_all(candidates, false);
    }
    let began = Instant::now();
    for _ in 0..MAX_RUNS {
        run_all(candidates, true);
        if candidates.is_empty() || began.elapsed() >= budget {
            break;
        }
    }
    failed
}

fn run(detector: &mut dyn Detector, frame: &Frame) -> Result<DetectTimes, DetectError> {
    match detector.info().task {
        Task::Classification => detector.classify(frame, &mut Vec::new()),
        _ => detector.detect(frame, &DetectParams::default(), &mut Vec::new()),
    }
}

/// A picture of noise, the same in every process. Its contents do not change a network's work.
fn noise() -> Frame {
    let [width, height] = PICTURE;
    let mut random = fastrand::Rng::with_seed(22);
    let pixels = (0..width * height * 3).map(|_| random.u8(..)).collect();
    let id = FrameId {
        source: SourceId::new("bench").expect("a valid name"),
        seq: 1,
    };
    let picture = Picture::rgb(width, height, pixels);
    Frame::still(id, Instant::now(), clock::wall(), picture)
}

fn empty(name: &str) -> BackendBench {
    BackendBench {
        backend: name.to_owned(),
        provider: None,
        why_not: None,
        runs: 0,
        fps: 0.0,
        preprocess: StageTimes::default(),
        infer: StageTimes::default(),
        postprocess: StageTimes::default(),
        threads: None,
        peak_memory_mb: None,
        tensor_copies: None,
    }
}

fn report(candidate: &Candidate, peak_memory_mb: Option<f64>) -> BackendBench {
    let times = &candidate.times;
    let stage = |stage: fn(&DetectTimes) -> Duration| percentiles(times.iter().map(stage));
    let total: Duration = times
        .iter()
        .map(|t| t.preprocess + t.infer + t.postprocess)
        .sum();
    let info = candidate.detector.info();
    BackendBench {
        provider: info.backend.provider().map(str::to_owned),
        runs: times.len(),
        fps: times.len() as f64 / total.as_secs_f64().max(f64::MIN_POSITIVE),
        preprocess: stage(|t| t.preprocess),
        infer: stage(|t| t.infer),
        postprocess: stage(|t| t.postprocess),
        threads: info.threads,
        peak_memory_mb,
        tensor_copies: info.tensor_copies,
        ..empty(candidate.name)
    }
}

/// The median and the 99th percentile, by nearest rank; zeros without times.
fn percentiles(times: impl Iterator<Item = Duration>) -> StageTimes {
    let mut sorted: Vec<Duration> = times.collect();
    sorted.sort_unstable();
    let at = |percent: usize| {
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).map_or(0.0, |t| t.as_secs_f64() * 1e3)
    };
    StageTimes {
        p50_ms: at(50),
        p99_ms: at(99),
    }
}

/// Peak memory of this process so far, in megabytes.
fn peak_memory_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_of_a_hundred_runs_are_ranks() {
        let times = percentiles((1..=100).map(Duration::from_millis));
        assert_eq!((times.p50_ms, times.p99_ms), (50.0, 99.0));
        let one = percentiles(std::iter::once(Duration::from_millis(7)));
        assert_eq!((one.p50_ms, one.p99_ms), (7.0, 7.0));
        assert_eq!(percentiles(std::iter::empty()), StageTimes::default());
    }

    proptest! {
        #[test]
        fn percentiles_are_measured_times_in_order(
            ms in prop::collection::vec(0_u64..5000, 1..200),
        ) {
            let times = percentiles(ms.iter().map(|ms| Duration::from_millis(*ms)));
            prop_assert!(times.p50_ms <= times.p99_ms);
            for percentile in [times.p50_ms, times.p99_ms] {
                prop_assert!(ms.iter().any(|ms| (*ms as f64 - percentile).abs() < 1e-9));
            }
        }
    }
}
