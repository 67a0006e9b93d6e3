//! The deployed pipelines: which of them a sentence means, and sentences that list them.

use watchkeeper_contract::id::{PipelineId, SourceId};

use crate::answer::Missing;
use crate::kinds::looks_at;
use crate::names;
use crate::propose::pause_end;
use crate::reader::Reader;
use crate::refusal::Refusal;
use crate::scene::{Camera, Deployed, Scene, quoted};

/// Words that mean a pipeline and say nothing else.
pub(crate) const THINGS: &str = "pipelines|pipeline|watches|watch|watching|monitoring|alerts|alert|alarm|alarms|streams|stream|cameras|jobs|everything|counter|counters|it|that|detection";

/// The pipelines that a sentence names: by their ids, their names, or the class or place that only
/// one watches. Their camera adds nothing: `the gate alarm of the gate camera`. `orders`: a class
/// behind "about" names its watch, as in `stop telling me about cars`.
pub(crate) fn named(r: &mut Reader<'_>, orders: bool) -> Vec<PipelineId> {
    let mut named = names::pipelines(r, false);
    if named.is_empty() {
        let is_place = orders && !r.says(&["delete|deletes|remove|removes"]);
        let of_class = names::pipeline_of_class(r, orders);
        named.extend(of_class.or_else(|| of_place(r).filter(|_| is_place)));
    }
    let mut with = r.clone();
    if let [camera] = names::cameras(&mut with).as_slice()
        && let Some(id) = named.first()
        && r.scene
            .pipeline(id)
            .is_some_and(|p| p.spec.source == *camera)
    {
        *r = with;
    }
    named
}

/// The only pipeline that looks at the place which a sentence names: `stop watching the pool`.
fn of_place(r: &mut Reader<'_>) -> Option<PipelineId> {
    let mut with = r.clone();
    let cameras: Vec<&Camera> = r.scene.cameras.iter().collect();
    let (camera, place) = names::known_place(&mut with, &cameras, names::is_where)?;
    let on_it = r.scene.on(&camera.id);
    let at_it: Vec<&Deployed> = on_it.filter(|p| looks_at(p, &place.name)).collect();
    let [only] = at_it[..] else {
        return None;
    };
    let is_place = !names::mentions_camera(r);
    is_place.then(|| {
        *r = with;
        only.spec.id.clone()
    })
}

/// The question which of some pipelines is meant; of all if the list is empty.
pub(crate) fn which(question: &str, some: &[&Deployed], scene: &Scene) -> Refusal {
    let all: Vec<&Deployed> = scene.pipelines.iter().collect();
    let some = if some.is_empty() { &all } else { some };
    let choices = some.iter().map(|p| p.spec.id.to_string()).collect();
    let text = format!("{question} {}", sentence(some.iter().copied()));
    Refusal::new(Missing::Pipeline, text).with(choices)
}

/// Refuses a place that is named where a watch is meant, with the watches on its camera.
pub(crate) fn refuse_place(r: &Reader<'_>) -> Result<(), Refusal> {
    let cameras: Vec<&Camera> = r.scene.cameras.iter().collect();
    let named = names::known_place(&mut r.clone(), &cameras, |_, _| true);
    named.map_or(Ok(()), |(camera, place)| {
        Err(Refusal::meaning(format!(
            "{} is a place on {}, not a watch. {} Say it again with the name of the watch.",
            quoted(&place.name),
            camera.id,
            listed(r.scene, Some(&camera.id), None)
        )))
    })
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
        (false, _) => sentence(asked.into_iter()),
        (true, Some(_)) => format!("Nothing is paused{on}."),
        (true, None) => format!("Nothing is deployed{on}."),
    }
}

pub(crate) fn sentence<'s>(pipelines: impl Iterator<Item = &'s Deployed>) -> String {
    let one = |p: &Deployed| {
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
    let all: Vec<String> = pipelines.map(one).collect();
    match all.is_empty() {
        true => "Nothing is deployed.".to_owned(),
        false => format!("There are: {}.", all.join("; ")),
    }
}
