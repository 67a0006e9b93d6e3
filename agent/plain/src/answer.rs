//! Answers to a request: a proposal, a look-up, a question, or that nothing was understood.
//!
//! Invariant: nothing in an answer has happened. A user, or an auto-approval that the operator set,
//! confirms a [`Proposal`] before anything does.

use jiff::{Timestamp, Zoned};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::CrossDirection;

use watchkeeper_english::one_of;

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Changes that a user may confirm.
    Propose(Box<Proposal>),
    /// A question that the caller looks up.
    Look(Looked),
    /// A part of the request is missing.
    Ask(Question),
    /// Nothing, or not every word, was understood.
    Unknown(Unknown),
}

/// Changes that wait for a confirmation.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// The changes in plain sentences.
    pub understood: String,
    /// Assumptions where the text says nothing, one sentence each.
    pub assumed: Vec<String>,
    /// Parts that were understood and are not possible here, one sentence each.
    pub not_possible: Vec<String>,
}

/// One change of the box.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A new pipeline.
    Deploy(Box<PipelineSpec>),
    /// Another specification for a deployed pipeline.
    Replace(Box<PipelineSpec>),
    /// Removes a pipeline for good.
    Delete(PipelineId),
    Pause {
        pipeline: PipelineId,
        /// End of the pause; absent: until somebody resumes it.
        until: Option<Zoned>,
    },
    /// Ends the pause of a pipeline.
    Resume(PipelineId),
}

impl Change {
    pub fn pipeline(&self) -> &PipelineId {
        match self {
            Self::Deploy(spec) | Self::Replace(spec) => &spec.id,
            Self::Delete(pipeline) | Self::Pause { pipeline, .. } | Self::Resume(pipeline) => {
                pipeline
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    pub look: Look,
    /// Part of the answer that needs no look-up.
    pub text: String,
}

/// What to look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    Cameras,
    /// These of the deployed pipelines; absent: all.
    Pipelines(Option<Vec<PipelineId>>),
    /// When the camera of these events was watched; absent: all cameras.
    Coverage(Box<EventsWanted>),
    /// Notes of the user, by these words.
    Notes(String),
    /// Cost of the language model.
    Cost,
    /// Status of one camera or of the box.
    Status(Option<SourceId>),
    Events(Box<EventsWanted>),
    /// Classes that the models know.
    Classes,
    /// Requests that are understood.
    Help,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventsWanted {
    /// On this camera; absent: on all.
    pub camera: Option<SourceId>,
    /// At this place of the camera, by its name in the scene; absent: anywhere.
    pub place: Option<String>,
    /// Of these pipelines; empty: of all.
    pub pipelines: Vec<PipelineId>,
    /// About these labels; empty: about all.
    pub labels: Vec<String>,
    /// Of these kinds, by the names of their conditions (`crosses`, `enters`, …); empty: of every
    /// kind.
    pub conditions: Vec<String>,
    /// Of crossings only those of this direction; absent: of both.
    pub direction: Option<CrossDirection>,
    /// From then on.
    pub from: Option<Timestamp>,
    /// Until before then.
    pub to: Option<Timestamp>,
    /// Only their number is wanted.
    pub only_number: bool,
    /// Their pictures are wanted too.
    pub pictures: bool,
    /// The question is whether there were any.
    pub is_yes_or_no: bool,
    /// So many of the newest are enough; absent: as many as are shown.
    pub most: Option<usize>,
    /// Their number is wanted for each hour.
    pub by_hour: bool,
    /// Another span whose number is compared with that of this one; its ends may be open.
    pub compared_with: Option<(Option<Timestamp>, Option<Timestamp>)>,
}

/// A question to the user for a missing part of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The missing part.
    pub about: Missing,
    /// The question, with the remedy.
    pub text: String,
    /// Possible answers, if they can be listed.
    pub choices: Vec<String>,
    /// The user's words so far.
    pub request: String,
}

/// Missing part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Camera,
    Class,
    /// The objects, because no model knows the named ones.
    KnownClass,
    /// The place in the picture.
    Place,
    /// The position of the line.
    Line,
    Duration,
    Pipeline,
    /// The size of the camera's picture, which only the camera knows.
    Picture,
    /// The meaning of the whole text.
    Meaning,
}

impl Question {
    /// The request together with the answer to this question: what to understand next. The caller
    /// understands it like any other text.
    pub fn answered(&self, reply: &str) -> String {
        let request = self.request.trim_end_matches(['.', '!', '?', ' ', '\n']);
        // A sentence of its own: the request may end with what it is not about. A duration in one
        // would be a second condition, and the name of a pipeline may begin with a verb.
        let (mark, link) = match self.about {
            Missing::Camera => (".", "on camera "),
            Missing::Place => (".", "in "),
            Missing::Duration => (",", "for "),
            Missing::Class | Missing::KnownClass | Missing::Line => (".", ""),
            Missing::Pipeline => ("", ""),
            Missing::Picture | Missing::Meaning => return reply.to_owned(),
        };
        let reply = reply.trim();
        let first = reply.split(' ').next().unwrap_or("").to_lowercase();
        let is_said = one_of("on|in|at|for|camera", &first);
        format!("{request}{mark} {}{reply}", if is_said { "" } else { link })
    }
}

/// Nothing was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// One or two sentences with what can be said instead.
    pub text: String,
    /// Words that were not understood, as they were written.
    pub not_understood: Vec<String>,
    /// Classes of something that no model here knows; empty for any other reason.
    pub unseen: Vec<String>,
}
