//! What the contents of a sound bundle say about each other: records, links, media, results.
//!
//! - Hashes are computed again where the contents suffice; [`Proof`] counts those that only the
//!   signature proves.

use std::collections::BTreeMap;

use serde::Deserialize;
use watchkeeper_contract::bundle::{BundleManifest, EventSubject};
use watchkeeper_contract::event::ClipState;
use watchkeeper_store::chain::Hash;

use crate::archive::media_name;
use crate::read::ReadBundle;
use crate::record_line::{self, Link};
use crate::{BundleFault, CHAIN, JOB_LOG, RECORDS};

/// Further recomputation of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    Event {
        /// Records whose hash follows from the contents and the hash of the predecessor.
        proven: usize,
        /// Records whose predecessor is gone; only the signature stands for their hash.
        unproven: usize,
        /// Whether consecutive records link the first one of the event to the head.
        is_linked: bool,
    },
    Job {
        /// Results of steps that have the hash of the log.
        results: usize,
    },
}

fn changed<T>(why: impl Into<String>) -> Result<T, BundleFault> {
    Err(BundleFault::Changed(why.into()))
}

/// Checks the records of an event, their links to the head, and its pictures and clip.
pub(crate) fn check_event(
    subject: &EventSubject,
    manifest: &BundleManifest,
    contents: &ReadBundle,
) -> Result<Proof, BundleFault> {
    let records = record_line::read(RECORDS, contents.text(RECORDS)?)?;
    let others = match contents.files.contains_key(CHAIN) {
        true => record_line::read(CHAIN, contents.text(CHAIN)?)?,
        false => Vec::new(),
    };
    let numbers: Vec<_> = records.iter().map(|link| link.outline.seq).collect();
    if numbers != subject.records || records.iter().any(|link| link.outline.id != subject.id) {
        return changed(format!(
            "{RECORDS} has not the records that the manifest lists"
        ));
    }
    if others.iter().any(|link| link.outline.id == subject.id) {
        return changed(format!("{CHAIN} has records of the event"));
    }
    check_media(manifest, &records, contents)?;
    let is_linked = check_links(subject, &records, &others)?;
    if !is_linked && !is_missing(manifest, CHAIN) {
        return changed("records between the event and the signed head are missing");
    }
    let proven = records.iter().filter(|link| link.previous.is_some());
    let proven = proven.count();
    Ok(Proof::Event {
        proven,
        unproven: records.len() - proven,
        is_linked,
    })
}

/// Checks that consecutive records follow from each other, and that the head has its hash. Returns
/// whether they reach from the first record of the event to the head without a gap.
fn check_links(
    subject: &EventSubject,
    records: &[Link<'_>],
    others: &[Link<'_>],
) -> Result<bool, BundleFault> {
    let mut all: BTreeMap<u64, &Link<'_>> = BTreeMap::new();
    for link in records.iter().chain(others) {
        if all.insert(link.outline.seq.0, link).is_some() {
            return changed(format!("record {} is there twice", link.outline.seq));
        }
    }
    let mut before: Option<(u64, Hash)> = None;
    let mut has_gap = false;
    for (seq, link) in &all {
        match before {
            Some((last, hash)) if last + 1 == *seq && link.previous != Some(hash) => {
                return changed(format!("record {seq} does not follow from {last}"));
            }
            Some((last, _)) if last + 1 == *seq => {}
            Some(_) => has_gap = true,
            None => {}
        }
        before = Some((*seq, link.hash));
    }
    let head = &subject.head;
    match before {
        Some((last, hash)) if last == head.seq.0 => match hash.to_string() == head.hash {
            true => Ok(!has_gap),
            false => changed(format!(
                "record {last} has another hash than the signed head"
            )),
        },
        Some((last, _)) if last > head.seq.0 => changed("records come after the signed head"),
        _ => Ok(false),
    }
}

/// Checks that each picture and clip of the records is in the bundle as the record describes it, or
/// stated as missing.
fn check_media(
    manifest: &BundleManifest,
    records: &[Link<'_>],
    contents: &ReadBundle,
) -> Result<(), BundleFault> {
    let require = |id: &str, content_type: &str, bytes: u64, sha256: &str| {
        let Some(name) = media_name(id, content_type) else {
            return changed(format!("{id:?} is no id of a picture or clip"));
        };
        match contents.files.get(&name) {
            Some((found, hash)) if *found == bytes && hash == sha256 => Ok(()),
            Some(_) => changed(format!("{name} is not the file that its record names")),
            None if is_missing(manifest, &name) => Ok(()),
            None => changed(format!("{name} is neither there nor stated as missing")),
        }
    };
    for media in records.iter().flat_map(|link| &link.outline.media) {
        require(&media.id, &media.content_type, media.bytes, &media.sha256)?;
    }
    for clip in records.iter().filter_map(|link| link.outline.clip.as_ref()) {
        if let ClipState::Kept {
            content_type,
            bytes,
            sha256,
        } = &clip.state
        {
            require(&clip.id, content_type, *bytes, sha256)?;
        }
    }
    let last = records
        .iter()
        .rev()
        .find_map(|link| link.outline.clip.as_ref());
    match last.map(|clip| &clip.state) {
        Some(ClipState::Filming | ClipState::Lost { .. }) if !is_missing(manifest, "clip") => {
            changed("the clip is neither there nor stated as missing")
        }
        _ => Ok(()),
    }
}

fn is_missing(manifest: &BundleManifest, name: &str) -> bool {
    manifest.missing.iter().any(|part| part.name == name)
}

/// A line of a job's log, as far as it is about a finished step.
#[derive(Deserialize)]
struct LogLine {
    record: String,
    #[serde(default)]
    step: String,
    result: Option<LogResult>,
}

#[derive(Deserialize)]
struct LogResult {
    sha256: String,
}

/// Checks that the results of a job have the hashes that its log names last.
pub(crate) fn check_job(
    manifest: &BundleManifest,
    contents: &ReadBundle,
) -> Result<Proof, BundleFault> {
    let mut results: BTreeMap<String, String> = BTreeMap::new();
    for (n, line) in contents.text(JOB_LOG)?.lines().enumerate() {
        let line: LogLine = serde_json::from_str(line)
            .map_err(|error| BundleFault::Changed(format!("{JOB_LOG}, line {}: {error}", n + 1)))?;
        if let ("finished", Some(result)) = (line.record.as_str(), line.result) {
            results.insert(format!("results/{}.json", line.step), result.sha256);
        }
    }
    for (name, wanted) in &results {
        match contents.files.get(name) {
            Some((_, sha256)) if sha256 == wanted => {}
            Some(_) => return changed(format!("{name} has not the hash that the log names")),
            None if is_missing(manifest, name) => {}
            None => return changed(format!("{name} is neither there nor stated as missing")),
        }
    }
    let results = results
        .keys()
        .filter(|name| contents.files.contains_key(*name));
    Ok(Proof::Job {
        results: results.count(),
    })
}
