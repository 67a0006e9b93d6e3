//! One request to watch → one [`WatchFor`] for each camera, or what has to be known first.
//!
//! Owns: the order in which the phrases of a request are read: its `purpose`, its `ground` (where
//! and when), what happens, what it happens to. `conditions` says what follows from them together.
//!
//! - Camera, objects and place are what the user said, or the notes say what was assumed.
//! - A place that was named and isn't known is asked for, never guessed.

mod acts;
mod amounts;
mod cameras;
mod channels;
mod conditions;
mod ending;
mod ground;
mod how_many;
mod mixed;
mod objects;
mod purpose;
mod relation;
mod spot;
mod which;

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::rule::{CountBound, Severity};

pub(crate) use acts::{Wishes, one_way, quietly, wishes};
pub(crate) use amounts::{confidence, cooldown, is_for_a_time, seconds};
pub(crate) use channels::channels;
pub(crate) use conditions::TOO_FEW_S;
pub(crate) use ending::{end_of_watch, ending};
pub(crate) use spot::{direction, geometry as drawn, named_place, slug, whole_picture};
pub(crate) use which::refuse as refuse_one_of_them;

use crate::answer::Missing;
use crate::apart;
use crate::intent::{NamedPlace, Objects, WatchFor, What};
use crate::lexicon::Lexicon;
use crate::names::{self, Mention, Stand};
use crate::need::{Need, Notes};
use crate::place::Way;
use crate::reader::{Reader, left_over};
use crate::scene::{Scene, Shape, quoted};
use crate::weighty;
use acts::{Acts, acts};
use conditions::Facts;
use ground::{Ground, ground};
use how_many::bound;
use objects::objects;
use purpose::{Purpose, purpose};
use spot::{direction_of, mark_words, unknown_place, where_is};

/// Understands one request to watch. `before` is the camera of the request before it.
pub(crate) fn watch(
    mut r: Reader,
    scene: &Scene,
    lexicon: &Lexicon,
    before: Option<&SourceId>,
    notes: &mut Notes,
) -> Result<Vec<WatchFor>, Need> {
    let r = &mut r;
    let heading = 0..r.tokens.iter().position(|t| t.text == ":").unwrap_or(0);
    let heading: Vec<usize> = heading.collect();
    let purpose = purpose(r, scene, lexicon, notes)?;
    let mut ground = ground(r, scene, lexicon, before, notes)?;
    let bound = bound(r, scene, lexicon)?;
    let said = r.clone();
    let mentions = mentions(r, bound, scene, lexicon)?;
    notes.assumed.extend(names::substitutions(&mentions));
    let mut acts = happens(r, &mentions, notes)?;
    purpose.add_to(&mut acts);
    cannot_be_seen(r, &mentions, notes)?;
    let unknown = unknown_place(r, &heading, lexicon);
    let asked = unknown.as_deref();
    let (model, objects, none) = objects(r, &mentions, asked, scene, lexicon, notes, &acts)?;
    moves_not(&said, &model, none, scene, notes);
    if let Some(written) = &unknown {
        name_place(&mut ground, written, &acts, scene)?;
        mark_words(r, written);
    }
    let mut facts = Facts {
        told: purpose.told,
        counted: purpose.counted,
        acts,
        none,
        bound,
        spans: std::mem::take(&mut ground.spans),
        ways: std::mem::take(&mut ground.ways),
        place: ground.place.take(),
    };
    let conditions = conditions(r, &mut facts, &mentions, lexicon, notes)?;
    let is_line = facts.is_line();
    let base = Base {
        place: facts.place.map(|said| named_place(said, is_line)),
        ways: facts.ways,
        stop_after_s: facts.spans.stop_after_s,
        model,
        objects,
        conditions,
    };
    base.on_each(&ground, &purpose)
}

/// The classes that are named, where they fit with how many of them there are to be.
fn mentions(
    r: &mut Reader,
    bound: Option<CountBound>,
    scene: &Scene,
    lexicon: &Lexicon,
) -> Result<Vec<Mention>, Need> {
    let mentions = names::classes(r, scene, lexicon);
    relation::refuse(r, &mentions)?;
    if bound.is_some() {
        // That is what a number of them says.
        r.take_all(&["all? at the same time", "all? at once", "simultaneously"]);
        one_number(r, &mentions)?;
    }
    Ok(mentions)
}

/// Reads what happens, and refuses what is said of one of several, or of all of them.
fn happens(r: &mut Reader, mentions: &[Mention], notes: &mut Notes) -> Result<Acts, Need> {
    let before = r.used.clone();
    let mut acts = acts(r);
    let happens: Vec<usize> = (0..r.tokens.len())
        .filter(|i| before.get(*i) != r.used.get(*i))
        .collect();
    which::one_after_another(r, mentions, &happens)?;
    let all_left = which::all_have_left(r, mentions, acts.leaves, notes)?;
    if all_left && (acts.enters || acts.crosses || acts.stays) {
        return Err(Need::new(
            Missing::Meaning,
            "That all of them have left is one thing, and what else happens another. Please say them one at a time, such as \"when the hall is empty\".",
        ));
    }
    match all_left {
        true => (acts.leaves, acts.empty) = (false, true),
        false => which::refuse_all(r, mentions)?,
    }
    which::refuse(r, mentions)?;
    Ok(acts)
}

/// Names the drawn place by words that are no known place; without a drawn place asks where it is.
fn name_place(
    ground: &mut Ground<'_>,
    written: &str,
    acts: &Acts,
    scene: &Scene,
) -> Result<(), Need> {
    let Some(place) = &mut ground.place else {
        return Err(where_is(written, &ground.known, acts, scene));
    };
    // What was asked for was answered: the words are its name.
    place.text = format!("{} ({})", quoted(written), place.text);
    place.name = place.name.take().or_else(|| Some(written.to_owned()));
    Ok(())
}

/// The conditions that follow from the facts, once nothing that is left over can change them.
fn conditions(
    r: &mut Reader,
    facts: &mut Facts,
    mentions: &[Mention],
    lexicon: &Lexicon,
    notes: &mut Notes,
) -> Result<Vec<What>, Need> {
    facts.refuse_contradictions(mentions)?;
    facts.complete_bound();
    let state = (facts.is_empty(), facts.acts.occupied);
    mixed::refuse(r, mentions, facts.bound, state)?;
    apart::refuse_either_hours(r)?;
    facts.complete_ways(r, notes);
    let is_only_seen = facts.is_only_seen();
    let mut conditions = facts.conditions(r, notes)?;
    facts.complete_place(&mut conditions, notes);
    facts.refuse_way_without_line()?;
    if is_only_seen {
        doing(r, mentions, lexicon)?;
    }
    weighty::refuse(r)?;
    weighty::refuse_way(r)?;
    notes.not_understood.extend(left_over(r, lexicon));
    Ok(conditions)
}

/// What is the same on every camera.
struct Base {
    model: String,
    objects: Objects,
    conditions: Vec<What>,
    place: Option<NamedPlace>,
    ways: Vec<Way>,
    stop_after_s: Option<f64>,
}

impl Base {
    fn on_each(&self, ground: &Ground<'_>, purpose: &Purpose) -> Result<Vec<WatchFor>, Need> {
        let watch = |camera: SourceId| {
            let (place, conditions) = self.on(&camera, &ground.drawn_on)?;
            Ok(WatchFor {
                camera,
                model: self.model.clone(),
                objects: self.objects.clone(),
                conditions,
                place,
                counts: purpose.counted,
                confidence: ground.confidence,
                schedules: ground.schedules.clone(),
                cooldown_s: purpose.cooldown_s,
                severity: purpose.severity,
                notify: purpose.notify.clone(),
                clip: purpose.wished.clip,
                // What is critical is never lowered.
                second_opinion: purpose.wished.second_opinion
                    && purpose.severity != Severity::Critical,
                stop_after_s: purpose.ends_after_s.or(self.stop_after_s),
            })
        };
        ground.cameras.iter().cloned().map(watch).collect()
    }

    /// Place and conditions on one camera: a place that has a name lies elsewhere on each, and what
    /// is in of a line there may be out of it here.
    fn on(
        &self,
        camera: &SourceId,
        drawn_on: &[(SourceId, Shape)],
    ) -> Result<(Option<NamedPlace>, Vec<What>), Need> {
        let (mut place, mut conditions) = (self.place.clone(), self.conditions.clone());
        let drawn = drawn_on.iter().find(|(on, _)| on == camera);
        if let (Some(place), Some((_, shape))) = (&mut place, drawn) {
            place.shape = shape.clone();
            if let Shape::Line(a, b) = place.shape {
                for what in &mut conditions {
                    if let What::Crosses(to) = what {
                        *to = direction_of(&self.ways, (a, b), &mut Notes::default())?;
                    }
                }
            }
        }
        Ok((place, conditions))
    }
}

/// Refuses a number of one thing beside another: `a car and two people` are not two of either.
fn one_number(r: &Reader, mentions: &[Mention]) -> Result<(), Need> {
    let article = |m: &Mention| {
        let before = m.at.start.checked_sub(1);
        before.is_some_and(|i| matches!(r.any_word(i), "a" | "an" | "one" | "any" | "every"))
    };
    let and = |a: &Mention, b: &Mention| {
        (a.at.end..b.at.start).any(|i| matches!(r.any_word(i), "and" | "or"))
    };
    let each = mentions.windows(2).find(|pair| match pair {
        [a, b] => {
            let wanted = a.stand == Stand::Wanted && b.stand == Stand::Wanted;
            wanted && a.labels != b.labels && and(a, b) && (article(a) || article(b))
        }
        _ => false,
    });
    match each {
        Some([a, b]) => {
            let written = r.written(a.at.start..b.at.end);
            Err(Need::not_read(
                "I can tell how many there are of all that is named together, not how many of each. Say one of them, or \"at least 3 cars or people\".",
                vec![written],
            ))
        }
        _ => Ok(()),
    }
}

/// Says of what is opened and closed that it can't be seen; without anything else to watch for
/// there is nothing left of the request.
fn cannot_be_seen(r: &mut Reader, mentions: &[Mention], notes: &mut Notes) -> Result<(), Need> {
    let Some(found) = r.take(&[
        "opens|opened|opening|open|closes|closed|closing|shuts|locks|locked|unlocks|unlocked",
    ]) else {
        return Ok(());
    };
    let written = r.written(found.at);
    let text = format!(
        "No model here sees that something is opened or closed ({}): only what is in the picture, where, and for how long.",
        quoted(&written)
    );
    if mentions.is_empty() {
        return Err(Need::not_read(text, vec![written]));
    }
    notes.not_possible.push(text);
    Ok(())
}

/// Says of `nothing moves` what it comes to where a model sees things, be they still or not.
fn moves_not(said: &Reader, model: &str, none: bool, scene: &Scene, notes: &mut Notes) {
    let moves = ["nothing|nobody|noone is|are? moves|moved|moving"];
    let sees_things = |m: &&crate::scene::Model| m.name == model && !m.labels.is_empty();
    if none && said.find(&moves).is_some() && scene.models.iter().any(|m| sees_things(&m)) {
        notes.assumed.push(format!(
            "The model {model} sees what is there, and not whether it moves: what stands still is there too."
        ));
    }
}

/// Refuses a request in which something happens that is no word of the language: seen at all is
/// something else than `falls` or `runs`.
fn doing(r: &Reader, mentions: &[Mention], lexicon: &Lexicon) -> Result<(), Need> {
    const HELPS: [&str; 9] = [
        "is", "are", "was", "has", "have", "been", "being", "gets", "starts",
    ];
    for mention in mentions {
        let mut at = mention.at.end;
        while HELPS.contains(&r.word(at)) {
            at += 1;
        }
        let content = |i: &usize| {
            let word = r.word(*i);
            let is_word = r.tokens.get(*i).is_some_and(|t| t.is_word());
            is_word && !word.is_empty() && !lexicon.is_filler(word)
        };
        let end = (at..r.tokens.len()).take_while(content).last();
        if let Some(last) = end {
            let written = r.written(at..last + 1);
            return Err(Need::not_read(
                format!(
                    "What {} means for them is nothing that I can watch: I can tell when they are seen, enter, leave, stay, or cross a line.",
                    quoted(&written)
                ),
                vec![written],
            ));
        }
    }
    Ok(())
}
