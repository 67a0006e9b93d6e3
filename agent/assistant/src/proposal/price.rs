//! Price of a watch: its share of the processor, the disk, the network and the budget.
//!
//! - Pure; every number is computed from measured ones ([`Measured`]) by the formulas of
//!   `docs/ref/price.md`, which has the units too.
//! - A number that cannot be known is absent, with its reason in [`PriceTag::unknown`]. One that
//!   may be off by more than a fifth is shown as a range.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use watchkeeper_contract::assessment::Assessor;
use watchkeeper_contract::backtest::BacktestEvent;
use watchkeeper_contract::event::{ClipState, Event, EventBody, MediaKind, Phase};
use watchkeeper_contract::health::EventTimes;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::model::BackendChange;
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

    /// Range of the number of events that chance alone allows in as many hours: 95 % of a Poisson
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

/// Input of a price; an error is the reason why a number is missing.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Shares of a processor that the trial took.
    pub processor: Result<ProcessorShares, String>,
    /// Processor time that the events of all watches have used so far.
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
    /// Decoding. 0 where another pipeline takes the frames of the camera anyway. `None` where
    /// pipelines ran on other cameras only, or only the one that this one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// Frames a second that it looked at, and that it wanted.
    pub looked_fps: f64,
    pub wanted_fps: f64,
    /// Whether another back end may soon run the network, and take less.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_changing: bool,
}

impl ProcessorShares {
    /// The shares in a trial; `None` if no frame was measured.
    pub fn from_report(report: &DryRunReport) -> Option<Self> {
        let results = &report.results;
        // The first frame begins the time, the others fill it.
        let looked_fps = results.frames.saturating_sub(1) as f64 / results.source_s;
        let shares = Self {
            pipeline: results.processor_s / results.frames as f64 * looked_fps,
            others: report.others_s.map(|spent| spent / results.source_s),
            looked_fps,
            wanted_fps: report.wanted_fps.max(looked_fps),
            is_changing: report
                .backend_changes
                .iter()
                .any(BackendChange::is_in_progress),
        };
        (results.source_s > 0.0 && results.processor_s > 0.0).then_some(shares)
    }

    /// From the share at the rate of the trial to that at the wanted rate; from nothing while the
    /// back end changes.
    fn of_pipeline(&self) -> Estimate {
        let low = if self.is_changing { 0.0 } else { self.pipeline };
        Estimate {
            low,
            likely: self.pipeline,
            high: self.pipeline * self.wanted_fps / self.looked_fps,
        }
    }
}

/// Mean bytes of earlier events of a camera.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EventBytes {
    /// All records of one event, as JSON.
    pub records: f64,
    /// Its picture as it came; 0 if none was kept.
    pub clean: f64,
    /// Its picture with drawings; absent if none was kept.
    pub annotated: Option<f64>,
    /// One second of a clip; absent if none was kept.
    pub clip_second: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PriceTag {
    /// Share of one processor core, 1 is a whole one: all pieces that are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_share: Option<Estimate>,
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
        tag.events_share = tag.check_estimate("events", events);
        let processor = measured.processor.clone().map(|shares| {
            let others = Estimate::exact(shares.others.unwrap_or_default());
            let events = tag.events_share.unwrap_or_default();
            shares.of_pipeline().plus(others).plus(events)
        });
        tag.processor_share = tag.check_estimate("processor", processor);
        let storage = match measured.is_recorded {
            true => Err("it records all frames, and their size is not known before".to_owned()),
            false => a_day(storage),
        };
        tag.storage_bytes_a_day = tag.check_estimate("storage", storage);
        tag.uplink_bytes_a_day = tag.check_estimate("uplink", a_day(uplink));
        let model = measured.opinions_a_day.clone().and_then(|opinions| {
            let usd = measured.opinion_usd.clone()?;
            Ok(opinions.scaled(usd * MONTH_DAYS))
        });
        tag.model_usd_a_month = tag.check_estimate("model", model);
        tag
    }

    /// The processor share, and which of its pieces are missing.
    fn processor(&self) -> Option<String> {
        let (share, shares) = (self.processor_share?, self.shares?);
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        let is_missing = shares.wanted_fps * (1.0 - EXACT) > shares.looked_fps;
        let number = match is_missing {
            true => percent(share.likely),
            false => share.text(percent),
        };
        let mut text = match shares.others {
            _ if shares.is_changing && !is_missing => format!("up to {}", percent(share.high)),
            Some(_) => number,
            None => format!("at least {number}"),
        };
        text.push_str(" % of a core");
        let is_decoding_known = shares.others.is_some();
        if !is_decoding_known {
            text.push_str(" without decoding (other work ran meanwhile)");
        }
        if self.events_share.is_none() {
            let and = if is_decoding_known { "" } else { " and" };
            text.push_str(&format!("{and} without the pictures of events"));
            // Storage and uplink lack the same number of events, with the same reason.
            let why = self.unknown.get("events");
            if let Some(why) = why.filter(|why| self.unknown.get("uplink") != Some(why)) {
                text.push_str(&format!(" ({why})"));
            }
        }
        if is_missing {
            let (looked, wanted) = (shares.looked_fps, shares.wanted_fps);
            text.push_str(&format!(
                " (this load leaves it {looked:.1} of {wanted:.1} frames a second; all of them \
                 would take up to {} %)",
                percent(share.high)
            ));
        }
        if shares.is_changing {
            text.push_str(" (less once a faster back end runs the model)");
        }
        if shares.others == Some(0.0) {
            text.push_str(" (another watch decodes the camera already)");
        }
        Some(text)
    }

    fn check_estimate(&mut self, name: &str, value: Result<Estimate, String>) -> Option<Estimate> {
        let is_number = |of: &Estimate| of.likely >= 0.0 && of.high.is_finite();
        let value = value.and_then(|value| {
            let value = Some(value).filter(is_number);
            value.ok_or_else(|| "the measurement is not a number".to_owned())
        });
        value
            .map_err(|why| self.unknown.insert(name.to_owned(), why))
            .ok()
    }

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
/// have the cost of one without an answer.
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
mod tests;
