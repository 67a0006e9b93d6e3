//! Queries and their results.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use watchkeeper_contract::id::SourceId;

use crate::note::{Kind, Note, Tag};
use crate::page::Placed;

/// Maximum number of results.
const MAX_FOUND: usize = 50;
/// Default number of results.
const DEFAULT_LIMIT: usize = 6;
/// Half-life of the recency bonus in days.
const HALF_LIFE_DAYS: f64 = 30.0;
/// Part of a score that decays with age; small, because ranks differ little: it orders near ties.
const RECENCY_BONUS: f64 = 0.1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// Fusion of the rankings by words and by vectors.
    #[default]
    Hybrid,
    Words,
    Vectors,
}

/// Text and filters of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub text: String,
    /// Only notes about this camera.
    pub camera: Option<SourceId>,
    /// Only notes of these kinds; empty for all.
    pub kinds: Vec<Kind>,
    /// Only notes with all of these tags.
    pub tags: Vec<Tag>,
    /// Only notes made at or after this time; undated notes do not match.
    pub since: Option<Timestamp>,
    /// Only notes made before this time; undated notes do not match.
    pub until: Option<Timestamp>,
    /// Current time, if known. With it, newer observations win near ties.
    pub now: Option<Timestamp>,
    /// Maximum number of results; of a search up to 50.
    pub limit: usize,
    pub method: Method,
}

impl Query {
    /// Creates a hybrid query over all notes.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            camera: None,
            kinds: Vec::new(),
            tags: Vec::new(),
            since: None,
            until: None,
            now: None,
            limit: DEFAULT_LIMIT,
            method: Method::Hybrid,
        }
    }

    /// Returns whether the filters accept `note`.
    pub(crate) fn matches(&self, kind: Kind, note: &Note) -> bool {
        let camera = self.camera.is_none() || self.camera == note.camera;
        let kind = self.kinds.is_empty() || self.kinds.contains(&kind);
        let tags = self.tags.iter().all(|tag| note.tags.contains(tag));
        let since = self.since.is_none_or(|from| note.at >= Some(from));
        let until = self
            .until
            .is_none_or(|until| note.at.is_some_and(|at| at < until));
        camera && kind && tags && since && until
    }

    /// Returns the factor of a note's score, up to 1. Only observations age.
    pub(super) fn recency(&self, kind: Kind, note: &Note) -> f64 {
        match (kind, self.now, note.at) {
            (Kind::Observation, Some(now), Some(at)) => {
                let days = (now.as_second() - at.as_second()).max(0) as f64 / 86_400.0;
                1.0 - RECENCY_BONUS + RECENCY_BONUS * (-days / HALF_LIFE_DAYS).exp2()
            }
            _ => 1.0,
        }
    }

    /// Clamps [`Query::limit`] to its maximum.
    pub(crate) fn bounded(mut self) -> Self {
        self.limit = self.limit.min(MAX_FOUND);
        self
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// Path below the folder of the memory.
    pub file: PathBuf,
    /// First line of the note, from 1.
    pub line: usize,
    pub kind: Kind,
    /// From 0 to 1, the best of every ranking. Only comparable within one result; 1 in a list.
    pub score: f64,
    /// The words are more than a quotation: [`Origin::trusted`](crate::Origin::trusted).
    pub trusted: bool,
    pub note: Note,
}

impl Found {
    pub(super) fn new(file: &Path, kind: Kind, placed: &Placed, score: f64) -> Self {
        Self {
            file: file.to_path_buf(),
            line: placed.line,
            kind,
            score,
            trusted: placed.note.origin.trusted(),
            note: placed.note.clone(),
        }
    }
}
