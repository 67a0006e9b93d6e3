//! An archive that adds each operation to the trajectory of a session.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use watchkeeper_archive::{EntryName, Verb};

use super::operation::{verb_name, verb_parameters};
use super::trajectory::{SessionTrajectory, StepOutcome};
use crate::archive_access::{ArchiveAccess, RetrievedContent};
use crate::wording::counted;

/// Tier of the disk, and that of references: reading one is a miss of the fast tiers.
const SLOW_TIERS: [&str; 2] = ["durable", "runtime"];

/// The trajectory of a session, shared with its tools.
pub type SharedTrajectory = Arc<Mutex<SessionTrajectory>>;

/// The archive of a session.
#[derive(Debug)]
pub struct RecordedArchive {
    archive: Arc<dyn ArchiveAccess>,
    trajectory: SharedTrajectory,
}

impl RecordedArchive {
    /// Wraps the archive of a session, if there is one.
    pub fn new(
        archive: Option<Arc<dyn ArchiveAccess>>,
        trajectory: &SharedTrajectory,
    ) -> Option<Arc<Self>> {
        let trajectory = Arc::clone(trajectory);
        archive.map(|archive| {
            Arc::new(Self {
                archive,
                trajectory,
            })
        })
    }

    fn record(&self, tool: &'static str, params: &Value, outcome: StepOutcome, result: &str) {
        let mut steps = self.trajectory.lock();
        steps.add(
            Timestamp::now().as_millisecond(),
            tool,
            params,
            outcome,
            result,
        );
    }
}

impl ArchiveAccess for RecordedArchive {
    fn run(&self, verb: Verb) -> BoxFuture<'_, Result<Value, String>> {
        async move {
            let (name, params) = (verb_name(&verb), verb_parameters(&verb));
            let answer = self.archive.run(verb).await;
            match &answer {
                Ok(answer) => {
                    let sentence = describe_answer(name, answer);
                    self.record(name, &params, StepOutcome::Done, &sentence);
                }
                Err(why) => self.record(name, &params, StepOutcome::Failed, why),
            }
            answer
        }
        .boxed()
    }

    fn retrieve(
        &self,
        name: EntryName,
        skip_cache: bool,
    ) -> BoxFuture<'_, Result<RetrievedContent, String>> {
        async move {
            let params = json!({"name": name, "skip_cache": skip_cache});
            let found = self.archive.retrieve(name.clone(), skip_cache).await;
            match &found {
                Ok(found) => {
                    let outcome = match SLOW_TIERS.contains(&found.tier.as_str()) {
                        true => StepOutcome::Miss,
                        false => StepOutcome::Hit,
                    };
                    let sentence = describe_retrieved(&name, found, outcome);
                    self.record("retrieve", &params, outcome, &sentence);
                }
                Err(why) => self.record("retrieve", &params, StepOutcome::Failed, why),
            }
            found
        }
        .boxed()
    }
}

fn describe_retrieved(name: &EntryName, found: &RetrievedContent, outcome: StepOutcome) -> String {
    let what = match outcome {
        StepOutcome::Hit => "hit",
        _ => "cache miss, now cached",
    };
    format!(
        "Retrieved {name} from {} ({what}): {}, {} bytes",
        found.tier, found.content_type, found.bytes
    )
}

/// One sentence about the answer to a verb.
fn describe_answer(name: &str, answer: &Value) -> String {
    let number = |key: &str| answer[key].as_u64().unwrap_or_default();
    let count = |key: &str| answer[key].as_array().map_or(0, Vec::len) as u64;
    let names = |most: usize| -> String {
        let entries = answer["entries"].as_array().into_iter().flatten();
        let names: Vec<&str> = entries
            .filter_map(|e| e["name"].as_str())
            .take(most)
            .collect();
        names.join(", ")
    };
    match name {
        "ingest" => match count("entries") {
            1 => format!("Ingested {}", names(1)),
            many => format!("Ingested {}: {}", counted(many, "entry"), names(5)),
        },
        "query" | "find" => {
            let matched = number("matched");
            match matched {
                0 => "No such entries".to_owned(),
                _ => format!("{matched} match: {}", names(10)),
            }
        }
        "list" => match answer["collections"].as_object() {
            Some(all) if !all.is_empty() => {
                let all = all.iter().map(|(name, count)| format!("{name} ({count})"));
                format!("Collections: {}", all.collect::<Vec<_>>().join(", "))
            }
            _ => "The archive is empty".to_owned(),
        },
        "stat" => format!(
            "{} is there",
            answer["entry"]["name"].as_str().unwrap_or("it")
        ),
        "prune" => {
            let copies = answer["removed"].as_object().into_iter().flatten();
            let copies: u64 = copies.filter_map(|(_, count)| count.as_u64()).sum();
            let copies = counted(copies, "copy");
            format!("Pruned {copies} from the fast tiers. The entries stay on disk")
        }
        "destroy" => format!("Destroyed {} for good", counted(number("entries"), "entry")),
        "stats" => format!(
            "{}, {} on disk",
            counted(number("entries"), "entry"),
            counted(number("bytes"), "byte")
        ),
        _ => format!("Done: {}", counted(number("entries"), "change")),
    }
}
