//! `watchkeeper job … --agent`: the agent's jobs, over its socket.
//!
//! - The agent plans nothing here: plans are read, anchored and sent whole. A request is planned
//!   with the user's templates, cache and budget; the agent neither revises nor caches its plan.
//! - A job that was submitted is followed until it ends; it runs on without its follower.

use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;
use watchkeeper_agent::jobs::JobStatus;
use watchkeeper_jobs::run::{Ended, JobState, LogLine, LogRecord};

use super::super::agent_client::AgentClient;
use super::super::args::{JobOutput, JobOwner, JobPlanArgs, JobRunArgs};
use super::super::event_loop;
use super::super::exit::{Exit, Failure};
use super::super::output::Output;
use super::commands::JobCommands;
use super::progress::Progress;
use super::show;
use watchkeeper_jobs::Plan;

/// Time for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two looks at a followed job.
const POLL: Duration = Duration::from_millis(500);
/// Attempts to reach an agent that restarts, [`RETRY`] apart.
const ATTEMPTS: u32 = 30;
const RETRY: Duration = Duration::from_secs(2);

/// The jobs behind the agent's socket.
pub(super) struct AgentJobs {
    client: AgentClient,
    runtime: Runtime,
}

/// A job with the records of its log.
#[derive(Deserialize)]
struct JobDetails {
    #[serde(flatten)]
    job: JobStatus,
    log: Vec<LogLine>,
}

impl AgentJobs {
    pub(super) fn new(socket: &Path) -> Result<Self, Failure> {
        Ok(Self {
            client: AgentClient::new(socket)?,
            runtime: event_loop::new()?,
        })
    }

    pub(super) fn run_file(
        &self,
        args: JobRunArgs,
        mut commands: JobCommands,
        out: &Output,
    ) -> Result<(), Failure> {
        commands.is_for_agent = true;
        let (origin, output) = (args.file.display().to_string(), args.output.clone());
        let plan = commands.plan_of_file(args)?;
        self.submit(plan, &origin, output, &commands, out)
    }

    pub(super) fn run_words(
        &self,
        args: JobPlanArgs,
        mut commands: JobCommands,
        out: &Output,
    ) -> Result<(), Failure> {
        commands.is_for_agent = true;
        let text = args.words.join(" ");
        let planned = commands.plan_words(&text, !args.no_cache, out)?;
        self.submit(planned.plan, &text, args.output, &commands, out)
    }

    pub(super) fn list(&self, out: &Output) -> Result<(), Failure> {
        let jobs: Vec<JobStatus> = self.get("jobs")?;
        show::table(&jobs, out);
        Ok(())
    }

    /// Prints a job, or the result of one of its steps.
    pub(super) fn show(
        &self,
        id: &str,
        step: Option<&str>,
        key: Option<&str>,
        out: &Output,
    ) -> Result<(), Failure> {
        let Some(step) = step else {
            let JobDetails { job, log } = self.job(id)?;
            show::whole(&job, &log, out);
            return Ok(());
        };
        let values: Map<String, Value> = self.get(&format!("jobs/{id}/steps/{step}"))?;
        show::values(step, key, values, out)
    }

    pub(super) fn resume(&self, id: &str, out: &Output) -> Result<(), Failure> {
        let resumed: Value = self.request(Method::POST, &format!("jobs/{id}/resume"), None)?;
        self.follow(text(&resumed, "job"), out)
    }

    pub(super) fn cancel(&self, id: &str, out: &Output) -> Result<(), Failure> {
        let cancelled: Value = self.request(Method::POST, &format!("jobs/{id}/cancel"), None)?;
        out.both(&cancelled, || match cancelled["was_active"].as_bool() {
            Some(true) => format!("Asked job {id} to end"),
            _ => format!("Job {id} neither runs nor waits"),
        });
        Ok(())
    }

    pub(super) fn delete(&self, id: &str, out: &Output) -> Result<(), Failure> {
        let request = self.client.request(Method::DELETE, &format!("jobs/{id}"));
        let deleted = self.client.send(request.timeout(TIMEOUT));
        self.runtime.block_on(deleted)?;
        out.both(&json!({"deleted": id}), || format!("Deleted job {id}"));
        Ok(())
    }

    fn submit(
        &self,
        plan: Plan,
        origin: &str,
        output: JobOutput,
        commands: &JobCommands,
        out: &Output,
    ) -> Result<(), Failure> {
        let plan = commands.anchored(plan)?;
        let output = output.output.map(std::path::absolute).transpose();
        let output =
            output.map_err(|error| Failure::failed(format!("the current folder: {error}")))?;
        let body = json!({"plan": plan, "origin": origin, "output": output});
        let accepted: Value = self.request(Method::POST, "jobs", Some(body))?;
        for repair in accepted["repairs"].as_array().into_iter().flatten() {
            out.note(format!("repaired: {}", repair.as_str().unwrap_or_default()));
        }
        let id = text(&accepted, "job");
        out.object(&json!({"type": "job", "job": id}));
        if !out.is_json() {
            out.note(format!("job {id} of the agent; Ctrl-C leaves it running"));
        }
        self.follow(id, out)
    }

    /// Prints what happens to a job until it ends. An agent that restarts is waited for.
    fn follow(&self, id: &str, out: &Output) -> Result<(), Failure> {
        let progress = Progress::new(out);
        let (mut shown, mut attempts) = (0, 0);
        loop {
            match self.job(id) {
                Ok(JobDetails { job, log }) => {
                    attempts = 0;
                    log.iter()
                        .skip(shown)
                        .for_each(|line| progress.show_record(line));
                    shown = log.len();
                    progress.show_running(&job.running);
                    if !matches!(job.state, JobState::Running | JobState::Waiting) {
                        out.end_live_line();
                        return ended(&job, &log, out);
                    }
                }
                Err(failure) if failure.exit != Exit::Failed || attempts >= ATTEMPTS => {
                    out.end_live_line();
                    return Err(failure);
                }
                Err(_) => attempts += 1,
            }
            let pause = if attempts == 0 { POLL } else { RETRY };
            let pause = async { tokio::time::sleep(pause).await };
            self.runtime.block_on(pause);
        }
    }

    fn job(&self, id: &str) -> Result<JobDetails, Failure> {
        self.get(&format!("jobs/{id}"))
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.request(Method::GET, path, None)
    }

    fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<T, Failure> {
        let mut request = self.client.request(method, path).timeout(TIMEOUT);
        if let Some(body) = body {
            request = request.json(&body);
        }
        self.runtime.block_on(self.client.json(request))
    }
}

fn ended(job: &JobStatus, log: &[LogLine], out: &Output) -> Result<(), Failure> {
    let ended = log.iter().rev().find_map(|line| match &line.record {
        LogRecord::Ended { how } => Some(*how),
        _ => None,
    });
    let owner = JobOwner { agent: true };
    show::result(&job.job, Path::new(&job.output), log, ended, owner, out);
    match ended {
        Some(Ended::Done) => Ok(()),
        ended => Err(show::not_done(&job.job, ended, owner)),
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}
