//! Runs the daemons under test as child processes, with a folder and a socket of their own.
//!
//! - Children die with the test, whatever it does.
//! - Nothing outside the temporary folder is touched.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// Longest start of a process on a busy machine.
pub const START_TIMEOUT: Duration = Duration::from_secs(90);

/// Exit code of a daemon that can't start or continue; `docs/guide/install.md` promises it.
pub const FAILED: i32 = 1;

/// Returns the path of a program of this workspace, built beside the running test or program.
///
/// # Errors
/// If the program was not built; `./test` builds everything first.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let folder = exe.parent().context("this runs outside a target folder")?;
    // Tests lie in their own folder, one level below.
    let folder = match folder.file_name() {
        Some(name) if name == "deps" => folder.parent().unwrap_or(folder),
        _ => folder,
    };
    let path = folder.join(name);
    ensure!(
        path.exists(),
        "{} is not built; run ./test, or cargo build --workspace first",
        path.display()
    );
    Ok(path)
}

/// Returns the folder of real footage; without one, prints that `what` is skipped.
#[expect(clippy::print_stderr, reason = "a skip must be loud")]
#[must_use]
pub fn data(what: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("WATCHKEEPER_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
        PathBuf::from,
    );
    if folder.join("video").is_dir() {
        Some(folder)
    } else {
        eprintln!(
            "SKIPPED: {what} (no footage at {}; set WATCHKEEPER_DATA)",
            folder.display()
        );
        None
    }
}

/// Whether long tests are enabled; if not, prints that `what` is skipped.
#[expect(clippy::print_stderr, reason = "a skip must be loud")]
#[must_use]
pub fn soak(what: &str) -> bool {
    let wanted = std::env::var_os("WATCHKEEPER_SOAK").is_some();
    if !wanted {
        eprintln!("SKIPPED: {what} (WATCHKEEPER_SOAK=1 runs the long ones)");
    }
    wanted
}

/// Waits until `done` returns a value.
///
/// # Errors
/// If it returns none within [`START_TIMEOUT`].
pub fn wait_for<T>(what: &str, done: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    wait_up_to(START_TIMEOUT, what, done)
}

/// Waits until `done` returns a value, at most `timeout`.
///
/// # Errors
/// If it returns none in that time.
pub fn wait_up_to<T>(
    timeout: Duration,
    what: &str,
    mut done: impl FnMut() -> Option<T>,
) -> anyhow::Result<T> {
    let until = Instant::now() + timeout;
    loop {
        if let Some(answer) = done() {
            return Ok(answer);
        }
        if Instant::now() > until {
            bail!("timed out after {timeout:?}: {what}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Child process that is killed on drop.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; standard output and error go to `log`, standard input stays open.
    ///
    /// # Errors
    /// If the command can't be started.
    pub fn start(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("{command:?}"))?;
        Ok(Self {
            child,
            log: log.to_path_buf(),
        })
    }

    /// Kills the process by SIGKILL, as a power cut would.
    ///
    /// # Errors
    /// If waiting for its exit fails.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Closes standard input, which asks the process to stop, and waits.
    ///
    /// # Errors
    /// If it does not exit, or fails.
    pub fn stop(self) -> anyhow::Result<()> {
        let (code, log) = self.end()?;
        ensure!(code == Some(0), "exit code {code:?}: {log}");
        Ok(())
    }

    /// Closes standard input and waits; returns the exit code, `None` after a signal, and the log.
    ///
    /// # Errors
    /// If it does not exit.
    pub fn end(mut self) -> anyhow::Result<(Option<i32>, String)> {
        drop(self.child.stdin.take());
        let status = wait_for("the process to stop", || {
            self.child.try_wait().ok().flatten()
        })?;
        Ok((status.code(), self.log_text()))
    }

    /// Sends SIGTERM and does not wait.
    ///
    /// # Errors
    /// If the process has exited.
    pub fn terminate(&self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Sends SIGINT and does not wait.
    ///
    /// # Errors
    /// If the process has exited.
    pub fn interrupt(&self) -> anyhow::Result<()> {
        self.signal(Signal::INT)
    }

    /// Sends SIGHUP, as a closed terminal does, and does not wait.
    ///
    /// # Errors
    /// If the process has exited.
    pub fn hang_up(&self) -> anyhow::Result<()> {
        self.signal(Signal::HUP)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id())?;
        let pid = rustix::process::Pid::from_raw(pid).context("no process id")?;
        rustix::process::kill_process(pid, signal)?;
        Ok(())
    }

    /// Waits until the process exits; returns the exit code, `None` after a signal, and the log.
    ///
    /// # Errors
    /// If it does not exit within `timeout`.
    pub fn wait_for_exit(mut self, timeout: Duration) -> anyhow::Result<(Option<i32>, String)> {
        let status = wait_up_to(timeout, "the process to end", || {
            self.child.try_wait().ok().flatten()
        })?;
        Ok((status.code(), self.log_text()))
    }

    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns everything that the process wrote so far.
    #[must_use]
    pub fn log_text(&self) -> String {
        let mut text = String::new();
        if let Ok(mut file) = File::open(&self.log)
            && file.read_to_string(&mut text).is_err()
        {
            text.push_str("(log is not text)");
        }
        text
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killing fails if the child has already exited, which is fine.
        if self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}

/// A box of its own: state folder, configuration file, socket.
#[derive(Debug)]
pub struct Bench {
    folder: TempDir,
}

impl Bench {
    /// Creates a box whose configuration holds `extra` besides the paths of state and socket.
    ///
    /// # Errors
    /// If the temporary folder can't be written.
    pub fn new(extra: &str) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("wk").tempdir()?;
        let bench = Self { folder };
        bench.configure(extra)?;
        Ok(bench)
    }

    /// Rewrites the configuration file. The crash loop guard is off, because tests kill daemons.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn configure(&self, extra: &str) -> anyhow::Result<()> {
        let text = format!(
            "[box]\nsite = \"test\"\nid = \"bench\"\n\n[runtime]\nstate_dir = {:?}\nsocket = {:?}\ncrash_loop_limit = 0\n\n{extra}",
            self.path("state"),
            self.socket()
        );
        fs::write(self.config(), text)?;
        Ok(())
    }

    /// Returns a path in the folder of the box.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the path of the configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.path("watchkeeper.toml")
    }

    /// Returns the path of the runtime's socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.path("runtime.sock")
    }

    /// Starts the runtime and waits until it answers.
    ///
    /// # Errors
    /// If it does not answer; the message holds its log.
    pub fn runtime(&self) -> anyhow::Result<Process> {
        self.start_runtime(self.runtime_command()?)
    }

    /// Starts the runtime with this X display, or without one.
    ///
    /// # Errors
    /// If it does not answer; the message holds its log.
    pub fn runtime_on(&self, screen: Option<&str>) -> anyhow::Result<Process> {
        let mut command = self.runtime_command()?;
        command.env_remove("WAYLAND_DISPLAY").env_remove("DISPLAY");
        if let Some(screen) = screen {
            command.env("DISPLAY", screen);
        }
        self.start_runtime(command)
    }

    /// Starts the runtime with these environment variables.
    ///
    /// # Errors
    /// If it does not answer; the message holds its log.
    pub fn runtime_with(&self, variables: &[(&str, PathBuf)]) -> anyhow::Result<Process> {
        let mut command = self.runtime_command()?;
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        self.start_runtime(command)
    }

    /// Starts the runtime with SIGXFSZ ignored. A write beyond the file size limit then fails with
    /// an error, as on a failing disk.
    ///
    /// # Errors
    /// If it does not answer; the message holds its log.
    pub fn runtime_ignoring_sigxfsz(&self) -> anyhow::Result<Process> {
        let runtime = self.runtime_command()?;
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
            .arg(runtime.get_program())
            .args(runtime.get_args());
        self.start_runtime(command)
    }

    fn runtime_command(&self) -> anyhow::Result<Command> {
        let mut command = Command::new(program("watchkeeper-runtime")?);
        command
            .arg("--config")
            .arg(self.config())
            .arg("--exit-with-parent");
        Ok(command)
    }

    /// Starts the runtime and does not wait: it may hang, or exit.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn spawn_runtime(&self) -> anyhow::Result<Process> {
        Process::start(self.runtime_command()?, &self.path("runtime.log"))
    }

    fn start_runtime(&self, command: Command) -> anyhow::Result<Process> {
        let mut process = Process::start(command, &self.path("runtime.log"))?;
        let up = wait_for("the runtime to answer", || {
            if !process.is_running() {
                return Some(false);
            }
            self.get("/v1/health").ok().map(|_| true)
        });
        match up {
            Ok(true) => Ok(process),
            Ok(false) => bail!("the runtime ended: {}", process.log_text()),
            Err(error) => bail!("{error}: {}", process.log_text()),
        }
    }

    ///
    /// # Errors
    /// If it can't be started.
    pub fn agent(&self) -> anyhow::Result<Process> {
        // As an installation does: the command, called by the agent's name.
        let mut command = Command::new(program("watchkeeper")?);
        command
            .arg0("watchkeeper-agent")
            .arg("--config")
            .arg(self.config())
            .arg("--exit-with-parent");
        Process::start(command, &self.path("agent.log"))
    }

    /// Checks that `daemon` exits with [`FAILED`] and one error line that holds every one of
    /// `parts`.
    ///
    /// # Errors
    /// If the daemon behaves otherwise.
    pub fn refuses_to_start(&self, daemon: &str, parts: &[&str]) -> anyhow::Result<()> {
        // A daemon that starts after all would never exit.
        let out = Command::new("timeout")
            .arg("60")
            .arg(program(daemon)?)
            .arg("--config")
            .arg(self.config())
            .stdin(Stdio::null())
            .output()?;
        let text = String::from_utf8(out.stderr)?;
        ensure!(!text.contains("panicked"), "{daemon}: {text}");
        ensure!(
            out.status.code() == Some(FAILED),
            "{daemon}: {}: {text}",
            out.status
        );
        let errors: Vec<&str> = text.lines().filter(|line| line.contains("ERROR")).collect();
        let [error] = errors[..] else {
            bail!("{daemon}: not one sentence: {errors:?}");
        };
        for part in parts {
            ensure!(error.contains(part), "{daemon}: no {part:?} in {error}");
        }
        Ok(())
    }

    /// Sends one request over the socket; returns status and body.
    ///
    /// # Errors
    /// If the connection fails or the answer is not HTTP.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(u16, Vec<u8>)> {
        self.request_within(START_TIMEOUT, method, path, body)
    }

    /// Sends one request whose answer may take up to `timeout`; returns status and body.
    ///
    /// # Errors
    /// If the connection fails or the answer is not HTTP.
    pub fn request_within(
        &self,
        timeout: Duration,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(u16, Vec<u8>)> {
        let method = reqwest::Method::from_bytes(method.as_bytes())?;
        self.exchange(method, path, |request| {
            let request = request.timeout(timeout);
            match body {
                Some(body) => request.json(body),
                None => request,
            }
        })
    }

    /// Sends `GET` for a range of bytes; returns status and body.
    ///
    /// # Errors
    /// If the connection fails or the answer is not HTTP.
    pub fn range(&self, path: &str, range: &str) -> anyhow::Result<(u16, Vec<u8>)> {
        let with_range = |request: reqwest::RequestBuilder| request.header("range", range);
        self.exchange(reqwest::Method::GET, path, with_range)
    }

    fn exchange(
        &self,
        method: reqwest::Method,
        path: &str,
        with: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
    ) -> anyhow::Result<(u16, Vec<u8>)> {
        exchange(&self.socket(), method, path, with)
    }

    /// Sends `GET` and returns the JSON.
    ///
    /// # Errors
    /// If the status is not a success or the body is not JSON.
    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.json("GET", path, None)
    }

    /// Sends JSON with any method and returns JSON, `null` for an empty body.
    ///
    /// # Errors
    /// If the status is not a success or the body is not JSON.
    pub fn json(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let (status, bytes) = self.request(method, path, body)?;
        ensure!(
            (200..300).contains(&status),
            "{method} {path}: {status}: {}",
            String::from_utf8_lossy(&bytes)
        );
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Reads every event of the journal, page by page.
    ///
    /// # Errors
    /// If a page can't be read.
    pub fn events(&self) -> anyhow::Result<Vec<Value>> {
        let mut events: Vec<Value> = Vec::new();
        loop {
            let after = events
                .last()
                .and_then(|e| e.get("seq"))
                .and_then(Value::as_u64)
                .unwrap_or(0);
            let page = self.get(&format!("/v1/events?after={after}&limit=500"))?;
            let page = page.as_array().cloned().unwrap_or_default();
            if page.is_empty() {
                return Ok(events);
            }
            events.extend(page);
        }
    }
}

/// Sends `GET` to the runtime at `socket` and returns the JSON.
///
/// # Errors
/// If the status is not a success or the body is not JSON.
pub fn get(socket: &Path, path: &str) -> anyhow::Result<Value> {
    let (status, bytes) = exchange(socket, reqwest::Method::GET, path, |request| request)?;
    ensure!((200..300).contains(&status), "GET {path}: {status}");
    Ok(serde_json::from_slice(&bytes)?)
}

fn exchange(
    socket: &Path,
    method: reqwest::Method,
    path: &str,
    with: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
) -> anyhow::Result<(u16, Vec<u8>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = watchkeeper_outgoing::builder()
            .unix_socket(socket)
            // Loading the system's certificates takes longer than the request.
            .tls_certs_only([])
            .timeout(START_TIMEOUT)
            .build()?;
        let request = with(client.request(method, format!("http://runtime{path}")));
        let response = request.send().await?;
        let status = response.status().as_u16();
        Ok((status, response.bytes().await?.to_vec()))
    })
}

/// Parses output with one JSON object a line.
///
/// # Errors
/// If a line is not JSON.
pub fn json_lines(output: &[u8]) -> anyhow::Result<Vec<Value>> {
    let lines = serde_json::Deserializer::from_slice(output).into_iter();
    Ok(lines.collect::<Result<_, _>>()?)
}

/// Runs `watchkeeper run … --json`; returns exit code and objects.
///
/// # Errors
/// If it can't be started or a line is not JSON.
pub fn run_json(arguments: &[&str]) -> anyhow::Result<(i32, Vec<Value>, String)> {
    let out = Command::new(program("watchkeeper")?)
        .arg("run")
        .args(arguments)
        .arg("--json")
        .stdin(Stdio::null())
        .output()?;
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    let lines = json_lines(&out.stdout).with_context(|| errors.clone())?;
    Ok((out.status.code().unwrap_or(-1), lines, errors))
}
