//! The question for TensorRT and a device, asked in a child process.
//!
//! - The child is [`SUBCOMMAND`] of the runtime. It ends after [`TIMEOUT`] at most.
//! - An answer counts until the shim's file changes. A driver that hangs or crashes is asked again
//!   after [`RETRY_INTERVAL`], and one that refuses at once.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watchkeeper_models::FileStamp;
use watchkeeper_models::model_check::{self, Ending, Interruption, Outcome, limits};
use watchkeeper_trt::{Cuda, Failure, Shim};

use super::settings::TrtSettings;
use crate::network::one_line;

/// Name of the subcommand of `watchkeeper-runtime`.
pub const SUBCOMMAND: &str = "trt-probe";

/// Longest wait for the child.
const TIMEOUT: Duration = Duration::from_secs(10);

/// From a hang or crash of the driver to the next question.
const RETRY_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// File in which NVIDIA's kernel module names its version.
const DRIVER_FILE: &str = "/proc/driver/nvidia/version";

/// Properties of the box that an engine depends on, besides its network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrtFacts {
    /// Such as `10.16.2`.
    pub version: String,
    /// Name of the device, such as `Orin`.
    pub device: String,
    /// Compute capability, such as `8.7`.
    pub capability: String,
    /// First line of [`DRIVER_FILE`]; empty without that file.
    pub driver: String,
    /// Device memory in bytes; that of the box, where the device has none of its own.
    pub memory: u64,
}

/// Output of the child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Facts(TrtFacts),
    Refused(String),
}

/// Asks for TensorRT and the device, and writes the answer to standard output: the whole program of
/// the child.
///
/// # Errors
/// When the reader of the answer is gone.
pub fn serve(library: &Path) -> io::Result<()> {
    let answer = match limits::follow_parent().and_then(|()| ask(library)) {
        Ok(facts) => Answer::Facts(facts),
        Err(why) => Answer::Refused(why),
    };
    let text = serde_json::to_string(&answer).map_err(io::Error::other)?;
    writeln!(io::stdout(), "{text}")
}

fn ask(library: &Path) -> Result<TrtFacts, String> {
    let said = |failure: Failure| failure.message;
    // Nothing that the question does is logged.
    let shim = Shim::open(library, |_| {}).map_err(said)?;
    let device = Cuda::open().and_then(Cuda::device).map_err(said)?;
    let (major, minor) = device.capability;
    let driver = std::fs::read_to_string(DRIVER_FILE).unwrap_or_default();
    Ok(TrtFacts {
        version: shim.version().to_string(),
        device: device.name,
        capability: format!("{major}.{minor}"),
        driver: driver.lines().next().unwrap_or_default().to_owned(),
        memory: device.total_bytes,
    })
}

/// Returns TensorRT's version and device, as a child process found them.
///
/// # Errors
/// One sentence: why TensorRT can't be used, and what would bring it.
pub fn availability(settings: &TrtSettings) -> Result<TrtFacts, String> {
    let library = settings.library_file()?;
    facts(&library, settings)
}

/// Result of the probe for a shim's file.
#[derive(Debug)]
struct ProbeRecord {
    library: PathBuf,
    stamp: Option<FileStamp>,
    facts: Result<TrtFacts, String>,
    /// When a failure is asked for again; `None` keeps the facts.
    until: Option<Instant>,
}

/// Why there are no facts.
#[derive(Debug)]
struct ProbeError {
    message: String,
    /// Whether the driver hangs or crashes.
    is_driver: bool,
}

impl ProbeError {
    fn new(is_driver: bool, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { message, is_driver }
    }
}

/// Returns the facts of this machine, asked for once.
pub(super) fn facts(library: &Path, settings: &TrtSettings) -> Result<TrtFacts, String> {
    static KNOWN: Mutex<Option<ProbeRecord>> = Mutex::new(None);
    let stamp = FileStamp::of(library).ok();
    let mut known = KNOWN.lock();
    if let Some(known) = known.as_ref()
        && known.library == library
        && known.stamp == stamp
        && known.until.is_none_or(|until| Instant::now() < until)
    {
        return known.facts.clone();
    }
    let answer = run_child(library, &settings.program, &|| settings.stop.is_set());
    match &answer {
        Ok(TrtFacts {
            version, device, ..
        }) => tracing::info!(version, device, "TensorRT found"),
        Err(ProbeError { message, .. }) => tracing::warn!(message, "TensorRT can't be used"),
    }
    let until = match &answer {
        Ok(_) => None,
        Err(error) if error.is_driver => Some(Instant::now() + RETRY_INTERVAL),
        Err(_) => Some(Instant::now()),
    };
    let facts = answer.map_err(|error| error.message);
    *known = Some(ProbeRecord {
        library: library.to_owned(),
        stamp,
        facts: facts.clone(),
        until,
    });
    facts
}

fn run_child(
    library: &Path,
    program: &Path,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<TrtFacts, ProbeError> {
    let mut command = Command::new(program);
    command.args([SUBCOMMAND, "--library"]).arg(library);
    let (outcome, text) = model_check::run_for_answer(&mut command, TIMEOUT, is_cancelled)
        .map_err(|error| {
            let why = format!(
                "TensorRT can't be asked in a child process: {error}; {}",
                model_check::start_remedy(&error)
            );
            ProbeError::new(false, why)
        })?;
    let no_answer = |why: String| {
        let why = format!("the process that asks for TensorRT ended without an answer{why}");
        ProbeError::new(false, why)
    };
    match outcome {
        Outcome::Loaded => match model_check::json_answer(&text) {
            Some(Answer::Facts(facts)) => Ok(facts),
            Some(Answer::Refused(why)) => Err(ProbeError::new(false, one_line(&why))),
            None => Err(no_answer("; install this program again".to_owned())),
        },
        Outcome::Ended(Ending::Crash(signal)) => {
            let why = format!(
                "the driver or TensorRT crashes when it is asked for the device (signal {signal}); \
                 install the driver and TensorRT of one JetPack"
            );
            Err(ProbeError::new(true, why))
        }
        Outcome::Interrupted(Interruption::Overdue) => {
            let why = format!(
                "the driver did not answer within {} s; check it with nvidia-smi and restart the \
                 box",
                TIMEOUT.as_secs()
            );
            Err(ProbeError::new(true, why))
        }
        Outcome::Interrupted(Interruption::Other(status)) => Err(no_answer(format!(
            " ({status}); install this program again"
        ))),
        Outcome::Refused(_) | Outcome::Ended(_) | Outcome::Interrupted(_) => {
            Err(no_answer("; free some memory and try again".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::program;

    fn child(script: &str) -> Result<TrtFacts, String> {
        let (_folder, program) = program(script);
        let library = Path::new("/lib/libwk_trt.so");
        run_child(library, &program, &|| false).map_err(|error| error.message)
    }

    #[test]
    fn every_end_of_the_child_is_one_sentence() {
        for (script, said) in [
            ("kill -SEGV $$", "(signal 11)"),
            ("kill -ABRT $$", "(signal 6)"),
            ("exit 3", "without an answer"),
            ("echo nonsense", "without an answer"),
            (
                r#"printf '%s' '{"refused":"no device;\n buy one"}'"#,
                "no device; buy one",
            ),
        ] {
            let why = child(script).expect_err(script);
            assert!(why.contains(said) && !why.contains('\n'), "{why}");
        }
        let facts = serde_json::json!({"facts": {
            "version": "10.3.0", "device": "Orin", "capability": "8.7", "driver": "540.4.0",
            "memory": 1,
        }});
        let facts = child(&format!("echo '{facts}'; echo cuda says bye")).expect("facts");
        assert_eq!(facts.device, "Orin");
    }
}
