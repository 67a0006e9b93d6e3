//! Health of the agent, as `status` and `doctor` show it.
//!
//! - The agent's own answer counts: broker, channels and outbox with cause and remedy.
//! - An agent that does not answer is a problem where the configuration needs one.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_agent::agent_socket;
use watchkeeper_agent::jobs::{JobsHealth, ScheduleStatus};
use watchkeeper_agent::program::NAME as AGENT;
use watchkeeper_agent::status::{MqttStatus, OutboxStatus};
use watchkeeper_assistant::heartbeat_switch::HeartbeatStatus;
use watchkeeper_assistant::wording::format_local;
use watchkeeper_client::how_to_start;
use watchkeeper_config::Config;

/// Timeout of the agent's answer; it asks the runtime meanwhile.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The agent's answer, and the expectation by the configuration.
#[derive(Debug)]
pub(super) struct AgentHealth {
    answer: Result<Value, Absence>,
    /// Whether a broker or channel is configured. `status` reads no `[mqtt]`, so it may miss one.
    is_needed: bool,
}

/// Why there is no answer.
#[derive(Debug)]
enum Absence {
    NotRunning(String),
    /// The agent accepts connections and answers nothing useful.
    Silent(String),
}

/// The members of the answer that are shown as text.
#[derive(Debug, Deserialize)]
struct HealthSummary {
    state: String,
    reasons: Vec<String>,
    version: String,
    mqtt: MqttStatus,
    outbox: OutboxStatus,
    heartbeat: HeartbeatStatus,
    jobs: JobsHealth,
}

/// One line: its last job and its next time.
fn schedule_line(schedule: &ScheduleStatus) -> String {
    let time = |at: Timestamp| format_local(at.as_millisecond(), "%F %R %:z");
    let last = match (schedule.last, &schedule.job, &schedule.state) {
        (Some(at), Some(job), Some(state)) => {
            format!("last {}, {} (job {job})", time(at), state.name())
        }
        (Some(at), ..) => format!("last {}", time(at)),
        (None, ..) => "not run yet".to_owned(),
    };
    let next = schedule.next.map(|at| format!("; next {}", time(at)));
    let next = next.unwrap_or_default();
    format!("  schedule {}: {last}{next}", schedule.name)
}

impl AgentHealth {
    /// Asks the agent of this box.
    pub(super) async fn ask(config: &Config) -> Self {
        Self {
            answer: fetch(&config.agent_api.socket).await,
            is_needed: config.mqtt.is_some() || !config.channels.is_empty(),
        }
    }

    /// For JSON: the agent's answer, or why there is none.
    pub(super) fn to_json(&self) -> Value {
        match &self.answer {
            Ok(health) => health.clone(),
            Err(Absence::NotRunning(why) | Absence::Silent(why)) => {
                json!({"state": "down", "reasons": [why]})
            }
        }
    }

    /// Lines of `status`: a summary, then one for each problem.
    pub(super) fn lines(&self) -> Vec<String> {
        let Some(shown) = self.summary() else {
            return vec![format!("agent: {}", self.absence())];
        };
        let waiting = shown.outbox.events + shown.outbox.assured;
        let broker = match (shown.mqtt.configured, shown.mqtt.connected) {
            (false, _) => "no broker configured".to_owned(),
            (true, true) => format!("broker connected, {waiting} messages waiting"),
            (true, false) => format!("broker not connected, {waiting} messages waiting"),
        };
        let mut lines = vec![format!(
            "agent {}: {}, {broker}",
            shown.version, shown.state
        )];
        lines.extend(shown.reasons.iter().map(|reason| format!("  {reason}")));
        if shown.heartbeat.paused {
            lines.push(format!("  {}", shown.heartbeat.sentence()));
        }
        let jobs = &shown.jobs;
        if jobs.running + jobs.waiting > 0 {
            let (running, waiting) = (jobs.running, jobs.waiting);
            lines.push(format!("  jobs: {running} running, {waiting} waiting"));
        }
        lines.extend(jobs.schedules.iter().map(schedule_line));
        if shown.mqtt.refused_requests > 0 {
            let refused = shown.mqtt.refused_requests;
            lines.push(format!(
                "  {refused} command requests refused since its start"
            ));
        }
        lines
    }

    /// Problems with their remedy, for `doctor`; empty if all is well. `is_broker_known` leaves out
    /// that of the broker.
    pub(super) fn problems(&self, is_broker_known: bool) -> Vec<(String, Option<String>)> {
        match self.summary() {
            Some(shown) => {
                let known = shown.mqtt.problem().filter(|_| is_broker_known);
                let reasons = shown.reasons.into_iter();
                let reasons = reasons.filter(|reason| Some(reason) != known.as_ref());
                reasons.map(|reason| (reason, None)).collect()
            }
            None => {
                let root = Path::new("/");
                let remedy = match &self.answer {
                    Err(Absence::NotRunning(_)) if !self.is_needed => return Vec::new(),
                    Err(Absence::NotRunning(_)) => how_to_start::start(root, AGENT),
                    Err(Absence::Silent(_)) | Ok(_) => how_to_start::restart(root, AGENT),
                };
                vec![(self.absence(), Some(remedy))]
            }
        }
    }

    /// Whether the agent answered.
    pub(super) fn answers(&self) -> bool {
        self.answer.is_ok()
    }

    fn summary(&self) -> Option<HealthSummary> {
        HealthSummary::deserialize(self.answer.as_ref().ok()?).ok()
    }

    fn absence(&self) -> String {
        let why = match &self.answer {
            Err(Absence::NotRunning(why)) => why,
            Err(Absence::Silent(why)) => return why.clone(),
            Ok(_) => return "its answer is of another version".to_owned(),
        };
        match self.is_needed {
            true => format!("not running ({why}); no alert and no message leaves the box"),
            false => format!(
                "not running ({why}); alerts, messages and conversations over its API wait for it"
            ),
        }
    }
}

async fn fetch(socket: &Path) -> Result<Value, Absence> {
    if !socket.exists() {
        let why = format!("{} is not there", socket.display());
        return Err(Absence::NotRunning(why));
    }
    let fetched = async {
        let client = agent_socket::builder(socket).timeout(TIMEOUT).build()?;
        let answer = client.get("http://agent/v1/health").send().await?;
        answer.error_for_status()?.json().await
    };
    fetched.await.map_err(|error: reqwest::Error| {
        let socket = socket.display();
        if error.is_connect() {
            return Absence::NotRunning(format!("nothing answers at {socket}"));
        }
        Absence::Silent(match error.is_timeout() {
            true => format!(
                "no answer at {socket} within {} s; it hangs, or waits for the runtime",
                TIMEOUT.as_secs()
            ),
            false => match error.status() {
                Some(status) => format!("{socket} answers {status}"),
                None => format!("{socket} breaks off its answer, or answers no JSON"),
            },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(answer: Result<Value, Absence>, is_needed: bool) -> AgentHealth {
        AgentHealth { answer, is_needed }
    }

    #[test]
    fn broken_session_is_shown_with_its_cause_and_the_backlog() {
        let health = health(
            Ok(json!({
                "state": "degraded", "version": "0.1.0",
                "reasons": ["there is no session with the broker: the broker refused the login"],
                "mqtt": {
                    "configured": true, "connected": false, "refused_requests": 2,
                    "why": "the broker refused the login",
                },
                "outbox": {"events": 80, "bytes": 9, "assured": 1, "acked": 0, "dropped": 0, "cursor": 7},
                "heartbeat": {"paused": false}, "jobs": {"running": 0, "waiting": 0},
            })),
            true,
        );
        assert_eq!(
            health.lines(),
            [
                "agent 0.1.0: degraded, broker not connected, 81 messages waiting",
                "  there is no session with the broker: the broker refused the login",
                "  2 command requests refused since its start",
            ]
        );
        assert_eq!(health.problems(false).len(), 1);
        assert!(health.problems(true).is_empty());
    }

    #[test]
    fn absent_agent_is_a_problem_only_where_it_is_needed() {
        let why = || Absence::NotRunning("agent.sock is not there".to_owned());
        let absent = |needed| health(Err(why()), needed);
        assert!(absent(true).lines()[0].contains("no alert and no message leaves the box"));
        assert_eq!(absent(true).problems(true).len(), 1);
        assert!(absent(false).problems(false).is_empty());
    }

    #[test]
    fn silent_agent_is_a_problem_and_not_called_absent() {
        let silent = health(Err(Absence::Silent("no answer".to_owned())), false);
        assert_eq!(silent.lines(), ["agent: no answer"]);
        assert_eq!(silent.problems(true).len(), 1);
    }
}
