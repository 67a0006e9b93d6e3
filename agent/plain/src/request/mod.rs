//! One request to watch → one [`WatchFor`] for each camera, or what has to be known first.
//!
//! Owns the order in which the slots of a request are filled: its `purpose`, where and when
//! (`ground`), how many of what (`objects`), and what happens (`acts`).
//!
//! - Each phrase marks its words with its slot; what is left over then refuses the request
//!   ([`crate::closed`]), before anything that is missing is asked for.
//! - Camera, objects and place are what the user said, or the notes say what was assumed.
//! - A place that was named and isn't known is asked for, never guessed.

mod acts;
mod amounts;
mod cameras;
mod channels;
mod clauses;
mod conditions;
mod ground;
mod objects;
mod purpose;
mod spot;
mod wishes;

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::rule::Severity;

pub(crate) use amounts::{confidence, cooldown, is_for_a_time, seconds, share};
pub(crate) use channels::channels;
pub(crate) use conditions::TOO_FEW_S;
pub(crate) use objects::{are_only_these, one_list};
pub(crate) use spot::{geometry as drawn, named_place, slug, whole_picture};
pub(crate) use wishes::{quietly, wishes};

use crate::closed;
use crate::intent::{NamedPlace, WatchFor, What};
use crate::names::Mention;
use crate::need::{Need, Notes};
use crate::place::Way;
use crate::reader::Reader;
use crate::scene::{Model, Scene, Shape};
use acts::acts;
use amounts::bound;
use cameras::cameras_of;
use channels::refuse_to_send;
use clauses::clauses;
use conditions::Facts;
use ground::{Ground, ground};
use objects::{equipment, objects, take_required};
use purpose::{Purpose, purpose};
use spot::{direction_of, unknown_place, where_is};

/// Understands one request to watch. `before` is the camera of the request before it.
pub(crate) fn watch(r: &mut Reader<'_>, before: Option<&SourceId>) -> Result<Vec<WatchFor>, Need> {
    refuse_to_send(r)?;
    let purpose = purpose(r)?;
    let mut ground = ground(r, purpose.counted)?;
    let (mut facts, mentions) = facts(r, &purpose, &mut ground)?;
    let nobody = mentions.is_empty() && !facts.acts.tell_who();
    let unknown = unknown_place(r, nobody);
    refuse_unread(r, &facts, &ground, &mentions)?;
    facts.refuse_contradictions(&mentions)?;
    let (model, objects) = objects(r, &mentions, &facts.acts)?;
    if facts.none && facts.acts.stirs {
        note_stillness(&model, r.scene, &mut r.notes);
    }
    let cameras = cameras_of(r, &ground.cameras, ground.named.as_deref(), before)?;
    ground.on(&cameras, r.scene, &mut facts)?;
    if let Some(written) = unknown {
        if facts.place.is_none() {
            return Err(where_is(&written, &ground.known, &facts.acts, r.scene));
        }
        facts.name_place(written);
    }
    facts.complete_bound();
    facts.complete_ways(&mut r.notes);
    let mut conditions = facts.conditions(&mut r.notes)?;
    facts.complete_place(&mut conditions, &mut r.notes);
    facts.refuse_way_without_line()?;
    let is_line = facts.is_line();
    let place = facts.place.take().map(|said| named_place(said, is_line));
    let watch = |camera: &SourceId| {
        let (mut place, mut conditions) = (place.clone(), conditions.clone());
        lie_on(
            camera,
            &ground.drawn_on,
            &facts.ways,
            &mut place,
            &mut conditions,
        )?;
        Ok(WatchFor {
            camera: camera.clone(),
            model: model.clone(),
            objects: objects.clone(),
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
            second_opinion: purpose.wished.second_opinion && purpose.severity != Severity::Critical,
            stop_after_s: facts.spans.stop_after_s,
        })
    };
    ground
        .known
        .iter()
        .map(|camera| watch(&camera.id))
        .collect()
}

/// What the phrases of a request say together, and the classes that it names.
fn facts(
    r: &mut Reader<'_>,
    purpose: &Purpose,
    ground: &mut Ground<'_>,
) -> Result<(Facts, Vec<Mention>), Need> {
    let bound = bound(r);
    let required = take_required(r);
    let waits = !required && r.find(&["when|if|whenever"]).is_some();
    let mentions = one_list(r, bound.is_some(), waits);
    let mentions = equipment(r, mentions, required);
    let moves = !ground.ways.is_empty() || ground.has_line();
    let held = ground.spans.hold_s.is_some();
    let mut acts = acts(r, &mentions, moves, held)?;
    purpose.add_to(&mut acts);
    let (place, ways) = (ground.place.take(), std::mem::take(&mut ground.ways));
    let spans = std::mem::take(&mut ground.spans);
    let none = mentions.iter().any(Mention::is_none);
    let clauses = clauses(r, &mentions, spans.hold_at);
    let facts = Facts {
        clauses,
        told: purpose.told,
        counted: purpose.counted,
        acts,
        none,
        bound,
        spans,
        ways,
        place,
    };
    Ok((facts, mentions))
}

/// Gives a place that has a name where it lies on this camera: what is in of a line there may be
/// out of it here.
fn lie_on(
    camera: &SourceId,
    drawn_on: &[(SourceId, Shape)],
    ways: &[Way],
    place: &mut Option<NamedPlace>,
    conditions: &mut [What],
) -> Result<(), Need> {
    let drawn = drawn_on.iter().find(|(on, _)| on == camera);
    if let (Some(place), Some((_, shape))) = (place, drawn) {
        place.shape = shape.clone();
        if let Shape::Line(a, b) = shape {
            for what in conditions {
                if let What::Crosses(to) = what {
                    *to = direction_of(ways, (*a, *b), &mut Notes::default())?;
                }
            }
        }
    }
    Ok(())
}

/// Refuses a request with words that no phrase has read.
fn refuse_unread(
    r: &Reader<'_>,
    facts: &Facts,
    ground: &Ground<'_>,
    mentions: &[Mention],
) -> Result<(), Need> {
    objects::refuse_vague(r)?;
    let known = |label: &&str| {
        let mut models = r.scene.models.iter();
        models.any(|m| m.labels.iter().any(|l| l == label))
    };
    let named = mentions.iter().flat_map(|m| &m.labels).map(String::as_str);
    let class = named.chain(["person"]).find(known);
    let nearest = closed::Nearest {
        template: facts.nearest_template(&ground.schedules),
        camera: ground.named_camera().or_else(|| only_camera(r.scene)),
        class: class.unwrap_or("anything").to_owned(),
    };
    closed::refuse(r, &nearest)
}

/// Notes that a model of classes does not tell whether something moves.
fn note_stillness(model: &str, scene: &Scene, notes: &mut Notes) {
    let sees_things = |m: &Model| m.name == model && !m.labels.is_empty();
    if scene.models.iter().any(sees_things) {
        notes.assumed.push(format!(
            "The model {model} sees what is there, and not whether it moves: what stands still is \
             there too."
        ));
    }
}

fn only_camera(scene: &Scene) -> Option<String> {
    match scene.cameras.as_slice() {
        [only] => Some(only.id.to_string()),
        _ => None,
    }
}
