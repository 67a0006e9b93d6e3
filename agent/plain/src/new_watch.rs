//! A new watch as it was understood: the type between what was read and what is proposed.
//!
//! Invariant: it cannot be half understood.

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::rule::Condition;

use crate::place::Where;
use crate::settings::Settings;

/// One watch on one camera.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewWatch {
    pub(crate) camera: SourceId,
    /// Model that knows the classes.
    pub(crate) model: String,
    pub(crate) objects: Objects,
    /// Whether these are said to be the only ones.
    pub(crate) only: bool,
    /// What has to happen; empty: it only counts.
    pub(crate) conditions: Vec<Condition>,
    /// Place in the picture.
    pub(crate) place: Option<Where>,
    /// Whether the number of objects is kept in the results.
    pub(crate) counts: bool,
    pub(crate) settings: Settings,
}

/// Objects, by the model's labels and by the person's words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Objects {
    /// Labels; empty: whatever the model sees.
    pub(crate) labels: Vec<String>,
    /// As the person said it, such as `people or cars`.
    pub(crate) said: String,
}

impl Objects {
    /// Whatever the model sees.
    pub(crate) fn anything() -> Self {
        Self {
            said: "anything".to_owned(),
            ..Self::default()
        }
    }
}
