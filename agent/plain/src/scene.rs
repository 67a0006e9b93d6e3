//! What the caller knows about the box: cameras, pipelines, models and the time.
//!
//! Invariant: names come from outside and are never read as a request. They are compared with a
//! user's words, and shown cut and quoted ([`quoted`]).

use jiff::Zoned;
use watchkeeper_contract::id::{ChannelId, PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_engine::templates::watch;

/// The box as far as a request can be about it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scene {
    pub cameras: Vec<Camera>,
    /// The deployed pipelines.
    pub pipelines: Vec<Deployed>,
    /// Models that can be used, the preferred one first. At least one, else nothing can be watched.
    pub models: Vec<Model>,
    /// Classes that some model knows, whether it can be used or not. A question about the past may
    /// name them.
    pub classes: Vec<String>,
    /// Channels that can notify people.
    pub channels: Vec<ChannelId>,
    /// The time at the box, with its zone.
    pub now: Zoned,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Camera {
    pub id: SourceId,
    /// What people call it; may be the id.
    pub name: String,
    /// Width and height of its picture in pixels, once one was seen.
    pub size: Option<[u32; 2]>,
    /// Places in its picture that have a name, because a person drew them before.
    pub places: Vec<Place>,
}

/// A place in a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// What people call it.
    pub name: String,
    /// Its shape in the picture.
    pub shape: Shape,
}

/// A shape in a picture, in shares of its width and height: `0.0..=1.0` from the top left.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A closed polygon of at least three corners.
    Zone(Vec<[f64; 2]>),
    /// A directed line, from start to end.
    Line([f64; 2], [f64; 2]),
}

/// A pipeline that is deployed.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployed {
    /// The deployed specification.
    pub spec: PipelineSpec,
    /// What people call it; may be the id.
    pub name: String,
    /// Whether it is paused.
    pub paused: bool,
    /// When its pause ends automatically; absent: it is not paused, or until somebody resumes it.
    pub paused_until: Option<Zoned>,
    /// Its state where it does not run although it should, such as `failed: no such model`.
    pub not_running: Option<String>,
}

/// The state of a pipeline that runs.
pub(crate) const RUNNING: &str = "running";
/// The state of a pipeline that is paused, by a request or by heat.
pub(crate) const PAUSED: &str = "paused";

impl Deployed {
    /// Its state in a word or a sentence.
    pub(crate) fn state(&self) -> &str {
        match &self.not_running {
            Some(state) => state,
            None if self.paused => PAUSED,
            None => RUNNING,
        }
    }

    /// Classes that it watches for; empty: all that its model knows.
    pub(crate) fn classes(&self) -> Vec<String> {
        watch::named_classes(&self.spec.workflow).unwrap_or_default()
    }

    /// Whether it reports events, and does not only count.
    pub(crate) fn makes_events(&self) -> bool {
        let rules = self.spec.rules.as_ref();
        rules.is_none_or(|rules| !rules.is_empty())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Its name, as a workflow names it.
    pub name: String,
    /// Classes that it knows; empty for a model without classes, such as `motion`.
    pub labels: Vec<String>,
}

/// Longest name that is shown.
const SHOWN: usize = 60;

/// A name from outside as it is shown: in quotes, without control characters, cut.
pub fn quoted(name: &str) -> String {
    let plain = name.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut cut: String = plain.take(SHOWN).collect();
    if name.chars().count() > SHOWN {
        cut.push('…');
    }
    format!("\"{}\"", cut.replace('"', "'"))
}

/// Parts of a sentence with a link between them.
pub(crate) fn joined<T: ToString>(parts: impl IntoIterator<Item = T>, link: &str) -> String {
    let parts: Vec<String> = parts.into_iter().map(|part| part.to_string()).collect();
    parts.join(link)
}

/// Names or words as a sentence shows them, with a link between them.
pub(crate) fn quoted_all(names: &[String], link: &str) -> String {
    joined(names.iter().map(|name| quoted(name)), link)
}

impl Scene {
    /// The cameras of these ids, in their order; all if the list is empty.
    pub(crate) fn named_cameras(&self, ids: &[SourceId]) -> Vec<&Camera> {
        match ids.is_empty() {
            true => self.cameras.iter().collect(),
            false => ids.iter().filter_map(|id| self.camera(id)).collect(),
        }
    }

    /// The names of the models, as a sentence lists them.
    pub(crate) fn model_names(&self) -> String {
        joined(self.models.iter().map(|model| &model.name), ", ")
    }

    /// The model of a pipeline, as far as it is known.
    pub(crate) fn model_of(&self, deployed: &Deployed) -> Option<&Model> {
        let named = || watch::named_model(&deployed.spec.workflow);
        let used = deployed.spec.model.as_deref().or_else(named);
        let mut models = self.models.iter();
        let found = models.find(|m| Some(m.name.as_str()) == used);
        found.or(self.models.first())
    }

    /// Whether a pipeline reports whatever moves, of no class.
    pub(crate) fn tells_none_apart(&self, deployed: &Deployed) -> bool {
        let model = self.model_of(deployed);
        model.is_some_and(|model| model.labels.is_empty())
    }

    /// The camera of this id.
    pub(crate) fn camera(&self, id: &SourceId) -> Option<&Camera> {
        self.cameras.iter().find(|c| c.id == *id)
    }

    /// The pipeline of this id.
    pub(crate) fn pipeline(&self, id: &PipelineId) -> Option<&Deployed> {
        self.pipelines.iter().find(|p| p.spec.id == *id)
    }

    /// The ids of the pipelines on these cameras.
    pub(crate) fn ids_on(&self, cameras: &[SourceId]) -> Vec<PipelineId> {
        let there = cameras.iter().flat_map(|camera| self.on(camera));
        there.map(|p| p.spec.id.clone()).collect()
    }

    /// The pipelines on a camera.
    pub(crate) fn on<'s>(&'s self, id: &SourceId) -> impl Iterator<Item = &'s Deployed> {
        self.pipelines.iter().filter(move |p| p.spec.source == *id)
    }
}
