//! The intent of a request, as a type that cannot be half understood.
//!
//! Invariant: an [`Intent`] that would change something is made only where a verb asks for it.

use jiff::Zoned;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::rule::{CountBound, CrossDirection};

use crate::scene::Shape;
use crate::settings::Settings;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Intent {
    /// New pipelines, one each.
    Watch(Vec<WatchFor>),
    /// Another setting of a pipeline.
    Change(Box<Edit>),
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
    pub(crate) conditions: Vec<What>,
    /// Where in the picture.
    pub(crate) place: Option<NamedPlace>,
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

/// What has to happen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum What {
    /// Something is seen.
    Appears,
    /// Something enters the place.
    Enters,
    /// Something leaves the place.
    Leaves,
    /// Something is in the place for some seconds.
    Stays(f64),
    /// Something crosses the line.
    Crosses(CrossDirection),
    /// So many of them, for some seconds.
    Count(CountBound, f64),
}

/// A shape with the name it gets in the workflow.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamedPlace {
    /// Name of the step.
    pub(crate) name: String,
    /// As a person would say it, such as `the left half of the picture`.
    pub(crate) said: String,
    pub(crate) shape: Shape,
}

/// What is to be different about a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Edit {
    pub(crate) pipeline: PipelineId,
    pub(crate) objects: Option<Objects>,
    pub(crate) settings: Settings,
    /// Whether its numbers are to be more (`raise`) or less (`lower`) than they are; absent:
    /// either.
    pub(crate) more: Option<bool>,
}
