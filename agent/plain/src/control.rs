//! Stop, pause, resume and change: which pipelines, until when, and what is to be different.
//!
//! Invariant: a request that says more than is understood, such as `stop telling me about cats`, is asked about and not done in part.

use watchkeeper_contract::id::PipelineId;

use crate::answer::Missing;
use crate::hours;
use crate::intent::{Edit, Intent, Objects};
use crate::lexicon::Lexicon;
use crate::names::{self, Cameras, Stand};
use crate::need::{Need, Notes};
use crate::pieces::Asks;
use crate::reader::{Reader, left_over};
use crate::request::{channels, confidence};
use crate::scene::{Deployed, Scene, quoted};
use crate::weighty;

/// Words that mean a pipeline and say nothing else.
const THINGS: &str = "pipelines|pipeline|watches|watch|watching|monitoring|alerts|alert|alarm|alarms|alerting|notifications|streams|stream|rules|rule|cameras|jobs|everything|counting|recording|it|that|detection";

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
    r.take_all(&["turn|switch|shut", OTHERS[0], OTHERS[1]]);
    let spared = spared(&mut r, scene, lexicon);
    let until = match asks {
        Asks::Pause => hours::until(&mut r, &scene.now, &mut notes.assumed),
        _ => None,
    };
    let all = r.take(&["all|every of? the|my|our? cameras|pipelines|watches|streams|alerts|camera|pipeline|watch|monitoring?", "everything", "the lot"]);
    let named = names::pipelines(&mut r, scene);
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
    let on = |id: &watchkeeper_contract::id::SourceId| -> Vec<PipelineId> {
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
const OTHERS: [&str; 2] = [
    "and|but? leave|keep|let the|all? others|other|rest|everything|all|ones|watches|pipelines else? running|run|on|as|alone|untouched|unchanged|be? they|it? are|is?",
    "and|but? nothing|no else|other|others watches|pipelines?",
];

/// The pipelines that are not meant by `all but the yard`; their words are used then.
fn spared(r: &mut Reader, scene: &Scene, lexicon: &Lexicon) -> Vec<PipelineId> {
    let Some(found) = r.find(&[
        "all|everything|every of? the? pipelines|pipeline|watches|watch|cameras|camera|alerts? but|except|excluding for|not?",
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

fn ids(scene: &Scene) -> Vec<String> {
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
    let one = |p: &Deployed| {
        let state = if p.paused { ", paused" } else { "" };
        format!("{} on {}{state}", p.spec.id, p.spec.source)
    };
    let all: Vec<String> = scene.pipelines.iter().map(one).collect();
    format!("There are: {}.", all.join("; "))
}

/// Understands a request to change a pipeline.
pub(crate) fn change(
    mut r: Reader,
    scene: &Scene,
    lexicon: &Lexicon,
    notes: &mut Notes,
) -> Result<Intent, Need> {
    let verbs = lexicon.verbs.change.iter();
    for verb in verbs {
        if r.take(&[verb.as_str()]).is_some() {
            break;
        }
    }
    r.take_all(&["raise|lower|increase|decrease|reduce"]);
    r.take_all(&[OTHERS[0], OTHERS[1]]);
    let (notify, _) = channels(&mut r, scene, notes);
    let named = names::pipelines(&mut r, scene);
    let cameras = match named.is_empty() {
        true => names::cameras(&mut r, scene, lexicon),
        false => Cameras::None,
    };
    let candidates: Vec<&Deployed> = match (&named[..], &cameras) {
        ([], Cameras::These(on)) => scene
            .pipelines
            .iter()
            .filter(|p| on.contains(&p.spec.source))
            .collect(),
        ([], Cameras::Unknown(_)) => Vec::new(),
        ([], _) => scene.pipelines.iter().collect(),
        (named, _) => scene
            .pipelines
            .iter()
            .filter(|p| named.contains(&p.spec.id))
            .collect(),
    };
    let [target] = candidates.as_slice() else {
        let text = format!("Which pipeline shall be changed? {}", listed(scene));
        return Err(Need::new(Missing::Pipeline, text).with(ids(scene)));
    };
    let cooldown = r.take(&[
        "cooldown|cool-down of|to|is? <d>",
        "<d> cooldown|cool-down",
        "once every|per|each <u>",
        "once an|a <u>",
        "<d> between alerts|events|messages",
    ]);
    let stays = r.take(&[
        "for|after at|more|longer? least|than? <d>",
        "duration|time|delay|wait of|to|is? <d>",
        "to <d>",
    ]);
    let mut score = confidence(&mut r, notes)?;
    if score.is_none() {
        // In a change, a bare share can mean nothing else.
        score = r
            .take(&["at|to|is <p>", "confidence|threshold|score <p>"])
            .map(|found| found.value(0))
            .filter(|v| (0.0..=1.0).contains(v));
    }
    if score.is_some() {
        r.take_all(&["confidence|threshold|score|certainty|minimum"]);
    }
    let schedules = hours::schedules(&mut r, &mut notes.assumed);
    let mentions = names::classes(&mut r, scene, lexicon);
    r.take_all(&[
        THINGS,
        "less|more nervous|sensitive|noisy",
        "existing|current",
        "apply|applies|use|used",
        "look|looks for",
        "run|runs|stay|stays|fire|fires|notify|tell|tells|watches",
    ]);
    let wanted: Vec<_> = mentions
        .iter()
        .filter(|m| m.stand == Stand::Wanted && !m.labels.is_empty())
        .collect();
    let only = r.find(&["only|just"]).is_some();
    let adds = r.take_all(&[
        "add|also|too|additionally|include|includes|including",
        "as well",
    ]) && !only;
    let out = |m: &names::Mention| m.stand == Stand::Excluded && !m.labels.is_empty();
    let (left_out, unclear): (Vec<_>, Vec<_>) = mentions
        .iter()
        .filter(|m| m.stand != Stand::Wanted)
        .partition(|m| out(m));
    let used = target
        .spec
        .model
        .clone()
        .or_else(|| crate::watch::named_model(&target.spec.workflow).map(str::to_owned));
    let model = scene
        .models
        .iter()
        .find(|m| Some(&m.name) == used.as_ref())
        .or(scene.models.first());
    let known = model.map(|m| m.labels.as_slice()).unwrap_or_default();
    let now = crate::watch::named_classes(&target.spec.workflow);
    if !unclear.is_empty() || (!left_out.is_empty() && now.is_none() && known.is_empty()) {
        return Err(Need::new(
            Missing::Class,
            "Which classes shall it watch for? Say them all, such as \"only cars and trucks\".",
        ));
    }
    // What it watches for now stays where something is added or left out, and goes where classes are said.
    let keeps = adds || (wanted.is_empty() && !left_out.is_empty());
    let mut objects = Objects::default();
    if keeps {
        objects.labels = now.unwrap_or_else(|| known.to_vec());
    }
    for mention in wanted {
        let labels: Vec<String> = known
            .iter()
            .filter(|l| mention.labels.contains(l))
            .cloned()
            .collect();
        if labels.is_empty() {
            let text = format!(
                "The model of {} does not know {}. Which classes shall it watch for?",
                target.spec.id,
                quoted(&mention.said)
            );
            return Err(Need::new(Missing::Class, text));
        }
        for label in labels {
            if !objects.labels.contains(&label) {
                objects.labels.push(label);
            }
        }
    }
    objects
        .labels
        .retain(|label| !left_out.iter().any(|m| m.labels.contains(label)));
    if objects.labels.is_empty() && !left_out.is_empty() {
        return Err(Need::new(
            Missing::Class,
            "Nothing is left to watch for. Which classes shall it watch for?",
        ));
    }
    objects.said = objects.labels.join(" or ");
    weighty::refuse(&r)?;
    notes.not_understood.extend(left_over(&r, lexicon));
    let edit = Edit {
        pipeline: target.spec.id.clone(),
        objects: (!objects.labels.is_empty()).then_some(objects),
        confidence: score,
        cooldown_s: cooldown.map(|f| f.value(0)),
        stays_s: stays.map(|f| f.value(0)),
        schedules,
        notify,
    };
    let nothing = edit.objects.is_none()
        && edit.confidence.is_none()
        && edit.cooldown_s.is_none()
        && edit.stays_s.is_none()
        && edit.schedules.is_empty()
        && edit.notify.is_empty();
    if nothing {
        return Err(Need::new(
            Missing::Meaning,
            format!(
                "What shall be different about {}? Say the request again with classes (\"only cars\"), a confidence (\"confidence 0.6\"), a cool-down, a duration, hours or a channel.",
                edit.pipeline
            ),
        ));
    }
    Ok(Intent::Change(Box::new(edit)))
}
