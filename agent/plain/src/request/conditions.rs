//! What has to happen, from everything that the phrases of a request say together.
//!
//! - Two phrases that no single condition can hold are refused, never narrowed to one of them.

use watchkeeper_contract::rule::{CountBound, CrossDirection, Schedule};

use super::acts::Acts;
use super::amounts::{Spans, seconds};
use super::spot::{LINE_REMEDY, direction_of, whole_picture};
use crate::answer::Missing;
use crate::intent::What;
use crate::names::{Mention, Stand};
use crate::need::{Need, Notes};
use crate::place::{Said, Way};
use crate::scene::Shape;
use crate::scene::quoted;

/// Seconds for which too few have to be seen, where the request does not say how long. A detector
/// misses a person for some frames, and one person walks behind another: neither is an event.
/// Longer than the two seconds for which a tracker keeps a lost track.
pub(crate) const TOO_FEW_S: f64 = 3.0;

const NO_SUM: &str = "I can tell each one that comes, goes or crosses, and when more or fewer than a number are there at once; I do not add up how many came. Say for example \"when there are more than 3 people\".";
const ONE_CONDITION: &str = "That is more than one condition, and a watch has one. Say a sentence for each, such as \"Tell me when no car is at the gate. Tell me when more than 2 cars are at the gate.\"";
const NONE_MOVES: &str = "I tell those who come, go or cross as they do, and not that none did. I can tell when nobody is there for a time: say for example \"when nobody is in the hall for 10 minutes\".";
const NOT_ALONE: &str = "I can tell when none of something is there, and not when there is none but something else. Say it without the exception, such as \"when nobody is in the hall\".";

/// What the phrases of a request say.
pub(super) struct Facts {
    /// How many conditions stand in clauses of their own.
    pub(super) clauses: usize,
    pub(super) told: bool,
    pub(super) counted: bool,
    pub(super) acts: Acts,
    /// Whether there are to be none of the objects.
    pub(super) none: bool,
    pub(super) bound: Option<CountBound>,
    pub(super) spans: Spans,
    pub(super) ways: Vec<Way>,
    pub(super) place: Option<Said>,
}

impl Facts {
    /// Gives the place, which was asked for and answered, the words that first named it.
    pub(super) fn name_place(&mut self, words: String) {
        if let Some(place) = &mut self.place {
            place.text = format!("{} ({})", quoted(&words), place.text);
            place.name = place.name.take().or(Some(words));
        }
    }

    pub(super) fn is_line(&self) -> bool {
        matches!(&self.place, Some(p) if matches!(p.shape, Shape::Line(..)))
    }

    fn crosses(&self) -> bool {
        self.acts.crosses || self.is_line()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.acts.empty || self.none
    }

    /// The template that comes nearest to what was read.
    pub(super) fn nearest_template(&self, schedules: &[Schedule]) -> &'static str {
        let acts = &self.acts;
        match self.bound {
            _ if self.crosses() && self.counted => "traffic-count",
            _ if self.crosses() => "line-crossing",
            Some(CountBound::Over(_)) => "crowd",
            Some(CountBound::Under(_)) => "unattended",
            None if self.is_empty() => "unattended",
            None if acts.parks => "parking",
            None if acts.stays || self.spans.hold_s.is_some() => "loitering",
            None if self.counted && !self.told => "occupancy",
            None if acts.enters || self.place.is_some() => "zone-entry",
            None if !schedules.is_empty() => "intruder",
            None => "arrival",
        }
    }

    /// Refuses what no single condition can hold.
    pub(super) fn refuse_contradictions(&self, mentions: &[Mention]) -> Result<(), Need> {
        let (acts, crosses) = (&self.acts, self.crosses());
        let comes_or_goes = acts.enters || acts.leaves;
        // `free or occupied`, `comes or waits` are two conditions.
        let two = (acts.empty && (acts.occupied || acts.moves()))
            || (self.is_empty() && self.bound.is_some())
            || (acts.stays && (acts.leaves || acts.crosses))
            || (acts.appears && acts.leaves && !crosses)
            || self.has_clauses_apart();
        // `nobody but a dog` is that a dog is there alone.
        let alone = self.none && mentions.iter().any(|m| m.stand == Stand::Excluded);
        let refused = [
            (
                self.bound.is_some() && (acts.crosses || comes_or_goes),
                NO_SUM,
            ),
            (two, ONE_CONDITION),
            (self.none && (crosses || comes_or_goes), NONE_MOVES),
            (alone, NOT_ALONE),
        ];
        if let Some((_, why)) = refused.into_iter().find(|(is_so, _)| *is_so) {
            return Err(Need::meaning(why));
        }
        if let Some(interval_s) = self.spans.interval_s.filter(|_| self.told) {
            return Err(Need::meaning(format!(
                "I tell of events, and send no number every {}. Say only that it is counted, such as \"count cars at the gate\": the number stands in the pipeline's results at any time.",
                seconds(interval_s)
            )));
        }
        let moment = self.told && (crosses || acts.leaves);
        if let Some(held_s) = self.spans.hold_s.filter(|_| moment) {
            return Err(Need::meaning(format!(
                "Who {} does so in a moment, and not for {}. Say it without the time, or say for how long somebody stays (\"when a person is in the hall for {1}\") or nobody is there \
                 (\"when nobody is in the hall for {1}\").",
                if crosses { "crosses a line" } else { "leaves" },
                seconds(held_s)
            )));
        }
        if self.counted && !self.told && !crosses && comes_or_goes {
            let text = format!(
                "Who comes and who goes is counted where they cross a line. Where is it? {LINE_REMEDY}"
            );
            return Err(Need::new(Missing::Line, text));
        }
        Ok(())
    }

    /// Whether its clauses say more than one condition. Those who come and those who go are told by
    /// one watch.
    fn has_clauses_apart(&self) -> bool {
        let acts = &self.acts;
        let come_and_go = acts.enters && acts.leaves && self.spans.hold_s.is_none();
        self.clauses > 2 || (self.clauses == 2 && !come_and_go)
    }

    /// Adds the bound that `empty` and `occupied` say without a number.
    pub(super) fn complete_bound(&mut self) {
        self.bound = match (self.bound, self.is_empty(), self.acts.occupied) {
            (Some(bound), ..) => Some(bound),
            (None, true, _) => Some(CountBound::Under(1)),
            (None, false, true) => Some(CountBound::Over(0)),
            (None, false, false) => None,
        };
    }

    /// Adds the way that the verbs say.
    pub(super) fn complete_ways(&mut self, notes: &mut Notes) {
        if self.crosses() && self.ways.is_empty() {
            self.ways
                .extend(match (self.acts.enters, self.acts.leaves) {
                    _ if self.acts.both_ways => Some(Way::Any),
                    (true, false) => Some(Way::In),
                    (false, true) => Some(Way::Out),
                    _ => None,
                });
        }
        if self.bound.is_some() && self.acts.parks {
            notes.not_possible.push(
                "A number does not tell whether they are parked or drive: all that are there count."
                    .to_owned(),
            );
        }
    }

    /// The conditions; none where the request only counts.
    pub(super) fn conditions(&self, notes: &mut Notes) -> Result<Vec<What>, Need> {
        if self.crosses() {
            return self.crossing(notes);
        }
        if let Some(bound) = self.bound {
            return Ok(vec![self.count(bound, notes)]);
        }
        if self.acts.stays || (self.spans.hold_s.is_some() && self.told) {
            return Ok(vec![self.stay()?]);
        }
        match self.told {
            true => Ok(self.coming_and_going()),
            false => Ok(Vec::new()),
        }
    }

    fn crossing(&self, notes: &mut Notes) -> Result<Vec<What>, Need> {
        let Some(line) = self.place.as_ref().and_then(|p| match p.shape {
            Shape::Line(a, b) => Some((a, b)),
            Shape::Zone(_) => None,
        }) else {
            return Err(Need::new(
                Missing::Line,
                format!("Where is the line that they cross? {LINE_REMEDY}"),
            ));
        };
        let direction = direction_of(&self.ways, line, notes)?;
        if self.told {
            return Ok(vec![What::Crosses(direction)]);
        }
        if direction != CrossDirection::Any {
            notes.assumed.push(format!(
                "A line counts both directions, each by itself: the one that was said is count_{}.",
                if direction == CrossDirection::In {
                    "in"
                } else {
                    "out"
                }
            ));
        }
        Ok(Vec::new())
    }

    fn count(&self, bound: CountBound, notes: &mut Notes) -> What {
        let for_s = match (self.spans.hold_s, bound) {
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
        What::Count(bound, for_s)
    }

    fn stay(&self) -> Result<What, Need> {
        let Some(for_s) = self.spans.hold_s else {
            return Err(Need::new(
                Missing::Duration,
                "How long shall they stay before it counts? Say for example \"two minutes\".",
            ));
        };
        Ok(What::Stays(for_s))
    }

    fn coming_and_going(&self) -> Vec<What> {
        let mut conditions = Vec::new();
        if self.acts.enters {
            conditions.push(What::Enters);
        }
        if self.acts.leaves {
            conditions.push(What::Leaves);
        }
        if conditions.is_empty() {
            conditions.push(if self.place.is_some() {
                What::Enters
            } else {
                What::Appears
            });
        }
        conditions
    }

    /// Gives conditions that need a place the whole picture, where none was said.
    pub(super) fn complete_place(&mut self, conditions: &mut Vec<What>, notes: &mut Notes) {
        let needs_zone = conditions
            .iter()
            .any(|c| matches!(c, What::Leaves | What::Stays(_)));
        if self.place.is_none() && needs_zone {
            self.place = Some(whole_picture());
            notes
                .assumed
                .push("No place was said: the whole picture.".to_owned());
        } else if self.place.is_none() && conditions.contains(&What::Enters) {
            *conditions = vec![What::Appears];
            notes.assumed.push(
                "No place was said: an object seen for the first time has entered.".to_owned(),
            );
        }
    }

    /// Refuses one way without a line that is crossed.
    pub(super) fn refuse_way_without_line(&self) -> Result<(), Need> {
        let is_one_way = matches!(self.ways.as_slice(), [way] if *way != Way::Any);
        if is_one_way && !self.crosses() {
            return Err(Need::new(
                Missing::Line,
                format!(
                    "Which way something moves is told by a line that it crosses. Where is the line? {LINE_REMEDY}"
                ),
            ));
        }
        Ok(())
    }
}
