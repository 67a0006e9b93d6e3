//! Stop, pause and resume: which pipelines, and until when.
//!
//! - A stop is a pause, and says how to delete; only a verb of deleting ends a watch for good.
//! - A command with an unread word, such as `stop telling me about cats`, is not carried out in
//!   part.
//! - A watch is named by its id, its name, its camera, or the class that only it watches for.

use jiff::Zoned;
use watchkeeper_contract::id::PipelineId;

use crate::answer::Change;
use crate::closed;
use crate::deployed::{self, THINGS, sentence, which};
use crate::intent::Intent;
use crate::moments;
use crate::names;
use crate::propose::{ChangeSet, pause, pause_end};
use crate::reader::{Found, Reader};
use crate::refusal::Refusal;
use crate::scene::{Deployed, Scene};

/// Words that say nothing of which pipelines are meant.
const FILLERS: &str = "ones|to|then|and|for|of|on|in|at|about|camera|cam|only|just|please|all|every|each|both|anyway|telling|current|existing|old";
const PAUSED_INSTEAD: &str = "It is paused, so that it can be resumed; say \"delete\", or use `/stop` with its name, to remove it for good.";
const STAYS: &str = " That is longer and stays so; resume it to shorten it.";

/// Understands a request to stop, pause or resume.
pub(crate) fn control(r: &mut Reader<'_>, intent: Intent) -> Result<ChangeSet, Refusal> {
    let scene = r.scene;
    // `no, just pause it` turns down what waits.
    r.take_all(&["@others_stay", "no|nope|nah ,|.", "any more", "anymore"]);
    let verb = Verb::take(r, intent);
    let (mut targets, until) = targets(r, intent, &verb)?;
    if intent == Intent::Stop && !verb.deletes && until.is_none() {
        r.assume(PAUSED_INSTEAD);
    }
    Ok(match intent {
        Intent::Stop if verb.deletes => ChangeSet::of("Delete", targets, scene, Change::Delete),
        Intent::Stop | Intent::Pause => {
            keep_longer_pauses(r, &mut targets, until.as_ref())?;
            pause(targets, until, scene)
        }
        _ => ChangeSet::of("Resume", targets, scene, Change::Resume),
    })
}

/// The pipelines that an order is about, at least one, and when their pause ends.
fn targets(
    r: &mut Reader<'_>,
    intent: Intent,
    verb: &Verb,
) -> Result<(Vec<PipelineId>, Option<Zoned>), Refusal> {
    let scene = r.scene;
    let spared = spared(r);
    let (named, is_by_class) = match spared.is_empty() {
        true => deployed::named(r, verb.stops_telling),
        false => (Vec::new(), false),
    };
    let until = match intent {
        Intent::Stop | Intent::Pause if !verb.deletes => {
            r.take_all(&["for now", "for the moment"]);
            moments::until(r)
        }
        _ => None,
    };
    if verb.deletes && named.is_empty() {
        refuse_a_camera_itself(r)?;
    }
    let closes = r.take_all(&["that's|thats all", "that|this is|was|will be? all"]);
    let several =
        r.has(&["both|all|every|each|watches|alarms|pipelines|alerts|those|ones|everything"]);
    // The answer to `which`, after the order.
    let is_answer = !closes && r.last_word() == "all";
    // `don't tell me about everything` is about less.
    let all = r.take(&["@all_that_runs"]).is_some() && !verb.stops_telling || is_answer;
    let cameras = match named.is_empty() && spared.is_empty() {
        true => names::cameras(r),
        false => Vec::new(),
    };
    verb.refuse_unread(r, intent)?;
    let names_none = named.is_empty() && spared.is_empty() && cameras.is_empty();
    // A class stands for one, or for all that tell of it; a camera for the one that it has.
    let meant = match is_by_class && !named.is_empty() {
        true => usize::from(!verb.stops_telling),
        false => cameras.len(),
    };
    let mut targets = match (named.is_empty(), cameras.is_empty()) {
        (false, _) => named,
        (_, false) => scene.ids_on(&cameras),
        _ => scene.pipelines.iter().map(|p| p.spec.id.clone()).collect(),
    };
    targets.retain(|id| !spared.contains(id));
    verb.retain_meant(&mut targets, scene);
    if verb.stops_telling && is_by_class {
        for other in scene.pipelines.iter().filter(|p| scene.tells_none_apart(p)) {
            let id = &other.spec.id;
            r.assume(format!(
                "{id} tells no classes apart: what moves there is still reported."
            ));
        }
    }
    verb.refuse_none(&targets, scene)?;
    let is_unclear = names_none || meant > 0 && !several && targets.len() != meant;
    match targets.as_slice() {
        [only] if names_none && !all => r.assume(format!(
            "The pipeline is {only}, the only one that can be meant."
        )),
        [_, _, ..] if is_unclear && !all => return Err(verb.which(&targets, scene)),
        _ => {}
    }
    Ok((targets, until))
}

/// Notes the pauses that there are already. One that is longer stays unchanged.
fn keep_longer_pauses(
    r: &mut Reader<'_>,
    targets: &mut Vec<PipelineId>,
    until: Option<&Zoned>,
) -> Result<(), Refusal> {
    let scene = r.scene;
    let mut notes = Vec::new();
    targets.retain(|id| {
        let Some(paused) = scene.pipeline(id).filter(|p| p.paused) else {
            return true;
        };
        let end = paused.paused_until.as_ref();
        let stays = until.is_some_and(|until| end.is_none_or(|end| end > until));
        let why = if stays { STAYS } else { "" };
        let end = pause_end(end).to_lowercase();
        notes.push(format!("{id} is paused already, {end}.{why}"));
        !stays
    });
    if targets.is_empty() {
        return Err(Refusal::meaning(notes.join(" ")));
    }
    r.notes.assumed.extend(notes);
    Ok(())
}

/// The verb of an order.
struct Verb {
    /// As messages say it.
    name: &'static str,
    /// Whether it ends a watch for good.
    deletes: bool,
    /// Whether it ends a pause, and so means what is paused.
    ends_pause: bool,
    /// Whether it is about what is told: `stop telling me about cars`.
    stops_telling: bool,
}

impl Verb {
    /// Takes the verb, and its words without further meaning.
    fn take(r: &mut Reader<'_>, intent: Intent) -> Self {
        let stops_telling = r.take(&["@stops_telling"]).is_some();
        let (kinds, usual) = match intent {
            Intent::Stop => (&["@delete", "@stop"][..], "stop"),
            Intent::Pause => (&["@pause"][..], "pause"),
            _ => (&["@resume"][..], "resume"),
        };
        let verbs = kinds.iter().flat_map(|kind| r.lexicon.expand(kind));
        let verb = verbs.filter_map(|verb| r.find(&[verb]));
        let verb = verb.min_by_key(|found| found.at.start);
        let is_deleted = |found: &Found| r.match_at("@delete", found.at.start).is_some();
        let deletes = intent == Intent::Stop && verb.as_ref().is_some_and(is_deleted);
        let written = verb.map_or_else(String::new, |found| {
            r.mark(found.at.clone());
            r.written(found.at).to_lowercase()
        });
        let ends_pause = written.ends_with("the pause");
        r.take_all(&["turn|switch|shut|put", "on hold", "right|straight away|now"]);
        match intent {
            Intent::Resume => r.take_all(&["back on", "on again", "start|begin"]),
            Intent::Pause => r.take_all(&["off again", "up"]),
            _ => r.take_all(&["off again"]),
        };
        Self {
            name: if deletes { "delete" } else { usual },
            deletes,
            ends_pause,
            stops_telling,
        }
    }

    /// Keeps what can be meant: of several to resume those that are paused, and of what tells no
    /// longer those that tell.
    fn retain_meant(&self, targets: &mut Vec<PipelineId>, scene: &Scene) {
        let resumes = self.ends_pause || self.name == "resume" && targets.len() > 1;
        targets.retain(|id| {
            let is_meant =
                |p: &Deployed| (p.paused || !resumes) && (p.makes_events() || !self.stops_telling);
            scene.pipeline(id).is_some_and(is_meant)
        });
    }

    /// Refuses an order with words that nothing has read, and one about either of two watches.
    fn refuse_unread(&self, r: &mut Reader<'_>, intent: Intent) -> Result<(), Refusal> {
        r.take_all(&[THINGS]);
        let off = if intent == Intent::Resume { "" } else { "|off" };
        let from = if self.deletes { "" } else { "|from" };
        let mut left = closed::unread_words(r, &format!("{FILLERS}{off}{from}"));
        // `turn it off and on again`
        let ends = |i: usize| r.is(i + 1, "|.|,|!|?|;|and|but|again|please|now");
        let on = r.positions().find(|i| r.free_word(*i) == "on" && ends(*i));
        left.extend(on.filter(|_| !off.is_empty()).map(|_| "on".to_owned()));
        // `the yard or the gate` is one of them.
        let or = r.positions().any(|at| r.is_taken(at) && r.word(at) == "or");
        left.extend(or.then(|| "or".to_owned()));
        let remedy = match names::mentions_class(r) {
            true => "A class is left out by \"make the gate watch ignore buses\".",
            false => r.remedy("order").unwrap_or(
                "I pause, resume and delete whole watches, at once and by their names, such as \"pause the gate watch until 8 tomorrow\".",
            ),
        };
        let all: Vec<&Deployed> = r.scene.pipelines.iter().collect();
        let hint = format!("{remedy} {}", sentence(&all));
        closed::refuse_words(r, left, &hint)
    }

    /// Refuses a command that is about no pipeline.
    fn refuse_none(&self, targets: &[PipelineId], scene: &Scene) -> Result<(), Refusal> {
        if !targets.is_empty() {
            return Ok(());
        }
        Err(Refusal::meaning(match scene.pipelines.is_empty() {
            _ if self.name == "resume" => "Nothing is paused there.".to_owned(),
            true => format!("Nothing runs, so there is nothing to {}.", self.name),
            false => format!("There is nothing to {} there.", self.name),
        }))
    }

    /// The question which of several is meant, or all of them.
    fn which(&self, targets: &[PipelineId], scene: &Scene) -> Refusal {
        let some: Vec<_> = targets.iter().filter_map(|id| scene.pipeline(id)).collect();
        let verb = self.name;
        let mut refusal = which(&format!("Which one shall I {verb}?"), &some, scene);
        refusal.text.push_str(" Say \"all\" for all of them.");
        refusal.choices.push("all".to_owned());
        refusal
    }
}

/// Refuses to remove the camera itself, and not what runs on it.
fn refuse_a_camera_itself(r: &Reader<'_>) -> Result<(), Refusal> {
    let thing = r.find(&[THINGS]);
    let runs = thing.is_some_and(|f| !r.is(f.at.start, "camera|cameras"));
    match !runs && r.has(&["camera|cam|cameras"]) {
        true => Err(Refusal::meaning(
            "A camera itself is taken away with `watchkeeper sources remove NAME`. I can end what runs on it: say for example \"delete everything on the gate camera\".",
        )),
        false => Ok(()),
    }
}

/// The pipelines that are not meant by `all but the yard`; their words are used then.
fn spared(r: &mut Reader<'_>) -> Vec<PipelineId> {
    let Some(found) = r.find(&["@all_but"]) else {
        return Vec::new();
    };
    let end = found.at.end;
    let spared = r.with_hidden(
        std::iter::once(0..end).collect(),
        |r| match names::pipelines(r, false) {
            none if none.is_empty() => r.scene.ids_on(&names::cameras(r)),
            named => named,
        },
    );
    if !spared.is_empty() {
        r.mark(found.at);
        // `all but the safe one`
        r.mark_where(|r, i| i > end + 1 && r.free_word(i) == "one" && r.is_taken(i - 1));
    }
    spared
}
