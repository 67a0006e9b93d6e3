//! The deployed pipelines: which of them a sentence means, and sentences that list them.

use watchkeeper_contract::id::{PipelineId, SourceId};

use crate::answer::Missing;
use crate::names;
use crate::propose::pause_end;
use crate::reader::Reader;
use crate::refusal::Refusal;
use crate::scene::{Deployed, Scene, quoted};

/// Words that mean a pipeline and say nothing else.
pub(crate) const THINGS: &str = "pipelines|pipeline|watches|watch|watching|monitoring|alerts|alert|alarm|alarms|streams|stream|cameras|jobs|everything|counter|counters|it|that|detection";

/// The pipelines that a sentence names: by their ids, their names, or the class that only one
/// watches. Their camera adds nothing: `the gate alarm of the gate camera`.
pub(crate) fn named(r: &mut Reader<'_>) -> Vec<PipelineId> {
    let mut named = names::pipelines(r, false);
    if named.is_empty() {
        named.extend(names::pipeline_of_class(r));
    }
    let mut with = r.clone();
    let cameras = names::cameras(&mut with);
    let first = named.first().and_then(|id| r.scene.pipeline(id));
    if first.is_some_and(|p| cameras == [p.spec.source.clone()]) {
        *r = with;
    }
    named
}

/// The question which of some pipelines is meant; of all if the list is empty.
pub(crate) fn which(question: &str, some: &[&Deployed], scene: &Scene) -> Refusal {
    let all: Vec<&Deployed> = scene.pipelines.iter().collect();
    let some = if some.is_empty() { &all } else { some };
    let choices = some.iter().map(|p| p.spec.id.to_string()).collect();
    let listed = match some.is_empty() {
        true => listed(scene, None, None),
        false => sentence(some),
    };
    Refusal::new(Missing::Pipeline, format!("{question} {listed}")).with(choices)
}

/// Ids of all pipelines.
pub(crate) fn ids_of(scene: &Scene) -> Vec<PipelineId> {
    scene.pipelines.iter().map(|p| p.spec.id.clone()).collect()
}

/// Lists pipelines in a sentence: those of one camera, and those that are paused or are not.
pub(crate) fn listed(scene: &Scene, camera: Option<&SourceId>, paused: Option<bool>) -> String {
    let is_asked = |p: &&Deployed| {
        camera.is_none_or(|camera| p.spec.source == *camera)
            && paused.is_none_or(|paused| p.paused == paused)
    };
    let asked: Vec<&Deployed> = scene.pipelines.iter().filter(is_asked).collect();
    let on = camera.map_or_else(String::new, |camera| format!(" on {camera}"));
    match (asked.is_empty(), paused) {
        (false, _) => sentence(&asked),
        (true, Some(_)) => format!("Nothing is paused{on}."),
        (true, None) => format!("Nothing is deployed{on}."),
    }
}

pub(crate) fn sentence(pipelines: &[&Deployed]) -> String {
    let one = |p: &&Deployed| {
        let called = match p.name == p.spec.id.as_str() {
            true => String::new(),
            false => format!(" ({})", quoted(&p.name)),
        };
        let state = match (p.paused, &p.paused_until) {
            (false, _) => String::new(),
            (true, None) => ", paused".to_owned(),
            (true, end) => format!(", paused {}", pause_end(end.as_ref()).to_lowercase()),
        };
        format!("{}{called} on {}{state}", p.spec.id, p.spec.source)
    };
    let all: Vec<String> = pipelines.iter().map(one).collect();
    format!("There are: {}.", all.join("; "))
}
