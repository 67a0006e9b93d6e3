//! Events as lines of text, and the command `watchkeeper events`.
//!
//! Invariant: a record that this version can't read is a note; printing continues.

use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use watchkeeper_contract::event::{ChainReport, ClipState, Event, EventBody, Phase, RuleEvent};
use watchkeeper_contract::health::Health;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::Severity;

use super::args::{EventAction, EventArgs};
use super::coverage;
use super::event_export;
use super::exit::Failure;
use super::hash_chain::HashChainSummary;
use super::output::Output;
use watchkeeper_assistant::reviews::{describe_answer, describe_record};
use watchkeeper_assistant::session::progress::event_json as object;
use watchkeeper_assistant::wording::local_time;
use watchkeeper_assistant::wording::size;
use watchkeeper_client::{ClientError, FeedItem, JournalRecord, NewerRecord, RuntimeClient};

/// Records that one request verifies.
const VERIFY_PAGE: u32 = 1000;

/// Pause between attempts to reach a runtime that does not run yet.
const RETRY: Duration = Duration::from_millis(500);

/// Time at the start of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// Seconds of source time, in `run`.
    Source,
    /// Number, local date and time, in the journal.
    Wall,
}

/// Prints an event: as object with `--json`, else as its line, if it has one.
pub(super) fn show(event: &Event, clock: Clock, out: &Output) {
    if out.is_json() {
        out.object(&object(event));
    } else if let Some(line) = line(event, clock) {
        out.line(line);
    }
}

/// Prints a record; one that only a newer runtime knows is printed raw with `--json`, else as note.
pub(super) fn show_record(record: &JournalRecord, clock: Clock, out: &Output) {
    match record {
        JournalRecord::Known(event) => show(event, clock, out),
        JournalRecord::Newer(record) if out.is_json() => out.object(&object(&record.raw)),
        JournalRecord::Newer(record) => out.note(describe_newer(record)),
        JournalRecord::Unreadable { seq, cause } => {
            out.note(format!("event {seq}: unreadable: {cause}"));
        }
    }
}

/// Formats a record as a line. `None` for the end of an event without duration, and for updates
/// other than a change of the load level.
pub(super) fn line(event: &Event, clock: Clock) -> Option<String> {
    let text = match event.phase {
        Phase::Update => match &event.body {
            EventBody::LoadShed { message, .. } => message.clone(),
            _ => return None,
        },
        Phase::New => describe_start(event, clock),
        Phase::End => describe_end(event, clock)?,
        Phase::Clip => describe_clip(event, clock)?,
        Phase::Assessed => describe_assessment(event, clock)?,
    };
    Some(marked(event, clock, &text))
}

/// Formats a record of any phase as the line of its event's start.
pub(super) fn alert_line(event: &Event, clock: Clock) -> String {
    marked(event, clock, &describe_start(event, clock))
}

fn marked(event: &Event, clock: Clock, text: &str) -> String {
    let mark = match event.severity {
        Severity::Info => " ",
        Severity::Warning => "!",
        Severity::Critical => "‼",
    };
    format!("{} {mark} {text}", time_column(event, clock))
}

fn time_column(event: &Event, clock: Clock) -> String {
    match (clock, event.body.rule()) {
        (Clock::Source, Some(rule)) => format!("{:8.1} s", rule.pts_s),
        (Clock::Source, None) => " ".repeat(10),
        (Clock::Wall, _) => format!("{:>8}  {}", event.seq, local_time(event.at.unix_ms)),
    }
}

fn describe_start(event: &Event, clock: Clock) -> String {
    match &event.body {
        EventBody::Rule(rule) => {
            let origin = rule_origin(event, rule, clock);
            format!("{origin}: {}  {}", rule.reason, describe_decision(event))
        }
        EventBody::SourceOutage { message, .. }
        | EventBody::DecoderFallback { message, .. }
        | EventBody::FrameKept { message } => format!("{}: {message}", camera(event, clock)),
        EventBody::PipelineHeld { message }
        | EventBody::PipelineFailed { message, .. }
        | EventBody::StepFailing { message, .. } => format!("{}: {message}", pipeline(event)),
        EventBody::LoadShed { message, .. }
        | EventBody::BackendChange { message, .. }
        | EventBody::BoardThrottled { message, .. }
        | EventBody::StorageWorn { message, .. } => message.clone(),
        EventBody::Loss {
            from,
            count,
            message,
            ..
        } => describe_loss(*count, from, message),
    }
}

/// Describes the end of an event; `None` for an event without duration.
fn describe_end(event: &Event, clock: Clock) -> Option<String> {
    let text = match &event.body {
        EventBody::Rule(rule) => {
            if matches!(rule.condition.as_str(), "crosses" | "enters" | "leaves") {
                return None;
            }
            format!(
                "{}: {}",
                rule_origin(event, rule, clock),
                describe_rule_end(rule)
            )
        }
        EventBody::SourceOutage {
            lasted_s, cause, ..
        } => match lasted_s {
            Some(lasted_s) => {
                // Without a cause frames came all the time, but did not show what they should.
                let end = cause.map_or("shows what it should again", |_| "reconnected");
                format!("{} {end} after {lasted_s:.1} s", camera(event, clock))
            }
            // The camera was lost, replaced or unused, or the runtime ended meanwhile.
            None => format!(
                "{}: the outage ended unseen, because the camera was lost or is no longer watched",
                camera(event, clock)
            ),
        },
        EventBody::PipelineHeld { .. } => format!("{}: no longer held back", pipeline(event)),
        EventBody::PipelineFailed { lasted_s, .. } => match lasted_s {
            Some(lasted_s) => format!("{}: running again after {lasted_s:.1} s", pipeline(event)),
            // The pipeline was paused, stopped or replaced, or the runtime ended meanwhile.
            None => format!("{}: stopped or replaced after its failure", pipeline(event)),
        },
        EventBody::BackendChange { message, .. } => message.clone(),
        EventBody::LoadShed { lasted_s, .. } => match lasted_s {
            Some(lasted_s) => format!("the box does all its work again after {lasted_s:.0} s"),
            // The runtime ended meanwhile.
            None => "the runtime ended while the box was hot".to_owned(),
        },
        EventBody::StepFailing { step, lasted_s, .. } => match lasted_s {
            Some(lasted_s) => format!(
                "{}: step {step} works again after {lasted_s:.1} s",
                pipeline(event)
            ),
            None => format!("{}: step {step} no longer runs", pipeline(event)),
        },
        EventBody::BoardThrottled { lasted_s, .. } => match lasted_s {
            Some(lasted_s) => format!("the board works at full speed after {lasted_s:.1} s"),
            None => "the board was slowed down until the runtime ended".to_owned(),
        },
        EventBody::StorageWorn { .. }
        | EventBody::DecoderFallback { .. }
        | EventBody::FrameKept { .. } => return None,
        EventBody::Loss {
            from,
            count,
            message,
            ..
        } => describe_loss(*count, from, message),
    };
    Some(text)
}

/// Describes what ended, such as `person #7 was in desk for 10.4 s`. The end of a run ends it too.
fn describe_rule_end(rule: &RuleEvent) -> String {
    // Several tracks of one object; a level has those of many.
    let is_level = matches!(rule.condition.as_str(), "count" | "value");
    let subject = match (rule.tracks.first(), &rule.label) {
        (Some(track), Some(label)) if !is_level => format!("{label} #{track}"),
        (Some(track), None) if !is_level => format!("#{track}"),
        _ => String::new(),
    };
    let lasted = rule.dwell_s.map(|dwell_s| format!("for {dwell_s:.1} s"));
    match (subject.as_str(), &rule.zone, lasted) {
        ("", _, None) => "ended".to_owned(),
        (subject, _, None) => format!("{subject} gone"),
        ("", _, Some(lasted)) => format!("went on {lasted}"),
        (subject, Some(zone), Some(lasted)) => format!("{subject} was in {zone} {lasted}"),
        (subject, None, Some(lasted)) => format!("{subject} was there {lasted}"),
    }
}

fn describe_clip(event: &Event, clock: Clock) -> Option<String> {
    let (EventBody::Rule(rule), Some(clip)) = (&event.body, &event.clip) else {
        return None;
    };
    let text = match &clip.state {
        ClipState::Filming => "recording a clip".to_owned(),
        ClipState::Kept { bytes, .. } => format!(
            "clip of {:.1} s, {:.1} s before the event, {}: watchkeeper media get {} -o FILE",
            clip.before_s + clip.after_s,
            clip.before_s,
            size(*bytes),
            clip.id
        ),
        ClipState::Lost { message } => format!("clip lost: {message}"),
    };
    let origin = rule_origin(event, rule, clock);
    Some(format!("{origin}: {}: {text}", rule.reason))
}

fn describe_assessment(event: &Event, clock: Clock) -> Option<String> {
    let EventBody::Rule(rule) = &event.body else {
        return None;
    };
    let origin = rule_origin(event, rule, clock);
    let said = describe_record(event);
    Some(format!("{origin}: {}: {said}", rule.reason))
}

fn describe_loss(count: u64, from: &str, message: &str) -> String {
    format!("{count} entries lost from {from}: {message}")
}

/// Names the rule of an event; in the journal with its pipeline and camera.
fn rule_origin(event: &Event, rule: &RuleEvent, clock: Clock) -> String {
    match clock {
        Clock::Source => rule.rule.clone(),
        Clock::Wall => format!(
            "{} on {}, {}",
            pipeline(event),
            camera(event, clock),
            rule.rule
        ),
    }
}

fn pipeline(event: &Event) -> &str {
    event.pipeline.as_ref().map_or("pipeline", |p| p.as_str())
}

/// Names the camera of an event; a run has only one, under an internal id.
fn camera(event: &Event, clock: Clock) -> &str {
    match (clock, &event.source) {
        (Clock::Wall, Some(source)) => source.as_str(),
        (Clock::Wall, None) | (Clock::Source, _) => "camera",
    }
}

fn describe_decision(event: &Event) -> String {
    let verdict = event.decision.verdict.name();
    let percent = event.decision.percent();
    match event.assessment.as_deref().map(describe_answer) {
        Some(answer) => format!("({verdict}, {percent} %; {answer})"),
        None => format!("({verdict}, {percent} %)"),
    }
}

/// Verifies the hash chain page by page, and prints its parts and gaps; a signed statement first.
async fn verify(
    statement: Option<&Path>,
    key: Option<&str>,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    if let Some(path) = statement {
        let verified = coverage::verify(path, key, client).await?;
        out.both(&verified.object(), || verified.text());
    }
    out.busy("verifying the journal");
    let mut chain = ChainReport::default();
    loop {
        let after = chain.next_after;
        chain.join(client.verify_events(after, VERIFY_PAGE).await?);
        let (next, last) = (chain.next_after, chain.last);
        // A page without progress would repeat without end.
        if next >= last || next <= after {
            break;
        }
        out.busy(format!("verifying the journal: {next} of {last}"));
    }
    let last = chain.next_after;
    let chain = HashChainSummary(chain);
    let newest = client.record(last).await?;
    let hash = newest.as_ref().and_then(JournalRecord::hash);
    out.both(&chain.object(hash), || chain.lines(hash).join("\n"));
    chain.failure().map_or(Ok(()), Err)
}

pub(super) async fn run(
    args: EventArgs,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    match args.action {
        Some(EventAction::Verify { statement, key }) => {
            return verify(statement.as_deref(), key.as_deref(), client, out).await;
        }
        Some(EventAction::Export(args)) => return event_export::run(&args, client, out).await,
        None => {}
    }
    let after = match args.after {
        Some(after) => EventSeq(after),
        None if args.follow => match health_when_up(client, out).await? {
            Some(health) => before_last(&health, args.limit),
            None => return Ok(()),
        },
        None => before_last(&client.health().await?, args.limit),
    };
    let mut last = after;
    let mut remaining = args.limit;
    // A page may be shorter than requested.
    while remaining > 0 && !out.is_closed() {
        let page = client.events(last, remaining).await?;
        let Some(end) = page.last() else {
            break;
        };
        last = end.seq();
        remaining = remaining.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
        for record in &page {
            show_record(record, Clock::Wall, out);
        }
    }
    if !args.follow {
        return Ok(());
    }
    follow(client, last, out).await
}

/// Cursor before the last `limit` records.
fn before_last(health: &Health, limit: u32) -> EventSeq {
    EventSeq(health.last_seq.0.saturating_sub(u64::from(limit)))
}

/// Waits until the runtime runs; `None` after Ctrl-C.
async fn health_when_up(client: &RuntimeClient, out: &Output) -> Result<Option<Health>, Failure> {
    let mut is_waiting = false;
    loop {
        match client.health().await {
            Ok(health) => return Ok(Some(health)),
            Err(error @ ClientError::Unreachable { .. }) => {
                if !std::mem::replace(&mut is_waiting, true) {
                    out.note(format!("{error}; waiting for it"));
                }
            }
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            _ = tokio::signal::ctrl_c() => return Ok(None),
        }
    }
}

/// Prints new events until Ctrl-C or a closed output.
async fn follow(client: &RuntimeClient, after: EventSeq, out: &Output) -> Result<(), Failure> {
    let mut feed = client.follow_events(after);
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
                    out.note("reconnected to the runtime");
                }
            }
            // The runtime lost its journal.
            Some(FeedItem::Lost { error, .. }) if error.is_ahead() => {
                out.note(error.to_string());
                feed = client.follow_events(EventSeq(0));
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

fn describe_newer(record: &NewerRecord) -> String {
    format!(
        "event {} ({}): unknown kind, written by a newer runtime. Update this program.",
        record.seq, record.kind
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

    use serde_json::{Value, json};

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
    fn crossing_is_one_line_with_time_reason_and_decision() {
        let line = line(&event("new", crossing()), Clock::Source).unwrap();
        assert_eq!(
            line,
            "     4.0 s   door: person 4 crossed door (in)  (record, 87 %)"
        );
    }

    #[test]
    fn answer_of_a_person_follows_the_decision_of_the_box() {
        let mut corrected = event("new", crossing());
        let given = json!({
            "by": {"kind": "person", "via": "chat"}, "answer": "correct", "label": "cat",
        });
        corrected.assessment = Some(serde_json::from_value(given).unwrap());
        let line = line(&corrected, Clock::Source).unwrap();
        let shown = "(record, 87 %; corrected to cat by a person)";
        assert!(line.ends_with(shown), "{line}");
    }

    #[test]
    fn end_without_duration_has_no_line() {
        assert_eq!(line(&event("end", crossing()), Clock::Source), None);
        assert_eq!(line(&event("update", crossing()), Clock::Source), None);
    }

    #[test]
    fn end_of_a_stay_names_object_zone_and_duration() {
        let mut body = json!({
            "kind": "rule", "rule": "appears", "condition": "appears", "reason": "r", "label": "motion",
            "tracks": [18], "frame": 120, "pts_s": 4.04,
        });
        let gone = line(&event("end", body.clone()), Clock::Source).unwrap();
        assert!(gone.ends_with("appears: motion #18 gone"), "{gone}");
        body["zone"] = json!("bench");
        body["dwell_s"] = json!(10.4);
        // The object was lost and continued by another track.
        body["tracks"] = json!([18, 21]);
        let left = line(&event("end", body), Clock::Source).unwrap();
        assert!(
            left.ends_with("motion #18 was in bench for 10.4 s"),
            "{left}"
        );
    }

    #[test]
    fn outage_has_a_line_at_start_and_end() {
        let body = json!({"kind": "source_outage", "cause": "refused", "message": "connection refused", "lasted_s": 9.96});
        let begin = line(&event("new", body.clone()), Clock::Wall).unwrap();
        assert!(begin.ends_with("gate: connection refused"), "{begin}");
        let end = line(&event("end", body), Clock::Source).unwrap();
        assert_eq!(end, "             camera reconnected after 10.0 s");
        let covered =
            json!({"kind": "source_outage", "message": "something covers it", "lasted_s": 67.6});
        let end = line(&event("end", covered), Clock::Wall).unwrap();
        assert!(
            end.ends_with("gate shows what it should again after 67.6 s"),
            "{end}"
        );
        let unseen =
            json!({"kind": "source_outage", "cause": "refused", "message": "connection refused"});
        let end = line(&event("end", unseen), Clock::Wall).unwrap();
        assert!(
            end.ends_with("the camera was lost or is no longer watched"),
            "{end}"
        );
    }

    #[test]
    fn json_event_has_a_type_and_every_field() {
        let object = object(&event("new", crossing()));
        assert_eq!(object["type"], "event");
        assert_eq!(object["body"]["rule"], "door");
    }
}
