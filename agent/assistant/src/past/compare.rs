//! Two spans of a question, and which of them had more events.
//!
//! Invariant: "more" and "fewer" are reported only where both spans were watched alike.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use watchkeeper_plain::answer::EventsWanted;

use super::answer::PastAnswer;
use super::describe::span;
use super::why::Why;
use crate::wording::counted;

/// The questions for the two spans that are compared; `None` if nothing is compared. If one of them
/// has not ended yet, the other is cut to the same length.
pub(super) fn spans(wanted: &EventsWanted, now: Timestamp) -> Option<(EventsWanted, EventsWanted)> {
    let (from, to) = wanted.compared_with?;
    let one = EventsWanted {
        compared_with: None,
        ..wanted.clone()
    };
    let other = EventsWanted {
        from,
        to,
        ..one.clone()
    };
    let elapsed = |span: &EventsWanted| {
        let goes_on = span.to.is_none_or(|to| to > now);
        span.from.filter(|_| goes_on).map(|from| now - from)
    };
    let cut = |span: EventsWanted, elapsed: Option<jiff::Span>| {
        let end = elapsed.and_then(|elapsed| span.from?.checked_add(elapsed).ok());
        let to = [span.to, end, Some(now)].into_iter().flatten().min();
        EventsWanted { to, ..span }
    };
    let (of_one, of_other) = (elapsed(&one), elapsed(&other));
    Some((cut(one, of_other), cut(other, of_one)))
}

impl PastAnswer {
    /// The answer in words, after what was `understood`; without the list of events.
    pub fn text(&self, understood: &str, zone: &TimeZone) -> String {
        let sentence = self.sentence(zone);
        match understood {
            "" => sentence,
            _ => format!("{understood} {sentence}"),
        }
    }

    /// The answer in words, after the question that it answers; without the list of events.
    pub fn summary(&self, zone: &TimeZone) -> String {
        let question = &self.knowledge.question;
        let labels = (!question.labels.is_empty()).then(|| question.labels.join(" or "));
        let camera = match self.knowledge.cameras.as_slice() {
            [camera] => Some(format!("on {}", camera.name)),
            _ => None,
        };
        let asked = labels.into_iter().chain(camera);
        let asked: Vec<String> = asked.chain([span(question.range, zone)]).collect();
        format!("{}: {}", asked.join(", "), self.without_list(zone))
    }

    pub(super) fn sentence(&self, zone: &TimeZone) -> String {
        match &self.compared_with {
            Some(other) => sentence(self, other, zone),
            None => self.of_span(zone),
        }
    }
}

/// Which span had more, and both answers, the earlier span first.
fn sentence(one: &PastAnswer, other: &PastAnswer, zone: &TimeZone) -> String {
    let mut both = [one, other];
    both.sort_by_key(|answer| answer.knowledge.question.range);
    let [earlier, later] = both;
    let said = |answer: &PastAnswer| {
        let range = answer.knowledge.question.range;
        format!("{}: {}", span(range, zone), answer.of_span(zone))
    };
    let verdict = if is_comparable(earlier) && is_comparable(later) && is_alike(earlier, later) {
        let (before, after) = (earlier.found.number, later.found.number);
        let difference = counted(after.abs_diff(before), "event");
        match after.cmp(&before) {
            std::cmp::Ordering::Equal => "Both spans had as many.".to_owned(),
            std::cmp::Ordering::Greater => format!("The later span had {difference} more."),
            std::cmp::Ordering::Less => format!("The later span had {difference} fewer."),
        }
    } else {
        "Which span had more is not known, because they were not watched alike all the time."
            .to_owned()
    };
    format!("{verdict} {} {}", said(earlier), said(later))
}

/// Whether the number of a span counts all its events except those in cool-downs.
fn is_comparable(answer: &PastAnswer) -> bool {
    let (found, knowledge) = (&answer.found, &answer.knowledge);
    let mut unknown = knowledge.cameras.iter().flat_map(|camera| &camera.unknown);
    found.is_complete() && !knowledge.is_none() && unknown.all(|gap| gap.why == Why::CoolingDown)
}

/// Whether the same events were recorded in both spans.
fn is_alike(one: &PastAnswer, other: &PastAnswer) -> bool {
    let recorded = |answer: &PastAnswer| -> Vec<_> {
        let cameras = answer.knowledge.cameras.iter();
        cameras
            .map(|c| (c.title(), c.only.clone(), c.classes.clone()))
            .collect()
    };
    recorded(one) == recorded(other)
}
