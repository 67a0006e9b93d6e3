//! The check of a model file in a child process: what both sides of it share.
//!
//! - Owns the limits that the child sets for itself ([`limits`]), and how its parent runs it and
//!   reads its end ([`run`]).
//! - Only an end that the file causes is an [`Ending`]; its result may be kept. What the box may
//!   cause is an [`Interruption`] and must not be kept: another check may end otherwise.
//! - A check ends after [`MAX_WALL_SECONDS`] at most, or when its caller cancels it. The process is
//!   always waited for.
//! - The answer is on standard output alone. Native libraries write to standard error as they end.
//! - At most the last [`MAX_OUTPUT`] bytes of each output are kept; the rest is read and dropped.
//!
//! Not here: what the child loads, and which results are kept.

pub mod limits;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use self::limits::MAX_CPU_SECONDS;

/// The running program, also while an upgrade replaces its file.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// Name of the subcommand of `watchkeeper-runtime`.
pub const SUBCOMMAND: &str = "model-check";

/// Exit code of a model that is refused with a sentence, written by [`print_refusal`].
pub const REFUSED: i32 = 1;

/// Longest time of a check, in seconds of wall clock. Shorter than a client waits for a deployment.
pub const MAX_WALL_SECONDS: u64 = 150;

/// Begins the line of the answer.
const ANSWER: &str = "refused: ";

/// Environment of a child. Others may hold secrets, or settings that the parent does not have.
const KEPT_ENV: [&str; 7] = [
    "PATH",
    "HOME",
    "LD_LIBRARY_PATH",
    "ORT_DYLIB_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "RUST_LOG",
];

const ABORT: i32 = 6;

/// Signals of a defect: illegal instruction, trap, abort, arithmetic, segment. Others may come from
/// a stop of the service, a disk or a sandbox.
pub const CRASHES: [i32; 5] = [4, 5, ABORT, 8, 11];

/// Bytes of each output that are kept.
const MAX_OUTPUT: usize = 64 << 10;

/// Pause between two looks at the process.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Longest wait for the end of a killed process, which a hung driver may delay.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for the rest of the output, which a descendant may hold open.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The model was loaded and has run once.
    Loaded,
    /// The model is refused: one sentence.
    Refused(String),
    /// The file made the process end.
    Ended(Ending),
    /// The check says nothing about the file.
    Interrupted(Interruption),
}

/// A process that has ended, and the last [`MAX_OUTPUT`] bytes of its outputs.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// How a file made the process end that checked it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The process asked for more memory than a check may use.
    Memory,
    /// The process used [`MAX_CPU_SECONDS`].
    Time,
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
            Self::Time => write!(
                f,
                "loading it takes more than {MAX_CPU_SECONDS} s of processor time; {REMEDY}"
            ),
            Self::Crash(signal) => write!(
                f,
                "the back end crashes when it loads it (signal {signal}); export it again, or set \
                 another runtime.inference.backend"
            ),
        }
    }
}

/// Why a check ended that says nothing about the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// The check took longer than [`MAX_WALL_SECONDS`].
    Overdue,
    /// The process was killed, as the kernel does when memory runs out.
    Killed,
    /// A file could not be read from the disk (SIGBUS).
    Disk,
    /// A sandbox forbids a system call (SIGSYS).
    Forbidden,
    /// The check's caller cancelled it.
    Cancelled,
    /// A signal that is sent to stop programs, or an unknown exit code.
    Other(ExitStatus),
}

impl fmt::Display for Interruption {
    /// Writes a clause with the remedy, about the model.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overdue => write!(
                f,
                "its check did not end within {MAX_WALL_SECONDS} s; try again when the box has \
                 less to do, or use a smaller model"
            ),
            Self::Killed => f.write_str(
                "the system killed the process that tried to load it, as it does when memory runs \
                 out; free some memory and try again, or use a smaller model",
            ),
            Self::Disk => f.write_str(
                "a file could not be read while it was checked (SIGBUS); check the disk, then try \
                 again",
            ),
            Self::Forbidden => f.write_str(
                "the service's sandbox forbids a call that loading it needs (SIGSYS); allow the \
                 call in SystemCallFilter, then try again",
            ),
            Self::Cancelled => {
                f.write_str("its check was cancelled, because this program stops; start it again")
            }
            Self::Other(status) => {
                write!(f, "its check was interrupted ({status}); try again")
            }
        }
    }
}

/// Writes the sentence with which a child refuses a model to standard output.
pub fn print_refusal(why: &str) {
    let why: Vec<&str> = why.split_whitespace().collect();
    // Without its reader the exit code is all that matters.
    writeln!(io::stdout(), "{ANSWER}{}", why.join(" ")).ok();
}

/// Runs `command`, which checks one model file, and waits for its end or until `is_cancelled`.
/// Of this process's environment it gets what loading a library needs, besides its own variables.
///
/// # Errors
/// When the process can't be started or waited for; [`start_remedy`] has the remedy.
pub fn run(command: &mut Command, is_cancelled: &dyn Fn() -> bool) -> io::Result<Outcome> {
    let timeout = Duration::from_secs(MAX_WALL_SECONDS);
    run_for_answer(command, timeout, is_cancelled).map(|(outcome, _)| outcome)
}

/// The remedy for an error of [`run`].
#[must_use]
pub fn start_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check that the program is there, and mount /proc",
        io::ErrorKind::PermissionDenied => {
            "let the service execute its own program: permissions, noexec, AppArmor or SELinux"
        }
        io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock => {
            "free some memory, or raise the service's TasksMax"
        }
        _ => "raise the service's limits of open files and processes, then try again",
    }
}

/// Runs `command` like [`run`], for `timeout` at most, and returns its standard output too.
///
/// # Errors
/// When the process can't be started or waited for; [`start_remedy`] has the remedy.
pub fn run_for_answer(
    command: &mut Command,
    timeout: Duration,
    is_cancelled: &dyn Fn() -> bool,
) -> io::Result<(Outcome, String)> {
    let ended = run_within(restrict_environment(command), timeout, is_cancelled)?;
    let cancelled = is_cancelled();
    Ok(match ended {
        Some(ended) => (judge(&ended), ended.stdout),
        None => {
            let why = match cancelled {
                true => Interruption::Cancelled,
                false => Interruption::Overdue,
            };
            (Outcome::Interrupted(why), String::new())
        }
    })
}

/// Runs `command` with its environment as it is, for `timeout` at most. Returns `None` if it was
/// killed because of the timeout or of `is_cancelled`.
///
/// # Errors
/// When the process can't be started or waited for.
pub fn run_within(
    command: &mut Command,
    timeout: Duration,
    is_cancelled: &dyn Fn() -> bool,
) -> io::Result<Option<Ended>> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let ended = follow(&mut child, timeout, is_cancelled);
    if !matches!(ended, Ok(Some(_))) {
        // It may have ended by itself.
        kill(child).ok();
    }
    ended
}

/// Leaves of this process's environment what loading a library needs; the variables of `command`
/// stay, and the child knows its parent by [`limits::follow_parent`].
pub fn restrict_environment(command: &mut Command) -> &mut Command {
    let own = command.get_envs();
    let own = own.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let own: Vec<(OsString, OsString)> = own.collect();
    let kept = KEPT_ENV.map(|name| (name, std::env::var_os(name)));
    let kept = kept
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let parent = limits::parent_variable();
    command
        .env_clear()
        .envs(kept)
        .env(parent.0, parent.1)
        .envs(own)
}

/// Kills a process, which may have ended, and waits [`KILL_TIMEOUT`] for its end. A hung driver may
/// hold it longer; then a thread waits, and `None` is returned.
///
/// # Errors
/// When the process can't be waited for.
pub fn kill(mut child: Child) -> io::Result<Option<ExitStatus>> {
    child.kill().ok();
    let status = wait(&mut child, KILL_TIMEOUT, &|| false)?;
    if status.is_none() {
        // A process that is not waited for stays in the table.
        std::thread::Builder::new()
            .name("killed".to_owned())
            .spawn(move || child.wait())?;
    }
    Ok(status)
}

/// Reads the answer of a child: the last line that is JSON of this type. Native libraries may write
/// lines of their own.
pub fn json_answer<T: DeserializeOwned>(output: &str) -> Option<T> {
    let mut lines = output.lines().rev();
    lines.find_map(|line| serde_json::from_str(line).ok())
}

/// Waits for the process and reads its outputs; returns `None` while it runs after `timeout`, or
/// when it is cancelled.
fn follow(
    child: &mut Child,
    timeout: Duration,
    is_cancelled: &dyn Fn() -> bool,
) -> io::Result<Option<Ended>> {
    let outputs = [
        read_aside(child.stdout.take())?,
        read_aside(child.stderr.take())?,
    ];
    let Some(status) = wait(child, timeout, is_cancelled)? else {
        return Ok(None);
    };
    let [stdout, stderr] = outputs.map(|output| {
        let output = output.recv_timeout(OUTPUT_TIMEOUT).unwrap_or_default();
        String::from_utf8_lossy(&output).into_owned()
    });
    Ok(Some(Ended {
        status,
        stdout,
        stderr,
    }))
}

/// Waits for the process; returns `None` after `timeout`, or when it is cancelled.
fn wait(
    child: &mut Child,
    timeout: Duration,
    is_cancelled: &dyn Fn() -> bool,
) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + timeout;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until || is_cancelled() {
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
fn judge(ended: &Ended) -> Outcome {
    const BUS: i32 = 7;
    const KILL: i32 = 9;
    const PROCESSOR_TIME: i32 = 24;
    const SYSTEM_CALL: i32 = 31;
    let status = ended.status;
    if status.success() {
        return Outcome::Loaded;
    }
    let interrupted = Outcome::Interrupted;
    match (status.code(), status.signal()) {
        (Some(REFUSED), _) => {
            let sentence = ended
                .stdout
                .lines()
                .rev()
                .find_map(|line| line.strip_prefix(ANSWER));
            Outcome::Refused(sentence.unwrap_or("it can't be opened").to_owned())
        }
        (_, Some(ABORT)) if is_out_of_memory(&ended.stderr) => Outcome::Ended(Ending::Memory),
        (_, Some(PROCESSOR_TIME)) => Outcome::Ended(Ending::Time),
        (_, Some(signal)) if CRASHES.contains(&signal) => Outcome::Ended(Ending::Crash(signal)),
        (_, Some(KILL)) => interrupted(Interruption::Killed),
        (_, Some(BUS)) => interrupted(Interruption::Disk),
        (_, Some(SYSTEM_CALL)) => interrupted(Interruption::Forbidden),
        _ => interrupted(Interruption::Other(status)),
    }
}

/// Whether an aborted process printed what allocators of Rust and C++ print.
fn is_out_of_memory(log: &str) -> bool {
    ["memory allocation of ", "bad_alloc"]
        .iter()
        .any(|words| log.contains(words))
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
        run(&mut shell(script), &|| false).unwrap()
    }

    #[test]
    fn answer_is_read_from_standard_output_alone() {
        let said = outcome("echo 'refused: m.onnx is damaged'; echo 'library ends' >&2; exit 1");
        assert_eq!(said, Outcome::Refused("m.onnx is damaged".to_owned()));
        let said = outcome("echo 'refused: the file'; echo 'library ends'; exit 1");
        assert_eq!(said, Outcome::Refused("the file".to_owned()));
        let said = outcome("echo 'refused: a log line' >&2; exit 1");
        assert_eq!(said, Outcome::Refused("it can't be opened".to_owned()));
        assert_eq!(outcome("exit 0"), Outcome::Loaded);
    }

    #[test]
    fn only_signals_of_a_defect_or_a_limit_blame_the_file() {
        let abort = "echo 'memory allocation of 99 bytes failed' >&2; kill -ABRT $$";
        assert_eq!(outcome(abort), Outcome::Ended(Ending::Memory));
        assert_eq!(outcome("kill -XCPU $$"), Outcome::Ended(Ending::Time));
        assert_eq!(outcome("kill -ABRT $$"), Outcome::Ended(Ending::Crash(6)));
        assert_eq!(outcome("kill -SEGV $$"), Outcome::Ended(Ending::Crash(11)));
        for (signal, why) in [
            ("KILL", Interruption::Killed),
            ("BUS", Interruption::Disk),
            ("SYS", Interruption::Forbidden),
        ] {
            let ended = outcome(&format!("kill -{signal} $$"));
            assert_eq!(ended, Outcome::Interrupted(why));
        }
        for script in ["kill -TERM $$", "kill -INT $$", "exit 3"] {
            let Outcome::Interrupted(why) = outcome(script) else {
                panic!("{script}");
            };
            assert!(why.to_string().contains("interrupted"), "{why}");
        }
    }

    /// Whether a process of this number is there, running or not waited for.
    fn is_there(pid: &str) -> bool {
        std::path::Path::new("/proc").join(pid.trim()).exists()
    }

    #[test]
    fn check_that_is_overdue_or_cancelled_is_killed_and_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!("echo $$ > {}; exec sleep 1000", pid.display());
        let long = Duration::from_secs(1000);
        for (timeout, why) in [
            (Duration::from_millis(300), Interruption::Overdue),
            (long, Interruption::Cancelled),
        ] {
            let began = Instant::now();
            let cancel = || why == Interruption::Cancelled && pid.exists();
            let ended = run_for_answer(&mut shell(&script), timeout, &cancel).unwrap();
            assert_eq!(ended.0, Outcome::Interrupted(why));
            assert!(began.elapsed() < Duration::from_secs(60));
            let started = std::fs::read_to_string(&pid).unwrap_or_default();
            assert!(started.trim().is_empty() || !is_there(&started));
            std::fs::remove_file(&pid).ok();
        }
    }

    #[test]
    fn child_gets_only_what_a_library_needs_and_its_own_variables() {
        let script = "if [ -n \"$CARGO_MANIFEST_DIR\" ]; then echo refused: all; exit 1; fi; \
                      [ -n \"$PATH\" ] && [ \"$OWN\" = 1 ] || exit 3";
        let mut command = shell(script);
        command.env("OWN", "1");
        assert_eq!(run(&mut command, &|| false).unwrap(), Outcome::Loaded);
    }

    #[test]
    fn answer_is_the_last_line_of_its_type() {
        assert_eq!(json_answer("cuda says hello\n[1]\n[2]\nbye"), Some([2]));
        assert_eq!(json_answer::<[u8; 1]>("cuda says hello"), None);
    }

    #[test]
    fn killed_process_is_waited_for() {
        let child = shell("exec sleep 1000").spawn().unwrap();
        let pid = child.id().to_string();
        let status = kill(child).unwrap().unwrap();
        assert_eq!(status.signal(), Some(9));
        assert!(!is_there(&pid));
    }

    #[test]
    fn output_without_end_is_bounded_and_blocks_nothing() {
        let flood = "i=0; while [ $i -lt 400 ]; do printf '%01000d\\n' $i >&2; \
                     printf '%01000d\\n' $i; i=$((i+1)); done; \
                     echo 'refused: the sentence'; exit 1";
        assert_eq!(outcome(flood), Outcome::Refused("the sentence".to_owned()));
        let endless = std::io::repeat(b'x').take(10 * MAX_OUTPUT as u64);
        let kept = read_aside(Some(endless)).unwrap().recv().unwrap();
        assert_eq!(kept.len(), MAX_OUTPUT);
    }

    #[test]
    fn every_end_names_the_remedy() {
        for ending in [Ending::Memory, Ending::Time, Ending::Crash(11)] {
            let clause = ending.to_string();
            assert!(
                clause.contains("; use") || clause.contains("; export"),
                "{clause}"
            );
            let kept = serde_json::to_string(&ending).unwrap();
            assert_eq!(serde_json::from_str::<Ending>(&kept).unwrap(), ending);
        }
        for why in [
            Interruption::Overdue,
            Interruption::Killed,
            Interruption::Disk,
            Interruption::Forbidden,
        ] {
            assert!(why.to_string().contains("try again"), "{why}");
        }
    }

    #[test]
    fn error_of_a_start_has_its_own_remedy() {
        let missing = run(&mut Command::new("/no/such/program"), &|| false).unwrap_err();
        assert!(start_remedy(&missing).contains("/proc"));
        let folder = tempfile::tempdir().unwrap();
        let forbidden = run(&mut Command::new(folder.path()), &|| false).unwrap_err();
        assert!(start_remedy(&forbidden).contains("permissions"));
        let memory = start_remedy(&io::ErrorKind::OutOfMemory.into());
        assert!(memory.contains("free some memory"));
    }
}
