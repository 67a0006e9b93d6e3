//! A box under attack: both daemons, a broker and a foreign subscriber.

use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::Report;
use crate::agent_api::Api;
use crate::broker::{Mosquitto, Subscriber};
use crate::daemons::{Bench, Process, wait_for};

/// Everything that the box publishes.
pub(super) const ALL: &str = "watchkeeper/v1/test/bench/#";

#[derive(Debug)]
pub(super) struct Arena {
    pub(super) bench: Bench,
    pub(super) broker: Mosquitto,
    pub(super) subscriber: Subscriber,
    runtime: Option<Process>,
    agent: Option<Process>,
    /// Ends of a process that nobody ordered.
    ends: Vec<String>,
    /// Longest time from the start of a daemon to its first answer.
    slowest_start: Duration,
}

impl Arena {
    /// Starts broker, subscriber and both daemons, with `extra` in the configuration.
    pub(super) fn start(extra: &str) -> anyhow::Result<Self> {
        let bench = Bench::new("")?;
        let broker = Mosquitto::start(&bench.path("broker"))?;
        bench.configure(&format!(
            "{extra}\n{}commands = \"all\"\n",
            broker.section()
        ))?;
        let subscriber = broker.subscribe(ALL)?;
        let mut arena = Self {
            bench,
            broker,
            subscriber,
            runtime: None,
            agent: None,
            ends: Vec::new(),
            slowest_start: Duration::ZERO,
        };
        arena.start_runtime()?;
        arena.start_agent()?;
        Ok(arena)
    }

    pub(super) fn start_runtime(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        self.runtime = Some(self.bench.runtime()?);
        self.slowest_start = self.slowest_start.max(began.elapsed());
        Ok(())
    }

    pub(super) fn start_agent(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        self.agent = Some(self.bench.agent()?);
        Api::on(&self.bench)
            .wait_until_up()
            .with_context(|| self.log("agent.log"))?;
        self.slowest_start = self.slowest_start.max(began.elapsed());
        Ok(())
    }

    pub(super) fn kill_runtime(&mut self) -> anyhow::Result<()> {
        kill(&mut self.runtime, "the runtime", &mut self.ends)
    }

    pub(super) fn kill_agent(&mut self) -> anyhow::Result<()> {
        kill(&mut self.agent, "the agent", &mut self.ends)
    }

    pub(super) fn is_runtime_running(&mut self) -> bool {
        self.runtime.as_mut().is_some_and(Process::is_running)
    }

    /// Waits until the runtime has ended by itself.
    ///
    /// # Errors
    /// If it goes on; the message holds its log.
    pub(super) fn wait_for_end_of_runtime(&mut self) -> anyhow::Result<()> {
        let ended = wait_for("the runtime to end", || {
            (!self.is_runtime_running()).then_some(())
        });
        ended.with_context(|| self.log("runtime.log"))
    }

    /// Kills the runtime. An end before that is expected, and not noted.
    pub(super) fn forget_runtime(&mut self) {
        self.runtime = None;
    }

    /// Kills both daemons, and adds their unordered ends, panics and slowest start to `report`.
    pub(super) fn finish(mut self, report: &mut Report) -> anyhow::Result<()> {
        self.kill_runtime()?;
        self.kill_agent()?;
        for log in ["runtime.log", "agent.log"] {
            let text = self.log(log);
            let panics = text.lines().filter(|line| line.contains("panicked at"));
            self.ends.extend(panics.map(str::to_owned));
        }
        report.aborts += self.ends.len() as u64;
        report.violations.append(&mut self.ends);
        report.silence(self.slowest_start);
        Ok(())
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.bench.path(name)).unwrap_or_default()
    }
}

/// Kills a daemon by SIGKILL. One that had ended before is noted in `ends` with its last lines.
fn kill(process: &mut Option<Process>, name: &str, ends: &mut Vec<String>) -> anyhow::Result<()> {
    let Some(mut process) = process.take() else {
        return Ok(());
    };
    if !process.is_running() {
        let log = process.log_text();
        let last = log.lines().next_back().unwrap_or_default();
        ends.push(format!("{name} ended by itself: {last}"));
    }
    process.kill()
}
