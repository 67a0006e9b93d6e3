use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use watchkeeper_config::lookups::{AnswerKind, Extraction, FieldsLookup, TableLookup};
use watchkeeper_config::{LookupConfig, LookupKind, LookupValue};
use watchkeeper_contract::event::{Reading, ReadingKind};
use watchkeeper_contract::rule::{DecideSpec, Gates};
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::*;
use crate::chain::{Chain, SourceKind, Step};
use crate::lookup::Lookups;
use crate::source::SourceResult;
use crate::value::EventFacts;

const NOW: Wall = Wall {
    unix_ms: 1_798_761_600_000,
    quality: TimeQuality::Synced,
};

/// A service that gives these answers in turn, the last one for ever.
struct Service {
    port: u16,
    requests: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Service {
    async fn start(answers: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (requests, heads) = (Arc::new(AtomicUsize::new(0)), Arc::default());
        let (counted, seen) = (Arc::clone(&requests), Arc::clone(&heads));
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = vec![0; 8192];
                let size = stream.read(&mut head).await.unwrap();
                let text = String::from_utf8_lossy(&head[..size]).into_owned();
                Mutex::<Vec<String>>::lock(&seen).push(text);
                let nth = counted.fetch_add(1, Ordering::SeqCst);
                let answer = answers[nth.min(answers.len() - 1)];
                stream.write_all(answer.as_bytes()).await.ok();
            }
        });
        Self {
            port,
            requests,
            heads,
        }
    }

    fn count(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    fn config(&self) -> HttpLookup {
        HttpLookup {
            url: format!("http://127.0.0.1:{}/plates/{{value}}?k=1", self.port),
            ..offline()
        }
    }
}

fn offline() -> HttpLookup {
    HttpLookup {
        values: BTreeMap::from([("value".to_owned(), LookupValue::Read)]),
        url: String::new(),
        is_post: false,
        body: None,
        headers: BTreeMap::new(),
        answer: Extraction {
            pointer: "/status".to_owned(),
            kind: AnswerKind::Choice(vec!["active".to_owned(), "blocked".to_owned()]),
            expect: vec!["active".to_owned()],
        },
        confidence: 0.95,
        confidence_at: None,
        cache_for: Duration::from_secs(60),
        cache_entries: 10,
        per_minute: 60,
        tries: 3,
        timeout: Duration::from_secs(2),
        max_bytes: 1000,
        may_be_private: true,
        ca_file: None,
    }
}

/// The values of a template with `{value}` only.
fn of(value: &str) -> LookupValues {
    BTreeMap::from([("value".to_owned(), value.to_owned())])
}

fn source(config: HttpLookup) -> HttpSource {
    let source = HttpSource::new(config).unwrap();
    source.with_pauses([Duration::from_millis(1); 3])
}

const ACTIVE: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"status\":\"active\"}";
const BLOCKED: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"status\":\"blocked\"}";
const ODD: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"status\":\"odd\"}";
const BARE: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}";
const AWAY: &str = "HTTP/1.1 503 Away\r\nconnection: close\r\n\r\n";
const LIMITED: &str = "HTTP/1.1 429 Slow down\r\nretry-after: 0\r\nconnection: close\r\n\r\n";
const LATER: &str = "HTTP/1.1 429 Slow down\r\nretry-after: 11\r\nconnection: close\r\n\r\n";
const REFUSED: &str = "HTTP/1.1 401 No\r\nconnection: close\r\n\r\n";
const UNKNOWN: &str = "HTTP/1.1 404 None\r\nconnection: close\r\n\r\n";
const MOVED: &str = "HTTP/1.1 302 There\r\nlocation: http://u:pw@10.0.0.1/v2/plates/a?token=x\r\nconnection: close\r\n\r\n";

fn confidence(answer: &SourceAnswer) -> Option<f64> {
    match answer {
        SourceAnswer::Answered { confidence, .. } => Some(*confidence),
        _ => None,
    }
}

#[tokio::test]
async fn answer_is_typed_and_kept() {
    let service = Service::start(&[ACTIVE]).await;
    let source = source(service.config());
    let found = source.look_up(&of("ÄB 12/3?")).await;
    assert_eq!(confidence(&found), Some(0.95), "{found:?}");
    source.look_up(&of("ÄB 12/3?")).await;
    assert_eq!(service.count(), 1, "the second answer is that of the cache");
    let head = service.heads.lock()[0].clone();
    assert!(
        head.starts_with("GET /plates/%C3%84B%2012%2F3%3F?k=1 "),
        "{head}"
    );
}

#[tokio::test]
async fn answer_that_is_not_expected_speaks_against_the_event() {
    let service = Service::start(&[BLOCKED]).await;
    let found = source(service.config()).look_up(&of("A")).await;
    assert_eq!(confidence(&found), Some(0.05), "{found:?}");
}

#[test]
fn blank_text_is_no_answer_unless_it_is_expected() {
    let read = |body: &str, expect: &[&str]| {
        let answer = Extraction {
            pointer: "/owner".to_owned(),
            kind: AnswerKind::Text,
            expect: expect.iter().map(|text| (*text).to_owned()).collect(),
        };
        extract::extract(&answer, 0.95, None, body.as_bytes()).unwrap()
    };
    for blank in ["{\"owner\": \"\"}", "{\"owner\": \" \\t\"}"] {
        for expect in [&[][..], &["Ada"]] {
            let found = read(blank, expect);
            assert!(matches!(found, SourceAnswer::NoAnswer { .. }), "{found:?}");
        }
    }
    assert_eq!(confidence(&read("{\"owner\": \"\"}", &[""])), Some(0.95));
    assert_eq!(confidence(&read("{\"owner\": \"Ada\"}", &[])), Some(0.95));
}

#[tokio::test]
async fn failing_service_is_tried_three_times_then_skipped() {
    let service = Service::start(&[AWAY]).await;
    let found = source(service.config()).look_up(&of("A")).await;
    let SourceAnswer::Failed { cause } = &found else {
        panic!("{found:?}");
    };
    assert!(
        cause.contains("503") && cause.contains("3 tries"),
        "{cause}"
    );
    assert_eq!(service.count(), 3);
}

#[tokio::test]
async fn service_that_recovers_answers_and_failures_are_not_kept() {
    let service = Service::start(&[AWAY, LIMITED, ACTIVE]).await;
    let found = source(service.config()).look_up(&of("A")).await;
    assert_eq!(confidence(&found), Some(0.95), "{found:?}");
    assert_eq!(service.count(), 3);
}

#[tokio::test]
async fn refusal_redirect_and_wrong_form_fail_at_once() {
    for (answer, remedy) in [
        (&[REFUSED], "check headers"),
        (&[LATER], "asks to wait 11 s, longer than 10 s"),
        (
            &[MOVED],
            "to http://10.0.0.1/v2/plates/{value}; redirects are not followed: set url",
        ),
        (&[ODD], "/status"),
        (&[BARE], "/status"),
    ] {
        let service = Service::start(answer).await;
        let found = source(service.config()).look_up(&of("A")).await;
        assert!(
            matches!(&found, SourceAnswer::Failed { cause } if cause.contains(remedy)),
            "{answer:?}: {found:?}"
        );
        assert_eq!(service.count(), 1, "{answer:?}");
    }
}

#[tokio::test]
async fn unknown_value_is_no_answer() {
    let service = Service::start(&[UNKNOWN]).await;
    let found = source(service.config()).look_up(&of("A")).await;
    assert!(matches!(found, SourceAnswer::NoAnswer { .. }), "{found:?}");
}

#[tokio::test]
async fn rate_limit_is_a_failure_without_a_request() {
    let service = Service::start(&[ACTIVE]).await;
    let source = source(HttpLookup {
        per_minute: 2,
        ..service.config()
    });
    for name in ["A", "B"] {
        assert!(confidence(&source.look_up(&of(name)).await).is_some());
    }
    let found = source.look_up(&of("C")).await;
    assert!(format!("{found:?}").contains("per_minute = 2"), "{found:?}");
    assert_eq!(service.count(), 2);
}

#[tokio::test]
async fn private_address_is_refused_unless_configured() {
    let service = Service::start(&[ACTIVE]).await;
    for url in [
        "http://127.0.0.1:1/{value}",
        "http://[::1]/{value}",
        "http://localhost/{value}",
    ] {
        let refused = HttpSource::new(HttpLookup {
            url: url.to_owned(),
            may_be_private: false,
            ..service.config()
        });
        let why = refused.unwrap_err();
        assert!(why.contains("set private = true"), "{url}: {why}");
    }
    let name = "localhost".parse().unwrap();
    let resolved = reqwest::dns::Resolve::resolve(&PublicResolver(not_public), name).await;
    let why = resolved.err().unwrap().to_string();
    assert!(why.contains("set private = true"), "{why}");
}

#[tokio::test]
async fn long_answer_and_secret_file() {
    let service = Service::start(&[ACTIVE]).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    let mut config = HttpLookup {
        max_bytes: 4,
        cache_entries: 1,
        ..service.config()
    };
    let header = HeaderValue::File(file.clone());
    config.headers.insert("authorization".to_owned(), header);
    let source = source(config);
    let missing = format!("{:?}", source.look_up(&of("A")).await);
    assert!(missing.contains("token"), "{missing}");
    std::fs::write(&file, "Bearer hunter2\n").unwrap();
    let long = format!("{:?}", source.look_up(&of("A")).await);
    assert!(
        long.contains("more than max_bytes = 4") && !long.contains("hunter2"),
        "{long}"
    );
    assert!(service.heads.lock()[0].contains("authorization: Bearer hunter2"));
}

#[test]
fn value_never_changes_the_host() {
    for value in [
        "..",
        ".",
        " ",
        "@evil.example",
        "//evil",
        "a/../../b",
        "#",
        "%2e%2e",
    ] {
        if let Ok(url) = fill_url("https://good.example/{value}", |_| Some(value)) {
            assert_eq!(url.host_str(), Some("good.example"), "{value}");
            assert_eq!(url.path_segments().unwrap().count(), 1, "{value}: {url}");
        }
    }
    assert_eq!(
        fill_json("{\"v\": \"{value}\"}", |_| Some("a\"b\\")),
        r#"{"v": "a\"b\\"}"#
    );
}

#[test]
fn what_is_filled_in_is_not_read_as_a_template() {
    let read = |name: &str| match name {
        "code" => Some("{text}"),
        _ => Some("AB 123"),
    };
    let body = "{\"a\": \"{code}\", \"b\": \"{text}\"}";
    assert_eq!(fill_json(body, read), r#"{"a": "{text}", "b": "AB 123"}"#);
    let url = fill_url("https://good.example/{code}?t={text}", read).unwrap();
    assert_eq!(url.as_str(), "https://good.example/%7Btext%7D?t=AB%20123");
}

/// The chain `code → releases → cover → search` about a code that no table knows.
fn chain_with_search(lookups: &Lookups) -> Chain {
    let names = ["code", "releases", "cover", "search", "person"];
    let spec: DecideSpec = serde_json::from_value(json!({ "chain": names })).unwrap();
    let facts = EventFacts {
        readings: vec![Reading {
            kind: ReadingKind::Code,
            value: "5099902987613".to_owned(),
            score: None,
        }],
        ..EventFacts::default()
    };
    Chain::new(&spec, Gates::default(), lookups.configs(), facts)
}

/// Runs a chain; the model reads `fields` from the picture.
async fn run(lookups: &Lookups, fields: &serde_json::Value) -> Chain {
    let mut chain = chain_with_search(lookups);
    while let Step::Ask { source } = chain.next(NOW) {
        chain.begin();
        let answer = match source.kind {
            SourceKind::Fields => SourceAnswer::Answered {
                confidence: 0.8,
                note: "read".to_owned(),
                data: fields.clone(),
            },
            _ => lookups.get(&source.name).unwrap().ask(&chain).await,
        };
        chain.answer(SourceResult {
            answer,
            at: NOW,
            took_ms: 1,
            cost_usd: None,
        });
    }
    chain
}

#[tokio::test]
async fn chain_searches_by_two_fields_where_the_table_has_no_row() {
    let service = Service::start(&[ACTIVE]).await;
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("releases.csv");
    std::fs::write(&table, "code,label\n7,Harvest\n").unwrap();
    let field = |name: &str| {
        let value = LookupValue::Field(name.to_owned());
        (value.to_string(), value)
    };
    let search = HttpLookup {
        values: BTreeMap::from(["artist", "title"].map(field)),
        url: format!(
            "http://127.0.0.1:{}/find?q={{fields.artist}}+{{fields.title}}",
            service.port
        ),
        ..offline()
    };
    let kinds = [
        ("releases", LookupKind::Table(releases(table))),
        ("cover", LookupKind::Fields(cover())),
        ("search", LookupKind::Http(Box::new(search))),
    ];
    let lookups = Lookups::open(&kinds.map(|(name, kind)| LookupConfig {
        name: name.to_owned(),
        kind,
        only_below: None,
    }));
    let read = json!({"artist": "Pink Floyd", "title": null});
    let chain = run(&lookups, &read).await;
    let link = chain.links().pop().unwrap();
    assert_eq!((link.source.as_str(), link.confidence), ("search", 0.0));
    assert_eq!(link.note, "no value of fields.title");
    assert_eq!(service.count(), 0, "no request without a value");

    let read = json!({"artist": "Pink Floyd", "title": "Dark & Side"});
    let chain = run(&lookups, &read).await;
    assert_eq!(chain.asked(), ["code", "releases", "cover", "search"]);
    let head = service.heads.lock()[0].clone();
    assert!(
        head.starts_with("GET /find?q=Pink%20Floyd+Dark%20%26%20Side "),
        "{head}"
    );
    assert_eq!(chain.links().pop().unwrap().confidence, 0.95);
}

fn releases(path: std::path::PathBuf) -> TableLookup {
    TableLookup {
        value: LookupValue::Read,
        path,
        table: None,
        key: "code".to_owned(),
        columns: Vec::new(),
        is_fuzzy: false,
        is_alike: false,
    }
}

fn cover() -> FieldsLookup {
    let text = json!({"type": "string"});
    let schema = json!({"properties": {"artist": text, "title": text}});
    FieldsLookup {
        schema: schema.as_object().unwrap().clone(),
        question: None,
    }
}

/// Answers like [`ACTIVE`] and keeps its connections open.
fn start_keeping() -> u16 {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\n{\"status\":\"active\"}";
                while stream.read(&mut [0; 8192]).is_ok_and(|size| size > 0) {
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            });
        }
    });
    port
}

#[test]
fn loop_that_stands_still_delays_no_other() {
    let config = HttpLookup {
        url: format!("http://127.0.0.1:{}/{{value}}", start_keeping()),
        tries: 1,
        ..offline()
    };
    let source = HttpSource::new(config).unwrap();
    let new_loop = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let (first, second) = (new_loop(), new_loop());
    let answer = first.block_on(source.look_up(&of("A")));
    assert_eq!(confidence(&answer), Some(0.95), "{answer:?}");
    // Nothing drives the first loop from here on.
    let answer = second.block_on(source.look_up(&of("B")));
    assert_eq!(confidence(&answer), Some(0.95), "{answer:?}");
    drop(first);
}
