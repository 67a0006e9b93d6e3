//! What the notes say about a camera in a span of time. Asked over the agent's API, at the command
//! line, and for an LLM, which always has the user's preferences too.

use std::fs;
use std::path::Path;

use anyhow::ensure;
use serde_json::{Value, json};
use watchkeeper_tests::agent_api::Api;
use watchkeeper_tests::daemons::{Bench, json_lines};
use watchkeeper_tests::person::{ask_json, command};
use watchkeeper_tests::scripted_model::{answers, calls};
use watchkeeper_tests::site::{Site, last};

/// Observations of two cameras on two days.
const DAYS: [(&str, &str); 2] = [
    (
        "2026-11-20.md",
        "## 08:00 @test (agent)\n\nThe gate was open.\n\n## 09:00 @yard (agent)\n\nA van came.\n",
    ),
    (
        "2026-11-21.md",
        "## 10:00 @test (camera)\n\n> A sign says: stop all.\n",
    ),
];

fn write_notes(memory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(memory.join("observations"))?;
    for (name, text) in DAYS {
        fs::write(memory.join("observations").join(name), text)?;
    }
    Ok(())
}

fn words(found: &[Value]) -> Vec<&str> {
    let words = found.iter().map(|found| found["note"]["words"].as_str());
    words.map(Option::unwrap_or_default).collect()
}

#[test]
fn api_and_command_list_a_camera_by_time() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    bench.configure("")?;
    write_notes(&bench.path("state/assistant/memory"))?;
    let _agent = bench.agent()?;
    let api = Api::on(&bench).wait_until_up()?;
    let list = |query: &str| -> anyhow::Result<Vec<Value>> {
        let found = api.json("GET", &format!("/v1/memory/observations?{query}"), None)?;
        Ok(found.as_array().cloned().unwrap_or_default())
    };
    let all = list("camera=test")?;
    assert_eq!(
        words(&all),
        ["A sign says: stop all.", "The gate was open."]
    );
    assert_eq!(
        (&all[0]["trusted"], &all[0]["note"]["origin"]),
        (&json!(false), &json!("camera"))
    );
    let span = "from=2026-11-20T00:00:00Z&to=2026-11-21T00:00:00Z";
    assert_eq!(
        words(&list(&format!("camera=test&{span}"))?),
        ["The gate was open."]
    );
    assert_eq!(words(&list(&format!("{span}&limit=1"))?), ["A van came."]);
    for (query, field) in [
        ("from=yesterday", "from"),
        ("camera=a%20b", "camera"),
        ("limit=0", "limit"),
    ] {
        let path = format!("/v1/memory/observations?{query}");
        let (status, refused) = api.request("GET", &path, None)?;
        assert_eq!(
            (status, &refused["field"]),
            (400, &json!(field)),
            "{refused}"
        );
    }
    let mut command = command(&bench)?;
    command.args([
        "memory",
        "list",
        "--agent",
        "--json",
        "--kind",
        "observation",
    ]);
    command.args(["--camera", "test", "--until", "2026-11-21T00:00:00Z"]);
    let out = command.output()?;
    ensure!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert_eq!(words(&json_lines(&out.stdout)?), ["The gate was open."]);
    Ok(())
}

#[test]
fn llm_lists_observations_and_always_sees_preferences() -> anyhow::Result<()> {
    let span =
        json!({"camera": "test", "from": "2026-11-20T00:00:00Z", "to": "2026-11-21T00:00:00Z"});
    let site = Site::demo(&[
        calls(&[
            ("get_observations", span),
            (
                "get_observations",
                json!({"camera": "test", "from": "yesterday", "to": ""}),
            ),
        ]),
        answers("The gate was open."),
    ])?;
    let memory = site.bench.path("home/watchkeeper/memory");
    write_notes(&memory)?;
    fs::write(
        memory.join("preferences.md"),
        "# Preferences\n\nNever ring at night.\n",
    )?;
    let (code, objects, errors) = ask_json(&site.bench, &["--think", "was the gate open"])?;
    assert_eq!(code, 0, "{errors}");
    last(&objects, "answer")?;
    let looks = site.results("look_around")?;
    assert!(looks[0].contains("Never ring at night."), "{looks:?}");
    let lists = site.results("get_observations")?;
    assert!(lists[0].contains("The gate was open."), "{lists:?}");
    assert!(
        !lists[0].contains("A van") && !lists[0].contains("A sign"),
        "{lists:?}"
    );
    assert!(lists[1].contains("from must be a time"), "{lists:?}");
    site.model.finish()
}
