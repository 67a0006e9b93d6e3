//! Summary at the end of `run`. Scripts read its JSON form: its keys are fixed.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use watchkeeper_contract::id::TrackId;
use watchkeeper_contract::pipeline::{
    DamagedCounts, LineCount, PipelineResults, TooWeak, Visit, ZoneVisits,
};

use crate::output::table;
use watchkeeper_assistant::wording::{counted, cut};

/// The last line of `run --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Summary {
    r#type: &'static str,
    /// Models and back ends, such as `yolox-nano on rten`.
    #[serde(skip_serializing_if = "Option::is_none")]
    detector: Option<String>,
    frames: u64,
    /// Source time in seconds.
    seconds: f64,
    /// Frames processed per second of the clock.
    fps: f64,
    /// Number of confirmed tracks.
    tracks: u64,
    lines: BTreeMap<String, LineCount>,
    zones: BTreeMap<String, Zone>,
    /// Number of events in the journal.
    events: u64,
    /// Numbers of what made no event, by the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    without_event: BTreeMap<&'static str, u64>,
    /// The latest events that were too weak to record.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    too_weak: Vec<TooWeak>,
    #[serde(skip_serializing_if = "DamagedCounts::is_zero")]
    damaged: DamagedCounts,
    /// Frames missing from the counts because the source is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Outputs at the last frame, with `--workflow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Zone {
    visits: Vec<ZoneVisit>,
    /// Numbers of stays that are no visits, by the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    uncounted_stays: BTreeMap<&'static str, u64>,
}

impl Zone {
    /// A row of the table of zones.
    fn row(&self, name: &str) -> Vec<String> {
        let dwell: Vec<f64> = self.visits.iter().map(|v| v.dwell_s).collect();
        let longest = dwell.iter().copied().fold(0.0, f64::max);
        let mean = dwell.iter().sum::<f64>() / (dwell.len() as f64);
        let seconds = |s: f64| match dwell.as_slice() {
            [] => "–".to_owned(),
            _ => format!("{s:.1} s"),
        };
        let number = |why: &str| match self.uncounted_stays.get(why) {
            Some(number) => number.to_string(),
            None => "–".to_owned(),
        };
        vec![
            name.to_owned(),
            dwell.len().to_string(),
            seconds(mean),
            seconds(longest),
            number("too_short"),
            number("still"),
        ]
    }
}

impl From<&ZoneVisits> for Zone {
    fn from(zone: &ZoneVisits) -> Self {
        let others = [("too_short", zone.too_short), ("still", zone.still)];
        let others = others.into_iter().filter(|(_, count)| *count > 0);
        Self {
            visits: zone.visits.iter().map(ZoneVisit::from).collect(),
            uncounted_stays: others.collect(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ZoneVisit {
    track: TrackId,
    enter_s: f64,
    dwell_s: f64,
}

impl From<&Visit> for ZoneVisit {
    fn from(visit: &Visit) -> Self {
        Self {
            track: visit.track,
            enter_s: millis(visit.enter_s),
            dwell_s: millis(visit.dwell_s),
        }
    }
}

/// Rounds seconds to milliseconds, to cut arithmetic noise.
fn millis(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

impl From<&PipelineResults> for Summary {
    fn from(results: &PipelineResults) -> Self {
        let fps = if results.elapsed_s > 0.0 {
            results.frames as f64 / results.elapsed_s
        } else {
            0.0
        };
        let zones = results
            .zones
            .iter()
            .map(|(name, zone)| (name.clone(), Zone::from(zone)));
        Self {
            r#type: "summary",
            detector: None,
            frames: results.frames,
            seconds: millis(results.source_s),
            fps: (fps * 10.0).round() / 10.0,
            tracks: results.tracks,
            lines: results.lines.clone(),
            zones: zones.collect(),
            events: results.events,
            without_event: without_event(results),
            too_weak: results.too_weak.clone(),
            damaged: results.damaged,
            note: None,
            outputs: None,
        }
    }
}

/// Hint of a run in which nothing was detected.
const NOTHING_SEEN: &str = "\nNothing was detected. --show or --video FILE shows what the camera \
     sees; --model and --watch choose what is looked for (docs/guide/troubleshooting.md).";

/// Why something made no event: key and words.
const REASONS: [(&str, &str); 6] = [
    ("too_weak", "too weak to record"),
    ("cooling_down", "during a cool-down"),
    ("inactive", "outside of the schedule"),
    (
        "not_accepted",
        "of a class or score that a rule does not accept",
    ),
    ("in_ignored_area", "in an area that a rule ignores"),
    ("over_hourly_limit", "beyond the events an hour of a rule"),
];

fn without_event(results: &PipelineResults) -> BTreeMap<&'static str, u64> {
    let other = results.suppressed;
    let counts = [
        results.discarded,
        other.cooling_down,
        other.inactive,
        other.not_accepted,
        other.in_ignored_area,
        other.over_hourly_limit,
    ];
    let named = REASONS.iter().zip(counts);
    let named = named.filter(|(_, count)| *count > 0);
    named.map(|((name, _), count)| (*name, count)).collect()
}

/// Maximum characters of an output's value in the table.
const MAX_SHOWN: usize = 60;

/// Formats an output as a table cell; detections as their number.
fn cell(value: &Value) -> String {
    let boxes = value.get("predictions").and_then(Value::as_array);
    if let Some(boxes) = boxes {
        return counted(boxes.len() as u64, "detection");
    }
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    cut(text, MAX_SHOWN)
}

impl Summary {
    /// Adds the models and back ends, and the runtime's note about the source.
    #[must_use]
    pub(super) fn with_notes(self, detector: Option<String>, note: Option<String>) -> Self {
        Self {
            detector,
            note,
            ..self
        }
    }

    /// Adds the outputs of the workflow at the last frame.
    #[must_use]
    pub(super) fn with_outputs(mut self, results: &PipelineResults) -> Self {
        self.outputs = Some(results.outputs.clone());
        self
    }

    pub(super) fn text(&self) -> String {
        let mut out = format!(
            "\n{}, {:.1} s of source time at {:.1} frames/s; {}, {}",
            counted(self.frames, "frame"),
            self.seconds,
            self.fps,
            counted(self.tracks, "track"),
            counted(self.events, "event")
        );
        if !self.without_event.is_empty() {
            let reasons = self.without_event.iter().map(|(reason, count)| {
                let words = REASONS.iter().find(|(name, _)| name == reason);
                format!("{count} {}", words.map_or(*reason, |(_, words)| words))
            });
            out.push_str(&format!(" ({})", reasons.collect::<Vec<_>>().join(", ")));
        }
        out.push_str(&self.notes());
        if !self.lines.is_empty() {
            let rows = self.lines.iter().map(|(name, count)| {
                vec![name.clone(), count.r#in.to_string(), count.out.to_string()]
            });
            out.push_str("\n\n");
            out.push_str(&table(&["line", "in", "out"], rows));
        }
        if !self.zones.is_empty() {
            let rows = self.zones.iter().map(|(name, zone)| zone.row(name));
            out.push_str("\n\n");
            let heads = ["zone", "visits", "mean", "longest", "too short", "still"];
            out.push_str(&table(&heads, rows));
        }
        if let Some(Value::Object(outputs)) = self.outputs.as_ref().filter(|_| self.frames > 0) {
            let rows = outputs
                .iter()
                .map(|(name, value)| vec![name.clone(), cell(value)]);
            out.push_str("\n\n");
            out.push_str(&table(&["output", "at the last frame"], rows));
        }
        out
    }

    /// Formats what the numbers do not show, each on a line of its own.
    fn notes(&self) -> String {
        let mut out = String::new();
        if self.frames > 0 && self.tracks == 0 && self.events == 0 {
            out.push_str(NOTHING_SEEN);
        }
        for weak in &self.too_weak {
            out.push_str(&format!(
                "\ntoo weak to record: {:.1} s {}: {} ({} %)",
                weak.pts_s,
                weak.rule,
                weak.reason,
                weak.percent()
            ));
        }
        if let Some(note) = &self.note {
            out.push_str(&format!("\nsource {note}"));
        }
        if !self.damaged.is_zero() {
            out.push_str(&format!(
                "\n{} of {} are damaged or less than 2 s after damage; {} and {} were counted in \
                 them, and may be wrong",
                self.damaged.frames,
                counted(self.frames, "frame"),
                counted(self.damaged.crossings, "crossing"),
                counted(self.damaged.visits, "visit")
            ));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn results() -> PipelineResults {
        PipelineResults {
            frames: 300,
            source_s: 10.000_4,
            elapsed_s: 4.0,
            tracks: 7,
            lines: BTreeMap::from([("door".to_owned(), LineCount { r#in: 2, out: 1 })]),
            zones: BTreeMap::from([(
                "desk".to_owned(),
                ZoneVisits {
                    count: 1,
                    present: 0,
                    visits: vec![Visit {
                        track: TrackId(4),
                        enter_s: 1.5,
                        dwell_s: 3.25,
                    }],
                    ..ZoneVisits::default()
                },
            )]),
            events: 5,
            ..PipelineResults::default()
        }
    }

    #[test]
    fn json_summary_has_the_fixed_keys() {
        let summary = serde_json::to_value(Summary::from(&results())).unwrap_or_default();
        assert_eq!(
            summary,
            json!({
                "type": "summary", "frames": 300, "seconds": 10.0, "fps": 75.0, "tracks": 7,
                "lines": {"door": {"in": 2, "out": 1}},
                "zones": {"desk": {"visits": [{"track": 4, "enter_s": 1.5, "dwell_s": 3.25}]}},
                "events": 5,
            })
        );
    }

    #[test]
    fn outputs_of_the_last_frame_are_shown() {
        let mut results = results();
        results.outputs =
            json!({"count": 3, "seen": {"image": {}, "predictions": [{}]}, "note": "x".repeat(99)});
        let summary = Summary::from(&results).with_outputs(&results);
        let text = summary.text();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        for row in [["count", "3"].as_slice(), &["seen", "1", "detection"]] {
            assert!(rows.iter().any(|found| found == row), "{text}");
        }
        assert!(
            text.contains("x…") && !text.contains(&"x".repeat(MAX_SHOWN + 1)),
            "{text}"
        );
        let object = serde_json::to_value(summary).unwrap_or_default();
        assert_eq!(object["outputs"]["count"], 3);
    }

    #[test]
    fn run_without_a_frame_has_a_summary_of_zeros() {
        let summary = Summary::from(&PipelineResults::default());
        assert_eq!(summary.fps, 0.0);
        assert!(summary.text().contains("0 frames"));
    }

    #[test]
    fn text_names_every_line_and_zone() {
        let text = Summary::from(&results()).text();
        assert!(
            text.contains("door") && text.contains("desk") && text.contains("3.2 s"),
            "{text}"
        );
    }

    #[test]
    fn summary_names_the_numbers_of_what_made_no_event() {
        let mut results = results();
        assert!(!Summary::from(&results).text().contains("too weak"));
        results.discarded = 3;
        results.suppressed.cooling_down = 2;
        let summary = Summary::from(&results);
        let text = summary.text();
        let wanted = "5 events (2 during a cool-down, 3 too weak to record)";
        assert!(text.contains(wanted), "{text}");
        let summary = serde_json::to_value(summary).unwrap_or_default();
        assert_eq!(
            summary["without_event"],
            json!({"too_weak": 3, "cooling_down": 2})
        );
    }

    #[test]
    fn summary_names_weak_events_and_what_damage_may_have_counted() {
        let mut results = results();
        results.damaged = DamagedCounts {
            frames: 95,
            crossings: 5,
            visits: 1,
        };
        results.too_weak = vec![TooWeak {
            rule: "mid".to_owned(),
            reason: "bicycle #4 crossed line mid, going in".to_owned(),
            pts_s: 11.8,
            confidence: 0.46,
        }];
        let summary = Summary::from(&results);
        let text = summary.text();
        let weak = "too weak to record: 11.8 s mid: bicycle #4 crossed line mid, going in (46 %)";
        assert!(text.contains(weak), "{text}");
        let damaged = "95 of 300 frames are damaged or less than 2 s after damage; 5 crossings";
        assert!(text.contains(damaged), "{text}");
        let summary = serde_json::to_value(summary).unwrap_or_default();
        assert_eq!(summary["damaged"]["crossings"], 5);
        assert_eq!(summary["too_weak"][0]["confidence"], 0.46);
    }

    #[test]
    fn summary_says_that_the_source_is_incomplete() {
        let note = "incomplete: the pictures end at 13.3 s of 30.2 s";
        let detector = Some("motion".to_owned());
        let summary = Summary::from(&results()).with_notes(detector, Some(note.to_owned()));
        assert!(summary.text().contains(note), "{}", summary.text());
        let summary = serde_json::to_value(summary).unwrap_or_default();
        assert_eq!(summary["note"], note);
        assert_eq!(summary["detector"], "motion");
    }

    #[test]
    fn zone_names_the_numbers_of_stays_that_are_no_visits() {
        let mut results = results();
        for zone in results.zones.values_mut() {
            (zone.too_short, zone.still) = (5, 3);
        }
        let summary = Summary::from(&results);
        let text = summary.text();
        let row = text.lines().find(|line| line.contains("desk"));
        let row: Vec<_> = row.unwrap_or_default().split_whitespace().collect();
        assert_eq!(row, ["desk", "1", "3.2", "s", "3.2", "s", "5", "3"]);
        let summary = serde_json::to_value(summary).unwrap_or_default();
        assert_eq!(
            summary["zones"]["desk"]["uncounted_stays"],
            json!({"too_short": 5, "still": 3})
        );
    }

    #[test]
    fn zone_without_visits_has_no_mean() {
        let mut results = results();
        results
            .zones
            .insert("desk".to_owned(), ZoneVisits::default());
        let text = Summary::from(&results).text();
        assert!(text.contains('–') && !text.contains("0.0 s\n"), "{text}");
    }
}
