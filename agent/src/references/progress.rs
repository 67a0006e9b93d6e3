//! Which reference pictures have no embedding by the present model, and why.
//!
//! - A refusal is final until the model changes, the picture is added again or the agent starts
//!   again. It means that the picture is damaged, the model can't read it, or the network failed on
//!   it [`MAX_STEP_FAILURES`] times.
//! - Any other cause is one of a moment: the picture is tried again.

use std::collections::BTreeMap;

use watchkeeper_evidence::reference::store::{ReferencePicture, Sets};

use crate::embedding::MAX_STEP_FAILURES;

/// Results of the passes. Has no more entries than there are pictures.
#[derive(Debug, Default)]
pub(super) struct EmbeddingProgress {
    /// Digest of the present model, once the runtime named it.
    digest: Option<String>,
    /// Why no picture can be embedded now.
    away: Option<String>,
    /// By set and SHA-256.
    failed: BTreeMap<(String, String), NoEmbedding>,
}

/// Why a picture has no embedding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoEmbedding {
    pub(super) why: String,
    /// Whether it is not tried again: comparisons leave the picture out.
    pub(super) is_refused: bool,
    /// How often the network failed on it.
    pub(super) step_failures: u32,
}

impl EmbeddingProgress {
    /// Notes the digest of the present model. Returns whether it is another one than before.
    pub(super) fn set_model(&mut self, digest: &str) -> bool {
        self.away = None;
        let is_other = self.digest.as_deref() != Some(digest);
        if is_other {
            self.digest = Some(digest.to_owned());
            self.failed.clear();
        }
        is_other
    }

    /// Notes why no picture can be embedded now. Returns whether that is a new cause.
    pub(super) fn set_away(&mut self, why: String) -> bool {
        self.away.replace(why.clone()) != Some(why)
    }

    /// Notes why a picture has no embedding. Returns whether it is refused, and whether the cause
    /// is a new one.
    pub(super) fn note(
        &mut self,
        set: &str,
        sha256: &str,
        mut failed: NoEmbedding,
    ) -> (bool, bool) {
        let key = key(set, sha256);
        let before = self.failed.remove(&key);
        failed.step_failures += before.as_ref().map_or(0, |before| before.step_failures);
        failed.is_refused |= failed.step_failures >= MAX_STEP_FAILURES;
        let is_new = before.is_none_or(|before| {
            (before.is_refused, &before.why) != (failed.is_refused, &failed.why)
        });
        let is_refused = failed.is_refused;
        self.failed.insert(key, failed);
        (is_refused, is_new)
    }

    /// Forgets the cause of a picture, because it has its embedding or was added again.
    pub(super) fn clear(&mut self, set: &str, sha256: &str) {
        self.failed.remove(&key(set, sha256));
    }

    /// Forgets pictures that were removed.
    pub(super) fn keep_only(&mut self, sets: &Sets) {
        self.failed.retain(|(set, sha256), _| {
            let pictures = sets.get(set).into_iter().flatten();
            pictures.into_iter().any(|known| known.sha256 == *sha256)
        });
    }

    /// Whether the picture's embedding is by the present model.
    pub(super) fn is_ready(&self, picture: &ReferencePicture) -> bool {
        let own = picture.vector.as_ref().map(|vector| &vector.digest);
        own.is_some() && own == self.digest.as_ref()
    }

    /// Why the picture has no embedding by the present model, as far as that is known.
    pub(super) fn why_not(&self, set: &str, picture: &ReferencePicture) -> Option<NoEmbedding> {
        if self.is_ready(picture) {
            return None;
        }
        let own = self.failed.get(&key(set, &picture.sha256)).cloned();
        own.or_else(|| {
            let why = self.away.clone()?;
            Some(NoEmbedding {
                why,
                is_refused: false,
                step_failures: 0,
            })
        })
    }

    /// Whether the picture's embedding is to be computed.
    pub(super) fn is_due(&self, set: &str, picture: &ReferencePicture) -> bool {
        let why_not = self.why_not(set, picture);
        !self.is_ready(picture) && !why_not.is_some_and(|failed| failed.is_refused)
    }
}

fn key(set: &str, sha256: &str) -> (String, String) {
    (set.to_owned(), sha256.to_owned())
}
