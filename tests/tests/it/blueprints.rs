//! Blueprints at the real command and in the router: which blueprint works on a request, with which
//! tools, and what it can never do.

use std::io::Write as _;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, json_lines, wait_up_to};
use watchkeeper_tests::person::{ask_json, command, types};
use watchkeeper_tests::scene::LONG;
use watchkeeper_tests::scripted_model::{answers, calls, says};
use watchkeeper_tests::site::{DEMO, Site, last};

const DOCK: &str = "+++\njob = \"question\"\nwhen = \"About the dock.\"\ntools = [\"look_around\", \"query_events\"]\n\n[limits]\nsteps = 3\n+++\nAnswer in Polish.\n";

/// Runs `watchkeeper blueprints` with these arguments and this standard input; returns exit code,
/// objects, standard error.
fn blueprints(
    bench: &Bench,
    arguments: &[&str],
    input: &str,
) -> anyhow::Result<(i32, Vec<Value>, String)> {
    let mut child = command(bench)?
        .args(["blueprints", "--json"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // A command that reads nothing may have exited by then.
    let written = child
        .stdin
        .take()
        .context("no input")?
        .write_all(input.as_bytes());
    drop(written);
    let out = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    Ok((
        out.status.code().unwrap_or(-1),
        json_lines(&out.stdout)?,
        errors,
    ))
}

/// Makes steps in which the LLM can't reword the request and routes it to this job.
fn routed(job: &str) -> Value {
    says(&json!({"request": "", "left_out": [], "job": job}))
}

/// Returns the tools that the LLM was offered in its nth request.
fn tools(site: &Site, nth: usize) -> anyhow::Result<Vec<String>> {
    let requests = site.model.requests()?;
    let request = requests.get(nth).context("a request")?;
    let tools = request["body"]["tools"].as_array().context("tools")?;
    let names = tools.iter().filter_map(|tool| tool["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

#[test]
fn blueprints_are_managed_without_a_daemon() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let (code, all, errors) = blueprints(&bench, &[], "")?;
    assert_eq!(code, 0, "{errors}");
    let names: Vec<&str> = all.iter().filter_map(|b| b["blueprint"].as_str()).collect();
    let wanted =
        "coordinator identifier ingestor jobs notes organiser question retriever set-up triage";
    assert_eq!(names.join(" "), wanted);
    assert!(all.iter().all(|b| b["from"] == "built_in"));

    let (code, made, errors) = blueprints(&bench, &["create", "dock", "--from", "-"], DOCK)?;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(made[0]["tools"], json!(["look_around", "query_events"]));
    let (_, shown, _) = blueprints(&bench, &["show", "dock"], "")?;
    assert_eq!(shown[0]["text"], DOCK);

    // An error has field, value and remedy, and changes nothing.
    let wrong = DOCK
        .replace("query_events", "propose_deployment")
        .replace("steps = 3", "steps = 300");
    let (code, _, errors) = blueprints(&bench, &["update", "dock"], &wrong)?;
    assert_eq!(code, 2);
    for part in [
        "propose_deployment",
        "can't widen",
        "limits.steps = 300",
        "from 1 to 12",
    ] {
        assert!(errors.contains(part), "{part:?} in {errors}");
    }
    let (_, shown, _) = blueprints(&bench, &["show", "dock"], "")?;
    assert_eq!(shown[0]["text"], DOCK);

    let (code, ..) = blueprints(
        &bench,
        &["update", "dock"],
        &DOCK.replace("Polish", "Czech"),
    )?;
    assert_eq!(code, 0);
    let (code, ..) = blueprints(&bench, &["duplicate", "dock", "yard"], "")?;
    assert_eq!(code, 0);
    let (_, shown, _) = blueprints(&bench, &["show", "yard"], "")?;
    assert!(
        shown[0]["text"]
            .as_str()
            .is_some_and(|t| t.contains("Czech"))
    );
    let (code, gone, _) = blueprints(&bench, &["delete", "dock"], "")?;
    assert_eq!((code, &gone[0]["deleted"]), (0, &json!("dock")));
    let (code, _, errors) = blueprints(&bench, &["show", "yart"], "")?;
    assert_eq!(code, 2);
    assert!(errors.contains("did you mean yard?"), "{errors}");

    // A built-in blueprint stays; a file that replaces it can be deleted.
    let (code, _, errors) = blueprints(&bench, &["delete", "triage"], "")?;
    assert_eq!(code, 2);
    assert!(errors.contains("built in"), "{errors}");
    let (_, shown, _) = blueprints(&bench, &["show", "question"], "")?;
    let own = shown[0]["text"]
        .as_str()
        .unwrap_or_default()
        .replace("steps = 8", "steps = 2");
    let (code, _, errors) = blueprints(&bench, &["update", "question"], &own)?;
    assert_eq!(code, 0, "{errors}");
    let (_, gone, _) = blueprints(&bench, &["delete", "question"], "")?;
    assert_eq!(gone[0]["built_in_serves"], true);

    // The agent's blueprints are in another folder.
    let (code, _, errors) =
        blueprints(&bench, &["--agent", "create", "night", "--from", "-"], DOCK)?;
    assert_eq!(code, 0, "{errors}");
    let (_, all, _) = blueprints(&bench, &["list"], "")?;
    assert!(all.iter().all(|b| b["blueprint"] != "night"));
    Ok(())
}

#[test]
fn damaged_blueprint_is_reported_and_repaired_in_place() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    blueprints(&bench, &["create", "dock", "--from", "-"], DOCK)?;
    let file = bench.path("home/watchkeeper/blueprints/dock.md");
    let before = std::fs::read_to_string(&file)?;
    std::fs::write(&file, "+++\njob = \"question\"\nwen = \"x\"\n+++\n")?;
    let (code, all, errors) = blueprints(&bench, &["list"], "")?;
    assert_eq!(code, 0, "{errors}");
    let dock = all
        .iter()
        .find(|b| b["blueprint"] == "dock")
        .context("listed")?;
    assert_eq!(dock["from"], "damaged");
    assert!(dock["flaws"].to_string().contains("when"), "{dock}");
    let (code, _, errors) = blueprints(&bench, &["show", "dock"], "")?;
    assert_eq!(code, 2);
    assert!(
        errors.contains("dock.md") && errors.contains("did you mean when?"),
        "{errors}"
    );
    let (code, ..) = blueprints(&bench, &["update", "dock"], &before)?;
    assert_eq!(code, 0);
    Ok(())
}

#[test]
fn unknown_question_goes_to_llm_with_read_only_tools() -> anyhow::Result<()> {
    let steps = [
        routed("question"),
        // It calls tools that it was never offered.
        calls(&[
            (
                "query_events",
                json!({"camera": "test", "class": "", "hours": 1}),
            ),
            (
                "propose_control",
                json!({"pipeline": "cars", "action": "stop"}),
            ),
        ]),
        answers("Bisher war nichts los."),
    ];
    let site = Site::demo(&steps)?;
    let (code, objects, errors) = ask_json(&site.bench, &["Und, war denn da was los vorhin?"])?;
    assert_eq!(code, 0, "{errors} {objects:#?}");
    let text = last(&objects, "answer")?["text"].to_string();
    let (said, past) = text.split_once("By the journal: ").context(text.clone())?;
    assert!(said.contains("Bisher war nichts los."), "{said}");
    let known = "I could not have known: test, because nothing watched.";
    assert!(past.contains(known), "{past}");
    assert!(!types(&objects).contains(&"proposal"));
    let told = tools(&site, 1)?;
    assert!(told.iter().any(|tool| tool == "query_events"), "{told:?}");
    let acts = |tool: &String| tool.starts_with("propose") || tool == "memory_note";
    assert!(!told.iter().any(acts), "{told:?}");
    let by = site.traced("blueprint")?;
    assert_eq!(by.len(), 1);
    assert_eq!(by[0]["of"]["blueprint"], "question");
    assert_eq!(by[0]["of"]["chosen_by"], "model");
    let gate = site.traced("gate")?;
    let refused = gate.iter().find(|e| e["of"]["tool"] == "propose_control");
    assert_eq!(refused.context("traced")?["of"]["decision"], "refused");
    assert!(site.pipelines()?.is_empty());
    site.model.finish()
}

#[test]
fn named_blueprint_sets_instructions_and_limits() -> anyhow::Result<()> {
    let look = || {
        calls(&[(
            "query_events",
            json!({"camera": "", "class": "", "hours": 1}),
        )])
    };
    let steps = [look(), look(), answers("Nic.")];
    let site = Site::demo(&steps)?;
    let (code, _, errors) = blueprints(&site.bench, &["create", "dock", "--from", "-"], DOCK)?;
    assert_eq!(code, 0, "{errors}");
    // The rules would have understood this request.
    let (code, objects, errors) =
        ask_json(&site.bench, &["--blueprint", "dock", "list the cameras"])?;
    assert_eq!(code, 0, "{errors}");
    let text = last(&objects, "answer")?["text"].to_string();
    assert!(text.contains("Nic."), "{text}");
    assert_eq!(text.matches("By the journal:").count(), 1, "{text}");
    assert_eq!(tools(&site, 0)?, ["look_around", "query_events"]);
    let requests = site.model.requests()?;
    assert_eq!(requests.len(), 3);
    assert!(requests[0].to_string().contains("Answer in Polish."));
    let (code, _, errors) = ask_json(&site.bench, &["--blueprint", "dok", "list the cameras"])?;
    assert_eq!(code, 2);
    assert!(errors.contains("did you mean dock?"), "{errors}");
    let (code, _, errors) = ask_json(&site.bench, &["--blueprint", "triage", "list the cameras"])?;
    assert_eq!(code, 2);
    assert!(errors.contains("takes no requests"), "{errors}");
    site.model.finish()
}

#[test]
fn damaged_blueprint_falls_back_to_the_built_in_one() -> anyhow::Result<()> {
    let steps = [routed("question"), answers("Nothing yet.")];
    let site = Site::demo(&steps)?;
    let folder = site.bench.path("home/watchkeeper/blueprints");
    std::fs::create_dir_all(&folder)?;
    let text = "+++\njob = \"question\"\nwhen = \"x\"\n[limits]\nsteps = 99\n+++\n";
    std::fs::write(folder.join("question.md"), text)?;
    for n in 0..32 {
        let text = "+++\njob = \"question\"\nwhen = \"About the dock.\"\n+++\nAnswer in Polish.\n";
        std::fs::write(folder.join(format!("z{n:02}.md")), text)?;
    }
    let (code, objects, errors) = ask_json(&site.bench, &["Und, war denn da was los vorhin?"])?;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(last(&objects, "answer")?["text"], "Nothing yet.");
    let notes: Vec<&str> = objects
        .iter()
        .filter_map(|o| o["message"].as_str())
        .collect();
    assert!(
        notes.iter().any(|n| n.contains("the built-in one is used")),
        "{notes:?}"
    );
    ensure!(
        notes.iter().any(|n| n.starts_with("1 files are skipped")),
        "{notes:?}"
    );
    site.model.finish()
}

#[test]
fn request_not_understood_without_llm_is_reported() -> anyhow::Result<()> {
    let bench = Bench::new(&format!("[sources.test]\nuri = {DEMO:?}\n"))?;
    let _runtime = bench.runtime()?;
    let (code, _, errors) = ask_json(&bench, &["Could you whistle a tune for the swans?"])?;
    assert_eq!(code, 2);
    assert!(errors.contains("not understood"), "{errors}");
    let (code, _, errors) = ask_json(&bench, &["--blueprint", "question", "list the cameras"])?;
    assert_eq!(code, 2);
    assert!(errors.contains("[llm]"), "{errors}");
    Ok(())
}

#[test]
fn note_keeping_keeps_counts_of_the_box_and_no_llm_claims() -> anyhow::Result<()> {
    let whole_day =
        json!({"camera": "test", "class": "", "days": 1, "from_hour": 0, "to_hour": 24});
    let claimed = json!({"words": "The owner wants every alarm off.", "camera": "test"});
    let steps = [
        calls(&[("keep_pattern", whole_day), ("memory_note", claimed)]),
        answers("One pattern is kept."),
    ];
    let site = Site::demo(&steps)?;
    let tell = "tell me each time somebody crosses the vertical line at 50% on camera test";
    let (code, _, errors) = ask_json(&site.bench, &["--yes", tell])?;
    assert_eq!(code, 0, "{errors}");
    wait_up_to(LONG, "five events", || {
        let events = site.bench.events().ok()?;
        let new = events
            .iter()
            .filter(|e| e["phase"] == "new" && e["body"]["kind"] == "rule");
        (new.count() >= 5).then_some(())
    })?;
    let before = site.pipelines()?.len();
    let (code, objects, errors) =
        ask_json(&site.bench, &["--blueprint", "notes", "sum up the day"])?;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(last(&objects, "answer")?["text"], "One pattern is kept.");
    assert_eq!(site.pipelines()?.len(), before);
    let memory = site.bench.path("home/watchkeeper/memory");
    let knowledge = std::fs::read_to_string(memory.join("knowledge.md"))?;
    assert!(
        knowledge.contains("events on camera test fell between 0:00 and 24:00"),
        "{knowledge}"
    );
    assert!(!knowledge.contains("every alarm off"), "{knowledge}");
    site.model.finish()
}
