//! The deployed pipelines: words that mean them, their ids, and sentences that list them.

use watchkeeper_contract::id::{PipelineId, SourceId};

use crate::names::{self, Cameras};
use crate::reader::Reader;
use crate::scene::{Deployed, Scene, quoted};

/// Words that mean a pipeline and say nothing else.
pub(crate) const THINGS: &str = "pipelines|pipeline|watches|watch|watching|monitoring|alerts|alert|alarm|alarms|streams|stream|cameras|jobs|everything|counter|counters|it|that|detection";

/// Words that say only that the rest stays as it is.
pub(crate) const OTHERS: [&str; 2] = [
    "and|but? leave|keep|let the|all? others|other|rest|everything|all|ones|watches|pipelines else? running|run|on|as|alone|untouched|unchanged|be? they|it? are|is?",
    "and|but? nothing|no else|other|others watches|pipelines?",
];

/// Takes the camera of the named pipelines, which adds nothing:
/// `the gate alarm of the gate camera`.
///
/// Another camera stays unread, because no change moves a watch.
pub(crate) fn its_camera(r: &mut Reader<'_>, named: &[PipelineId]) {
    let mut with = r.clone();
    let Cameras::These(on) = names::cameras(&mut with) else {
        return;
    };
    let mut watches = named.iter().filter_map(|id| r.scene.pipeline(id));
    if on.len() == 1 && watches.all(|p| on.contains(&p.spec.source)) {
        *r = with;
    }
}

/// Ids of all pipelines.
pub(crate) fn ids_of(scene: &Scene) -> Vec<PipelineId> {
    scene.pipelines.iter().map(|p| p.spec.id.clone()).collect()
}

/// Lists all pipelines in a sentence.
pub(crate) fn listed(scene: &Scene) -> String {
    if scene.pipelines.is_empty() {
        return "Nothing is deployed.".to_owned();
    }
    sentence(scene.pipelines.iter())
}

/// Lists some pipelines in a sentence.
pub(crate) fn listed_of(pipelines: &[&Deployed]) -> String {
    sentence(pipelines.iter().copied())
}

/// Lists the pipelines of one camera in a sentence.
pub(crate) fn listed_on(scene: &Scene, camera: &SourceId) -> String {
    match scene.on(camera).next() {
        None => format!("Nothing is deployed on {camera}."),
        Some(_) => sentence(scene.on(camera)),
    }
}

fn sentence<'s>(pipelines: impl Iterator<Item = &'s Deployed>) -> String {
    let one = |p: &Deployed| {
        let called = match p.name == p.spec.id.as_str() {
            true => String::new(),
            false => format!(" ({})", quoted(&p.name)),
        };
        let state = if p.paused { ", paused" } else { "" };
        format!("{}{called} on {}{state}", p.spec.id, p.spec.source)
    };
    let all: Vec<String> = pipelines.map(one).collect();
    format!("There are: {}.", all.join("; "))
}
