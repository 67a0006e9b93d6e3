//! Price of a watch: what it would take of the processor, the disk, the network and the budget.
//!
//! - Pure; every number is computed from measured ones ([`Measured`]) by the formulas of
//!   `docs/ref/price.md`, which has the units too.
//! - A number that cannot be known is absent, with its reason in [`PriceTag::unknown`]; one that
//!   may be off by more than a fifth is shown as a range.

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
const EXACT: f64 = 0.2;
/// Part of the type of each block that draws.
const VISUALIZATION: &str = "_visualization@";

/// A number with the ends of what it may be.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Estimate {
    pub likely: f64,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    pub const fn exact(number: f64) -> Self {
        Self {
            likely: number,
            low: number,
            high: number,
        }
    }

    /// What the number of events may be in as many hours by chance alone: 95 % of a Poisson
    /// distribution, by its square root.
    pub fn of_events(number: u64) -> Self {
        let likely = number as f64;
        Self {
            likely,
            low: (likely.sqrt() - 0.98).max(0.0).powi(2),
            high: ((likely + 1.0).sqrt() + 0.98).powi(2),
        }
    }

    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            likely: self.likely * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            likely: self.likely + other.likely,
            low: self.low + other.low,
            high: self.high + other.high,
        }
    }

    /// One number where both ends are within [`EXACT`] of it, else a range.
    pub fn text(self, write: impl Fn(f64) -> String) -> String {
        let is_near = |end: f64| (end - self.likely).abs() <= EXACT * self.likely;
        let (low, high) = (write(self.low), write(self.high));
        if low == high || (is_near(self.low) && is_near(self.high)) {
            return write(self.likely);
        }
        format!("{low} to {high}")
    }
}

/// What a price is computed from; an error is the reason why a number is missing.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Shares of a processor that the trial took.
    pub processor: Result<ProcessorShares, String>,
    /// What the events of all watches took of the processor so far.
    pub event_times: EventTimes,
    pub events_a_day: Result<Estimate, String>,
    /// Second opinions that these events ask for.
    pub opinions_a_day: Result<Estimate, String>,
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
    /// The thread of the pipeline and those of its networks, at `looked_fps`.
    pub pipeline: f64,
    /// Decoding. 0 where another pipeline takes the frames of the camera anyway; `None` where
    /// pipelines ran on other cameras only, or only the one that this one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// Frames a second that it looked at, and that it wanted.
    pub looked_fps: f64,
    pub wanted_fps: f64,
}

impl ProcessorShares {
    /// The shares in a trial; `None` where no frame was measured.
    pub fn from_report(report: &DryRunReport) -> Option<Self> {
        let results = &report.results;
        // The first frame begins the time, the others fill it.
        let looked_fps = results.frames.saturating_sub(1) as f64 / results.source_s;
        let shares = Self {
            pipeline: results.processor_s / results.frames as f64 * looked_fps,
            others: report.others_s.map(|spent| spent / results.source_s),
            looked_fps,
            wanted_fps: report.wanted_fps.max(looked_fps),
        };
        (results.source_s > 0.0 && results.processor_s > 0.0).then_some(shares)
    }

    /// From the share at the rate of the trial to that at the wanted rate.
    fn of_pipeline(&self) -> Estimate {
        Estimate {
            high: self.pipeline * self.wanted_fps / self.looked_fps,
            ..Estimate::exact(self.pipeline)
        }
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
    /// Share of one processor core, 1 is a whole one: all pieces that are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_share: Option<Estimate>,
    /// What the trial took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<ProcessorShares>,
    /// Part of the processor share that pictures, clips and records of events take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_share: Option<Estimate>,
    /// Processor time of pictures, clip and records of one event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_s_an_event: Option<f64>,
    /// Bytes of pictures, clip and records of one event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_bytes_an_event: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_bytes_a_day: Option<Estimate>,
    /// Bytes that MQTT publishes of one event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink_bytes_an_event: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink_bytes_a_day: Option<Estimate>,
    /// Mean cost of a second opinion, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_usd_an_opinion: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_usd_a_month: Option<Estimate>,
    /// Why a number is absent, by `processor`, `events`, `storage`, `uplink` and `model`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, String>,
}

impl PriceTag {
    /// Computes the price.
    pub fn new(measured: &Measured) -> Self {
        let (an_event, storage) = (measured.processor_s_an_event(), measured.storage_an_event());
        let uplink = measured.event.clone().map(|event| event.records);
        let mut tag = Self {
            shares: measured.processor.clone().ok(),
            processor_s_an_event: an_event.clone().ok(),
            storage_bytes_an_event: storage.clone().ok(),
            uplink_bytes_an_event: uplink.clone().ok(),
            model_usd_an_opinion: measured.opinion_usd.clone().ok(),
            ..Self::default()
        };
        let a_day = |an_event: Result<f64, String>| {
            let events = measured.events_a_day.clone()?;
            an_event.map(|spent| events.scaled(spent))
        };
        let events = a_day(an_event).map(|spent| spent.scaled(1.0 / DAY_S));
        tag.events_share = tag.known("events", events);
        let processor = measured.processor.clone().map(|shares| {
            let others = Estimate::exact(shares.others.unwrap_or_default());
            let events = tag.events_share.unwrap_or_default();
            shares.of_pipeline().plus(others).plus(events)
        });
        tag.processor_share = tag.known("processor", processor);
        let storage = match measured.is_recorded {
            true => Err("it records all frames, and their size is not known before".to_owned()),
            false => a_day(storage),
        };
        tag.storage_bytes_a_day = tag.known("storage", storage);
        tag.uplink_bytes_a_day = tag.known("uplink", a_day(uplink));
        let model = measured.opinions_a_day.clone().and_then(|opinions| {
            let usd = measured.opinion_usd.clone()?;
            Ok(opinions.scaled(usd * MONTH_DAYS))
        });
        tag.model_usd_a_month = tag.known("model", model);
        tag
    }

    /// The processor share, and which of its pieces are missing.
    fn processor(&self) -> Option<String> {
        let (share, shares) = (self.processor_share?, self.shares?);
        let percent = share.text(|share| format!("{:.1}", share * 100.0));
        let mut text = format!("{percent} % of a core");
        if self.events_share.is_none() {
            text.push_str(" without the pictures of events");
            if let Some(why) = self.unknown.get("events") {
                text.push_str(&format!(" ({why})"));
            }
        }
        if shares.wanted_fps * (1.0 - EXACT) > shares.looked_fps {
            let (looked, wanted) = (shares.looked_fps, shares.wanted_fps);
            text.push_str(&format!(
                " (this load leaves it {looked:.1} of {wanted:.1} frames a second)"
            ));
        }
        Some(match shares.others {
            Some(0.0) => format!("{text} (another watch decodes the camera already)"),
            Some(_) => text,
            None => {
                format!("at least {text} (decoding is not known: this watch, or others, ran)")
            }
        })
    }

    fn known(&mut self, name: &str, value: Result<Estimate, String>) -> Option<Estimate> {
        let is_number = |of: &Estimate| of.likely >= 0.0 && of.high.is_finite();
        let value = value.and_then(|value| {
            let value = Some(value).filter(is_number);
            value.ok_or_else(|| "the measurement is not a number".to_owned())
        });
        value
            .map_err(|why| self.unknown.insert(name.to_owned(), why))
            .ok()
    }

    /// The price in one line.
    pub fn sentence(&self) -> String {
        let a_day = |bytes: Option<Estimate>| Some(format!("{} a day", bytes?.text(in_bytes)));
        let model = |usd: Estimate| usd.text(|usd| format!("${usd:.2}"));
        let parts = [
            ("processor", self.processor()),
            ("storage", a_day(self.storage_bytes_a_day)),
            ("uplink", a_day(self.uplink_bytes_a_day)),
            (
                "model",
                self.model_usd_a_month
                    .map(|usd| format!("{} a month", model(usd))),
            ),
        ];
        let mut known = Vec::new();
        let mut unknown: Vec<(&str, Vec<&str>)> = Vec::new();
        for (name, value) in parts {
            let why = self
                .unknown
                .get(name)
                .map_or("not measured", String::as_str);
            match (value, unknown.iter_mut().find(|(same, _)| *same == why)) {
                (Some(value), _) => known.push(format!("{name} {value}")),
                (None, Some((_, names))) => names.push(name),
                (None, None) => unknown.push((why, vec![name])),
            }
        }
        known.extend(
            unknown
                .iter()
                .map(|(why, names)| format!("{} unknown ({why})", names.join(" and "))),
        );
        known.join(", ")
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
    let (mut clean, mut annotated) = (Vec::new(), Vec::new());
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
                MediaKind::Clean => clean.push(picture.bytes as f64),
                MediaKind::Annotated => annotated.push(picture.bytes as f64),
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
        clean: mean(&clean).unwrap_or_default(),
        annotated: mean(&annotated),
        clip_second: (clip_s > 0.0).then(|| clip_bytes as f64 / clip_s),
    })
}

/// The mean; `None` of nothing.
fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
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
    mean(&costs).ok_or_else(|| "no second opinion was answered yet".to_owned())
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
        ProcessorShares {
            pipeline,
            others,
            looked_fps: 10.0,
            wanted_fps: 10.0,
        }
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
            events_a_day: Ok(Estimate::exact(20.0)),
            opinions_a_day: Ok(Estimate::exact(2.0)),
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

    fn sentence(measured: Measured) -> String {
        PriceTag::new(&measured).sentence()
    }

    #[test]
    fn price_is_one_line() {
        let tag = PriceTag::new(&measured());
        assert_eq!(
            tag.sentence(),
            "processor 8.0 % of a core, storage 33.1 MB a day, uplink 60 kB a day, model \
             $0.24 a month"
        );
        assert!(tag.unknown.is_empty());
    }

    #[test]
    fn decoding_is_named_where_it_is_shared_or_not_known() {
        let with = |others| {
            sentence(Measured {
                processor: Ok(shares(0.06, others)),
                ..measured()
            })
        };
        let shared = with(Some(0.0));
        let text = "processor 6.0 % of a core (another watch decodes the camera already),";
        assert!(shared.starts_with(text), "{shared}");
        let unknown = with(None);
        let text = "processor at least 6.0 % of a core (decoding is not known";
        assert!(unknown.starts_with(text), "{unknown}");
    }

    #[test]
    fn share_of_a_network_that_misses_frames_is_a_range() {
        let text = sentence(Measured {
            processor: Ok(ProcessorShares {
                wanted_fps: 25.0,
                ..shares(0.4, Some(0.02))
            }),
            ..measured()
        });
        let begin = "processor 42.0 to 102.0 % of a core (this load leaves it 10.0 of 25.0 frames";
        assert!(text.starts_with(begin), "{text}");
    }

    #[test]
    fn numbers_of_few_events_are_ranges() {
        let two = Estimate {
            likely: 20.0,
            low: 10.0,
            high: 40.0,
        };
        let few = sentence(Measured {
            events_a_day: Ok(two),
            opinions_a_day: Ok(two.scaled(0.1)),
            ..measured()
        });
        assert_eq!(
            few,
            "processor 8.0 % of a core, storage 16.5 MB to 66.1 MB a day, uplink 30 kB to 0.1 MB a \
             day, model $0.12 to $0.48 a month"
        );
        let busy = sentence(Measured {
            events_a_day: Ok(two.scaled(4_320.0)),
            clip_s: 0.0,
            ..measured()
        });
        let text = "processor 13.0 to 28.0 % of a core";
        assert!(busy.starts_with(text), "{busy}");
    }

    #[test]
    fn interval_of_a_count_holds_its_mean_and_narrows() {
        let ends = |n| {
            let Estimate { low, high, .. } = Estimate::of_events(n);
            [low, high].map(|end| end.round())
        };
        assert_eq!(
            [0, 3, 30, 300].map(ends),
            [[0.0, 4.0], [1.0, 9.0], [20.0, 43.0], [267.0, 336.0]]
        );
        let text = |n| Estimate::of_events(n).text(|number| format!("{number:.0}"));
        assert_eq!([3, 30, 300].map(text), ["1 to 9", "20 to 43", "300"]);
    }

    #[test]
    fn processor_share_has_pictures_and_clips_of_events() {
        let of = |clip_s, event_times| {
            PriceTag::new(&Measured {
                // Every ten seconds.
                events_a_day: Ok(Estimate::exact(8_640.0)),
                clip_s,
                event_times,
                ..measured()
            })
        };
        let times = measured().event_times;
        for (clip_s, text) in [(0.0, "processor 9.0 % of"), (15.0, "processor 13.0 % of")] {
            let sentence = of(clip_s, times).sentence();
            assert!(sentence.starts_with(text), "{sentence}");
        }
        let no_clip = EventTimes { clips: 0, ..times };
        for (clip_s, times, what) in [
            (0.0, EventTimes::default(), "no event"),
            (15.0, no_clip, "no clip"),
        ] {
            let tag = of(clip_s, times);
            let sentence = tag.sentence();
            let text = "processor 8.0 % of a core without the pictures of events (";
            assert!(sentence.starts_with(&format!("{text}{what}")), "{sentence}");
            assert!(tag.unknown["events"].starts_with(what), "{tag:?}");
        }
        assert_eq!(of(0.0, no_clip).events_share, Some(Estimate::exact(0.01)));
    }

    #[test]
    fn number_that_is_not_measured_is_unknown_with_its_reason() {
        let nothing = |why: &str| Err(why.to_owned());
        let text = sentence(Measured {
            event: Err("no event of this camera was kept yet".to_owned()),
            opinion_usd: Err("no second opinion was answered yet".to_owned()),
            processor: Err("not tried".to_owned()),
            ..measured()
        });
        assert_eq!(
            text,
            "processor unknown (not tried), storage and uplink unknown (no event of this camera \
             was kept yet), model unknown (no second opinion was answered yet)"
        );
        // The next day may have events although the replayed hours had none.
        let quiet = sentence(Measured {
            events_a_day: Ok(Estimate::of_events(0)),
            opinions_a_day: Ok(Estimate::of_events(0)),
            ..measured()
        });
        let text = "storage 0 B to 6.5 MB a day, uplink 0 B to 12 kB a day, model $0.00 to $0.47 a";
        assert!(quiet.contains(text), "{quiet}");
        let unplayed = PriceTag::new(&Measured {
            events_a_day: nothing("it was not replayed"),
            opinions_a_day: nothing("it was not replayed"),
            ..measured()
        });
        assert_eq!(unplayed.model_usd_a_month, None);
        assert_eq!(unplayed.unknown["model"], "it was not replayed");
        let without = PriceTag::new(&Measured {
            events_a_day: nothing("it was not replayed"),
            opinions_a_day: Ok(Estimate::default()),
            ..measured()
        });
        assert_eq!(without.model_usd_a_month, Some(Estimate::default()));
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
            events in 0u64..100_000, more in 0u64..100_000, records in 1.0f64..1e5,
            pictures in 0.0f64..1e7, clip_second in proptest::option::of(0.0f64..1e6),
            clip_s in 0.0f64..120.0, usd in 0.0f64..1.0,
        ) {
            let of = |events: u64| PriceTag::new(&Measured {
                events_a_day: Ok(Estimate::of_events(events)),
                opinions_a_day: Ok(Estimate::of_events(events)),
                event: Ok(EventBytes { records, clean: pictures, annotated: None, clip_second }),
                clip_s,
                opinion_usd: Ok(usd),
                ..measured()
            });
            let (less, most) = (of(events), of(events + more));
            let ends = |of: Option<Estimate>| of.map(|of| [of.low, of.likely, of.high]);
            for (less, most) in [
                (less.processor_share, most.processor_share),
                (less.storage_bytes_a_day, most.storage_bytes_a_day),
                (less.uplink_bytes_a_day, most.uplink_bytes_a_day),
                (less.model_usd_a_month, most.model_usd_a_month),
            ] {
                let Some(([low, likely, high], more)) = ends(less).zip(ends(most)) else {
                    prop_assert!(clip_s > 0.0 && clip_second.is_none());
                    continue;
                };
                prop_assert!(low <= likely && likely <= high);
                prop_assert!(low <= more[0] && likely <= more[1] && high <= more[2]);
            }
            let uplink = less.uplink_bytes_a_day.map(|of| of.likely);
            prop_assert_eq!(uplink, Some(records * events as f64));
        }

        /// Every number is either there or has a reason.
        #[test]
        fn every_number_is_there_or_has_a_reason(
            share in any::<f64>(), events in any::<f64>(),
            records in any::<f64>(), usd in any::<f64>(),
        ) {
            let tag = PriceTag::new(&Measured {
                processor: Ok(shares(share, (share > 1.0).then_some(usd))),
                events_a_day: Ok(Estimate::exact(events)),
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
                prop_assert!(number.is_none_or(|n| n.likely >= 0.0 && n.high.is_finite()));
            }
        }

        #[test]
        fn processor_share_is_time_at_work(
            frames in 2u32..5_000, ms in 0.1f64..200.0, fps in 1.0f64..60.0,
            others in proptest::option::of(0.0f64..1.0), missed in 0.0f64..10.0,
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
                wanted_fps: fps * (1.0 + missed),
                ..DryRunReport::default()
            };
            let shares = ProcessorShares::from_report(&report).unwrap();
            let is_near = |a: f64, b: f64| (a - b).abs() < 1e-9 * a.max(1.0);
            prop_assert!(is_near(shares.pipeline, ms * fps / 1e3));
            prop_assert!(is_near(shares.of_pipeline().high, shares.pipeline * (1.0 + missed)));
            prop_assert_eq!(shares.others.is_some(), others.is_some());
            prop_assert!(shares.others.zip(others).is_none_or(|(a, b)| is_near(a, b)));
        }
    }
}
