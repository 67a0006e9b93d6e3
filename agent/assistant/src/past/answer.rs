//! An answer about the past, in words.
//!
//! - It says which cameras watched, for what, and what is unknown, so that "none" is never read as
//!   "nothing happened".
//! - Unknown times and classes are named up to a bound, the longest first.
//! - Not here: what is known (`knowledge`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use watchkeeper_contract::coverage::CoverageReport;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::time::TimeQuality;
use watchkeeper_plain::answer::EventsWanted;

use super::describe::{MAX_WEEK_MS, duration_ms, moment, reason, zone_name};
use super::event_search::{EventSearchResult, MAX_CAMERAS, began};
use super::hours::{self, HourCount, count_by_hour};
use super::knowledge::{CameraKnowledge, Knowledge, Unknown};
use super::question::{PastQuestion, is_dated};
use super::replay::ReplayedEvents;
use super::why::Why;
use crate::wording::counted;

/// Unknown times that an answer names.
const MAX_NAMED: usize = 4;

/// Classes that an answer names.
const MAX_CLASSES: usize = 6;

/// Length below which an unknown time is left out, in milliseconds.
const MIN_MS: i64 = 1000;

/// Length below which an unknown time is shown with its seconds.
const SHORT_MS: i64 = 120_000;

/// Events, and what else could have been known.
#[derive(Debug, Clone, PartialEq)]
pub struct PastAnswer {
    pub found: EventSearchResult,
    pub knowledge: Knowledge,
    /// Report from which the knowledge was computed.
    pub report: CoverageReport,
    /// Numbers of events by the hour, where they are asked for.
    pub hours: Vec<HourCount>,
    /// Whether a number is asked for.
    pub only_number: bool,
    /// Whether the question is answered by yes or no.
    pub is_yes_or_no: bool,
    /// When the one event began that is asked for, milliseconds since 1970.
    pub last_ms: Option<i64>,
    /// What each watch with cool-downs would have reported without them.
    pub replayed: Vec<ReplayedEvents>,
    /// The answer for the span that this one is compared with.
    pub compared_with: Option<Box<PastAnswer>>,
}

impl PastAnswer {
    /// Computes the answer for one span on a box with these `cameras` and their names; times are in
    /// `zone`.
    pub fn new(
        wanted: &EventsWanted,
        found: EventSearchResult,
        report: CoverageReport,
        cameras: &BTreeMap<SourceId, String>,
        zone: &TimeZone,
    ) -> Self {
        let ids: Vec<SourceId> = cameras.keys().cloned().collect();
        let question = PastQuestion::new(wanted, &ids, &report);
        let mut knowledge = Knowledge::of(&question, &report, &found.begun, zone);
        for known in &mut knowledge.cameras {
            if let Some(name) = cameras.get(&known.camera) {
                known.name.clone_from(name);
            }
        }
        let hours = if wanted.by_hour {
            count_by_hour(&found.moments, zone)
        } else {
            Vec::new()
        };
        let last_ms = match (wanted.most, found.events.as_slice()) {
            (Some(1), [event]) if event.at.quality != TimeQuality::Unsynced => {
                began(event).map(|at| at.as_millisecond())
            }
            _ => None,
        };
        Self {
            last_ms,
            is_yes_or_no: wanted.is_yes_or_no,
            only_number: wanted.only_number,
            found,
            knowledge,
            report,
            hours,
            replayed: Vec::new(),
            compared_with: None,
        }
    }

    /// Whether cool-downs or hourly limits left something out.
    pub(super) fn is_limited(&self) -> bool {
        let mut unknown = self.knowledge.cameras.iter().flat_map(|c| &c.unknown);
        let is_quiet =
            |gap: &Unknown| gap.why == Why::CoolingDown && gap.to_ms - gap.from_ms >= MIN_MS;
        self.found.held_back > 0 || unknown.any(is_quiet)
    }

    /// When the cameras were watched, whatever their rules report, in words.
    pub fn coverage_sentence(mut self, zone: &TimeZone) -> String {
        let cameras = &mut self.knowledge.cameras;
        cameras
            .iter_mut()
            .for_each(|camera| camera.unknown.retain(|gap| !gap.why.is_watched()));
        let (from, to) = self.knowledge.question.range;
        let length = |gap: &Unknown| gap.to_ms - gap.from_ms;
        let (mut whole, mut part) = (Vec::new(), Vec::new());
        for camera in &self.knowledge.cameras {
            let gaps = || camera.unknown.iter().map(length);
            if gaps().all(|gap| gap < MIN_MS) {
                whole.push(camera.title());
            } else if gaps().sum::<i64>() < to - from {
                part.push(camera.title());
            }
        }
        let mut sentences = Vec::new();
        for (when, names) in [("all", whole), ("part of", part)] {
            if !names.is_empty() {
                sentences.push(format!("Watched {when} that time: {}.", names.join(", ")));
            }
        }
        let unknown = self.unknown(zone);
        if !unknown.is_empty() {
            sentences.push(format!("Not watched, or not known: {unknown}."));
        }
        let mut gaps = self.knowledge.cameras.iter().flat_map(|c| &c.unknown);
        if gaps.any(|gap| gap.why == Why::NotWatched) {
            let connection = "Without a watch it is not known whether a camera was connected.";
            sentences.push(connection.to_owned());
        }
        sentences.join(" ")
    }

    pub(super) fn of_span(&self, zone: &TimeZone) -> String {
        let parts = [Some(self.without_list(zone)), self.found.list_sentence()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// The answer without the title of the list of events.
    pub(super) fn without_list(&self, zone: &TimeZone) -> String {
        let (found, knowledge) = (&self.found, &self.knowledge);
        let mut parts = Vec::new();
        let is_empty = found.number == 0 && found.is_complete();
        let is_yes = self.is_yes_or_no && found.number > 0;
        let unknown = self.unknown(zone);
        if !is_empty {
            parts.extend(self.last_ms.map(|ms| {
                let (from, to) = knowledge.question.range;
                let at = moment(ms, true, to - from > MAX_WEEK_MS, zone);
                format!("At {at} {}.", zone_name(ms, zone))
            }));
            let is_all = unknown.is_empty() && found.is_complete() && self.rare_looks().is_none();
            let yes = match is_yes {
                true if is_all => "Yes: ",
                true => "Yes: at least ",
                false => "",
            };
            parts.push(format!("{yes}{}", found.number_sentence()));
            parts.extend(found.left_out_sentence());
            parts.extend(self.cameras_sentence());
            parts.extend(self.watches_sentence());
            parts.extend(hours::sentence(&self.hours, found, knowledge, zone));
            let rare_looks = self.rare_looks().filter(|_| !is_yes);
            parts.extend(rare_looks.map(|rate| {
                format!("The box looked at {rate}; what came in between is not known.")
            }));
        } else if knowledge.is_none() {
            parts.push(format!("I could not have known: {unknown}."));
        } else if knowledge.is_whole() && self.only().is_none() {
            parts.push(format!("No event: {}.", self.watched("all that time")));
        } else {
            let when = if knowledge.is_whole() {
                "all that time".to_owned()
            } else if unknown.is_empty() {
                "almost all that time".to_owned()
            } else {
                self.known_part()
            };
            parts.push(format!("No event was recorded: {}.", self.watched(&when)));
        }
        // "Yes" stays true, and its number is said to be the least.
        let is_said = is_yes || knowledge.is_whole() || (is_empty && knowledge.is_none());
        if !is_said && !unknown.is_empty() {
            parts.push(format!("Not known: {unknown}."));
        }
        let range = knowledge.question.range;
        parts.extend(self.replayed.iter().map(|of| of.sentence(range, zone)));
        parts.extend(self.only());
        parts.extend(self.of_other_classes());
        parts.join(" ")
    }

    /// The entries of which something is known.
    fn seeing(&self) -> impl Iterator<Item = &CameraKnowledge> + Clone {
        let cameras = self.knowledge.cameras.iter();
        cameras.filter(|camera| !self.knowledge.is_unknown(camera))
    }

    /// How much of the time is known, in numbers where the question is about one camera.
    fn known_part(&self) -> String {
        let (from, to) = self.knowledge.question.range;
        let mut seeing = self.seeing();
        if seeing.clone().all(|camera| camera.unknown.is_empty()) {
            return "all that time".to_owned();
        }
        match (seeing.next(), seeing.next()) {
            (Some(camera), None) => format!(
                "during {} of {}",
                duration_ms(camera.known.length()),
                duration_ms(to - from)
            ),
            _ => "part of that time".to_owned(),
        }
    }

    /// The number of each watch, where several of one camera counted.
    fn watches_sentence(&self) -> Option<String> {
        let counts = &self.found.by_pipeline;
        let mut cameras: Vec<&SourceId> = counts.keys().map(|(camera, _)| camera).collect();
        let watches = cameras.len();
        cameras.dedup();
        let shown: Vec<String> = counts
            .iter()
            .map(|((_, pipeline), number)| format!("{pipeline} {number}"))
            .collect();
        (self.only_number && cameras.len() < watches).then(|| {
            format!(
                "By watch: {}; what several of them report is counted by each.",
                shown.join(", ")
            )
        })
    }

    fn cameras_sentence(&self) -> Option<String> {
        let number = |camera: &CameraKnowledge| {
            let number = self.found.by_camera.get(&camera.camera).copied();
            match number {
                None if self.knowledge.is_unknown(camera) => None,
                None if self.found.by_camera.len() >= MAX_CAMERAS => {
                    Some(format!("{} not counted", camera.name))
                }
                number => Some(format!("{} {}", camera.name, number.unwrap_or(0))),
            }
        };
        let mut cameras: Vec<&CameraKnowledge> = self.knowledge.cameras.iter().collect();
        cameras.dedup_by(|next, camera| next.camera == camera.camera);
        let all = cameras.len();
        let numbers: Vec<String> = cameras.into_iter().filter_map(number).collect();
        let others = match numbers.len() == all {
            true => "",
            false => "; of the others nothing is known",
        };
        let is_asked = self.only_number && all > 1 && !numbers.is_empty();
        is_asked.then(|| format!("By camera: {}{others}.", numbers.join(", ")))
    }

    /// The cameras that watched, with their classes and how often.
    fn watched(&self, when: &str) -> String {
        let seeing = self.seeing();
        let labels = &self.knowledge.question.labels;
        let asked = seeing
            .clone()
            .flat_map(|camera| match camera.about.as_slice() {
                [] => labels.as_slice(),
                about => about,
            });
        let told = seeing.clone().flat_map(|camera| &camera.classes);
        let classes: BTreeSet<&str> = asked.chain(told).map(String::as_str).collect();
        let names: Vec<String> = match classes.len() {
            1 => seeing.clone().map(|camera| camera.name.clone()).collect(),
            _ => seeing.clone().map(CameraKnowledge::title).collect(),
        };
        let classes = match classes.len() {
            0 => String::new(),
            1..=MAX_CLASSES => {
                let classes: Vec<&str> = classes.into_iter().collect();
                format!(" for {}", classes.join(" or "))
            }
            n => format!(" for {n} classes"),
        };
        let rate = self.rare_looks();
        let rate = rate.map_or_else(String::new, |rate| format!(", {rate}"));
        format!("{} watched{classes} {when}{rate}", names.join(", "))
    }

    /// How often a camera was looked at, where that is less than once a second.
    fn rare_looks(&self) -> Option<String> {
        let rate = self.seeing().filter_map(|camera| camera.rate);
        let rate = rate.reduce(f64::min).filter(|rate| *rate < 1.0)?;
        Some(format!("a picture every {:.0} s", 1.0 / rate))
    }

    /// The kinds of events that were recorded, if no rule records all.
    fn only(&self) -> Option<String> {
        let only = self.knowledge.cameras.iter().filter(|c| !c.only.is_empty());
        let only: Vec<String> = only
            .map(|c| {
                let told: Vec<&str> = c.only.iter().map(String::as_str).collect();
                let when = if c.is_all_in_part {
                    ", part of that time"
                } else {
                    ""
                };
                format!("on {} only {}{when}", c.name, told.join(", "))
            })
            .collect();
        (!only.is_empty()).then(|| format!("Not all is recorded: {}.", only.join("; ")))
    }

    /// Events that a detector without classes recorded instead.
    fn of_other_classes(&self) -> Option<String> {
        let unknown = self.knowledge.cameras.iter().flat_map(|c| &c.unknown);
        let models = unknown.filter_map(|gap| match &gap.why {
            Why::NoClasses { model } => Some(model),
            _ => None,
        });
        let others = &self.found.other_classes;
        let model = models
            .into_iter()
            .find(|model| others.contains_key(*model))?;
        let number = others.get(model)?;
        Some(format!(
            "Also recorded: {} of {model}, which does not tell what moved.",
            counted(*number, "event")
        ))
    }

    /// The unknown times of [`MIN_MS`] or longer, the longest first where there are too many.
    fn unknown(&self, zone: &TimeZone) -> String {
        let (from, to) = self.knowledge.question.range;
        if from >= to || self.knowledge.cameras.is_empty() {
            return self.without_span(zone);
        }
        // Times before the one event that is asked for can't have a later one.
        let since = self.last_ms.unwrap_or(from);
        let is_shown = |gap: &&Unknown| {
            gap.to_ms > since && (gap.to_ms - gap.from_ms >= MIN_MS || to - from < MIN_MS)
        };
        let mut gaps: Vec<(Vec<String>, &Unknown)> = Vec::new();
        let mut quiet = Vec::new();
        for camera in &self.knowledge.cameras {
            let shown = camera.unknown.iter().filter(is_shown);
            let (cooling, others): (Vec<_>, Vec<_>) =
                shown.partition(|gap| gap.why == Why::CoolingDown);
            // One is named by its time, several by their sum.
            let alone = cooling.iter().copied().filter(|_| cooling.len() == 1);
            for gap in others.into_iter().chain(alone) {
                match gaps.iter_mut().find(|(_, known)| *known == gap) {
                    Some((cameras, _)) => cameras.push(camera.title()),
                    None => gaps.push((vec![camera.title()], gap)),
                }
            }
            if cooling.len() > 1 {
                let total: i64 = cooling.iter().map(|gap| gap.to_ms - gap.from_ms).sum();
                quiet.push(format!(
                    "{} for {} in {} cool-downs after events",
                    camera.title(),
                    duration_ms(total),
                    cooling.len()
                ));
            }
        }
        gaps.sort_by_key(|(_, gap)| gap.from_ms - gap.to_ms);
        let more = gaps.split_off(gaps.len().min(MAX_NAMED));
        gaps.sort_by(|(a, x), (b, y)| (a, x.from_ms).cmp(&(b, y.from_ms)));
        let said = gaps.iter().map(|(c, gap)| self.gap(c, gap, zone));
        let mut said: Vec<String> = said.chain(quiet).collect();
        if !more.is_empty() {
            let total: i64 = more.iter().map(|(_, gap)| gap.to_ms - gap.from_ms).sum();
            said.push(format!(
                "and {} ({} in all)",
                counted(more.len() as u64, "shorter time"),
                duration_ms(total)
            ));
        }
        said.join("; ")
    }

    /// Why nothing is known where the question has no span: none was named and nothing watched, or
    /// it is still to come.
    fn without_span(&self, zone: &TimeZone) -> String {
        let (from, to) = self.knowledge.question.range;
        let cameras = self.knowledge.cameras.iter();
        let names: Vec<&str> = cameras.map(|camera| camera.name.as_str()).collect();
        if names.is_empty() {
            return "there is no camera".to_owned();
        }
        // A question without a start begins with the first dated span.
        if from > to || self.report.spans.iter().any(is_dated) {
            return "that time is still to come".to_owned();
        }
        let why = match self.report.spans.as_slice() {
            [] => Why::NotWatched,
            _ => Why::ClockWrong,
        };
        format!("{}, because {}", names.join(", "), reason(&why, zone))
    }

    fn gap(&self, cameras: &[String], gap: &Unknown, zone: &TimeZone) -> String {
        let (from, to) = self.knowledge.question.range;
        let when = if (gap.from_ms, gap.to_ms) == (from, to) {
            String::new()
        } else {
            let is_short = gap.to_ms - gap.from_ms < SHORT_MS;
            let is_long = to - from > MAX_WEEK_MS;
            let shown = |ms| moment(ms, is_short, is_long, zone);
            let (from, to) = (shown(gap.from_ms), shown(gap.to_ms));
            format!(" from {from} to {to} {}", zone_name(gap.to_ms, zone))
        };
        format!(
            "{}{when}, because {}",
            cameras.join(", "),
            reason(&gap.why, zone)
        )
    }
}
