//! Lines of `records.jsonl` and `chain.jsonl`: a record, its hash and that of its predecessor.
//!
//! `{"hash":H,"previous":P,"record":R}` and a line feed. `R` is the text that was hashed, byte by
//! byte; `P` is `null` where the predecessor is no longer stored.

use serde::Deserialize;
use watchkeeper_contract::event::{Clip, Media};
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_store::chain::{self, Hash};

use crate::BundleFault;

/// Returns the line of a record.
pub fn line(hash: Hash, previous: Option<Hash>, record: &str) -> String {
    let previous = previous.map_or_else(|| "null".to_owned(), |hash| format!("\"{hash}\""));
    format!("{{\"hash\":\"{hash}\",\"previous\":{previous},\"record\":{record}}}\n")
}

/// Fields of a record that a check needs.
#[derive(Debug, Deserialize)]
pub struct Outline {
    pub id: EventId,
    pub seq: EventSeq,
    #[serde(default)]
    pub media: Vec<Media>,
    #[serde(default)]
    pub clip: Option<Clip>,
}

/// A record with its place in the chain.
#[derive(Debug)]
pub struct Link<'a> {
    pub hash: Hash,
    pub previous: Option<Hash>,
    /// The text that was hashed.
    pub record: &'a str,
    pub outline: Outline,
}

/// Reads the lines of `text`, which is the file `name`. The hash of each that names its predecessor
/// is recomputed.
///
/// # Errors
/// When a line has another form, or not the hash that it carries.
pub fn read<'a>(name: &str, text: &'a str) -> Result<Vec<Link<'a>>, BundleFault> {
    let wrong = |n: usize, why: &str| BundleFault::Changed(format!("{name}, line {n}: {why}"));
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(BundleFault::Changed(format!("{name}: it ends early")));
    }
    let mut links = Vec::new();
    for (n, line) in text.split_terminator('\n').enumerate() {
        let link = parse(line).ok_or_else(|| wrong(n + 1, "no record"))?;
        if let Some(previous) = &link.previous {
            chain::check_link(previous, link.record, link.hash)
                .map_err(|_| wrong(n + 1, "the record does not have the hash that it carries"))?;
        }
        links.push(link);
    }
    Ok(links)
}

fn parse(line: &str) -> Option<Link<'_>> {
    let rest = line.strip_prefix("{\"hash\":\"")?;
    let (hash, rest) = rest.split_at_checked(64)?;
    let rest = rest.strip_prefix("\",\"previous\":")?;
    let (previous, rest) = match rest.strip_prefix("null") {
        Some(rest) => (None, rest),
        None => {
            let (previous, rest) = rest.strip_prefix('"')?.split_at_checked(64)?;
            (Some(lower_hex(previous)?), rest.strip_prefix('"')?)
        }
    };
    let record = rest.strip_prefix(",\"record\":")?.strip_suffix('}')?;
    Some(Link {
        hash: lower_hex(hash)?,
        previous,
        record,
        outline: serde_json::from_str(record).ok()?,
    })
}

fn lower_hex(text: &str) -> Option<Hash> {
    Hash::parse(text).filter(|hash| hash.to_string() == text)
}
