//! What is to be different about a watch that there is: which one, and what a sentence wants of it.
//!
//! Owns: [`Wanted`], the settings that a sentence may name, which a change of a pipeline and a correction of a proposal ([`crate::amend`]) have in common.
//! Invariant: what was not said stays as it is.

use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::rule::{ClipSpec, Schedule};

use crate::answer::Missing;
use crate::control::{OTHERS, THINGS, ids, listed};
use crate::hours;
use crate::intent::{Edit, Intent, Objects};
use crate::lexicon::Lexicon;
use crate::names::{self, Cameras, Mention, Stand};
use crate::need::{Need, Notes};
use crate::reader::{Reader, left_over};
use crate::request::{channels, confidence, wishes};
use crate::scene::{Deployed, Scene, quoted};
use crate::weighty;

/// Settings that a sentence names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Classes that it names, and how.
    pub(crate) mentions: Vec<Mention>,
    /// Whether they come to those that there are.
    pub(crate) adds: bool,
    /// The lowest score of a detection.
    pub(crate) confidence: Option<f64>,
    /// Seconds of quiet after an event.
    pub(crate) cooldown_s: Option<f64>,
    /// Seconds for which it has to be so.
    pub(crate) stays_s: Option<f64>,
    /// Hours.
    pub(crate) schedules: Vec<Schedule>,
    /// Channels by which people are told.
    pub(crate) notify: Vec<ChannelId>,
    /// The clip that each event keeps.
    pub(crate) clip: Option<ClipSpec>,
}

impl Wanted {
    /// Whether it names none at all.
    pub(crate) fn is_nothing(&self) -> bool {
        self.mentions.is_empty()
            && self.confidence.is_none()
            && self.cooldown_s.is_none()
            && self.stays_s.is_none()
            && self.schedules.is_empty()
            && self.notify.is_empty()
            && self.clip.is_none()
    }
}

/// Reads the settings that a sentence names; their words are used then.
pub(crate) fn wanted(
    r: &mut Reader,
    scene: &Scene,
    lexicon: &Lexicon,
    notes: &mut Notes,
) -> Result<Wanted, Need> {
    let (notify, _) = channels(r, scene, notes);
    let only = r.find(&["only|just"]).is_some();
    let wished = wishes(r, notes)?;
    let cooldown = r.take(&[
        "cooldown|cool-down of|to|is? <d>",
        "<d> cooldown|cool-down",
        "at|no|not|max|maximum? most|more? often? than? once|one|1 alert|message|event|notification|warning? every|per|each|in|an|a <u>",
        "once every|per|each <u>",
        "once an|a <u>",
        "<d> between alerts|events|messages",
        "quiet|silent for <d>",
    ]);
    let stays = r.take(&[
        "for|after at|more|longer? least|than? <d>",
        "duration|time|delay|wait of|to|is? <d>",
        "more|longer|over|at than|least? <d>",
        "it|that <d>",
        "to <d>",
        "<d> or longer|more?",
    ]);
    let mut score = confidence(r, notes)?;
    let schedules = hours::schedules(r, &mut notes.assumed);
    if score.is_none() {
        // Where something is set, a bare share can mean nothing else.
        score = r
            .take(&["at|to|is <p>", "confidence|threshold|score <p>"])
            .map(|found| found.value(0))
            .filter(|v| (0.0..=1.0).contains(v));
    }
    if score.is_some() {
        r.take_all(&["confidence|threshold|score|certainty|minimum"]);
    }
    let mentions = names::classes(r, scene, lexicon);
    let adds = r.take_all(&[
        "add|also|too|additionally|include|includes|including",
        "as well",
    ]) && !only;
    Ok(Wanted {
        mentions,
        adds,
        confidence: score,
        cooldown_s: cooldown.map(|f| f.value(0)),
        stays_s: stays.map(|f| f.value(0)),
        schedules,
        notify,
        clip: wished.clip,
    })
}

/// The classes that a watch has after it was told these: `now` are those that it has, `None` where nobody knows, `known` those of its model.
pub(crate) fn classes(
    wanted: &Wanted,
    now: Option<Vec<String>>,
    known: &[String],
    of: &str,
) -> Result<Option<Objects>, Need> {
    if wanted.mentions.is_empty() {
        return Ok(None);
    }
    let is_wanted = |m: &&Mention| m.stand == Stand::Wanted && !m.labels.is_empty();
    // Of a watch that there is `no cats` says what it is not to watch for.
    let is_out = |m: &&Mention| m.stand != Stand::Wanted && !m.labels.is_empty();
    let named: Vec<&Mention> = wanted.mentions.iter().filter(is_wanted).collect();
    let left_out: Vec<&Mention> = wanted.mentions.iter().filter(is_out).collect();
    let unclear = wanted
        .mentions
        .iter()
        .any(|m| m.stand != Stand::Wanted && !is_out(&m));
    if unclear || (!left_out.is_empty() && now.is_none() && known.is_empty()) {
        return Err(Need::new(
            Missing::Class,
            "Which classes shall it watch for? Say them all, such as \"only cars and trucks\".",
        ));
    }
    // What it watches for now stays where something is added or left out, and goes where classes are said.
    let keeps = wanted.adds || (named.is_empty() && !left_out.is_empty());
    let mut objects = Objects::default();
    if keeps {
        objects.labels = now.unwrap_or_else(|| known.to_vec());
    }
    for mention in named {
        let labels: Vec<String> = known
            .iter()
            .filter(|l| mention.labels.contains(l))
            .cloned()
            .collect();
        if labels.is_empty() {
            let text = format!(
                "The model of {of} does not know {}. Which classes shall it watch for?",
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
    Ok((!objects.labels.is_empty()).then_some(objects))
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
    let wanted = wanted(&mut r, scene, lexicon, notes)?;
    r.take_all(&[
        THINGS,
        "less|more|too? nervous|sensitive|noisy|jumpy|twitchy|touchy",
        "existing|current",
        "apply|applies|use|used",
        "look|looks for",
        "run|runs|stay|stays|fire|fires|notify|tell|tells|watches|keep|keeps|record|records|save|saves",
    ]);
    // `instead of the other` would have to take something away.
    if r.find(&["instead of"]).is_none() {
        r.take_all(&["instead"]);
    }
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
    let objects = classes(&wanted, now, known, target.spec.id.as_str())?;
    weighty::refuse(&r)?;
    notes.not_understood.extend(left_over(&r, lexicon));
    if objects.is_none() && wanted.is_nothing() {
        return Err(Need::new(
            Missing::Meaning,
            format!(
                "What shall be different about {}? Say the request again with classes (\"only cars\"), a confidence (\"confidence 0.6\"), a cool-down, a duration, hours, a channel or a clip.",
                target.spec.id
            ),
        ));
    }
    Ok(Intent::Change(Box::new(Edit {
        pipeline: target.spec.id.clone(),
        objects,
        confidence: wanted.confidence,
        cooldown_s: wanted.cooldown_s,
        stays_s: wanted.stays_s,
        schedules: wanted.schedules,
        notify: wanted.notify,
        clip: wanted.clip,
    })))
}
