//! One request to watch → its [`Parts`] → one [`NewWatch`] for each camera, or what has to be
//! known first.
//!
//! Owns the order in which the parts of a request are read: recipients and media, camera, place and
//! times, classes, conditions.
//!
//! - Each phrase marks its words with its slot; what is left over then refuses the request
//!   ([`crate::closed`]), before anything that is missing is asked for.
//! - Camera, objects and place are what the user said, or the notes say what was assumed. A camera
//!   that is not named is the one of a named place, or the only one.
//! - A place that was named and isn't known is asked for, never guessed.
//! - A correction changes the parts ([`crate::amend`]), so it is checked like a request.

mod acts;
mod conditions;
mod location;
mod nearest;
mod objects;
mod parts;

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::rule::Severity;

pub(crate) use location::{inwards, slug, the_place};
pub(crate) use objects::{are_only_these, dedup, labels, one_list, pick};
pub(crate) use parts::Parts;

use crate::answer::Missing;
use crate::closed;
use crate::names;
use crate::new_watch::NewWatch;
use crate::place::{self, Where};
use crate::reader::{Reader, Slot};
use crate::refusal::{Notes, Refusal};
use crate::scene::{Camera, Scene, quoted};
use crate::settings::{About, seconds};
use acts::{Acts, acts, take_courtesies, wanted};
use conditions::{bound, clauses};
use location::{unknown_place, where_is};
use objects::{equipment, objects, take_required};

/// Seconds of quiet after an event where a request says nothing about it.
const DEFAULT_COOLDOWN_S: f64 = 60.0;

impl Parts {
    /// Reads one request to watch.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Refusal> {
        let mut parts = Self::default();
        parts.read_wishes(r)?;
        let hold_at = parts.read_where_and_when(r)?;
        parts.read_what(r, hold_at);
        let nobody = parts.mentions.is_empty() && !parts.acts.tell_who();
        parts.unknown_place = unknown_place(r, nobody);
        objects::refuse_vague(r)?;
        closed::refuse(r, || parts.nearest_template(r))?;
        Ok(parts)
    }

    /// Reads what is wanted of the events, and whether it watches or counts.
    fn read_wishes(&mut self, r: &mut Reader<'_>) -> Result<(), Refusal> {
        let warns = r.has(&["warn|warning|alarm|alert|alerts"]);
        let asks = self.settings.read_wishes(r)?;
        let usual = match warns && !self.settings.quiet {
            true => Severity::Warning,
            false => Severity::Info,
        };
        self.settings.severity.get_or_insert(usual);
        r.slot = Slot::Other;
        take_courtesies(r);
        self.acts.people = r.has(&["head count|counts", "headcount|head-count|crowd|crowds"]);
        r.slot = Slot::Verb;
        let watches;
        (watches, self.counts) = wanted(r);
        // It was asked to watch, even where another phrase took the verb.
        self.reports = watches || asks || !self.counts;
        Ok(())
    }

    /// Reads cameras, place, ways, times and hours, and returns the position of a duration.
    fn read_where_and_when(&mut self, r: &mut Reader<'_>) -> Result<Option<usize>, Refusal> {
        r.slot = Slot::Camera;
        // `in the video of the gate`: what is looked at, and no clip.
        r.take_all(&["in|on|from the video|recording|footage|stream|feed of|from|at?"]);
        self.cameras = names::cameras(r);
        let known = r.scene.named_cameras(&self.cameras);
        r.slot = Slot::Place;
        if let Some((camera, place)) = names::known_place(r, &known, names::is_where) {
            // A place with a name is on one camera, which is meant then.
            let has_it = |c: &&Camera| names::place_on(c, &place.name).is_some();
            if self.cameras.is_empty() && known.into_iter().filter(has_it).count() == 1 {
                self.cameras.push(camera.id.clone());
            }
            self.place = Some(the_place(place));
        }
        r.slot = Slot::Way;
        self.ways = place::ways(r);
        r.slot = Slot::Time;
        // `every minute`
        let interval = r.find(&["every|each <u>"]).filter(|_| !self.reports);
        if let Some(found) = interval.filter(|found| found.value(0) < 86_400.0) {
            r.notes.not_possible.push(format!(
                "Nothing is sent every {}: the number stands in the pipeline's results at any time.",
                seconds(found.value(0))
            ));
            r.mark(found.at);
        }
        let hold_at = self.settings.read_times(r)?;
        r.slot = Slot::Place;
        if self.place.is_none() {
            self.place = self.settings.keep(About::Place, r, place::place)?;
        }
        Ok(hold_at)
    }

    /// Reads how many of what, and what happens. `hold_at`: the position of a duration.
    fn read_what(&mut self, r: &mut Reader<'_>, hold_at: Option<usize>) {
        self.bound = bound(r);
        let required = take_required(r);
        let waits = !required && r.has(&["when|if|whenever"]);
        let mentions = one_list(r, self.bound.is_some(), waits);
        self.mentions = equipment(r, mentions, required);
        let moves = !self.ways.is_empty() || self.is_line();
        let held = self.settings.hold_s.is_some();
        let acts = acts(r, &self.mentions, moves, held);
        self.acts = Acts {
            people: acts.people || self.acts.people,
            ..acts
        };
        if !self.reports && acts.enters && acts.leaves {
            // Entering and leaving objects are counted at the place of the movement.
            (self.acts.crosses, self.acts.both_ways) = (true, true);
        }
        self.clauses = clauses(r, &self.mentions, hold_at);
        self.only = are_only_these(r, &self.mentions);
        let usual = r.positions().find_map(|i| r.lexicon.occupants(r.word(i)));
        self.usual = usual.map(<[String]>::to_vec);
    }

    /// The watches that are meant, one for each camera.
    pub(crate) fn watches(
        mut self,
        scene: &Scene,
        notes: &mut Notes,
    ) -> Result<Vec<NewWatch>, Refusal> {
        self.settings.move_notes(notes);
        self.refuse_contradictions(&scene.named_cameras(&self.cameras))?;
        let (model, objects) = objects(&self, scene, notes)?;
        let cameras = cameras_of(&self.cameras, scene, notes)?;
        if let Some(written) = self.unknown_place.take() {
            match &mut self.place {
                None => return Err(where_is(&written, &cameras, &self.acts)),
                // It was asked for and answered.
                Some(place) => place.call(written),
            }
        }
        self.note_recipients(scene, notes);
        self.complete();
        let mut watches = Vec::new();
        for camera in cameras {
            let place = self.place_on(camera)?;
            let (conditions, place) = self.conditions(place, camera, notes)?;
            let mut settings = self.settings.clone();
            settings.hold_s = None;
            if settings.cooldown_s.is_none() && !conditions.is_empty() {
                settings.cooldown_s = Some(DEFAULT_COOLDOWN_S);
                let is_said = settings.severity == Some(Severity::Critical);
                if !is_said && settings.max_per_hour.is_none() {
                    notes.assume(format!(
                        "How often was not said: after an event it is quiet for {}. Say \"every one\" to hear of each.",
                        seconds(DEFAULT_COOLDOWN_S)
                    ));
                }
            }
            watches.push(NewWatch {
                camera: camera.id.clone(),
                model: model.clone(),
                objects: objects.clone(),
                only: self.only,
                conditions,
                place,
                counts: self.counts,
                settings,
            });
        }
        Ok(watches)
    }

    /// Notes which channels notify, and that hours are those of the watch.
    fn note_recipients(&self, scene: &Scene, notes: &mut Notes) {
        let settings = &self.settings;
        match scene.channels.first() {
            _ if !self.reports => {}
            _ if settings.quiet => notes.assume("No channel notifies: each event is kept with its picture, and published over MQTT as any other."),
            Some(one) if settings.notify.is_empty() => notes.assume(format!(
                "Nobody was named to be told: only channels with a `min_severity` that it reaches notify. Say \"tell #{one}\" to notify one."
            )),
            Some(_) if settings.times.is_some() => notes.assume("The hours are those of the watch: outside of them there is no event, and not only no message."),
            _ => {}
        }
    }

    /// The place on a camera. One that was drawn lies on each where it was drawn there.
    fn place_on(&self, camera: &Camera) -> Result<Option<Where>, Refusal> {
        let drawn = self.place.as_ref().filter(|place| place.drawn);
        let Some(name) = drawn.and_then(|place| place.name.as_ref()) else {
            return Ok(self.place.clone());
        };
        let there = names::place_on(camera, name).map(the_place);
        there.map(Some).ok_or_else(|| {
            Refusal::meaning(format!(
                "The place {} is not drawn on {}. Draw it there too, name another camera, or say a part of the picture, such as \"the left half\".",
                quoted(name),
                camera.id
            ))
        })
    }
}

/// The cameras that are meant: those that are named, or the only one.
fn cameras_of<'s>(
    named: &[SourceId],
    scene: &'s Scene,
    notes: &mut Notes,
) -> Result<Vec<&'s Camera>, Refusal> {
    match scene.cameras.as_slice() {
        [] => Err(Refusal::new(
            Missing::Camera,
            "There is no camera yet. Add one, then ask again.",
        )),
        _ if !named.is_empty() => Ok(scene.named_cameras(named)),
        [only] => {
            let only_one = format!("The camera is {}, the only one.", names::shown(only));
            notes.assume(only_one);
            Ok(vec![only])
        }
        several => {
            let text = format!("On which camera? There are {}.", names::listed(several));
            let choices = several.iter().map(|c| c.id.to_string()).collect();
            Err(Refusal::new(Missing::Camera, text).with(choices))
        }
    }
}
