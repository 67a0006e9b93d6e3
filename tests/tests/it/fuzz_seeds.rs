//! Runs every seed of the fuzz targets, and some hundreds of mutations of each, through the bodies
//! that libFuzzer runs.
//!
//! Mutations come from a fixed generator: a failure is the same everywhere, and prints the input so
//! that it can become a seed. `tests/tools/fuzz` searches beyond them.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use watchkeeper_engine::workflow;
use watchkeeper_memory::neural::tokens::Tokenizer;
use watchkeeper_models::Manifest;
use watchkeeper_runtime::fuzzing;
use watchkeeper_tests::fuzz::mutate::{folder, mutate, seeds};
use watchkeeper_tests::fuzz::{self, TARGETS};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Mutations of one seed, without and with `WATCHKEEPER_SOAK`.
const MUTATIONS: [usize; 2] = [200, 20_000];

/// Runs the target; on a failure prints the input.
fn holds(target: &str, seed: &str, input: &[u8]) {
    let ran = catch_unwind(AssertUnwindSafe(|| fuzz::run(target, input)));
    assert!(
        ran.is_ok(),
        "fuzz target {target} fails on a descendant of {seed}: b\"{}\"",
        input.escape_ascii()
    );
}

fn replay(target: &str) -> Outcome {
    let seeds = seeds(target)?;
    assert!(!seeds.is_empty(), "{target} has no seeds");
    holds(target, "nothing", b"");
    let mut rng = fastrand::Rng::with_seed(1);
    let soak = std::env::var_os("WATCHKEEPER_SOAK").is_some();
    for (name, seed) in &seeds {
        holds(target, name, seed);
        for _ in 0..MUTATIONS[usize::from(soak)] {
            let mut input = seed.clone();
            for _ in 0..rng.usize(1..=4) {
                mutate(&mut input, &seeds, &mut rng);
            }
            holds(target, name, &input);
        }
    }
    Ok(())
}

macro_rules! replay {
    ($($test:ident: $target:literal,)+) => {
        $(
            #[test]
            fn $test() -> Outcome {
                replay($target)
            }
        )+

        const REPLAYED: &[&str] = &[$($target),+];
    };
}

replay! {
    addresses_never_show_a_password: "address",
    assessments_are_accepted_or_refused_with_reasons: "assessment",
    blueprints_stay_below_the_ceiling_of_their_job: "blueprint",
    bundles_have_one_form: "bundle",
    configurations_are_valid_or_refused_with_reasons: "config",
    documents_of_the_contract_do_not_drift: "contract",
    network_outputs_become_valid_boxes_or_an_error: "decoders",
    found_cameras_are_bounded_and_without_credentials: "discovery",
    downloads_are_installed_only_with_the_right_bytes: "download",
    effects_are_refused_unless_configured: "effect",
    sources_of_a_chain_answer_within_bounds: "evidence",
    detection_histories_are_read_up_to_the_damage: "history",
    journal_records_survive_and_damage_is_detected: "journal",
    manifests_keep_their_promises_or_are_refused: "manifest",
    llm_answers_are_read_whole_or_refused: "model",
    mqtt_requests_are_parsed_or_refused: "mqtt",
    outbox_entries_survive_or_are_refused: "outbox",
    pipelines_make_only_valid_events: "pipeline",
    requests_are_read_whole_or_refused: "plain",
    job_requests_are_read_whole_or_refused: "planner",
    tokenizers_give_valid_tokens_or_an_error: "sentences",
    accepted_lines_and_zones_make_a_workflow: "shapes",
    store_records_survive_and_damage_is_detected: "store",
    agent_messages_are_bounded_or_refused: "talk",
    tflite_files_become_onnx_or_are_refused_by_name: "tflite",
    queries_are_pure_and_bounded: "uql",
    workflows_run_exactly_when_they_are_valid: "workflow",
}

#[test]
fn every_fuzz_target_has_a_replay_and_a_binary() -> Outcome {
    let names: BTreeSet<String> = TARGETS.iter().map(|t| t.name.to_owned()).collect();
    assert_eq!(names.len(), TARGETS.len(), "two share a name");
    assert_eq!(names, REPLAYED.iter().map(|t| (*t).to_owned()).collect());
    let listed = |part: &str| -> Result<BTreeSet<String>, std::io::Error> {
        fs::read_dir(folder().join(part))?
            .map(|entry| {
                Ok(entry?
                    .path()
                    .file_stem()
                    .unwrap_or_default()
                    .display()
                    .to_string())
            })
            .collect()
    };
    assert_eq!(names, listed("seeds")?);
    assert_eq!(names, listed("fuzz_targets")?);
    let manifest: toml::Table = fs::read_to_string(folder().join("Cargo.toml"))?.parse()?;
    let binaries = manifest["bin"].as_array().into_iter().flatten();
    let binaries = binaries.filter_map(|bin| Some(bin.get("name")?.as_str()?.to_owned()));
    assert_eq!(names, binaries.collect());
    Ok(())
}

/// Checks whether a parser accepts a seed.
type Parser = fn(&[u8]) -> Result<(), String>;

/// A seed that the parser refuses at once tests nothing else.
#[test]
fn seeds_not_named_wrong_are_accepted_by_their_parser() -> Outcome {
    let taken: [(&str, Parser); 7] = [
        ("workflow", |seed| {
            let report = workflow::validate(&serde_json::from_slice(seed).map_err(text)?);
            report
                .errors
                .first()
                .map_or(Ok(()), |e| Err(text(&e.message)))
        }),
        ("pipeline", |seed| {
            let spec = serde_json::from_slice(seed).map_err(text)?;
            watchkeeper_runtime::pipeline::plan::plan(&spec)
                .map(drop)
                .map_err(text)
        }),
        ("assessment", |seed| {
            let new = fuzzing::assessment_body(seed).map_err(|p| p.detail)?;
            fuzzing::check_assessment(&new)
        }),
        ("history", |seed| {
            let chunk = fuzzing::history_chunk(seed).map_or(0, |(_, frames)| frames.len());
            let found = chunk + fuzzing::history_pictures(seed).len();
            if found > 0 {
                Ok(())
            } else {
                Err("it is empty".to_owned())
            }
        }),
        ("manifest", |seed| {
            let manifest = std::str::from_utf8(seed).map_err(text)?;
            Manifest::parse(Path::new("seed"), manifest)
                .map(drop)
                .map_err(text)
        }),
        ("tflite", |seed| {
            watchkeeper_models::tflite::to_onnx(seed)
                .map(drop)
                .map_err(text)
        }),
        ("sentences", |seed| {
            let file = seed.split(|b| *b == 0).next().unwrap_or_default();
            Tokenizer::read(file).map(drop).map_err(text)
        }),
    ];
    for (target, takes) in taken {
        for (name, seed) in seeds(target)? {
            if name.ends_with(".txt") || name.contains("wrong") {
                continue;
            }
            takes(&seed).map_err(|why| format!("{name}: {why}"))?;
        }
    }
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
