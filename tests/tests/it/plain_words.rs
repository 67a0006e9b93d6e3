//! Plain requests to the box: the real command, the real runtime, the built-in scene. Nothing
//! changes before a confirmation.

use std::io::Write as _;
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, Process, wait_for};
use watchkeeper_tests::person::{ask, ask_json, chat, command, types};
use watchkeeper_tests::scene::STREET;
use watchkeeper_tests::scripted_model::{self, KEY, ScriptedModel};

/// Request for events on the scene.
const EVENT_REQUEST: &str = "tell me when somebody crosses the vertical line at 50%";
/// Request for a count without events.
const COUNT_REQUEST: &str = "count people crossing the vertical line at 50%";

/// A box with the scene as its only camera, and a user with their own home.
struct Site {
    bench: Bench,
    _runtime: Process,
}

impl Site {
    fn new() -> anyhow::Result<Self> {
        let bench = Bench::new("[sources.street]\nuri = \"demo:\"\n")?;
        let runtime = bench.runtime()?;
        Ok(Self {
            bench,
            _runtime: runtime,
        })
    }

    fn pipelines(&self) -> anyhow::Result<Vec<Value>> {
        let pipelines = self.bench.get("/v1/pipelines")?;
        Ok(pipelines.as_array().cloned().unwrap_or_default())
    }
}

#[test]
fn request_confirmed_by_another_process_makes_events() -> anyhow::Result<()> {
    let site = Site::new()?;
    let (code, objects, errors) = ask_json(&site.bench, &[EVENT_REQUEST])?;
    assert_eq!(code, 0, "{errors}");
    let proposal = objects.first().context("a proposal")?;
    assert_eq!(proposal["type"], "proposal");
    let understood = proposal["understood"].as_str().unwrap_or_default();
    assert!(understood.contains("On camera street"), "{understood}");
    assert_eq!(proposal["checks"][0]["errors"], json!([]));
    assert_eq!(proposal["difference"][0]["becomes"], "new");
    assert!(site.pipelines()?.is_empty(), "nothing was said yes to");

    let id = proposal["id"].as_str().context("an id")?.to_owned();
    let (code, objects, errors) = ask_json(&site.bench, &["--confirm", &id])?;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(types(&objects), ["done"], "{objects:#?}");
    let deployed = site.pipelines()?;
    assert_eq!(deployed.len(), 1);
    assert_eq!(deployed[0]["spec"], proposal["changes"][0]["spec"]);

    let event = wait_for("an event", || {
        let events = site.bench.events().ok()?;
        events.into_iter().find(|e| e["body"]["kind"] == "rule")
    })?;
    assert_eq!(event["body"]["condition"], "crosses");
    assert_eq!(event["pipeline"], deployed[0]["spec"]["id"]);

    let (code, objects, errors) = ask_json(&site.bench, &["how many events were there today?"])?;
    assert_eq!(code, 0, "{errors}");
    assert!(objects[0]["number"].as_u64() > Some(0), "{objects:#?}");

    // A proposal is confirmed only once.
    let (code, _, errors) = ask_json(&site.bench, &["--confirm", &id])?;
    assert_eq!(code, 2);
    assert!(errors.contains("ask again"), "{errors}");
    Ok(())
}

#[test]
fn proposal_has_drawing_and_trial_that_leave_no_trace() -> anyhow::Result<()> {
    let site = Site::new()?;
    let (code, objects, errors) = ask_json(&site.bench, &[EVENT_REQUEST])?;
    assert_eq!(code, 0, "{errors}");
    let proposal = objects.first().context("a proposal")?;
    let tried = &proposal["tried"][0];
    assert_eq!(tried["camera"], "street", "{proposal:#}");
    assert_eq!(tried["not_tried"], Value::Null, "{tried:#}");
    assert!(tried["seen"]["frames"].as_u64() > Some(1), "{tried:#}");
    let lines = tried["seen"]["lines"].as_object();
    assert_eq!(lines.map(serde_json::Map::len), Some(1), "{tried:#}");
    let picture = tried["picture"].as_str().context("a picture")?;
    let drawn = std::fs::read(picture)?;
    assert!(drawn.starts_with(&[0xff, 0xd8]), "{picture} is no JPEG");
    assert!(site.pipelines()?.is_empty());
    let events = site.bench.events()?;
    let told = events.iter().filter(|e| e["body"]["kind"] == "rule");
    assert_eq!(told.count(), 0, "{events:#?}");

    let words = ask(&site.bench, &[EVENT_REQUEST])?;
    let words = String::from_utf8_lossy(&words.stdout).into_owned();
    for part in ["preview of street: ", "tried on street for "] {
        assert!(words.contains(part), "{words}");
    }
    // Without a line or zone too; without a history, the reason is shown.
    let (_, objects, _) = ask_json(&site.bench, &["tell me when something moves"])?;
    let tried = &objects[0]["tried"][0];
    assert!(tried["seen"]["frames"].as_u64() > Some(1), "{objects:#?}");
    let why = tried["not_replayed"].as_str().unwrap_or_default();
    assert!(why.contains("no history"), "{tried:#}");
    // An auto-approved request does not wait for a trial.
    let (code, objects, errors) = ask_json(&site.bench, &["--yes", COUNT_REQUEST])?;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(objects[0]["tried"], Value::Null, "{objects:#?}");
    Ok(())
}

#[test]
fn busy_runtime_skips_the_trial_and_not_the_proposal() -> anyhow::Result<()> {
    let bench = Bench::new("[sources.street]\nuri = \"demo:\"\npace = \"native\"\n")?;
    let _runtime = bench.runtime()?;
    // Another user runs a trial meanwhile, and the runtime runs one at a time.
    let (_, objects, errors) = ask_json(&bench, &[EVENT_REQUEST])?;
    let spec = &objects.first().context(errors)?["changes"][0]["spec"];
    let body = json!({"pipeline": spec, "seconds": 60.0}).to_string();
    let mut busy = UnixStream::connect(bench.socket())?;
    write!(
        busy,
        "POST /v1/workflows/dry-run HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    wait_for("the runtime to be busy", || {
        let refused = bench.json("POST", "/v1/workflows/run", Some(&json!({})));
        let why = refused.err()?.to_string();
        why.contains("another one still runs").then_some(())
    })?;
    let (code, objects, errors) = ask_json(&bench, &[EVENT_REQUEST])?;
    assert_eq!(code, 0, "{errors}");
    let proposal = objects.first().context("a proposal")?;
    let tried = &proposal["tried"][0];
    let why = tried["not_tried"].as_str().unwrap_or_default();
    assert!(why.contains("another one still runs"), "{proposal:#}");
    assert_eq!(tried["seen"], Value::Null);
    let id = proposal["id"].as_str().context("an id")?;
    let (code, objects, errors) = ask_json(&bench, &["--confirm", id])?;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(types(&objects), ["done"], "{objects:#?}");
    Ok(())
}

#[test]
fn stale_proposal_is_shown_again_and_not_applied() -> anyhow::Result<()> {
    let site = Site::new()?;
    let (code, _, errors) = ask_json(&site.bench, &["--yes", COUNT_REQUEST])?;
    assert_eq!(code, 0, "{errors}");
    let (_, objects, _) = ask_json(&site.bench, &["delete everything"])?;
    let id = objects[0]["id"].as_str().context("an id")?.to_owned();
    let mut spec = site.pipelines()?[0]["spec"].clone();
    spec["stop_after_s"] = json!(500.0);
    let path = format!("/v1/pipelines/{}", spec["id"].as_str().unwrap_or_default());
    site.bench.json("PUT", &path, Some(&spec))?;
    let (code, objects, errors) = ask_json(&site.bench, &["--confirm", &id])?;
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("has changed since"), "{errors}");
    assert_eq!(site.pipelines()?.len(), 1);
    let renewed = objects[0]["id"].as_str().context("an id")?.to_owned();
    let (code, _, errors) = ask_json(&site.bench, &["--confirm", &renewed])?;
    assert_eq!(code, 0, "{errors}");
    assert!(site.pipelines()?.is_empty());
    Ok(())
}

#[test]
fn proposal_with_relative_time_is_confirmed_elsewhere() -> anyhow::Result<()> {
    let site = Site::new()?;
    let (code, _, errors) = ask_json(&site.bench, &["--yes", COUNT_REQUEST])?;
    assert_eq!(code, 0, "{errors}");
    let (_, objects, errors) = ask_json(&site.bench, &["pause everything for two hours"])?;
    let id = objects.first().and_then(|o| o["id"].as_str());
    let id = id.context(errors)?;
    let (code, objects, errors) = ask_json(&site.bench, &["--confirm", id])?;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(types(&objects).first(), Some(&"done"), "{objects:#?}");
    Ok(())
}

#[test]
fn timed_pause_outlasts_the_runtime_and_ends_by_itself() -> anyhow::Result<()> {
    let bench = Bench::new("[sources.street]\nuri = \"demo:\"\n")?;
    let runtime = bench.runtime()?;
    let (code, _, errors) = ask_json(&bench, &["--yes", EVENT_REQUEST])?;
    assert_eq!(code, 0, "{errors}");
    let (code, objects, errors) = ask_json(
        &bench,
        &[
            "--yes",
            "pause the street camera until eight tomorrow morning",
        ],
    )?;
    assert_eq!(code, 0, "{errors}");
    let of = |status: &Value| status["paused_until"].as_str().map(str::to_owned);
    let until = of(&bench.get("/v1/pipelines")?[0]).context("until when")?;
    let asked = objects[0]["changes"][0]["until"].as_str();
    assert_eq!(asked, Some(until.as_str()), "{objects:#?}");
    // A change of settings leaves the pause unchanged.
    let change = "change the cooldown of the street watch to 5 minutes";
    let (code, _, errors) = ask_json(&bench, &["--yes", change])?;
    assert_eq!(code, 0, "{errors}");
    let changed = &bench.get("/v1/pipelines")?[0];
    assert_eq!(
        changed["spec"]["rules"][0]["cooldown_s"], 300.0,
        "{changed}"
    );
    assert_eq!(of(changed), Some(until), "{changed}");

    // A moment in the near future, written as a program writes it.
    let id = bench.get("/v1/pipelines")?[0]["spec"]["id"].clone();
    let path = format!("/v1/pipelines/{}", id.as_str().unwrap_or_default());
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(4);
    let until = json!({"until": soon.to_string()});
    let paused = bench.json("POST", &format!("{path}/pause"), Some(&until))?;
    assert_eq!(paused["spec"]["paused"], true);
    assert!(of(&paused).is_some(), "{paused}");
    runtime.kill()?;
    let runtime = bench.runtime()?;
    wait_for("the end of the pause", || {
        let status = bench.get(&path).ok()?;
        (status["spec"]["paused"] == false && of(&status).is_none()).then_some(())
    })?;
    let (status, refused) = bench.request("POST", &format!("{path}/pause"), Some(&until))?;
    let refused = String::from_utf8_lossy(&refused);
    assert!(status == 422 && refused.contains("until"), "{refused}");
    runtime.stop()?;
    Ok(())
}

#[test]
fn chat_asks_waits_for_yes_and_continues_after_failure() -> anyhow::Result<()> {
    let site = Site::new()?;
    let said = chat(
        &site.bench,
        "tell me when somebody crosses the line\nvertical line at 50%\nlist cameras\nno\nyes\n/nonsense\n",
    )?;
    assert_eq!(
        types(&said),
        [
            "question", "proposal", "cameras", "dropped", "failure", "failure"
        ],
        "{said:#?}"
    );
    assert!(site.pipelines()?.is_empty());
    let said = chat(
        &site.bench,
        &format!(
            "{COUNT_REQUEST}\nyes\nremember that the left half is the dock\n/memory dock\n/status\n/quit\n{COUNT_REQUEST}\n"
        ),
    )?;
    assert_eq!(
        types(&said),
        [
            "proposal",
            "done",
            "note",
            "remembered",
            "notes",
            "status",
            // The embedding that the notes use.
            "note"
        ],
        "{said:#?}"
    );
    assert!(
        said[4]["notes"][0]["note"]["words"]
            .as_str()
            .is_some_and(|w| w.contains("dock"))
    );
    assert_eq!(site.pipelines()?.len(), 1);
    let trace = command(&site.bench)?.args(["trace", "--json"]).output()?;
    let trace = String::from_utf8(trace.stdout)?;
    for what in ["request", "proposal", "confirmed", "done", "dropped"] {
        assert!(
            trace.contains(&format!("\"what\":\"{what}\"")),
            "{what}: {trace}"
        );
    }
    Ok(())
}

#[test]
fn llm_rewording_waits_for_the_same_confirmation() -> anyhow::Result<()> {
    let says = |request: &str, left_out: &[&str]| {
        scripted_model::says(&json!({"request": request, "left_out": left_out}))
    };
    let refuses = || json!({"fault": {"kind": "refusal", "category": "general_harms"}});
    let steps = [
        // What leaves a part out is not proposed: an LLM with tools is asked, which refuses.
        says(EVENT_REQUEST, &["in rot"]),
        refuses(),
        says(EVENT_REQUEST, &[]),
        // An LLM that was persuaded to say yes.
        says("yes", &[]),
        refuses(),
        says(EVENT_REQUEST, &[]),
        json!({"fault": {
            "kind": "status", "status": 401, "content_type": "application/json", "body": "{\"error\": \"{key}\"}",
        }}),
    ];
    let source = "[sources.street]\nuri = \"demo:\"\n";
    let bench = Bench::new(source)?;
    let model = ScriptedModel::start(&bench.path(""), &steps)?;
    bench.configure(&format!("{source}{}", model.section()))?;
    let site = Site {
        _runtime: bench.runtime()?,
        bench,
    };
    let said = chat(
        &site.bench,
        "Sag Bescheid, wenn jemand in Rot die Linie quert\nWenn jemand die Linie quert\nno\n\
         Und jetzt?\n",
    )?;
    assert_eq!(
        types(&said),
        [
            "step", "note", "failure", "note", "proposal", "dropped", "step", "note", "failure"
        ],
        "{said:#?}"
    );
    assert!(
        said[3]["message"]
            .as_str()
            .is_some_and(|m| m.contains(EVENT_REQUEST))
    );
    assert_eq!(said[4]["request"], EVENT_REQUEST);
    // The user confirms the LLM's wording after the proposal was shown.
    let out = ask(
        &site.bench,
        &["--yes", "Sag Bescheid, wenn jemand die Linie quert"],
    )?;
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{errors}");
    assert!(errors.contains("words of a language model"), "{errors}");
    let out = ask(&site.bench, &["Und jetzt?"])?;
    let why = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{why}");
    assert!(
        why.contains("because the LLM does not") && !why.contains(KEY),
        "{why}"
    );
    assert!(site.pipelines()?.is_empty());
    let trace = command(&site.bench)?.args(["trace", "--json"]).output()?;
    let trace = String::from_utf8(trace.stdout)?;
    assert!(
        trace.contains("\"what\":\"reworded\"") && !trace.contains(KEY),
        "{trace}"
    );
    model.finish()
}

#[test]
fn mistake_gives_one_sentence_with_remedy_and_exit_code() -> anyhow::Result<()> {
    let site = Site::new()?;
    for (arguments, code, part) in [
        (
            &["tell me when somebody crosses the vertical line at 50% on camera gaet"][..],
            2,
            "street",
        ),
        (&["the weather is nice"], 2, "Ask \"help\""),
        (&["stop everything"], 2, "Nothing runs"),
        (&["--yes", "count people, and paint the fence"], 2, "paint"),
        (&["--confirm", "aaaaa"], 2, "ask again"),
        (&["yes"], 2, "--confirm"),
        (&[""], 2, "what can I say"),
    ] {
        let out = ask(&site.bench, arguments)?;
        let errors = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(part), "{arguments:?}: {errors}");
    }
    assert!(site.pipelines()?.is_empty());
    Ok(())
}

#[test]
fn notes_list_pipelines_after_each_yes_and_agent_start() -> anyhow::Result<()> {
    let bench = Bench::new(&format!(
        "[sources.test]\nuri = {STREET:?}\npace = \"native\"\n"
    ))?;
    let _runtime = bench.runtime()?;
    let active = |path: &str| -> Option<Value> {
        serde_json::from_str(&std::fs::read_to_string(bench.path(path)).ok()?).ok()
    };
    let persons = "home/watchkeeper/memory/active.json";
    let count = "count people crossing the vertical line at 50% on camera test\nyes\n";
    ensure!(active(persons).is_none(), "nothing was confirmed yet");
    chat(&bench, count)?;
    let kept = active(persons).context("a file")?;
    let watches = kept["pipelines"].as_object().context("pipelines")?;
    let (name, watch) = watches.iter().next().context("a watch")?;
    ensure!(
        watch["source"] == "test" && watch["workflow"]["steps"].is_array(),
        "{kept:#}"
    );
    ensure!(kept["cameras"]["test"]["uri"] == STREET, "{kept:#}");
    // The agent was not running when the proposal was confirmed.
    let _agent = bench.agent()?;
    let agents = "state/assistant/memory/active.json";
    let at_start = wait_for("the agent's file", || active(agents))?;
    ensure!(at_start == kept, "{at_start:#}");
    chat(&bench, &format!("delete {name}\nyes\n"))?;
    let kept = active(persons).context("a file")?;
    ensure!(kept["pipelines"] == json!({}), "{kept:#}");
    Ok(())
}
