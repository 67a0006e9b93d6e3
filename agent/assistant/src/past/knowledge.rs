//! What could have been known about a question, camera by camera.
//!
//! - A time counts as known only where each event that was asked for would have been recorded.
//! - Every gap has a reason: the first that holds, else how the span before it ended. The pause of
//!   a watch that answers the question comes before the reports of other watches.
//! - Not here: the question (`question`), and words for the result (`describe`, `answer`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use watchkeeper_contract::coverage::{CoverageReport, CoverageSpan, SpanEnd, WatchedRule};
use watchkeeper_contract::id::{PipelineId, SourceId};

use super::event_search::{BegunEvent, LOOKBACK};
use super::intervals::Intervals;
use super::question::{PastQuestion, Tells, classes_of, has_time, is_dated};
use super::schedule::active;
use super::why::Why;

/// Times for which the answer to a question is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Knowledge {
    pub question: PastQuestion,
    /// One for each camera of the question; several where its classes are not known alike.
    pub cameras: Vec<CameraKnowledge>,
}

/// Times for which one camera's answer is known.
#[derive(Debug, Clone, PartialEq)]
pub struct CameraKnowledge {
    pub camera: SourceId,
    /// What people call it; its id if it has no name.
    pub name: String,
    /// The classes of the question that this is about; empty: all of them.
    pub about: Vec<String>,
    /// When an event would have been recorded.
    pub known: Intervals,
    /// The rest of the range, rising.
    pub unknown: Vec<Unknown>,
    /// If no rule answers the whole question: the parts that rules answer.
    pub only: BTreeSet<String>,
    /// Whether some rule answers the whole question in another part of the range.
    pub is_all_in_part: bool,
    /// If the question names no class: the reported classes; empty if everything that moved was
    /// reported.
    pub classes: BTreeSet<String>,
    /// Lowest rate of the spans that were used, in pictures a second.
    pub rate: Option<f64>,
}

/// A time of which nothing is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Milliseconds since 1970; the end is excluded.
    pub from_ms: i64,
    pub to_ms: i64,
    pub why: Why,
}

/// Length below which a known time answers nothing, in milliseconds.
const MIN_KNOWN_MS: i64 = 1000;
/// Frames below which a span has no rate.
const MIN_FRAMES: u64 = 2;

impl CameraKnowledge {
    /// Its name, with the classes that this is about.
    pub(super) fn title(&self) -> String {
        match self.about.as_slice() {
            [] => self.name.clone(),
            about => format!("{} ({})", self.name, about.join(" or ")),
        }
    }
}

impl Knowledge {
    /// Compares a question with the coverage. `begun` are the events in its range and some time
    /// before; schedules are in `zone`.
    pub fn of(
        question: &PastQuestion,
        report: &CoverageReport,
        begun: &[BegunEvent],
        zone: &TimeZone,
    ) -> Self {
        let given = AnswerInput {
            question,
            report,
            begun,
            zone,
        };
        let cameras = question.cameras.iter();
        Self {
            cameras: cameras.flat_map(|camera| given.by_class(camera)).collect(),
            question: question.clone(),
        }
    }

    /// Whether each event that was asked for would have been recorded.
    pub fn is_whole(&self) -> bool {
        !self.cameras.is_empty() && self.cameras.iter().all(|camera| camera.unknown.is_empty())
    }

    /// Whether no event could have been recorded.
    pub fn is_none(&self) -> bool {
        self.cameras.iter().all(|camera| self.is_unknown(camera))
    }

    /// Whether nothing is known of a camera, except in less than [`MIN_KNOWN_MS`].
    pub fn is_unknown(&self, camera: &CameraKnowledge) -> bool {
        let (from, to) = self.question.range;
        camera.known.is_empty() || camera.known.length() < MIN_KNOWN_MS.min(to - from)
    }
}

/// Input of an answer.
struct AnswerInput<'a> {
    question: &'a PastQuestion,
    report: &'a CoverageReport,
    begun: &'a [BegunEvent],
    zone: &'a TimeZone,
}

/// Known and unknown times from the spans of one camera.
#[derive(Default)]
struct Collected {
    all: Vec<(i64, i64)>,
    part: Vec<(i64, i64)>,
    only: BTreeSet<String>,
    classes: BTreeSet<String>,
    reasons: Vec<(Intervals, Why)>,
    /// Reasons of rules at the place of the question that do not answer it.
    there_reasons: Vec<(Intervals, Why)>,
    /// Reasons of the other rules that do not answer it.
    other_reasons: Vec<(Intervals, Why)>,
    rate: Option<f64>,
}

impl AnswerInput<'_> {
    /// The knowledge about the classes of the question, those that are known alike together. A rule
    /// for cats does not answer whether there was a dog. What is known for longest is first.
    fn by_class(&self, camera: &SourceId) -> Vec<CameraKnowledge> {
        if self.question.labels.len() < 2 {
            return vec![self.camera_knowledge(camera)];
        }
        let mut groups: Vec<CameraKnowledge> = Vec::new();
        for class in &self.question.labels {
            let question = PastQuestion {
                labels: vec![class.clone()],
                ..self.question.clone()
            };
            let given = AnswerInput {
                question: &question,
                report: self.report,
                begun: self.begun,
                zone: self.zone,
            };
            let known = given.camera_knowledge(camera);
            let is_alike = |group: &&mut CameraKnowledge| {
                group.known == known.known && group.unknown == known.unknown
            };
            match groups.iter_mut().find(is_alike) {
                Some(group) => {
                    group.about.push(class.clone());
                    group.only.extend(known.only);
                }
                None => groups.push(CameraKnowledge {
                    about: vec![class.clone()],
                    ..known
                }),
            }
        }
        if let [group] = groups.as_mut_slice() {
            group.about.clear();
        }
        groups.sort_by_key(|group| Reverse(group.known.length()));
        groups
    }

    fn camera_knowledge(&self, camera: &SourceId) -> CameraKnowledge {
        let (from, to) = self.question.range;
        let whole = Intervals::one(from, to);
        let report = self.report;
        let deleted = report.spans_since_ms.max(report.events_since_ms);
        let deleted =
            deleted.map_or_else(Intervals::default, |ms| Intervals::one(from, ms.min(to)));
        let unstored_ms = match report.events_waiting {
            0 => to,
            _ => report.events_waiting_since_ms.unwrap_or(from),
        };
        let unstored = Intervals::one(unstored_ms.max(from), to);
        let mut found = Collected {
            reasons: vec![
                (deleted.clone(), Why::Deleted),
                (unstored.clone(), Why::Unstored),
            ],
            ..Collected::default()
        };
        let spans = report.spans.iter();
        let spans = spans.filter(|span| self.question.is_about(span, camera));
        let mut placed = Vec::new();
        let mut otherwise = Why::NotWatched;
        for span in spans {
            if is_dated(span) {
                self.add_span(span, &whole, &mut found);
            } else if has_time(span) {
                let when = extent(span, report);
                found.reasons.push((when, Why::ClockWrong));
            } else {
                otherwise = Why::ClockWrong;
                continue;
            }
            placed.push(span);
        }
        let lost = deleted.union(&unstored);
        let joined = |times: &[(i64, i64)]| -> Intervals { times.iter().copied().collect() };
        let all = joined(&found.all).without(&lost);
        let part = joined(&found.part).without(&lost).without(&all);
        let known = all.union(&part);
        let gaps = whole.without(&known);
        CameraKnowledge {
            camera: camera.clone(),
            name: camera.to_string(),
            about: Vec::new(),
            unknown: explain(&gaps, &found, &self.telling(&placed), &placed, &otherwise),
            known,
            is_all_in_part: !all.is_empty(),
            only: if part.is_empty() {
                BTreeSet::new()
            } else {
                found.only
            },
            classes: found.classes,
            rate: found.rate,
        }
    }

    /// The spans with a rule that answers a part of the question.
    fn telling<'s>(&self, spans: &[&'s CoverageSpan]) -> Vec<&'s CoverageSpan> {
        let tells = |span: &CoverageSpan| {
            let mut rules = span.watch.rules.iter();
            rules.any(|rule| !matches!(self.question.tells(span, rule), Tells::No(_)))
        };
        spans.iter().copied().filter(|span| tells(span)).collect()
    }

    fn add_span(&self, span: &CoverageSpan, whole: &Intervals, found: &mut Collected) {
        let extent = extent(span, self.report).intersection(whole);
        let Some(bounds) = extent.bounds() else {
            return;
        };
        let mut is_used = false;
        for rule in &span.watch.rules {
            let tells = self.question.tells(span, rule);
            if let Tells::No(why) = tells {
                let reasons = match self.question.is_elsewhere(rule) {
                    true => &mut found.other_reasons,
                    false => &mut found.there_reasons,
                };
                reasons.push((extent.clone(), why));
                continue;
            }
            let active = match &rule.schedule {
                Some(schedule) => active(schedule, bounds, self.zone),
                None => extent.clone(),
            };
            let quiet = self.quiet(span, rule);
            let at = active.without(&quiet);
            found.reasons.push((extent.without(&active), Why::Inactive));
            found
                .reasons
                .push((active.intersection(&quiet), Why::CoolingDown));
            is_used |= !at.is_empty();
            if self.question.labels.is_empty() && !at.is_empty() {
                found.classes.extend(classes_of(rule));
            }
            match tells {
                Tells::Part(what) => {
                    found.part.extend(at.as_slice());
                    found.only.insert(what);
                }
                Tells::All | Tells::No(_) => found.all.extend(at.as_slice()),
            }
        }
        if span.watch.rules.is_empty() {
            found.other_reasons.push((extent, Why::NoRule));
        }
        if let Some(rate) = span_rate(span).filter(|_| is_used) {
            found.rate = Some(found.rate.map_or(rate, |lowest| lowest.min(rate)));
        }
    }

    /// When a rule made no event because of an earlier one.
    fn quiet(&self, span: &CoverageSpan, rule: &WatchedRule) -> Intervals {
        let Some(quiet_ms) = i64::try_from(rule.quiet_ms).ok().filter(|ms| *ms > 0) else {
            return Intervals::default();
        };
        if i128::from(quiet_ms) > LOOKBACK.as_millis() {
            // Its last event may be older than what was searched.
            return Intervals::one(i64::MIN, i64::MAX);
        }
        let of_rule =
            |event: &&BegunEvent| event.pipeline == span.watch.pipeline && event.rule == rule.name;
        let begun = self.begun.iter().filter(of_rule);
        begun
            // The event itself is known.
            .map(|event| (event.at_ms + 1, event.at_ms.saturating_add(quiet_ms)))
            .collect()
    }
}

/// When each pipeline watched.
pub(super) fn watched(report: &CoverageReport) -> BTreeMap<PipelineId, Intervals> {
    let mut all: BTreeMap<PipelineId, Vec<(i64, i64)>> = BTreeMap::new();
    for span in &report.spans {
        let times = all.entry(span.watch.pipeline.clone()).or_default();
        times.extend(extent(span, report).as_slice());
    }
    all.into_iter()
        .map(|(pipeline, times)| (pipeline, times.into_iter().collect()))
        .collect()
}

/// When a span watched. One that has not ended watches until the report was made.
fn extent(span: &CoverageSpan, report: &CoverageReport) -> Intervals {
    let to = match span.end {
        SpanEnd::Open => report.at.unix_ms,
        _ => span.to.unix_ms,
    };
    Intervals::one(span.from.unix_ms, to)
}

fn span_rate(span: &CoverageSpan) -> Option<f64> {
    let seconds = (span.to.unix_ms - span.from.unix_ms) as f64 / 1e3;
    (span.frames >= MIN_FRAMES && seconds > 0.0).then(|| (span.frames - 1) as f64 / seconds)
}

/// Gives each gap its reason: the first one in `found.reasons`, then the pause of a watch that
/// answers the question. Then the reports of other watches, those of the place first, then how the
/// span before it ended.
fn explain(
    gaps: &Intervals,
    found: &Collected,
    telling: &[&CoverageSpan],
    spans: &[&CoverageSpan],
    otherwise: &Why,
) -> Vec<Unknown> {
    let mut unknown = Vec::new();
    let mut rest = gaps.clone();
    take_reasons(&found.reasons, &mut rest, &mut unknown);
    let is_pause = |why: &Why| matches!(why, Why::Paused { .. } | Why::Interrupted(SpanEnd::Heat));
    let paused = each(&rest, telling, |from_ms| {
        interruption(from_ms, telling).filter(is_pause)
    });
    take_reasons(&paused, &mut rest, &mut unknown);
    take_reasons(&found.there_reasons, &mut rest, &mut unknown);
    take_reasons(&found.other_reasons, &mut rest, &mut unknown);
    let ended = each(&rest, spans, |from_ms| {
        Some(interruption(from_ms, spans).unwrap_or_else(|| otherwise.clone()))
    });
    take_reasons(&ended, &mut rest, &mut unknown);
    unknown.sort_by_key(|gap| gap.from_ms);
    unknown.dedup_by(|next, last| {
        let is_one = last.to_ms == next.from_ms && last.why == next.why;
        if is_one {
            last.to_ms = next.to_ms;
        }
        is_one
    });
    unknown
}

/// Takes the parts of `rest` that these reasons explain, the first reason first.
fn take_reasons(reasons: &[(Intervals, Why)], rest: &mut Intervals, unknown: &mut Vec<Unknown>) {
    for (when, why) in reasons {
        let explained = rest.intersection(when);
        let gaps = explained.as_slice().iter();
        unknown.extend(gaps.map(|&(from_ms, to_ms)| Unknown {
            from_ms,
            to_ms,
            why: why.clone(),
        }));
        *rest = rest.without(&explained);
    }
}

/// A reason for each of these times by its begin, if there is one. The end of a span, also of one
/// without a length, begins another time.
fn each(
    times: &Intervals,
    spans: &[&CoverageSpan],
    why: impl Fn(i64) -> Option<Why>,
) -> Vec<(Intervals, Why)> {
    let mut reasons = Vec::new();
    for &(from_ms, to_ms) in times.as_slice() {
        let ends = spans.iter().map(|span| span.to.unix_ms);
        let mut cuts: Vec<i64> = ends
            .filter(|ms| (from_ms + 1..to_ms).contains(ms))
            .collect();
        cuts.extend([from_ms, to_ms]);
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            if let [from_ms, to_ms] = *pair
                && let Some(why) = why(from_ms)
            {
                reasons.push((Intervals::one(from_ms, to_ms), why));
            }
        }
    }
    reasons
}

/// Interruption of the last of these spans before a time. A pause ends where the pipeline watches
/// again.
fn interruption(from_ms: i64, spans: &[&CoverageSpan]) -> Option<Why> {
    let before = spans.iter().filter(|span| span.to.unix_ms <= from_ms);
    let last = before.max_by_key(|span| span.to.unix_ms)?;
    let paused_ms = last.to.unix_ms;
    let is_resumed = |span: &&&CoverageSpan| {
        span.watch.pipeline == last.watch.pipeline && span.from.unix_ms >= paused_ms
    };
    match last.end {
        SpanEnd::Stopped | SpanEnd::Finished => None,
        SpanEnd::Paused => Some(Why::Paused {
            from_ms: paused_ms,
            to_ms: spans
                .iter()
                .filter(is_resumed)
                .map(|span| span.from.unix_ms)
                .min(),
        }),
        end => Some(Why::Interrupted(end)),
    }
}
