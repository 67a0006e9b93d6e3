//! What came of trying a proposal of the rules before it is put up: what its camera brought in some seconds, and what of it speaks against the request.
//!
//! Invariants: pure; the numbers are the box's own. That little was seen is told and proves nothing: a proposal is never refused for what was seen. What
//! could not be looked at is not judged: where a step failed that a rule, a zone or a line depends on, or the trial ended early, that is said and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::{LineCount, PipelineSpec, StepError};
use watchkeeper_contract::rule::{Condition, CountBound, RuleSpec};
use watchkeeper_contract::workflow::DryRunReport;

use crate::wording::counted;

/// Events of one rule in a trial from which on they are too many to go without a word.
const MANY: u64 = 5;

/// A pipeline of a proposal that was tried, or was not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Which.
    pub pipeline: PipelineId,
    /// Its camera.
    pub camera: SourceId,
    /// The file in which its lines and zones are drawn on the camera's picture; absent where it could not be drawn or kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
    /// What was seen; absent where it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<TrialStats>,
    /// What should be known before a yes, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mind: Vec<String>,
    /// Why it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_tried: Option<String>,
}

/// Some seconds of a camera, as a pipeline saw them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TrialStats {
    /// Seconds of the camera's time.
    pub seconds: f64,
    /// Pictures in them.
    pub frames: u64,
    /// Different things that were followed.
    pub tracks: u64,
    /// Crossings by line.
    pub lines: BTreeMap<String, LineCount>,
    /// Zones.
    pub zones: BTreeMap<String, ZoneStats>,
    /// Events that there would have been, by rule.
    pub events: BTreeMap<String, u64>,
    /// Events beyond those that a trial lists, of rules that are not told.
    #[serde(default, skip_serializing_if = "is_none")]
    pub more_events: u64,
    /// Steps that failed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, StepError>,
    /// Why it ended before the seconds were over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// As serde asks it.
const fn is_none(number: &u64) -> bool {
    *number == 0
}

/// A zone in a [`TrialStats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ZoneStats {
    /// Visits.
    pub visits: u64,
    /// How many were in it at the end.
    pub present: u32,
}

/// A word about what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrialRemark {
    /// It speaks against the request, unless it was only for a moment: worth a second look.
    Against(String),
    /// Worth knowing.
    Mind(String),
}

impl TrialRemark {
    /// The sentence.
    #[must_use]
    pub fn sentence(&self) -> &str {
        match self {
            Self::Against(sentence) | Self::Mind(sentence) => sentence,
        }
    }
}

impl TrialResult {
    /// One of which nothing is known yet.
    #[must_use]
    pub fn new(spec: &PipelineSpec) -> Self {
        Self {
            pipeline: spec.id.clone(),
            camera: spec.source.clone(),
            picture: None,
            seen: None,
            mind: Vec::new(),
            not_tried: None,
        }
    }

    /// All of it for a person.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let camera = &self.camera;
        let picture = self.picture.iter();
        let drawn = picture.map(|file| format!("drawn on the picture of {camera}: {file}"));
        let tried = self.seen.iter();
        let tried = tried.map(|seen| format!("tried on {camera}: {}", seen.sentence()));
        let mind = self.mind.iter().map(|sentence| format!("mind: {sentence}"));
        let not_tried = self.not_tried.iter();
        let not_tried = not_tried.map(|why| format!("not tried on {camera}: {why}"));
        drawn.chain(tried).chain(mind).chain(not_tried).collect()
    }
}

impl TrialStats {
    /// What of a dry run is told.
    #[must_use]
    pub fn of(report: &DryRunReport) -> Self {
        let results = &report.results;
        // A rule without events is told too: that it did not tell is what a person wants to know.
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
            tracks: results.tracks,
            lines: results.lines.clone(),
            zones: zones.collect(),
            events,
            more_events: report.more_events,
            failures: results.step_errors.clone(),
            ended: report.ended.clone(),
        }
    }

    /// It in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let mut parts = vec![
            format!("{:.0} s", self.seconds),
            counted(self.frames, "picture"),
            counted(self.tracks, "track"),
        ];
        let lines = self.lines.iter();
        parts.extend(lines.map(|(name, c)| format!("{name} {} in and {} out", c.r#in, c.out)));
        parts.extend(self.zones.iter().map(|(name, zone)| {
            let visits = counted(zone.visits, "visit");
            format!("{name} {visits} and {} in it at the end", zone.present)
        }));
        let told = self.events.iter().filter(|(_, times)| **times > 0);
        let least = self.least();
        let told: Vec<String> = told.map(|(rule, n)| format!("{rule} {least}{n}")).collect();
        let listed: u64 = self.events.values().sum();
        let number = counted(listed + self.more_events, "event");
        parts.push(match told.as_slice() {
            [] if self.events.is_empty() => "no rule that tells".to_owned(),
            [] => number,
            told => format!("{number} ({})", told.join(", ")),
        });
        parts.extend(self.failures.iter().map(|(step, failed)| {
            let times = counted(failed.count, "time");
            format!("step {step} failed {times}: {}", failed.message)
        }));
        parts.extend(self.ended.iter().cloned());
        parts.join(", ")
    }

    /// Where what was seen speaks against what this pipeline is for, or is worth a word: one sentence.
    #[must_use]
    pub fn word(&self, spec: &PipelineSpec) -> Option<TrialRemark> {
        let rules = spec.rules.as_deref().unwrap_or_default();
        if let Some(why) = self.unjudged(rules, &spec.workflow) {
            let sentence = format!("it could not be judged what this will tell: {why}");
            return Some(TrialRemark::Mind(sentence));
        }
        let of_rule = rules.iter().find_map(|rule| self.word_about(rule));
        of_rule.or_else(|| self.quiet().map(TrialRemark::Mind))
    }

    /// Why nothing follows from what was seen: a zone is empty, too, where nobody could look into it.
    fn unjudged(&self, rules: &[RuleSpec], workflow: &Value) -> Option<String> {
        let asked = rules.iter().filter_map(|rule| step_of(&rule.when));
        let places = self.zones.keys().chain(self.lines.keys());
        let needed = needed(workflow, asked.chain(places.map(String::as_str)));
        let broken = self
            .failures
            .iter()
            .find(|(step, _)| needed.contains(step.as_str()));
        if let Some((step, failed)) = broken {
            let times = counted(failed.count, "time");
            return Some(format!("step {step} failed {times}"));
        }
        let why = self.ended.as_ref()?;
        Some(format!("it ended after {:.0} s, as {why}", self.seconds))
    }

    /// What stands before a number of events of one rule where not all of them were listed.
    const fn least(&self) -> &'static str {
        match self.more_events {
            0 => "",
            _ => "at least ",
        }
    }

    fn word_about(&self, rule: &RuleSpec) -> Option<TrialRemark> {
        let events = self.events.get(&rule.name).copied().unwrap_or_default();
        // Those that were not listed may be of any rule.
        let may_have_told = events > 0 || self.more_events > 0;
        if let Condition::Count {
            detections,
            bound,
            for_s,
        } = &rule.when
            // Outside its hours it says nothing, whatever is there.
            && rule.schedule.is_none()
            && let Some((zone, seen)) = self.zone(detections)
        {
            let present = seen.present;
            let then = match *for_s {
                hold if may_have_told || hold <= 0.0 => "at once".to_owned(),
                hold => format!("once it was so for {hold} s"),
            };
            return match *bound {
                CountBound::Under(1) if present == 0 => Some(TrialRemark::Mind(format!(
                    "{zone} is empty now, so this tells of it {then}"
                ))),
                CountBound::Under(bound) if present < bound => Some(TrialRemark::Mind(format!(
                    "there are fewer than {bound} in {zone} now ({present}), so this tells of it {then}"
                ))),
                // It became so and is over again.
                CountBound::Under(_) if may_have_told => None,
                CountBound::Under(1) => Some(TrialRemark::Against(format!(
                    "{zone} was never empty for long enough ({present} in it at the end): if it is free now, the place is another one"
                ))),
                CountBound::Under(bound) => Some(TrialRemark::Against(format!(
                    "there were never fewer than {bound} in {zone} for long enough ({present} at the end): if there are fewer now, the place is another one"
                ))),
                CountBound::Over(bound) if present > bound => Some(TrialRemark::Mind(format!(
                    "there are more than {bound} in {zone} now ({present}), so this tells of it {then}"
                ))),
                CountBound::Over(_) => None,
            };
        }
        (events >= MANY).then(|| {
            let rule = &rule.name;
            TrialRemark::Mind(format!(
                "{rule} would have told {}{events} times in {:.0} s, which may be more than you want",
                self.least(),
                self.seconds
            ))
        })
    }

    /// The zone whose detections these are.
    fn zone(&self, detections: &str) -> Option<(&str, ZoneStats)> {
        let step = step_in(detections)?;
        let (name, zone) = self.zones.get_key_value(step)?;
        Some((name, *zone))
    }

    /// What is told where nothing came of it.
    fn quiet(&self) -> Option<String> {
        let has_happened = self.more_events > 0 || self.events.values().any(|times| *times > 0);
        if has_happened || self.frames == 0 {
            return None;
        }
        if self.tracks == 0 {
            return Some(
                "nothing that it looks for was seen meanwhile, which proves nothing".to_owned(),
            );
        }
        let is_unused = |zone: &ZoneStats| zone.visits == 0 && zone.present == 0;
        let is_quiet = !self.zones.is_empty() && self.zones.values().all(is_unused);
        is_quiet.then(|| {
            let zones: Vec<&str> = self.zones.keys().map(String::as_str).collect();
            format!(
                "{} seen meanwhile, and none in {}",
                match self.tracks {
                    1 => "one was".to_owned(),
                    more => format!("{more} were"),
                },
                zones.join(" or ")
            )
        })
    }
}

/// The step at which a condition looks; none where it looks at an input.
fn step_of(condition: &Condition) -> Option<&str> {
    match condition {
        Condition::Appears { detections } | Condition::Count { detections, .. } => {
            step_in(detections)
        }
        Condition::Value { value, .. } => step_in(value),
        Condition::Enters { zone } | Condition::Leaves { zone } | Condition::Stays { zone, .. } => {
            Some(zone)
        }
        Condition::Crosses { line, .. } => Some(line),
    }
}

/// The step that a selector such as `$steps.bay.timed_detections` names.
fn step_in(selector: &str) -> Option<&str> {
    selector.strip_prefix("$steps.")?.split('.').next()
}

/// These steps and all that they depend on: what they read, and what decides whether they run.
fn needed<'w>(workflow: &'w Value, of: impl Iterator<Item = &'w str>) -> BTreeSet<&'w str> {
    let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for step in workflow["steps"].as_array().into_iter().flatten() {
        let Some(name) = step["name"].as_str() else {
            continue;
        };
        let mut texts = Vec::new();
        texts_in(step, &mut texts);
        for text in texts {
            match step_in(text) {
                // A step by itself is one to go on with; an output of one is read.
                Some(next) if text.matches('.').count() == 1 => {
                    before.entry(next).or_default().push(name);
                }
                Some(read) => before.entry(name).or_default().push(read),
                None => {}
            }
        }
    }
    let mut all = BTreeSet::new();
    let mut open: Vec<&str> = of.collect();
    while let Some(step) = open.pop() {
        if all.insert(step) {
            open.extend(before.get(step).into_iter().flatten());
        }
    }
    all
}

fn texts_in<'w>(value: &'w Value, texts: &mut Vec<&'w str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(values) => values.iter().for_each(|value| texts_in(value, texts)),
        Value::Object(fields) => fields.values().for_each(|value| texts_in(value, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(when: Value) -> RuleSpec {
        serde_json::from_value(json!({"name": "told", "when": when})).unwrap()
    }

    fn free() -> RuleSpec {
        rule(json!({
            "kind": "count", "detections": "$steps.bay.timed_detections", "bound": {"under": 1}, "for_s": 3.0,
        }))
    }

    /// Four seconds with a zone in which so many are.
    fn glance(present: u32, events: u64) -> TrialStats {
        let zone = ZoneStats {
            visits: u64::from(present),
            present,
        };
        TrialStats {
            seconds: 4.0,
            frames: 20,
            tracks: 2,
            zones: [("bay".to_owned(), zone)].into(),
            events: [("told".to_owned(), events)].into(),
            ..TrialStats::default()
        }
    }

    fn word(seen: &TrialStats, rule: RuleSpec) -> Option<TrialRemark> {
        let workflow = json!({"steps": [
            {"type": "detector", "name": "detect", "images": "$inputs.image"},
            {"type": "tracker", "name": "track", "detections": "$steps.detect.predictions"},
            {"type": "gate", "name": "gate", "condition": {"operand": "$steps.clock.output"}, "next_steps": ["$steps.bay"]},
            {"type": "clock", "name": "clock"},
            {"type": "zone", "name": "bay", "detections": "$steps.track.tracked_detections"},
            {"type": "drawing", "name": "draw", "predictions": "$steps.bay.timed_detections"},
        ]});
        let spec = json!({"id": "bay", "source": "park", "workflow": workflow, "rules": [rule]});
        let spec: PipelineSpec = serde_json::from_value(spec).unwrap();
        seen.word(&spec)
    }

    #[test]
    fn a_place_into_which_nobody_could_look_is_not_taken_for_an_empty_one() {
        let fault = StepError {
            count: 20,
            message: "no memory".to_owned(),
        };
        for (step, is_judged) in [
            ("detect", false),
            ("track", false),
            ("bay", false),
            ("gate", false),
            ("clock", false),
            ("draw", true),
        ] {
            let mut seen = glance(0, 0);
            seen.failures.insert(step.to_owned(), fault.clone());
            let said = word(&seen, free()).unwrap().sentence().to_owned();
            assert_eq!(said.contains("bay is empty now"), is_judged, "{said}");
            if !is_judged {
                let whole = "it could not be judged what this will tell: ";
                assert_eq!(said, format!("{whole}step {step} failed 20 times"));
            }
        }
        // Nor is it said that nothing was seen.
        let mut blind = glance(0, 0);
        blind.failures.insert("detect".to_owned(), fault);
        let enters = rule(json!({"kind": "enters", "zone": "bay"}));
        let said = word(&blind, enters).unwrap();
        assert!(said.sentence().contains("could not be judged"), "{said:?}");
    }

    #[test]
    fn a_trial_that_ended_early_proves_neither_one_thing_nor_the_other() {
        for present in [0, 2] {
            let seen = TrialStats {
                seconds: 1.0,
                ended: Some("the recording ended".to_owned()),
                ..glance(present, 0)
            };
            let Some(TrialRemark::Mind(said)) = word(&seen, free()) else {
                panic!("{:?}", word(&seen, free()));
            };
            assert!(
                said.contains("could not be judged") && said.contains("the recording ended"),
                "{said}"
            );
        }
    }

    #[test]
    fn events_beyond_those_that_are_listed_count() {
        let seen = TrialStats {
            more_events: 40,
            ..glance(1, 200)
        };
        assert!(
            seen.sentence().ends_with("240 events (told at least 200)"),
            "{}",
            seen.sentence()
        );
        let enters = rule(json!({"kind": "enters", "zone": "bay"}));
        let said = word(&seen, enters).unwrap();
        assert!(said.sentence().contains("at least 200 times"), "{said:?}");
        // They may be of the rule that waits for the place to be free.
        let others = TrialStats {
            more_events: 40,
            ..glance(2, 0)
        };
        assert_eq!(word(&others, free()), None);
    }

    #[test]
    fn a_place_that_was_never_empty_speaks_against_waiting_for_it_to_be_free() {
        let Some(TrialRemark::Against(said)) = word(&glance(2, 0), free()) else {
            panic!("nothing against it");
        };
        assert!(
            said.contains("bay was never empty") && said.contains("2 in it"),
            "{said}"
        );
        // Somebody came back after it was told.
        assert_eq!(word(&glance(2, 1), free()), None);
    }

    #[test]
    fn a_place_that_is_free_already_is_told_at_once_or_after_its_time() {
        let said = |events| {
            word(&glance(0, events), free())
                .unwrap()
                .sentence()
                .to_owned()
        };
        assert_eq!(said(1), "bay is empty now, so this tells of it at once");
        assert_eq!(
            said(0),
            "bay is empty now, so this tells of it once it was so for 3 s"
        );
        let at_night = RuleSpec {
            schedule: serde_json::from_value(json!({"from": "22:00", "to": "06:00"})).unwrap(),
            ..free()
        };
        let said = word(&glance(0, 0), at_night).unwrap();
        assert!(!said.sentence().contains("empty now"), "{said:?}");
    }

    #[test]
    fn a_crowd_that_is_there_already_is_told_at_once() {
        let crowd = |bound: u32| {
            let when = json!({"kind": "count", "detections": "$steps.bay.timed_detections", "bound": {"over": bound}});
            word(&glance(4, 1), rule(when))
        };
        let said = crowd(3).unwrap();
        assert!(
            said.sentence().contains("more than 3 in bay now (4)"),
            "{said:?}"
        );
        assert_eq!(crowd(4), None);
    }

    #[test]
    fn a_rule_that_tells_all_the_time_gets_a_word_and_one_that_tells_some_times_none() {
        let enters = || rule(json!({"kind": "enters", "zone": "bay"}));
        let said = word(&glance(1, MANY), enters()).unwrap();
        assert!(said.sentence().contains("5 times in 4 s"), "{said:?}");
        assert_eq!(word(&glance(1, MANY - 1), enters()), None);
    }

    #[test]
    fn a_quiet_scene_proves_nothing_and_says_so() {
        let enters = || rule(json!({"kind": "enters", "zone": "bay"}));
        let elsewhere = word(&glance(0, 0), enters()).unwrap();
        assert_eq!(
            elsewhere.sentence(),
            "2 were seen meanwhile, and none in bay"
        );
        let empty = TrialStats {
            tracks: 0,
            ..glance(0, 0)
        };
        let nothing = word(&empty, enters()).unwrap();
        assert!(nothing.sentence().contains("proves nothing"), "{nothing:?}");
        assert_eq!(word(&glance(1, 0), enters()), None);
    }

    #[test]
    fn what_was_seen_is_one_sentence_with_every_line_zone_event_and_fault() {
        let mut seen = glance(1, 2);
        seen.lines
            .insert("door".to_owned(), LineCount { r#in: 3, out: 1 });
        let fault = StepError {
            count: 1,
            message: "no such crop".to_owned(),
        };
        seen.failures.insert("crop".to_owned(), fault);
        assert_eq!(
            seen.sentence(),
            "4 s, 20 pictures, 2 tracks, door 3 in and 1 out, bay 1 visit and 1 in it at the end, 2 events (told 2), step crop failed 1 time: no such crop"
        );
        assert!(glance(0, 0).sentence().ends_with("0 events"));
    }

    #[test]
    fn what_was_tried_is_told_in_lines_and_comes_back_from_its_file() {
        let spec = serde_json::from_value(json!({"id": "bay", "source": "park", "workflow": {}}));
        let tried = TrialResult {
            picture: Some("/p.jpg".to_owned()),
            seen: Some(glance(0, 0)),
            mind: vec!["small".to_owned()],
            ..TrialResult::new(&spec.unwrap())
        };
        let lines = tried.lines();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[0], "drawn on the picture of park: /p.jpg");
        assert!(lines[1].starts_with("tried on park: 4 s"), "{lines:?}");
        let written = serde_json::to_string(&tried).unwrap();
        assert_eq!(
            serde_json::from_str::<TrialResult>(&written).unwrap(),
            tried
        );
    }
}
