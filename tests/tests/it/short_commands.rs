//! Short commands (`/status` …) on the real programs: their results in the chat and over the
//! agent's API.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use watchkeeper_tests::agent_api::Api;
use watchkeeper_tests::daemons::{Bench, wait_up_to};
use watchkeeper_tests::person::{chat, types};
use watchkeeper_tests::scene::{LONG, STREET, deploy};
use watchkeeper_tests::scripted_model::{ScriptedModel, answers};
use watchkeeper_tests::site::last;

/// A box with a pipeline and an event, and an LLM that answers one question.
fn house() -> anyhow::Result<(Bench, watchkeeper_tests::daemons::Process, ScriptedModel)> {
    let bench = Bench::new("")?;
    let model = ScriptedModel::start(&bench.path(""), &[answers("All is quiet.")])?;
    bench.configure(&format!(
        "[sources.street]\nuri = {STREET:?}\n{}",
        model.section()
    ))?;
    let runtime = bench.runtime()?;
    deploy(&bench)?;
    wait_up_to(LONG, "an event", || {
        bench
            .events()
            .ok()
            .filter(|events| !events.is_empty())
            .map(drop)
    })?;
    Ok((bench, runtime, model))
}

fn name(bench: &Bench) -> anyhow::Result<String> {
    let all = bench.get("/v1/pipelines")?;
    let name = all.pointer("/0/spec/id").and_then(Value::as_str);
    Ok(name.context("a pipeline")?.to_owned())
}

#[test]
fn chat_short_commands_work() -> anyhow::Result<()> {
    let (bench, _runtime, _model) = house()?;
    let name = name(&bench)?;
    for (line, kinds) in [
        ("/status", vec!["status"]),
        ("/streams", vec!["cameras", "pipelines"]),
        ("/events 1", vec!["event"]),
        (
            "remember that the dock is wet\n/memory dock",
            vec!["remembered", "notes"],
        ),
        ("/plan", vec!["answer"]),
        (
            &format!("/pause {name}\n/plan\nno"),
            vec!["proposal", "answer", "dropped"],
        ),
        (&format!("/pause {name}\nyes"), vec!["proposal", "done"]),
        (&format!("/resume {name}\nyes"), vec!["proposal", "done"]),
        (&format!("/stop {name}\nno"), vec!["proposal", "dropped"]),
        ("/cost", vec!["costs"]),
        ("/costs", vec!["failure"]),
    ] {
        let said = chat(&bench, &format!("{line}\n/quit\nnever heard\n"))?;
        let came: Vec<&str> = types(&said).into_iter().filter(|t| *t != "note").collect();
        ensure!(came == kinds, "{line}: {said:#?}");
    }
    let said = chat(&bench, "/think is it quiet?\n/cost\n/trace 5\n")?;
    let costs = last(&said, "costs")?;
    ensure!(costs["provider"] == "claude", "{costs}");
    ensure!(
        costs["budget"]["day_usd"]
            .as_f64()
            .is_some_and(|usd| usd > 0.0),
        "{costs}"
    );
    ensure!(
        costs["calls"]
            .as_array()
            .is_some_and(|calls| calls.len() == 1),
        "{costs}"
    );
    let entries = said.iter().filter(|o| o["type"] == "trace");
    ensure!(entries.count() == 5, "{said:#?}");
    let newest = last(&said, "trace")?;
    ensure!(
        newest["channel"] == "chat" && newest["what"] == "answer",
        "{newest}"
    );
    Ok(())
}

#[test]
fn api_short_commands_read_and_refuse_terminal_ones() -> anyhow::Result<()> {
    let (bench, _runtime, _model) = house()?;
    let _agent = bench.agent()?;
    let api = Api::on(&bench).wait_until_up()?;
    let name = name(&bench)?;
    let talk = api.conversation()?;
    for (line, kinds) in [
        ("/status", vec!["status"]),
        ("/streams", vec!["cameras", "pipelines"]),
        ("/events 1", vec!["event"]),
        ("/memory dock", vec!["notes"]),
        ("/cost", vec!["costs"]),
        ("/plan", vec!["answer"]),
        ("/image /etc/passwd", vec!["failure"]),
        ("/quit", vec!["failure"]),
        (&format!("/stop {name}"), vec!["proposal"]),
        ("/trace 1", vec!["trace"]),
        ("/plan", vec!["answer"]),
    ] {
        let said = api.say(&talk, line)?;
        let came: Vec<&str> = types(&said)
            .into_iter()
            .filter(|t| !["heard", "busy", "note", "end"].contains(t))
            .collect();
        ensure!(came == kinds, "{line}: {said:#?}");
        let told = said.iter().map(Value::to_string).collect::<String>();
        ensure!(!told.contains("root:x:"), "{told}");
    }
    let said = api.say(&talk, "no")?;
    ensure!(
        types(&said).contains(&"dropped"),
        "the proposal still waited: {said:#?}"
    );
    let said = api.say(&talk, "how many events were there yesterday against today")?;
    let answer = said.iter().find(|object| object["type"] == "events");
    let answer = answer.with_context(|| format!("no answer: {said:#?}"))?;
    for span in [answer, &answer["compared_with"]] {
        let cameras = span["coverage"]["cameras"].as_array();
        ensure!(cameras.is_some_and(|c| !c.is_empty()), "{answer:#}");
        ensure!(span["coverage"]["watched"].is_string(), "{answer:#}");
    }
    Ok(())
}
