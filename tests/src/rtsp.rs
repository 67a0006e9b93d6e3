//! RTSP camera in its own process, so that a test can control and kill it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};

use crate::certificates::Identity;

/// Stream and access of a camera.
#[derive(Debug, Clone, Default)]
pub struct RtspOptions {
    /// Port on 127.0.0.1; absent: a free one.
    pub port: Option<u16>,
    /// H.264 MP4 served once per client in real time; absent: a test pattern of 320 × 240 at 15
    /// frames a second.
    pub file: Option<PathBuf>,
    /// Pipeline to serve instead, in gst-launch syntax. Its video payloader is named `pay0`; an
    /// element that sets the size of the picture may be named `size`.
    pub launch: Option<String>,
    /// Whether all clients watch one stream: later ones begin in the middle of it.
    pub is_shared: bool,
    /// User name and password that clients must send.
    pub login: Option<(String, String)>,
    /// Whether to ask for digest instead of basic authentication.
    pub digest: bool,
    /// Certificate of a camera that speaks TLS.
    pub tls: Option<Identity>,
}

/// Camera process that is killed on drop.
#[derive(Debug)]
pub struct RtspServer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    uri: String,
}

impl RtspServer {
    /// Starts the camera from its program (`env!("CARGO_BIN_EXE_rtsp-server")` in tests of this
    /// crate) and waits until it listens.
    ///
    /// # Errors
    /// If the program does not start or the port is taken.
    pub fn start(program: &Path, options: &RtspOptions) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command
            .arg("--port")
            .arg(options.port.unwrap_or(0).to_string());
        if let Some(file) = &options.file {
            command.arg("--file").arg(file);
        }
        if let Some(launch) = &options.launch {
            command.args(["--launch", launch]);
        }
        if let Some((user, password)) = &options.login {
            command.args(["--user", user, "--password", password]);
        }
        if options.is_shared {
            command.arg("--shared");
        }
        if options.digest {
            command.arg("--digest");
        }
        if let Some(identity) = &options.tls {
            command.arg("--cert").arg(&identity.cert_file);
            command.arg("--key").arg(&identity.key_file);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} does not start", program.display()))?;
        let input = child.stdin.take().context("camera without input")?;
        let output = child.stdout.take().context("camera without output")?;
        let mut server = Self {
            child,
            input,
            output: BufReader::new(output),
            uri: String::new(),
        };
        server.uri = server.answer("READY ")?;
        Ok(server)
    }

    /// Returns the address without a login.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the address with this login.
    pub fn uri_with(&self, user: &str, password: &str) -> String {
        self.uri
            .replacen("://", &format!("://{user}:{password}@"), 1)
    }

    /// Returns the port of the address.
    pub fn port(&self) -> Option<u16> {
        let (_, rest) = self.uri.rsplit_once(':')?;
        rest.split('/').next()?.parse().ok()
    }

    /// Sends a command and waits for its confirmation: `stall`, `resume`, `refuse`, `accept` or
    /// `size 640x480`.
    ///
    /// # Errors
    /// If the camera has exited.
    pub fn send(&mut self, command: &str) -> anyhow::Result<()> {
        writeln!(self.input, "{command}").context("camera is gone")?;
        self.input.flush().context("camera is gone")?;
        let done = self.answer("DONE ")?;
        if done != command {
            bail!("camera answered {done:?} to {command:?}");
        }
        Ok(())
    }

    /// Kills the camera by SIGKILL, as a power cut would.
    ///
    /// # Errors
    /// If it can't be killed.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn answer(&mut self, prefix: &str) -> anyhow::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        match line.trim().strip_prefix(prefix) {
            Some(rest) => Ok(rest.to_owned()),
            None => bail!("camera said {line:?}"),
        }
    }
}

impl Drop for RtspServer {
    fn drop(&mut self) {
        // It may have exited already.
        if self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}
