//! An intent → a proposal: pipelines with workflow and rules, and plain sentences about them.
//!
//! Invariant: what is proposed compiles, and says in its sentences whatever it holds.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::{DetectMode, PipelineSpec};
use watchkeeper_contract::rule::{
    ClipSpec, Condition, CountBound, CrossDirection, Gates, RuleSpec, Schedule, Severity,
};
use watchkeeper_engine::templates::shape::{NamedLine, NamedZone};
use watchkeeper_engine::templates::watch::{self, NamedCount, TRACKED, Watch};

use crate::answer::{Change, Missing, Proposal};
use crate::english;
use crate::intent::{Edit, Intent, NamedPlace, WatchFor, What};
use crate::need::{Need, Notes};
use crate::request::{seconds, slug};
use crate::scene::{Scene, Shape};

/// Type of the step that edits know how to change.
const DETECTION: &str = "object_detection_model";

/// Makes a proposal of an intent that acts.
pub(crate) fn propose(intents: Vec<Intent>, scene: &Scene, notes: Notes) -> Result<Proposal, Need> {
    let mut assumed = notes.assumed;
    let (mut changes, mut understood) = (Vec::new(), Vec::new());
    for intent in &intents {
        let (more, text) = changes_of(intent, scene, &mut assumed)?;
        changes.extend(more);
        understood.push(text);
    }
    let mut touched = BTreeSet::new();
    if let Some(twice) = changes
        .iter()
        .map(Change::pipeline)
        .find(|id| !touched.insert(*id))
    {
        return Err(Need::new(
            Missing::Meaning,
            format!("That is more than one change of {twice}. Please say them one at a time."),
        ));
    }
    let mut told = BTreeSet::new();
    assumed.retain(|sentence| told.insert(sentence.clone()));
    Ok(Proposal {
        changes,
        understood: understood.join(" "),
        intents,
        assumed,
        not_possible: notes.not_possible,
        not_understood: notes.not_understood,
    })
}

/// What an intent changes, in order, and the sentence about it.
fn changes_of(
    intent: &Intent,
    scene: &Scene,
    assumed: &mut Vec<String>,
) -> Result<(Vec<Change>, String), Need> {
    Ok(match intent {
        Intent::Watch(watches) => deploy(watches, scene)?,
        Intent::Change(edit) => replace(edit, scene, assumed)?,
        Intent::Stop(ids) => (
            ids.iter().cloned().map(Change::Stop).collect(),
            control("Stop", ids, scene),
        ),
        Intent::Resume(ids) => (
            ids.iter().cloned().map(Change::Resume).collect(),
            control("Resume", ids, scene),
        ),
        Intent::Pause { pipelines, until } => {
            let pause = |pipeline: &PipelineId| Change::Pause {
                pipeline: pipeline.clone(),
                until: until.clone(),
            };
            let mut text = control("Pause", pipelines, scene);
            match until {
                Some(until) => {
                    text.push_str(&format!(" Until {}.", until.strftime("%Y-%m-%d %H:%M %:z")))
                }
                None => text.push_str(" Until somebody resumes it."),
            }
            (pipelines.iter().map(pause).collect(), text)
        }
        Intent::Look(_) => (Vec::new(), String::new()),
    })
}

fn control(verb: &str, ids: &[PipelineId], scene: &Scene) -> String {
    let one = |id: &PipelineId| match scene.pipelines.iter().find(|p| p.spec.id == *id) {
        Some(p) => format!("{id} on {}", p.spec.source),
        None => id.to_string(),
    };
    let all: Vec<String> = ids.iter().map(one).collect();
    let noun = if ids.len() == 1 {
        "pipeline"
    } else {
        "pipelines"
    };
    format!("{verb} {} {noun}: {}.", ids.len(), all.join("; "))
}

fn deploy(watches: &[WatchFor], scene: &Scene) -> Result<(Vec<Change>, String), Need> {
    let mut taken: Vec<String> = scene
        .pipelines
        .iter()
        .map(|p| p.spec.id.to_string())
        .collect();
    let (mut changes, mut texts) = (Vec::new(), Vec::new());
    for watch in watches {
        let wanted = pipeline_name(watch);
        let mut name = wanted.clone();
        let mut nth = 2;
        while taken.contains(&name) {
            name = format!("{wanted}-{nth}");
            nth += 1;
        }
        taken.push(name.clone());
        let id = PipelineId::new(name)
            .map_err(|e| Need::new(Missing::Meaning, format!("{e}. Say it with another name.")))?;
        changes.push(Change::Deploy(Box::new(spec(watch, id, scene)?)));
        texts.push(sentence(watch));
    }
    Ok((changes, texts.join(" ")))
}

fn pipeline_name(watch: &WatchFor) -> String {
    let what = match watch.conditions.first() {
        None => "count",
        Some(What::Appears) => "appears",
        Some(What::Enters) => "enters",
        Some(What::Leaves) => "leaves",
        Some(What::Stays(_)) => "stays",
        Some(What::Crosses(_)) => "crosses",
        Some(What::Count(..)) => "number",
    };
    let camera: String = watch.camera.as_str().chars().take(16).collect();
    let objects: String = slug(&watch.objects.said).chars().take(12).collect();
    let name = format!(
        "{camera}-{}-{what}",
        if objects.is_empty() {
            "all"
        } else {
            objects.trim_end_matches('-')
        }
    );
    name.chars().take(36).collect()
}

fn spec(watch: &WatchFor, id: PipelineId, scene: &Scene) -> Result<PipelineSpec, Need> {
    let (mut lines, mut zones) = (Vec::new(), Vec::new());
    if let Some(place) = &watch.place {
        let size = scene
            .camera(&watch.camera)
            .and_then(|c| c.size)
            .filter(|[w, h]| *w > 0 && *h > 0);
        let Some([w, h]) = size else {
            let text = format!(
                "The camera {} has shown no picture yet, so nothing can be placed in it. Ask again when it does.",
                watch.camera
            );
            return Err(Need::new(Missing::Picture, text));
        };
        let pixel = |[x, y]: &[f64; 2]| [(x * f64::from(w)).round(), (y * f64::from(h)).round()];
        match &place.shape {
            Shape::Line(a, b) => lines.push(NamedLine {
                name: place.name.clone(),
                from: pixel(a),
                to: pixel(b),
            }),
            Shape::Zone(points) => zones.push(NamedZone {
                name: place.name.clone(),
                points: points.iter().map(pixel).collect(),
            }),
        }
    }
    let mut counts = Vec::new();
    if watch.counts {
        let name = slug(&watch.objects.said);
        let name = if name.is_empty() {
            "objects".to_owned()
        } else {
            name
        };
        let clashes = watch
            .place
            .as_ref()
            .is_some_and(|p| p.name == name || p.name == format!("count-{name}"));
        counts.push(NamedCount {
            name: if clashes || matches!(name.as_str(), "tracked" | "annotated") {
                format!("{name}-now")
            } else {
                name
            },
            zone: zones.first().map(|z| z.name.clone()),
        });
    }
    let built = Watch {
        classes: watch.objects.labels.clone(),
        lines,
        zones,
        confidence: watch.confidence,
        counts,
    };
    watch::unique_names(&built).map_err(|e| Need::new(Missing::Meaning, e.to_string()))?;
    watch::plain_classes(&built).map_err(|e| Need::new(Missing::Class, e.to_string()))?;
    Ok(PipelineSpec {
        id,
        name: None,
        source: watch.camera.clone(),
        workflow: watch::workflow(&built, &watch.model),
        parameters: BTreeMap::new(),
        model: None,
        rules: Some(rules(watch)),
        detect: DetectMode::Always,
        record: false,
        show: false,
        stop_after_s: watch.stop_after_s,
        paused: false,
    })
}

fn rules(watch: &WatchFor) -> Vec<RuleSpec> {
    let place = watch.place.as_ref();
    let name = |p: Option<&NamedPlace>| p.map(|p| p.name.clone()).unwrap_or_default();
    let detections = match place {
        Some(NamedPlace {
            name,
            shape: Shape::Zone(_),
            ..
        }) => format!("$steps.{name}.timed_detections"),
        _ => TRACKED.to_owned(),
    };
    let mut rules = Vec::new();
    for what in &watch.conditions {
        let (kind, when) = match *what {
            What::Appears => (
                "appears",
                Condition::Appears {
                    detections: TRACKED.to_owned(),
                },
            ),
            What::Enters => ("enters", Condition::Enters { zone: name(place) }),
            What::Leaves => ("leaves", Condition::Leaves { zone: name(place) }),
            What::Stays(for_s) => (
                "stays",
                Condition::Stays {
                    zone: name(place),
                    for_s,
                },
            ),
            What::Crosses(direction) => (
                "crosses",
                Condition::Crosses {
                    line: name(place),
                    direction,
                },
            ),
            What::Count(bound, for_s) => (
                "number",
                Condition::Count {
                    detections: detections.clone(),
                    bound,
                    for_s,
                },
            ),
        };
        let spans: Vec<Option<Schedule>> = match watch.schedules.as_slice() {
            [] => vec![None],
            spans => spans.iter().cloned().map(Some).collect(),
        };
        for (nth, schedule) in spans.into_iter().enumerate() {
            rules.push(RuleSpec {
                name: if nth == 0 {
                    kind.to_owned()
                } else {
                    format!("{kind}-{}", nth + 1)
                },
                when: when.clone(),
                classes: Vec::new(),
                confidence: None,
                schedule,
                cooldown_s: watch.cooldown_s,
                // `at most once an hour` is about messages, not about each one that comes.
                shared_cooldown: watch.cooldown_s > 0.0,
                severity: watch.severity,
                gates: Gates::default(),
                second_opinion_may_lower: watch.second_opinion,
                notify: watch.notify.clone(),
                clip: watch.clip,
            });
        }
    }
    rules
}

/// A watch as a sentence.
fn sentence(watch: &WatchFor) -> String {
    let said = &watch.objects.said;
    let (who, many) = (english::one(said), english::several(said));
    let verb = |one: &'static str, more: &'static str| {
        if english::is_several(said) { more } else { one }
    };
    let is = verb("is", "are");
    let place = watch
        .place
        .as_ref()
        .map_or("the picture", |p| p.said.as_str());
    let one = |what: &What| match what {
        What::Appears => format!("when {who} {is} seen for the first time"),
        What::Enters => format!("when {who} {} {place}", verb("enters", "enter")),
        What::Leaves => format!("when {who} {} {place}", verb("leaves", "leave")),
        What::Stays(s) => format!("when {who} {is} in {place} for {}", seconds(*s)),
        What::Crosses(d) => format!(
            "when {who} {} {place}{}",
            verb("crosses", "cross"),
            crossing(*d)
        ),
        What::Count(bound, for_s) => {
            let hold = if *for_s > 0.0 {
                format!(" for {}", seconds(*for_s))
            } else {
                String::new()
            };
            let people = watch.objects.labels.as_slice() == ["person"];
            let there = match bound {
                CountBound::Over(0) => format!("{who} {is}"),
                CountBound::Over(n) => format!("at least {} {many} are", n.saturating_add(1)),
                CountBound::Under(1) if people => "nobody is".to_owned(),
                CountBound::Under(1) if watch.objects.labels.is_empty() => "nothing is".to_owned(),
                CountBound::Under(1) => format!("no {many} are"),
                CountBound::Under(n) => format!("fewer than {n} {many} are"),
            };
            format!("when {there} in {place}{hold}")
        }
    };
    let mut text = format!("On camera {}: ", watch.camera);
    let told: Vec<String> = watch.conditions.iter().map(one).collect();
    if watch.counts {
        let over = match watch.place.as_ref().map(|p| &p.shape) {
            Some(Shape::Line(..)) => "that cross",
            _ => "in",
        };
        text.push_str(&format!("count {many} {over} {place}"));
        text.push_str(if told.is_empty() {
            "; no events"
        } else {
            ", and "
        });
    }
    if !told.is_empty() {
        text.push_str(&format!("an event {}", told.join(" and ")));
    }
    if let Some(confidence) = watch.confidence {
        text.push_str(&format!(", from a confidence of {confidence}"));
    }
    text.push_str(&hours(&watch.schedules));
    if watch.cooldown_s > 0.0 {
        let quiet = seconds(watch.cooldown_s);
        text.push_str(&format!(", then quiet for {quiet} whoever comes"));
    }
    if let Some(clip) = watch.clip {
        text.push_str(&format!(", {}", with_clip(clip)));
    }
    if !watch.notify.is_empty() {
        let channels: Vec<String> = watch.notify.iter().map(|c| format!("#{c}")).collect();
        text.push_str(&format!(", told to {}", channels.join(" and ")));
    }
    if watch.second_opinion {
        text.push_str(", with a second opinion of what is not sure");
    }
    if let Some(end) = watch.stop_after_s {
        text.push_str(&format!(", for the next {}", seconds(end)));
    }
    if watch.severity != Severity::Info {
        text.push_str(match watch.severity {
            Severity::Critical => ", as critical",
            _ => ", as a warning",
        });
    }
    text.push('.');
    text
}

fn with_clip(clip: ClipSpec) -> String {
    format!(
        "with a clip from {} before to {} after it began",
        seconds(clip.before_s),
        seconds(clip.after_s)
    )
}

fn crossing(direction: CrossDirection) -> &'static str {
    match direction {
        CrossDirection::Any => " in either direction",
        CrossDirection::In => " inwards (to its left hand)",
        CrossDirection::Out => " outwards (to its right hand)",
    }
}

fn hours(schedules: &[Schedule]) -> String {
    let one = |s: &Schedule| {
        let days: Vec<String> = s.days.iter().map(|d| format!("{d:?}")).collect();
        let days = if days.is_empty() {
            "every day".to_owned()
        } else {
            days.join(", ")
        };
        if s.from == s.to {
            return format!("{days}, all day from {}", s.from);
        }
        format!("{days} from {} to {}", s.from, s.to)
    };
    match schedules {
        [] => String::new(),
        spans => format!(
            ", only {}",
            spans.iter().map(one).collect::<Vec<_>>().join(" and ")
        ),
    }
}

fn replace(
    edit: &Edit,
    scene: &Scene,
    assumed: &mut Vec<String>,
) -> Result<(Vec<Change>, String), Need> {
    let Some(deployed) = scene.pipelines.iter().find(|p| p.spec.id == edit.pipeline) else {
        return Err(Need::new(
            Missing::Pipeline,
            format!("There is no pipeline {}.", edit.pipeline),
        ));
    };
    let mut spec = deployed.spec.clone();
    let mut said = Vec::new();
    let mut touched = 0_usize;
    if let Some(steps) = spec.workflow.get_mut("steps").and_then(Value::as_array_mut) {
        let detects = |step: &&mut Value| {
            step.get("type")
                .and_then(Value::as_str)
                .is_some_and(|t| t.contains(DETECTION))
        };
        for step in steps.iter_mut().filter(detects) {
            touched += 1;
            if let Some(objects) = &edit.objects {
                step["class_filter"] = json!(objects.labels);
            }
            if let Some(confidence) = edit.confidence {
                step["confidence"] = json!(confidence);
            }
        }
    }
    if touched == 0 && (edit.objects.is_some() || edit.confidence.is_some()) {
        let text = format!(
            "The workflow of {} has no detection step whose classes or confidence I could change; edit its workflow instead.",
            edit.pipeline
        );
        return Err(Need::new(Missing::Meaning, text));
    }
    if let Some(objects) = &edit.objects {
        said.push(match objects.said.starts_with("anything") {
            true => objects.said.clone(),
            false => format!("only {}", english::several(&objects.said)),
        });
        for rule in spec
            .rules
            .iter_mut()
            .flatten()
            .filter(|r| !r.classes.is_empty())
        {
            rule.classes.clone_from(&objects.labels);
        }
    }
    if let Some(confidence) = edit.confidence {
        said.push(format!("from a confidence of {confidence}"));
    }
    let about_rules = edit.cooldown_s.is_some()
        || edit.stays_s.is_some()
        || !edit.schedules.is_empty()
        || !edit.notify.is_empty()
        || edit.clip.is_some();
    let rules = spec.rules.get_or_insert_with(Vec::new);
    if about_rules && rules.is_empty() {
        let text = format!(
            "{} has no rules of its own, so there is no duration, cool-down, schedule, channel or clip to change. Set a new watch instead.",
            edit.pipeline
        );
        return Err(Need::new(Missing::Meaning, text));
    }
    // Somebody stays for a time, and a number holds for one: where both are told, a time is that of who stays. A number that is told at once waits for none.
    let stays = |rule: &RuleSpec| matches!(rule.when, Condition::Stays { .. });
    let any_stays = rules.iter().any(stays);
    let has_duration = move |rule: &RuleSpec| match rule.when {
        Condition::Stays { .. } => true,
        Condition::Count { for_s, .. } | Condition::Value { for_s, .. } => {
            !any_stays && for_s > 0.0
        }
        _ => false,
    };
    if edit.stays_s.is_some() && !rules.iter().any(has_duration) {
        let text = format!(
            "No rule of {} waits for a time, so there is no duration to change. Say \"cool-down\" for the time of quiet after an event, or ask for a new watch with the time.",
            edit.pipeline
        );
        return Err(Need::new(Missing::Meaning, text));
    }
    if deployed.spec.rules.is_none() {
        spec.rules = None;
    }
    for rule in spec.rules.iter_mut().flatten() {
        for channel in &edit.notify {
            if !rule.notify.contains(channel) {
                rule.notify.push(channel.clone());
            }
        }
        if let Some(cooldown) = edit.cooldown_s {
            rule.cooldown_s = cooldown;
            rule.shared_cooldown = cooldown > 0.0;
        }
        rule.clip = edit.clip.or(rule.clip);
        if let [one] = edit.schedules.as_slice() {
            rule.schedule = Some(one.clone());
        }
        let waits = has_duration(rule);
        if let (
            Some(seconds),
            true,
            Condition::Stays { for_s, .. }
            | Condition::Count { for_s, .. }
            | Condition::Value { for_s, .. },
        ) = (edit.stays_s, waits, &mut rule.when)
        {
            *for_s = seconds;
        }
    }
    said.extend(
        edit.cooldown_s
            .map(|s| format!("quiet for {} after an event", seconds(s))),
    );
    said.extend(edit.stays_s.map(|s| format!("for {}", seconds(s))));
    match edit.schedules.as_slice() {
        [] => {}
        [_] => said.push(hours(&edit.schedules).trim_start_matches(", ").to_owned()),
        _ => {
            let text = "Those hours need more than one span, which a change can't make of one rule. Set a new watch with them instead.";
            return Err(Need::new(Missing::Meaning, text));
        }
    }
    if !edit.notify.is_empty() {
        let channels: Vec<String> = edit.notify.iter().map(|c| format!("#{c}")).collect();
        said.push(format!("told to {}", channels.join(" and ")));
    }
    said.extend(edit.clip.map(with_clip));
    assumed.push(match spec.stop_after_s {
        // The runtime counts it from the first frame of what is deployed.
        Some(time) => format!(
            "Everything else stays as it is, but its time of {} begins anew.",
            seconds(time)
        ),
        None => "Everything else stays as it is.".to_owned(),
    });
    let text = format!(
        "Change {} on {}: {}.",
        edit.pipeline,
        spec.source,
        said.join(", ")
    );
    Ok((vec![Change::Replace(Box::new(spec))], text))
}
