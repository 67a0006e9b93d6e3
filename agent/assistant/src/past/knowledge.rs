//! What could have been known about a question, camera by camera.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use watchkeeper_contract::coverage::{CoverageReport, CoverageSpan, SpanEnd};
use watchkeeper_contract::id::SourceId;

use super::intervals::Intervals;
use super::question::{PastQuestion, Tells};
use super::schedule::awake;
use super::why::Why;

/// What could have been known about a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Knowledge {
    pub question: PastQuestion,
    /// One for each camera of the question.
    pub cameras: Vec<CameraKnowledge>,
}

/// What one camera could have told.
#[derive(Debug, Clone, PartialEq)]
pub struct CameraKnowledge {
    pub camera: SourceId,
    /// When an event would have been recorded.
    pub known: Intervals,
    /// The rest of the range, rising.
    pub unknown: Vec<Unknown>,
    /// Where no rule told all: what the rules told.
    pub only: BTreeSet<String>,
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

/// Frames below which a span says nothing about its rate.
const MIN_FRAMES: u64 = 10;

impl Knowledge {
    /// Compares a question with the coverage. Schedules are in `zone`.
    #[must_use]
    pub fn of(question: &PastQuestion, report: &CoverageReport, zone: &TimeZone) -> Self {
        let camera = |camera: &SourceId| camera_knowledge(question, report, camera, zone);
        Self {
            cameras: question.cameras.iter().map(camera).collect(),
            question: question.clone(),
        }
    }

    /// Whether each event that was asked for would have been recorded.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.cameras.is_empty() && self.cameras.iter().all(|camera| camera.unknown.is_empty())
    }

    /// Whether no event could have been recorded.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.cameras.iter().all(|camera| camera.known.is_empty())
    }
}

fn camera_knowledge(
    question: &PastQuestion,
    report: &CoverageReport,
    camera: &SourceId,
    zone: &TimeZone,
) -> CameraKnowledge {
    let (from, to) = question.range;
    let whole = Intervals::one(from, to);
    let deleted = report.spans_since_ms.max(report.events_since_ms);
    let deleted = deleted.map_or_else(Intervals::default, |since| {
        Intervals::one(from, since.min(to))
    });
    let spans = report
        .spans
        .iter()
        .filter(|span| question.is_about(span, camera));
    let spans: Vec<&CoverageSpan> = spans.collect();
    let mut all = Intervals::default();
    let mut part = Intervals::default();
    let mut only = BTreeSet::new();
    let mut reasons: Vec<(Intervals, Why)> = vec![(deleted.clone(), Why::Deleted)];
    let mut rate: Option<f64> = None;
    for span in &spans {
        let extent = &extent(span, report).intersection(&whole);
        let mut is_used = false;
        for rule in &span.watch.rules {
            let at = match &rule.schedule {
                Some(schedule) => awake(schedule, question.range, zone).intersection(extent),
                None => extent.clone(),
            };
            match question.tells(span, rule) {
                Tells::No(why) => {
                    reasons.push((extent.clone(), why));
                    continue;
                }
                Tells::All => all = all.union(&at),
                Tells::Part(what) => {
                    part = part.union(&at);
                    only.insert(what);
                }
            }
            is_used |= !at.is_empty();
            reasons.push((extent.without(&at), Why::Asleep));
        }
        if span.watch.rules.is_empty() {
            reasons.push((extent.clone(), Why::NoRule));
        }
        if let Some(found) = span_rate(span).filter(|_| is_used) {
            rate = Some(rate.map_or(found, |rate| rate.min(found)));
        }
    }
    let all = all.without(&deleted);
    let part = part.without(&deleted).without(&all);
    if part.is_empty() {
        only.clear();
    }
    let known = all.union(&part);
    let gaps = whole.without(&known);
    CameraKnowledge {
        camera: camera.clone(),
        unknown: explain(&gaps, &reasons, &spans),
        known,
        only,
        rate,
    }
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

/// Gives each gap its reason: the first that holds, else how the span before it ended.
fn explain(
    gaps: &Intervals,
    reasons: &[(Intervals, Why)],
    spans: &[&CoverageSpan],
) -> Vec<Unknown> {
    let mut unknown = Vec::new();
    let mut rest = gaps.clone();
    for (when, why) in reasons {
        let explained = rest.intersection(when);
        unknown.extend(
            explained
                .as_slice()
                .iter()
                .map(|&(from_ms, to_ms)| Unknown {
                    from_ms,
                    to_ms,
                    why: why.clone(),
                }),
        );
        rest = rest.without(&explained);
    }
    unknown.extend(rest.as_slice().iter().map(|&(from_ms, to_ms)| {
        let before = spans.iter().filter(|span| span.to.unix_ms <= from_ms);
        let before = before.max_by_key(|span| span.to.unix_ms);
        let why = match before.map(|span| span.end) {
            None | Some(SpanEnd::Stopped | SpanEnd::Finished) => Why::NotWatched,
            Some(end) => Why::Interrupted(end),
        };
        Unknown {
            from_ms,
            to_ms,
            why,
        }
    }));
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
