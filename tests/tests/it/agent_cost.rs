//! `docs/ref/agent-cost.md`: tokens of the agent's prompts, and the costs of a set-up, a rewording
//! and a verdict. The scripted LLM counts and caches like a provider. `UPDATE_DOCS=1` rewrites the
//! document.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_agent::heartbeat::CheckInput;
use watchkeeper_agent::{heartbeat, second_opinion};
use watchkeeper_assistant::blueprint::{
    Blueprint, BlueprintStore, Job, MAX_INSTRUCTIONS, built_in,
};
use watchkeeper_assistant::permissions::{Entrypoint, ToolPermissions};
use watchkeeper_assistant::setup_agent::job_spec::SetupSpec;
use watchkeeper_assistant::setup_agent::prompt::MAX_TOKENS;
use watchkeeper_assistant::{proposal, router, setup_agent};
use watchkeeper_client::RuntimeClient;
use watchkeeper_contract::event::Event;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_llm::catalogue::Catalogue;
use watchkeeper_llm::conversation::{Conversation, MediaType, Picture};
use watchkeeper_llm::estimate;
use watchkeeper_llm::usage::Usage;
use watchkeeper_tests::broker::Mosquitto;
use watchkeeper_tests::daemons::{Bench, Process, wait_up_to};
use watchkeeper_tests::ledger::usage;
use watchkeeper_tests::person::ask_json;
use watchkeeper_tests::scene::{LONG, deploy_rule, doubtful, never_sure};
use watchkeeper_tests::scripted_model::{ScriptedModel, answers, calls, says, thinks};
use watchkeeper_tests::site::{CROSSES, Site, middle, preview, propose, validate};

const HEAD: &str = "# What the agent costs

<!-- Measured; UPDATE_DOCS=1 cargo nextest run -p watchkeeper-tests agent_cost rewrites it. -->

A call of a language model is a prompt and an answer. The prompt begins with the instructions and
the tools of the job, which are the same bytes each time, so a provider's cache keeps them. The
ledger records what the provider reports (`GET /v1/cost`, `/cost` in the chat), and `[llm]` bounds
it ([configuration.md](configuration.md)). Second opinions may use half of each limit and heartbeats
a fifth; the rest is left to users ([language-models.md](../design/language-models.md)).
";

const PROMPTS: &str = "
## The prompts

Tokens of the instructions with all tools, as the agent estimates them before each call: above the
true number, with 2.7 bytes a token for Claude. Jobs that a blueprint describes are counted with the
longest instructions that a user may add; pictures and results of tools are not counted. None has
8,000.

| Prompt | Tokens |
|---|---:|
";

const COSTS: &str = "
## What is paid

Measured on the built-in scene with the scripted model of the tests, which speaks the provider's
protocol, counts tokens by bytes and pictures by their size, and keeps a cache by prefix. The prices
are those of the built-in list of models. A real model thinks before it answers, so its answers are
longer than these.

| What | Calls | Prompt, not cached | Written to the cache | Read from the cache | Answer | US$ |
|---|---:|---:|---:|---:|---:|---:|
";

const TAIL: &str = "
A watch is seven questions of the model: it plans and looks at the picture, writes the workflow,
sees it drawn, tries it, puts it up, and says so. A rewording is what comes first where the rules
did not understand a request, and mostly all that is needed. A verdict is the small model's, with
the event's picture.

Set-ups with a model that was played by hand are counted in
[tests/nl/README.md](../../tests/nl/README.md#scores).
";

/// Largest relative difference between a figure of the document and the measured one: texts of the
/// box hold clocks and counts.
const TOLERANCE: f64 = 0.1;
/// Difference that is always allowed, in tokens.
const TOKEN_SLACK: f64 = 20.0;

/// Makes a box that watches, and an event with the verdict `escalate`.
fn box_with_doubtful_event() -> anyhow::Result<(Bench, Process, Value)> {
    let bench = Bench::new("")?;
    let runtime = bench.runtime()?;
    let events = doubtful(
        &bench,
        &[json!({"name": "somebody", "severity": "warning"})],
    )?;
    let event = events.into_iter().next().context("an event")?;
    Ok((bench, runtime, event))
}

/// Builds the prompts of every job on this box before any tool call; the triage prompt is about
/// this event.
fn prompts(bench: &Bench, event: &Value) -> anyhow::Result<Vec<(&'static str, Conversation)>> {
    let wrong = |why: String| anyhow::anyhow!(why);
    let mut all = Vec::new();
    for (what, job) in [
        ("set-up", Job::SetUp),
        ("question", Job::Question),
        ("notes", Job::Notes),
    ] {
        let blueprint = Blueprint {
            instructions: "x".repeat(MAX_INSTRUCTIONS),
            ..built_in::blueprint(job).map_err(|flaws| anyhow::anyhow!("{flaws:?}"))?
        };
        let brief = SetupSpec::new(blueprint, ToolPermissions::unrestricted(Entrypoint::Chat));
        all.push((what, brief.conversation("x").map_err(wrong)?));
    }
    let runtime = RuntimeClient::new(bench.socket())?;
    let here = setup_agent::tool_context::system_snapshot(&runtime, None);
    let here = tokio::runtime::Runtime::new()?.block_on(here)?;
    let event: Event = serde_json::from_value(event.clone())?;
    let picture = Picture {
        media: MediaType::Jpeg,
        width: 1,
        height: 1,
        bytes: Vec::new().into(),
    };
    let own = Some("x".repeat(MAX_INSTRUCTIONS));
    all.push((
        "triage (second opinion)",
        second_opinion::prompt::build_conversation(&event, picture, own).map_err(wrong)?,
    ));
    let (built_in, _) = BlueprintStore::new(&bench.path("no blueprints")).list()?;
    let jobs = router::choices(&built_in);
    let scene = here.scene(&here.now);
    all.push((
        "rewording",
        proposal::reword::build_conversation("x", &scene, &jobs)?,
    ));
    let input = CheckInput {
        at: Wall {
            unix_ms: 0,
            quality: TimeQuality::Synced,
        },
        local: None,
        runtime: None,
        undelivered: 0,
        failing_channels: Vec::new(),
        budget: None,
        opinions_without_answer: 0,
        observations: Vec::new(),
    };
    all.push((
        "heartbeat",
        heartbeat::prompt::build_conversation(&[], &input).map_err(wrong)?,
    ));
    Ok(all)
}

/// Usage and cost of a job.
#[derive(Debug, Clone, Copy, Default)]
struct JobCost {
    calls: usize,
    usage: Usage,
    usd: f64,
}

impl JobCost {
    /// Sums up what the LLM charged for these requests, at the prices of the built-in list.
    fn for_requests(requests: &[Value]) -> anyhow::Result<Self> {
        let catalogue = Catalogue::built_in()?;
        let mut paid = Self::default();
        for request in requests {
            let charged = usage(&request["usage"]);
            let model = request["body"]["model"].as_str().context("a model")?;
            paid.calls += 1;
            paid.usage = paid.usage.plus(&charged);
            paid.usd += catalogue
                .model("claude", model)?
                .prices
                .cost(&charged)
                .dollars();
        }
        Ok(paid)
    }

    fn row(&self, what: &str) -> String {
        let Usage {
            input,
            cache_read,
            output,
            ..
        } = self.usage;
        let written = self.usage.prompt() - input - cache_read;
        format!(
            "| {what} | {} | {input} | {written} | {cache_read} | {output} | {:.5} |\n",
            self.calls, self.usd
        )
    }
}

/// Runs a set-up from request to proposal, as a capable LLM does it.
fn set_up() -> anyhow::Result<JobCost> {
    let plan = json!({"steps": [{"step": "look at the picture", "done": false}, {"step": "count at the middle", "done": false}]});
    let steps = [
        thinks("I look first.", &[("update_plan", plan)]),
        calls(&[("get_snapshot", json!({"camera": "test"}))]),
        validate(&middle()),
        preview("d1"),
        calls(&[(
            "dry_run_workflow",
            json!({"draft": "d1", "camera": "test", "rules": CROSSES, "seconds": 2}),
        )]),
        propose("d1"),
        answers(
            "I propose to count what crosses the middle of the picture; say yes and it begins.",
        ),
    ];
    let site = Site::demo(&steps)?;
    let (code, objects, errors) = ask_json(
        &site.bench,
        &["--think", "Count what crosses the middle of the frame"],
    )?;
    ensure!(code == 0, "{errors} {objects:#?}");
    let paid = JobCost::for_requests(&site.model.requests()?)?;
    site.model.finish()?;
    Ok(paid)
}

/// Runs a request in another language that an LLM rewords for the rules.
fn rewording() -> anyhow::Result<JobCost> {
    let says = says(
        &json!({"request": "Count people crossing the vertical line at 50% on camera test.", "left_out": []}),
    );
    let site = Site::demo(&[says])?;
    let (code, objects, errors) =
        ask_json(&site.bench, &["Zähle die Leute, die durch die Mitte gehen"])?;
    ensure!(code == 0, "{errors} {objects:#?}");
    JobCost::for_requests(&site.model.requests()?)
}

/// Asks for second opinions on events with pictures; returns the second one, as the first one of a
/// day pays for the cache.
fn verdict() -> anyhow::Result<JobCost> {
    let bench = Bench::new("")?;
    let broker = Mosquitto::start(&bench.path("broker"))?;
    let answer = says(&json!({
        "verdict": "refute", "confidence": 0.95, "text_seen": "", "injection_suspected": false,
        "seen": "A shadow that moves over the road; there is nobody at that place.",
    }));
    let model = ScriptedModel::start(&bench.path(""), &[answer.clone(), answer])?;
    bench.configure(&format!(
        "{}{}second_opinion = true\ncalls_per_hour = 10\n",
        broker.section(),
        model.section()
    ))?;
    let subscriber = broker.subscribe("watchkeeper/v1/test/bench/cam/street/#")?;
    let _runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    deploy_rule(&bench, json!({"gates": never_sure()}))?;
    // Events of one scene share an opinion, so two verdicts may be one request.
    wait_up_to(LONG, "two verdicts of two requests", || {
        let is_answered = |body: &Value| body["cost_usd"].as_f64().is_some_and(|usd| usd > 0.0);
        let bodies = subscriber.bodies("/opinion/");
        (bodies.iter().filter(|body| is_answered(body)).count() >= 2).then_some(())
    })?;
    let requests = model.requests()?;
    JobCost::for_requests(requests.get(1..2).context("two requests")?)
}

/// Returns the numbers of a line, and the line with a mark for each.
fn figures(line: &str) -> (Vec<f64>, String) {
    let mut words = Vec::new();
    let mut numbers = Vec::new();
    for word in line.split(' ') {
        match word.parse::<f64>() {
            Ok(number) => {
                numbers.push(number);
                words.push("#");
            }
            Err(_) => words.push(word),
        }
    }
    (numbers, words.join(" "))
}

/// Whether two documents differ only in figures that are near each other.
fn is_near(written: &str, measured: &str) -> bool {
    written.lines().count() == measured.lines().count()
        && written
            .lines()
            .zip(measured.lines())
            .all(|(written, measured)| {
                let ((old, text), (new, same)) = (figures(written), figures(measured));
                let near = |(old, new): (&f64, &f64)| {
                    let few = if *new >= 20.0 { TOKEN_SLACK } else { 0.0 };
                    (old - new).abs() <= TOLERANCE * new.abs() + few
                };
                text == same && old.len() == new.len() && old.iter().zip(&new).all(near)
            })
}

#[test]
fn prompt_with_tools_fits_every_listed_model() -> anyhow::Result<()> {
    let catalogue = Catalogue::built_in()?;
    let (bench, _runtime, event) = box_with_doubtful_event()?;
    for (what, talk) in prompts(&bench, &event)? {
        for (provider, id) in [
            ("claude", "claude-sonnet-5-5"),
            ("claude", "claude-haiku-5-5"),
            ("openai", "gpt-5.2"),
            ("gemini", "gemini-3-flash-preview"),
            ("local", "qwen3-vl:8b"),
        ] {
            let tokens = estimate::prompt(&talk, &catalogue.model(provider, id)?);
            ensure!(tokens < MAX_TOKENS, "{what} for {id}: {tokens}");
        }
    }
    Ok(())
}

#[test]
fn set_up_rewording_and_verdict_cost_as_documented() -> anyhow::Result<()> {
    let (set_up, rewording, verdict) = (set_up()?, rewording()?, verdict()?);
    // A set-up costs cents, and most of its prompts come from the cache. A verdict with a small
    // picture costs some hundredths of a cent, a rewording no more.
    ensure!(
        set_up.calls == 7 && (0.005..0.05).contains(&set_up.usd),
        "{set_up:?}"
    );
    let cached = set_up.usage.cache_read as f64 / set_up.usage.prompt() as f64;
    ensure!(
        cached > 0.6,
        "{cached:.2} of the prompts came from the cache: {set_up:?}"
    );
    ensure!(
        verdict.calls == 1 && (0.0001..0.001).contains(&verdict.usd),
        "{verdict:?}"
    );
    ensure!(
        rewording.calls == 1 && rewording.usd < verdict.usd.max(0.0005),
        "{rewording:?}"
    );
    let mut document = format!("{HEAD}{PROMPTS}");
    let model = Catalogue::built_in()?.model("claude", "claude-sonnet-5-5")?;
    let (bench, _runtime, event) = box_with_doubtful_event()?;
    for (what, talk) in prompts(&bench, &event)? {
        writeln!(document, "| {what} | {} |", estimate::prompt(&talk, &model))?;
    }
    document.push_str(COSTS);
    document.push_str(&set_up.row("a watch set up by a model, from the words to the proposal"));
    document.push_str(&rewording.row("a request put into other words"));
    document.push_str(&verdict.row("a verdict on an event (second opinion)"));
    document.push_str(TAIL);
    writeln!(std::io::stdout(), "{document}")?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ref/agent-cost.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &document)?;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    ensure!(
        is_near(&written, &document),
        "docs/ref/agent-cost.md is out of date; UPDATE_DOCS=1 cargo nextest run -p watchkeeper-tests agent_cost\n{document}"
    );
    Ok(())
}

#[test]
fn document_is_current_with_near_figures_and_equal_words() {
    let written = "| a watch | 7 | 8000 | 0.02900 |";
    assert!(is_near(written, "| a watch | 7 | 8020 | 0.02950 |"));
    assert!(!is_near(written, "| a watch | 9 | 8000 | 0.02900 |"));
    assert!(!is_near(written, "| a watch | 7 | 9500 | 0.02900 |"));
    assert!(!is_near(written, "| a watch | 7 | 8000 | 0.04000 |"));
    assert!(!is_near(written, "| a visit | 7 | 8000 | 0.02900 |"));
    assert!(!is_near("", written));
}
