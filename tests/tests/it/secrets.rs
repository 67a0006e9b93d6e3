//! No secret of the configuration leaves the box but to its own service.
//!
//! - Every secret contains [`MARK`], and every service refuses, so that errors are reported.
//! - Ways out: logs, files of state and home, MQTT, routes of both daemons, commands.

use std::fs;
use std::path::Path;

use anyhow::ensure;
use serde_json::Value;
use watchkeeper_tests::agent_api::Api;
use watchkeeper_tests::broker::Mosquitto;
use watchkeeper_tests::daemons::{Bench, wait_up_to};
use watchkeeper_tests::hooks::{Answer, Hooks};
use watchkeeper_tests::person::command;
use watchkeeper_tests::scene::LONG;

/// Part of every secret.
const MARK: &str = "hush41aZ";

/// Folder of the files with secrets.
const FILES: &str = "secret-files";

/// A box all of whose services refuse.
fn configure(bench: &Bench, broker: &Mosquitto, hooks: &Hooks) -> anyhow::Result<()> {
    let folder = bench.path(FILES);
    fs::create_dir(&folder)?;
    for (name, secret) in [
        ("mqtt", format!("{MARK}-mqtt")),
        ("channel", hooks.url(&format!("/{MARK}-channel"))),
        ("token", format!("{MARK}-{}", "0".repeat(32))),
        ("s3", format!("{MARK}-s3")),
        ("lookup", format!("Bearer {MARK}-lookup")),
        ("sink", format!("{MARK}-sink")),
    ] {
        fs::write(folder.join(name), secret)?;
    }
    let file = |name: &str| folder.join(name);
    let host = hooks.address();
    bench.configure(&format!(
        "[sources.street]\nuri = \"demo:?seconds=600\"\npace = \"native\"\n\
         [sources.gate]\nuri = \"rtsp://viewer:{MARK}-camera@127.0.0.1:9/live?key={MARK}-query\"\n\
         [sources.web]\nuri = \"http://viewer:{MARK}-web@{host}/stream?token={MARK}-web\"\n\
         [pipelines.gate]\nsource = \"gate\"\nmodel = \"motion\"\nworkflow = {WORKFLOW}\n\
         [pipelines.web]\nsource = \"web\"\nmodel = \"motion\"\nworkflow = {WORKFLOW}\n\
         [pipelines.street]\nsource = \"street\"\nmodel = \"motion\"\nworkflow = {WORKFLOW}\n\
         {}username = \"box\"\npassword_file = {:?}\n\
         [channels.desk]\nurl_file = {:?}\nmin_severity = \"info\"\n\
         [channels.slack]\nkind = \"slack\"\nurl = {:?}\nmin_severity = \"info\"\n\
         [agent.api]\nlisten = \"127.0.0.1:{}\"\ntoken_file = {:?}\n\
         [agent.archive]\ns3_endpoints = [\"http://{host}\"]\n\
         s3_bucket = \"b\"\ns3_prefix = \"p/\"\n\
         s3_access_key = \"id\"\ns3_secret_key_file = {:?}\n\
         [agent.lookups.plates]\nkind = \"http\"\n\
         url = \"http://{host}/{{value}}?key={MARK}-url\"\n\
         answer = \"/status\"\nprivate = true\ntries = 1\n\
         headers = {{ authorization_file = {:?} }}\n\
         [llm]\nprovider = \"local\"\nbase_url = \"http://{host}\"\n\
         key = \"{MARK}-llm\"\nmodel = \"m\"\n\
         [sinks]\nhosts = [\"{host}\"]\nsecrets.FILE = {{ file = {:?} }}\n\
         secrets.TEXT = {{ value = \"{MARK}-text\" }}\n",
        broker.section(),
        file("mqtt"),
        file("channel"),
        hooks.url(&format!("/{MARK}-slack")),
        watchkeeper_tests::broker::free_port()?,
        file("token"),
        file("s3"),
        file("lookup"),
        file("sink"),
    ))
}

/// A workflow as a table.
const WORKFLOW: &str = concat!(
    r#"{ version = "1.0", inputs = [{ type = "WorkflowImage", name = "image" }], steps = ["#,
    r#"{ type = "roboflow_core/roboflow_object_detection_model@v2", name = "model", "#,
    r#"images = "$inputs.image", model_id = "motion" }, "#,
    r#"{ type = "roboflow_core/byte_tracker@v3", name = "tracker", image = "$inputs.image", "#,
    r#"detections = "$steps.model.predictions" }], outputs = [{ type = "JsonField", "#,
    r#"name = "seen", selector = "$steps.tracker.tracked_detections" }] }"#,
);

/// Checks every file below `path` but the configuration and those with the secrets.
fn check_files(path: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if path.ends_with(FILES) || path.ends_with("watchkeeper.toml") {
            continue;
        }
        if path.is_dir() {
            check_files(&path)?;
        } else if path.is_file() {
            let bytes = fs::read(&path)?;
            let text = String::from_utf8_lossy(&bytes);
            let line = text.lines().find(|line| line.contains(MARK));
            ensure!(line.is_none(), "{}: {line:?}", path.display());
        }
    }
    Ok(())
}

/// Routes of a description that are read without a name, and return at once.
fn routes(description: &Value) -> Vec<String> {
    let paths = description["paths"].as_object().into_iter().flatten();
    let read = paths.filter(|(path, methods)| {
        methods["get"].is_object() && !path.contains('{') && !path.contains("stream")
    });
    read.map(|(path, _)| path.clone()).collect()
}

/// Commands that print what the box holds, or send it to a service.
const COMMANDS: [&str; 23] = [
    "status",
    "doctor",
    "config check",
    "config show",
    "sources",
    "sources show gate",
    "pipelines",
    "pipelines show web",
    "events",
    "reviews",
    "coverage",
    "frame save gate -o frame.jpg",
    "frame save web -o frame.jpg",
    "lookup plates X1",
    "archive ingest mem::text --as notes",
    "archive stats",
    "ask --think what does the sign say",
    "ask what happened today",
    "memory",
    "trace",
    "audit",
    "run rtsp://viewer:hush41aZ@127.0.0.1:9/live?key=hush41aZ --for 1",
    "sources add back tcp://viewer:hush41aZ@127.0.0.1:9/live?token=hush41aZ",
];

fn check_commands(bench: &Bench) -> anyhow::Result<()> {
    for words in COMMANDS {
        for json in [&[][..], &["--json"]] {
            let mut command = command(bench)?;
            command.current_dir(bench.path("")).args(json);
            let out = command.args(words.split(' ')).output()?;
            let text = [out.stdout, out.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            // These hold nothing yet.
            let may_be_empty = ["memory", "audit"].contains(&words);
            ensure!(!text.is_empty() || may_be_empty, "{words} prints nothing");
            ensure!(!text.contains(MARK), "{words}: {text}");
        }
    }
    Ok(())
}

fn check_routes(bench: &Bench, api: &Api) -> anyhow::Result<()> {
    for path in routes(&bench.get("/v1/openapi.json")?) {
        let text = bench.get(&path).map(|body| body.to_string());
        let text = text.unwrap_or_else(|error| error.to_string());
        ensure!(!text.contains(MARK), "{path}: {text}");
    }
    for path in routes(&api.json("GET", "/v1/openapi.json", None)?) {
        let (_, text) = api.page("GET", &path, "")?;
        ensure!(!text.contains(MARK), "{path}: {text}");
    }
    Ok(())
}

#[test]
fn no_secret_leaves_the_box_but_to_its_service() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let broker = Mosquitto::start(&bench.path("broker"))?;
    let subscriber = broker.subscribe("#")?;
    let hooks = Hooks::start()?;
    hooks.script((0..2000).map(|_| Answer::Status(403, "no".to_owned())));
    configure(&bench, &broker, &hooks)?;
    let _runtime = bench.runtime_with(&[("RUST_LOG", "debug".into())])?;
    let _agent = bench.agent()?;
    let api = Api::on(&bench).wait_until_up()?;
    let is_sent = |part: &str| {
        let secret = format!("{MARK}-{part}");
        let requests = hooks.requests();
        requests
            .iter()
            .any(|request| format!("{request:?}").contains(&secret))
    };
    wait_up_to(LONG, "an event at both channels", || {
        (is_sent("channel") && is_sent("slack")).then_some(())
    })?;
    check_commands(&bench)?;
    check_routes(&bench, &api)?;
    let messages = subscriber.messages();
    let is_outage = |(topic, _): &(String, _)| topic.contains("source_outage");
    ensure!(messages.iter().any(is_outage), "no outage over MQTT");
    for (topic, message) in &messages {
        let message = format!("{message:?}");
        ensure!(!message.contains(MARK), "{topic}: {message}");
    }
    check_files(&bench.path(""))?;
    // The services did get their secrets.
    for part in ["channel", "slack", "lookup", "llm", "url", "web"] {
        ensure!(is_sent(part), "{part}");
    }
    Ok(())
}
