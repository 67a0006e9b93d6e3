//! An archive that adds each operation to the trajectory of a session.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use watchkeeper_archive::query::Matches;
use watchkeeper_archive::verb::Ingested;
use watchkeeper_archive::{Answer, Entry, EntryName, Verb};

use super::operation::{verb_name, verb_parameters};
use super::trajectory::{SessionTrajectory, StepOutcome};
use crate::archive_access::{ArchiveAccess, RetrievedContent};
use crate::wording::counted;

/// Tier of the disk, and that of references: reading one is a miss of the fast tiers.
const SLOW_TIERS: [&str; 2] = ["durable", "runtime"];

/// The trajectory of a session, shared with its tools.
pub type SharedTrajectory = Arc<Mutex<SessionTrajectory>>;

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
    fn run(&self, verb: Verb) -> BoxFuture<'_, Result<Answer, String>> {
        async move {
            let (name, params) = (verb_name(&verb), verb_parameters(&verb));
            let answer = self.archive.run(verb).await;
            match &answer {
                Ok(answer) => {
                    let sentence = describe_answer(answer);
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
                        _ if skip_cache => StepOutcome::Done,
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
        StepOutcome::Miss => "cache miss, now cached",
        _ => "cache skipped",
    };
    format!(
        "Retrieved {name} from {} ({what}): {}, {} bytes",
        found.tier, found.content_type, found.bytes
    )
}

/// Skipped files whose cause a sentence names.
const MAX_CAUSES: usize = 3;

/// One sentence about the answer to a verb.
fn describe_answer(answer: &Answer) -> String {
    match answer {
        Answer::Ingested(done) => describe_ingest(done),
        Answer::Matches(matches) => describe_matches(matches),
        Answer::Found(found) if found.query.limit.is_some() => describe_some(&found.matches),
        Answer::Found(found) => describe_matches(&found.matches),
        Answer::Collections { collections } if collections.is_empty() => {
            "The archive is empty".to_owned()
        }
        Answer::Collections { collections } => {
            let all = collections.iter();
            let all = all.map(|(name, count)| format!("{name} ({count})"));
            format!("Collections: {}", all.collect::<Vec<_>>().join(", "))
        }
        Answer::Entry { entry } => format!("{} is there", entry.name),
        Answer::Pruned(pruned) => {
            let copies = counted(pruned.removed.values().sum::<u64>(), "copy");
            format!("Pruned {copies} from the fast tiers. The entries stay on disk")
        }
        Answer::Destroyed(destroyed) => {
            format!("Destroyed {} for good", counted(destroyed.entries, "entry"))
        }
        Answer::Changed(changed) => format!("Done: {}", counted(changed.entries, "change")),
        Answer::Stats(stats) => format!(
            "{}, {} on disk",
            counted(stats.entries, "entry"),
            counted(stats.bytes, "byte")
        ),
    }
}

fn describe_ingest(done: &Ingested) -> String {
    let made = match done.entries.as_slice() {
        [] => "Ingested nothing".to_owned(),
        [one] => format!("Ingested {}", one.name),
        many => {
            let count = many.len() as u64;
            let shown = names(many, count, 5);
            format!("Ingested {}: {shown}", counted(count, "entry"))
        }
    };
    let skipped = match done.skipped.as_slice() {
        [] => return made,
        [_] => "1 file was skipped".to_owned(),
        many => format!("{} files were skipped", many.len()),
    };
    let causes = done.skipped.iter().take(MAX_CAUSES).cloned();
    format!(
        "{made}. {skipped}: {}",
        causes.collect::<Vec<_>>().join("; ")
    )
}

fn describe_matches(found: &Matches) -> String {
    match found.matched {
        0 => "No such entries".to_owned(),
        matched => format!("{matched} match: {}", names(&found.entries, matched, 10)),
    }
}

/// Describes as many matches as were asked for.
fn describe_some(found: &Matches) -> String {
    let count = found.entries.len() as u64;
    match count == found.matched {
        true => describe_matches(found),
        false => {
            let shown = names(&found.entries, count, 10);
            format!("{count} of {} that match: {shown}", found.matched)
        }
    }
}

/// The first names of `count` entries, and how many are left out.
fn names(entries: &[Entry], count: u64, most: usize) -> String {
    let names = entries.iter().take(most).map(|entry| entry.name.as_str());
    let names: Vec<&str> = names.collect();
    let shown = names.join(", ");
    match count.saturating_sub(names.len() as u64) {
        0 => shown,
        more => format!("{shown} and {more} more, see `watchkeeper archive query`"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn list_that_is_cut_says_how_many_it_leaves_out() {
        let entry = |number: u32| -> Entry {
            let entry = json!({
                "name": format!("yard/{number}"), "bytes": 3, "content_type": "image/jpeg",
                "number": number, "sha256": "00".repeat(32), "content": "stored",
                "archived": "2026-11-25T12:00:00Z", "retention": "normal", "metadata": {},
            });
            serde_json::from_value(entry).unwrap()
        };
        let entries: Vec<Entry> = (0..12).map(entry).collect();
        let mut found = Matches {
            entries: entries[..2].to_vec(),
            matched: 101,
            next: None,
            likeness: Vec::new(),
            hint: None,
        };
        assert_eq!(describe_some(&found), "2 of 101 that match: yard/0, yard/1");
        found.matched = 2;
        assert_eq!(describe_some(&found), "2 match: yard/0, yard/1");
        assert_eq!(names(&entries[..2], 2, 10), "yard/0, yard/1");
        let cut = names(&entries, 16, 10);
        assert!(cut.contains("yard/9 and 6 more, see"), "{cut}");
    }

    #[test]
    fn ingest_names_how_many_files_were_skipped_and_why() {
        let done = |skipped: usize| Ingested {
            entries: Vec::new(),
            skipped: (0..skipped).map(|n| format!("{n}: too large")).collect(),
        };
        assert_eq!(describe_ingest(&done(0)), "Ingested nothing");
        let said = describe_ingest(&done(200));
        assert!(
            said.ends_with("200 files were skipped: 0: too large; 1: too large; 2: too large"),
            "{said}"
        );
    }
}
