//! Kinds of events that a question asks about: crossed, entered, left, stayed.
//!
//! Invariant: a question about one kind is never answered with another one without saying so.

use std::collections::BTreeSet;

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::rule::{Condition, CrossDirection, RuleSpec};
use watchkeeper_engine::rules::derive;
use watchkeeper_engine::workflow::compile;
use watchkeeper_english::several;

use crate::lexicon::folded;
use crate::place::Where;
use crate::question_words::{EventKind, Happened};
use crate::reader::{Reader, one_of};
use crate::scene::{Deployed, Scene, joined, quoted, quoted_all};

pub(crate) const TWO_QUESTIONS: &str = "Those are two questions. Please ask them one at a time.";

/// The kinds that a question names; their words are used then. That something was seen counts as
/// one only where a number is asked for.
pub(crate) fn asked(r: &mut Reader<'_>, number: bool) -> Result<Vec<Happened>, String> {
    let all = r.lexicon.questions.happened.iter();
    let sides = r.find_all("@left_side");
    let mut found: Vec<Happened> = r.with_hidden(sides, |r| {
        let said = all.filter(|what| r.take_all(&what.words));
        said.cloned().collect()
    });
    // `came or left`
    let mut is_one = found.len() < 2 || found.iter().all(|happened| happened.name != "coming");
    if found.len() > 1 || !number {
        found.retain(|happened| !one_of("seeing|coming", &happened.name));
    }
    if found.iter().any(|happened| happened.name == "crossing") {
        for happened in &r.lexicon.questions.happened {
            if r.take_all(&[&happened.way]) && !found.contains(happened) {
                found.push(happened.clone());
            }
        }
        // A way narrows it to the crossings of one direction.
        if found.len() > 1 {
            found.retain(|happened| happened.name != "crossing");
            let counts = found.iter_mut().map(|happened| &mut happened.counts);
            counts.for_each(|counts| counts.retain(|kind| kind.condition == "crosses"));
        }
        is_one &= matches!(found.as_slice(), [happened] if !happened.counts.is_empty());
    }
    match is_one && (found.is_empty() || !r.has(&["passed"])) {
        true => Ok(found),
        false => Err(TWO_QUESTIONS.to_owned()),
    }
}

/// Said of a `number` of events whose rule has a cool-down or an hourly limit.
const LEFT_OUT: &str = "Events that a cool-down or an hourly limit left out are not counted.";

/// Kinds of events to look for, given the kinds in the question. A sentence names each that another
/// kind counts for, or whose number leaves out events. The coverage shows what no watch reported
/// then. `at_place`: the question names a place.
pub(crate) fn reported_kinds(
    asked: &[Happened],
    scene: &Scene,
    watches: &[&Deployed],
    labels: &[String],
    number: bool,
    at_place: bool,
) -> (Vec<EventKind>, Vec<String>) {
    let who = match labels {
        [] => "something".to_owned(),
        _ => several(&labels.join(" or ")),
    };
    let watches = watches.iter().filter(|watch| knows(watch, labels, scene));
    let watches: Vec<WithRules<'_>> = watches.map(|one| (*one, rules(one))).collect();
    let (mut kinds, mut said, mut cools) = (Vec::new(), Vec::new(), false);
    for Happened { name, counts, .. } in asked {
        let rules_of = |watch: &WithRules<'_>, kind: &EventKind| rules_about(watch, kind, labels);
        let cameras = |kind: &EventKind| -> usize {
            let reporting = watches.iter().filter(|w| !rules_of(w, kind).is_empty());
            let cameras: BTreeSet<_> = reporting.map(|(watch, _)| &watch.spec.source).collect();
            cameras.len()
        };
        // The best kind that is reported; of what came, where either counts, the kind that most
        // cameras report. Who came to a camera need not have entered a zone of it.
        let reported = counts.iter().rev().filter(|kind| cameras(kind) > 0);
        let reported = reported.max_by_key(|kind| match name == "coming" {
            true => (cameras(kind), !at_place && kind.condition == "appears"),
            false => (0, false),
        });
        let first = counts.first();
        if let (Some(first), Some(reported)) = (first, reported.filter(|kind| Some(*kind) != first))
        {
            let tells = format!("tells when {who} {}; instead each", first.happened);
            let why = match cameras(first) {
                0 => format!("No watch here {tells}"),
                n if n < cameras(reported) => format!("Not every camera has a watch that {tells}"),
                _ => "Each".to_owned(),
            };
            said.push(format!("{why} time counts that one {}.", reported.happened));
        }
        let rules =
            reported.map(|kind| watches.iter().flat_map(move |watch| rules_of(watch, kind)));
        let limits = |rule: &RuleSpec| rule.cooldown_s > 0.0 || rule.max_per_hour.is_some();
        cools |= rules.into_iter().flatten().any(|rule| limits(&rule));
        // All events count for `came` if no watch reports entries or appearances.
        let usual = first.filter(|_| name != "coming");
        kinds.extend(reported.or(usual).cloned());
    }
    said.extend((number && cools).then(|| LEFT_OUT.to_owned()));
    (kinds, said)
}

/// A pipeline with its rules.
type WithRules<'d> = (&'d Deployed, Vec<RuleSpec>);

/// The rules of a watch that report events of this kind about one of these labels; about any if
/// there are no labels.
fn rules_about(watch: &WithRules<'_>, kind: &EventKind, labels: &[String]) -> Vec<RuleSpec> {
    let (seen, rules) = (watch.0.classes(), &watch.1);
    let sees = |known: &[String]| {
        labels.is_empty() || known.is_empty() || labels.iter().any(|l| known.contains(l))
    };
    let is_of = |rule: &RuleSpec| {
        let way = match rule.when {
            Condition::Crosses { direction, .. } => direction,
            _ => CrossDirection::Any,
        };
        let is_way = [way, kind.direction].contains(&CrossDirection::Any) || way == kind.direction;
        name_of(&rule.when) == kind.condition && is_way
    };
    let reporting = rules
        .iter()
        .filter(|rule| is_of(rule) && sees(&rule.classes));
    reporting.filter(|_| sees(&seen)).cloned().collect()
}

/// Name of a condition, and of a rule with it.
pub(crate) fn name_of(when: &Condition) -> &'static str {
    match when {
        Condition::Appears { .. } => "appears",
        Condition::Enters { .. } => "enters",
        Condition::Leaves { .. } => "leaves",
        Condition::Stays { .. } => "stays",
        Condition::Crosses { .. } => "crosses",
        _ => "number",
    }
}

/// The rules of a pipeline: its own, else those in its workflow, else those that follow from it.
fn rules(deployed: &Deployed) -> Vec<RuleSpec> {
    let spec = &deployed.spec;
    let derived = || {
        let compiled = compile(&spec.workflow, &spec.parameters).ok()?;
        let (lines, zones) = (compiled.line_steps(), compiled.zone_steps());
        let sinks = Some(compiled.sink_rules()).filter(|sinks| !sinks.is_empty());
        sinks.or_else(|| Some(derive(&lines, &zones, &compiled.tracker_steps())))
    };
    spec.rules.clone().or_else(derived).unwrap_or_default()
}

/// Noun for a number of events, which is not a number of people or things: one of these may have
/// several events.
pub(crate) fn events_of(labels: &[String]) -> String {
    let about = match labels {
        [] => String::new(),
        labels => format!(" about {}", several(&labels.join(" or "))),
    };
    format!("I count events{about}: one that comes twice counts twice.")
}

/// The part of present counts that is unknown: the cameras where no watch reports these classes, or
/// looks at the place. Refuses a question that no watch answers.
pub(crate) fn unknown_now(
    scene: &Scene,
    camera: Option<&SourceId>,
    place: Option<&str>,
    labels: &[String],
) -> Result<String, String> {
    let looks_at = |p: &Deployed, place: &str| {
        let mut steps = p.spec.workflow["steps"].as_array().into_iter().flatten();
        steps.any(|step| step["name"].as_str().map(folded) == Some(folded(place)))
    };
    let is_told =
        |p: &Deployed| place.is_none_or(|place| looks_at(p, place)) && knows(p, labels, scene);
    let cameras = scene.cameras.iter().map(|known| &known.id);
    let cameras = cameras.filter(|id| camera.is_none_or(|camera| *id == camera));
    let watched: Vec<&SourceId> = cameras.filter(|id| scene.on(id).next().is_some()).collect();
    let is_unknown = |id: &&&SourceId| !scene.on(id).any(is_told);
    let unknown = watched.iter().filter(is_unknown);
    let unknown: Vec<&str> = unknown.map(|id| id.as_str()).collect();
    let of = match labels {
        [] => "what is".to_owned(),
        labels => format!("how many {} are", several(&labels.join(" or "))),
    };
    if unknown.is_empty() && (place.is_none() || !watched.is_empty()) {
        let of_zones = |id: &&SourceId| {
            let zones = quoted_all(&zones(scene.on(id).filter(|p| is_told(p))), ", ");
            let is_part = place.is_none() && !labels.is_empty() && !zones.is_empty();
            is_part.then(|| format!("On {id} each zone counts only what is in it: {zones}."))
        };
        return Ok(joined(watched.iter().filter_map(of_zones), " "));
    }
    let at = place.map_or_else(String::new, |place| format!(" at {}", quoted(place)));
    let said = |on: &str| format!("I don't know {of} there now{at}{on}: no watch reports that.");
    match unknown.len() == watched.len() {
        true => Err(said("")),
        false => Ok(said(&format!(" on {}", unknown.join(" and ")))),
    }
}

/// The zones of these watches; none if one is the whole picture.
fn zones<'d>(watches: impl Iterator<Item = &'d Deployed>) -> Vec<String> {
    let compiled = watches.map(|watch| compile(&watch.spec.workflow, &watch.spec.parameters));
    let zones: Vec<String> = compiled
        .flatten()
        .flat_map(|plan| plan.zone_steps())
        .collect();
    match zones.contains(&Where::whole_picture().step()) {
        true => Vec::new(),
        false => zones,
    }
}

/// Whether a watch reports one of these classes separately; any class if none is named.
fn knows(deployed: &Deployed, labels: &[String], scene: &Scene) -> bool {
    let named = deployed.classes();
    let is_told = |label: &String| named.is_empty() || named.contains(label);
    labels.is_empty() || !scene.tells_none_apart(deployed) && labels.iter().any(is_told)
}
