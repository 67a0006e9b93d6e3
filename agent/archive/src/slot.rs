//! What the index keeps of one entry: sizes, order, and what most queries ask.

use std::sync::Arc;

use jiff::Timestamp;

use crate::entry::{Content, Entry, Retention, is_picture};
use crate::hash::ContentHash;
use crate::name::EntryName;

/// Place of an entry in the order of time, the newest first: nanoseconds before 1970 and its name.
pub(crate) type Place = (i128, EntryName);

/// Nanoseconds before 1970.
pub(crate) fn before_epoch(moment: Timestamp) -> i128 {
    -moment.as_nanosecond()
}

/// What the index keeps of one entry. Equal texts are shared by its entries.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) number: u64,
    /// When it was seen, or else archived: nanoseconds before 1970.
    pub(crate) before_epoch: i128,
    /// Camera, class, zone and event, in lower case.
    pub(crate) facts: Facts<Arc<str>>,
    pub(crate) content_type: Arc<str>,
    pub(crate) hash: ContentHash,
    pub(crate) bytes: u64,
    /// Bytes of its record.
    pub(crate) record_bytes: u64,
    pub(crate) is_stored: bool,
    pub(crate) is_protected: bool,
    /// Microseconds since 1970.
    pub(crate) expires_us: Option<i64>,
}

/// One value for each of camera, class, zone and event.
pub(crate) type Facts<T> = [Option<T>; 4];

impl Slot {
    pub(crate) fn of(entry: &Entry) -> Self {
        let known = &entry.metadata;
        let lower = |text: &String| text.to_lowercase().into();
        Self {
            number: entry.number,
            before_epoch: before_epoch(entry.moment()),
            facts: [&known.camera, &known.class, &known.zone, &known.event]
                .map(|text| text.as_ref().map(lower)),
            content_type: entry.content_type.as_str().into(),
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

    /// A JPEG or PNG file, by its MIME type.
    pub(crate) fn is_picture(&self) -> bool {
        is_picture(&self.content_type)
    }
}
