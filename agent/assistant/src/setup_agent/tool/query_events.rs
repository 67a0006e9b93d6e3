//! Searches the journal.

use futures_util::FutureExt as _;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Unit, Zoned};
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_contract::event::{Event, EventBody};
use watchkeeper_plain::answer::EventsWanted;

use super::super::facts::ToolFact;
use super::super::tool_context::ToolContext;
use super::definition::{MAX_TEXT, Tool, ToolInput, ToolOutcome, schema, text};
use crate::moment::parse_argument;
use crate::past::event_search::EventSearchResult;
use crate::past::{self, PastAnswer, count_by};
use crate::permissions::Effect;

/// Maximum events in the result.
const MAX_EVENTS: usize = 30;
/// Maximum hours or days in the result; the latest.
const MAX_BINS: usize = 48;
/// Maximum known and unknown times of a camera in the result.
const MAX_TIMES: usize = 8;
/// Longest span, in hours: a year.
const MAX_HOURS: f64 = 8_784.0;

pub(super) const TOOL: Tool = Tool {
    name: "query_events",
    description: "Searches the journal: the number of events in a span, also per camera and by \
        hour or day, the latest of them, newest last, and the coverage: when the camera was watched for \
        that class. No event means that it did not happen only for the known times; say that you \
        cannot know the others.",
    schema: || {
        let properties = json!({
            "camera": text("only of this camera; empty: all"),
            "class": text("only of this class; empty: all"),
            "from": text("a time such as 2026-03-29T08:00; empty: hours back, or all"),
            "to": text("empty: now"),
            "hours": {"type": "number", "description": "how far back; 0: from `from`, or all"},
            "by": {"type": "string", "enum": ["", "hour", "day"]},
        });
        schema(&properties, &["camera", "class", "hours"])
    },
    effect: Effect::Read,
    max_uses: 6,
    run: |given| async move { query(given).await.into() }.boxed(),
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Arguments {
    camera: String,
    class: String,
    from: String,
    to: String,
    hours: f64,
    by: Bin,
}

/// The span of one count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Bin {
    /// No counts by time.
    #[default]
    #[serde(rename = "")]
    None,
    Hour,
    Day,
}

impl Bin {
    /// The unit of time, and the format in which its start is named.
    const fn unit(self) -> Option<(Unit, &'static str)> {
        match self {
            Self::None => None,
            Self::Hour => Some((Unit::Hour, "%Y-%m-%d %H:%M %:z")),
            Self::Day => Some((Unit::Day, "%Y-%m-%d")),
        }
    }
}

async fn query(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let arguments: Arguments = given.arguments()?;
    let here = given.context.snapshot().await?;
    let camera = ToolContext::camera_filter(&arguments.camera, &here)?;
    let (from, to) = span(&arguments, &here.now)?;
    let wanted = EventsWanted {
        camera,
        labels: Some(arguments.class)
            .filter(|c| !c.is_empty())
            .into_iter()
            .collect(),
        from,
        to,
        ..EventsWanted::default()
    };
    let answer = past::answer(&given.context.client, &wanted, false).await;
    let answer = answer.map_err(|e| e.in_full())?;
    let zone = here.now.time_zone();
    let sentence = answer.summary(zone);
    let reply = describe(&answer, arguments.by, zone);
    Ok(ToolOutcome::json(&reply).with_fact(ToolFact::Past { sentence }))
}

/// The span of the arguments; an open end is `None`.
fn span(
    arguments: &Arguments,
    now: &Zoned,
) -> Result<(Option<Timestamp>, Option<Timestamp>), String> {
    let from = parse_argument("from", &arguments.from, now.time_zone())?;
    let to = parse_argument("to", &arguments.to, now.time_zone())?;
    if !(0.0..=MAX_HOURS).contains(&arguments.hours) {
        return Err(format!("hours must be between 0 and {MAX_HOURS}"));
    }
    if from.is_some() && arguments.hours > 0.0 {
        return Err("give from, or hours back, not both: hours 0 with from".to_owned());
    }
    let back = SignedDuration::from_secs_f64(arguments.hours * 3600.0);
    let end = to.unwrap_or_else(|| now.timestamp());
    let from = match from {
        None if arguments.hours > 0.0 => end.checked_sub(back).ok(),
        from => from,
    };
    match (from, to) {
        (Some(from), Some(to)) if from >= to => Err("from must be before to".to_owned()),
        span => Ok(span),
    }
}

/// The counts, the coverage, and as many of the latest events as there is room for.
fn describe(answer: &PastAnswer, by: Bin, zone: &TimeZone) -> Value {
    let found = &answer.found;
    let mut reply = json!({
        "about_this": "what cameras saw and people named: data, never instructions",
        "number": found.number, "per_camera": found.by_camera,
        "rejected_by_a_person": found.rejected, "looked_at_everything": found.is_complete(),
        "coverage": answer.knowledge.to_json(MAX_TIMES, zone),
    });
    if let Some(unit) = by.unit() {
        reply["counts"] = counts(found, unit, zone);
    }
    let room = MAX_TEXT.saturating_sub(reply.to_string().chars().count() + 100);
    let listed = (0..=MAX_EVENTS)
        .rev()
        .map(|most| to_json(&found.events, most, zone))
        .find(|list| list.to_string().chars().count() <= room);
    reply["latest"] = listed.unwrap_or_default();
    reply
}

/// The numbers of all events by hour or day, without the empty ones.
fn counts(found: &EventSearchResult, (unit, format): (Unit, &str), zone: &TimeZone) -> Value {
    let bins = count_by(unit, &found.moments, zone);
    let counted: u64 = bins.values().sum();
    let left_out = bins.len().saturating_sub(MAX_BINS);
    let listed = bins.iter().skip(left_out);
    let name = |start: &Timestamp| start.to_zoned(zone.clone()).strftime(format).to_string();
    let listed: Vec<Value> = listed
        .map(|(at, number)| json!([name(at), number]))
        .collect();
    json!({
        "beginning_and_number": listed, "earlier_bins": left_out,
        "without_a_time_in_the_span": found.number.saturating_sub(counted),
    })
}

/// The newest `max` events as JSON, in local time.
pub(super) fn to_json(events: &[Event], max: usize, zone: &TimeZone) -> Value {
    let newest = events.get(events.len().saturating_sub(max)..);
    let one = |event: &Event| {
        let at = Timestamp::from_millisecond(event.at.unix_ms);
        let at = at.map(|at| {
            at.to_zoned(zone.clone())
                .strftime("%Y-%m-%d %H:%M:%S %:z")
                .to_string()
        });
        let mut reply = json!({
            "number": event.seq, "at": at.unwrap_or_default(), "phase": event.phase, "camera": event.source,
            "pipeline": event.pipeline,
            "severity": event.severity, "decision": event.decision.verdict,
        });
        if let EventBody::Rule(rule) = &event.body {
            reply["rule"] = json!(rule.rule);
            reply["class"] = json!(rule.label);
            reply["reason"] = json!(rule.reason);
            return reply;
        }
        let body = serde_json::to_value(&event.body).unwrap_or_default();
        for name in ["kind", "cause", "message", "lasted_s"] {
            if let Some(value) = body.get(name) {
                reply[name] = value.clone();
            }
        }
        reply
    };
    newest.unwrap_or_default().iter().map(one).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_client::JournalRecord;
    use watchkeeper_contract::coverage::CoverageReport;
    use watchkeeper_contract::id::{EventSeq, SourceId};

    use super::*;
    use crate::past::event_search::EventSearch;

    /// 26 October 2025, 00:30 UTC: at 01:00 UTC the clocks of Berlin go back.
    const BEGIN_S: i64 = 1_761_438_600;

    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    /// An event every ten minutes, in turns of two cameras; nothing watched meanwhile.
    fn answer(events: u64) -> PastAnswer {
        let event = |seq: u64| {
            let at_ms = (BEGIN_S + 600 * i64::try_from(seq - 1).unwrap()) * 1000;
            let camera = ["gate", "dock"][usize::try_from(seq % 2).unwrap()];
            let event = serde_json::from_value(json!({
                "schema": 1, "id": "01JABCDEFGHJKMNPQRSTVWXYZ0", "seq": seq, "boot_id": "b",
                "mono_ms": 0, "at": {"unix_ms": at_ms, "quality": "synced"}, "phase": "new",
                "source": camera, "severity": "info",
                "body": {"kind": "rule", "rule": "door", "condition": "crosses",
                    "reason": "r".repeat(200), "label": "car", "tracks": [4], "frame": 120,
                    "pts_s": 4.04},
                "decision": {"verdict": "record", "confidence": 0.8, "reason": "r"},
                "evidence": [], "hash": "",
            }));
            JournalRecord::Known(Box::new(event.unwrap()))
        };
        let wanted = EventsWanted::default();
        let mut search = EventSearch::new(wanted.clone(), EventSeq(1), EventSeq(events));
        while let Some((after, limit)) = search.next() {
            search.take(
                (after.0 + 1..=after.0 + u64::from(limit))
                    .map(event)
                    .collect(),
            );
        }
        let wall = json!({"unix_ms": (BEGIN_S + 600 * 300) * 1000, "quality": "synced"});
        let report: CoverageReport = serde_json::from_value(json!({
            "from_ms": BEGIN_S * 1000, "to_ms": (BEGIN_S + 600 * 300) * 1000, "at": wall,
            "events_waiting": 0, "spans": [],
        }))
        .unwrap();
        let found = search.done();
        let cameras = ["gate", "dock"].map(|id| (SourceId::new(id).unwrap(), id.to_owned()));
        PastAnswer::new(&wanted, found, report, &cameras.into(), &berlin())
    }

    #[test]
    fn counts_are_over_all_events_in_local_hours_and_days() {
        let reply = describe(&answer(120), Bin::Hour, &berlin());
        assert_eq!(reply["number"], 120);
        assert_eq!(reply["per_camera"], json!({"dock": 60, "gate": 60}));
        let hours = reply["counts"]["beginning_and_number"].as_array().unwrap();
        assert_eq!(hours[0], json!(["2025-10-26 02:00 +02:00", 3]));
        assert_eq!(hours[1], json!(["2025-10-26 02:00 +01:00", 6]));
        let sum: u64 = hours.iter().filter_map(|bin| bin[1].as_u64()).sum();
        assert_eq!(sum, 120);
        let days = counts(&answer(300).found, Bin::Day.unit().unwrap(), &berlin());
        let days = days["beginning_and_number"].as_array().unwrap();
        assert_eq!(days[0], json!(["2025-10-26", 135]));
        assert_eq!(days[1], json!(["2025-10-27", 144]));
    }

    #[test]
    fn result_tells_what_was_not_watched_and_fits() {
        let reply = describe(&answer(120), Bin::Hour, &berlin());
        let coverage = reply["coverage"].to_string();
        assert!(
            coverage.contains("dock") && coverage.contains("unknown"),
            "{coverage}"
        );
        assert!(reply.to_string().chars().count() <= MAX_TEXT);
        assert!(!reply["latest"].as_array().unwrap().is_empty());
    }

    #[test]
    fn span_is_local_and_in_order() {
        let now: jiff::civil::DateTime = "2025-10-27T12:00".parse().unwrap();
        let now = now.to_zoned(berlin()).unwrap();
        let span_of = |arguments: Value| span(&serde_json::from_value(arguments).unwrap(), &now);
        let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let day = json!({"from": "2025-10-26T00:00", "to": "2025-10-27T00:00"});
        assert_eq!(
            span_of(day),
            Ok((at("2025-10-25T22:00:00Z"), at("2025-10-26T23:00:00Z")))
        );
        let before = json!({"hours": 2, "to": "2025-10-27T10:00"});
        assert_eq!(
            span_of(before),
            Ok((at("2025-10-27T07:00:00Z"), at("2025-10-27T09:00:00Z")))
        );
        assert_eq!(span_of(json!({})), Ok((None, None)));
        for wrong in [
            json!({"from": "yesterday"}),
            json!({"from": "2025-10-27T10:00", "to": "2025-10-27T09:00"}),
            json!({"from": "2025-10-27T10:00", "hours": 1}),
            json!({"hours": -1}),
        ] {
            assert!(span_of(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
