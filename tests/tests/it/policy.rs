//! Auto-approval (`[agent.auto_approve]`) on the real programs: an approved change is applied at
//! once, reported and traced; every other change waits for a confirmation.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::agent_api::Api;
use watchkeeper_tests::daemons::{Bench, Process};
use watchkeeper_tests::person::{ask_json, chat, command, types};
use watchkeeper_tests::scene::{STREET, deploy};

/// A box with one pipeline, `watch`, and this policy.
fn house(policy: &str) -> anyhow::Result<(Bench, Process)> {
    let bench = Bench::new(&format!(
        "[sources.street]\nuri = {STREET:?}\n[agent.auto_approve]\n{policy}"
    ))?;
    let runtime = bench.runtime()?;
    deploy(&bench)?;
    Ok((bench, runtime))
}

/// Returns the name of the one pipeline, and whether it is paused.
fn runs(bench: &Bench) -> anyhow::Result<(String, bool)> {
    let all = bench.get("/v1/pipelines")?;
    let one = all.get(0).with_context(|| all.to_string())?;
    let name = one["spec"]["id"].as_str().context("a name")?;
    Ok((name.to_owned(), one["spec"]["paused"] == json!(true)))
}

/// Returns the decisions in the trace: key and outcome.
fn decisions(bench: &Bench) -> anyhow::Result<Vec<(String, String)>> {
    let out = command(bench)?
        .args(["trace", "--json", "--limit", "500"])
        .output()?;
    let text = String::from_utf8(out.stdout)?;
    let entries = text.lines().map(serde_json::from_str::<Value>);
    let entries: Vec<Value> = entries.collect::<Result<_, _>>()?;
    let policy = entries.iter().filter(|entry| entry["what"] == "policy");
    let word = |entry: &Value, name: &str| entry["of"][name].as_str().unwrap_or("–").to_owned();
    Ok(policy
        .map(|entry| (word(entry, "by"), word(entry, "decision")))
        .collect())
}

#[test]
fn auto_approved_change_is_applied_and_the_rest_waits() -> anyhow::Result<()> {
    let (bench, _runtime) = house("chat = [\"pause\", \"resume\"]\n")?;
    let (name, _) = runs(&bench)?;
    let said = chat(&bench, &format!("/pause {name}\n"))?;
    ensure!(
        types(&said) == ["proposal", "confirmed", "done"],
        "{said:#?}"
    );
    ensure!(
        said[1] == json!({"type": "confirmed", "by": "agent.auto_approve.chat", "change": "pause"}),
        "{}",
        said[1]
    );
    ensure!(runs(&bench)?.1, "it is paused");
    let said = chat(&bench, &format!("resume {name}\ndelete {name}\n"))?;
    ensure!(
        types(&said) == ["proposal", "confirmed", "done", "proposal"],
        "{said:#?}"
    );
    ensure!(runs(&bench)? == (name.clone(), false), "the deletion waits");
    let told = |decision: &str| ("agent.auto_approve.chat".to_owned(), decision.to_owned());
    ensure!(
        decisions(&bench)? == [told("confirmed"), told("confirmed"), told("asked")],
        "{:?}",
        decisions(&bench)?
    );
    // Another entrypoint has its own list, and none was configured.
    let (code, objects, errors) = ask_json(&bench, &[&format!("pause {name}")])?;
    ensure!(
        code == 0 && types(&objects) == ["proposal"],
        "{errors} {objects:#?}"
    );
    ensure!(!runs(&bench)?.1);
    Ok(())
}

#[test]
fn api_request_uses_the_policy_of_its_entrypoint() -> anyhow::Result<()> {
    let (bench, _runtime) = house("local = [\"pause\"]\nremote = []\n")?;
    let _agent = bench.agent()?;
    let api = Api::on(&bench).wait_until_up()?;
    let (name, _) = runs(&bench)?;
    let talk = api.conversation()?;
    // The next request discards a pending proposal, also if it needs no confirmation.
    let said = api.say(&talk, &format!("delete {name}"))?;
    ensure!(
        types(&said).contains(&"proposal") && !types(&said).contains(&"confirmed"),
        "{said:#?}"
    );
    let said = api.say(&talk, &format!("/pause {name}"))?;
    let came: Vec<&str> = types(&said)
        .into_iter()
        .filter(|t| !["heard", "busy", "note"].contains(t))
        .collect();
    ensure!(
        came == ["proposal", "confirmed", "done", "end"],
        "{said:#?}"
    );
    ensure!(
        said.last()
            .is_some_and(|end| end["waits"]["for"] == "nothing"),
        "{said:#?}"
    );
    ensure!(runs(&bench)?.1, "it is paused");
    let waiting = api.json("GET", "/v1/proposals", None)?;
    ensure!(waiting == json!([]), "{waiting}");
    let trace = api.json("GET", "/v1/trace?limit=200", None)?;
    let trace = trace.as_array().context("entries")?;
    let by_policy = trace.iter().any(|entry| {
        entry["what"] == "policy"
            && entry["of"]["by"] == "agent.auto_approve.local"
            && entry["of"]["decision"] == "confirmed"
    });
    ensure!(by_policy, "{trace:#?}");
    Ok(())
}

#[test]
fn unknown_name_in_policy_is_refused_with_known_ones() -> anyhow::Result<()> {
    let bench = Bench::new("[agent.auto_approve]\nchat = [\"everything\"]\n")?;
    let out = command(&bench)?.args(["config", "check"]).output()?;
    let told =
        String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
    ensure!(!out.status.success(), "{told}");
    for part in [
        "agent.auto_approve.chat = [\"everything\"]",
        "a list of pause, resume, deploy, replace, stop",
    ] {
        ensure!(told.contains(part), "no {part}: {told}");
    }
    Ok(())
}
