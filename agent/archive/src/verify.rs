//! Reads contents whole and compares them with their SHA-256, a part of the archive at a time.
//!
//! - A damaged content is replaced by its copy from any other tier that has one.
//! - A content that can't be read is like a damaged one. A tier that does not answer may have a
//!   copy: such an entry is named apart, and kept.
//! - What is destroyed or replaced meanwhile is not damage.
//! - The object tier is asked for its copies; those that it lost are made again.

use std::collections::BTreeMap;
use std::ops::Bound;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ContentHash;
use crate::archive::Archive;
use crate::durable::Durable;
use crate::entry::Entry;
use crate::error::ArchiveError;
use crate::name::EntryName;
use crate::object_queue::{queue_copies, without_tasks};

/// Bytes after which one call ends.
const MAX_BYTES: u64 = 512 << 20;
/// Entries after which one call ends.
const MAX_ENTRIES: usize = 1_000;

/// Result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Verified {
    /// Contents that were read.
    pub contents: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Entries whose content is damaged or missing, and no tier has a copy.
    #[schema(value_type = Vec<String>)]
    pub damaged: Vec<EntryName>,
    /// Entries whose content was damaged, and is replaced by its copy.
    #[schema(value_type = Vec<String>)]
    pub repaired: Vec<EntryName>,
    /// Entries whose content is damaged or missing, and that may have a copy: a tier gave no sound
    /// answer, or the disk refused the copy. Verify again later.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub unknown: Vec<EntryName>,
    /// Why the last of `unknown` was not repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Contents whose copy the object tier had lost; they are copied again.
    #[serde(default)]
    pub copied_again: u64,
    /// Why it is not known whether the object tier has its copies; absent if it answered, or there
    /// is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies_unknown: Option<String>,
    /// Where the next call begins; absent at the end of the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub next: Option<EntryName>,
}

impl Archive {
    /// Verifies the contents of the entries after `after`, in the order of names, until
    /// [`MAX_BYTES`] are read.
    ///
    /// # Errors
    /// If the records can't be read.
    pub async fn verify(&self, after: Option<EntryName>) -> Result<Verified, ArchiveError> {
        let (mut found, sound, suspects) = self
            .blocking(move |durable| read_part(durable, after.as_ref(), MAX_ENTRIES))
            .await?;
        for entry in suspects {
            match self.repair(&entry).await {
                Ok(Some(_)) => found.repaired.push(entry.name),
                Ok(None) => found.damaged.push(entry.name),
                Err(error) => {
                    found.why = Some(error.to_string());
                    found.unknown.push(entry.name);
                }
            }
        }
        self.verify_copies(sound, &mut found).await?;
        Ok(found)
    }

    /// Asks the object tier for its copies of `sound` contents, with their sizes in bytes.
    async fn verify_copies(
        &self,
        sound: BTreeMap<ContentHash, u64>,
        found: &mut Verified,
    ) -> Result<(), ArchiveError> {
        let Some(objects) = self.objects() else {
            return Ok(());
        };
        // A copy that still waits is not lost.
        let settled = move |durable: &Durable| without_tasks(durable, sound);
        let asked = self.blocking(settled).await?;
        match objects.missing(asked).await {
            Ok(missing) => {
                let queue = move |durable: &Durable| queue_copies(durable, &missing);
                found.copied_again = self.blocking(queue).await?;
                objects.wake();
            }
            Err(why) => found.copies_unknown = Some(format!("{}: {why}", objects.name())),
        }
        Ok(())
    }
}

/// What was read, the sound contents with their sizes in bytes, and the other entries.
type Part = (Verified, BTreeMap<ContentHash, u64>, Vec<Entry>);

/// Reads contents of at most `max_entries`.
fn read_part(
    durable: &Durable,
    after: Option<&EntryName>,
    max_entries: usize,
) -> Result<Part, ArchiveError> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let part = durable.index().stored_from(from, max_entries);
    let mut found = Verified::default();
    let (mut suspects, mut sound) = (Vec::new(), BTreeMap::new());
    let is_last_part = part.len() < max_entries;
    let mut last = None;
    for slot in part {
        if found.bytes >= MAX_BYTES {
            found.next = last;
            return Ok((found, sound, suspects));
        }
        let (name, hash) = (slot.name(), slot.hash);
        last = Some(name.clone());
        if sound.contains_key(&hash) {
            continue;
        }
        found.contents += 1;
        found.bytes += slot.bytes;
        let read = durable.is_sound(&hash);
        if let Err(error) = &read {
            tracing::warn!(%name, %error, "archive: a content can't be read");
        }
        if read.is_ok_and(|is_sound| is_sound) {
            sound.insert(hash, slot.bytes);
        } else if let Some(entry) = durable.entry(name, Timestamp::now())?
            && entry.sha256 == hash
        {
            suspects.push(entry);
        }
    }
    found.next = last.filter(|_| !is_last_part);
    Ok((found, sound, suspects))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;
    use crate::archive::Settings;
    use crate::entry::NewEntry;
    use crate::eviction::Limits;

    #[tokio::test]
    async fn parts_read_every_content_once() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            folder: folder.path().to_owned(),
            limits: Limits::default(),
            memory_bytes: 0,
            shared: None,
            objects: None,
        };
        let (archive, _) = Archive::open(settings).unwrap();
        for number in 0..7_u8 {
            let name = EntryName::new("yard", &number.to_string()).unwrap();
            let content = vec![number].into();
            archive
                .ingest_bytes(content, NewEntry::named(name))
                .await
                .unwrap();
        }
        let damaged = ContentHash::of(&[4]).to_string();
        std::fs::write(folder.path().join("blobs").join(damaged), "?").unwrap();
        for max_entries in [1, 2, 7, 8] {
            let (mut contents, mut suspects, mut after) = (0, Vec::new(), None);
            loop {
                let read = move |d: &Durable| read_part(d, after.as_ref(), max_entries);
                let (part, _, found) = archive.blocking(read).await.unwrap();
                contents += part.contents;
                suspects.extend(found.into_iter().map(|entry| entry.name.to_string()));
                after = part.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(
                (contents, suspects),
                (7, vec!["yard/4".to_owned()]),
                "{max_entries}"
            );
        }
    }
}
