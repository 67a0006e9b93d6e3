//! Tests that need a Linux namespace of their own: each runs itself again in it.
//!
//! - What a test changes there is neither seen outside nor outlives it.
//! - Root may do that everywhere, other users where the kernel allows user namespaces. Elsewhere
//!   the test says so and is skipped.

use std::process::{Command, Stdio};

use anyhow::ensure;

/// A kind of namespace.
pub(crate) struct Namespace {
    /// Environment variable that is set in the second run of the test.
    pub(crate) inside: &'static str,
    /// Options of `unshare`, for root and for other users.
    pub(crate) ways: [&'static [&'static str]; 2],
    /// Program that prepares the namespace, then becomes the program of its further arguments.
    pub(crate) set_up: &'static [&'static str],
    /// Program that succeeds where the namespace can be used.
    pub(crate) trial: &'static [&'static str],
    /// Why a test is skipped.
    pub(crate) missing: &'static str,
}

impl Namespace {
    /// Runs `body` in it. `name` is the path of the test, with its modules.
    ///
    /// # Errors
    /// If `body` fails.
    #[expect(clippy::print_stderr, reason = "a skip must be loud")]
    pub(crate) fn run(
        &self,
        name: &str,
        body: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if std::env::var_os(self.inside).is_some() {
            return body();
        }
        let allowed = self.ways.into_iter().find(|way| {
            let mut command = self.command(way);
            let tried = command
                .args(self.trial)
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            tried.status().is_ok_and(|status| status.success())
        });
        let Some(way) = allowed else {
            eprintln!("SKIPPED: {name} ({})", self.missing);
            return Ok(());
        };
        let out = self
            .command(way)
            .arg(std::env::current_exe()?)
            .args(["--exact", name, "--nocapture"])
            .env(self.inside, "1")
            .stderr(Stdio::inherit())
            .output()?;
        let said = String::from_utf8_lossy(&out.stdout);
        // A wrong name would pass: no test runs, none fails.
        ensure!(
            out.status.success() && said.contains("1 passed"),
            "{name} failed in its namespace: {said}"
        );
        Ok(())
    }

    fn command(&self, way: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(way).args(self.set_up);
        command
    }
}
