//! Stop, pause and resume: which pipelines, and until when.
//!
//! Invariant: a request that says more than is understood, such as `stop telling me about cats`, is asked about and not done in part.

use watchkeeper_contract::id::{PipelineId, SourceId};

use crate::answer::Missing;
use crate::hours;
use crate::intent::Intent;
use crate::lexicon::Lexicon;
use crate::names::{self, Cameras};
use crate::need::{Need, Notes};
use crate::pieces::Asks;
use crate::reader::{Reader, left_over};
use crate::scene::{Deployed, Scene, quoted};
use crate::weighty;

/// Words that mean a pipeline and say nothing else.
pub(crate) const THINGS: &str = "pipelines|pipeline|watches|watch|watching|monitoring|alerts|alert|alarm|alarms|alerting|notifications|streams|stream|rules|rule|cameras|jobs|everything|counting|counter|counters|recording|it|that|detection";

/// Understands a request to stop, pause or resume.
pub(crate) fn control(
    mut r: Reader,
    asks: Asks,
    scene: &Scene,
    lexicon: &Lexicon,
    notes: &mut Notes,
) -> Result<Intent, Need> {
    let verbs = match asks {
        Asks::Stop => &lexicon.verbs.stop,
        Asks::Pause => &lexicon.verbs.pause,
        _ => &lexicon.verbs.resume,
    };
    let verb = verbs.iter().find_map(|v| r.take(&[v.as_str()]));
    let usual = match asks {
        Asks::Stop => "stop",
        Asks::Pause => "pause",
        _ => "resume",
    };
    let word = verb.map_or_else(|| usual.to_owned(), |v| r.written(v.at).to_lowercase());
    r.take_all(&[
        "turn|switch|shut|put",
        "back on|off",
        "on hold",
        "on|off again",
        OTHERS[0],
        OTHERS[1],
    ]);
    r.take_all(&["old|current|existing"]);
    let spared = spared(&mut r, scene, lexicon);
    // A name may have a time in it: `the night patrol`.
    let named = names::pipelines(&mut r, scene);
    let until = match asks {
        Asks::Pause => hours::until(&mut r, &scene.now, &mut notes.assumed),
        _ => None,
    };
    let all = r.take(&["all|every of? the|my|our? cameras|pipelines|watches|streams|alerts|camera|pipeline|watch|monitoring?", "all|both of them", "everything", "the lot"]);
    let cameras = match named.is_empty() && spared.is_empty() {
        true => names::cameras(&mut r, scene, lexicon),
        false => Cameras::None,
    };
    r.take_all(&[THINGS]);
    let mut rest = left_over(&r, lexicon);
    if rest.is_empty()
        && let Some(at) = weighty::left_out(&r)
    {
        rest.push(r.written(at));
    }
    if !rest.is_empty() {
        let rest: Vec<String> = rest.iter().map(|w| quoted(w)).collect();
        let text = format!(
            "I can {word} whole pipelines or cameras; I did not understand {}. Which pipeline shall I {word}? {}",
            rest.join(", "),
            listed(scene)
        );
        return Err(Need::new(Missing::Meaning, text).with(ids(scene)));
    }
    let on = |id: &SourceId| -> Vec<PipelineId> {
        let on = scene.pipelines.iter().filter(|p| p.spec.source == *id);
        on.map(|p| p.spec.id.clone()).collect()
    };
    let targets = match (all.is_some(), named, cameras) {
        _ if !spared.is_empty() => {
            let mut targets = ids_of(scene);
            targets.retain(|id| !spared.contains(id));
            targets
        }
        (true, named, Cameras::None | Cameras::All | Cameras::Unknown(_)) if named.is_empty() => {
            ids_of(scene)
        }
        (_, _, Cameras::All) => ids_of(scene),
        (_, named, _) if !named.is_empty() => named,
        (_, _, Cameras::These(cameras)) => {
            let targets: Vec<PipelineId> = cameras.iter().flat_map(on).collect();
            if targets.is_empty() {
                let names: Vec<&str> = cameras.iter().map(|c| c.as_str()).collect();
                let text = format!(
                    "Nothing runs on {}. Which pipeline shall I {word}? {}",
                    names.join(", "),
                    listed(scene)
                );
                return Err(Need::new(Missing::Pipeline, text).with(ids(scene)));
            }
            targets
        }
        (_, _, Cameras::Unknown(written)) => return Err(names::no_such_camera(&written, scene)),
        _ => match scene.pipelines.as_slice() {
            [only] => {
                notes
                    .assumed
                    .push(format!("The pipeline is {}, the only one.", only.spec.id));
                vec![only.spec.id.clone()]
            }
            _ => {
                let text = format!("Which one shall I {word}? {}", listed(scene));
                return Err(Need::new(Missing::Pipeline, text).with(ids(scene)));
            }
        },
    };
    if targets.is_empty() {
        return Err(Need::new(
            Missing::Pipeline,
            format!("Nothing runs, so there is nothing to {word}."),
        ));
    }
    Ok(match asks {
        Asks::Stop => Intent::Stop(targets),
        Asks::Pause => Intent::Pause {
            pipelines: targets,
            until,
        },
        _ => Intent::Resume(targets),
    })
}

/// Words that say only that the rest stays as it is.
pub(crate) const OTHERS: [&str; 2] = [
    "and|but? leave|keep|let the|all? others|other|rest|everything|all|ones|watches|pipelines else? running|run|on|as|alone|untouched|unchanged|be? they|it? are|is?",
    "and|but? nothing|no else|other|others watches|pipelines?",
];

/// The pipelines that are not meant by `all but the yard`; their words are used then.
fn spared(r: &mut Reader, scene: &Scene, lexicon: &Lexicon) -> Vec<PipelineId> {
    let Some(found) = r.find(&[
        "all|everything|every of? the? pipelines|pipeline|watches|watch|cameras|camera|alerts? off|down? but|except|excluding for|not?",
    ]) else {
        return Vec::new();
    };
    let mut later = r.clone();
    later.mark(0..found.at.end);
    let mut spared = names::pipelines(&mut later, scene);
    if spared.is_empty()
        && let Cameras::These(on) = names::cameras(&mut later, scene, lexicon)
    {
        let there = scene
            .pipelines
            .iter()
            .filter(|p| on.contains(&p.spec.source));
        spared = there.map(|p| p.spec.id.clone()).collect();
    }
    if !spared.is_empty() {
        r.mark(found.at.clone());
        for i in found.at.end..r.tokens.len() {
            if later.word(i).is_empty() {
                r.mark(i..i + 1);
            }
        }
    }
    spared
}

fn ids_of(scene: &Scene) -> Vec<PipelineId> {
    scene.pipelines.iter().map(|p| p.spec.id.clone()).collect()
}

pub(crate) fn ids(scene: &Scene) -> Vec<String> {
    scene
        .pipelines
        .iter()
        .map(|p| p.spec.id.to_string())
        .collect()
}

/// What runs, as a sentence.
pub(crate) fn listed(scene: &Scene) -> String {
    if scene.pipelines.is_empty() {
        return "Nothing is deployed.".to_owned();
    }
    sentence(scene.pipelines.iter())
}

/// These of what runs, as a sentence.
pub(crate) fn listed_of(pipelines: &[&Deployed]) -> String {
    sentence(pipelines.iter().copied())
}

/// What runs on one camera, as a sentence.
pub(crate) fn listed_on(scene: &Scene, camera: &SourceId) -> String {
    let mut on_it = scene
        .pipelines
        .iter()
        .filter(|p| p.spec.source == *camera)
        .peekable();
    match on_it.peek() {
        None => format!("Nothing is deployed on {camera}."),
        Some(_) => sentence(on_it),
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
