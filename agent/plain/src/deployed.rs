//! The deployed pipelines: which of them a sentence means, and sentences that list them.

use watchkeeper_contract::id::PipelineId;

use crate::answer::Missing;
use crate::names;
use crate::propose::pause_end;
use crate::reader::Reader;
use crate::refusal::Refusal;
use crate::scene::{Deployed, Scene, joined, quoted};

/// Words that mean a pipeline and say nothing else.
pub(crate) const THINGS: &str = "pipelines|pipeline|watches|watch|watching|monitoring|alerts|alert|alarm|alarms|streams|stream|cameras|everything|counter|counters|it|that|detection";

/// The pipelines that a sentence names by their ids, their names or a class, and whether only the
/// class names them. Their camera adds nothing: `the gate alarm of the gate camera`.
///
/// `stops_telling`: the class is no longer to be reported.
pub(crate) fn named(r: &mut Reader<'_>, stops_telling: bool) -> (Vec<PipelineId>, bool) {
    let mut named = names::pipelines(r, false);
    let is_by_class = named.is_empty();
    let mut with = r.clone();
    let cameras = names::cameras(&mut with);
    if let Some((at, of_class)) = names::pipelines_of_class(r, stops_telling, &cameras)
        && !of_class.is_empty()
        && named.iter().all(|id| of_class.contains(id))
    {
        r.mark(at.clone());
        with.mark(at);
        if is_by_class {
            named = of_class;
        }
    }
    let first = named.first().and_then(|id| r.scene.pipeline(id));
    let is_there = |p: &Deployed| cameras == [p.spec.source.clone()];
    if first.is_some_and(|p| is_there(p) || is_by_class && !cameras.is_empty()) {
        *r = with;
    }
    (named, is_by_class)
}

/// The question which of some pipelines is meant; of all if the list is empty.
pub(crate) fn which(question: &str, some: &[&Deployed], scene: &Scene) -> Refusal {
    let all: Vec<&Deployed> = scene.pipelines.iter().collect();
    let some = if some.is_empty() { &all } else { some };
    let choices = some.iter().map(|p| p.spec.id.to_string()).collect();
    let text = format!("{question} {}", sentence(some));
    Refusal::new(Missing::Pipeline, text).with(choices)
}

/// Lists pipelines in a sentence.
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
    match pipelines.is_empty() {
        true => "Nothing is deployed there.".to_owned(),
        false => format!("There are: {}.", joined(pipelines.iter().map(one), "; ")),
    }
}
