//! Stop, pause and resume: which pipelines, and until when.
//!
//! - A stop is a pause, and says how to delete; only a verb of deleting ends a watch for good.
//! - An order with an unread word, such as `stop telling me about cats`, is not carried out in
//!   part.
//! - A watch is named by its id, its name, its camera, or the class that only it watches for.

use watchkeeper_contract::id::{PipelineId, SourceId};

use crate::asks::Asks;
use crate::closed;
use crate::deployed::{self, OTHERS, THINGS, ids_of, listed, which};
use crate::intent::Intent;
use crate::lexicon::VerbKind;
use crate::moments;
use crate::names::{self, Cameras};
use crate::need::{Need, Notes};
use crate::reader::{Reader, one_of};
use crate::scene::{Scene, quoted};

/// Words that say nothing of which pipelines are meant.
const SMALL: &str = "ones|to|then|and|for|of|on|in|at|about|off|camera|cam|only|just|please|all|every|each|both|anyway|telling|current|existing|old";
const PAUSED_INSTEAD: &str =
    "It is paused, so that it can be resumed; say \"delete\" to remove it for good.";

/// Understands a request to stop, pause or resume.
///
/// `behind`: a new watch stands before it. An order that names nothing may mean that one, which
/// does not run yet, and is refused.
pub(crate) fn control(r: &mut Reader<'_>, asks: Asks, behind: bool) -> Result<Intent, Need> {
    r.take_all(&OTHERS);
    let mixed = on_and_off(r);
    let verb = Verb::take(r, asks);
    let spared = spared(r);
    let named = match spared.is_empty() {
        true => deployed::named(r),
        false => Vec::new(),
    };
    let is_named = !named.is_empty();
    let until = match asks {
        Asks::Stop | Asks::Pause if !verb.deletes => {
            r.take_all(&["for now", "for the moment"]);
            moments::until(r)
        }
        _ => None,
    };
    verb.refuse_a_camera_itself(r, &named)?;
    let several =
        r.find(&["both|all|every|each|watches|alarms|pipelines|alerts|those|ones|everything"]);
    let all = verb.ends_all_pauses || r.take(&ALL).is_some();
    let cameras = match is_named || !spared.is_empty() {
        true => Cameras::None,
        false => names::cameras(r),
    };
    let mut left = verb.unread(r, all);
    left.extend(mixed);
    if !left.is_empty() {
        return Err(verb.not_read(left, r.scene));
    }
    if behind && !is_named && spared.is_empty() && cameras == Cameras::None && !all {
        return Err(names_none(r));
    }
    let by_camera = matches!(cameras, Cameras::These(_)) && !one_on_each(&cameras, r.scene);
    let mut targets = match spared.is_empty() {
        true => verb.targets(all, named, cameras, r.scene, &mut r.notes)?,
        false => ids_of(r.scene),
    };
    targets.retain(|id| !spared.contains(id));
    verb.keep_meant(&mut targets, r.scene)?;
    if by_camera && !all && several.is_none() && targets.len() > 1 {
        return Err(verb.which(&targets, r.scene));
    }
    if asks == Asks::Stop && !verb.deletes && until.is_none() {
        r.assume(PAUSED_INSTEAD);
    }
    Ok(match asks {
        Asks::Stop if verb.deletes => Intent::Stop(targets),
        Asks::Stop | Asks::Pause => Intent::Pause {
            pipelines: targets,
            until,
        },
        _ => Intent::Resume(targets),
    })
}

/// Refuses an order that does not say which watch it means.
fn names_none(r: &Reader<'_>) -> Need {
    let end = r.tokens.iter().rposition(|t| t.is_word());
    let written = r.written(0..end.map_or(0, |end| end + 1));
    Need::not_read(
        format!(
            "{} does not say which watch it means, and the new one does not run yet, so nothing is done. Say it with the name of a watch.",
            quoted(&written)
        ),
        vec![written],
    )
}

/// All that runs.
const ALL: [&str; 4] = [
    "all|every of? the|my|our? cameras|pipelines|watches|streams|alerts|camera|pipeline|watch|monitoring",
    "all|both of? them",
    "everything",
    "the lot",
];

/// Whether several cameras are named and one watch runs on each: then nothing is left to choose.
fn one_on_each(cameras: &Cameras, scene: &Scene) -> bool {
    match cameras {
        Cameras::These(on) => on.len() > 1 && on.iter().all(|id| scene.on(id).count() == 1),
        Cameras::None | Cameras::All | Cameras::Unknown(_) => false,
    }
}

/// The words of an order that switches something on and something off.
fn on_and_off(r: &Reader<'_>) -> Option<String> {
    let is_on = |i: usize| {
        r.word(i) == "on"
            && (one_of("|.|,|!|?|;|and|but|again|please|now", r.any_word(i + 1))
                || one_of("turn|switch|back", r.before(i)))
    };
    let off = (0..r.tokens.len()).find(|i| one_of("off|down", r.word(*i)))?;
    let on = (0..r.tokens.len()).find(|i| is_on(*i))?;
    // `off for an hour, then on again` is a pause with its end.
    let is_pause = r.find(&["off|down for"]).is_some();
    (!is_pause).then(|| r.written(off.min(on)..off.max(on) + 1))
}

/// The verb of an order.
struct Verb {
    /// As it was written, or the usual one.
    written: String,
    /// Whether it ends a watch for good.
    deletes: bool,
    /// Whether it ends a pause, and so means what is paused.
    ends_pause: bool,
    ends_all_pauses: bool,
}

impl Verb {
    /// Keeps of `targets` what is paused, for the end of a pause. Refuses an order that then means
    /// nothing.
    fn keep_meant(&self, targets: &mut Vec<PipelineId>, scene: &Scene) -> Result<(), Need> {
        if self.ends_pause && !scene.pipelines.is_empty() {
            targets.retain(|id| scene.pipeline(id).is_some_and(|p| p.paused));
            if targets.is_empty() {
                return Err(Need::meaning("Nothing is paused there."));
            }
        }
        match targets.is_empty() {
            true => Err(Need::meaning(format!(
                "Nothing runs, so there is nothing to {}.",
                self.written
            ))),
            false => Ok(()),
        }
    }

    /// Takes the verb, and the words that go with it and say no more.
    fn take(r: &mut Reader<'_>, asks: Asks) -> Self {
        let (kinds, usual) = match asks {
            Asks::Stop => (&[VerbKind::Delete, VerbKind::Stop][..], "stop"),
            Asks::Pause => (&[VerbKind::Pause][..], "pause"),
            _ => (&[VerbKind::Resume][..], "resume"),
        };
        let found = kinds.iter().flat_map(|kind| {
            let verbs = r.lexicon.verbs(std::slice::from_ref(kind));
            verbs.filter_map(|verb| Some((*kind, r.find(&[verb])?)))
        });
        let verb = found.min_by_key(|(_, found)| found.at.start);
        let deletes = matches!(verb, Some((VerbKind::Delete, _)));
        let written = verb.map_or_else(String::new, |(_, found)| {
            r.mark(found.at.clone());
            r.written(found.at).to_lowercase()
        });
        let ends_all_pauses = written.ends_with("all pauses");
        let ends_pause = ends_all_pauses || written.ends_with("the pause");
        r.take_all(&[
            "turn|switch|shut|put",
            "back on|off",
            "on hold",
            "on|off again",
            "right|straight away|now",
        ]);
        match asks {
            Asks::Pause => r.take_all(&["up"]),
            Asks::Resume => r.take_all(&["start|begin"]),
            _ => false,
        };
        Self {
            written: match ends_pause || written.is_empty() {
                true => usual.to_owned(),
                false => written,
            },
            deletes,
            ends_pause,
            ends_all_pauses,
        }
    }

    /// The words of the order that nothing has read.
    fn unread(&self, r: &mut Reader<'_>, all: bool) -> Vec<String> {
        r.take_all(&[THINGS]);
        let from = if self.deletes { "" } else { "|from" };
        let mut left = closed::unread_words(r, &format!("{SMALL}{from}"));
        // `remove the gate from the gate watch`
        let from = r.tokens.iter().any(|t| t.text == "from");
        left.extend((self.deletes && from && !all).then(|| "from".to_owned()));
        left
    }

    /// Refuses to remove the camera itself, and not what runs on it.
    fn refuse_a_camera_itself(&self, r: &Reader<'_>, named: &[PipelineId]) -> Result<(), Need> {
        let runs = r
            .find(&[THINGS])
            .is_some_and(|f| !one_of("camera|cameras", r.any_word(f.at.start)));
        if self.deletes && named.is_empty() && !runs && r.find(&["camera|cam|cameras"]).is_some() {
            return Err(Need::meaning(
                "A camera itself is taken away with `watchkeeper sources remove NAME`. I can end what runs on it: say for example \"delete everything on the gate camera\".",
            ));
        }
        Ok(())
    }

    /// The pipelines that are meant, by their names or by their cameras.
    fn targets(
        &self,
        all: bool,
        named: Vec<PipelineId>,
        cameras: Cameras,
        scene: &Scene,
        notes: &mut Notes,
    ) -> Result<Vec<PipelineId>, Need> {
        match (named.is_empty(), cameras) {
            (false, _) => Ok(named),
            (_, Cameras::All) => Ok(ids_of(scene)),
            (_, Cameras::These(cameras)) => self.on_cameras(&cameras, scene, notes),
            _ if all => Ok(ids_of(scene)),
            (_, Cameras::Unknown(written)) => Err(names::no_such_camera(&written, scene)),
            (_, Cameras::None) => self.the_only_one(scene, notes),
        }
    }

    fn on_cameras(
        &self,
        cameras: &[SourceId],
        scene: &Scene,
        notes: &mut Notes,
    ) -> Result<Vec<PipelineId>, Need> {
        let on = cameras.iter().flat_map(|camera| scene.on(camera));
        let targets: Vec<PipelineId> = on.map(|p| p.spec.id.clone()).collect();
        if !targets.is_empty() {
            let idle = cameras
                .iter()
                .filter(|camera| scene.on(camera).next().is_none());
            let idle = idle.map(|camera| format!("Nothing runs on {camera}."));
            notes.assumed.extend(idle);
            return Ok(targets);
        }
        let names: Vec<&str> = cameras.iter().map(|c| c.as_str()).collect();
        let question = format!(
            "Nothing runs on {}. Which pipeline shall I {}?",
            names.join(", "),
            self.written
        );
        Err(which(&question, &[], scene))
    }

    /// The only pipeline that may be meant where none is named.
    fn the_only_one(&self, scene: &Scene, notes: &mut Notes) -> Result<Vec<PipelineId>, Need> {
        let mut may_be = ids_of(scene);
        if self.ends_pause {
            may_be.retain(|id| scene.pipeline(id).is_some_and(|p| p.paused));
        }
        match may_be.as_slice() {
            [only] => notes
                .assumed
                .push(format!("The pipeline is {only}, the only one.")),
            [] => {}
            several => return Err(self.which(several, scene)),
        }
        Ok(may_be)
    }

    /// The question which of several is meant.
    fn which(&self, targets: &[PipelineId], scene: &Scene) -> Need {
        let some: Vec<_> = targets.iter().filter_map(|id| scene.pipeline(id)).collect();
        which(
            &format!("Which one shall I {}?", self.written),
            &some,
            scene,
        )
    }

    fn not_read(&self, left: Vec<String>, scene: &Scene) -> Need {
        let words: Vec<String> = left.iter().map(|w| quoted(w)).collect();
        let example = scene
            .pipelines
            .first()
            .map_or_else(|| "the gate watch".to_owned(), |p| p.spec.id.to_string());
        let text = format!(
            "I do not understand {} of that, so nothing is done. I pause (\"pause {example} until 8 tomorrow\"), resume (\"resume {example}\") and delete (\"delete {example}\") whole watches, at once \
             and by their names. {}",
            words.join(", "),
            listed(scene, None)
        );
        Need::not_read(text, left)
    }
}

/// The pipelines that are not meant by `all but the yard`; their words are used then.
fn spared(r: &mut Reader<'_>) -> Vec<PipelineId> {
    let Some(found) = r.find(&[
        "all|everything|every of? the? pipelines|pipeline|watches|watch|cameras|camera|alerts? off|down? but|except|excluding for|not?",
    ]) else {
        return Vec::new();
    };
    let mut later = r.clone();
    later.mark(0..found.at.end);
    let mut spared = names::pipelines(&mut later);
    if spared.is_empty()
        && let Cameras::These(on) = names::cameras(&mut later)
    {
        let there = r
            .scene
            .pipelines
            .iter()
            .filter(|p| on.contains(&p.spec.source));
        spared = there.map(|p| p.spec.id.clone()).collect();
    }
    if !spared.is_empty() {
        r.mark(found.at.clone());
        for i in found.at.end..r.tokens.len() {
            // `all but the safe one`
            let stands_for_it =
                i > found.at.end + 1 && later.word(i) == "one" && later.word(i - 1).is_empty();
            if stands_for_it || later.word(i).is_empty() {
                r.mark(i..i + 1);
            }
        }
    }
    spared
}
