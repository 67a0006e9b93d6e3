//! `watchkeeper doctor`: checks this machine and prints a remedy for each finding.
//!
//! - The exit code is 1 if any [`Finding`] is a problem.
//! - `watchkeeper-board` reads the hardware, `watchkeeper-runtime --check-media` checks GStreamer.
//! - Nothing is sent to a channel or an LLM.

mod channels;
mod finding;
mod hardware;
mod llm;
mod lookups;
mod programs;
mod runtime;
mod state;
mod tcp_probe;

use std::path::Path;

pub(super) use finding::Finding;
use finding::Level;
use watchkeeper_agent::connectors::secrets::credentials_folder;
use watchkeeper_assistant::notes::{EmbedderChoice, choose_embedder};
use watchkeeper_assistant::wording::counted;
use watchkeeper_config::{CommandAccess, Config, ConfigError, MqttConfig};
use watchkeeper_models::model_check::THIS_PROGRAM;

use super::agent_health::AgentHealth;
use super::args::Global;
use super::event_loop;
use super::exit::Failure;
use super::output::Output;

/// Runs all checks. `errors` are the findings of `config check`; where they are, `config` has
/// defaults.
pub(super) fn run(
    config: &Config,
    errors: &[ConfigError],
    global: &Global,
    out: &Output,
) -> Result<(), Failure> {
    let root = Path::new("/");
    let mut findings = hardware::board(root);
    findings.extend(programs::installed());
    findings.extend(programs::media());
    findings.extend(configuration(errors));
    findings.extend(programs::backends(config, errors, global));
    findings.push(programs::models(config.models.folders()));
    findings.push(state::folder("state folder", &config.state_dir));
    findings.push(state::socket(&config.runtime_socket));
    // The runtime reports the errors of its file too.
    let known: Vec<String> = errors.iter().map(|e| format!("runtime: {e}")).collect();
    let health = runtime::health(config).into_iter();
    findings.extend(health.filter(|finding| !known.contains(&finding.what)));
    let broker = config.mqtt.as_ref().map(broker);
    let is_away = broker.as_ref().is_some_and(|it| it.level == Level::Problem);
    findings.extend(agent(config, is_away));
    findings.push(state::space(&config.state_dir));
    findings.extend(sinks(config));
    findings.extend(broker);
    findings.extend(config.mqtt.as_ref().map(commands));
    let credentials = credentials_folder();
    findings.extend(channels::check(&config.channels, credentials.as_deref()));
    findings.extend(llm::check(config));
    findings.extend(lookups::check(config));
    findings.push(notes(config));
    findings.extend(hardware::cameras(root));
    findings.push(hardware::wall_clock(root));
    report(&findings, out)
}

/// Findings about the machine that belong to the status of a box too: its clock and its disk.
pub(super) fn clock_and_disk(config: &Config) -> Vec<Finding> {
    vec![
        hardware::wall_clock(Path::new("/")),
        state::space(&config.state_dir),
    ]
}

fn report(findings: &[Finding], out: &Output) -> Result<(), Failure> {
    for (nth, finding) in findings.iter().enumerate() {
        let next = findings.get(nth + 1);
        let is_repeated = next.is_some_and(|next| next.remedy == finding.remedy);
        // Neighbours with the same remedy show it once.
        out.both(finding, || match is_repeated {
            true => finding.line(),
            false => finding.text(),
        });
    }
    match findings
        .iter()
        .filter(|f| f.level == Level::Problem)
        .count()
    {
        0 => Ok(()),
        count => Err(Failure::failed(format!(
            "{} found",
            counted(count, "problem")
        ))),
    }
}

fn configuration(errors: &[ConfigError]) -> Vec<Finding> {
    if errors.is_empty() {
        return vec![Finding::ok("configuration: valid")];
    }
    const CHECK: &str = "correct it, then run: watchkeeper config check";
    let finding = |error: &ConfigError| {
        let mut what = error.clone();
        let remedy = what.remedy.take().unwrap_or_else(|| CHECK.to_owned());
        Finding::problem(format!("configuration: {what}"), remedy)
    };
    errors.iter().map(finding).collect()
}

/// Checks the embedder of notes; loads its model, if one is configured.
fn notes(config: &Config) -> Finding {
    let program = Some(Path::new(THIS_PROGRAM));
    let (_, embedder) = choose_embedder(&config.memory, program);
    match embedder {
        EmbedderChoice::Hashed => Finding::ok("note search: built-in synonyms"),
        EmbedderChoice::Model { folder, .. } => Finding::ok(format!(
            "note search: sentence embeddings of {}",
            folder.display()
        )),
        EmbedderChoice::Refused { folder, why } => {
            let what = format!(
                "note search: built-in synonyms only; the model in {} failed: {why}",
                folder.display()
            );
            let remedy = format!("repair or remove {}", folder.display());
            match config.memory.model {
                Some(_) => Finding::problem(what, remedy),
                None => Finding::advice(what, remedy),
            }
        }
    }
}

/// Checks `[sinks]`, if the configuration allows any effect or a configured pipeline needs one.
fn sinks(config: &Config) -> Vec<Finding> {
    let sinks = &config.sinks;
    let steps = config.pipelines.iter().flat_map(|pipeline| {
        let steps = pipeline.workflow.get("steps").and_then(|s| s.as_array());
        steps.into_iter().flatten()
    });
    let is_needed = steps
        .filter_map(|step| step.get("type")?.as_str())
        .any(|kind| {
            watchkeeper_engine::workflow::details(kind).is_some_and(|block| {
                block.summary.category == "sink" && kind.starts_with("roboflow")
            })
        });
    if sinks.hosts.is_empty() && sinks.folders.is_empty() {
        return match is_needed {
            false => Vec::new(),
            true => vec![Finding::advice(
                "sinks: a workflow sends or writes data, but [sinks] allows nothing",
                "list the hosts and folders in [sinks]; see docs/ref/configuration.md",
            )],
        };
    }
    let hosts: Vec<String> = sinks.hosts.iter().map(ToString::to_string).collect();
    let hosts = match hosts.as_slice() {
        [] => "no host allowed".to_owned(),
        hosts => format!("allowed hosts: {}", hosts.join(", ")),
    };
    let secrets = counted(sinks.secrets.len() as u64, "secret");
    let mut findings = vec![Finding::ok(format!("sinks: {hosts}; {secrets}"))];
    findings.extend(
        sinks
            .folders
            .iter()
            .map(|path| state::folder("sink folder", path)),
    );
    findings
}

/// Checks that the broker accepts connections; login and TLS are left to the agent.
fn broker(mqtt: &MqttConfig) -> Finding {
    match tcp_probe::probe_host(&mqtt.host, mqtt.port) {
        Ok(name) => Finding::ok(format!("broker: {name} is reachable")),
        Err(why) => Finding::problem(
            format!("broker: {why}"),
            "check mqtt.host, mqtt.port and the firewall; events are kept until it answers",
        ),
    }
}

/// Asks the agent for its problems: broker, channels, outbox, language model. That of a broker that
/// is away is left out, because doctor has a finding for it.
fn agent(config: &Config, is_broker_away: bool) -> Vec<Finding> {
    let health = match event_loop::new() {
        Ok(runtime) => runtime.block_on(AgentHealth::ask(config)),
        Err(failure) => {
            let what = format!("agent: {}", failure.sentence);
            return vec![Finding::problem(what, "run the command again")];
        }
    };
    let problems = health.problems(is_broker_away);
    if problems.is_empty() && health.answers() {
        return vec![Finding::ok(match is_broker_away {
            true => "agent: running, without another problem",
            false => "agent: running, without a problem",
        })];
    }
    let finding = |(what, remedy): (String, Option<String>)| {
        // A reason of the agent names its remedy itself.
        let remedy = remedy.unwrap_or_else(|| "see the agent's log".to_owned());
        Finding::problem(format!("agent: {what}"), remedy)
    };
    problems.into_iter().map(finding).collect()
}

/// Reports who can command the box over MQTT.
fn commands(mqtt: &MqttConfig) -> Finding {
    let what = format!("commands over MQTT: {}", mqtt.describe_commands());
    match mqtt.commands == CommandAccess::Off || mqtt.has_login() {
        true => Finding::ok(what),
        false => Finding::advice(
            what,
            "give the broker logins and ACLs (docs/guide/fleet.md), or set mqtt.commands = \"off\"",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn only_problems_fail_the_command() {
        let out = Output::new(true);
        assert_eq!(report(&[Finding::advice("a", "b")], &out), Ok(()));
        let failure = report(&[Finding::problem("a", "b")], &out);
        assert_eq!(failure.map_err(|f| f.exit), Err(Exit::Failed));
    }
}
