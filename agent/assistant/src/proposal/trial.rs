//! Trial of a proposal: its rules run on some seconds of the camera, and remarks on the result.
//!
//! Invariants:
//! - Pure; the numbers are the runtime's.
//! - A proposal is never refused for what a trial saw: a quiet scene proves nothing.
//! - If a step failed or the trial ended early, the only remark is that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::{LineCount, PipelineSpec, StepError};
use watchkeeper_contract::rule::{Condition, CountBound, RuleSpec};
use watchkeeper_contract::workflow::DryRunReport;

use super::backtest::BacktestSummary;
use super::describe::all_steps;
use super::price::{PriceTag, ProcessorShares};
use crate::wording::{counted, duration};

/// Events of one rule in a trial from which a remark warns of too many.
const MIN_NOISY_EVENTS: u64 = 5;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    pub pipeline: PipelineId,
    pub camera: SourceId,
    /// File with the lines and zones drawn on a frame; `None` if it could not be drawn or stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
    /// Statistics; `None` if the trial did not run.
    #[serde(rename = "seen", default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<TrialStats>,
    /// Events that it would have reported in the last hours; `None` if it was not replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backtest: Option<BacktestSummary>,
    /// Why it was not replayed on the last hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_replayed: Option<String>,
    /// Price of the pipeline; `None` if the runtime did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceTag>,
    /// Remarks to read before a confirmation, one sentence each.
    #[serde(rename = "mind", default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Note that the scene was quiet, which proves nothing and is not a remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<String>,
    /// Why the trial did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_tried: Option<String>,
}

/// Frames, tracks and events of a pipeline in a trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TrialStats {
    /// Seconds of source time.
    pub seconds: f64,
    pub frames: u64,
    /// Number of tracks; `None`: the workflow has no tracker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracks: Option<u64>,
    pub lines: BTreeMap<String, LineCount>,
    pub zones: BTreeMap<String, ZoneStats>,
    /// Number of events by rule, also rules without any.
    pub events: BTreeMap<String, u64>,
    /// Further events, of rules that a trial does not list.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_events: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, StepError>,
    /// Why the trial ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Shares of one processor core that it kept busy; `None` if no frame was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<ProcessorShares>,
}

/// Signature as required by serde.
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ZoneStats {
    pub visits: u64,
    /// Objects in the zone at the end.
    pub present: u32,
}

impl TrialResult {
    /// Creates a result without statistics.
    pub fn new(spec: &PipelineSpec) -> Self {
        Self {
            pipeline: spec.id.clone(),
            camera: spec.source.clone(),
            picture: None,
            stats: None,
            backtest: None,
            not_replayed: None,
            price: None,
            remarks: Vec::new(),
            quiet: None,
            not_tried: None,
        }
    }

    /// Returns lines of text for the user.
    pub fn lines(&self) -> Vec<String> {
        let camera = &self.camera;
        let picture = self.picture.iter();
        let drawn = picture.map(|file| format!("preview of {camera}: {file}"));
        let tried = self.stats.iter();
        let tried = tried.map(|seen| format!("tried on {camera} for {}", seen.sentence()));
        let remarks = self.remarks.iter().chain(&self.quiet);
        let remarks = remarks.map(|sentence| format!("note: {sentence}"));
        let is_one_cause = self.not_tried.is_some() && self.not_tried == self.not_replayed;
        let not_tried = self.not_tried.iter();
        let not_tried = not_tried.map(|why| match is_one_cause {
            true => format!("neither tried nor replayed on {camera}: {why}"),
            false => format!("not tried on {camera}: {why}"),
        });
        let replayed = self.backtest.iter();
        let replayed = replayed.map(|b| format!("replayed on {camera}, {}", b.sentence()));
        let events = self.backtest.iter().flat_map(|b| &b.pictures);
        let events = events.map(|file| format!("pictures of these events: {file}"));
        let not_replayed = self.not_replayed.iter().filter(|_| !is_one_cause);
        let not_replayed =
            not_replayed.map(|why| format!("not replayed on the last hours of {camera}: {why}"));
        // A price is computed from these; without both it is unknown.
        let is_unseen = self.stats.is_none() && self.backtest.is_none();
        let price = self.price.iter().filter(|_| !is_unseen);
        let price = price.map(|price| format!("price on {camera}: {}", price.sentence()));
        let limits = self.backtest.iter().flat_map(|b| &b.limits);
        let limits = limits.map(|limit| format!("note: {limit}"));
        drawn
            .chain(tried)
            .chain(replayed)
            .chain(events)
            .chain(not_replayed)
            .chain(limits)
            .chain(price)
            .chain(remarks)
            .chain(not_tried)
            .collect()
    }
}

impl TrialStats {
    pub fn from_report(report: &DryRunReport, workflow: &Value) -> Self {
        let results = &report.results;
        let is_tracker = |step: &&Value| step["type"].as_str().unwrap_or("").contains("tracker");
        let has_tracker = all_steps(workflow).iter().any(is_tracker);
        // Rules without events are listed, because the user wants to know that they stayed silent.
        let mut events: BTreeMap<String, u64> =
            report.rules.iter().map(|name| (name.clone(), 0)).collect();
        for event in &report.events {
            *events.entry(event.event.rule.clone()).or_default() += 1;
        }
        let zones = results.zones.iter().map(|(name, zone)| {
            let zone = ZoneStats {
                visits: zone.count,
                present: zone.present,
            };
            (name.clone(), zone)
        });
        Self {
            seconds: (results.source_s * 10.0).round() / 10.0,
            frames: results.frames,
            tracks: has_tracker.then_some(results.tracks),
            lines: results.lines.clone(),
            zones: zones.collect(),
            events,
            more_events: report.more_events,
            failures: results.step_errors.clone(),
            ended: report.ended.clone(),
            processor: ProcessorShares::from_report(report),
        }
    }

    /// Summarises the statistics in a sentence.
    pub fn sentence(&self) -> String {
        self.parts().join("; ")
    }

    pub fn parts(&self) -> Vec<String> {
        let frames = counted(self.frames, "frame");
        let tracks = self.tracks;
        let tracks = tracks.map_or_else(|| "no tracker".to_owned(), |n| counted(n, "track"));
        let mut parts = vec![format!("{:.0} s: {frames}, {tracks}", self.seconds)];
        let lines = self.lines.iter();
        parts.extend(lines.map(|(name, c)| format!("{name} {} in, {} out", c.r#in, c.out)));
        parts.extend(self.zones.iter().map(|(name, zone)| {
            let visits = counted(zone.visits, "visit");
            format!("{name} {visits}, {} inside at the end", zone.present)
        }));
        let fired = self.events.iter().filter(|(_, times)| **times > 0);
        let prefix = self.count_prefix();
        let fired: Vec<String> = fired
            .map(|(rule, n)| format!("{rule} {prefix}{n}"))
            .collect();
        let listed: u64 = self.events.values().sum();
        let number = counted(listed + self.more_events, "event");
        parts.push(match fired.as_slice() {
            [] if self.events.is_empty() => "no rules".to_owned(),
            [] => number,
            fired => format!("{number} ({})", fired.join(", ")),
        });
        parts.extend(self.failure_sentences());
        parts.extend(self.ended.iter().cloned());
        parts
    }

    /// One sentence for each step that failed.
    pub(crate) fn failure_sentences(&self) -> Vec<String> {
        let failures = self.failures.iter().map(|(step, failed)| {
            let times = counted(failed.count, "time");
            format!("step {step} failed {times}: {}", failed.message)
        });
        failures.collect()
    }

    /// Returns the most important remark on the result, if any.
    pub fn remark(&self, spec: &PipelineSpec) -> Option<String> {
        if let Some(why) = self.inconclusive_reason() {
            return Some(format!("the trial is inconclusive: {why}"));
        }
        let mut rules = spec.rules.iter().flatten();
        rules.find_map(|rule| self.remark_on_rule(rule))
    }

    /// Whether a zone never was as empty as a rule expects: somebody may just have passed.
    pub fn contradicts(&self, spec: &PipelineSpec) -> bool {
        let mut rules = spec.rules.iter().flatten();
        self.inconclusive_reason().is_none() && rules.any(|rule| self.never_fell(rule))
    }

    fn never_fell(&self, rule: &RuleSpec) -> bool {
        matches!(self.zone_count(rule), Some((_, present, CountBound::Under(bound)))
            if present >= bound && !self.may_have_fired(rule))
    }

    /// The zone of a rule on a count, the objects in it at the end, and the bound. Outside its
    /// schedule the rule is silent, so there is none for a rule with a schedule.
    fn zone_count(&self, rule: &RuleSpec) -> Option<(&str, u32, CountBound)> {
        let Condition::Count {
            detections, bound, ..
        } = &rule.when
        else {
            return None;
        };
        let (zone, seen) = self.zone(detections).filter(|_| rule.schedule.is_none())?;
        Some((zone, seen.present, *bound))
    }

    /// Whether the rule made an event, as far as is known: unlisted events may be of any rule.
    fn may_have_fired(&self, rule: &RuleSpec) -> bool {
        self.events
            .get(&rule.name)
            .is_some_and(|events| *events > 0)
            || self.more_events > 0
    }

    /// Returns why the result allows no remark: a zone also looks empty if its detector failed.
    fn inconclusive_reason(&self) -> Option<String> {
        if let Some((step, failed)) = self.failures.first_key_value() {
            let times = counted(failed.count, "time");
            return Some(format!("step {step} failed {times}"));
        }
        let why = self.ended.as_ref()?;
        Some(format!("it ended after {:.0} s: {why}", self.seconds))
    }

    /// Prefix of the number of events of one rule, if some events were not listed.
    const fn count_prefix(&self) -> &'static str {
        match self.more_events {
            0 => "",
            _ => "at least ",
        }
    }

    fn remark_on_rule(&self, rule: &RuleSpec) -> Option<String> {
        let events = self.events.get(&rule.name).copied().unwrap_or_default();
        if let Some((zone, present, bound)) = self.zone_count(rule) {
            let then = match rule.when {
                Condition::Count { for_s, .. } if for_s > 0.0 && !self.may_have_fired(rule) => {
                    format!("after {}", duration(for_s))
                }
                _ => "at once".to_owned(),
            };
            return match bound {
                CountBound::Under(1) if present == 0 => {
                    Some(format!("{zone} is empty now, so the event comes {then}"))
                }
                CountBound::Under(bound) if present < bound => Some(format!(
                    "there are fewer than {bound} in {zone} now ({present}), so the event comes {then}"
                )),
                // The condition held and ended again.
                CountBound::Under(_) if !self.never_fell(rule) => None,
                CountBound::Under(1) => Some(format!(
                    "{zone} was never empty for long enough ({present} inside at the end): if it is empty now, the zone is in the wrong place"
                )),
                CountBound::Under(bound) => Some(format!(
                    "there were never fewer than {bound} in {zone} for long enough ({present} at the end): if there are fewer now, the zone is in the wrong place"
                )),
                CountBound::Over(bound) if present > bound => Some(format!(
                    "there are more than {bound} in {zone} now ({present}), so the event comes {then}"
                )),
                CountBound::Over(_) => None,
            };
        }
        (events >= MIN_NOISY_EVENTS).then(|| {
            let rule = &rule.name;
            format!(
                "{rule} made {}{events} events in {:.0} s, which may be more than you want",
                self.count_prefix(),
                self.seconds
            )
        })
    }

    /// Returns the zone that yields these detections.
    fn zone(&self, detections: &str) -> Option<(&str, ZoneStats)> {
        let step = detections.strip_prefix("$steps.")?.split('.').next()?;
        let (name, zone) = self.zones.get_key_value(step)?;
        Some((name, *zone))
    }

    /// Returns the remark that the scene was quiet; `None` if it was not, or if there is a remark
    /// on the result.
    pub fn quiet(&self, spec: &PipelineSpec) -> Option<String> {
        let has_happened = self.more_events > 0 || self.events.values().any(|times| *times > 0);
        if has_happened || self.frames == 0 || self.remark(spec).is_some() {
            return None;
        }
        let tracks = self.tracks?;
        if tracks == 0 {
            let seconds = self.seconds;
            return Some(format!(
                "nothing matching was seen during the {seconds:.0}-second trial"
            ));
        }
        let is_unused = |zone: &ZoneStats| zone.visits == 0 && zone.present == 0;
        let is_quiet = !self.zones.is_empty() && self.zones.values().all(is_unused);
        is_quiet.then(|| {
            let zones: Vec<&str> = self.zones.keys().map(String::as_str).collect();
            format!(
                "{} during the trial, none in {}",
                counted(tracks, "track"),
                zones.join(" or ")
            )
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
