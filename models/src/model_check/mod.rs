//! The check of a model file in a child process: what both sides of it share.
//!
//! - Owns the limits that the child sets for itself ([`limits`]), and how its parent runs it and
//!   reads its end ([`run`]).
//! - A check ends after [`MAX_SECONDS`] at most; the process is killed then.
//! - At most the last [`MAX_OUTPUT`] bytes of its output are kept; the rest is read and dropped.
//! - Only ends that a model file causes are an [`Ending`]. A signal that somebody sends to stop
//!   programs, or an unknown exit code, says nothing about the file.
//!
//! Not here: what the child loads, and which results are kept.

pub mod limits;

use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The running program, also while an upgrade replaces its file.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// Name of the subcommand of `watchkeeper-runtime`.
pub const SUBCOMMAND: &str = "model-check";

/// Exit code of a model that is refused with a sentence on standard error.
pub const REFUSED: i32 = 1;

/// Longest time of a check, in seconds of wall clock.
pub const MAX_SECONDS: u64 = 60;

/// Bytes of output that are kept.
const MAX_OUTPUT: usize = 64 << 10;

/// Pause between two looks at the process.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Longest wait for the rest of the output, which a descendant may hold open.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The model was loaded and has run once.
    Loaded,
    /// The model is refused, or the check was interrupted: one sentence.
    Refused(String),
    /// The file made the process end.
    Ended(Ending),
}

/// How a file made the process end that checked it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It asked for more memory than a check may use.
    Memory,
    /// It did not end within [`MAX_SECONDS`].
    Time,
    /// The process was killed, as the kernel does when memory runs out.
    Killed,
    /// The back end crashed, by the signal of this number.
    Crash(i32),
}

impl fmt::Display for Ending {
    /// Writes a clause with the remedy, about the model.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const REMEDY: &str = "use a smaller model, or export it with a smaller input";
        match self {
            Self::Memory => write!(
                f,
                "loading it takes more than half of the memory of this box; {REMEDY}"
            ),
            Self::Time => write!(f, "loading it takes longer than {MAX_SECONDS} s; {REMEDY}"),
            Self::Killed => write!(
                f,
                "the system killed the process that tried to load it, as it does when memory \
                 runs out; {REMEDY}"
            ),
            Self::Crash(signal) => write!(
                f,
                "the back end crashes when it loads it (signal {signal}); export it again, or set \
                 another runtime.inference.backend"
            ),
        }
    }
}

/// Runs `command`, which checks one model file, and waits for its end.
///
/// # Errors
/// When the process can't be started or waited for.
pub fn run(command: &mut Command) -> io::Result<Outcome> {
    run_within(command, Duration::from_secs(MAX_SECONDS))
}

fn run_within(command: &mut Command, timeout: Duration) -> io::Result<Outcome> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // The last line of the output must be the sentence.
        .env("RUST_LOG", "error")
        .env("RUST_BACKTRACE", "0")
        .spawn()?;
    let outcome = follow(&mut child, timeout);
    if outcome.is_err() {
        // It may have ended by itself.
        child.kill().ok();
    }
    outcome
}

fn follow(child: &mut Child, timeout: Duration) -> io::Result<Outcome> {
    let output = read_aside(child.stderr.take())?;
    let Some(status) = wait(child, timeout)? else {
        child.kill()?;
        child.wait()?;
        return Ok(Outcome::Ended(Ending::Time));
    };
    let output = output.recv_timeout(OUTPUT_TIMEOUT).unwrap_or_default();
    Ok(judge(status, &String::from_utf8_lossy(&output)))
}

/// Waits for the process; returns `None` after `timeout`.
fn wait(child: &mut Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + timeout;
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

/// Reads to the end on a thread, so that a full pipe does not stop the process.
fn read_aside(
    mut output: Option<impl Read + Send + 'static>,
) -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let read = move || {
        let mut kept = Vec::new();
        let mut piece = [0; 8 << 10];
        while let Some(Ok(count)) = output.as_mut().map(|output| output.read(&mut piece))
            && count > 0
        {
            kept.extend_from_slice(piece.get(..count).unwrap_or_default());
            let surplus = kept.len().saturating_sub(MAX_OUTPUT);
            kept.drain(..surplus);
        }
        // Nobody waits any longer after a timeout.
        sender.send(kept).ok();
    };
    std::thread::Builder::new()
        .name("model-check".to_owned())
        .spawn(read)?;
    Ok(receiver)
}

/// Decides what the end of a check says about the file.
fn judge(status: ExitStatus, output: &str) -> Outcome {
    const ABORT: i32 = 6;
    const KILL: i32 = 9;
    /// Signals of a defect: illegal instruction, trap, abort, bus, arithmetic, segment, system
    /// call.
    const CRASHES: [i32; 7] = [4, 5, ABORT, 7, 8, 11, 31];
    if status.success() {
        return Outcome::Loaded;
    }
    match (status.code(), status.signal()) {
        (Some(REFUSED), _) => {
            let mut lines = output.lines().rev();
            let sentence = lines.find(|line| !line.trim().is_empty());
            Outcome::Refused(sentence.unwrap_or("it can't be opened").trim().to_owned())
        }
        (_, Some(ABORT)) if is_out_of_memory(output) => Outcome::Ended(Ending::Memory),
        (_, Some(KILL)) => Outcome::Ended(Ending::Killed),
        (_, Some(signal)) if CRASHES.contains(&signal) => Outcome::Ended(Ending::Crash(signal)),
        _ => Outcome::Refused(format!(
            "the check of the model was interrupted ({status}); try again"
        )),
    }
}

/// Whether an aborted process printed what allocators of Rust and C++ print.
fn is_out_of_memory(output: &str) -> bool {
    ["memory allocation of ", "bad_alloc"]
        .iter()
        .any(|words| output.contains(words))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn outcome(script: &str) -> Outcome {
        run(&mut shell(script)).unwrap()
    }

    #[test]
    fn refused_model_has_the_last_line_as_its_sentence() {
        let said = outcome("echo a log line >&2; echo 'm.onnx is damaged' >&2; exit 1");
        assert_eq!(said, Outcome::Refused("m.onnx is damaged".to_owned()));
        assert_eq!(outcome("exit 0"), Outcome::Loaded);
    }

    #[test]
    fn only_signals_of_a_defect_or_a_limit_blame_the_file() {
        let abort = "echo 'memory allocation of 99 bytes failed' >&2; kill -ABRT $$";
        assert_eq!(outcome(abort), Outcome::Ended(Ending::Memory));
        assert_eq!(outcome("kill -ABRT $$"), Outcome::Ended(Ending::Crash(6)));
        assert_eq!(outcome("kill -SEGV $$"), Outcome::Ended(Ending::Crash(11)));
        assert_eq!(outcome("kill -KILL $$"), Outcome::Ended(Ending::Killed));
        for script in ["kill -TERM $$", "kill -INT $$", "exit 3"] {
            let ended = outcome(script);
            assert!(matches!(&ended, Outcome::Refused(why) if why.contains("interrupted")));
        }
    }

    #[test]
    fn check_beyond_its_time_is_killed() {
        let began = Instant::now();
        let mut endless = shell("exec sleep 1000");
        let ended = run_within(&mut endless, Duration::from_millis(300)).unwrap();
        assert_eq!(ended, Outcome::Ended(Ending::Time));
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn output_without_end_is_bounded_and_blocks_nothing() {
        let flood = "i=0; while [ $i -lt 400 ]; do printf '%01000d\\n' $i >&2; i=$((i+1)); done; \
                     echo the sentence >&2; exit 1";
        assert_eq!(outcome(flood), Outcome::Refused("the sentence".to_owned()));
        let endless = std::io::repeat(b'x').take(10 * MAX_OUTPUT as u64);
        let kept = read_aside(Some(endless)).unwrap().recv().unwrap();
        assert_eq!(kept.len(), MAX_OUTPUT);
    }

    #[test]
    fn endings_name_the_remedy() {
        for ending in [
            Ending::Memory,
            Ending::Time,
            Ending::Killed,
            Ending::Crash(11),
        ] {
            let clause = ending.to_string();
            assert!(
                clause.contains("; use") || clause.contains("; export"),
                "{clause}"
            );
            let kept = serde_json::to_string(&ending).unwrap();
            assert_eq!(serde_json::from_str::<Ending>(&kept).unwrap(), ending);
        }
    }
}
