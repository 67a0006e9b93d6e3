//! What the index keeps of one entry: sizes, order, and what queries ask.

use std::sync::Arc;

use jiff::Timestamp;

use crate::ContentHash;
use crate::entry::{Content, Entry, Retention, is_picture};
use crate::name::EntryName;

/// Place of an entry in the order of time, the newest first: nanoseconds before 1970 and its name.
pub(crate) type Place = (i128, EntryName);

/// Nanoseconds before 1970.
pub(crate) fn before_epoch(moment: Timestamp) -> i128 {
    -moment.as_nanosecond()
}

/// Makes the place of an entry by when it was seen, or else archived.
pub(crate) fn place_of(entry: &Entry) -> Place {
    (before_epoch(entry.moment()), entry.name.clone())
}

/// What many entries have in common. Camera, class and zone are in lower case.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Facts {
    pub(crate) camera: Option<String>,
    pub(crate) class: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) content_type: String,
}

/// What an entry has for itself, for conditions on it.
#[derive(Debug)]
pub(crate) struct Details {
    /// Empty where no event is known.
    pub(crate) event: Box<str>,
    pub(crate) tracks: Box<[i64]>,
    /// Labels, as [`label_text`] writes them.
    pub(crate) labels: Box<str>,
    /// Text, codes and labels in lower case, each ended by a line feed.
    pub(crate) texts: Box<str>,
}

/// Writes a label between control characters, which no label has.
pub(crate) fn label_text((key, value): (&String, &String)) -> String {
    format!("\u{1}{key}\u{2}{value}\u{3}")
}

impl Details {
    pub(crate) fn of(entry: &Entry) -> Self {
        let known = &entry.metadata;
        let labels = known.labels.iter().flat_map(|(key, value)| [key, value]);
        let texts = known.text.iter().chain(&known.codes).chain(labels);
        let texts: String = texts.map(|text| text.to_lowercase() + "\n").collect();
        let labels: String = known.labels.iter().map(label_text).collect();
        Self {
            event: known.event.clone().unwrap_or_default().into(),
            tracks: known.tracks.as_slice().into(),
            labels: labels.into(),
            texts: texts.into(),
        }
    }

    /// Bytes in memory, nearly.
    pub(crate) fn bytes(&self) -> usize {
        let texts = self.event.len() + self.labels.len() + self.texts.len();
        size_of::<Self>() + texts + size_of_val(&*self.tracks)
    }
}

/// What the index keeps of one entry.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) number: u64,
    pub(crate) facts: Arc<Facts>,
    /// Absent where those of other entries fill the memory for them.
    pub(crate) details: Option<Arc<Details>>,
    pub(crate) hash: ContentHash,
    pub(crate) bytes: u64,
    /// Bytes of its record.
    pub(crate) record_bytes: u64,
    pub(crate) is_stored: bool,
    pub(crate) is_protected: bool,
    /// Microseconds since 1970.
    pub(crate) expires_us: Option<i64>,
}

impl Slot {
    pub(crate) fn of(entry: &Entry) -> Self {
        let known = &entry.metadata;
        let lower = |text: &Option<String>| text.as_ref().map(|text| text.to_lowercase());
        Self {
            number: entry.number,
            facts: Arc::new(Facts {
                camera: lower(&known.camera),
                class: lower(&known.class),
                zone: lower(&known.zone),
                content_type: entry.content_type.clone(),
            }),
            details: Some(Arc::new(Details::of(entry))),
            hash: entry.sha256,
            bytes: entry.bytes,
            record_bytes: entry.record_bytes(),
            is_stored: entry.content == Content::Stored,
            is_protected: entry.retention == Retention::Protected,
            expires_us: entry.expires.map(|at| at.as_microsecond()),
        }
    }

    /// Whether its time to live has not passed.
    pub(crate) fn is_there(&self, now_us: i64) -> bool {
        self.is_protected || self.expires_us.is_none_or(|at| at > now_us)
    }

    /// Whether it is a JPEG or PNG file, by its MIME type.
    pub(crate) fn is_picture(&self) -> bool {
        is_picture(&self.facts.content_type)
    }
}
