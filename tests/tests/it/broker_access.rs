//! Who may command a box over MQTT: the access list of the guide on a real broker, and
//! `mqtt.commands`.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use watchkeeper_tests::broker::{BrokerOptions, Mosquitto};
use watchkeeper_tests::daemons::{Bench, Process, wait_for};

const GUIDE: &str = include_str!("../../../docs/guide/fleet.md");
const COMMANDS: &str = "watchkeeper/v1/test/bench/cmd";
/// Stops a pipeline that does not exist, so the command fails once it is executed.
const STOP: &str = r#"{"pipeline": "none"}"#;

/// The access list that the guide shows, for the box of this test.
fn acl_of_the_guide() -> anyhow::Result<String> {
    let (_, list) = GUIDE
        .split_once("    # /etc/mosquitto/watchkeeper.acl")
        .context("no access list in the guide")?;
    let lines = list.lines().skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let list: String = lines.map(|line| format!("{}\n", line.trim())).collect();
    Ok(list.replace("yard/gate-1", "test/bench"))
}

struct Site {
    bench: Bench,
    broker: Mosquitto,
    daemons: [Process; 2],
}

/// Starts broker, runtime and agent; `keys` are further keys of `[mqtt]`.
fn site(options: BrokerOptions, keys: &str) -> anyhow::Result<Site> {
    let bench = Bench::new("")?;
    let broker = Mosquitto::start_with(&bench.path("broker"), options)?;
    bench.configure(&format!("{}{keys}", broker.section()))?;
    let daemons = [bench.runtime()?, bench.agent()?];
    Ok(Site {
        bench,
        broker,
        daemons,
    })
}

fn login(user: &str) -> (String, String) {
    (user.to_owned(), format!("{user}-4711"))
}

#[test]
fn access_list_of_the_guide_lets_only_the_operator_command() -> anyhow::Result<()> {
    let options = BrokerOptions {
        logins: ["operator", "dashboard", "gate-1"].map(login).to_vec(),
        acl: Some(acl_of_the_guide()?),
        ..BrokerOptions::default()
    };
    let site = site(
        options,
        "username = \"gate-1\"\npassword = \"gate-1-4711\"\n",
    )?;
    let watching = site.broker.subscribe(&format!("{COMMANDS}/+/+/st"))?;
    for user in ["dashboard", "operator"] {
        let topic = format!("{COMMANDS}/stop/by-{user}/req");
        site.broker.publish_as(user, &topic, true, STOP)?;
    }
    wait_for("the operator's command to end", || {
        let ended = watching.bodies("by-operator");
        let ended = ended.iter().any(|status| status["status"] == "failed");
        ended.then_some(())
    })?;
    ensure!(watching.bodies("by-dashboard") == Vec::<Value>::new());
    Ok(())
}

#[test]
fn commands_are_off_on_a_broker_without_logins() -> anyhow::Result<()> {
    let site = site(BrokerOptions::default(), "")?;
    let watching = site.broker.subscribe("watchkeeper/v1/test/bench/#")?;
    site.broker
        .publish(&format!("{COMMANDS}/stop/1/req"), true, STOP)?;
    let birth = wait_for("the birth message", || watching.bodies("/birth").pop())?;
    ensure!(birth["commands"] == "off", "{birth}");
    ensure!(birth["operations"] == serde_json::json!([]), "{birth}");
    let check = watchkeeper_tests::person::command(&site.bench)?
        .args(["config", "check"])
        .output()?;
    let said = String::from_utf8_lossy(&[check.stdout, check.stderr].concat()).into_owned();
    ensure!(said.contains("mqtt.commands is off"), "{said}");
    ensure!(watching.bodies("/cmd/stop/1/st") == Vec::<Value>::new());
    Ok(())
}

#[test]
fn read_access_takes_a_snapshot_and_stops_nothing() -> anyhow::Result<()> {
    let site = site(BrokerOptions::default(), "commands = \"read\"\n")?;
    let watching = site.broker.subscribe(&format!("{COMMANDS}/+/+/st"))?;
    site.broker
        .publish(&format!("{COMMANDS}/stop/1/req"), true, STOP)?;
    let request = r#"{"source": "none"}"#;
    site.broker
        .publish(&format!("{COMMANDS}/snapshot/1/req"), true, request)?;
    let status = |operation: &str, status: &str| {
        let all = watching.bodies(&format!("/{operation}/1/st"));
        all.into_iter().find(|body| body["status"] == status)
    };
    let refused = wait_for("the refusal", || status("stop", "rejected"))?;
    let reason = refused["reason"].as_str().unwrap_or_default();
    ensure!(reason.contains("mqtt.commands is \"read\""), "{reason}");
    wait_for("the snapshot to be tried", || status("snapshot", "failed"))?;
    Ok(())
}

#[test]
fn two_boxes_under_one_name_are_named_as_a_cause() -> anyhow::Result<()> {
    for ([of_first, of_second], cause) in [
        (["", ""], "another client may use the same mqtt.client_id"),
        (
            ["client_id = \"first\"\n", "client_id = \"second\"\n"],
            "another agent publishes as test/bench; give each box its own box.id",
        ),
    ] {
        let first = site(BrokerOptions::default(), of_first)?;
        let second = Bench::new("")?;
        second.configure(&format!("{}{of_second}", first.broker.section()))?;
        let daemons = [second.runtime()?, second.agent()?];
        wait_for("the cause in the log of either", || {
            let agents = [&first.daemons[1], &daemons[1]];
            let mut logs = agents.iter().map(|agent| agent.log_text());
            logs.any(|log| log.contains(cause)).then_some(())
        })?;
    }
    Ok(())
}
