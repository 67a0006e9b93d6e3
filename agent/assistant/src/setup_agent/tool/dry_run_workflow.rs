//! Tries a draft on video, or replays it on the detection history: its counts and its events.
//!
//! - The tried pipeline is never deployed.
//! - A rule that could make no event in the trial, too slow or quiet now, is named with the result.

use futures_util::FutureExt as _;
use jiff::Zoned;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_contract::backtest::{Backtest, BacktestEvent, MAX_BACKTEST_HOURS};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::Condition;
use watchkeeper_contract::workflow::{DryRun, DryRunEvent, DryRunReport};
use watchkeeper_engine::rules::is_awake;

use super::super::facts::{ToolFact, TurnFacts};
use super::super::tool_context::ToolContext;
use super::chosen_draft::{ChosenDraft, RUNNING};
use super::definition::{FROM_OUTSIDE, Tool, ToolInput, ToolOutcome, schema, text};
use super::draft_edit::{DraftEdit, short_schema_of_edits};
use super::draft_spec::{rules, spec};
use crate::moment::schedule_time;
use crate::permissions::Effect;
use crate::proposal::backtest::{BacktestSummary, strip};
use crate::proposal::checks::check_draft;
use crate::proposal::describe::all_steps;
use crate::proposal::snapshot::SystemSnapshot;
use crate::proposal::trial::TrialStats;
use crate::wording::local_time;

/// Maximum events in the result.
const MAX_EVENTS: usize = 15;
/// Longest trial, in seconds of source time.
const MAX_SECONDS: f64 = 30.0;
/// Id of the tried pipeline. It is never deployed.
const PIPELINE_ID: &str = "dry-run";

/// Explains the verdicts to the language model.
const VERDICTS: &str = "decision is the verdict on an event's confidence: act (sure), record \
    (stands, flagged), review (waits for a person), escalate (a second opinion is asked for, \
    where one is configured): all of them tell notify, and only act on_act; below that it is too \
    weak and no event";

/// Explains the picture of a replay to the language model.
const STRIP: &str = "some of the events, spread over the time, each on the nearest kept picture, \
    taken up to ten seconds earlier or later; with a box up to one second";

pub(super) const TOOL: Tool = Tool {
    name: "dry_run_workflow",
    description: "Tries a draft or a pipeline with these rules on the next seconds of a camera, \
        or the first seconds of a recording without a pipeline: frames, tracks, counts of lines \
        and zones, events, failures. Worth it before a proposal with rules; a quiet scene proves \
        nothing.",
    schema: || {
        let properties = json!({
            "draft": text("such as d1, or a pipeline's name"),
            "edits": short_schema_of_edits(),
            "camera": text("name of the camera"),
            "rules": text("the rules as JSON text: a list, or []"),
            "seconds": {"type": "number", "description": "of the camera's time, at most 30; \
                usually 10"},
            "hours": {"type": "number", "description": "0, or replay this many past hours \
                instead, at most 24"},
            "clip": text("empty, or try it on: the id of an event's clip, or a file's path"),
        });
        schema(
            &properties,
            &["draft", "camera", "rules", "seconds", "hours", "clip"],
        )
    },
    effect: Effect::Read,
    max_uses: 4,
    run: |given| async move { dry_run(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    draft: String,
    #[serde(default)]
    edits: Vec<DraftEdit>,
    camera: String,
    rules: Value,
    seconds: f64,
    /// Hours of the detection history to replay instead.
    #[serde(default)]
    hours: f64,
    /// Media id of a kept clip, or path of a file, to run on instead; empty: the camera.
    #[serde(default)]
    clip: String,
}

async fn dry_run(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let arguments: Arguments = given.arguments()?;
    let here = given.context.snapshot().await?;
    let camera = ToolContext::camera(&arguments.camera, &here)?;
    let running = running(&arguments, &camera, given.facts, &here)?;
    let chosen = match running {
        Some(pipeline) => ChosenDraft::running(pipeline),
        None => ChosenDraft::new(given, arguments.draft, &arguments.edits).await?,
    };
    let is_replay = arguments.hours > 0.0;
    let fits = arguments.seconds > 0.0 && arguments.seconds <= MAX_SECONDS;
    if !(is_replay || fits) {
        return Err(format!("seconds must be above 0 and at most {MAX_SECONDS}"));
    }
    let id = PipelineId::new(PIPELINE_ID).map_err(|e| e.to_string())?;
    let rules = rules(arguments.rules)?;
    let pipeline = with_inputs(spec(id, camera.clone(), &chosen.workflow, rules), running);
    let checked = check_draft(&pipeline, &here);
    if !checked.errors.is_empty() {
        return Err(checked.errors.join("; "));
    }
    if is_replay {
        let hours = arguments.hours.min(MAX_BACKTEST_HOURS);
        let wanted = Backtest {
            pipeline,
            hours,
            pictures: given.context.sees.is_some(),
        };
        return replay(given, &wanted, chosen).await;
    }
    let seconds = arguments.seconds;
    let footage = Some(arguments.clip).filter(|footage| !footage.is_empty());
    let is_path = |footage: &String| footage.contains('/');
    let wanted = DryRun {
        pipeline,
        seconds,
        clip: footage.clone().filter(|footage| !is_path(footage)),
        file: footage.filter(is_path),
    };
    let quiet = sleeping_rules(&wanted.pipeline, &here.now);
    let report = given.context.client.dry_run(&wanted).await;
    let report = report.map_err(|e| e.in_full())?;
    let mind = checked.warnings;
    let seen = TrialStats::from_report(&report, &wanted.pipeline.workflow);
    let sentence = format!("tried on {camera} for {}", seen.sentence());
    let failures = seen.failure_sentences();
    let mut answer = describe(&report, &sentence);
    answer["draft"] = json!(chosen.name);
    answer["mind"] = json!(mind);
    let mut long = slow_rules(&wanted.pipeline, seconds);
    long.extend(slow_steps(&wanted.pipeline.workflow, seconds));
    explain_silence(&mut answer, (&long, seconds), (&quiet, &here.now));
    let outcome = ToolOutcome::json(&answer).with_optional_fact(chosen.fact);
    Ok(outcome.with_fact(ToolFact::Tried {
        draft: chosen.name,
        sentence,
        failures,
    }))
}

/// Gives a trial the model and the parameters of the pipeline whose workflow it has.
fn with_inputs(trial: PipelineSpec, running: Option<&PipelineSpec>) -> PipelineSpec {
    match running {
        Some(running) => PipelineSpec {
            model: running.model.clone(),
            parameters: running.parameters.clone(),
            ..trial
        },
        None => trial,
    }
}

/// Finds the pipeline of the camera whose current workflow is meant. The argument is its name, if
/// no draft has that, or [`RUNNING`], if it is the only one.
fn running<'h>(
    arguments: &Arguments,
    camera: &SourceId,
    facts: &TurnFacts,
    here: &'h SystemSnapshot,
) -> Result<Option<&'h PipelineSpec>, String> {
    let draft = arguments.draft.as_str();
    let on_camera = here.pipelines.iter().map(|status| &status.spec);
    let on_camera: Vec<_> = on_camera.filter(|spec| spec.source == *camera).collect();
    if draft == RUNNING && on_camera.len() != 1 {
        let names: Vec<&str> = on_camera.iter().map(|spec| spec.id.as_str()).collect();
        return Err(format!(
            "give the name of a pipeline on {camera} as the draft; there are: {}",
            names.join(", ")
        ));
    }
    let named = ToolContext::pipeline(draft, here).ok();
    let named = named.filter(|_| facts.draft(draft).is_none());
    let is_meant = |spec: &&&PipelineSpec| draft == RUNNING || named.as_ref() == Some(&spec.id);
    match on_camera.iter().find(is_meant) {
        Some(_) if !arguments.edits.is_empty() => {
            Err("edits need a draft of validate_workflow".to_owned())
        }
        None if named.is_some() => Err(format!("pipeline {draft} is not on camera {camera}")),
        meant => Ok(meant.copied()),
    }
}

/// Adds what could have no result in the trial: rules and steps too slow for its seconds, and rules
/// that are quiet now.
fn explain_silence(
    answer: &mut Value,
    (long, seconds): (&[String], f64),
    (quiet, now): (&[String], &Zoned),
) {
    if !long.is_empty() {
        answer["too_short_for"] = json!({
            "names": long, "why": format!("these rules and steps take longer than the {} s of \
                this trial, so the lack of an event or a value proves nothing", seconds),
        });
    }
    if !quiet.is_empty() {
        answer["quiet_now"] = json!({
            "rules": quiet,
            "why": format!("their schedule keeps them quiet at this hour ({} local time), so the \
                lack of an event proves nothing; to see their events, try them without \
                \"schedule\" and propose them with it", now.strftime("%a %H:%M")),
        });
    }
}

/// The result of a trial for the language model.
fn describe(report: &DryRunReport, sentence: &str) -> Value {
    let events: Vec<Value> = report.events.iter().take(MAX_EVENTS).map(event).collect();
    let lines = &report.results.lines;
    let zones = report.results.zones.iter().map(|(name, zone)| {
        let counts = json!({"visits": zone.count, "present": zone.present});
        (name.clone(), counts)
    });
    let zones: serde_json::Map<String, Value> = zones.collect();
    json!({
        "summary": sentence, "detector": report.detector, "rules": report.rules, "lines": lines,
        "zones": zones,
        "events": events,
        "more_events": report.more_events + (report.events.len() - events.len()) as u64,
        "too_weak_for_an_event": report.results.discarded,
        "failing_steps": report.results.step_errors,
        "warnings": report.warnings.iter().map(|w| &w.message).collect::<Vec<_>>(),
        "ended_early": report.ended,
        "note": (!report.rules.is_empty()).then_some(VERDICTS),
    })
}

/// Replays the draft on the last hours.
async fn replay(
    given: ToolInput<'_>,
    wanted: &Backtest,
    chosen: ChosenDraft,
) -> Result<ToolOutcome, String> {
    let report = given.context.client.backtest(wanted).await;
    let report = report.map_err(|e| e.in_full())?;
    let summary = BacktestSummary::from_report(&report, &wanted.pipeline)
        .map_err(|why| format!("nothing was replayed: {why}; try it with hours 0"))?;
    let sentence = summary.sentence();
    let events: Vec<Value> = report
        .events
        .iter()
        .rev()
        .take(MAX_EVENTS)
        .map(past_event)
        .collect();
    let answer = json!({
        "about_this": FROM_OUTSIDE, "summary": sentence, "draft": chosen.name,
        "rules": report.rules, "lines": report.results.lines,
        "latest_events": events, "covered_s": report.covered_s, "limits": report.limits,
        "remark": summary.remark(), "note": (!report.rules.is_empty()).then_some(VERDICTS),
        "picture": report.strip.as_ref().map(|_| STRIP),
    });
    let picture = match strip(&report) {
        Some(strip) => given.context.show(strip).await?.part,
        None => None,
    };
    let outcome = ToolOutcome::json(&answer)
        .with_picture(picture)
        .with_optional_fact(chosen.fact);
    Ok(outcome.with_fact(ToolFact::Tried {
        draft: chosen.name,
        sentence,
        failures: Vec::new(),
    }))
}

/// A replayed event in short.
pub(super) fn past_event(event: &BacktestEvent) -> Value {
    json!({
        "at": local_time(event.at_ms), "rule": event.event.rule, "reason": event.event.reason,
        "decision": event.decision.verdict, "confidence": event.decision.confidence,
    })
}

/// Rules whose condition must hold at least as long as the trial.
fn slow_rules(pipeline: &PipelineSpec, seconds: f64) -> Vec<String> {
    let rules = pipeline.rules.iter().flatten();
    let long = rules.filter(|rule| match &rule.when {
        Condition::Stays { for_s, .. }
        | Condition::Count { for_s, .. }
        | Condition::Value { for_s, .. } => *for_s >= seconds,
        Condition::Appears { .. }
        | Condition::Enters { .. }
        | Condition::Leaves { .. }
        | Condition::Crosses { .. } => false,
    });
    long.map(|rule| rule.name.clone()).collect()
}

/// Steps that collect values over an interval at least as long as the trial.
fn slow_steps(workflow: &Value, seconds: f64) -> Vec<String> {
    let steps = all_steps(workflow).into_iter();
    let long = steps.filter(|step| {
        let unit_s = match step["interval_unit"].as_str().unwrap_or("seconds") {
            "seconds" => 1.0,
            "minutes" => 60.0,
            "hours" => 3600.0,
            // Of frames.
            _ => return false,
        };
        let interval = step["interval"].as_f64();
        interval.is_some_and(|interval| interval * unit_s >= seconds)
    });
    long.filter_map(|step| step["name"].as_str().map(str::to_owned))
        .collect()
}

/// Rules whose schedule excludes this hour.
fn sleeping_rules(pipeline: &PipelineSpec, now: &Zoned) -> Vec<String> {
    let local = schedule_time(now.datetime());
    let rules = pipeline.rules.iter().flatten();
    let asleep = rules.filter(|rule| {
        let schedule = rule.schedule.as_ref();
        schedule.and_then(|hours| is_awake(hours, local)) == Some(false)
    });
    asleep.map(|rule| rule.name.clone()).collect()
}

fn event(event: &DryRunEvent) -> Value {
    json!({
        "rule": event.event.rule, "class": event.event.label, "s_since_source_began": event.event.pts_s,
        "decision": event.decision.verdict,
        "confidence": event.decision.confidence, "reason": event.event.reason,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;
    use crate::proposal::snapshot::testing::{situation, status};

    #[test]
    fn pipeline_is_tried_by_name_or_as_only_one_of_its_camera() {
        let spec = |id: &str, camera: &str| -> PipelineSpec {
            serde_json::from_value(json!({"id": id, "source": camera, "workflow": {}})).unwrap()
        };
        let mut here = situation();
        here.pipelines = [("w1", "hall"), ("d1", "gate"), ("w2", "gate")]
            .map(|(id, camera)| status(&spec(id, camera)))
            .to_vec();
        let mut facts = TurnFacts::default();
        let meant = |draft: &str, camera: &str, facts: &TurnFacts| {
            let arguments = json!({"draft": draft, "camera": camera, "rules": [], "seconds": 10});
            let arguments: Arguments = serde_json::from_value(arguments).unwrap();
            let camera = SourceId::new(camera).unwrap();
            let found = running(&arguments, &camera, facts, &here);
            found.map(|spec| spec.map(|spec| spec.id.to_string()))
        };
        let id = |id: &str| Ok(Some(id.to_owned()));
        assert_eq!(meant("running", "hall", &facts), id("w1"));
        assert_eq!(meant("w2", "gate", &facts), id("w2"));
        assert_eq!(meant("d1", "gate", &facts), id("d1"));
        let several = meant("running", "gate", &facts).unwrap_err();
        assert!(several.ends_with("there are: d1, w2"), "{several}");
        let elsewhere = meant("w1", "gate", &facts).unwrap_err();
        assert!(elsewhere.contains("not on camera gate"), "{elsewhere}");
        facts.add(ToolFact::Draft {
            workflow: json!({}),
            text: None,
            warnings: Vec::new(),
        });
        assert_eq!(meant("d1", "gate", &facts), Ok(None), "the draft is meant");
    }

    #[test]
    fn verdicts_are_explained_only_where_there_are_rules() {
        let mut report = DryRunReport::default();
        assert_eq!(describe(&report, "")["note"], Value::Null);
        report.rules.push("in".to_owned());
        assert_eq!(describe(&report, "")["note"], VERDICTS);
    }

    #[test]
    fn step_with_an_interval_as_long_as_the_trial_is_slow() {
        let workflow = json!({"steps": [
            {"name": "per-minute", "interval": 1, "interval_unit": "minutes"},
            {"name": "per-second", "interval": 1},
            {"name": "per-frames", "interval": 90, "interval_unit": "runs"},
        ]});
        assert_eq!(slow_steps(&workflow, 10.0), ["per-minute"]);
        assert_eq!(slow_steps(&workflow, 61.0), [""; 0]);
    }

    #[test]
    fn rules_asleep_at_this_hour_are_named() {
        let when = json!({"kind": "enters", "zone": "desk"});
        let rule =
            |name: &str, schedule: Value| json!({"name": name, "when": when, "schedule": schedule});
        let night = json!({"days": ["fri"], "from": "22:00", "to": "06:00"});
        let pipeline: PipelineSpec = serde_json::from_value(json!({
            "id": "p", "source": "s", "workflow": {},
            "rules": [rule("always", Value::Null), rule("night", night), rule("day",
            json!({"from": "08:00", "to": "18:00"}))],
        }))
        .unwrap();
        let at = |when: &str| {
            let local: jiff::civil::DateTime = when.parse().unwrap();
            sleeping_rules(&pipeline, &local.to_zoned(jiff::tz::TimeZone::UTC).unwrap())
        };
        assert_eq!(at("2026-11-23T12:00"), ["night"]);
        assert_eq!(at("2026-11-28T05:00"), ["day"], "Friday's night");
        assert_eq!(at("2026-11-29T05:00"), ["night", "day"]);
    }
}
