//! Counts of a pipeline as a sentence: the answer to `how many are there`.
//!
//! Invariant: only numbers of the runtime, each with its name in the workflow.

use serde_json::{Number, Value};
use watchkeeper_contract::pipeline::{LineCount, PipelineResults, PipelineState, PipelineStatus};
use watchkeeper_contract::source::{SourceState, SourceStatus};
use watchkeeper_contract::time::TimeQuality;
use watchkeeper_plain::answer::EventsWanted;

use crate::wording::{counted, local_time};

/// Maximum number of pipelines whose counters of lines an answer lists.
const MAX_COUNTERS: usize = 4;

/// Formats the outputs, lines and zones of a pipeline; `None` if it counts nothing. The present
/// number is not known unless the pipeline runs and its source delivers.
pub fn format_counts(status: &PipelineStatus, sources: &[SourceStatus]) -> Option<String> {
    let results = &status.results;
    let mut parts: Vec<String> = match stale(status, sources) {
        Some(why) if counts_present(status) => vec![format!("not known now: {why}")],
        Some(_) => Vec::new(),
        None => numbers(status)
            .map(|(name, number)| format!("{name}: {number} now"))
            .collect(),
    };
    let is_known = stale(status, sources).is_none();
    let lines = results.lines.iter();
    parts.extend(lines.map(|(name, count)| format_line(name, *count) + " since the start"));
    let zones = results.zones.iter();
    parts.extend(zones.map(|(name, zone)| {
        let visits = counted(zone.count, "visit");
        match is_known {
            true => format!("zone {name}: {} there now, {visits}", zone.present),
            false => format!("zone {name}: {visits}"),
        }
    }));
    (!parts.is_empty()).then(|| format!("{}: {}", status.spec.id, parts.join("; ")))
}

/// Formats what the lines and zones of a replayed pipeline counted.
pub(super) fn format_totals(results: &PipelineResults) -> Vec<String> {
    let lines = results.lines.iter();
    let lines = lines.map(|(name, count)| format_line(name, *count));
    let zones = results.zones.iter();
    let zones = zones.map(|(name, zone)| format!("zone {name}: {}", counted(zone.count, "visit")));
    lines.chain(zones).collect()
}

/// Formats the counters of the lines that a question for crossings is about. They count all
/// crossings since each pipeline began to count, also those without an event.
pub fn format_line_counters(wanted: &EventsWanted, pipelines: &[PipelineStatus]) -> Option<String> {
    if wanted.conditions != ["crosses"] {
        return None;
    }
    let is_asked = |status: &&PipelineStatus| {
        let spec = &status.spec;
        (wanted.pipelines.is_empty() || wanted.pipelines.contains(&spec.id))
            && wanted.camera.as_ref().is_none_or(|id| *id == spec.source)
    };
    let counters = pipelines.iter().filter(is_asked).filter_map(|status| {
        let lines = status.results.lines.iter();
        let lines: Vec<String> = lines
            .map(|(name, count)| format_line(name, *count))
            .collect();
        let since = status.results.counting_since?;
        let since = match since.quality {
            TimeQuality::Unsynced => "their start".to_owned(),
            _ => local_time(since.unix_ms),
        };
        let counter = || format!("{} since {since}: {}", status.spec.id, lines.join("; "));
        (!lines.is_empty()).then(counter)
    });
    let counters: Vec<String> = counters.take(MAX_COUNTERS).collect();
    (!counters.is_empty()).then(|| {
        format!(
            "Counters of lines, of every class they count: {}.",
            counters.join("; ")
        )
    })
}

/// Formats the counts of one line, which is often just named `line`.
fn format_line(name: &str, count: LineCount) -> String {
    let named = match name {
        "line" => name.to_owned(),
        name => format!("line {name}"),
    };
    format!("{named}: {} in, {} out", count.r#in, count.out)
}

/// Whether a pipeline counts the objects present now, and not only crossings of a line.
pub fn counts_present(status: &PipelineStatus) -> bool {
    !status.results.zones.is_empty() || numbers(status).next().is_some()
}

/// The outputs that are numbers. The totals of a line are left out; they are shown with the line.
fn numbers(status: &PipelineStatus) -> impl Iterator<Item = (&String, &Number)> {
    let definitions = status.spec.workflow["outputs"].as_array();
    let is_total = move |name: &str| {
        let mut definitions = definitions.into_iter().flatten();
        let of = definitions.find(|output| output["name"] == name);
        let selector = of.and_then(|output| output["selector"].as_str());
        selector.is_some_and(|s| s.ends_with(".count_in") || s.ends_with(".count_out"))
    };
    let outputs = status.results.outputs.as_object().into_iter().flatten();
    outputs.filter_map(move |(name, value)| match value {
        Value::Number(number) if !is_total(name) => Some((name, number)),
        _ => None,
    })
}

/// Why the latest results are not of now.
fn stale(status: &PipelineStatus, sources: &[SourceStatus]) -> Option<String> {
    match status.state {
        PipelineState::Running => {}
        PipelineState::Starting => return Some("the watch is starting".to_owned()),
        PipelineState::Paused => return Some("the watch is paused".to_owned()),
        PipelineState::Ended => return Some("the watch ended".to_owned()),
        PipelineState::Stopped => return Some("the watch is stopped".to_owned()),
        PipelineState::Failed { .. } => return Some("the watch failed".to_owned()),
    }
    let source = sources.iter().find(|s| s.spec.id == status.spec.source)?;
    let since = local_time(source.since.unix_ms);
    match source.state {
        SourceState::Live { blind: None } | SourceState::Idle => None,
        SourceState::Live { blind: Some(_) } => Some("the camera shows no picture".to_owned()),
        SourceState::Connecting { .. } => Some("the camera is connecting".to_owned()),
        SourceState::Ended => Some(format!("the source ended at {since}")),
        SourceState::Lost { .. } | SourceState::Failed { .. } => {
            Some(format!("the camera is lost since {since}"))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;
    use watchkeeper_contract::id::SourceId;

    use super::super::snapshot::testing::{situation, status};
    use super::*;

    fn counting(outputs: &Value) -> PipelineStatus {
        let spec = json!({"id": "yard", "source": "gate", "workflow": {"outputs": outputs}});
        status(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn every_count_appears_once_with_its_name() {
        let mut counted = counting(&json!([
            {"name": "people", "selector": "$steps.people.number"},
            {"name": "in", "selector": "$steps.door.count_in"},
            {"name": "out", "selector": "$steps.door.count_out"},
        ]));
        assert_eq!(format_counts(&counted, &[]), None);
        counted.results.lines =
            serde_json::from_value(json!({"door": {"in": 2, "out": 1}})).unwrap();
        counted.results.outputs = json!({"in": 2, "out": 1});
        assert!(!counts_present(&counted));
        counted.results.zones =
            serde_json::from_value(json!({"bay": {"count": 1, "present": 0, "visits": []}}))
                .unwrap();
        counted.results.outputs = json!({
            "people": 3, "in": 2, "out": 1, "tracked": {"predictions": []}, "annotated": null,
        });
        assert!(counts_present(&counted));
        assert_eq!(
            format_counts(&counted, &[]).unwrap(),
            "yard: people: 3 now; line door: 2 in, 1 out since the start; \
             zone bay: 0 there now, 1 visit"
        );
    }

    #[test]
    fn nothing_is_there_now_of_a_paused_watch_or_a_lost_camera() {
        let mut counted = counting(&json!([]));
        counted.results.zones =
            serde_json::from_value(json!({"bay": {"count": 4, "present": 3, "visits": []}}))
                .unwrap();
        let mut sources = situation().sources;
        sources[0].state = serde_json::from_value(json!({
            "state": "lost", "cause": "unreachable", "message": "gone", "retry_in_s": 1.0,
        }))
        .unwrap();
        let lost = format_counts(&counted, &sources).unwrap();
        assert!(
            lost.starts_with("yard: not known now: the camera is lost since ")
                && lost.ends_with("; zone bay: 4 visits"),
            "{lost}"
        );
        counted.state = PipelineState::Paused;
        assert_eq!(
            format_counts(&counted, &[]).unwrap(),
            "yard: not known now: the watch is paused; zone bay: 4 visits"
        );
    }

    #[test]
    fn line_that_makes_no_events_answers_with_its_counter() {
        let mut counted = counting(&json!([]));
        counted.results.lines =
            serde_json::from_value(json!({"line": {"in": 0, "out": 2}})).unwrap();
        counted.results.counting_since =
            serde_json::from_value(json!({"unix_ms": 0, "quality": "synced"})).unwrap();
        let mut wanted = EventsWanted {
            conditions: vec!["crosses".to_owned()],
            ..EventsWanted::default()
        };
        let pipelines = [counted];
        let text = format_line_counters(&wanted, &pipelines).unwrap();
        assert!(text.ends_with(": line: 0 in, 2 out."), "{text}");
        wanted.camera = Some(SourceId::new("yard").unwrap());
        assert_eq!(format_line_counters(&wanted, &pipelines), None);
    }
}
