//! Search in the journal for the events of a question, newest first, page by page.
//!
//! Invariant: it reads at most [`MAX_PAGES`] pages, and reports when older records were not read,
//! or were deleted while it read.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use watchkeeper_contract::assessment::{Assessment, AssessmentAnswer, Assessor};
use watchkeeper_contract::event::{Event, EventBody, Phase, RuleEvent};
use watchkeeper_contract::id::{EventId, EventSeq, PipelineId, SourceId};
use watchkeeper_contract::rule::CrossDirection;
use watchkeeper_contract::time::TimeQuality;
use watchkeeper_plain::answer::EventsWanted;

use super::intervals::Intervals;
use crate::proposal::snapshot::place_name;
use crate::wording::counted;
use watchkeeper_client::JournalRecord;

/// Records per page.
pub const PAGE: u64 = 500;
/// Most pages read: 20,000 records.
pub const MAX_PAGES: usize = 40;
/// Most pages read for the newest events.
const MAX_LATEST_PAGES: usize = 3;
/// Most events returned; the newest.
pub const MAX_SHOWN: usize = 50;

/// Time before the range in which an event may have begun that continues in it.
pub const LOOKBACK: SignedDuration = SignedDuration::from_hours(24);
/// Most classes of which other events are counted.
const MAX_CLASSES: usize = 32;
/// Most cameras, and most pipelines, whose events are counted one by one.
pub(super) const MAX_CAMERAS: usize = 256;

/// A search in progress.
#[derive(Debug, Clone)]
pub struct EventSearch {
    wanted: EventsWanted,
    /// When each pipeline watched; `None`: an open event counts as seen until its end.
    watched: Option<BTreeMap<PipelineId, Intervals>>,
    /// Sequence number before the oldest record of the journal.
    floor: u64,
    /// Newest record not read yet.
    end: u64,
    pages: usize,
    max_pages: usize,
    /// Number of events with which the search ends; `None`: it looks for all.
    enough: Option<usize>,
    /// Events found so far, the newest first.
    result: EventSearchResult,
    /// Ends of the events that were seen so far, which are newer than their beginnings.
    ends: BTreeMap<EventId, Timestamp>,
    /// Last answers of people about events, which are newer than their beginnings.
    answers: BTreeMap<EventId, Box<Assessment>>,
    over: bool,
}

/// The beginning of an event of a rule, whether it was asked for or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunEvent {
    pub pipeline: PipelineId,
    pub rule: String,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct EventSearchResult {
    /// The newest events, oldest first, each with the last answer of a person.
    pub events: Vec<Event>,
    /// Times of all events, newest first, without those of an unsynchronised clock.
    pub moments: Vec<Timestamp>,
    /// Number of all events found.
    pub number: u64,
    /// Number of all events of each camera that has some.
    pub by_camera: BTreeMap<SourceId, u64>,
    /// Number of all events of each pipeline that has some, by its camera.
    pub by_pipeline: BTreeMap<(SourceId, PipelineId), u64>,
    /// Numbers of the events that match except for their class, by class.
    pub other_classes: BTreeMap<String, u64>,
    /// Beginnings of events in the range and in [`LOOKBACK`] before it, newest first.
    pub begun: Vec<BegunEvent>,
    /// What cool-downs and hourly limits left out before these events.
    pub held_back: u64,
    /// Further events that a person rejected.
    pub rejected: u64,
    /// Those of [`Self::number`] that count under the class to which a person corrected them.
    pub corrected: u64,
    /// Records that this version or the runtime can't read.
    pub unreadable: u64,
    /// Whether older records were not read.
    pub cut: bool,
    /// Whether records were deleted before they were read.
    pub deleted: bool,
}

impl EventSearch {
    /// Starts a search in a journal with the records `first` to `last`.
    pub fn new(wanted: EventsWanted, first: EventSeq, last: EventSeq) -> Self {
        Self {
            wanted,
            watched: None,
            floor: first.0.saturating_sub(1),
            end: last.0,
            pages: 0,
            max_pages: MAX_PAGES,
            enough: None,
            result: EventSearchResult::default(),
            ends: BTreeMap::new(),
            answers: BTreeMap::new(),
            over: false,
        }
    }

    /// An event that began before the range counts only if its pipeline watched at the start of the
    /// range. Nobody saw an object that stood there while the pipeline was paused.
    pub fn with_watched(self, watched: BTreeMap<PipelineId, Intervals>) -> Self {
        Self {
            watched: Some(watched),
            ..self
        }
    }

    /// Starts a search for the newest `most` events, in at most [`MAX_LATEST_PAGES`] pages.
    pub fn of_latest(most: usize, first: EventSeq, last: EventSeq) -> Self {
        Self {
            max_pages: MAX_LATEST_PAGES,
            enough: Some(most),
            ..Self::new(EventsWanted::default(), first, last)
        }
    }

    /// Returns the next page to read: a limit of records after a sequence number. `None` at the
    /// end.
    pub fn next(&self) -> Option<(EventSeq, u32)> {
        if self.over || self.end <= self.floor || self.pages >= self.max_pages {
            return None;
        }
        let after = self.below();
        let limit = u32::try_from(self.end - after).unwrap_or(u32::MAX);
        Some((EventSeq(after), limit))
    }

    /// Returns the sequence number before the next page.
    fn below(&self) -> u64 {
        self.end.saturating_sub(PAGE).max(self.floor)
    }

    /// Takes the number of the oldest record that the journal still has, before a page that lacks
    /// some: those below are deleted, not damaged.
    pub fn raise_floor(&mut self, first: EventSeq) {
        let floor = first.0.saturating_sub(1);
        self.result.deleted |= floor > self.floor;
        self.floor = self.floor.max(floor);
    }

    /// Adds the page that [`Self::next`] asked for. The runtime leaves out a damaged record, and no
    /// other: a number that the page lacks is an unreadable record.
    pub fn take(&mut self, page: Vec<JournalRecord>) {
        let mut unseen = self.end;
        for record in page.into_iter().rev() {
            let seq = record.seq().0;
            if seq > self.end {
                continue;
            }
            self.result.unreadable += unseen.saturating_sub(seq);
            unseen = seq.saturating_sub(1);
            let JournalRecord::Known(event) = record else {
                self.result.unreadable += 1;
                continue;
            };
            if self.before(&event) {
                self.over = true;
                break;
            }
            self.note(&event);
            if self.is_wanted(&event) {
                self.add(event);
            }
        }
        self.pages += 1;
        self.over |= self
            .enough
            .is_some_and(|most| self.result.events.len() >= most);
        self.end = self.below();
        if !self.over {
            self.result.unreadable += unseen.saturating_sub(self.end);
        }
    }

    /// Counts an event that is wanted, whatever its class and the answer of a person.
    fn add(&mut self, mut event: Box<Event>) {
        event.assessment = self.answers.remove(&event.id);
        let answer = event.assessment.as_deref().map(|given| given.answer);
        let corrected = event
            .assessment
            .as_ref()
            .and_then(|given| given.label.as_deref());
        let label = match &event.body {
            EventBody::Rule(rule) => corrected.or(rule.label.as_deref()),
            _ => None,
        };
        let labels = &self.wanted.labels;
        if labels.is_empty() || label.is_some_and(|l| labels.iter().any(|w| w == l)) {
            match answer {
                Some(AssessmentAnswer::Approve) | None => {}
                Some(AssessmentAnswer::Correct) => self.result.corrected += 1,
                Some(AssessmentAnswer::Reject | AssessmentAnswer::None) => {
                    self.result.rejected += 1;
                    return;
                }
            }
            self.count(&event);
            let is_dated = event.at.quality != TimeQuality::Unsynced;
            let moment = began(&event).filter(|at| self.wanted.from.is_none_or(|f| *at >= f));
            self.result.moments.extend(moment.filter(|_| is_dated));
            let most = self.wanted.most.unwrap_or(MAX_SHOWN).min(MAX_SHOWN);
            let found = &mut self.result.events;
            if self.wanted.only_number {
                return;
            }
            if found.len() < most {
                found.push(*event);
            } else if let [last] = found.as_mut_slice()
                && began(last) < began(&event)
            {
                // Its cool-down made its record the later one, and it came earlier.
                *last = *event;
            }
        } else if let Some(label) = label {
            let others = &mut self.result.other_classes;
            if others.len() < MAX_CLASSES || others.contains_key(label) {
                *others.entry(label.to_owned()).or_default() += 1;
            }
        }
    }

    fn count(&mut self, event: &Event) {
        self.result.number += 1;
        let rule = event.body.rule();
        self.result.held_back += rule.map_or(0, |rule| u64::from(rule.held_back));
        let Some(camera) = &event.source else {
            return;
        };
        count_one(&mut self.result.by_camera, camera.clone());
        if let Some(pipeline) = &event.pipeline {
            let key = (camera.clone(), pipeline.clone());
            count_one(&mut self.result.by_pipeline, key);
        }
    }

    /// Keeps the ends of events, and the beginnings of those of rules.
    fn note(&mut self, event: &Event) {
        match (event.phase, &event.body, &event.pipeline) {
            (Phase::Assessed, ..) => self.note_answer(event),
            (Phase::End, ..) => self.ends.extend(time(event).map(|at| (event.id, at))),
            (Phase::New, EventBody::Rule(rule), Some(pipeline)) => {
                self.result.begun.push(BegunEvent {
                    pipeline: pipeline.clone(),
                    rule: rule.rule.clone(),
                    at_ms: event.at.unix_ms,
                })
            }
            _ => {}
        }
    }

    /// Keeps the last answer of a person about an event.
    fn note_answer(&mut self, event: &Event) {
        if let Some(given) = event.assessment.as_deref()
            && let Assessor::Person(_) = given.by
        {
            let given = || Box::new(given.clone());
            self.answers.entry(event.id).or_insert_with(given);
        }
    }

    /// Whether an event began before the range and was seen to go on in it. Of events that stand
    /// for comings, only beginnings count.
    fn went_on(&self, event: &Event, from: Timestamp) -> bool {
        let condition = event.body.rule().map_or("", |rule| &rule.condition);
        let has_length = ["appears", "stays", "count", "value"].contains(&condition);
        let is_coming = condition == "appears" && !self.wanted.conditions.is_empty();
        let end = self.ends.get(&event.id);
        let times = self.watched.as_ref().zip(event.pipeline.as_ref());
        let is_watched = times.is_none_or(|(watched, pipeline)| {
            let times = watched.get(pipeline);
            times.is_some_and(|times| times.contains(from.as_millisecond()))
        });
        has_length && !is_coming && is_watched && end.is_none_or(|end| *end >= from)
    }

    /// Whether this event and all older ones are too long before the range. An event with a wrong
    /// clock decides nothing.
    fn before(&self, event: &Event) -> bool {
        let (Some(from), Some(at)) = (self.wanted.from, time(event)) else {
            return false;
        };
        event.at.quality == TimeQuality::Synced && at < from - LOOKBACK
    }

    /// Whether an event is wanted, whatever its class.
    fn is_wanted(&self, event: &Event) -> bool {
        let EventsWanted {
            camera,
            place,
            pipelines,
            labels: _,
            conditions,
            direction,
            from,
            to,
            only_number,
            pictures: _,
            is_yes_or_no,
            most: _,
            by_hour: _,
            compared_with: _,
        } = &self.wanted;
        let rule = event.body.rule();
        let condition = rule.map(|rule| &rule.condition);
        let is_there = |place: &String| {
            let there = |rule: &RuleEvent| {
                rule.zone
                    .as_deref()
                    .or(rule.line.as_deref())
                    .map(place_name)
            };
            rule.and_then(there).is_some_and(|there| there == *place)
        };
        // Only crossings have one.
        let goes = rule.and_then(|rule| rule.direction.as_deref());
        let is_way = |way: CrossDirection| goes.is_none_or(|goes| json!(way) == goes);
        let of_pipeline = event.pipeline.as_ref();
        let at = began(event);
        event.phase == Phase::New
            // Outages and changes of models are not activity.
            && (rule.is_some() || !(*only_number || *is_yes_or_no))
            && camera
                .as_ref()
                .is_none_or(|c| event.source.as_ref() == Some(c))
            && place.as_ref().is_none_or(is_there)
            && (pipelines.is_empty() || of_pipeline.is_some_and(|p| pipelines.contains(p)))
            && (conditions.is_empty() || condition.is_some_and(|c| conditions.contains(c)))
            && direction.is_none_or(is_way)
            && from.is_none_or(|from| at.is_some_and(|at| at >= from || self.went_on(event, from)))
            && to.is_none_or(|to| at.is_some_and(|at| at < to))
    }

    pub fn done(mut self) -> EventSearchResult {
        self.result.events.reverse();
        self.result.cut = !self.over && self.end > self.floor;
        self.result.deleted &= !self.over;
        self.result
    }
}

fn time(event: &Event) -> Option<Timestamp> {
    Timestamp::from_millisecond(event.at.unix_ms).ok()
}

/// When what an event reports began. An object that came during a cool-down may have its event
/// after it.
pub(super) fn began(event: &Event) -> Option<Timestamp> {
    let seen_s = match &event.body {
        EventBody::Rule(rule) if ["appears", "enters"].contains(&&*rule.condition) => rule.dwell_s,
        _ => None,
    };
    let seen_ms = (seen_s.unwrap_or(0.0) * 1e3) as i64;
    Timestamp::from_millisecond(event.at.unix_ms.saturating_sub(seen_ms)).ok()
}

/// Adds one to the number of `key`, up to [`MAX_CAMERAS`] keys.
fn count_one<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    if counts.len() < MAX_CAMERAS || counts.contains_key(&key) {
        *counts.entry(key).or_default() += 1;
    }
}

impl EventSearchResult {
    /// Whether each record was read.
    pub fn is_complete(&self) -> bool {
        !self.cut && !self.deleted && self.unreadable == 0
    }

    /// What cool-downs and hourly limits left out, in a sentence.
    pub fn left_out_sentence(&self) -> Option<String> {
        let left_out = self.held_back;
        (left_out > 0).then(|| {
            format!("{left_out} more, of any class, were held back by cool-downs or hourly limits.")
        })
    }

    /// The number of events, in a sentence.
    pub fn number_sentence(&self) -> String {
        let mut text = match self.number {
            0 => "No event was recorded.".to_owned(),
            number => format!("{}.", counted(number, "event")),
        };
        if self.rejected > 0 {
            let rejected = counted(self.rejected, "event");
            text.push_str(&format!(" Not counted: {rejected} that a person rejected."));
        }
        if self.corrected > 0 {
            let corrected = counted(self.corrected, "event");
            text.push_str(&format!(" Counted by the corrected class: {corrected}."));
        }
        if self.unreadable > 0 {
            let records = counted(self.unreadable, "record");
            text.push_str(&format!(" {records} of the journal could not be read."));
        }
        if self.deleted {
            text.push_str(
                " The oldest records of the journal were deleted during the search; ask again.",
            );
        }
        if self.cut {
            text.push_str(&format!(
                " Only the latest {} records were searched; `watchkeeper events --after NUMBER` shows older ones.",
                MAX_PAGES as u64 * PAGE
            ));
        }
        text
    }

    /// Introduction of the list of events if the list is not complete.
    pub fn list_sentence(&self) -> Option<String> {
        let shown = self.events.len();
        (shown > 0 && self.number > shown as u64).then(|| match shown {
            1 => "The latest:".to_owned(),
            shown => format!("The latest {shown}:"),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
