//! A question about the past, and the part of it that a span of coverage answers.

use std::collections::BTreeSet;

use watchkeeper_contract::coverage::{CoverageReport, CoverageSpan, SpanEnd, WatchedRule};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::rule::CrossDirection;
use watchkeeper_contract::time::TimeQuality;
use watchkeeper_plain::answer::EventsWanted;

use super::why::Why;
use crate::proposal::snapshot::place_name;

/// Condition that reports every object, wherever it is in the picture.
const APPEARS: &str = "appears";
/// Condition that reports every object in its zone.
const ENTERS: &str = "enters";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastQuestion {
    /// Cameras that it is about, by id.
    pub cameras: Vec<SourceId>,
    /// Only this zone or line, by [`place_name`]; absent: anywhere.
    pub place: Option<String>,
    /// Only these pipelines; empty: all.
    pub pipelines: Vec<PipelineId>,
    /// Only these classes; empty: all.
    pub labels: Vec<String>,
    /// Only these kinds of events; empty: all.
    pub conditions: Vec<String>,
    /// Of crossings only those of this direction; absent: of both.
    pub direction: Option<CrossDirection>,
    /// Range, milliseconds since 1970; the end is excluded.
    pub range: (i64, i64),
}

/// Part of a question that a rule answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tells {
    /// Each event that was asked for.
    All,
    /// Only a part, in words.
    Part(String),
    No(Why),
}

impl PastQuestion {
    /// The question for `wanted`, on a box that has `cameras` now. Without a start it begins with
    /// the first span that is known.
    pub fn new(wanted: &EventsWanted, cameras: &[SourceId], report: &CoverageReport) -> Self {
        let cameras: BTreeSet<&SourceId> = match &wanted.camera {
            Some(camera) => [camera].into(),
            None => {
                let watched = report.spans.iter().map(|span| &span.watch.source);
                cameras.iter().chain(watched).collect()
            }
        };
        let first = report.spans.iter().filter(|span| is_dated(span));
        let first = first.map(|span| span.from.unix_ms).min();
        let from = wanted.from.map(|at| at.as_millisecond()).or(first);
        let to = wanted.to.map(|at| at.as_millisecond());
        // The future is not known, and not asked for.
        let to = to.unwrap_or(i64::MAX).min(report.at.unix_ms);
        Self {
            cameras: cameras.into_iter().cloned().collect(),
            place: wanted.place.clone(),
            pipelines: wanted.pipelines.clone(),
            labels: wanted.labels.clone(),
            conditions: wanted.conditions.clone(),
            direction: wanted.direction,
            range: (from.unwrap_or(to), to),
        }
    }

    /// Whether a span is of a pipeline and of a camera that the question is about.
    pub(super) fn is_about(&self, span: &CoverageSpan, camera: &SourceId) -> bool {
        let watch = &span.watch;
        watch.source == *camera
            && (self.pipelines.is_empty() || self.pipelines.contains(&watch.pipeline))
    }

    /// Whether a rule is about another place than the question.
    pub(super) fn is_elsewhere(&self, rule: &WatchedRule) -> bool {
        self.place.is_some() && self.place != rule.place.as_deref().map(place_name)
    }

    /// Part of the question that a rule of a span answers.
    pub(super) fn tells(&self, span: &CoverageSpan, rule: &WatchedRule) -> Tells {
        let is_other = !self.conditions.is_empty() && !self.conditions.contains(&rule.condition);
        let is_back = self
            .direction
            .is_some_and(|way| rule.direction.is_some_and(|of| of != way));
        let is_elsewhere = self.is_elsewhere(rule);
        // A rule that reports other classes answers nothing, whatever it reports of them.
        if !is_elsewhere && let Err(why) = self.check_classes(span, rule) {
            return Tells::No(why);
        }
        if is_elsewhere || is_other || is_back {
            return Tells::No(Why::OtherEvents {
                told: vec![describe(rule)],
            });
        }
        let is_at_place = self.place.is_some() || rule.place.is_none();
        let is_everywhere = match self.conditions.as_slice() {
            [] => rule.condition == APPEARS || self.place.is_some() && rule.condition == ENTERS,
            [_] => is_at_place,
            // It reports one of several kinds.
            _ => false,
        };
        let is_both_ways = rule.direction.is_none() || rule.direction == self.direction;
        let is_everywhere = is_everywhere && !rule.may_drop && is_both_ways;
        if is_everywhere {
            return Tells::All;
        }
        let of = match self.labels.as_slice() {
            [] => String::new(),
            labels => format!(" of {}", labels.join(" or ")),
        };
        let filter = if rule.may_drop {
            ", as far as its filters let them through"
        } else {
            ""
        };
        Tells::Part(format!("{}{of}{filter}", describe(rule)))
    }

    /// Returns why the rule could report no class of the question.
    fn check_classes(&self, span: &CoverageSpan, rule: &WatchedRule) -> Result<(), Why> {
        let detectors = &rule.detectors;
        let classes = detectors.iter().flat_map(|detector| &detector.classes);
        let classes: BTreeSet<&String> = match (span.watch.renames_classes, &rule.classes) {
            (true, named) => named.iter().collect(),
            (false, named) if named.is_empty() => classes.collect(),
            (false, named) => classes.filter(|class| named.contains(class)).collect(),
        };
        if self.labels.is_empty() || self.labels.iter().any(|label| classes.contains(label)) {
            // An event about a number or a value is about no object.
            return match rule.condition.as_str() {
                "count" | "value" if !self.labels.is_empty() => Err(Why::OtherEvents {
                    told: vec![describe(rule)],
                }),
                _ => Ok(()),
            };
        }
        if span.watch.renames_classes && rule.classes.is_empty() {
            return Err(Why::RenamedClasses);
        }
        let knowing = detectors
            .iter()
            .find(|detector| !detector.classes.is_empty());
        Err(match (knowing, detectors.first()) {
            (None, Some(detector)) => Why::NoClasses {
                model: detector.model.clone(),
            },
            _ => Why::OtherClasses {
                told: match classes.len() > MAX_NAMED {
                    true => Vec::new(),
                    false => classes.into_iter().take(MAX_NAMED).cloned().collect(),
                },
            },
        })
    }
}

/// Classes that a reason names.
const MAX_NAMED: usize = 6;

/// Whether the times of a span can be trusted, and those of its events. A clock that was set was
/// wrong before, unless a time source had set it already.
pub(super) fn is_dated(span: &CoverageSpan) -> bool {
    let qualities = [span.from.quality, span.to.quality];
    let was_wrong = span.end == SpanEnd::ClockSet && qualities != [TimeQuality::Synced; 2];
    !was_wrong && has_time(span)
}

/// Whether it is known when a span was.
pub(super) fn has_time(span: &CoverageSpan) -> bool {
    ![span.from.quality, span.to.quality].contains(&TimeQuality::Unsynced)
}

/// The classes that a rule reported; empty if it reported everything that moved.
pub(super) fn classes_of(rule: &WatchedRule) -> BTreeSet<String> {
    let known = rule.detectors.iter().flat_map(|detector| &detector.classes);
    match rule.classes.is_empty() {
        true => known.cloned().collect(),
        false => rule.classes.iter().cloned().collect(),
    }
}

/// The events that a rule records, in the plural.
fn describe(rule: &WatchedRule) -> String {
    let place: &str = match rule.place.as_deref() {
        // Names that a template gives.
        Some(place @ ("line" | "zone" | "picture")) => &format!("the {place}"),
        place => place.unwrap_or("the place"),
    };
    let direction = match rule.direction {
        Some(CrossDirection::In) => " inwards",
        Some(CrossDirection::Out) => " outwards",
        Some(CrossDirection::Any) | None => "",
    };
    match rule.condition.as_str() {
        APPEARS => "first sights".to_owned(),
        ENTERS => format!("entries into {place}"),
        "leaves" => format!("departures from {place}"),
        "stays" => format!("stays in {place}"),
        "crosses" => format!("crossings of {place}{direction}"),
        _ => format!("events of the rule {}", rule.name),
    }
}
