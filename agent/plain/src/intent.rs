//! The intent of a request, as a type that cannot be half understood.
//!
//! Invariant: an [`Intent`] that would change something is made only where a verb asks for it.

use jiff::Zoned;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::Condition;

use crate::place::Said;
use crate::settings::Settings;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Intent {
    /// New pipelines, one each.
    Watch(Vec<WatchFor>),
    /// A pipeline as it is to be instead, and a sentence about the change.
    Change(Box<PipelineSpec>, String),
    /// Pipelines end and are gone.
    Stop(Vec<PipelineId>),
    Pause {
        pipelines: Vec<PipelineId>,
        /// When they go on by themselves; absent: when a person says so.
        until: Option<Zoned>,
    },
    /// Paused pipelines go on.
    Resume(Vec<PipelineId>),
}

/// One watch on one camera.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WatchFor {
    pub(crate) camera: SourceId,
    /// Model that knows the classes.
    pub(crate) model: String,
    pub(crate) objects: Objects,
    /// What has to happen; empty: it only counts.
    pub(crate) conditions: Vec<Condition>,
    /// Where in the picture.
    pub(crate) place: Option<Said>,
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
    /// Whether these are said to be the only ones.
    pub(crate) only: bool,
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
