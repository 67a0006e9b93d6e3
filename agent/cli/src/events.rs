//! Events as lines for people, and the command that prints them.
//!
//! Invariant: a record that this version does not know is shown as such and ends nothing.

use futures_util::StreamExt;
use serde_json::json;
use watchkeeper_contract::event::{Clip, ClipState, Event, EventBody, Phase, RuleEvent, Verdict};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::Severity;

use super::args::{EventAction, EventArgs};
use super::exit::{Exit, Failure};
use super::output::Output;
use watchkeeper_assistant::session::progress::event_json as object;
use watchkeeper_assistant::wording::local_time;
use watchkeeper_assistant::wording::size;
use watchkeeper_client::{FeedItem, JournalRecord, NewerRecord, RuntimeClient};

/// Records that one request checks.
const VERIFY_PAGE: u32 = 1000;

/// Which time a line begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// Seconds of the source, for a run.
    Source,
    /// Local date and time, for the journal.
    Wall,
}

/// Prints one record: its line for people, all of it for programs.
pub(super) fn show(event: &Event, clock: Clock, out: &Output) {
    if out.is_json() {
        out.object(&object(event));
    } else if let Some(line) = line(event, clock) {
        out.line(line);
    }
}

/// Prints a record of the journal. One in words that only a newer runtime has is printed as it came for programs, and for people a line
/// says so.
pub(super) fn show_record(record: &JournalRecord, clock: Clock, out: &Output) {
    match record {
        JournalRecord::Known(event) => show(event, clock, out),
        JournalRecord::Newer(record) if out.is_json() => out.object(&object(&record.raw)),
        JournalRecord::Newer(record) => out.note(newer(record)),
        JournalRecord::Unreadable { seq, cause } => {
            out.note(format!("event {seq} can't be read: {cause}"));
        }
    }
}

/// The line of a record; none where it says nothing new to a person (updates, the end of what has no duration).
pub(super) fn line(event: &Event, clock: Clock) -> Option<String> {
    let when = match (clock, &event.body) {
        (Clock::Source, EventBody::Rule(rule)) => format!("{:8.1} s", rule.pts_s),
        (
            Clock::Source,
            EventBody::SourceOutage { .. }
            | EventBody::PipelineHeld { .. }
            | EventBody::PipelineFailed { .. }
            | EventBody::StepFailing { .. }
            | EventBody::Loss { .. },
        ) => {
            format!("{:>10}", "-")
        }
        (Clock::Wall, _) => format!("{:>8}  {}", event.seq, local_time(event.at.unix_ms)),
    };
    let mark = match event.severity {
        Severity::Info => " ",
        Severity::Warning => "!",
        Severity::Critical => "‼",
    };
    let text = match (&event.body, event.phase) {
        (_, Phase::Update) => return None,
        (EventBody::Rule(rule), Phase::Clip) => {
            format!("{}: {}", of(event, rule, clock), clip(event.clip.as_ref()?))
        }
        (_, Phase::Clip) => return None,
        (EventBody::Rule(rule), Phase::New) => {
            let of = of(event, rule, clock);
            format!("{of}: {}  [{}]", rule.reason, decision(event))
        }
        (EventBody::Rule(rule), Phase::End) => match (rule.condition.as_str(), rule.dwell_s) {
            ("crosses" | "enters" | "leaves", _) => return None,
            (_, Some(dwell_s)) => {
                let of = of(event, rule, clock);
                format!("{of}: {}over after {dwell_s:.1} s", subject(rule))
            }
            (_, None) => format!("{}: {}over", of(event, rule, clock), subject(rule)),
        },
        (EventBody::SourceOutage { message, .. }, Phase::New) => {
            format!("{}: {message}", source(event))
        }
        (EventBody::SourceOutage { lasted_s, .. }, Phase::End) => match lasted_s {
            Some(lasted_s) => format!("{}: back after {lasted_s:.1} s", source(event)),
            // Nobody saw it come back: it was replaced, nobody watched it any more, or the runtime died meanwhile.
            None => format!("{}: its outage is over, without a picture", source(event)),
        },
        (EventBody::PipelineHeld { message }, Phase::New) => {
            format!("{}: {message}", pipeline(event))
        }
        (EventBody::PipelineHeld { .. }, Phase::End) => {
            format!("{}: no longer held", pipeline(event))
        }
        (EventBody::PipelineFailed { message, .. }, Phase::New) => {
            format!("{}: {message}", pipeline(event))
        }
        (EventBody::PipelineFailed { lasted_s, .. }, Phase::End) => match lasted_s {
            Some(lasted_s) => format!("{}: runs again after {lasted_s:.1} s", pipeline(event)),
            // It was paused, stopped or replaced, or the runtime ended meanwhile.
            None => format!("{}: its failure is over", pipeline(event)),
        },
        (EventBody::StepFailing { message, .. }, Phase::New) => {
            format!("{}: {message}", pipeline(event))
        }
        (EventBody::StepFailing { step, lasted_s, .. }, Phase::End) => match lasted_s {
            Some(lasted_s) => format!(
                "{}: step {step} works again after {lasted_s:.1} s",
                pipeline(event)
            ),
            None => format!("{}: step {step} is not run any more", pipeline(event)),
        },
        (
            EventBody::Loss {
                from,
                count,
                message,
            },
            Phase::New | Phase::End,
        ) => {
            format!("{count} lost from {from}: {message}")
        }
    };
    Some(format!("{when} {mark} {text}"))
}

/// The rule of an event; in the journal, where those of all pipelines stand, with its pipeline and its camera.
fn of(event: &Event, rule: &RuleEvent, clock: Clock) -> String {
    match clock {
        Clock::Source => rule.rule.clone(),
        Clock::Wall => format!("{} on {}, {}", pipeline(event), source(event), rule.rule),
    }
}

/// Who a rule's event is about, such as `person #7 `; nothing where it is about no single object.
fn subject(rule: &RuleEvent) -> String {
    match (rule.tracks.as_slice(), &rule.label) {
        ([track], Some(label)) => format!("{label} #{track} "),
        ([track], None) => format!("#{track} "),
        _ => String::new(),
    }
}

/// What became of a clip, and how to get it.
fn clip(clip: &Clip) -> String {
    match &clip.state {
        ClipState::Filming => "a clip is being filmed".to_owned(),
        ClipState::Kept { bytes, .. } => format!(
            "a clip of {:.1} s, {:.1} s of it before the event, {}: watchkeeper media {} -o FILE",
            clip.before_s + clip.after_s,
            clip.before_s,
            size(*bytes),
            clip.id
        ),
        ClipState::Lost { message } => format!("its clip is lost: {message}"),
    }
}

fn pipeline(event: &Event) -> &str {
    event.pipeline.as_ref().map_or("pipeline", |p| p.as_str())
}

fn source(event: &Event) -> &str {
    event.source.as_ref().map_or("source", |s| s.as_str())
}

fn decision(event: &Event) -> String {
    let verdict = match event.decision.verdict {
        Verdict::Discard => "discard",
        Verdict::Escalate => "escalate",
        Verdict::Review => "review",
        Verdict::Record => "record",
        Verdict::Act => "act",
    };
    format!("{verdict} {:.2}", event.decision.confidence)
}

/// `watchkeeper events verify`: page by page from the first record of which nothing is missing.
async fn verify(client: &RuntimeClient, out: &Output) -> Result<(), Failure> {
    let mut checked = 0;
    out.busy("checking the journal");
    let mut report = client.verify_events(EventSeq(0), VERIFY_PAGE).await?;
    let (first, mut after) = (report.first, EventSeq(0));
    loop {
        checked += report.checked;
        if let Some(broken) = report.broken {
            let sentence = format!(
                "event {} does not follow from the one before it: it was changed, or the one before it is another or gone",
                broken.seq
            );
            return Err(Failure::new(Exit::Failed, sentence).with([
                format!("expected hash {}", broken.expected),
                format!("found hash    {}", broken.found),
            ]));
        }
        // A page without progress would be asked for ever.
        if report.next_after >= report.last || report.next_after <= after {
            break;
        }
        after = report.next_after;
        out.busy(format!("checking the journal: {after} of {}", report.last));
        report = client.verify_events(after, VERIFY_PAGE).await?;
    }
    let last = report.next_after;
    let newest = client.events(EventSeq(last.0.saturating_sub(1)), 1).await?;
    let hash = newest.first().and_then(JournalRecord::hash);
    if first > EventSeq(1) {
        out.note(format!(
            "nothing before event {first} can be checked: it was dropped for want of room, or lost, and a loss is an event of its own"
        ));
    }
    let answer =
        json!({"type": "verified", "first": first, "last": last, "checked": checked, "hash": hash});
    out.both(&answer, || match &hash {
        Some(hash) => format!("events {first} to {last}: each of the {checked} follows from the one before it\nhash of event {last}: {hash}"),
        None => "there are no events".to_owned(),
    });
    Ok(())
}

/// `watchkeeper events`.
pub(super) async fn run(
    args: EventArgs,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    if let Some(EventAction::Verify) = args.action {
        return verify(client, out).await;
    }
    let after = match args.after {
        Some(after) => EventSeq(after),
        None => {
            let last = client.health().await?.last_seq;
            EventSeq(last.0.saturating_sub(u64::from(args.limit)))
        }
    };
    let mut last = after;
    let mut wanted = args.limit;
    // The runtime answers a page, which may be shorter than what was asked for.
    while wanted > 0 && !out.is_closed() {
        let page = client.events(last, wanted).await?;
        let Some(end) = page.last() else {
            break;
        };
        last = end.seq();
        wanted = wanted.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
        for record in &page {
            show_record(record, Clock::Wall, out);
        }
    }
    if !args.follow {
        return Ok(());
    }
    let mut feed = client.follow_events(last);
    let mut is_lost = false;
    loop {
        let item = tokio::select! {
            item = feed.next() => item,
            _ = tokio::signal::ctrl_c() => None,
        };
        match item {
            Some(FeedItem::Record(record)) => show_record(&record, Clock::Wall, out),
            Some(FeedItem::Connected { .. }) => {
                if std::mem::take(&mut is_lost) {
                    out.note("connected again");
                }
            }
            Some(FeedItem::Lost { error, .. }) => {
                if !std::mem::replace(&mut is_lost, true) {
                    out.note(error.to_string());
                }
            }
            None => return Ok(()),
        }
        if out.is_closed() {
            return Ok(());
        }
    }
}

/// What a person is told of an event in words that only a newer runtime has.
fn newer(record: &NewerRecord) -> String {
    format!(
        "event {} ({}) is in words of a newer runtime than this program knows: update the agent",
        record.seq, record.kind
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

    use serde_json::Value;

    use super::*;

    fn event(phase: &str, body: Value) -> Event {
        serde_json::from_value(json!({
            "schema": 1, "id": "01JABCDEFGHJKMNPQRSTVWXYZ0", "seq": 7, "boot_id": "b", "mono_ms": 0,
            "at": {"unix_ms": 0, "quality": "synced"}, "phase": phase, "source": "gate", "severity": "info",
            "body": body,
            "decision": {"verdict": "record", "confidence": 0.874, "reason": "r"},
            "evidence": [], "hash": "",
        }))
        .unwrap()
    }

    fn crossing() -> Value {
        json!({
            "kind": "rule", "rule": "door", "condition": "crosses", "reason": "person 4 crossed door (in)",
            "tracks": [4], "frame": 120, "pts_s": 4.04,
        })
    }

    #[test]
    fn a_crossing_is_one_line_with_its_time_reason_and_decision() {
        let line = line(&event("new", crossing()), Clock::Source).unwrap();
        assert_eq!(
            line,
            "     4.0 s   door: person 4 crossed door (in)  [record 0.87]"
        );
    }

    #[test]
    fn the_end_of_what_has_no_duration_is_not_a_line() {
        assert_eq!(line(&event("end", crossing()), Clock::Source), None);
        assert_eq!(line(&event("update", crossing()), Clock::Source), None);
    }

    #[test]
    fn the_end_of_a_stay_says_whose() {
        let body = json!({
            "kind": "rule", "rule": "appears", "condition": "appears", "reason": "r", "label": "motion",
            "tracks": [18], "frame": 120, "pts_s": 4.04,
        });
        let line = line(&event("end", body), Clock::Source).unwrap();
        assert!(line.ends_with("appears: motion #18 over"), "{line}");
    }

    #[test]
    fn an_outage_is_told_at_its_beginning_and_end() {
        let body = json!({"kind": "source_outage", "cause": "refused", "message": "connection refused", "lasted_s": 9.96});
        let begin = line(&event("new", body.clone()), Clock::Source).unwrap();
        assert!(begin.ends_with("gate: connection refused"), "{begin}");
        let end = line(&event("end", body), Clock::Source).unwrap();
        assert!(end.ends_with("gate: back after 10.0 s"), "{end}");
        let unseen =
            json!({"kind": "source_outage", "cause": "refused", "message": "connection refused"});
        let end = line(&event("end", unseen), Clock::Source).unwrap();
        assert!(
            end.ends_with("gate: its outage is over, without a picture"),
            "{end}"
        );
    }

    #[test]
    fn an_event_for_programs_carries_its_type_and_everything_else() {
        let object = object(&event("new", crossing()));
        assert_eq!(object["type"], "event");
        assert_eq!(object["body"]["rule"], "door");
    }
}
