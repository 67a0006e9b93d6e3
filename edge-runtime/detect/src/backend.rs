//! Choice of the back end that runs a network.
//!
//! `auto` takes the first of TensorRT, ONNX Runtime and rten that can run the file ([`load_as`]). A
//! daemon serves with rten at once ([`load_at_once`]), and the others may take over later
//! ([`change`](super::change)).
//!
//! - A back end that the user named is never silently replaced.
//! - A network that this module returns has run once.
//! - A library that panics over a file fails this file only.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::str::FromStr;
use std::thread::available_parallelism;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watchkeeper_models::Manifest;

use super::network::{LoadError, Network, Signature};
use super::ort_library::OrtSettings;
use super::rten::{self, RtenNetwork};
use super::trt::{self, BuildProgress, TrtNetwork, TrtSettings};
use super::warm_up::{WarmUpError, warm_up};

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum BackendChoice {
    /// The first of TensorRT, ONNX Runtime and rten that can run the file. A daemon begins with
    /// rten and changes later.
    #[default]
    Auto,
    /// The pure Rust back end.
    Rten,
    Ort,
    /// TensorRT, where its shim is compiled.
    Trt,
}

impl BackendChoice {
    const ALL: [Self; 4] = [Self::Auto, Self::Rten, Self::Ort, Self::Trt];

    /// The back ends among which a measurement chooses.
    pub const MEASURED: [Self; 2] = [Self::Ort, Self::Rten];

    /// Back ends that may replace the one that [`load_at_once`] gave, the fastest first.
    pub const CANDIDATES: [Self; 2] = [Self::Trt, Self::Ort];

    /// Its value of the configuration key.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Rten => rten::NAME,
            Self::Ort => "ort",
            Self::Trt => trt::NAME,
        }
    }

    /// Whether the libraries that it needs are found; TensorRT needs `trt`.
    #[must_use]
    pub fn is_installed(self, ort_settings: &OrtSettings, trt: Option<&TrtSettings>) -> bool {
        match self {
            Self::Auto | Self::Rten => true,
            Self::Ort => ort_settings.library_file().is_some(),
            Self::Trt => trt.is_some(),
        }
    }
}

impl FromStr for BackendChoice {
    type Err = UnknownBackend;

    fn from_str(text: &str) -> Result<Self, UnknownBackend> {
        let found = Self::ALL.into_iter().find(|choice| choice.name() == text);
        found.ok_or_else(|| UnknownBackend(text.to_owned()))
    }
}

/// The configured back end does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no back end `{0}`, allowed: {names}",
    names = BackendChoice::ALL.map(BackendChoice::name).join(", ")
)]
pub struct UnknownBackend(String);

/// Bound of the default number of threads. With YOLOX-nano on rten a second thread saves a third of
/// a frame's time. More threads pay off on large networks only, and capture and decoding need cores
/// too.
const MAX_DEFAULT_THREADS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

/// Most threads of a network whose number is not configured. ONNX Runtime gets one where that is
/// fast enough for any camera.
#[must_use]
pub fn default_threads() -> NonZeroUsize {
    available_parallelism().map_or(NonZeroUsize::MIN, |cores| cores.min(MAX_DEFAULT_THREADS))
}

/// Loads a network that takes one picture and runs it once on a grey one, like [`load_as`].
///
/// # Errors
/// [`LoadError`], one sentence.
pub fn load(
    choice: BackendChoice,
    path: &Path,
    manifest: &Manifest,
    threads: Option<NonZeroUsize>,
    ort_settings: &OrtSettings,
    trt: Option<&TrtSettings>,
) -> Result<Box<dyn Network>, LoadError> {
    let file = NetworkFile {
        path,
        signature: &Signature::of(manifest),
        warm_up_run: &|network| warm_up(network, manifest),
    };
    load_as(choice, file, threads, ort_settings, trt)
}

/// Runs a network for the first time and checks its outputs.
pub type WarmUp<'a> = &'a dyn Fn(&dyn Network) -> Result<(), WarmUpError>;

/// A file, what it must have, and its first run.
#[derive(Clone, Copy)]
pub struct NetworkFile<'a> {
    pub path: &'a Path,
    pub signature: &'a Signature<'a>,
    pub warm_up_run: WarmUp<'a>,
}

/// Loads a network and runs it once. [`BackendChoice::Auto`] treats a network that loads but does
/// not run as one that does not load. Without `threads`, its first run is one of usual length.
///
/// # Errors
/// [`LoadError`], one sentence.
pub fn load_as(
    choice: BackendChoice,
    file: NetworkFile<'_>,
    threads: Option<NonZeroUsize>,
    ort_settings: &OrtSettings,
    trt: Option<&TrtSettings>,
) -> Result<Box<dyn Network>, LoadError> {
    let rten = || -> Loaded {
        let threads = threads.unwrap_or_else(default_threads).get();
        let network = RtenNetwork::load(file.path, file.signature, threads)?;
        Ok(Box::new(network))
    };
    let rten = || load_and_warm_up(rten::NAME, file, &rten);
    let ort = || load_and_warm_up("ort", file, &|| ort(file, threads, ort_settings));
    let trt = trt.map(|settings| || load_trt(file, settings, &mut log_phases()));
    match (choice, trt) {
        (BackendChoice::Rten, _) => rten(),
        (BackendChoice::Ort, _) => ort(),
        (BackendChoice::Trt, Some(trt)) => trt(),
        (BackendChoice::Trt, None) => Err(LoadError::Unavailable {
            backend: trt::NAME,
            message: "it is not used here".to_owned(),
        }),
        (BackendChoice::Auto, Some(trt)) => trt().or_else(|reason| {
            tracing::warn!(%reason, "another back end runs the network");
            or_fall_back(ort(), rten)
        }),
        (BackendChoice::Auto, None) => or_fall_back(ort(), rten),
    }
}

/// Loads a network on TensorRT and runs it once. `progress` gets each step of an engine's build and
/// may end it.
///
/// # Errors
/// [`LoadError`], one sentence.
pub fn load_trt(
    file: NetworkFile<'_>,
    settings: &TrtSettings,
    progress: &mut dyn FnMut(&BuildProgress) -> bool,
) -> Loaded {
    let progress = RefCell::new(progress);
    load_and_warm_up(trt::NAME, file, &|| {
        let progress = &mut **progress.borrow_mut();
        let network = TrtNetwork::load(file.path, file.signature, settings, progress)?;
        Ok(Box::new(Mutex::new(network)))
    })
}

/// Logs each phase of the build of an engine once.
fn log_phases() -> impl FnMut(&BuildProgress) -> bool {
    let mut logged = String::new();
    move |step| {
        if step.phase != logged {
            logged.clone_from(&step.phase);
            tracing::info!(phase = step.phase, steps = step.steps, "engine of TensorRT");
        }
        true
    }
}

/// Loads a network with the back end that loads fastest, which is rten, and runs it once. ONNX
/// Runtime serves where rten can't.
///
/// # Errors
/// [`LoadError`], one sentence.
pub fn load_at_once(
    file: NetworkFile<'_>,
    threads: Option<NonZeroUsize>,
    ort_settings: &OrtSettings,
) -> Result<Box<dyn Network>, LoadError> {
    let load = |choice| load_as(choice, file, threads, ort_settings, None);
    let rten = load(BackendChoice::Rten);
    if !BackendChoice::Ort.is_installed(ort_settings, None) {
        return rten;
    }
    or_fall_back(rten, || load(BackendChoice::Ort))
}

type Loaded = Result<Box<dyn Network>, LoadError>;

/// Falls back to the second back end when the first can't load or run the file. A mismatch between
/// file and manifest is final.
fn or_fall_back(first: Loaded, second: impl FnOnce() -> Loaded) -> Loaded {
    match first {
        Err(
            reason @ (LoadError::Unavailable { .. }
            | LoadError::File { .. }
            | LoadError::Run { .. }),
        ) => {
            tracing::info!(%reason, "another back end runs the network");
            second()
        }
        Ok(network) => Ok(network),
        Err(mismatch @ LoadError::Mismatch { .. }) => Err(mismatch),
    }
}

/// Loads a network and runs it once, with panics caught.
fn load_and_warm_up(
    backend: &'static str,
    file: NetworkFile<'_>,
    load: &dyn Fn() -> Loaded,
) -> Loaded {
    let attempt = || {
        let network = load()?;
        (file.warm_up_run)(network.as_ref()).map_err(|error| {
            let path = file.path.to_owned();
            match error {
                WarmUpError::Run(message) => LoadError::Run {
                    path,
                    backend,
                    message,
                },
                WarmUpError::Outputs(error) => LoadError::Mismatch {
                    path,
                    manifest: file.signature.manifest.to_owned(),
                    message: error.to_string(),
                },
            }
        })?;
        Ok(network)
    };
    // Files come from anywhere, and at start each pipeline loads its own: one file must not stop
    // the others.
    catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| {
        let said = panic
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        let message = format!("the library panicked: {said}");
        Err(LoadError::file(file.path, backend, &message))
    })
}

/// Longest processor time of a run with which a network of ONNX Runtime keeps one thread: 50 frames
/// a second. ONNX Runtime's threads sleep between operators, so that cameras and decoders have the
/// cores. To wake them costs a short run as much time as they save, and more processor time.
#[cfg(any(feature = "ort", test))]
const MAX_ONE_THREAD: std::time::Duration = std::time::Duration::from_millis(20);

/// Loads a network on ONNX Runtime.
#[cfg(feature = "ort")]
fn ort(file: NetworkFile<'_>, given: Option<NonZeroUsize>, ort_settings: &OrtSettings) -> Loaded {
    use super::ort::{OrtNetwork, has_other_providers};

    let (path, signature, warm_up_run) = (file.path, file.signature, file.warm_up_run);
    let load = |threads: NonZeroUsize, two_lanes| -> Loaded {
        let network = OrtNetwork::load(path, signature, threads.get(), two_lanes, ort_settings)?;
        Ok(Box::new(network))
    };
    let default = default_threads();
    match given {
        // A given number is what the user allows.
        Some(threads) => load(threads, false),
        None if default.get() == 1 || has_other_providers(ort_settings) => load(default, false),
        None => load_fitting(&load, warm_up_run, ort_settings.measured_threads, default),
    }
}

/// Loads a network with one thread, or with `default` where its runs take longer than
/// [`MAX_ONE_THREAD`]: `measured` says so, or two runs. A network that keeps one thread serves two
/// streams at a time.
#[cfg(any(feature = "ort", test))]
fn load_fitting(
    load: &dyn Fn(NonZeroUsize, bool) -> Loaded,
    warm_up_run: WarmUp<'_>,
    measured: Option<NonZeroUsize>,
    default: NonZeroUsize,
) -> Loaded {
    if measured.is_some_and(|threads| threads > NonZeroUsize::MIN) {
        return load(default, false);
    }
    let network = load(NonZeroUsize::MIN, true)?;
    let is_long = || {
        let before = thread_time();
        // The caller reports a run that fails.
        warm_up_run(network.as_ref()).is_ok() && thread_time() - before > MAX_ONE_THREAD
    };
    // The first run makes the plan and the buffers too, so a long one decides nothing.
    if measured.is_some() || !is_long() || !is_long() {
        return Ok(network);
    }
    drop(network);
    load(default, false)
}

/// Processor time of this thread so far.
#[cfg(any(feature = "ort", test))]
fn thread_time() -> std::time::Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.try_into().unwrap_or_default()
}

#[cfg(not(feature = "ort"))]
fn ort(_: NetworkFile<'_>, _: Option<NonZeroUsize>, _: &OrtSettings) -> Loaded {
    Err(LoadError::Unavailable {
        backend: "ort",
        message: "this program was built without ONNX Runtime".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Feed, Tensor};
    use crate::testing::manifest;

    /// Behaviour of the fake network.
    #[derive(Clone, Copy)]
    enum Does {
        Work,
        Refuse,
        Panic,
        Nonsense,
    }

    impl Network for Does {
        fn backend(&self) -> &'static str {
            "fake"
        }

        fn infer(&self, _: &[Feed<'_>], read: &mut dyn FnMut(&[Tensor<'_>])) -> Result<(), String> {
            let shape: &[usize] = match self {
                Self::Work => &[1, 6, 1],
                Self::Nonsense => &[1, 1, 1],
                Self::Refuse => return Err("no kernel".to_owned()),
                Self::Panic => panic!("index 7 of 3"),
            };
            let data = vec![0.0; shape.iter().product()];
            let name = "out";
            read(&[Tensor {
                name,
                shape,
                data: &data,
            }]);
            Ok(())
        }
    }

    fn tried(does: Does) -> Loaded {
        loaded(&|| Ok(Box::new(does)))
    }

    fn loaded(load: &dyn Fn() -> Loaded) -> Loaded {
        let manifest = manifest();
        let file = NetworkFile {
            path: Path::new("m.onnx"),
            signature: &Signature::of(&manifest),
            warm_up_run: &|network| warm_up(network, &manifest),
        };
        load_and_warm_up("fake", file, load)
    }

    /// Threads and lanes of each opening of a network whose runs take `run_ms` in turn.
    fn openings(run_ms: &[u64], measured: Option<usize>) -> Vec<(usize, bool)> {
        let opened = RefCell::new(Vec::new());
        let load = |threads: NonZeroUsize, two_lanes| -> Loaded {
            opened.borrow_mut().push((threads.get(), two_lanes));
            Ok(Box::new(Does::Work))
        };
        let runs = RefCell::new(run_ms.iter());
        let warm_up_run = |_: &dyn Network| {
            let ms = runs.borrow_mut().next().expect("a run more than needed");
            let until = thread_time() + std::time::Duration::from_millis(*ms);
            while thread_time() < until {
                std::hint::spin_loop();
            }
            Ok(())
        };
        let two = NonZeroUsize::MIN.saturating_add(1);
        let measured = measured.and_then(NonZeroUsize::new);
        load_fitting(&load, &warm_up_run, measured, two).expect("it loads");
        assert_eq!(runs.borrow().len(), 0, "a run less than needed");
        opened.into_inner()
    }

    #[test]
    fn only_a_slow_network_without_measurement_is_opened_twice() {
        assert_eq!(openings(&[21, 21], None), [(1, true), (2, false)]);
        assert_eq!(openings(&[21, 0], None), [(1, true)]);
        assert_eq!(openings(&[0], None), [(1, true)]);
        assert_eq!(openings(&[], Some(2)), [(2, false)]);
        assert_eq!(openings(&[], Some(1)), [(1, true)]);
    }

    fn falls_back(does: Does) -> bool {
        let mut asked = false;
        let end = or_fall_back(tried(does), || {
            asked = true;
            tried(Does::Work)
        });
        assert_eq!(end.is_ok(), !matches!(does, Does::Nonsense));
        asked
    }

    #[test]
    fn file_that_the_first_back_end_cannot_run_gets_the_second() {
        assert!(falls_back(Does::Refuse));
        assert!(falls_back(Does::Panic));
        assert!(!falls_back(Does::Work));
        // The second back end would find the same mismatch.
        assert!(!falls_back(Does::Nonsense));
    }

    #[test]
    fn a_library_that_panics_refuses_the_file_in_one_sentence() {
        let panics = || -> Loaded { panic!("broken\nfile") };
        let loading = loaded(&panics);
        for refused in [loading, tried(Does::Panic), tried(Does::Refuse)] {
            let message = refused.err().map(|e| e.to_string()).unwrap_or_default();
            assert!(
                message.contains("m.onnx") && message.contains("fake"),
                "{message}"
            );
            assert!(!message.contains('\n'), "{message}");
        }
    }
}
