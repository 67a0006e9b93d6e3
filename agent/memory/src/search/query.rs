//! What is asked of the index, and what it answers.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;
use watchkeeper_contract::id::SourceId;

use crate::note::{Kind, Note, Tag};

/// Notes that are given out at most, whatever is asked for.
const MAX_FOUND: usize = 50;
/// Notes that are given out where nothing else is asked for.
const FOUND: usize = 6;
/// Age at which half of the bonus for being recent is gone, in days.
const HALF_LIFE: f64 = 30.0;
/// The part of a score that goes with age. Small, because ranks differ by little: it orders what answers about equally well.
const BONUS: f64 = 0.1;

/// How notes are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// By words and by vectors, and the two orders put together.
    #[default]
    Hybrid,
    /// By words alone.
    Words,
    /// By vectors alone.
    Vectors,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// In words.
    pub text: String,
    /// Only notes about this camera.
    pub camera: Option<SourceId>,
    /// Only notes of these kinds; none means all.
    pub kinds: Vec<Kind>,
    /// Only notes with all of these tags.
    pub tags: Vec<Tag>,
    /// Only notes made at or after this time; those without a time are none of them.
    pub since: Option<Timestamp>,
    /// The time now, where it is known. With it, of observations that answer about equally well the newer comes first.
    pub now: Option<Timestamp>,
    /// How many are wanted, up to 50.
    pub limit: usize,
    /// How they are looked for.
    pub method: Method,
}

impl Query {
    /// A question over everything, for a handful of notes.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            camera: None,
            kinds: Vec::new(),
            tags: Vec::new(),
            since: None,
            now: None,
            limit: FOUND,
            method: Method::Hybrid,
        }
    }

    /// Whether `note` is among what is asked about.
    pub(crate) fn takes(&self, kind: Kind, note: &Note) -> bool {
        let camera = self.camera.is_none() || self.camera == note.camera;
        let kind = self.kinds.is_empty() || self.kinds.contains(&kind);
        let tags = self.tags.iter().all(|tag| note.tags.contains(tag));
        let since = self.since.is_none_or(|from| note.at >= Some(from));
        camera && kind && tags && since
    }

    /// What the score of `note` is multiplied with, up to 1. What is true for long doesn't age.
    pub(super) fn recency(&self, kind: Kind, note: &Note) -> f64 {
        match (kind, self.now, note.at) {
            (Kind::Observation, Some(now), Some(at)) => {
                let days = (now.as_second() - at.as_second()).max(0) as f64 / 86_400.0;
                1.0 - BONUS + BONUS * (-days / HALF_LIFE).exp2()
            }
            _ => 1.0,
        }
    }

    /// [`Query::limit`] within its bound.
    pub(crate) fn bounded(mut self) -> Self {
        self.limit = self.limit.min(MAX_FOUND);
        self
    }
}

/// A note that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// Its file, below the folder of the memory.
    pub file: PathBuf,
    /// The line that it begins with, from 1.
    pub line: usize,
    /// What it is.
    pub kind: Kind,
    /// How well it answers, from 0 to 1: 1 is the best of both ways of searching. Good for comparing within one answer only.
    pub score: f64,
    /// Whether its words may be taken for more than a quotation.
    pub trusted: bool,
    /// The note.
    pub note: Note,
}
