//! What has to happen, from everything that the phrases of a request say together.
//!
//! - Two phrases that no single condition can hold are refused, never narrowed to one of them.

use watchkeeper_contract::rule::{Condition, CountBound, CrossDirection};
use watchkeeper_engine::templates::watch::TRACKED;

use super::parts::Parts;
use super::spot::{direction_of, which_line, whole_picture};
use crate::answer::Missing;
use crate::lexicon::{Stand, Way};
use crate::names::Mention;
use crate::need::{Need, Notes};
use crate::place::Said;
use crate::scene::{Camera, Shape};
use crate::settings::seconds;

/// Seconds for which too few have to be seen, where the request does not say how long. A detector
/// misses a person for some frames, and one person walks behind another: neither is an event.
/// Longer than the two seconds for which a tracker keeps a lost track.
const TOO_FEW_S: f64 = 3.0;

const NO_SUM: &str = "I can tell each one that comes, goes or crosses, and when more or fewer than a number are there at once; I do not add up how many came. Say for example \"when there are more than 3 people\".";
const ONE_CONDITION: &str = "That is more than one condition, and a watch has one. Say a sentence for each, such as \"Tell me when no car is at the gate. Tell me when more than 2 cars are at the gate.\"";
const NONE_MOVES: &str = "I tell those who come, go or cross as they do, and not that none did. I can tell when nobody is there for a time: say for example \"when nobody is in the hall for 10 minutes\".";
const WHICH_IS_IN: &str =
    "Which way over the line is in or out? Say it as it is seen, such as \"from left to right\".";
const IN_A_MOMENT: &str = "Who crosses a line or leaves does so in a moment. Say it without the time, or say for how long somebody stays or nobody is there, such as \"when nobody is in the hall for 10 minutes\".";
const NOT_ALONE: &str = "I can tell when none of something is there, and not when there is none but something else. Say it without the exception, such as \"when nobody is in the hall\".";

impl Parts {
    pub(crate) fn is_line(&self) -> bool {
        self.place.as_ref().is_some_and(Said::is_line)
    }

    fn crosses(&self) -> bool {
        self.acts.crosses || self.is_line()
    }

    /// Whether there are to be none of the objects.
    pub(crate) fn is_none(&self) -> bool {
        self.mentions.iter().any(Mention::is_none)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.acts.empty || self.is_none()
    }

    /// Refuses what no single condition can hold.
    pub(super) fn refuse_contradictions(&self, cameras: &[&Camera]) -> Result<(), Need> {
        let (acts, crosses) = (&self.acts, self.crosses());
        let comes_or_goes = acts.enters || acts.leaves;
        // `free or occupied`, `comes or waits` are two conditions.
        let two = (acts.empty && (acts.occupied || acts.moves()))
            || (self.is_empty() && self.bound.is_some())
            || (acts.stays && (acts.leaves || acts.crosses))
            || (acts.appears && acts.leaves && !crosses)
            || self.has_clauses_apart();
        // `nobody but a dog` is that a dog is there alone.
        let is_left_out = |m: &Mention| m.stand == Stand::Excluded;
        let alone = self.is_none() && self.mentions.iter().any(is_left_out);
        // That none comes is known when the time for it is over.
        let none_comes = acts.appears && self.settings.hold_s.is_none();
        let refused = [
            (
                self.bound.is_some() && (acts.crosses || comes_or_goes),
                NO_SUM,
            ),
            (two, ONE_CONDITION),
            (
                self.is_none() && (crosses || comes_or_goes || none_comes),
                NONE_MOVES,
            ),
            (alone, NOT_ALONE),
            (
                self.told && (crosses || acts.leaves) && self.settings.hold_s.is_some(),
                IN_A_MOMENT,
            ),
            (
                crosses && self.ways.is_empty() && acts.enters != acts.leaves && !acts.both_ways,
                WHICH_IS_IN,
            ),
        ];
        if let Some((_, why)) = refused.into_iter().find(|(is_so, _)| *is_so) {
            return Err(Need::meaning(why));
        }
        if self.counted && !self.told && !crosses && comes_or_goes {
            return Err(which_line(
                "Who comes and goes is counted where they cross a line, as \
                 `watchkeeper watch traffic-count` does. Where is it?",
                cameras,
            ));
        }
        Ok(())
    }

    /// Whether its clauses say more than one condition. Those who come and those who go are told by
    /// one watch.
    fn has_clauses_apart(&self) -> bool {
        let acts = &self.acts;
        let come_and_go = acts.enters && acts.leaves && self.settings.hold_s.is_none();
        self.clauses > 2 || (self.clauses == 2 && !come_and_go)
    }

    /// Adds the bound and the way that words without a number or a direction say.
    pub(super) fn complete(&mut self, notes: &mut Notes) {
        let (acts, is_empty) = (self.acts, self.is_empty());
        let said = match (is_empty, acts.occupied) {
            (true, _) => Some(CountBound::Under(1)),
            (false, true) => Some(CountBound::Over(0)),
            (false, false) => None,
        };
        self.bound = self.bound.or(said);
        if self.bound.is_some() && acts.parks {
            notes.not_possible.push(
                "A number does not tell whether they are parked or drive: all that are there count."
                    .to_owned(),
            );
        }
    }

    /// The conditions at this place, and the place that they need; none where the request only
    /// counts.
    pub(super) fn conditions(
        &self,
        mut place: Option<Said>,
        camera: &Camera,
        notes: &mut Notes,
    ) -> Result<(Vec<Condition>, Option<Said>), Need> {
        if self.crosses() {
            let conditions = self.crossing(place.as_ref(), camera, notes)?;
            return Ok((conditions, place));
        }
        let stays = self.acts.stays || (self.settings.hold_s.is_some() && self.told);
        let moves = self.bound.is_none() && (stays || self.told);
        if place.is_none() && moves && (stays || self.acts.leaves) {
            notes
                .assumed
                .push("No place was said: the whole picture.".to_owned());
            place = Some(whole_picture());
        }
        let conditions = match self.bound {
            Some(bound) => vec![self.count(bound, place.as_ref(), notes)],
            None if stays => vec![self.stay(place.as_ref())?],
            None if self.told => self.coming_and_going(place.as_ref(), notes),
            None => Vec::new(),
        };
        let is_one_way = matches!(self.ways.as_slice(), [way] if *way != Way::Any);
        match is_one_way {
            false => Ok((conditions, place)),
            true => Err(which_line(
                "Which way something moves is told by a line that it crosses. Where is the line?",
                &[camera],
            )),
        }
    }

    fn crossing(
        &self,
        place: Option<&Said>,
        camera: &Camera,
        notes: &mut Notes,
    ) -> Result<Vec<Condition>, Need> {
        let Some((line, Shape::Line(a, b))) = place.map(|p| (p.step(), &p.shape)) else {
            let question = "Where is the line that they cross?";
            return Err(which_line(question, &[camera]));
        };
        let direction = direction_of(&self.ways, (*a, *b))?;
        let way = match direction {
            _ if self.told => return Ok(vec![Condition::Crosses { line, direction }]),
            CrossDirection::Any => return Ok(Vec::new()),
            CrossDirection::In => "in",
            CrossDirection::Out => "out",
        };
        notes.assumed.push(format!(
            "A line counts both directions, each by itself: the one that was said is count_{way}."
        ));
        Ok(Vec::new())
    }

    fn count(&self, bound: CountBound, place: Option<&Said>, notes: &mut Notes) -> Condition {
        let for_s = match (self.settings.hold_s, bound) {
            (Some(said), _) => said,
            (None, CountBound::Over(_)) => 0.0,
            (None, CountBound::Under(_)) => {
                notes.assumed.push(format!(
                    "For how long was not said: it has to be so for {}, because somebody who is hidden for a moment is not gone.",
                    seconds(TOO_FEW_S)
                ));
                TOO_FEW_S
            }
        };
        let zone = place.filter(|place| !place.is_line());
        Condition::Count {
            detections: zone.map_or(TRACKED.to_owned(), |zone| {
                format!("$steps.{}.timed_detections", zone.step())
            }),
            bound,
            for_s,
        }
    }

    fn stay(&self, place: Option<&Said>) -> Result<Condition, Need> {
        let Some(for_s) = self.settings.hold_s else {
            return Err(Need::new(
                Missing::Duration,
                "How long shall they stay before it counts? Say for example \"two minutes\".",
            ));
        };
        let zone = place.map(Said::step).unwrap_or_default();
        Ok(Condition::Stays { zone, for_s })
    }

    fn coming_and_going(&self, place: Option<&Said>, notes: &mut Notes) -> Vec<Condition> {
        let Some(zone) = place.map(Said::step) else {
            if self.acts.enters {
                let seen = "No place was said: an object seen for the first time has entered.";
                notes.assumed.push(seen.to_owned());
            }
            let detections = TRACKED.to_owned();
            return vec![Condition::Appears { detections }];
        };
        let enters = self.acts.enters || !self.acts.leaves;
        let enters = enters.then(|| Condition::Enters { zone: zone.clone() });
        let leaves = self.acts.leaves.then_some(Condition::Leaves { zone });
        enters.into_iter().chain(leaves).collect()
    }
}
