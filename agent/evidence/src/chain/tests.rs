use proptest::prelude::*;
use watchkeeper_config::lookups::{FieldsLookup, TableLookup};
use watchkeeper_config::{LookupKind, LookupValue};
use watchkeeper_contract::assessment::ChainResult;
use watchkeeper_contract::event::{Reading, ReadingKind, Verdict};
use watchkeeper_contract::rule::StopAt;
use watchkeeper_contract::time::TimeQuality;

use super::*;

const NOW: Wall = Wall {
    unix_ms: 1_798_761_600_000,
    quality: TimeQuality::Synced,
};

fn lookups() -> BTreeMap<String, LookupConfig> {
    let table = |value| {
        LookupKind::Table(TableLookup {
            value,
            path: "members.csv".into(),
            table: None,
            key: "plate".to_owned(),
            columns: Vec::new(),
            is_fuzzy: false,
            is_alike: false,
        })
    };
    let fields = LookupKind::Fields(FieldsLookup {
        schema: serde_json::Map::new(),
        question: None,
    });
    [
        ("members", table(LookupValue::Read)),
        ("suppliers", table(LookupValue::Read)),
        ("registry", table(LookupValue::Read)),
        ("fleet", table(LookupValue::Field("plate".to_owned()))),
        ("plate", fields),
    ]
    .into_iter()
    .map(|(name, kind)| {
        let name = name.to_owned();
        let only_below = (name == "registry").then_some(0.75);
        let lookup = LookupConfig {
            name: name.clone(),
            kind,
            only_below,
        };
        (name, lookup)
    })
    .collect()
}

fn spec(chain: &[&str]) -> DecideSpec {
    DecideSpec {
        chain: chain.iter().map(|name| (*name).to_owned()).collect(),
        stop_at: StopAt::Record,
        code: None,
        text: None,
        weights: BTreeMap::new(),
    }
}

fn facts(readings: &[(ReadingKind, &str, f64)]) -> EventFacts {
    let readings = readings.iter().map(|(kind, value, score)| Reading {
        kind: *kind,
        value: (*value).to_owned(),
        score: Some(*score),
    });
    EventFacts {
        confidence: 0.9,
        readings: readings.collect(),
        ..EventFacts::default()
    }
}

fn chain_of(names: &[&str], facts: EventFacts) -> Chain {
    Chain::new(&spec(names), Gates::default(), &lookups(), facts)
}

fn result(answer: SourceAnswer) -> SourceResult {
    SourceResult {
        answer,
        at: NOW,
        took_ms: 5,
        cost_usd: None,
    }
}

fn answered(confidence: f64) -> SourceAnswer {
    SourceAnswer::Answered {
        confidence,
        note: "found".to_owned(),
        data: json!({"plate": "AB 123"}),
    }
}

/// Runs a chain; `find` answers for the sources that are asked.
fn run(chain: &mut Chain, find: impl Fn(&str) -> SourceAnswer) -> Final {
    loop {
        match chain.next(NOW) {
            Step::Done(done) => return done,
            Step::Ask { source } => {
                chain.begin();
                chain.answer(result(find(&source.name)));
            }
        }
    }
}

fn text(score: f64) -> EventFacts {
    facts(&[(ReadingKind::Text, "AB 123", score)])
}

#[test]
fn clear_text_is_recorded_and_unclear_text_asks_a_person() {
    let clear = run(&mut chain_of(&["text"], text(1.0)), |_| unreachable!());
    assert_eq!((clear.verdict, clear.confidence), (Verdict::Record, 0.85));
    let unclear = run(&mut chain_of(&["text"], text(0.1)), |_| unreachable!());
    assert_eq!(unclear.verdict, Verdict::Review, "{unclear:?}");
    assert_eq!(unclear.result, ChainResult::Person);
    assert!(unclear.confidence < 0.5, "{unclear:?}");
}

#[test]
fn fallback_is_asked_only_when_confidence_is_low() {
    let names = ["members", "suppliers"];
    for (confidence, asked) in [(0.95, 1), (0.6, 2)] {
        let mut chain = chain_of(&names, facts(&[(ReadingKind::Code, "7", 1.0)]));
        run(&mut chain, |_| answered(confidence));
        assert_eq!(chain.asked().len(), asked, "{confidence}");
    }
}

#[test]
fn all_sources_together_give_the_weighted_mean() {
    let mut chain = chain_of(&["members", "suppliers", "text", "model"], text(0.0));
    let done = run(&mut chain, |name| match name {
        "members" => answered(0.8),
        "suppliers" => answered(0.65),
        _ => answered(0.9),
    });
    let weights: Vec<f64> = chain.links().iter().map(|link| link.weight).collect();
    assert_eq!(weights, [0.45, 0.25, 0.20, 0.20]);
    let mean = (0.45 * 0.8 + 0.25 * 0.65 + 0.20 * 0.40 + 0.20 * 0.9) / 1.10;
    assert!((done.confidence - mean).abs() < 1e-4, "{done:?}");
    assert_eq!(done.verdict, Verdict::Review);
}

#[test]
fn high_confidence_is_committed_and_middling_is_reviewed() {
    for (confidence, verdict) in [
        (0.95, Verdict::Act),
        (0.90, Verdict::Act),
        (0.89, Verdict::Record),
        (0.85, Verdict::Record),
        (0.84, Verdict::Review),
        (0.70, Verdict::Review),
        (0.69, Verdict::Escalate),
        (0.50, Verdict::Escalate),
        (0.49, Verdict::Review),
    ] {
        let done = run(&mut chain_of(&["members"], text(1.0)), |_| {
            answered(confidence)
        });
        assert_eq!(done.verdict, verdict, "{confidence}");
        let is_decided = done.result == ChainResult::Decided;
        assert_eq!(is_decided, confidence >= 0.85, "{confidence}");
    }
}

#[test]
fn tool_failure_falls_through_and_stays_in_the_record() {
    let mut chain = chain_of(&["members", "suppliers"], text(1.0));
    let done = run(&mut chain, |name| match name {
        "members" => SourceAnswer::failed("it answered 503"),
        _ => answered(0.95),
    });
    let links = chain.links();
    assert!(
        links[0].failed && links[0].note == "it answered 503",
        "{links:?}"
    );
    assert_eq!((links[0].confidence, links[0].weight), (0.0, 0.45));
    // The failure counts: the supplement alone does not make the event certain.
    assert_eq!(done.verdict, Verdict::Review, "{done:?}");
    assert!(done.confidence < 0.5, "{done:?}");
}

#[test]
fn all_sources_failing_is_unknown_and_a_person_decides() {
    let mut chain = chain_of(&["members", "suppliers", "model"], text(1.0));
    let done = run(&mut chain, |_| SourceAnswer::failed("no network"));
    assert_eq!(done.result, ChainResult::Unknown);
    assert_eq!((done.verdict, done.confidence), (Verdict::Review, 0.0));
}

#[test]
fn reading_that_a_table_does_not_know_decides_nothing() {
    let mut chain = chain_of(&["text", "members"], text(1.0));
    let done = run(&mut chain, |_| SourceAnswer::no_answer("no row"));
    assert_eq!(done.result, ChainResult::Unknown, "{done:?}");
    assert!(
        done.reason.contains("no source that can decide"),
        "{done:?}"
    );
}

#[test]
fn code_that_no_table_knows_decides_nothing_in_any_order() {
    let readings = || {
        facts(&[
            (ReadingKind::Code, "7", 1.0),
            (ReadingKind::Text, "AB 123", 1.0),
        ])
    };
    for names in [
        &["code", "members", "suppliers", "text", "model", "person"][..],
        &["members", "suppliers", "text", "code", "model"],
        &["members", "code"],
        &["code", "members"],
        &["code", "gone"],
        &["text", "fleet", "person"],
        &["plate", "members"],
    ] {
        let mut chain = chain_of(names, readings());
        let done = run(&mut chain, |name| match name {
            "model" => SourceAnswer::no_answer("it abstains"),
            "plate" => answered(0.85),
            _ => SourceAnswer::no_answer("no row"),
        });
        assert_eq!(done.result, ChainResult::Unknown, "{names:?}: {done:?}");
        assert_eq!(done.verdict, Verdict::Review, "{names:?}");
    }
}

#[test]
fn reading_after_a_table_that_knows_it_supports_the_table() {
    let code = || facts(&[(ReadingKind::Code, "7", 1.0)]);
    for names in [["members", "code", "person"], ["code", "members", "person"]] {
        let done = run(&mut chain_of(&names, code()), |_| answered(0.8));
        assert_eq!(done.verdict, Verdict::Record, "{names:?}: {done:?}");
    }
}

#[test]
fn reading_lifts_no_row_of_another_key() {
    let code = || facts(&[(ReadingKind::Code, "7", 0.95)]);
    for names in [["members", "code", "person"], ["code", "members", "person"]] {
        let done = run(&mut chain_of(&names, code()), |_| SourceAnswer::Answered {
            confidence: 0.79,
            note: "near row".to_owned(),
            data: json!({"value": "7", "key": "8", "match": "near"}),
        });
        assert_eq!(done.verdict, Verdict::Review, "{names:?}: {done:?}");
        assert!((done.confidence - 0.79).abs() < 1e-9, "{done:?}");
    }
    let names = ["code", "members", "model", "person"];
    let done = run(&mut chain_of(&names, code()), |name| match name {
        "model" => answered(0.8),
        _ => SourceAnswer::Answered {
            confidence: 0.79,
            note: "near row".to_owned(),
            data: json!({"value": "7", "key": "8", "match": "near"}),
        },
    });
    assert_eq!(done.verdict, Verdict::Review, "beside a model: {done:?}");
}

#[test]
fn two_codes_at_once_are_no_guess() {
    let codes = facts(&[(ReadingKind::Code, "1", 1.0), (ReadingKind::Code, "2", 1.0)]);
    let done = run(&mut chain_of(&["code"], codes), |_| unreachable!());
    assert_eq!(done.result, ChainResult::Unknown, "{done:?}");
}

#[test]
fn source_is_asked_only_below_the_confidence_that_it_names() {
    // What was only read does not count, however certain.
    for (confidence, expected) in [
        (0.74, &["text", "members", "registry"][..]),
        (0.75, &["text", "members"]),
    ] {
        let mut chain = chain_of(&["text", "members", "registry", "person"], text(1.0));
        let done = run(&mut chain, |_| answered(confidence));
        assert_eq!(chain.asked(), expected, "{confidence}: {done:?}");
        assert_eq!(done.result, ChainResult::Person);
    }
}

#[test]
fn model_alone_makes_no_event_certain() {
    let done = run(&mut chain_of(&["model"], text(1.0)), |_| answered(0.99));
    assert_eq!(done.verdict, Verdict::Record);
}

#[test]
fn text_that_addresses_the_model_leaves_the_event_to_a_person() {
    let mut chain = chain_of(&["model", "members"], text(1.0));
    let note = "a text speaks to the model".to_owned();
    let done = run(&mut chain, |_| SourceAnswer::Suspect { note: note.clone() });
    assert_eq!(done.result, ChainResult::Unknown);
    assert_eq!(chain.asked(), ["model"]);
}

#[test]
fn fields_become_the_value_of_the_next_look_up() {
    let mut chain = chain_of(&["plate", "fleet"], facts(&[]));
    let Step::Ask { source } = chain.next(NOW) else {
        panic!("{chain:?}");
    };
    assert_eq!(
        (source.kind, source.can_decide),
        (SourceKind::Fields, false)
    );
    chain.begin();
    chain.answer(result(answered(0.8)));
    let value = LookupValue::Field("plate".to_owned());
    assert_eq!(chain.value(&value).as_deref(), Ok("AB 123"));
}

#[test]
fn paid_source_is_not_asked_again_after_a_restart() {
    let mut chain = chain_of(&["model", "members"], text(1.0));
    assert!(matches!(chain.next(NOW), Step::Ask { .. }));
    chain.begin();
    let stored = serde_json::to_string(&chain).unwrap();
    let mut again: Chain = serde_json::from_str(&stored).unwrap();
    again.resume(NOW);
    let Step::Ask { source } = again.next(NOW) else {
        panic!("{again:?}");
    };
    assert_eq!(source.name, "members");
    assert!(again.links()[0].failed);
}

fn answer() -> impl Strategy<Value = SourceAnswer> {
    prop_oneof![
        (-0.5..1.5_f64).prop_map(answered),
        Just(answered(f64::NAN)),
        Just(SourceAnswer::no_answer("nothing")),
        Just(SourceAnswer::failed("no network")),
        Just(SourceAnswer::Suspect {
            note: "speaks".to_owned()
        }),
    ]
}

const NAMES: [&str; 10] = [
    "box",
    "code",
    "text",
    "members",
    "suppliers",
    "registry",
    "plate",
    "fleet",
    "model",
    "gone",
];

proptest! {
    #[test]
    fn every_order_ends_in_one_final_state(
        order in Just(NAMES.to_vec()).prop_shuffle(),
        length in 1_usize..=10, has_person: bool,
        answers in proptest::collection::vec(answer(), 12),
        restarts in proptest::collection::vec(any::<bool>(), 40),
        give_up_at in proptest::option::of(0_usize..12),
        codes in 0_usize..3, score in proptest::option::of((0_u8..=4).prop_map(|n| f64::from(n) / 4.0)),
    ) {
        let mut names = order[..length].to_vec();
        if has_person {
            names.push("person");
        }
        let mut readings: Vec<Reading> = (0..codes).map(|n| Reading {
            kind: ReadingKind::Code, value: n.to_string(), score: None,
        }).collect();
        readings.push(Reading { kind: ReadingKind::Text, value: "AB".to_owned(), score });
        let facts = EventFacts { confidence: 0.8, readings, ..EventFacts::default() };
        let mut chain = chain_of(&names, facts);
        let mut restarts = restarts.into_iter();
        let (mut asked, mut turns) = (Vec::new(), 0);
        let done = loop {
            turns += 1;
            prop_assert!(turns < 100, "does not end: {:?}", chain);
            let stored = serde_json::to_string(&chain).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Chain>(&stored).unwrap(), &chain);
            match chain.next(NOW) {
                Step::Done(done) => break done,
                Step::Ask { source } => {
                    chain.begin();
                    if restarts.next() == Some(true) {
                        chain.resume(NOW);
                        if source.kind.is_paid() {
                            asked.push(source.name);
                        }
                        continue;
                    }
                    prop_assert!(!(source.kind.is_paid() && asked.contains(&source.name)));
                    chain.answer(result(answers[asked.len()].clone()));
                    asked.push(source.name);
                    if give_up_at == Some(asked.len()) {
                        chain.give_up("too late");
                    }
                }
            }
        };
        prop_assert_eq!(&chain.next(NOW), &Step::Done(done.clone()), "the final state changes");
        prop_assert!((0.0..=1.0).contains(&done.confidence));
        let is_certain = matches!(done.verdict, Verdict::Act | Verdict::Record);
        prop_assert_eq!(is_certain, done.result == ChainResult::Decided);
        prop_assert_ne!(done.verdict, Verdict::Discard);
        let links = chain.links();
        let has_answer = links.iter().any(|link| !link.failed && link.weight > 0.0);
        prop_assert!(has_answer || done.result == ChainResult::Unknown);
        prop_assert!(links.iter().all(|link| (0.0..=1.0).contains(&link.confidence)));
        prop_assert!(links.iter().all(|link| !link.failed || link.confidence == 0.0));
        prop_assert_eq!(links.len(), chain.asked().len());
    }
}
