//! Reads contents whole and compares them with their SHA-256, a part of the archive at a time.
//!
//! - A damaged content is replaced by its copy from the object tier, where that has one.
//! - What is destroyed or replaced meanwhile is no damage.

use std::collections::BTreeSet;
use std::ops::Bound;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::archive::Archive;
use crate::durable::Durable;
use crate::entry::Entry;
use crate::error::ArchiveError;
use crate::hash::ContentHash;
use crate::name::EntryName;

/// Bytes after which one call ends.
const MAX_BYTES: u64 = 512 << 20;
/// Entries after which one call ends.
const MAX_ENTRIES: usize = 1_000;

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Verified {
    /// Contents that were read.
    pub contents: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Entries whose content is damaged or missing, and no tier has a copy.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub damaged: Vec<EntryName>,
    /// Entries whose content was damaged, and is replaced by its copy.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub repaired: Vec<EntryName>,
    /// Where the next call begins; absent at the end of the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub next: Option<EntryName>,
}

impl Archive {
    /// Verifies the contents of the entries behind `after`, in the order of names, until
    /// [`MAX_BYTES`] are read.
    ///
    /// # Errors
    /// If the disk can't be read.
    pub async fn verify(&self, after: Option<EntryName>) -> Result<Verified, ArchiveError> {
        let (mut found, suspects) = self
            .blocking(move |durable| read_part(durable, after.as_ref()))
            .await?;
        for entry in suspects {
            match self.repair(&entry).await? {
                Some(_) => found.repaired.push(entry.name),
                None => found.damaged.push(entry.name),
            }
        }
        Ok(found)
    }
}

/// Reads contents; returns the entries whose content is not what was stored.
fn read_part(
    durable: &Durable,
    after: Option<&EntryName>,
) -> Result<(Verified, Vec<Entry>), ArchiveError> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let part = durable.index().stored_from(from, MAX_ENTRIES);
    let mut found = Verified::default();
    let (mut suspects, mut sound) = (Vec::new(), BTreeSet::<ContentHash>::new());
    let is_last_part = part.len() < MAX_ENTRIES;
    let mut last = None;
    for (name, hash, bytes) in part {
        if found.bytes >= MAX_BYTES {
            found.next = last;
            return Ok((found, suspects));
        }
        last = Some(name.clone());
        if sound.contains(&hash) {
            continue;
        }
        found.contents += 1;
        found.bytes += bytes;
        if durable.is_sound(&hash)? {
            sound.insert(hash);
        } else if let Some(entry) = durable.entry(&name, Timestamp::now())?
            && entry.sha256 == hash
        {
            suspects.push(entry);
        }
    }
    found.next = last.filter(|_| !is_last_part);
    Ok((found, suspects))
}
