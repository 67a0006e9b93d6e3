//! Price of a watch: what it would take of the processor, the disk, the network and the budget.
//!
//! - Pure; every number is computed from measured ones ([`Measured`]).
//! - A number that cannot be known is absent, with its reason in [`PriceTag::unknown`]; one that
//!   may be off by more than a fifth is shown as a range. Without an event in the backtest, numbers
//!   of events are 0 and have no range.
//! - The processor share is the processor time of the trial: of its thread, and of decoding and
//!   further threads of a network where no other pipeline ran. Else it is a lower bound.
//! - What events take of it besides is computed from the times of earlier events of this box:
//!   pictures, clips, journal. Where these are not known, the price says so.
//! - The uplink counts the records that MQTT publishes, without pictures and notifications.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use watchkeeper_contract::assessment::Assessor;
use watchkeeper_contract::backtest::BacktestEvent;
use watchkeeper_contract::event::{ClipState, Event, EventBody, MediaKind, Phase};
use watchkeeper_contract::health::EventTimes;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::workflow::DryRunReport;

use crate::wording::size;

const MONTH_DAYS: f64 = 30.0;
const DAY_S: f64 = 86_400.0;
/// Part of a number by which it may be off and is still shown as one.
pub const EXACT: f64 = 0.2;
/// Part of the type of each block that draws.
const VISUALIZATION: &str = "_visualization@";

/// What a price is computed from; an error is the reason why a number is missing.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Shares of a processor that the trial took.
    pub processor: Result<ProcessorShares, String>,
    /// What the events of all watches took of the processor so far.
    pub event_times: EventTimes,
    /// Events a day in the backtest.
    pub events_a_day: Result<f64, String>,
    /// Factors of the ends of what is likely, where they are too few to be known within a fifth.
    pub events_range: Option<[f64; 2]>,
    /// Share of these events that a second opinion is asked for.
    pub escalated_share: Result<f64, String>,
    /// Bytes of one event on this camera.
    pub event: Result<EventBytes, String>,
    /// Seconds of clips of one event, where events close together share a clip; 0: none.
    pub clip_s: f64,
    /// Mean cost of a second opinion in US dollars.
    pub opinion_usd: Result<f64, String>,
    /// Whether the workflow draws, so that each event keeps a second picture.
    pub draws: bool,
    /// Whether the annotated video is recorded, whose size is not known before.
    pub is_recorded: bool,
}

/// Shares of one processor core, 1 is a whole one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProcessorShares {
    /// The thread of the pipeline: detection, workflow, rules, frames before a clip.
    pub pipeline: f64,
    /// Decoding, and further threads of a network; `None` if other pipelines ran meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
}

impl ProcessorShares {
    /// The shares at the rate of the frames of a trial; `None` where no frame was measured.
    pub fn from_report(report: &DryRunReport) -> Option<Self> {
        let results = &report.results;
        let shares = Self {
            // The first frame begins the time, the others fill it.
            pipeline: results.processor_s * results.frames.saturating_sub(1) as f64
                / (results.frames as f64 * results.source_s),
            others: report.others_s.map(|spent| spent / results.source_s),
        };
        (results.source_s > 0.0 && results.processor_s > 0.0).then_some(shares)
    }
}

/// Mean bytes of earlier events of a camera.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EventBytes {
    /// All records of one event, as JSON.
    pub records: f64,
    /// Its picture as it came; 0 where none was kept.
    pub clean: f64,
    /// Its picture with drawings; absent where none was kept.
    pub annotated: Option<f64>,
    /// One second of a clip; absent where none was kept.
    pub clip_second: Option<f64>,
}

/// What a watch would take.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PriceTag {
    /// Share of one processor core, 1 is a whole one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_share: Option<f64>,
    /// Part of it that decoding and further threads of a network take; absent where other pipelines
    /// ran in the trial, and the share is a lower bound then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_share: Option<f64>,
    /// Part of it that pictures, clips and records of events take; absent where it is not known,
    /// and the share is without it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_share: Option<f64>,
    /// Processor time of pictures, clip and records of one event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_s_an_event: Option<f64>,
    /// Bytes of pictures, clip and records of one event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_bytes_an_event: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_bytes_a_day: Option<f64>,
    /// Bytes that MQTT publishes of one event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink_bytes_an_event: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink_bytes_a_day: Option<f64>,
    /// Second opinions of one event, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_usd_an_event: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_usd_a_month: Option<f64>,
    /// Factors of the lower and the upper end of `events_share` and of the numbers a day and a
    /// month: the replayed hours have too few events to know them within a fifth. Absent where
    /// they have enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_range: Option<[f64; 2]>,
    /// Why a number is absent, by `processor`, `events`, `storage`, `uplink` and `model`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, String>,
}

impl PriceTag {
    /// Computes the price.
    pub fn new(measured: &Measured) -> Self {
        let mut tag = Self {
            events_range: measured.events_range,
            ..Self::default()
        };
        let others = |shares: &ProcessorShares| shares.others.filter(|share| share.is_finite());
        tag.others_share = measured.processor.as_ref().ok().and_then(others);
        let others = tag.others_share.unwrap_or_default();
        let an_event = measured.processor_s_an_event();
        tag.processor_s_an_event = an_event.clone().ok();
        let events = measured.a_day(an_event).map(|spent| spent / DAY_S);
        tag.events_share = tag.known("events", events);
        let more = others + tag.events_share.unwrap_or_default();
        let shares = measured.processor.clone();
        tag.processor_share = tag.known("processor", shares.map(|s| s.pipeline + more));
        let storage = measured.storage_an_event();
        tag.storage_bytes_an_event = storage.clone().ok();
        let uplink = measured.event.clone().map(|event| event.records);
        tag.uplink_bytes_an_event = uplink.clone().ok();
        let storage = match measured.is_recorded {
            true => Err("it records all frames, and their size is not known before".to_owned()),
            false => measured.a_day(storage),
        };
        tag.storage_bytes_a_day = tag.known("storage", storage);
        tag.uplink_bytes_a_day = tag.known("uplink", measured.a_day(uplink));
        let model = measured.model_an_event();
        tag.model_usd_an_event = model.clone().ok();
        let model = match model {
            // Without second opinions it costs nothing, however many events there are.
            Ok(0.0) => Ok(0.0),
            an_event => measured.a_day(an_event).map(|usd| usd * MONTH_DAYS),
        };
        tag.model_usd_a_month = tag.known("model", model);
        tag
    }

    /// The processor share, and which of its pieces are missing.
    fn processor(&self, share: f64) -> String {
        let events = match self.events_share {
            Some(_) => "",
            None => " without the pictures of events",
        };
        // Only the part of the events is as uncertain as their number.
        let of_events = self.events_share.unwrap_or_default();
        let ends = self.events_range.unwrap_or([1.0; 2]);
        let ends = ends.map(|factor| share + of_events * (factor - 1.0));
        let is_known = ends.iter().all(|end| (end - share).abs() <= EXACT * share);
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        let share = match is_known {
            true => percent(share),
            false => ends.map(percent).join(" to "),
        };
        let share = format!("{share} % of a core{events}");
        match self.others_share {
            Some(_) => share,
            None => format!("at least {share} (decoding is not known: other watches ran)"),
        }
    }

    fn known(&mut self, name: &str, value: Result<f64, String>) -> Option<f64> {
        let value = value.and_then(|value| match value.is_finite() && value >= 0.0 {
            true => Ok(value),
            false => Err("the measurement is not a number".to_owned()),
        });
        value
            .map_err(|why| self.unknown.insert(name.to_owned(), why))
            .ok()
    }

    /// The price in one line.
    pub fn sentence(&self) -> String {
        let part = |name: &str, value: Option<String>| match value {
            Some(value) => format!("{name} {value}"),
            None => {
                let why = self
                    .unknown
                    .get(name)
                    .map_or("not measured", String::as_str);
                format!("{name} unknown ({why})")
            }
        };
        let ranged = |number: f64, text: &dyn Fn(f64) -> String| match self.events_range {
            Some(range) if number > 0.0 => range.map(|factor| text(number * factor)).join(" to "),
            _ => text(number),
        };
        let a_day = |bytes: Option<f64>| Some(format!("{} a day", ranged(bytes?, &in_bytes)));
        let dollars = |usd: f64| format!("${usd:.2}");
        let parts = [
            part(
                "processor",
                self.processor_share.map(|share| self.processor(share)),
            ),
            part("storage", a_day(self.storage_bytes_a_day)),
            part("uplink", a_day(self.uplink_bytes_a_day)),
            part(
                "model",
                self.model_usd_a_month
                    .map(|usd| format!("{} a month", ranged(usd, &dollars))),
            ),
        ];
        parts.join(", ")
    }
}

impl Measured {
    /// Bytes that one event leaves on the disk.
    fn storage_an_event(&self) -> Result<f64, String> {
        let event = self.event.clone()?;
        let clip = match (self.clip_s > 0.0, event.clip_second) {
            (false, _) => 0.0,
            (true, Some(second)) => second * self.clip_s,
            (true, None) => return Err("no clip of this camera was kept yet".to_owned()),
        };
        let annotated = match self.draws {
            // A drawing hardly changes the size.
            true => event.annotated.unwrap_or(event.clean),
            false => 0.0,
        };
        Ok(event.records + event.clean + annotated + clip)
    }

    /// Processor time that one event takes outside the thread of its pipeline.
    fn processor_s_an_event(&self) -> Result<f64, String> {
        let times = self.event_times;
        let mean = |spent: f64, number: u64, what: &str| match number {
            0 => Err(format!("no {what} was stored since the runtime started")),
            _ => Ok(spent / number as f64),
        };
        let event = mean(times.recorder_s, times.events, "event")?;
        match self.clip_s > 0.0 {
            true => Ok(event + mean(times.clips_s, times.clips, "clip")?),
            false => Ok(event),
        }
    }

    /// Multiplies what one event takes by the events of a day. No event takes nothing.
    fn a_day(&self, an_event: Result<f64, String>) -> Result<f64, String> {
        match self.events_a_day.clone()? {
            0.0 => Ok(0.0),
            events => an_event.map(|bytes| bytes * events),
        }
    }

    /// Cost of the second opinions of one event.
    fn model_an_event(&self) -> Result<f64, String> {
        match self.escalated_share.clone()? {
            0.0 => Ok(0.0),
            share => self.opinion_usd.clone().map(|usd| share * usd),
        }
    }
}

/// Mean bytes of the events of a camera in these records.
///
/// # Errors
/// Where there is no event.
pub fn event_bytes<'e>(
    records: impl Iterator<Item = &'e Event>,
    source: &SourceId,
) -> Result<EventBytes, String> {
    let (mut events, mut of_records) = (0_u32, 0_usize);
    let (mut clean, mut annotated) = (Mean::default(), Mean::default());
    let (mut clip_bytes, mut clip_s) = (0_u64, 0.0);
    for event in records {
        let is_rule = matches!(event.body, EventBody::Rule(_));
        if event.source.as_ref() != Some(source) || !is_rule {
            continue;
        }
        events += u32::from(event.phase == Phase::New);
        of_records += serde_json::to_vec(event).map_or(0, |json| json.len());
        for picture in &event.media {
            match picture.kind {
                MediaKind::Clean => clean.add(picture.bytes),
                MediaKind::Annotated => annotated.add(picture.bytes),
            }
        }
        if let Some(clip) = &event.clip
            && let ClipState::Kept { bytes, .. } = &clip.state
        {
            clip_bytes += bytes;
            clip_s += clip.before_s + clip.after_s;
        }
    }
    if events == 0 {
        return Err("no event of this camera was kept yet".to_owned());
    }
    Ok(EventBytes {
        records: of_records as f64 / f64::from(events),
        clean: clean.get().unwrap_or(0.0),
        annotated: annotated.get(),
        clip_second: (clip_s > 0.0).then(|| clip_bytes as f64 / clip_s),
    })
}

/// A mean of sizes.
#[derive(Debug, Default)]
struct Mean {
    bytes: u64,
    number: u32,
}

impl Mean {
    fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.number += 1;
    }

    /// The mean; `None` of nothing.
    fn get(&self) -> Option<f64> {
        (self.number > 0).then(|| self.bytes as f64 / f64::from(self.number))
    }
}

/// Whether a step of the workflow draws.
pub fn draws(spec: &PipelineSpec) -> bool {
    let mut steps = spec.workflow["steps"].as_array().into_iter().flatten();
    steps.any(is_drawing)
}

/// Whether a step of a workflow draws.
pub fn is_drawing(step: &Value) -> bool {
    let block = step["type"].as_str().unwrap_or_default();
    block.contains(VISUALIZATION)
}

/// Mean cost of the answered second opinions in these records, in US dollars. The records do not
/// tell what one without an answer cost.
///
/// # Errors
/// Where none was answered.
pub fn opinion_usd<'e>(records: impl Iterator<Item = &'e Event>) -> Result<f64, String> {
    let costs = records.filter_map(|event| match &event.assessment.as_ref()?.by {
        Assessor::SecondOpinion(details) => details.cost_usd,
        Assessor::Person(_) | Assessor::Chain(_) => None,
    });
    let costs: Vec<f64> = costs.collect();
    match costs.len() {
        0 => Err("no second opinion was answered yet".to_owned()),
        number => Ok(costs.iter().sum::<f64>() / number as f64),
    }
}

/// Seconds of the clips of `spec` for one of these events; without events, of its longest clip.
/// Events close together share a clip, so what clips cover counts once.
pub fn clip_s(spec: &PipelineSpec, events: &[BacktestEvent]) -> f64 {
    let spans = events.iter().filter_map(|listed| {
        let mut rules = spec.rules.iter().flatten();
        let clip = rules.find(|rule| rule.name == listed.event.rule)?.clip?;
        let at = listed.at_ms as f64 / 1_000.0;
        Some((at - clip.before_s, at + clip.after_s))
    });
    let (mut covered, mut end) = (0.0, f64::NEG_INFINITY);
    for (from, until) in spans {
        covered += (until - from.max(end)).max(0.0);
        end = end.max(until);
    }
    let clips = spec.rules.iter().flatten().filter_map(|rule| rule.clip);
    match events.len() {
        0 => clips.map(|clip| clip.length_s()).fold(0.0, f64::max),
        number => covered / number as f64,
    }
}

/// A size for people; small ones in bytes.
fn in_bytes(bytes: f64) -> String {
    match bytes {
        ..1_000.0 => format!("{bytes:.0} B"),
        _ => size(bytes as u64),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use watchkeeper_contract::pipeline::PipelineResults;

    use super::*;

    fn shares(pipeline: f64, others: Option<f64>) -> ProcessorShares {
        ProcessorShares { pipeline, others }
    }

    fn measured() -> Measured {
        Measured {
            processor: Ok(shares(0.06, Some(0.02))),
            event_times: EventTimes {
                events: 10,
                recorder_s: 1.0,
                clips: 5,
                clips_s: 2.0,
            },
            events_a_day: Ok(20.0),
            events_range: None,
            escalated_share: Ok(0.1),
            event: Ok(EventBytes {
                records: 3_000.0,
                clean: 75_000.0,
                annotated: Some(75_000.0),
                clip_second: Some(100_000.0),
            }),
            clip_s: 15.0,
            opinion_usd: Ok(0.004),
            draws: true,
            is_recorded: false,
        }
    }

    #[test]
    fn price_is_told_in_one_line() {
        let tag = PriceTag::new(&measured());
        assert_eq!(
            tag.sentence(),
            "processor 8.0 % of a core, storage 33.1 MB a day, uplink 60 kB a day, model \
             $0.24 a month"
        );
        assert!(tag.unknown.is_empty());
        let busy = PriceTag::new(&Measured {
            processor: Ok(shares(0.06, None)),
            ..measured()
        });
        let told = busy.sentence();
        assert!(
            told.starts_with("processor at least 6.0 % of a core (decoding is not known"),
            "{told}"
        );
    }

    #[test]
    fn numbers_of_few_events_are_ranges() {
        let few = PriceTag::new(&Measured {
            events_range: Some([0.5, 2.0]),
            ..measured()
        });
        assert_eq!(
            few.sentence(),
            "processor 8.0 % of a core, storage 16.5 MB to 66.1 MB a day, uplink 30 kB to 0.1 MB a \
             day, model $0.12 to $0.48 a month"
        );
        let busy = PriceTag::new(&Measured {
            events_a_day: Ok(86_400.0),
            events_range: Some([0.5, 2.0]),
            clip_s: 0.0,
            ..measured()
        });
        let told = busy.sentence();
        assert!(
            told.starts_with("processor 13.0 to 28.0 % of a core"),
            "{told}"
        );
    }

    #[test]
    fn processor_share_has_pictures_and_clips_of_events() {
        let of = |clip_s, event_times| {
            PriceTag::new(&Measured {
                // Every ten seconds.
                events_a_day: Ok(8_640.0),
                clip_s,
                event_times,
                ..measured()
            })
        };
        let times = measured().event_times;
        for (clip_s, told) in [(0.0, "processor 9.0 % of"), (15.0, "processor 13.0 % of")] {
            let sentence = of(clip_s, times).sentence();
            assert!(sentence.starts_with(told), "{sentence}");
        }
        let no_clip = EventTimes { clips: 0, ..times };
        for (clip_s, times, what) in [
            (0.0, EventTimes::default(), "no event"),
            (15.0, no_clip, "no clip"),
        ] {
            let tag = of(clip_s, times);
            let sentence = tag.sentence();
            let told = "processor 8.0 % of a core without the pictures of events, storage";
            assert!(sentence.starts_with(told), "{sentence}");
            assert!(tag.unknown["events"].starts_with(what), "{tag:?}");
        }
        assert_eq!(of(0.0, no_clip).events_share, Some(0.01));
    }

    #[test]
    fn what_is_not_measured_is_unknown_with_its_reason() {
        let nothing = |why: &str| Err(why.to_owned());
        let tag = PriceTag::new(&Measured {
            event: Err("no event of this camera was kept yet".to_owned()),
            opinion_usd: nothing("no second opinion was answered yet"),
            processor: Err("not tried".to_owned()),
            ..measured()
        });
        assert_eq!(
            tag.sentence(),
            "processor unknown (not tried), storage unknown (no event of this camera was kept \
             yet), uplink unknown (no event of this camera was kept yet), model unknown (no \
             second opinion was answered yet)"
        );
        // Without events nothing is stored, whatever an event would take.
        let quiet = PriceTag::new(&Measured {
            events_a_day: Ok(0.0),
            event: Err("none".to_owned()),
            opinion_usd: Err("none".to_owned()),
            escalated_share: Ok(0.0),
            ..measured()
        });
        assert_eq!(quiet.storage_bytes_a_day, Some(0.0));
        assert_eq!(quiet.model_usd_a_month, Some(0.0));
        let unplayed = PriceTag::new(&Measured {
            events_a_day: nothing("it was not replayed"),
            escalated_share: nothing("it was not replayed"),
            ..measured()
        });
        assert_eq!(unplayed.model_usd_an_event, None);
        assert_eq!(unplayed.unknown["model"], "it was not replayed");
        let without = PriceTag::new(&Measured {
            events_a_day: nothing("it was not replayed"),
            escalated_share: Ok(0.0),
            ..measured()
        });
        assert_eq!(without.model_usd_a_month, Some(0.0));
        let recorded = PriceTag::new(&Measured {
            is_recorded: true,
            ..measured()
        });
        assert!(recorded.unknown["storage"].contains("records all frames"));
    }

    #[test]
    fn event_bytes_are_means_of_this_camera() {
        let event = |source: &str, phase: &str, bytes: u64| -> Event {
            let picture = json!({"id": "m", "kind": "clean", "content_type": "image/jpeg",
                "bytes": bytes, "sha256": ""});
            let media: Vec<Value> = (phase == "new").then_some(picture).into_iter().collect();
            serde_json::from_value(json!({
                "schema": 1, "id": "01J00000000000000000000000", "seq": 1, "boot_id": "b",
                "mono_ms": 1, "at": {"unix_ms": 1, "quality": "synced"}, "phase": phase,
                "source": source, "severity": "info",
                "body": {"kind": "rule", "rule": "r", "condition": "appears", "reason": "r",
                    "tracks": [], "frame": 1, "pts_s": 0.0},
                "decision": {"verdict": "act", "confidence": 0.9, "reason": "r"},
                "media": media, "evidence": [], "hash": "",
            }))
            .unwrap()
        };
        let records = [
            event("yard", "new", 1_000),
            event("yard", "end", 0),
            event("yard", "new", 3_000),
            event("gate", "new", 90_000),
        ];
        let yard = SourceId::new("yard").unwrap();
        let bytes = event_bytes(records.iter(), &yard).unwrap();
        assert_eq!((bytes.clean, bytes.annotated), (2_000.0, None));
        assert!(bytes.records > 300.0 && bytes.clip_second.is_none());
        let none = event_bytes(records.iter(), &SourceId::new("hall").unwrap());
        assert!(none.unwrap_err().contains("no event"));
    }

    #[test]
    fn opinion_without_an_answer_is_not_in_the_mean_cost() {
        let opinion = |cost: Option<f64>| -> Event {
            let mut by = json!({"kind": "second_opinion"});
            if let Some(usd) = cost {
                by["cost_usd"] = json!(usd);
            }
            serde_json::from_value(json!({
                "schema": 1, "id": "01J00000000000000000000000", "seq": 1, "boot_id": "b",
                "mono_ms": 1, "at": {"unix_ms": 1, "quality": "synced"}, "phase": "assessed",
                "source": "yard", "severity": "info",
                "body": {"kind": "rule", "rule": "r", "condition": "appears", "reason": "r",
                    "tracks": [], "frame": 1, "pts_s": 0.0},
                "decision": {"verdict": "act", "confidence": 0.9, "reason": "r"},
                "assessment": {"by": by, "answer": "none"},
                "media": [], "evidence": [], "hash": "",
            }))
            .unwrap()
        };
        let mean = |costs: &[Option<f64>]| {
            let records: Vec<Event> = costs.iter().copied().map(opinion).collect();
            opinion_usd(records.iter())
        };
        assert_eq!(mean(&[Some(0.5), None, Some(1.0)]), Ok(0.75));
        // A shared answer.
        assert_eq!(mean(&[Some(0.5), Some(0.0)]), Ok(0.25));
        assert!(mean(&[None]).unwrap_err().contains("answered"));
    }

    #[test]
    fn events_close_together_share_a_clip() {
        let spec: PipelineSpec = serde_json::from_value(json!({
            "id": "p", "source": "yard", "workflow": {}, "rules": [
                {"name": "r", "when": {"kind": "enters", "zone": "z"},
                    "clip": {"before_s": 5.0, "after_s": 10.0}},
                {"name": "without", "when": {"kind": "leaves", "zone": "z"}},
            ],
        }))
        .unwrap();
        let event = |rule: &str, at_ms: i64| -> BacktestEvent {
            serde_json::from_value(json!({
                "at_ms": at_ms, "severity": "info",
                "decision": {"verdict": "act", "confidence": 0.9, "reason": "r"},
                "event": {"rule": rule, "condition": "enters", "reason": "r", "tracks": [],
                    "frame": 1, "pts_s": 0.0},
            }))
            .unwrap()
        };
        let apart = [event("r", 0), event("without", 1_000), event("r", 100_000)];
        assert_eq!(clip_s(&spec, &apart), 10.0);
        assert_eq!(clip_s(&spec, &[event("r", 0), event("r", 5_000)]), 10.0);
        assert_eq!(clip_s(&spec, &[]), 15.0);
    }

    proptest! {
        /// A day takes what its events take, whatever is measured; more events never cost less.
        #[test]
        fn price_grows_with_the_events(
            events in 0.0f64..1e5, more in 0.0f64..1e5, records in 1.0f64..1e5,
            pictures in 0.0f64..1e7, clip_second in proptest::option::of(0.0f64..1e6),
            clip_s in 0.0f64..120.0, share in 0.0f64..1.0, usd in 0.0f64..1.0,
        ) {
            let of = |events: f64| PriceTag::new(&Measured {
                events_a_day: Ok(events),
                escalated_share: Ok(share),
                event: Ok(EventBytes { records, clean: pictures, annotated: None, clip_second }),
                clip_s,
                opinion_usd: Ok(usd),
                ..measured()
            });
            let (less, most) = (of(events), of(events + more));
            prop_assert_eq!(less.uplink_bytes_a_day, Some(records * events));
            prop_assert!(less.model_usd_a_month <= most.model_usd_a_month);
            prop_assert!(less.uplink_bytes_a_day <= most.uplink_bytes_a_day);
            match (less.storage_bytes_a_day, less.storage_bytes_an_event) {
                (Some(day), Some(event)) => {
                    prop_assert!((day - event * events).abs() <= 1e-6 * day.max(1.0));
                    prop_assert!(Some(day) <= most.storage_bytes_a_day);
                }
                (None, _) => prop_assert!(less.unknown.contains_key("storage")),
                (Some(day), None) => prop_assert_eq!(day, 0.0),
            }
        }

        /// Every number is either there or has a reason.
        #[test]
        fn every_number_is_there_or_has_a_reason(
            share in any::<f64>(), events in any::<f64>(),
            records in any::<f64>(), usd in any::<f64>(),
        ) {
            let tag = PriceTag::new(&Measured {
                processor: Ok(shares(share, (share > 1.0).then_some(usd))),
                events_a_day: Ok(events),
                event: Ok(EventBytes { records, clean: 0.0, annotated: None, clip_second: None }),
                opinion_usd: Ok(usd),
                ..measured()
            });
            for (name, number) in [
                ("processor", tag.processor_share), ("events", tag.events_share),
                ("storage", tag.storage_bytes_a_day),
                ("uplink", tag.uplink_bytes_a_day), ("model", tag.model_usd_a_month),
            ] {
                prop_assert_eq!(number.is_none(), tag.unknown.contains_key(name), "{}", name);
                prop_assert!(number.is_none_or(|n| n.is_finite() && n >= 0.0));
            }
        }

        #[test]
        fn processor_share_is_time_at_work(
            frames in 2u32..5_000, ms in 0.1f64..200.0, fps in 1.0f64..60.0,
            others in proptest::option::of(0.0f64..1.0),
        ) {
            let source_s = f64::from(frames - 1) / fps;
            let report = DryRunReport {
                results: PipelineResults {
                    frames: u64::from(frames),
                    source_s,
                    processor_s: f64::from(frames) * ms / 1e3,
                    ..PipelineResults::default()
                },
                others_s: others.map(|share| share * source_s),
                ..DryRunReport::default()
            };
            let shares = ProcessorShares::from_report(&report).unwrap();
            let is_near = |a: f64, b: f64| (a - b).abs() < 1e-9 * a.max(1.0);
            prop_assert!(is_near(shares.pipeline, ms * fps / 1e3));
            prop_assert_eq!(shares.others.is_some(), others.is_some());
            prop_assert!(shares.others.zip(others).is_none_or(|(a, b)| is_near(a, b)));
        }
    }
}
