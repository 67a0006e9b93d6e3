//! Chains of sources at an agent process: look-ups that fail, a table, a model, kill -9.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use watchkeeper_contract::event::{Event, EventBody, Reading, ReadingKind};
use watchkeeper_contract::rule::{DecideSpec, StopAt};
use watchkeeper_scripted_model::{Fault, Server, Step};

use crate::opinions::{opinion_step, picture, uncertain_event};
use crate::support::agent::AgentProcess;
use crate::support::broker::{WAIT_TIMEOUT, until};
use crate::support::fake_runtime::FakeRuntime;
use crate::support::model::{KEY, model};

/// A look-up service: answers with these statuses and bodies in turn, the last one for ever.
struct LookupService {
    port: u16,
    paths: Arc<Mutex<Vec<String>>>,
    answers: Arc<Mutex<VecDeque<(u16, &'static str)>>>,
}

impl LookupService {
    fn start(answers: &[(u16, &'static str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let service = Self {
            port: listener.local_addr().expect("its address").port(),
            paths: Arc::default(),
            answers: Arc::new(Mutex::new(answers.iter().copied().collect())),
        };
        let (paths, answers) = (Arc::clone(&service.paths), Arc::clone(&service.answers));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut reader = BufReader::new(stream.try_clone().expect("a clone"));
                let mut first = String::new();
                reader.read_line(&mut first).expect("a request");
                let mut line = String::from("x");
                while !line.trim().is_empty() {
                    line.clear();
                    reader.read_line(&mut line).expect("a header");
                }
                paths.lock().expect("paths").push(first);
                let (status, body) = {
                    let mut answers = answers.lock().expect("answers");
                    let next = answers.front().copied().expect("an answer");
                    if answers.len() > 1 {
                        answers.pop_front();
                    }
                    next
                };
                let length = body.len();
                let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n");
                write!(stream, "{head}connection: close\r\n\r\n{body}").ok();
            }
        });
        service
    }

    fn count(&self) -> usize {
        self.paths.lock().expect("paths").len()
    }

    fn section(&self) -> String {
        format!(
            "[agent.lookups.registry]\nkind = \"http\"\nprivate = true\nanswer = \"/status\"\n\
             url = \"http://127.0.0.1:{}/plates/{{value}}\"\nanswer_type = \"choice\"\n\
             choices = [\"active\", \"stolen\"]\nexpect = [\"active\"]\ntries = 1\n\n",
            self.port
        )
    }
}

const MEMBERS: &str = "[agent.lookups.members]\nkind = \"table\"\npath = \"members.csv\"\n\
                       key = \"plate\"\nmatch = \"fuzzy\"\n\n";

/// An agent process with a table of members, and a runtime that has a picture.
struct Fixture {
    agent: AgentProcess,
    runtime: FakeRuntime,
    folder: tempfile::TempDir,
}

impl Fixture {
    async fn start(sections: &str) -> Self {
        let folder = tempfile::tempdir().expect("dir");
        let table = folder.path().join("members.csv");
        std::fs::write(table, "plate,owner\nAB 123 CD,Ada\nXY 999 ZW,Grace\n").expect("a table");
        let runtime = FakeRuntime::start(folder.path());
        runtime.keeps_picture(picture());
        // Nothing listens at the broker's port: chains need none.
        let agent = AgentProcess::start_with(folder.path(), &runtime, 1, sections);
        Self {
            agent,
            runtime,
            folder,
        }
    }

    /// Waits for the assessment of the only event.
    async fn assessment(&self) -> Value {
        until("no assessment", async || {
            !self.runtime.assessments().is_empty()
        })
        .await;
        let assessments = self.runtime.assessments();
        let [(_, new)] = assessments.as_slice() else {
            panic!("{assessments:?}");
        };
        new.clone()
    }

    /// Appends an event with this chain and reading, and waits for its assessment.
    async fn decide(&self, chain: &[&str], reading: Option<(ReadingKind, &str)>) -> Value {
        self.runtime.append(event(chain, reading));
        self.assessment().await
    }
}

fn event(chain: &[&str], reading: Option<(ReadingKind, &str)>) -> Event {
    let mut event = uncertain_event(false);
    if let EventBody::Rule(rule) = &mut event.body {
        rule.readings = reading
            .map(|(kind, value)| Reading {
                kind,
                value: value.to_owned(),
                score: Some(1.0),
            })
            .into_iter()
            .collect();
        rule.decide = Some(Box::new(DecideSpec {
            chain: chain.iter().map(|name| (*name).to_owned()).collect(),
            stop_at: StopAt::Record,
            code: None,
            text: None,
            weights: [].into(),
        }));
    }
    event
}

fn llm_section(model: &Server) -> String {
    format!(
        "[llm]\nprovider = \"claude\"\nbase_url = {:?}\nkey = {KEY:?}\nsecond_opinion = true\n\n",
        model.base_url()
    )
}

const CODE: Option<(ReadingKind, &str)> = Some((ReadingKind::Code, "AB 123 CD"));
const TEXT: Option<(ReadingKind, &str)> = Some((ReadingKind::Text, "ab123cd"));

#[tokio::test(flavor = "multi_thread")]
async fn code_in_a_table_commits_the_event() {
    let fixture = Fixture::start(MEMBERS).await;
    let new = fixture
        .decide(&["code", "members", "model", "person"], CODE)
        .await;
    assert_eq!(new["decision"]["verdict"], "act", "{new:#}");
    assert_eq!(new["assessment"]["answer"], "approve", "{new:#}");
    assert_eq!(new["assessment"]["by"]["result"], "decided", "{new:#}");
    assert_eq!(
        new["assessment"]["by"]["asked"],
        json!(["code", "members"]),
        "{new:#}"
    );
    let link = &new["links"][1];
    assert_eq!(link["confidence"], 0.95, "{new:#}");
    assert_eq!(link["data"]["row"]["owner"], "Ada", "{new:#}");
    assert!(
        link["took_ms"].is_u64() && link["at"]["unix_ms"].is_i64(),
        "{new:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_service_falls_through_to_table_and_is_recorded() {
    let service = LookupService::start(&[(503, "")]);
    let fixture = Fixture::start(&format!("{}{MEMBERS}", service.section())).await;
    let new = fixture
        .decide(&["text", "registry", "members", "person"], TEXT)
        .await;
    assert_eq!(service.count(), 1);
    let failed = &new["links"][1];
    assert_eq!(
        (&failed["failed"], &failed["confidence"]),
        (&json!(true), &json!(0.0)),
        "{new:#}"
    );
    assert!(
        failed["note"]
            .as_str()
            .is_some_and(|note| note.contains("503")),
        "{new:#}"
    );
    assert_eq!(new["links"][2]["confidence"], 0.95, "{new:#}");
    // The failed primary source weighs more than the two that answered.
    assert_eq!(new["assessment"]["by"]["result"], "person", "{new:#}");
    assert_eq!(new["decision"]["verdict"], "review", "{new:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn service_decides_by_its_typed_answer() {
    let service = LookupService::start(&[(200, "{\"status\":\"active\"}")]);
    let fixture = Fixture::start(&format!("{}{MEMBERS}", service.section())).await;
    let new = fixture
        .decide(&["text", "registry", "members", "person"], TEXT)
        .await;
    assert_eq!(new["decision"]["verdict"], "act", "{new:#}");
    assert_eq!(new["links"][1]["data"]["answer"], "active", "{new:#}");
    assert_eq!(
        new["assessment"]["by"]["asked"],
        json!(["text", "registry"]),
        "{new:#}"
    );
    let paths = service.paths.lock().expect("paths").clone();
    assert!(paths[0].starts_with("GET /plates/ab123cd "), "{paths:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_answers_is_unknown_and_a_person_decides() {
    let service = LookupService::start(&[(500, "")]);
    let fixture = Fixture::start(&format!("{}{MEMBERS}", service.section())).await;
    let chain = ["code", "registry", "members", "gone", "model"];
    let new = fixture
        .decide(&chain, Some((ReadingKind::Code, "QQ 1")))
        .await;
    assert_eq!(new["assessment"]["by"]["result"], "unknown", "{new:#}");
    assert_eq!(new["assessment"]["answer"], "none", "{new:#}");
    assert_eq!(new["decision"]["verdict"], "review", "{new:#}");
    let notes = new["links"].to_string();
    for cause in ["500", "has no row", "no look-up gone", "llm.second_opinion"] {
        assert!(notes.contains(cause), "{cause}: {new:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn model_is_asked_last_and_alone_only_records() {
    let model = model(vec![opinion_step("confirm", 0.98)]).await;
    let fixture = Fixture::start(&format!("{MEMBERS}{}", llm_section(&model))).await;
    let new = fixture.decide(&["members", "model"], None).await;
    assert_eq!(new["decision"]["verdict"], "record", "{new:#}");
    assert_eq!(new["links"][0]["weight"], 0.0, "no text was read: {new:#}");
    assert!(
        new["links"][1]["cost_usd"]
            .as_f64()
            .is_some_and(|usd| usd > 0.0),
        "{new:#}"
    );
    assert_eq!(
        model.requests().len(),
        1,
        "the second opinion is not asked besides"
    );
    assert_eq!(model.violations(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn result_refused_by_runtime_is_sent_again_after_restart() {
    let service = LookupService::start(&[(200, "{\"status\":\"active\"}")]);
    let mut fixture = Fixture::start(&service.section()).await;
    {
        // The service answers when this is released.
        let _held = service.answers.lock().expect("answers");
        fixture
            .runtime
            .append(event(&["text", "registry", "person"], TEXT));
        let end = Instant::now() + WAIT_TIMEOUT;
        while service.count() == 0 {
            assert!(Instant::now() < end, "no question");
            std::thread::sleep(Duration::from_millis(20));
        }
        // From now on the runtime answers 404 without naming a record.
        fixture.runtime.lose_journal();
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(fixture.runtime.assessments().len(), 0);
    fixture.runtime.append(uncertain_event(false));
    fixture.agent.crash_and_restart();
    let new = fixture.assessment().await;
    assert_eq!(new["decision"]["verdict"], "act", "{new:#}");
    assert_eq!(service.count(), 1, "the answer was stored");
}

const FIELDS: &str = "[agent.lookups.plate]\nkind = \"fields\"\n\
    schema = { type = \"object\", properties = { plate = { type = \"string\" }, \
    colour = { enum = [\"red\", \"blue\"] } } }\n\n\
    [agent.lookups.fleet]\nkind = \"table\"\npath = \"members.csv\"\nkey = \"plate\"\n\
    value = \"fields.plate\"\n\n";

fn fields_step(plate: Value) -> Step {
    let answer = json!({
        "plate": plate, "colour": null, "confidence": 0.9, "injection_suspected": false,
    });
    Step::text(&answer.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_that_a_model_reads_are_looked_up_in_a_table() {
    let model = model(vec![fields_step(json!("XY 999 ZW"))]).await;
    let fixture = Fixture::start(&format!("{FIELDS}{}", llm_section(&model))).await;
    let new = fixture.decide(&["plate", "fleet"], None).await;
    assert_eq!(
        new["links"][0]["data"],
        json!({"plate": "XY 999 ZW"}),
        "{new:#}"
    );
    assert_eq!(new["links"][1]["data"]["row"]["owner"], "Grace", "{new:#}");
    assert_eq!(new["assessment"]["by"]["result"], "decided", "{new:#}");
    assert_eq!(model.violations(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_fields_are_a_failure_that_a_person_decides() {
    let model = model(vec![fields_step(json!(7))]).await;
    let fixture = Fixture::start(&format!("{FIELDS}{}", llm_section(&model))).await;
    let new = fixture.decide(&["plate", "fleet"], None).await;
    assert_eq!(new["links"][0]["failed"], true, "{new:#}");
    assert_eq!(new["assessment"]["by"]["result"], "unknown", "{new:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn image_validation_failure_asks_no_model() {
    let model = model(vec![fields_step(json!("A"))]).await;
    let fixture = Fixture::start(&format!("{FIELDS}{}", llm_section(&model))).await;
    fixture
        .runtime
        .keeps_picture(b"GIF89a is no picture for a model".to_vec());
    let new = fixture.decide(&["plate", "model"], None).await;
    for place in 0..2 {
        let link = &new["links"][place];
        let note = link["note"].as_str().unwrap_or_default();
        assert!(note.contains("neither JPEG, PNG nor WebP"), "{new:#}");
        assert_eq!(link["failed"], true, "{new:#}");
        assert_eq!(link["confidence"], 0.0, "{new:#}");
    }
    assert_eq!(model.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_killed_during_a_call_pays_and_reports_once() {
    let model = model(vec![Fault::Stall.into(), opinion_step("confirm", 0.9)]).await;
    let sections = format!("{MEMBERS}{}", llm_section(&model));
    let mut fixture = Fixture::start(&sections).await;
    fixture
        .runtime
        .append(event(&["model", "members", "person"], CODE));
    until("no call", async || !model.requests().is_empty()).await;
    fixture.agent.crash_and_restart();
    let new = fixture.assessment().await;
    let note = new["links"][0]["note"].as_str().unwrap_or_default();
    assert!(
        note.contains("the agent ended before it answered"),
        "{new:#}"
    );
    assert_eq!(new["links"][1]["confidence"], 0.95, "{new:#}");
    // Another kill after the result changes nothing.
    fixture.agent.crash_and_restart();
    fixture.runtime.append(event(&["members", "person"], CODE));
    until("no assessment of the next event", async || {
        fixture.runtime.assessments().len() >= 2
    })
    .await;
    let assessments = fixture.runtime.assessments();
    assert_ne!(assessments[0].0, assessments[1].0, "{assessments:?}");
    assert_eq!(model.requests().len(), 1, "one paid call");
    assert!(fixture.agent.terminate().success());
    assert!(fixture.folder.path().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn random_kills_leave_one_result_and_one_paid_call() {
    const EVENTS: usize = 8;
    let model = model((0..EVENTS).map(|_| opinion_step("confirm", 0.9)).collect()).await;
    let service = LookupService::start(&[(200, "{\"status\":\"active\"}")]);
    let sections = format!("{}{MEMBERS}{}", service.section(), llm_section(&model));
    let mut fixture = Fixture::start(&sections).await;
    let mut random = fastrand::Rng::with_seed(57);
    let mut events = Vec::new();
    for _ in 0..EVENTS {
        let seq = fixture
            .runtime
            .append(event(&["model", "registry", "members", "person"], CODE));
        events.push(usize::try_from(seq.0).expect("small"));
        for _ in 0..random.usize(1..=3) {
            tokio::time::sleep(Duration::from_millis(random.u64(0..400))).await;
            fixture.agent.crash_and_restart();
        }
    }
    until("assessments are missing", async || {
        fixture.runtime.assessments().len() >= EVENTS
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut of: Vec<usize> = fixture
        .runtime
        .assessments()
        .iter()
        .map(|(seq, _)| *seq)
        .collect();
    of.sort_unstable();
    assert_eq!(of, events, "one for each event");
    let paid = model.requests().len();
    assert!(paid <= EVENTS, "{paid} paid calls for {EVENTS} events");
    for (_, new) in fixture.runtime.assessments() {
        let asked = new["assessment"]["by"]["asked"].as_array().map(Vec::len);
        let links = new["links"].as_array().map(Vec::len);
        assert_eq!(asked, links, "a link for each source: {new:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_killed_between_sources_asks_the_free_one_again() {
    let service = LookupService::start(&[(200, "{\"status\":\"active\"}")]);
    let mut fixture = Fixture::start(&format!("{}{MEMBERS}", service.section())).await;
    let mut events = Vec::new();
    for nth in 1..=3 {
        let seq = fixture
            .runtime
            .append(event(&["code", "registry", "members"], CODE));
        events.push(usize::try_from(seq.0).expect("small"));
        fixture.agent.crash();
        fixture.agent.restart();
        until("no assessment", async || {
            fixture.runtime.assessments().len() >= nth
        })
        .await;
    }
    let assessments = fixture.runtime.assessments();
    let of: Vec<usize> = assessments.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(of, events, "one for each event");
    assert!(
        assessments
            .iter()
            .all(|(_, new)| new["decision"]["verdict"] == "act")
    );
}
