//! The build of an engine in a child process.
//!
//! - The child is [`SUBCOMMAND`] of the runtime. It builds, opens the engine, runs it once and only
//!   then keeps it: a crash costs only the child.
//! - It writes one JSON line per step and message of TensorRT, and one at its end.
//! - It ends after [`TIMEOUT`] at most, with its parent, or when the caller's progress says so. It
//!   has no other limit: the builder uses minutes of processor time and most of the memory.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use watchkeeper_models::Sha256Sum;
use watchkeeper_models::model_check::{self, limits};
use watchkeeper_models::onnx::half;
use watchkeeper_trt::{Answers, BuildOptions, Level, Message, Product, Shim, Status, TensorInfo};

use super::cache::{EngineCache, Kept};
use super::engine::{EngineFailure, NAME, TrtNetwork, fixed_shapes};
use super::log;
use crate::network::{Feed, LoadError, OwnedFeed, Signature, Wanted, one_line};
use crate::precision::Precision;

/// Name of the subcommand of `watchkeeper-runtime`.
pub const SUBCOMMAND: &str = "trt-build";

/// Builder optimisation level: TensorRT's own default.
pub(super) const LEVEL: i32 = 3;

/// Device memory that one layer may use; a Jetson shares it with the cameras.
const WORKSPACE_BYTES: u64 = 512 << 20;

/// Longest build; users report 7 minutes for a YOLOX on an Orin Nano.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Longest wait for a step, after which the caller is asked whether to continue.
const ASK_INTERVAL: Duration = Duration::from_millis(200);

/// Steps that wait for the reader; then the child waits.
const MAX_LINES: usize = 64;

/// Bytes of a line that are read.
const MAX_LINE: u64 = 64 << 10;

/// A step of a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildProgress {
    /// TensorRT's name of the phase; empty while nothing is heard.
    pub phase: String,
    pub step: i32,
    pub steps: i32,
}

impl BuildProgress {
    /// Share of the phase that is done, `0.0..=1.0`; 0 while its length is unknown.
    #[must_use]
    pub fn share(&self) -> f32 {
        if self.steps <= 0 {
            return 0.0;
        }
        (self.step as f32 / self.steps as f32).clamp(0.0, 1.0)
    }
}

/// Engine that the child builds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    library: PathBuf,
    model: PathBuf,
    /// Checksum of the file that the key names.
    network: String,
    precision: Precision,
    manifest: String,
    inputs: Vec<Wanted>,
    outputs: Vec<String>,
    engine_dir: PathBuf,
    key: String,
}

/// Why nothing was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    /// TensorRT or the device.
    Unavailable,
    /// The file can't be built or run, here and in each further try.
    File,
    /// TensorRT crashed on the file; the driver or the memory may be the cause.
    Crash,
    /// The file does not match the manifest.
    Mismatch,
    /// Memory, time, threads, the disk, or a cancelled build: another try may succeed.
    Box,
}

/// A build that failed, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refusal {
    reason: Reason,
    pub(super) message: String,
}

impl Refusal {
    fn new(reason: Reason, message: impl AsRef<str>) -> Self {
        let message = one_line(message.as_ref());
        Self { reason, message }
    }

    fn from_failure(failure: EngineFailure) -> Self {
        let reason = match &failure {
            EngineFailure::Mismatch(_) => Reason::Mismatch,
            EngineFailure::Values(_) => Reason::File,
            EngineFailure::Trt(failure) => match failure.status {
                Status::Unavailable | Status::Device => Reason::Unavailable,
                Status::Model | Status::Argument | Status::Engine => Reason::File,
                Status::Cancelled | Status::Memory | Status::Exception | Status::Unknown(_) => {
                    Reason::Box
                }
            },
        };
        Self::new(reason, failure.into_message())
    }

    /// How long it is kept; `None` if another try may succeed.
    pub(super) fn kept(&self) -> Option<Kept> {
        match self.reason {
            Reason::File => Some(Kept::Always),
            Reason::Crash => Some(Kept::OneDay),
            Reason::Unavailable | Reason::Mismatch | Reason::Box => None,
        }
    }

    pub(super) fn into_load(self, path: &Path, manifest: &str) -> LoadError {
        let Self { reason, message } = self;
        let path = path.to_owned();
        match reason {
            Reason::Unavailable => LoadError::Unavailable {
                backend: NAME,
                message,
            },
            Reason::Mismatch => LoadError::Mismatch {
                path,
                manifest: manifest.to_owned(),
                message,
            },
            Reason::File | Reason::Crash | Reason::Box => LoadError::File {
                path,
                backend: NAME,
                message,
            },
        }
    }
}

/// A line of the child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Progress(BuildProgress),
    /// A message of TensorRT.
    Log {
        level: Level,
        text: String,
    },
    Built,
    Refused(Refusal),
}

impl Order {
    pub(super) fn new(
        library: &Path,
        model: &Path,
        (network, precision): (Sha256Sum, Precision),
        signature: &Signature<'_>,
        engine_dir: &Path,
        key: &str,
    ) -> Self {
        Self {
            library: library.to_owned(),
            model: model.to_owned(),
            network: network.to_string(),
            precision,
            manifest: signature.manifest.to_owned(),
            inputs: signature.inputs.clone(),
            outputs: signature.outputs.to_vec(),
            engine_dir: engine_dir.to_owned(),
            key: key.to_owned(),
        }
    }

    fn signature(&self) -> Signature<'_> {
        Signature {
            manifest: &self.manifest,
            inputs: self.inputs.clone(),
            outputs: &self.outputs,
        }
    }

    /// The network in the wanted precision; a calibrated file has it already.
    fn convert(&self, onnx: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        if self.precision != Precision::Fp16 {
            return Ok(onnx);
        }
        let converted = half::convert(onnx.into()).map_err(|why| {
            let why = format!(
                "it can't be converted to float16: {why}; or set runtime.inference.precision = \
                 \"fp32\""
            );
            Refusal::new(Reason::File, why)
        })?;
        Ok(converted.into())
    }

    /// Builds, tries and keeps the engine.
    fn build_and_keep(&self) -> Result<(), Refusal> {
        let on_disk = |e: io::Error| {
            let folder = self.engine_dir.display();
            Refusal::new(
                Reason::Box,
                format!("the engine can't be kept in {folder}: {e}"),
            )
        };
        let onnx = std::fs::read(&self.model)
            .map_err(|e| Refusal::new(Reason::Box, format!("the file can't be read: {e}")))?;
        if Sha256Sum::of(&onnx).to_string() != self.network {
            let why = "the file changed before it was built; try again when it is complete";
            return Err(Refusal::new(Reason::Box, why));
        }
        let onnx = self.convert(onnx)?;
        let shim = Shim::open(&self.library, print_message);
        let shim = shim.map_err(|e| Refusal::from_failure(e.into()))?;
        let cache = EngineCache::new(&self.engine_dir);
        let timings = cache.timings();
        let options = BuildOptions {
            name: &self.manifest,
            workspace_bytes: WORKSPACE_BYTES,
            level: LEVEL,
            timing_cache: &timings,
        };
        let mut answers = Building {
            signature: self.signature(),
            mismatch: None,
            engine: Vec::new(),
            timings: Vec::new(),
        };
        let built = shim.build(&onnx, &options, &mut answers);
        if let Some(mismatch) = answers.mismatch {
            return Err(Refusal::new(Reason::Mismatch, mismatch));
        }
        let ran = built
            .map_err(EngineFailure::Trt)
            .and_then(|()| run_once(shim, &answers.engine, &answers.signature));
        ran.map_err(Refusal::from_failure)?;
        if !answers.timings.is_empty() {
            // It only saves time.
            cache.write_timings(&answers.timings).ok();
        }
        cache.write(&self.key, &answers.engine).map_err(on_disk)
    }
}

/// Opens an engine and runs it on grey pictures and zeros.
fn run_once(
    shim: &'static Shim,
    engine: &[u8],
    signature: &Signature<'_>,
) -> Result<(), EngineFailure> {
    let mut network = TrtNetwork::open(shim, engine, signature)?;
    let inputs = network.trial_inputs();
    let feeds: Vec<Feed<'_>> = inputs.iter().map(OwnedFeed::lend).collect();
    network.run(&feeds, &mut |_| {})
}

/// The child's side of a build.
struct Building<'a> {
    signature: Signature<'a>,
    mismatch: Option<String>,
    engine: Vec<u8>,
    timings: Vec<u8>,
}

impl Answers for Building<'_> {
    fn fix_shapes(&mut self, inputs: &[TensorInfo]) -> Option<Vec<Vec<usize>>> {
        match fixed_shapes(inputs, &self.signature) {
            Ok(shapes) => Some(shapes),
            Err(why) => {
                self.mismatch = Some(why);
                None
            }
        }
    }

    fn progress(&mut self, phase: &str, step: i32, steps: i32) -> bool {
        let phase = phase.to_owned();
        print(&Line::Progress(BuildProgress { phase, step, steps })).is_ok()
    }

    fn take(&mut self, product: Product, bytes: &[u8]) -> bool {
        match product {
            Product::Engine => self.engine = bytes.to_vec(),
            Product::TimingCache => self.timings = bytes.to_vec(),
        }
        true
    }
}

fn print(line: &Line) -> io::Result<()> {
    let text = serde_json::to_string(line).map_err(io::Error::other)?;
    writeln!(io::stdout(), "{text}")
}

/// Writes a message for the parent, which knows the engine.
fn print_message(message: &Message<'_>) {
    let (level, text) = (message.level, message.text.to_owned());
    // Without a reader the next step of the build ends it.
    print(&Line::Log { level, text }).ok();
}

/// Builds an engine and writes its steps and its end to standard output: the whole program of the
/// child. `order` is JSON.
///
/// # Errors
/// When the reader of the output is gone.
pub fn serve(order: &str) -> io::Result<()> {
    let outcome = limits::follow_parent()
        .map_err(|why| Refusal::new(Reason::Box, why))
        .and_then(|()| {
            let order: Result<Order, _> = serde_json::from_str(order);
            order.map_err(|e| Refusal::new(Reason::Box, format!("--order: {e}")))
        })
        .and_then(|order| order.build_and_keep());
    print(&match outcome {
        Ok(()) => Line::Built,
        Err(refusal) => Line::Refused(refusal),
    })
}

/// Runs the child until its end; `progress` returns whether to continue.
pub(super) fn run_child(
    order: &Order,
    program: &Path,
    progress: &mut dyn FnMut(&BuildProgress) -> bool,
) -> Result<(), Refusal> {
    let failed = |e: io::Error| {
        let why = format!("TensorRT can't be run in a child process: {e}");
        Refusal::new(Reason::Box, why)
    };
    let text = serde_json::to_string(order);
    let text = text.map_err(|e| Refusal::new(Reason::Box, format!("a path is not UTF-8: {e}")))?;
    let mut command = Command::new(program);
    command.args([SUBCOMMAND, "--order", &text]);
    let mut child = model_check::restrict_environment(&mut command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let began = Instant::now();
    tracing::info!(model = %order.model.display(), "engine of TensorRT is being built");
    let end = follow(&mut child, began, &order.manifest, progress).map_err(failed);
    // It has ended, or must.
    let status = model_check::kill(child).map_err(failed)?;
    end?.unwrap_or_else(|| Err(ended_silently(status)))?;
    tracing::info!(
        seconds = began.elapsed().as_secs(),
        "engine of TensorRT built"
    );
    Ok(())
}

/// Reads the lines of the child; returns `None` when it ended without a last one.
fn follow(
    child: &mut Child,
    began: Instant,
    engine: &str,
    progress: &mut dyn FnMut(&BuildProgress) -> bool,
) -> io::Result<Option<Result<(), Refusal>>> {
    let lines = read_aside(child.stdout.take())?;
    let mut last = BuildProgress {
        phase: String::new(),
        step: 0,
        steps: 0,
    };
    loop {
        if began.elapsed() > TIMEOUT {
            let minutes = TIMEOUT.as_secs() / 60;
            let why = format!("its engine was not built within {minutes} min; use a smaller model");
            return Ok(Some(Err(Refusal::new(Reason::Box, why))));
        }
        match lines.recv_timeout(ASK_INTERVAL) {
            Ok(Line::Progress(step)) => last = step,
            Ok(Line::Log { level, text }) => {
                let (engine, text) = (Some(engine), text.as_str());
                log::write(&Message {
                    level,
                    engine,
                    text,
                });
            }
            Ok(Line::Built) => return Ok(Some(Ok(()))),
            Ok(Line::Refused(refusal)) => return Ok(Some(Err(refusal))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
        if !progress(&last) {
            let why = "the build of its engine was cancelled; start it again";
            return Ok(Some(Err(Refusal::new(Reason::Box, why))));
        }
    }
}

fn read_aside(output: Option<impl Read + Send + 'static>) -> io::Result<Receiver<Line>> {
    let (sender, receiver) = mpsc::sync_channel(MAX_LINES);
    let read = move || {
        let Some(output) = output else { return };
        let mut output = BufReader::new(output);
        let mut text = Vec::new();
        while let Ok(1..) = output.by_ref().take(MAX_LINE).read_until(b'\n', &mut text) {
            // Native libraries may write there too, also bytes that are no text.
            if let Ok(line) = serde_json::from_slice(&text)
                && sender.send(line).is_err()
            {
                return;
            }
            text.clear();
        }
    };
    std::thread::Builder::new()
        .name("trt-build".to_owned())
        .spawn(read)?;
    Ok(receiver)
}

/// Explains a child that wrote no last line; `None` is one that can't be killed.
fn ended_silently(status: Option<ExitStatus>) -> Refusal {
    /// The kernel sends it when memory runs out.
    const KILL: i32 = 9;
    let Some(status) = status else {
        let why = "the driver holds the build of its engine; check it with nvidia-smi and restart \
                   the box";
        return Refusal::new(Reason::Box, why);
    };
    match status.signal() {
        Some(KILL) => Refusal::new(
            Reason::Box,
            "the system killed the build of its engine, as it does when memory runs out; free some \
             memory and try again, or use a smaller model",
        ),
        Some(signal) if model_check::CRASHES.contains(&signal) => Refusal::new(
            Reason::Crash,
            format!(
                "TensorRT crashes when it builds or runs it (signal {signal}); export it again, or \
                 set another runtime.inference.backend"
            ),
        ),
        _ => Refusal::new(
            Reason::Box,
            format!("the build of its engine ended without an answer ({status}); try again"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_trt::Failure;

    use super::*;
    use crate::testing::program;

    fn child(script: &str, goes_on: bool) -> Result<(), Refusal> {
        let (_folder, program) = program(script);
        let signature = Signature {
            manifest: "m",
            inputs: vec![Wanted::axes([Some(1), None])],
            outputs: &[],
        };
        let (library, model) = (Path::new("/l.so"), Path::new("/m.onnx"));
        let network = Sha256Sum::of(b"m");
        let order = Order::new(
            library,
            model,
            (network, Precision::Fp32),
            &signature,
            Path::new("/e"),
            "k",
        );
        run_child(&order, &program, &mut |_| goes_on)
    }

    #[test]
    fn every_end_of_a_build_is_one_sentence() {
        let refused = r#"printf '%s' '{"refused":{"reason":"file","message":"no such operator"}}'"#;
        for (script, kept, said) in [
            (
                "kill -SEGV $$",
                Some(Kept::OneDay),
                "crashes when it builds or runs it (signal 11)",
            ),
            ("kill -KILL $$", None, "memory runs out"),
            ("kill -TERM $$", None, "try again"),
            ("kill -INT $$", None, "try again"),
            ("kill -BUS $$", None, "try again"),
            ("echo nonsense; exit 3", None, "without an answer"),
            (refused, Some(Kept::Always), "no such operator"),
        ] {
            let refusal = child(script, true).expect_err(script);
            assert_eq!(refusal.kept(), kept, "{script}");
            assert!(refusal.message.contains(said), "{}", refusal.message);
        }
    }

    #[test]
    fn exception_is_tried_again_and_a_refused_file_is_not() {
        for (status, kept) in [
            (Status::Model, Some(Kept::Always)),
            (Status::Exception, None),
        ] {
            let message = "Resource temporarily unavailable".to_owned();
            let refusal = Refusal::from_failure(Failure { status, message }.into());
            assert_eq!(refusal.kept(), kept, "{status:?}");
        }
    }

    #[test]
    fn words_of_native_libraries_do_not_hide_the_end() {
        let script = "printf 'cuda says \\377\\n'; echo '\"built\"'";
        assert_eq!(child(script, true), Ok(()));
    }

    #[test]
    fn cancelled_build_ends_its_process() {
        let refusal = child("exec sleep 600", false).expect_err("cancelled");
        assert_eq!(refusal.kept(), None);
        assert!(refusal.message.contains("cancelled"), "{}", refusal.message);
    }
}
