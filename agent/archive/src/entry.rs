//! Entries: the metadata of one content.
//!
//! - Metadata is bounded and one line each: it comes from cameras, files and callers.
//! - A reference names media that the runtime keeps; its content is not in the archive.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ContentHash;
use crate::error::ArchiveError;
use crate::name::EntryName;

/// Longest text of a metadata field, in characters.
pub const MAX_FIELD: usize = 256;
/// Longest text read, in characters.
pub const MAX_TEXT: usize = 4_096;
/// Most tracks, codes or labels of an entry.
pub const MAX_ITEMS: usize = 64;
/// Most bytes of all texts of one entry's metadata, numbers not included.
pub const MAX_METADATA_BYTES: usize = 16 << 10;
/// Bytes of a record in addition to names, texts and numbers.
const RECORD_BYTES: usize = 400;
/// Bytes of the number of a track in a record.
const TRACK_BYTES: usize = 14;
/// Longest time to live, in seconds: ten years.
pub const MAX_TTL_S: u64 = 315_360_000;

/// How long an entry is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Retention {
    /// Until its time to live has passed, or room is needed: the oldest first.
    #[default]
    Normal,
    /// Never evicted, expired or destroyed until a user lifts the protection.
    Protected,
}

/// Where the content of an entry is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// In the archive.
    Stored,
    /// Media of the runtime, with its id.
    Media(String),
}

/// Metadata in a picture file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Exif {
    /// Local time of the exposure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
    /// Maker and model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub camera: Option<String>,
    /// Degrees, north positive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latitude: Option<f64>,
    /// Degrees, east positive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longitude: Option<f64>,
}

/// Where the time of an entry comes from, if not from its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeSource {
    /// The EXIF time of the picture: by the offset that it names, or else in the time zone of the
    /// box.
    Exif,
}

/// Metadata of a content. All of it may be absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub camera: Option<String>,
    /// When it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub time: Option<Timestamp>,
    /// Where `time` comes from; absent: from the caller or the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_from: Option<TimeSource>,
    /// Class of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tracks: Vec<i64>,
    /// Zone or line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Id of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Text that was read in the picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Contents of bar codes and QR codes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exif: Option<Exif>,
}

/// Returns whether a text has at most `max` characters, on one line.
pub(crate) fn is_line(text: &str, max: usize) -> bool {
    text.chars().count() <= max && !text.chars().any(char::is_control)
}

impl Metadata {
    /// Checks the bounds of all fields.
    ///
    /// # Errors
    /// [`ArchiveError::Field`] with the first field out of bounds.
    pub fn check(&self) -> Result<(), ArchiveError> {
        let line = |field: &'static str, text: &str, max: usize| {
            is_line(text, max).then_some(()).ok_or_else(|| {
                let remedy = format!("use at most {max} characters on one line");
                ArchiveError::field(field, text, remedy)
            })
        };
        let single = [
            ("camera", &self.camera),
            ("class", &self.class),
            ("zone", &self.zone),
            ("event", &self.event),
        ];
        let exif = self.exif.iter();
        let exif =
            exif.flat_map(|exif| [("exif.taken", &exif.taken), ("exif.camera", &exif.camera)]);
        for (field, value) in single.into_iter().chain(exif) {
            line(field, value.as_deref().unwrap_or_default(), MAX_FIELD)?;
        }
        line("text", self.text.as_deref().unwrap_or_default(), MAX_TEXT)?;
        for code in &self.codes {
            line("codes", code, MAX_TEXT)?;
        }
        for (key, value) in &self.labels {
            line("labels", key, MAX_FIELD)?;
            line("labels", value, MAX_FIELD)?;
        }
        let counts = [
            ("tracks", self.tracks.len(), MAX_ITEMS),
            ("codes", self.codes.len(), MAX_ITEMS),
            ("labels", self.labels.len(), MAX_ITEMS),
        ];
        for (field, count, max) in counts {
            if count > max {
                let remedy = format!("use at most {max}");
                return Err(ArchiveError::field(
                    field,
                    &format!("{count} items"),
                    remedy,
                ));
            }
        }
        let bytes = self.text_bytes();
        if bytes > MAX_METADATA_BYTES {
            let remedy = format!("use at most {MAX_METADATA_BYTES} bytes for all texts together");
            return Err(ArchiveError::field(
                "metadata",
                &format!("{bytes} bytes"),
                remedy,
            ));
        }
        Ok(())
    }

    /// Bytes of all texts.
    fn text_bytes(&self) -> usize {
        let single = [
            &self.camera,
            &self.class,
            &self.zone,
            &self.event,
            &self.text,
        ];
        let exif = self
            .exif
            .iter()
            .flat_map(|exif| [&exif.taken, &exif.camera]);
        let labels = self.labels.iter().flat_map(|(key, value)| [key, value]);
        let texts = single.into_iter().chain(exif).flatten();
        texts
            .chain(&self.codes)
            .chain(labels)
            .map(String::len)
            .sum()
    }
}

/// Metadata that an ingest states.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEntry {
    pub name: EntryName,
    /// MIME type; guessed from the name if absent.
    pub content_type: Option<String>,
    pub retention: Retention,
    /// Seconds until it expires.
    pub ttl_s: Option<u64>,
    pub metadata: Metadata,
}

impl NewEntry {
    /// Makes an entry of which only the name is known.
    pub fn named(name: EntryName) -> Self {
        Self {
            name,
            content_type: None,
            retention: Retention::Normal,
            ttl_s: None,
            metadata: Metadata::default(),
        }
    }

    /// Checks content type, time to live and metadata.
    ///
    /// # Errors
    /// [`ArchiveError::Field`] with the first field out of bounds.
    pub fn check(&self) -> Result<(), ArchiveError> {
        let mime = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '+' | '-');
        if let Some(given) = &self.content_type
            && (given.len() > 100 || given.split('/').count() != 2 || !given.chars().all(mime))
        {
            let remedy = "use a MIME type such as image/jpeg".to_owned();
            return Err(ArchiveError::field("content_type", given, remedy));
        }
        if let Some(ttl) = self.ttl_s
            && !(1..=MAX_TTL_S).contains(&ttl)
        {
            let remedy = format!("use 1 to {MAX_TTL_S} seconds");
            return Err(ArchiveError::field("ttl_s", &ttl.to_string(), remedy));
        }
        self.metadata.check()
    }

    /// Makes the entry of a content that is archived at `now`; `number` is its place in the order
    /// of ingests.
    pub(crate) fn into_entry(
        self,
        (sha256, bytes): (ContentHash, u64),
        content: Content,
        number: u64,
        now: Timestamp,
    ) -> Entry {
        let ttl = self.ttl_s.and_then(|ttl| i64::try_from(ttl).ok());
        let expires = ttl.and_then(|ttl| now.checked_add(SignedDuration::from_secs(ttl)).ok());
        let guessed = || guess_type(self.name.name()).to_owned();
        Entry {
            content_type: self.content_type.clone().unwrap_or_else(guessed),
            name: self.name,
            number,
            archived: now,
            bytes,
            sha256,
            content,
            retention: self.retention,
            expires,
            metadata: self.metadata,
        }
    }
}

/// One entry of the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    /// Name as `collection/name`.
    #[schema(value_type = String)]
    pub name: EntryName,
    /// Place in the order of ingests.
    pub number: u64,
    #[schema(value_type = String)]
    pub archived: Timestamp,
    pub bytes: u64,
    /// SHA-256 of the content, hex.
    #[schema(value_type = String)]
    pub sha256: ContentHash,
    pub content_type: String,
    pub content: Content,
    pub retention: Retention,
    /// When it expires; a protected entry does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub expires: Option<Timestamp>,
    pub metadata: Metadata,
}

impl Entry {
    /// Returns whether the time to live has passed at `now`.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.retention == Retention::Normal && self.expires.is_some_and(|at| at <= now)
    }

    /// Bytes of its record, nearly.
    pub(crate) fn record_bytes(&self) -> u64 {
        let known = &self.metadata;
        let numbers = TRACK_BYTES * known.tracks.len();
        let texts = self.name.as_str().len() + self.content_type.len() + known.text_bytes();
        (RECORD_BYTES + texts + numbers) as u64
    }

    /// Returns when it was seen, or else archived.
    pub fn moment(&self) -> Timestamp {
        self.metadata.time.unwrap_or(self.archived)
    }
}

/// Whether contents of a MIME type can have an embedding of a model.
pub(crate) fn is_picture(content_type: &str) -> bool {
    matches!(content_type, "image/jpeg" | "image/png" | "image/webp")
}

/// MIME type of a file whose extension is not known.
pub(crate) const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Guesses the MIME type of a file by its extension.
pub fn guess_type(name: &str) -> &'static str {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension.to_ascii_lowercase().as_str() {
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "json" => "application/json",
        "csv" => "text/csv",
        "txt" | "md" | "log" => "text/plain",
        "pdf" => "application/pdf",
        _ => UNKNOWN_TYPE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_metadata_have_a_bound_together() {
        let codes = |count: usize| Metadata {
            codes: vec!["c".repeat(MAX_TEXT); count],
            ..Metadata::default()
        };
        assert!(codes(4).check().is_ok());
        let refused = codes(5).check().map_err(|error| error.to_string());
        assert!(refused.is_err_and(|why| why.contains("16384 bytes")));
    }
}
