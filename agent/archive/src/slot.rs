//! What the index keeps of one entry: name, sizes, order, and what queries ask.
//!
//! - What many entries have in common is in memory once; an entry for itself is three allocations:
//!   its slot, its name and its details.
//! - Camera, class, zone and texts are in lower case; labels and events are as written.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;

use crate::ContentHash;
use crate::entry::{Content, Entry, Retention, is_picture};
use crate::name::EntryName;

/// Place of an entry in the order of time, the newest first: when it was seen, or else archived,
/// and its name.
pub(crate) type Place = (Reverse<Timestamp>, EntryName);

/// Facts that many entries share. The camera of a file is that of its EXIF. Camera, class and zone
/// are in lower case.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Facts {
    pub(crate) camera: Option<String>,
    pub(crate) class: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) content_type: String,
}

/// Kinds of lines in [`Details`].
pub(crate) const EVENT: char = 'e';
pub(crate) const TRACK: char = 't';
pub(crate) const LABEL: char = 'l';
/// Text, code, key or value of a label, in lower case.
pub(crate) const TEXT: char = 'x';

/// Values of a single entry, for conditions on it: one allocation, a line for each value. A line
/// begins with its kind; no value has a line feed.
#[derive(Debug)]
pub(crate) struct Details(Box<str>);

/// Writes a label with a control character, which no label has, between its parts.
pub(crate) fn label_text((key, value): (&String, &String)) -> String {
    format!("{key}\u{2}{value}")
}

impl Details {
    pub(crate) fn of(entry: &Entry) -> Self {
        let known = &entry.metadata;
        let mut lines = String::new();
        let mut add = |kind: char, value: &str| {
            lines.push(kind);
            lines.push_str(value);
            lines.push('\n');
        };
        known.event.iter().for_each(|event| add(EVENT, event));
        for track in &known.tracks {
            add(TRACK, &track.to_string());
        }
        let labels = known.labels.iter();
        labels.for_each(|label| add(LABEL, &label_text(label)));
        let labels = known.labels.iter().flat_map(|(key, value)| [key, value]);
        let texts = known.text.iter().chain(&known.codes).chain(labels);
        texts.for_each(|text| add(TEXT, &text.to_lowercase()));
        Self(lines.into())
    }

    /// Returns whether a value of this kind fulfils a condition.
    pub(crate) fn has(&self, kind: char, is_wanted: impl Fn(&str) -> bool) -> bool {
        let mut values = self
            .0
            .split('\n')
            .filter_map(|line| line.strip_prefix(kind));
        values.any(is_wanted)
    }

    /// Bytes in memory, nearly.
    pub(crate) fn bytes(&self) -> usize {
        // The allocator adds about two words to an allocation.
        size_of::<Self>() + 2 * size_of::<usize>() + self.0.len()
    }
}

/// The index's data about one entry; all its orders share it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) place: Place,
    pub(crate) number: u64,
    pub(crate) facts: Arc<Facts>,
    /// Absent where those of other entries fill the memory for them.
    pub(crate) details: Option<Details>,
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
            place: (Reverse(entry.moment()), entry.name.clone()),
            number: entry.number,
            facts: Arc::new(Facts {
                camera: lower(&known.camera).or_else(|| lower(&known.exif.as_ref()?.camera)),
                class: lower(&known.class),
                zone: lower(&known.zone),
                content_type: entry.content_type.clone(),
            }),
            details: Some(Details::of(entry)),
            hash: entry.sha256,
            bytes: entry.bytes,
            record_bytes: entry.record_bytes(),
            is_stored: entry.content == Content::Stored,
            is_protected: entry.retention == Retention::Protected,
            expires_us: entry.expires.map(|at| at.as_microsecond()),
        }
    }

    pub(crate) fn name(&self) -> &EntryName {
        &self.place.1
    }

    /// Whether its time to live has not passed.
    pub(crate) fn is_there(&self, now_us: i64) -> bool {
        self.is_protected || self.expires_us.is_none_or(|at| at > now_us)
    }

    /// Whether it is a JPEG, PNG or WebP file, by its MIME type.
    pub(crate) fn is_picture(&self) -> bool {
        is_picture(&self.facts.content_type)
    }
}
