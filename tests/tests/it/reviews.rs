//! Reviews from end to end: a doubtful event, its second opinion, a person's answer and what
//! follows from it, as records of one hash chain.

use std::process::Output;

use serde_json::{Value, json};
use watchkeeper_tests::agent_api::Api;
use watchkeeper_tests::broker::{Mosquitto, free_port};
use watchkeeper_tests::daemons::{Bench, wait_for, wait_up_to};
use watchkeeper_tests::hooks::Hooks;
use watchkeeper_tests::person::{chat, command};
use watchkeeper_tests::scene::{LONG, deploy_fast, doubtful};
use watchkeeper_tests::scripted_model::{ScriptedModel, says};

/// Events that a person answers before a rule is narrowed.
const ANSWERS: usize = 30;

fn reviews(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Output> {
    Ok(command(bench)?.arg("reviews").args(arguments).output()?)
}

fn waiting(bench: &Bench) -> anyhow::Result<Value> {
    Ok(bench.get("/v1/reviews")?["waiting"].clone())
}

/// All records of the event of record `first`.
fn records(bench: &Bench, first: &Value) -> anyhow::Result<Vec<Value>> {
    let mut all = bench.events()?;
    all.retain(|record| record["id"] == first["id"]);
    Ok(all)
}

#[test]
fn whole_course_of_an_escalated_event_is_in_the_journal() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let siren = Hooks::start()?;
    let heard = || {
        let requests = siren.requests();
        requests.iter().map(|r| r.text()).collect::<Vec<_>>()
    };
    let confirms = says(&json!({
        "verdict": "confirm", "confidence": 1.0, "seen": "a man at the kerb", "text_seen": "", "injection_suspected": false,
    }));
    let model = ScriptedModel::start(&bench.path(""), &[confirms])?;
    bench.configure(&format!(
        "[channels.siren]\nurl = {:?}\n\n{}second_opinion = true\n",
        siren.url("/siren"),
        model.section()
    ))?;
    let runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    let rule = json!({"name": "somebody", "severity": "warning", "on_act": ["siren"]});
    let first = doubtful(&bench, &[rule])?.remove(0);
    let seq = first["seq"].to_string();
    let opinion = wait_up_to(LONG, "the second opinion in the journal", || {
        let mut all = records(&bench, &first).ok()?;
        all.retain(|record| record["phase"] == "assessed");
        all.pop()
    })?;
    let by = &opinion["assessment"]["by"];
    assert_eq!(by["kind"], "second_opinion", "{opinion:#}");
    assert_eq!(
        by["picture_sha256"], first["media"][0]["sha256"],
        "{opinion:#}"
    );
    assert!(
        by["model"].is_string() && by["took_s"].is_number(),
        "{opinion:#}"
    );
    assert!(
        by["cost_usd"].as_f64().is_some_and(|usd| usd > 0.0),
        "{opinion:#}"
    );
    assert_eq!(opinion["assessment"]["note"], "a man at the kerb");
    let evidence = opinion["evidence"].as_array().cloned().unwrap_or_default();
    assert!(
        evidence
            .iter()
            .any(|link| link["source"] == "second_opinion")
    );
    assert!(heard().is_empty(), "{:?}", heard());

    let listed = reviews(&bench, &[])?;
    let listed = String::from_utf8(listed.stdout)?;
    assert!(
        listed.contains(&seq) && listed.contains("a man at the kerb"),
        "{listed}"
    );
    let file = bench.path("seen.jpg");
    let saved = reviews(&bench, &["picture", &seq, "-o", &file.to_string_lossy()])?;
    assert!(
        saved.status.success(),
        "{}",
        String::from_utf8_lossy(&saved.stderr)
    );
    assert_eq!(std::fs::read(&file)?.get(..2), Some(&[0xff, 0xd8][..]));

    let approved = reviews(
        &bench,
        &["approve", &seq, "--by", "Ada", "--note", "the postman"],
    )?;
    let text = String::from_utf8(approved.stdout)?;
    assert!(
        text.contains("approved: \"the postman\" by \"Ada\" (act)"),
        "{text}"
    );
    assert_eq!(waiting(&bench)?, 0);
    let told = wait_for("the siren", || heard().first().cloned())?;
    assert!(told.contains("approved+by+a+person"), "{told}");

    runtime.kill()?;
    let _runtime = bench.runtime()?;
    assert_eq!(waiting(&bench)?, 0);
    let again = reviews(&bench, &["approve", &seq, "--json"])?;
    let again: Value = serde_json::from_slice(&again.stdout)?;
    let all = records(&bench, &first)?;
    let phases: Vec<&str> = all.iter().filter_map(|r| r["phase"].as_str()).collect();
    assert_eq!(
        phases.iter().filter(|p| **p == "assessed").count(),
        2,
        "{phases:?}"
    );
    assert_eq!(
        again["seq"],
        all.last().map_or(Value::Null, |r| r["seq"].clone())
    );
    let some = reviews(&bench, &["approve", &seq, "999999", "999998"])?;
    assert!(!some.status.success());
    let answered = String::from_utf8(some.stdout)?;
    assert!(answered.contains(&format!("event {seq}: ")), "{answered}");
    let left = String::from_utf8(some.stderr)?;
    assert!(
        left.contains("999999") && left.contains("event 999998 has no answer either"),
        "{left}"
    );
    let verified = command(&bench)?.args(["events", "verify"]).output()?;
    assert!(verified.status.success());
    model.finish()
}

#[test]
fn reviews_are_answered_over_the_api_of_the_agent_and_over_mqtt() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let broker = Mosquitto::start(&bench.path("broker"))?;
    bench.configure(&format!("{}commands = \"all\"\n", broker.section()))?;
    let subscriber = broker.subscribe("watchkeeper/v1/test/bench/#")?;
    let _runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    let api = Api::on(&bench).wait_until_up()?;
    let begun = doubtful(&bench, &[json!({"name": "a"}), json!({"name": "b"})])?;
    let [first, second] = [0, 1].map(|n| begun[n]["seq"].clone());
    assert_eq!(api.json("GET", "/v1/reviews", None)?["waiting"], 2);
    let answer = json!({"answer": "correct", "label": "dog", "by": "Ada"});
    let path = format!("/v1/reviews/{first}");
    let record = api.json("POST", &path, Some(&answer))?;
    assert_eq!(record["assessment"]["by"]["via"], "api", "{record:#}");
    let refused = api.raw("POST", "/v1/reviews/99999", answer.to_string().into_bytes())?;
    assert_eq!(refused.0, 404, "{refused:?}");

    let command = json!({"event": second, "answer": "approve"});
    let topic = "watchkeeper/v1/test/bench/cmd/review/7";
    broker.publish(&format!("{topic}/req"), true, &command.to_string())?;
    let done = wait_for("the command", || {
        let told = subscriber.bodies("/cmd/review/7/st");
        told.into_iter().find(|st| st["status"] == "successful")
    })?;
    assert_eq!(done["result"]["verdict"], "act", "{done:#}");
    assert_eq!(waiting(&bench)?, 0);
    let told = wait_for("the record at the subscriber", || {
        let told = subscriber.bodies("/ev/count");
        told.into_iter()
            .find(|ev| ev["assessment"]["by"]["via"] == "mqtt")
    })?;
    assert_eq!(told["phase"], "assessed", "{told:#}");
    Ok(())
}

#[test]
fn link_of_a_notification_answers_its_review_once() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let desk = Hooks::start()?;
    let port = free_port()?;
    bench.configure(&format!(
        "[channels.desk]\nurl = {:?}\n\n[agent.api]\nlisten = \"127.0.0.1:{port}\"\n\
         token_file = \"token\"\npublic_url = \"http://127.0.0.1:{port}\"\n",
        desk.url("/desk")
    ))?;
    std::fs::write(bench.path("token"), "0123456789abcdef0123456789abcdef\n")?;
    let _runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    // A new channel starts at the end of the journal.
    let _api = Api::on(&bench).wait_until_up()?;
    doubtful(&bench, &[json!({"name": "somebody", "notify": ["desk"]})])?;
    let base = format!("http://127.0.0.1:{port}");
    let link = wait_for("the link", || {
        let texts: Vec<String> = desk.requests().iter().map(|r| r.text()).collect();
        let text = texts.concat().replace("%3A", ":").replace("%2F", "/");
        let (_, rest) = text.split_once(&format!("{base}/review/"))?;
        let token = rest
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'))
            .next()?;
        Some(format!("/review/{token}"))
    })?;
    let people = Api::over_tcp(port, None);
    // A messenger fetches it for a preview.
    for _ in 0..2 {
        let (status, page) = people.page("GET", &link, "")?;
        assert_eq!(status, 200, "{page}");
        assert!(
            page.contains("It did not happen") && page.contains("/picture"),
            "{page}"
        );
    }
    assert_eq!(people.page("GET", &format!("{link}/picture"), "")?.0, 200);
    assert_eq!(waiting(&bench)?, 1);
    assert_eq!(
        people
            .page("POST", &format!("{link}0"), "answer=approve")?
            .0,
        404
    );
    assert_eq!(people.page("POST", &link, "answer=perhaps")?.0, 400);
    assert_eq!(people.page("POST", &link, "answer=reject")?.0, 200);
    assert_eq!(waiting(&bench)?, 0);
    let (status, page) = people.page("POST", &link, "answer=approve")?;
    assert!(
        status == 409 && page.contains("answered already"),
        "{status} {page}"
    );
    let answers: Vec<Value> = bench.events()?;
    let answers = answers
        .iter()
        .filter(|record| record["phase"] == "assessed");
    let given: Vec<&Value> = answers.map(|record| &record["assessment"]).collect();
    assert_eq!(given.len(), 1, "{given:?}");
    assert_eq!(
        (&given[0]["by"]["via"], &given[0]["answer"]),
        (&json!("link"), &json!("reject"))
    );
    Ok(())
}

#[test]
fn answers_calibrate_a_rule_and_narrow_it_after_a_yes() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let _runtime = bench.runtime()?;
    deploy_fast(&bench)?;
    let began = wait_up_to(LONG, "events to answer", || {
        let mut events = bench.events().ok()?;
        events.retain(|event| event["phase"] == "new" && event["body"]["bbox"].is_array());
        (events.len() >= ANSWERS).then_some(events)
    })?;
    let few = reviews(&bench, &["narrow", "watch"])?;
    assert!(String::from_utf8(few.stdout)?.contains("0 answers are too few"));
    // The user wants no events of the left half of the street.
    for event in &began[..ANSWERS] {
        let bbox: Vec<f64> = serde_json::from_value(event["body"]["bbox"].clone())?;
        let answer = if bbox[0] + bbox[2] < 1.0 {
            "reject"
        } else {
            "approve"
        };
        let by = json!({"kind": "person", "via": "api"});
        let body = json!({"assessment": {"by": by, "answer": answer}});
        let path = format!("/v1/events/{}/assessments", event["seq"]);
        bench.json("POST", &path, Some(&body))?;
    }
    let answers = bench.get("/v1/pipelines/watch/answers")?;
    let of_rule = &answers["rules"][0];
    assert_eq!(of_rule["answers"].as_array().map(Vec::len), Some(ANSWERS));
    assert!(of_rule["calibration"]["slope"].is_number(), "{answers:#}");
    let calibration = reviews(&bench, &["calibration", "watch"])?;
    let calibration = String::from_utf8(calibration.stdout)?;
    assert!(
        calibration.contains("somebody: ") && calibration.contains(" becomes "),
        "{calibration}"
    );
    wait_up_to(LONG, "an event with both confidences", || {
        let events = bench.events().ok()?;
        events.iter().find_map(|event| {
            let is_new = event["phase"] == "new" && event["assessment"].is_null();
            (is_new && event["decision"]["raw_confidence"].is_number()).then_some(())
        })
    })?;

    let before = bench.get("/v1/pipelines/watch")?;
    let proposed = reviews(&bench, &["narrow", "watch"])?;
    let proposed = String::from_utf8(proposed.stdout)?;
    assert!(
        proposed.contains("somebody: checked on the newest: ")
            && proposed.contains("ignores what stands in"),
        "{proposed}"
    );
    assert_eq!(bench.get("/v1/pipelines/watch")?["spec"], before["spec"]);
    let applied = reviews(&bench, &["narrow", "watch", "--apply"])?;
    assert!(
        applied.status.success(),
        "{}",
        String::from_utf8_lossy(&applied.stderr)
    );
    let narrowed = bench.get("/v1/pipelines/watch")?;
    let ignored = narrowed["spec"]["rules"][0]["ignore"]
        .as_array()
        .map(Vec::len);
    assert!(ignored.is_some_and(|areas| areas > 0), "{narrowed:#}");
    Ok(())
}

#[test]
fn chat_answers_reviews_and_refuses_wrong_numbers() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let _runtime = bench.runtime()?;
    let rules = [json!({"name": "a"}), json!({"name": "b"})];
    let begun = doubtful(&bench, &rules)?;
    assert_eq!(waiting(&bench)?, 2);
    let numbers: Vec<String> = begun.iter().map(|event| event["seq"].to_string()).collect();
    let lines = format!(
        "/reviews\n/reject {}\n/correct {} dog\n/approve 99999\n/approve\n",
        numbers[0], numbers[1]
    );
    let said: Vec<String> = chat(&bench, &lines)?.iter().map(Value::to_string).collect();
    let said = said.join("\n");
    for part in [
        format!("Event {}: rejected by a person (discard).", numbers[0]),
        format!("Event {}: corrected to dog by a person.", numbers[1]),
        "no event 99999".to_owned(),
        "needs the number of an event".to_owned(),
    ] {
        assert!(said.contains(&part), "{part:?} in {said}");
    }
    assert_eq!(waiting(&bench)?, 0);
    let none = reviews(&bench, &[])?;
    assert!(String::from_utf8(none.stdout)?.contains("No event waits for a review."));
    Ok(())
}
