//! The question for TensorRT and a device, asked in a child process.
//!
//! - The child is [`SUBCOMMAND`] of the runtime. It ends after [`TIMEOUT`] at most.
//! - An answer, and a failure too, counts until the shim's file changes: a hanging driver is asked
//!   once.

use std::fs::Metadata;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watchkeeper_models::model_check::limits;
use watchkeeper_trt::{Failure, Shim};

use super::settings::TrtSettings;
use crate::network::one_line;

/// Name of the subcommand of `watchkeeper-runtime`.
pub const SUBCOMMAND: &str = "trt-probe";

/// Longest wait for the child.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two looks at the child.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Bytes of the answer that are read; far more than it has.
const MAX_ANSWER: u64 = 16 << 10;

/// What an engine depends on besides its network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrtFacts {
    /// Such as `10.16.2`.
    pub version: String,
    /// Name of the device, such as `Orin`.
    pub device: String,
    /// Compute capability, such as `8.7`.
    pub capability: String,
    /// Device memory in bytes; that of the box, where the device has none of its own.
    pub memory: u64,
}

/// What the child writes.
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
/// When nobody reads the answer.
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
    let shim = Shim::open(library).map_err(said)?;
    let version = shim.version().map_err(said)?.library;
    let device = shim.probe().map_err(said)?;
    let (major, minor) = device.capability;
    Ok(TrtFacts {
        version: format!(
            "{}.{}.{}",
            version / 10_000,
            version / 100 % 100,
            version % 100
        ),
        device: device.name,
        capability: format!("{major}.{minor}"),
        memory: device.total_bytes,
    })
}

/// Returns TensorRT's version and device, as a child process found them.
///
/// # Errors
/// One sentence: why TensorRT can't be used, and what would bring it.
pub fn availability(settings: &TrtSettings) -> Result<TrtFacts, String> {
    let library = settings.library_file()?;
    facts(&library, &settings.program)
}

type Known = (PathBuf, Option<(u64, i64, i64)>, Result<TrtFacts, String>);

/// Returns the facts of this machine; a child of `program` is asked once.
pub(super) fn facts(library: &Path, program: &Path) -> Result<TrtFacts, String> {
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    let stamp = |file: Metadata| (file.size(), file.mtime(), file.mtime_nsec());
    let stamp = std::fs::metadata(library).ok().map(stamp);
    let mut known = KNOWN.lock();
    if let Some((path, when, facts)) = known.as_ref()
        && path == library
        && *when == stamp
    {
        return facts.clone();
    }
    let facts = run_child(library, program);
    match &facts {
        Ok(TrtFacts {
            version, device, ..
        }) => tracing::info!(version, device, "TensorRT found"),
        Err(why) => tracing::warn!(why, "TensorRT can't be used"),
    }
    *known = Some((library.to_owned(), stamp, facts.clone()));
    facts
}

fn run_child(library: &Path, program: &Path) -> Result<TrtFacts, String> {
    let failed = |e: io::Error| format!("TensorRT can't be asked in a process of its own: {e}");
    let (name, value) = limits::parent_variable();
    let mut child = Command::new(program)
        .args([SUBCOMMAND, "--library"])
        .arg(library)
        .env(name, value)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let status = wait(&mut child).map_err(failed);
    if !matches!(status, Ok(Some(_))) {
        // It may have ended meanwhile. One that is not waited for stays in the table.
        child.kill().ok();
        child.wait().ok();
    }
    let Some(status) = status? else {
        return Err(format!(
            "the driver did not answer within {} s; check it with nvidia-smi and restart the box",
            TIMEOUT.as_secs()
        ));
    };
    let mut text = String::new();
    if let Some(output) = child.stdout.take() {
        let mut output = output.take(MAX_ANSWER);
        output.read_to_string(&mut text).map_err(failed)?;
    }
    read_answer(status, &text)
}

/// Waits for the child; returns `None` after [`TIMEOUT`]. Its answer fits into the pipe.
fn wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn read_answer(status: ExitStatus, text: &str) -> Result<TrtFacts, String> {
    if let Some(signal) = status.signal() {
        return Err(format!(
            "the driver or TensorRT crashes when it is asked for the device (signal {signal}); \
             install the driver and TensorRT of one JetPack"
        ));
    }
    match serde_json::from_str(text.trim()) {
        Ok(Answer::Facts(facts)) => Ok(facts),
        Ok(Answer::Refused(why)) => Err(one_line(&why)),
        Err(_) => Err(format!(
            "the process that asks for TensorRT ended without an answer ({status}); install this \
             program again"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::program;

    fn child(script: &str) -> Result<TrtFacts, String> {
        let (_folder, program) = program(script);
        run_child(Path::new("/lib/libwk_trt.so"), &program)
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
        let facts =
            r#"{"facts":{"version":"10.3.0","device":"Orin","capability":"8.7","memory":1}}"#;
        let facts = child(&format!("echo '{facts}'")).expect("facts");
        assert_eq!(facts.device, "Orin");
    }
}
