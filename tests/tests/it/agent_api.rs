//! The agent's API: the real daemons, a real client over the socket and over TCP, a scripted LLM.
//! Nothing changes before a confirmation.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::agent_api::Api;
use watchkeeper_tests::broker::free_port;
use watchkeeper_tests::daemons::{Bench, Process, wait_for, wait_up_to};
use watchkeeper_tests::person::types;
use watchkeeper_tests::scene::LONG;
use watchkeeper_tests::scripted_model::{KEY, ScriptedModel, answers, calls, thinks};
use watchkeeper_tests::site::{CROSSES, middle};

/// Request for a count without events.
const COUNT_REQUEST: &str = "count people crossing the vertical line at 50%";
const STREET: &str = "[sources.street]\nuri = \"demo:?width=640&height=360\"\n";
const TOKEN: &str = "4f1c0a6f0d9b4f0e8a7d3c2b1a09f8e7";

/// A box with the scene as its only camera, and its agent.
struct Site {
    bench: Bench,
    api: Api,
    agent: Process,
    _runtime: Process,
}

impl Site {
    fn new(extra: &str) -> anyhow::Result<Self> {
        let bench = Bench::new(&format!("{STREET}{extra}"))?;
        Self::of(bench)
    }

    fn with_model(steps: &[Value]) -> anyhow::Result<(Self, ScriptedModel)> {
        let bench = Bench::new("")?;
        let model = ScriptedModel::start(&bench.path(""), steps)?;
        bench.configure(&format!("{STREET}{}", model.section()))?;
        Ok((Self::of(bench)?, model))
    }

    fn of(bench: Bench) -> anyhow::Result<Self> {
        let runtime = bench.runtime()?;
        let agent = bench.agent()?;
        let api = Api::on(&bench).wait_until_up()?;
        Ok(Self {
            bench,
            api,
            agent,
            _runtime: runtime,
        })
    }

    fn pipelines(&self) -> anyhow::Result<Vec<Value>> {
        let pipelines = self.bench.get("/v1/pipelines")?;
        Ok(pipelines.as_array().cloned().unwrap_or_default())
    }

    fn proposals(&self) -> anyhow::Result<Vec<Value>> {
        let proposals = self.api.json("GET", "/v1/proposals", None)?;
        Ok(proposals.as_array().cloned().unwrap_or_default())
    }

    /// Kills the agent as a power cut would, and starts another one.
    fn restart(self) -> anyhow::Result<Self> {
        self.agent.kill()?;
        let agent = self.bench.agent()?;
        Ok(Self {
            api: Api::on(&self.bench).wait_until_up()?,
            agent,
            bench: self.bench,
            _runtime: self._runtime,
        })
    }

    /// Waits until a conversation is idle, and returns its state.
    fn wait_until_idle(&self, conversation: &str) -> anyhow::Result<Value> {
        let path = format!("/v1/conversations/{conversation}");
        wait_for("the conversation to rest", || {
            let status = self.api.json("GET", &path, None).ok()?;
            (status["working"] == false).then_some(status)
        })
    }
}

/// Makes the steps of an LLM that looks, drafts, previews and proposes.
fn sets_up() -> Vec<Value> {
    let workflow = middle().to_string();
    let rules = CROSSES;
    vec![
        thinks(
            "I look first.",
            &[(
                "update_plan",
                json!({"steps": [{"step": "look", "done": false}]}),
            )],
        ),
        calls(&[("validate_workflow", json!({"workflow": workflow}))]),
        calls(&[(
            "preview_workflow",
            json!({"draft": "d1", "camera": "street"}),
        )]),
        calls(&[(
            "propose_deployment",
            json!({
                "draft": "d1", "camera": "street", "pipeline": "walkers", "rules": rules,
                "says": "Counts what crosses the middle.", "assumed": [], "not_possible": [], "stop_after_s": 0,
            }),
        )]),
        answers("It waits for your yes."),
    ]
}

fn last<'o>(events: &'o [Value], kind: &str) -> anyhow::Result<&'o Value> {
    let found = events.iter().rev().find(|event| event["type"] == kind);
    found.with_context(|| format!("no {kind}: {events:#?}"))
}

fn text<'v>(value: &'v Value, name: &str) -> anyhow::Result<&'v str> {
    value[name]
        .as_str()
        .with_context(|| format!("no {name}: {value}"))
}

fn rule_event(bench: &Bench) -> Option<Value> {
    let events = bench.events().ok()?;
    events.into_iter().find(|e| e["body"]["kind"] == "rule")
}

#[test]
fn api_request_is_shown_confirmed_and_makes_events() -> anyhow::Result<()> {
    let site = Site::new("")?;
    let talk = site.api.conversation()?;
    let said = site
        .api
        .say(&talk, "tell me when somebody crosses the line")?;
    let question = last(&said, "question")?;
    assert!(text(question, "text")?.contains("line"), "{question}");
    assert_eq!(last(&said, "end")?["waits"]["for"], "answer");
    let said = site.api.say(&talk, "vertical line at 50%")?;
    let proposal = last(&said, "proposal")?;
    assert_eq!(proposal["difference"][0]["becomes"], "new");
    let frames = &proposal["tried"][0]["seen"]["frames"];
    assert!(frames.as_u64() > Some(1), "{proposal:#}");
    let path = format!("/v1/proposals/{}", text(proposal, "id")?);
    let details = site.api.json("GET", &path, None)?;
    assert_eq!(details["offer"]["tried"], proposal["tried"]);
    assert_eq!(details["changed"], false, "{details:#}");
    let end = last(&said, "end")?;
    assert_eq!(
        (&end["waits"]["for"], &end["by_model"]),
        (&json!("yes"), &json!(false))
    );
    assert_eq!(end["waits"]["proposal"], proposal["id"]);
    let numbers: Vec<u64> = said
        .iter()
        .filter_map(|event| event["seq"].as_u64())
        .collect();
    assert!(
        numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]),
        "{numbers:?}"
    );
    assert!(site.pipelines()?.is_empty(), "nothing was said yes to");
    let waits = site.proposals()?;
    assert_eq!(
        (waits.len(), &waits[0]["id"], &waits[0]["conversation"]),
        (1, &proposal["id"], &json!(talk))
    );
    // A look-up leaves the pending proposal in place.
    let said = site.api.say(&talk, "list cameras")?;
    last(&said, "cameras")?;
    assert_eq!(site.proposals()?.len(), 1);

    let said = site.api.say(&talk, "yes")?;
    assert_eq!(types(&said), ["heard", "busy", "done", "end"], "{said:#?}");
    let deployed = site.pipelines()?;
    assert_eq!(deployed.len(), 1);
    assert_eq!(deployed[0]["spec"], proposal["changes"][0]["spec"]);
    assert!(site.proposals()?.is_empty(), "it is confirmed once");
    wait_up_to(LONG, "an event", || rule_event(&site.bench))?;

    // Request and change are in the notes and in the trace.
    let notes = site
        .api
        .json("GET", "/v1/memory?q=crosses%20the%20line", None)?;
    assert!(
        notes.to_string().contains("Asked for and confirmed"),
        "{notes}"
    );
    let trace = site.api.json("GET", "/v1/trace?limit=500", None)?;
    for what in ["request", "question", "proposal", "confirmed", "done"] {
        let entries = trace.as_array().into_iter().flatten();
        let of_it = entries.filter(|e| e["what"] == what && e["channel"] == "local");
        assert!(of_it.count() > 0, "no {what}: {trace}");
    }
    let health = site.api.json("GET", "/v1/health", None)?;
    assert_eq!(
        (&health["state"], &health["runtime"]["answers"]),
        (&json!("up"), &json!(true)),
        "{health}"
    );
    assert_eq!(health["model"]["state"], "absent");
    assert_eq!(health["mqtt"]["configured"], false);
    Ok(())
}

#[test]
fn llm_work_is_streamed_with_cost_and_confirmed_by_id() -> anyhow::Result<()> {
    let (site, model) = Site::with_model(&sets_up())?;
    let talk = site.api.conversation()?;
    let body = json!({"text": "Count who walks through the middle", "think": true});
    let said = site.api.send(&talk, &body)?;
    let thought = said.iter().find(|e| e["step"] == "thought");
    assert_eq!(thought.context("a thought")?["text"], "I look first.");
    let plan = said
        .iter()
        .find(|e| e["step"] == "plan")
        .context("a plan")?;
    assert_eq!(plan["steps"], json!([{"step": "look", "done": false}]));
    let tools: Vec<&str> = said
        .iter()
        .filter(|e| e["step"] == "action")
        .filter_map(|e| e["tool"].as_str())
        .collect();
    assert_eq!(
        tools,
        [
            "look_around",
            "update_plan",
            "validate_workflow",
            "preview_workflow",
            "propose_deployment"
        ]
    );
    let written = said.iter().find(|e| e["tool"] == "validate_workflow");
    let written = text(&written.context("the call")?["arguments"], "workflow")?;
    assert!(
        written.chars().count() <= 201 && written.ends_with('…'),
        "{written}"
    );
    let costs: Vec<f64> = said
        .iter()
        .filter(|e| e["type"] == "cost")
        .filter_map(|e| e["usd"].as_f64())
        .collect();
    assert!(
        costs.len() == 5 && costs.windows(2).all(|pair| pair[0] < pair[1]),
        "{costs:?}"
    );
    let proposal = last(&said, "proposal")?;
    let really = proposal["by_model"]["really"].to_string();
    assert!(
        really.contains("line middle from 320,0 to 320,360"),
        "{really}"
    );
    assert_eq!(last(&said, "end")?["by_model"], true);
    let status = site
        .api
        .json("GET", &format!("/v1/conversations/{talk}"), None)?;
    assert_eq!(
        (&status["waits"]["for"], &status["plan"]),
        (&json!("yes"), &plan["steps"])
    );
    assert!(site.pipelines()?.is_empty(), "nothing was said yes to");

    let id = text(proposal, "id")?;
    let path = format!("/v1/proposals/{id}");
    let seen = site.api.json("GET", &path, None)?;
    assert_eq!(
        (&seen["changed"], &seen["model"]),
        (&json!(false), &json!("claude-sonnet-5-5"))
    );
    assert_eq!(seen["offer"]["difference"], proposal["difference"]);
    let done = site.api.json("POST", &format!("{path}/confirm"), None)?;
    assert_eq!(
        (&done["outcome"], &done["conversation"]),
        (&json!("done"), &json!(talk))
    );
    assert_eq!(site.pipelines()?.len(), 1);
    let (status, again) = site.api.request("POST", &format!("{path}/confirm"), None)?;
    assert_eq!(status, 404, "{again}");
    assert_eq!(
        (&again["field"], &again["value"]),
        (&json!("id"), &json!(id))
    );
    // A follower of the conversation received it too.
    let events = site.api.json(
        "GET",
        &format!("/v1/conversations/{talk}/events?limit=512"),
        None,
    )?;
    last(events.as_array().context("a page")?, "done")?;

    let cost = site.api.json("GET", "/v1/cost", None)?;
    assert_eq!(cost["provider"], "claude");
    let spent = cost["budget"]["day_usd"].as_f64().context("an amount")?;
    assert!(
        (spent - costs.last().copied().unwrap_or_default()).abs() < 1e-6,
        "{cost}"
    );
    assert_eq!(cost["calls"].as_array().map(Vec::len), Some(5));
    let classes = cost["budget"]["classes"].as_array().into_iter().flatten();
    let calls: Vec<&Value> = classes.map(|class| &class["calls_in_hour"]).collect();
    assert_eq!(calls, [0, 5, 0, 0, 0], "a program's set-up: {cost}");
    let health = site.api.json("GET", "/v1/health", None)?;
    assert_eq!(
        (&health["model"]["state"], &health["model"]["within_budget"]),
        (&json!("answers"), &json!(true))
    );
    let trace = site
        .api
        .json("GET", "/v1/trace?limit=1000", None)?
        .to_string();
    assert!(!trace.contains(KEY) && trace.contains("validate_workflow"));
    model.finish()
}

#[test]
fn disconnected_client_stops_nothing_and_may_return() -> anyhow::Result<()> {
    let (site, model) = Site::with_model(&sets_up())?;
    let talk = site.api.conversation()?;
    let path = format!("/v1/conversations/{talk}/messages");
    let body = json!({"text": "Count who walks through the middle", "think": true});
    let seen = site
        .api
        .follow("POST", &path, Some(&body), |e| e["step"] == "thought")?;
    let after = seen
        .last()
        .and_then(|e| e["seq"].as_u64())
        .context("a number")?;
    // The next message has to wait for the end of the current one.
    let (status, refused) = site
        .api
        .request("POST", &path, Some(&json!({"text": "yes"})))?;
    if status != 409 {
        // It had already ended, which the script makes unlikely and does not forbid.
        ensure!(status == 202, "{status} {refused}");
    } else {
        assert!(
            text(&refused, "detail")?.contains("events/stream"),
            "{refused}"
        );
    }
    let status = site.wait_until_idle(&talk)?;
    assert_eq!(status["working"], false);
    let stream = format!("/v1/conversations/{talk}/events/stream?after={after}");
    let rest = site
        .api
        .follow("GET", &stream, None, |e| e["type"] == "end")?;
    assert_eq!(rest[0]["seq"], after + 1);
    last(&rest, "proposal")?;
    // Every follower slot is free again.
    for _ in 0..40 {
        wait_for("a place", || {
            let followed = site
                .api
                .follow("GET", &stream, None, |e| e["type"] == "end");
            followed.ok()
        })?;
    }
    model.finish()
}

#[test]
fn killed_agent_keeps_its_pending_proposal() -> anyhow::Result<()> {
    let mut site = Site::new("")?;
    let talk = site.api.conversation()?;
    let said = site.api.say(&talk, COUNT_REQUEST)?;
    let id = text(last(&said, "proposal")?, "id")?.to_owned();
    site = site.restart()?;
    assert_eq!(site.proposals()?[0]["id"], json!(id));
    // The conversation has kept nothing but the proposal.
    let said = site.api.say(&talk, "yes")?;
    last(&said, "done")?;
    assert_eq!(site.pipelines()?.len(), 1);

    let said = site.api.say(&talk, "delete everything")?;
    let id = text(last(&said, "proposal")?, "id")?.to_owned();
    site = site.restart()?;
    let done = site
        .api
        .json("POST", &format!("/v1/proposals/{id}/confirm"), None)?;
    assert_eq!(done["outcome"], "done");
    assert!(site.pipelines()?.is_empty());
    assert!(site.proposals()?.is_empty());
    let (status, none) = site.api.request("GET", "/v1/conversations/nobody", None)?;
    assert_eq!((status, &none["value"]), (404, &json!("nobody")));
    Ok(())
}

#[test]
fn stale_refused_or_ended_proposals_are_not_applied() -> anyhow::Result<()> {
    let site = Site::new("")?;
    let talk = site.api.conversation()?;
    site.api.say(&talk, COUNT_REQUEST)?;
    site.api.say(&talk, "yes")?;
    let said = site.api.say(&talk, "delete everything")?;
    let id = text(last(&said, "proposal")?, "id")?.to_owned();
    let mut spec = site.pipelines()?[0]["spec"].clone();
    spec["stop_after_s"] = json!(500.0);
    let name = text(&spec, "id")?.to_owned();
    site.bench
        .json("PUT", &format!("/v1/pipelines/{name}"), Some(&spec))?;
    assert_eq!(
        site.api.json("GET", &format!("/v1/proposals/{id}"), None)?["changed"],
        true
    );
    let (status, refused) =
        site.api
            .request("POST", &format!("/v1/proposals/{id}/confirm"), None)?;
    assert_eq!(status, 409, "{refused}");
    assert_eq!(site.pipelines()?.len(), 1, "nothing was done");
    let renewed = site.proposals()?;
    assert_eq!(renewed.len(), 1);
    let renewed = text(&renewed[0], "id")?.to_owned();
    assert!(
        renewed != id && text(&refused, "detail")?.contains(&renewed),
        "{refused}"
    );
    let dropped = site
        .api
        .json("POST", &format!("/v1/proposals/{renewed}/refuse"), None)?;
    assert_eq!(dropped["outcome"], "refused");
    assert!(site.proposals()?.is_empty());
    site.api.say(&talk, "delete everything")?;
    assert_eq!(site.proposals()?.len(), 1);
    site.api
        .json("DELETE", &format!("/v1/conversations/{talk}"), None)?;
    assert!(site.proposals()?.is_empty());
    assert_eq!(site.pipelines()?.len(), 1);
    Ok(())
}

#[test]
fn tcp_needs_the_token_and_shows_only_tcp_proposals() -> anyhow::Result<()> {
    let port = free_port()?;
    let api = format!("[agent.api]\nlisten = \"127.0.0.1:{port}\"\ntoken_file = \"token\"\n");
    let bench = Bench::new(&format!("{STREET}{api}"))?;
    std::fs::write(bench.path("token"), format!("{TOKEN}\n"))?;
    let site = Site::of(bench)?;
    let remote = Api::over_tcp(port, Some(TOKEN)).wait_until_up()?;
    let wrong = TOKEN.replace('4', "5");
    for (token, part) in [
        (None, "Bearer"),
        (Some(wrong.as_str()), "[agent.api]"),
        (Some(""), "[agent.api]"),
    ] {
        for (method, path) in [
            ("GET", "/v1/health"),
            ("POST", "/v1/conversations"),
            ("GET", "/nothing"),
        ] {
            let (status, refused) = Api::over_tcp(port, token).request(method, path, None)?;
            assert_eq!(
                (status, &refused["code"]),
                (401, &json!("unauthorized")),
                "{refused}"
            );
            assert!(text(&refused, "detail")?.contains(part), "{refused}");
            assert!(!refused.to_string().contains(TOKEN), "{refused}");
        }
    }
    // A proposal made at the box is hidden from the owner of the token.
    let on_box = site.api.conversation()?;
    site.api.say(&on_box, COUNT_REQUEST)?;
    let local = text(&site.proposals()?[0], "id")?.to_owned();
    assert_eq!(remote.json("GET", "/v1/proposals", None)?, json!([]));
    assert_eq!(remote.json("GET", "/v1/conversations", None)?, json!([]));
    for path in [
        format!("/v1/proposals/{local}/confirm"),
        format!("/v1/proposals/{local}/refuse"),
    ] {
        assert_eq!(remote.request("POST", &path, None)?.0, 404, "{path}");
    }
    for (method, path) in [
        ("GET", format!("/v1/conversations/{on_box}")),
        ("DELETE", format!("/v1/conversations/{on_box}")),
        ("GET", format!("/v1/conversations/{on_box}/events")),
        ("POST", format!("/v1/conversations/{on_box}/messages")),
    ] {
        let body = json!({"text": "yes"});
        assert_eq!(
            remote.request(method, &path, Some(&body))?.0,
            404,
            "{method} {path}"
        );
    }
    let trace = remote.json("GET", "/v1/trace", None)?;
    assert!(!trace.to_string().contains("crossing"), "{trace}");
    assert_eq!(site.proposals()?.len(), 1);
    assert!(site.pipelines()?.is_empty());
    // A proposal made over TCP may be confirmed there, and on the box.
    let talk = remote.conversation()?;
    let said = remote.say(&talk, COUNT_REQUEST)?;
    let id = text(last(&said, "proposal")?, "id")?.to_owned();
    let done = remote.json("POST", &format!("/v1/proposals/{id}/confirm"), None)?;
    assert_eq!(done["outcome"], "done");
    let said = remote.say(&talk, "delete everything")?;
    let id = text(last(&said, "proposal")?, "id")?.to_owned();
    site.api
        .json("POST", &format!("/v1/proposals/{id}/confirm"), None)?;
    assert!(site.pipelines()?.is_empty());
    let trace = remote.json("GET", "/v1/trace", None)?;
    assert!(trace.to_string().contains("crossing"), "{trace}");
    let log = site.agent.log_text();
    assert!(
        log.contains("without a valid token") && !log.contains(TOKEN),
        "{log}"
    );
    Ok(())
}

#[test]
fn unreadable_token_closes_only_tcp() -> anyhow::Result<()> {
    let port = free_port()?;
    let api = format!("[agent.api]\nlisten = \"127.0.0.1:{port}\"\ntoken_file = \"none\"\n");
    let site = Site::new(&api)?;
    let health = wait_for("the trouble to be told", || {
        let health = site.api.json("GET", "/v1/health", None).ok()?;
        (health["state"] == "degraded").then_some(health)
    })?;
    assert!(health["reasons"].to_string().contains("none"), "{health}");
    assert!(
        Api::over_tcp(port, Some(TOKEN))
            .request("GET", "/v1/health", None)
            .is_err()
    );
    assert_eq!(site.api.json("GET", "/v1/proposals", None)?, json!([]));
    Ok(())
}

#[test]
fn conversations_are_limited_in_number() -> anyhow::Result<()> {
    let port = free_port()?;
    let api = format!("[agent.api]\nlisten = \"127.0.0.1:{port}\"\ntoken_file = \"token\"\n");
    let bench = Bench::new(&format!("{STREET}{api}"))?;
    std::fs::write(bench.path("token"), TOKEN)?;
    let site = Site::of(bench)?;
    let remote = Api::over_tcp(port, Some(TOKEN)).wait_until_up()?;
    for _ in 0..12 {
        remote.conversation()?;
    }
    let (status, refused) = remote.request("POST", "/v1/conversations", None)?;
    assert_eq!(
        (status, &refused["code"]),
        (429, &json!("limit")),
        "{refused}"
    );
    let open: Vec<String> = (0..4)
        .map(|_| site.api.conversation())
        .collect::<Result<_, _>>()?;
    let (status, refused) = site.api.request("POST", "/v1/conversations", None)?;
    assert_eq!(status, 429);
    assert!(text(&refused, "detail")?.contains("DELETE"), "{refused}");
    let path = format!("/v1/conversations/{}", open[0]);
    assert_eq!(site.api.request("DELETE", &path, None)?.0, 204);
    wait_for("the place", || site.api.conversation().ok())?;
    assert_eq!(site.api.request("GET", &path, None)?.0, 404);
    Ok(())
}

#[test]
fn refusal_names_field_value_and_remedy() -> anyhow::Result<()> {
    let site = Site::new("")?;
    let talk = site.api.conversation()?;
    let path = format!("/v1/conversations/{talk}/messages");
    let picture = |name: &str, data: &str| json!({"text": "what is this", "images": [{"name": name, "data": data}]});
    let long = "x".repeat(2_001);
    let cases = [
        (json!({"text": "hi", "txet": 1}), "txet", "1", "`text`"),
        (json!({"think": true}), "text", "", "missing field"),
        (json!({"text": 5}), "text", "5", "expected a string"),
        (json!({"text": "  "}), "text", "  ", "what can I say"),
        (json!({"text": long}), "text", "x…", "at most 2000"),
        (picture("a.jpg", "%%%"), "images[0].data", "%%%", "base64"),
        (
            picture("a.jpg", "aGFsbG8="),
            "images[0].data",
            "aGFsbG8=",
            "JPEG, PNG or WebP",
        ),
        (
            picture("", "aGFsbG8="),
            "images[0].name",
            "0 characters",
            "1 to 100",
        ),
        (
            json!({"text": "x", "images": vec![json!({"name": "a", "data": ""}); 5]}),
            "images",
            "5",
            "at most 4",
        ),
        (
            json!({"text": "x", "images": {}}),
            "images",
            "{}",
            "expected a sequence",
        ),
    ];
    for (body, field, value, part) in cases {
        let (status, refused) = site.api.request("POST", &path, Some(&body))?;
        assert_eq!(status, 400, "{refused}");
        assert_eq!(refused["field"], field, "{refused}");
        let shown = refused["value"].as_str().unwrap_or_default();
        assert!(shown.ends_with(value), "{refused}");
        assert!(text(&refused, "detail")?.contains(part), "{refused}");
    }
    for (body, status, part) in [
        (vec![b'['; 10 << 20], 413, "at most 8388608 bytes"),
        (b"{\"text\": ".to_vec(), 400, "not JSON"),
        (vec![0xff, 0xfe, 0x00], 400, "not JSON"),
        (vec![b'['; 200_000], 400, "not JSON"),
        (Vec::new(), 400, "a JSON body is required"),
        (b"[]".to_vec(), 400, "the body can't be used"),
    ] {
        // A server that has read enough may close before the rest is sent.
        let Ok((got, refused)) = site.api.raw("POST", &path, body) else {
            ensure!(status == 413, "hung up");
            continue;
        };
        assert_eq!(got, status, "{refused}");
        assert!(text(&refused, "detail")?.contains(part), "{refused}");
    }
    for (method, path, status, field, part) in [
        (
            "GET",
            format!("/v1/conversations/{talk}/events?limit=0"),
            400,
            "limit",
            "1 to 512",
        ),
        (
            "GET",
            format!("/v1/conversations/{talk}/events?wait=x"),
            400,
            "wait",
            "whole number",
        ),
        (
            "GET",
            format!("/v1/conversations/{talk}/events/stream?after=7"),
            409,
            "after",
            "after=0",
        ),
        (
            "GET",
            "/v1/memory".to_owned(),
            400,
            "q",
            "words to look for",
        ),
        (
            "GET",
            "/v1/trace?limit=100000".to_owned(),
            400,
            "limit",
            "1 to 1000",
        ),
        (
            "POST",
            "/v1/proposals/xxxxx/confirm".to_owned(),
            404,
            "id",
            "GET /v1/proposals",
        ),
        ("GET", "/v1/nothing".to_owned(), 404, "", "/v1/openapi.json"),
        (
            "PATCH",
            "/v1/proposals".to_owned(),
            405,
            "",
            "does not take PATCH",
        ),
    ] {
        let (got, refused) = site.api.request(method, &path, None)?;
        assert_eq!(got, status, "{path}: {refused}");
        assert_eq!(
            refused["field"].as_str().unwrap_or_default(),
            field,
            "{refused}"
        );
        assert!(text(&refused, "detail")?.contains(part), "{refused}");
    }
    // A request that the rules do not understand, or a picture without an LLM, fails the message
    // and not the conversation.
    let said = site.api.say(&talk, "fnord the gostak")?;
    assert_eq!(last(&said, "end")?["failed"], true);
    let png = {
        let file = site.bench.path("grey.png");
        image::RgbImage::from_pixel(64, 48, image::Rgb([90, 90, 90])).save(&file)?;
        base64(&file)?
    };
    let said = site.api.send(&talk, &picture("grey.png", &png))?;
    let failure = last(&said, "failure")?;
    assert!(text(failure, "message")?.contains("[llm]"), "{failure}");
    let said = site.api.say(&talk, "list cameras")?;
    last(&said, "cameras")?;
    Ok(())
}

fn base64(file: &Path) -> anyhow::Result<String> {
    use base64::Engine as _;
    Ok(base64::engine::general_purpose::STANDARD.encode(std::fs::read(file)?))
}

#[test]
fn agent_socket_is_group_only_and_removed_on_exit() -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::new("")?;
    let socket = site.bench.path("agent.sock");
    let mode = std::fs::metadata(&socket)?.permissions().mode() & 0o777;
    assert_eq!(mode, 0o660);
    let talk = site.api.conversation()?;
    site.agent.interrupt()?;
    let stream = format!("/v1/conversations/{talk}/events/stream");
    // An open stream does not delay the shutdown.
    site.api.follow("GET", &stream, None, |_| false).ok();
    let (code, log) = site
        .agent
        .wait_for_exit(watchkeeper_tests::daemons::START_TIMEOUT)?;
    assert_eq!(code, Some(0), "{log}");
    assert!(!socket.exists());
    Ok(())
}
