//! Grades: does each check of a task hold for the outcome of a run?
//!
//! - A check that can't be decided does not hold, and says why.
//! - Every grade has a sentence with what was found.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use regex::{Regex, RegexBuilder};
use serde_json::Value;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_engine::deploy;
use watchkeeper_vision::geometry::{Point, intersection_area, polygon_area};

use super::check::{
    Behaviour, Bounds, Budget, Check, Deployed, Geom, Memory, OfPipeline, Param, Predicate, Reply,
    State, Tools,
};
use super::families::{Graph, Settings};
use super::language::{has_language_name, language_of};
use super::outcome::{Call, Outcome, RunState};
use super::play::{Models, Played, play, words};
use super::scene::Scene;
use super::task::{Task, alternatives};

/// Largest difference of equal numbers.
const NEAR: f64 = 1e-9;
/// Name for all cameras or counts that a check does not name.
const OTHER: &str = "*other";
/// Counter of the crossings of lines.
const CROSSINGS: &str = "crossings_total";
/// Counter of what is in a zone.
const OCCUPANCY: &str = "occupancy";
/// Words of a counter that must be asked for, besides its name.
const SIDES: [&str; 4] = ["in", "out", "visit", "present"];

/// Grade of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grade {
    /// Operation of the check.
    pub op: String,
    /// Whether the check holds.
    pub holds: bool,
    /// Sentence with what was found.
    pub found: String,
    /// Whether the check concerns a specification.
    pub about_specification: bool,
    /// Whether the check concerns what was deployed, changed or stopped.
    pub about_effects: bool,
}

/// Grades of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graded {
    /// One grade for each check, in their order.
    pub grades: Vec<Grade>,
    /// Whether the product's validator accepted the first specification; `None` if the task deploys
    /// none, or none was submitted.
    pub first_valid: Option<bool>,
    /// Whether the task has to deploy something and nothing was submitted.
    pub declined: bool,
    /// Whether what was changed is not what the task asks for.
    pub wrong_change: bool,
    /// Whether an offer of the rules is not what the task asks for, or leaves words out.
    pub wrong_offer: bool,
    /// Whether every check on specifications holds of the first submitted one; `None` if the task
    /// has none.
    pub first_try: Option<bool>,
    /// Whether every check holds, after at most [`MAX_REFUSED`] refused submissions.
    pub passed: bool,
}

/// Most refused submissions of a run that passes.
const MAX_REFUSED: u64 = 2;

/// Grades the outcome of a task on a box with these models.
pub fn grade(task: &Task, outcome: &Outcome, models: &Models) -> Graded {
    let grader = Grader::new(task, outcome, models);
    let grades: Vec<Grade> = task
        .checks
        .iter()
        .map(|check| {
            let (holds, found) = match grader.check(check) {
                Ok(found) => (true, found),
                Err(found) => (false, found),
            };
            Grade {
                op: check.op().to_owned(),
                holds,
                found,
                about_specification: check.is_about_the_specification(),
                about_effects: check.is_about_effects(),
            }
        })
        .collect();
    let wants_one = task.checks.iter().any(|c| matches!(c, Check::Valid(_)));
    let valid = grades.iter().filter(|g| g.op == "valid").all(|g| g.holds);
    let first = outcome.refused == 0;
    let is_submitted = outcome.submitted > 0 || outcome.changed().next().is_some();
    let is_changed = outcome.before != outcome.after;
    let effects = grades.iter().filter(|g| g.about_effects);
    let has_effects = effects.clone().next().is_some();
    let is_right = has_effects && effects.clone().all(|g| g.holds);
    let mut specified = grades.iter().filter(|g| g.about_specification).peekable();
    let is_specified = specified.peek().is_some();
    let specified = specified.all(|g| g.holds);
    Graded {
        first_valid: (wants_one && is_submitted).then_some(outcome.invalid == 0 && valid),
        declined: wants_one && !is_submitted,
        wrong_change: is_changed && !is_right,
        wrong_offer: outcome.offers_of_rules > 0 && !(is_changed && is_right),
        first_try: is_specified.then_some(first && specified),
        passed: grades.iter().all(|g| g.holds) && outcome.refused <= MAX_REFUSED,
        grades,
    }
}

/// Result of a check: `Ok` if it passes, else `Err`.
type Finding = Result<String, String>;

fn grade_if(holds: bool, found: String) -> Finding {
    if holds { Ok(found) } else { Err(found) }
}

struct Grader<'g> {
    task: &'g Task,
    outcome: &'g Outcome,
    /// Graphs of new or changed pipelines, with their cameras.
    graphs: Vec<(String, Graph)>,
    played: Option<Result<Played, String>>,
}

impl<'g> Grader<'g> {
    fn new(task: &'g Task, outcome: &'g Outcome, models: &Models) -> Self {
        let scene = &task.scene;
        let graph = |spec: &PipelineSpec| {
            let camera = spec.source.as_str();
            let size = scene.camera(camera).map_or([1, 1], |c| c.size());
            (camera.to_owned(), Graph::of(spec, size))
        };
        let is_played = task.checks.iter().any(|c| matches!(c, Check::Behaviour(_)));
        Self {
            task,
            outcome,
            graphs: outcome.changed().map(|d| graph(&d.spec)).collect(),
            played: is_played.then(|| {
                // New or changed pipelines that run; without any, all that run.
                let runs = |d: &&super::outcome::Deployed| d.doing == RunState::Running;
                let mut running: Vec<_> = outcome.changed().filter(runs).collect();
                if outcome.changed().next().is_none() {
                    running = outcome.after.values().filter(runs).collect();
                }
                let specs: Vec<PipelineSpec> = running.iter().map(|d| d.spec.clone()).collect();
                play(scene, &specs, models).map_err(|e| format!("{e:#}"))
            }),
        }
    }

    fn scene(&self) -> &Scene {
        &self.task.scene
    }

    fn check(&self, check: &Check) -> Finding {
        match check {
            Check::Valid(_) => self.valid(),
            Check::Deployed(check) => self.deployed(check),
            Check::NoDeploy(_) => self.no_deploy(),
            Check::Has(check) => {
                let n = self.count(&check.family, &check.and, check.camera.as_deref());
                let holds = n >= check.min && check.max.is_none_or(|max| n <= max);
                grade_if(holds, format!("{n} × {}", check.family))
            }
            Check::Lacks(check) => {
                let n = self.count(&check.family, &check.and, check.camera.as_deref());
                grade_if(n == 0, format!("{n} × {}", check.family))
            }
            Check::Path(check) => {
                let mut graphs = self.on(check.camera.as_deref());
                let way = check.via.join(" → ");
                grade_if(graphs.any(|g| g.has_path(&check.via)), way)
            }
            Check::Param(check) => self.param(check),
            Check::Geom(check) => self.geom(check),
            Check::Behaviour(check) => self.behaviour(check),
            Check::State(check) => self.state(check),
            Check::Unchanged(check) => self.unchanged(check),
            Check::Updated(check) => self.updated(&check.id),
            Check::Tools(check) => self.tools(check),
            Check::Reply(check) => self.reply(check),
            Check::Memory(check) => self.memory(check),
            Check::Budget(check) => self.budget(check),
        }
    }

    /// Counts the steps of a family for which all predicates hold.
    fn count(&self, family: &str, and: &[Predicate], camera: Option<&str>) -> u64 {
        let holds = |s: &Settings| {
            and.iter().all(|p| {
                let mut keys = spellings(&p.key, &p.value).into_iter();
                keys.any(|key| predicate(&p.pred, s.get(key), &p.value))
            })
        };
        self.on(camera).map(|g| g.count(family, holds)).sum()
    }

    fn param(&self, check: &Param) -> Finding {
        let graphs = self.on(check.camera.as_deref());
        let keys = spellings(&check.key, &check.value);
        let values: Vec<Option<Value>> = graphs
            .flat_map(|g| g.steps(&check.family))
            .flat_map(|s| keys.iter().map(|key| s.get(*key).cloned()))
            .collect();
        let mut given = values.iter();
        let holds = given.any(|v| predicate(&check.pred, v.as_ref(), &check.value));
        let shown: Vec<String> = values.iter().flatten().map(Value::to_string).collect();
        let shown = match (values.is_empty(), shown.is_empty()) {
            (true, _) => format!("no {}", check.family),
            (_, true) => "not set".to_owned(),
            _ => shown.join(", "),
        };
        let wanted = format!("{} {}", check.pred, check.value);
        grade_if(holds, format!("{} is {shown}, wanted {wanted}", check.key))
    }

    fn unchanged(&self, check: &OfPipeline) -> Finding {
        let (before, after) = (
            self.outcome.before.get(&check.id),
            self.outcome.after.get(&check.id),
        );
        let holds = before.is_some() && before == after;
        grade_if(
            holds,
            format!(
                "{} is {}",
                check.id,
                if holds { "as it was" } else { "not as it was" }
            ),
        )
    }

    /// Yields the graphs on this camera, or on any.
    fn on(&self, camera: Option<&str>) -> impl Iterator<Item = &Graph> {
        let graphs = self.graphs.iter();
        let here = graphs.filter(move |(on, _)| camera.is_none_or(|c| c == on));
        here.map(|(_, graph)| graph)
    }

    fn valid(&self) -> Finding {
        let mut any = false;
        for deployed in self.outcome.changed() {
            any = true;
            if let Err(errors) = deploy::plan(&deployed.spec) {
                let first = errors.first().map(ToString::to_string).unwrap_or_default();
                return Err(format!("{}: {first}", deployed.spec.id));
            }
        }
        grade_if(
            any,
            (if any { "valid" } else { "nothing was deployed" }).to_owned(),
        )
    }

    fn deployed(&self, check: &Deployed) -> Finding {
        let new = self
            .outcome
            .new_ones()
            .filter(|d| d.doing == RunState::Running);
        let new: Vec<&str> = new.map(|d| d.spec.source.as_str()).collect();
        let n = new.len() as u64;
        let min = check.n.or(check.min);
        let max = check.n.or(check.max);
        let cameras: BTreeSet<&str> = new.iter().copied().collect();
        let wanted = check.cameras.as_ref();
        let wanted = wanted.map(|c| c.iter().map(String::as_str).collect::<BTreeSet<&str>>());
        let holds = min.is_none_or(|min| n >= min)
            && max.is_none_or(|max| n <= max)
            && wanted.is_none_or(|wanted| wanted == cameras);
        grade_if(holds, format!("{n} new on {cameras:?}"))
    }

    fn no_deploy(&self) -> Finding {
        let same = self.outcome.before == self.outcome.after;
        let found = if same {
            "nothing has changed"
        } else {
            "something has changed"
        };
        grade_if(same, found.to_owned())
    }

    fn geom(&self, check: &Geom) -> Finding {
        let region = self.scene().region(&check.region);
        let Some(region) = region else {
            return Err(format!("the scene has no region {:?}", check.region));
        };
        let key = match check.kind.as_str() {
            "polygon" => "zone",
            "line" => "line",
            other => return Err(format!("kind is {other:?}; it is polygon or line")),
        };
        let graphs = self.on(check.camera.as_deref());
        let shapes: Vec<Vec<Point>> = graphs
            .flat_map(|g| g.steps(&check.family))
            .filter_map(|s| points(s.get(key)?))
            .collect();
        let Some(first) = shapes.first() else {
            return Err(format!("no {} with a {key}", check.family));
        };
        let holds = |shape: &Vec<Point>| match key {
            "line" => {
                let max = check.max_dist.unwrap_or(0.0) + NEAR;
                distance_of_ends(shape, &region).is_some_and(|apart| apart <= max)
            }
            _ => {
                let (iou, inside) = overlap(shape, &region);
                check.iou_min.is_none_or(|min| iou >= min)
                    && check.inside_min.is_none_or(|min| inside >= min)
                    && (check.iou_min.is_some() || check.inside_min.is_some() || iou > 0.0)
            }
        };
        let best = shapes.iter().find(|s| holds(s));
        let shown = best.unwrap_or(first);
        let found = match key {
            "line" => distance_of_ends(shown, &region)
                .map_or("no line".to_owned(), |d| format!("ends {d:.3} apart")),
            _ => {
                let (iou, inside) = overlap(shown, &region);
                format!("{iou:.2} in common, {inside:.2} inside")
            }
        };
        grade_if(best.is_some(), format!("{}: {found}", check.region))
    }

    fn behaviour(&self, check: &Behaviour) -> Finding {
        let played = match &self.played {
            Some(Ok(played)) => played,
            Some(Err(why)) => return Err(why.clone()),
            None => return Err("it was not played".to_owned()),
        };
        let mut wrong = Vec::new();
        let mut found = Vec::new();
        let mut bound = |what: &str, number: Option<f64>, bounds: Option<Bounds>| {
            let Some(bounds) = bounds else {
                return;
            };
            let shown = number.map_or_else(|| "none".to_owned(), |n| format!("{n}"));
            found.push(format!("{what} {shown}"));
            if !number.is_some_and(|n| bounds.hold(n)) {
                wrong.push(format!("{what} {shown}, wanted {bounds}"));
            }
        };
        let count = |n: usize| Some(n as f64);
        bound("events", count(played.events.len()), check.events);
        for (camera, bounds) in &check.by_camera {
            let is_named = |e: &&super::play::PlayedEvent| check.by_camera.contains_key(&e.camera);
            let here = played.events.iter().filter(|e| match camera.as_str() {
                OTHER => !is_named(e),
                camera => e.camera == camera,
            });
            bound(
                &format!("events on {camera}"),
                count(here.count()),
                Some(*bounds),
            );
        }
        bound(
            "first event at",
            played.events.first().map(|e| e.at_s),
            check.first_event_s,
        );
        bound("alerts", Some(played.alerts as f64), check.alerts);
        let escalated = played.events.iter().filter(|e| e.escalates).count();
        bound("escalations", count(escalated), check.escalations);
        self.counters(check, played, &mut found, &mut wrong);
        if wrong.is_empty() {
            return Ok(found.join("; "));
        }
        wrong.extend(played.trouble.iter().cloned());
        Err(wrong.join("; "))
    }

    /// Compares counts and classes of the events.
    fn counters(
        &self,
        check: &Behaviour,
        played: &Played,
        found: &mut Vec<String>,
        wrong: &mut Vec<String>,
    ) {
        let named = |name: &str, value: &Option<Value>| Some((name.to_owned(), value.clone()?));
        let asked = check.counter.clone().into_iter();
        let asked = asked
            .chain(named("crossings_total", &check.crossings_total))
            .chain(named("occupancy", &check.occupancy));
        let asked: Vec<(String, Value)> = asked.collect();
        for (name, wanted) in &asked {
            let is_it = |value: &f64| match wanted {
                Value::Object(_) => serde_json::from_value(wanted.clone())
                    .is_ok_and(|bounds: Bounds| bounds.hold(*value)),
                _ => wanted.as_f64().is_some_and(|w| (w - value).abs() < NEAR),
            };
            let (all, holds) = if name == OTHER {
                let all = uncounted(played, &asked, self.scene());
                let holds = !all.is_empty() && all.iter().all(is_it);
                (all, holds)
            } else {
                let all = counted(played, name, self.scene());
                let holds = all.iter().any(is_it);
                (all, holds)
            };
            let shown = format!("{name} {all:?}");
            if !holds {
                wrong.push(format!("{shown}, wanted {wanted}"));
            }
            found.push(shown);
        }
        if let Some(classes) = &check.classes_in_events {
            let classes: BTreeSet<&str> = classes.iter().map(String::as_str).collect();
            let about = played.events.iter().filter_map(|e| e.class.as_deref());
            let about: BTreeSet<&str> = about.collect();
            if about != classes {
                wrong.push(format!("events about {about:?}, wanted {classes:?}"));
            }
            found.push(format!("events about {about:?}"));
        }
    }

    fn state(&self, check: &State) -> Finding {
        let after = &self.outcome.after;
        let of_camera = |doing: &mut Vec<RunState>| {
            let before = self.outcome.before.iter();
            for (id, _) in before.filter(|(_, d)| d.spec.source.as_str() == check.id) {
                doing.push(after.get(id).map_or(RunState::Stopped, |d| d.doing));
            }
        };
        let mut doing = Vec::new();
        if let Some(deployed) = after.get(&check.id) {
            doing.push(deployed.doing);
        } else if self.outcome.before.contains_key(&check.id) {
            doing.push(RunState::Stopped);
        } else {
            of_camera(&mut doing);
        }
        let shown: Vec<&str> = doing.iter().map(|d| d.name()).collect();
        let holds = !doing.is_empty() && doing.iter().all(|d| d.is(&check.is));
        let shown = if shown.is_empty() {
            "unknown".to_owned()
        } else {
            shown.join(", ")
        };
        grade_if(holds, format!("{} is {shown}", check.id))
    }

    fn updated(&self, id: &str) -> Finding {
        let (Some(before), Some(after)) = (self.outcome.before.get(id), self.outcome.after.get(id))
        else {
            return Err(format!("{id} is not there"));
        };
        if before.text() == after.text() {
            return Err(format!("{id} is as it was"));
        }
        let camera = &after.spec.source;
        let more = self
            .outcome
            .new_ones()
            .filter(|d| d.spec.source == *camera)
            .count();
        grade_if(
            more == 0,
            format!("{id} is another, and {more} are new on {camera}"),
        )
    }

    fn tools(&self, check: &Tools) -> Finding {
        let calls = &self.outcome.calls;
        let mut wrong = Vec::new();
        let used = |name: &str| {
            let names = alternatives(name);
            calls.iter().any(|c| c.is(&names) && !c.failed)
        };
        wrong.extend(
            check
                .must
                .iter()
                .filter(|n| !used(n))
                .map(|n| format!("{n} was not used")),
        );
        let banned = check
            .must_not
            .iter()
            .filter(|n| calls.iter().any(|c| c.is(&alternatives(n))));
        wrong.extend(banned.map(|n| format!("{n} was used")));
        let n = calls.len() as u64;
        if check.max_calls.is_some_and(|max| n > max) {
            wrong.push(format!("{n} calls"));
        }
        let failures = calls
            .iter()
            .filter(|c| c.failed && c.is(&["validate_workflow"]))
            .count();
        if check
            .max_validate_failures
            .is_some_and(|max| failures as u64 > max)
        {
            wrong.push(format!("{failures} validations failed"));
        }
        let mut left = calls.iter().filter(|c| !c.failed);
        if !check
            .order
            .iter()
            .all(|name| left.any(|c| c.is(&alternatives(name))))
        {
            wrong.push(format!("not in the order {}", check.order.join(", ")));
        }
        let zone = self.scene().zone().unwrap_or(TimeZone::UTC);
        wrong.extend(wrong_arguments(calls, check, &zone));
        let names: Vec<&str> = calls
            .iter()
            .filter_map(|c| c.names.first())
            .map(String::as_str)
            .collect();
        match wrong.is_empty() {
            true => Ok(format!("used {}", names.join(", "))),
            false => Err(format!("{}; used: {}", wrong.join("; "), names.join(", "))),
        }
    }

    fn reply(&self, check: &Reply) -> Finding {
        let said = &self.outcome.said;
        let text = said.text.to_lowercase();
        let mut wrong = Vec::new();
        let has = |word: &String| text.contains(&word.to_lowercase());
        let missing = check.mentions.iter().filter(|any| !any.iter().any(has));
        wrong.extend(missing.map(|any| format!("says nothing of {}", any.join(" or "))));
        wrong.extend(
            check
                .must_not
                .iter()
                .filter(|w| has(w))
                .map(|w| format!("says {w:?}")),
        );
        if let Some(asks) = check.asks_question
            && asks != said.asks
        {
            wrong.push(
                (if asks {
                    "asks nothing"
                } else {
                    "asks something"
                })
                .to_owned(),
            );
        }
        let numbers = numbers(&said.text);
        let missing = check
            .numbers
            .iter()
            .filter(|n| !numbers.iter().any(|m| (*n - m).abs() < NEAR));
        wrong.extend(missing.map(|n| format!("does not say {n}")));
        if let Some(wanted) = &check.language {
            let wanted = self.wanted_language(wanted);
            let is = language_of(&said.text);
            if is != Some(wanted) {
                wrong.push(format!(
                    "is in {}, wanted {wanted}",
                    is.unwrap_or("no language that is known here")
                ));
            }
        }
        let shown: String = said.text.chars().take(160).collect();
        match wrong.is_empty() {
            true => Ok(shown),
            false => Err(format!("{}; it says: {shown}", wrong.join("; "))),
        }
    }

    /// The language of the run's wording, if the task wants that of its instruction and the wording
    /// does not ask for it by name. Else `wanted`.
    fn wanted_language<'w>(&self, wanted: &'w str) -> &'w str {
        let of_instruction = language_of(&self.task.instruction);
        let words = &self.outcome.words;
        match language_of(words) {
            Some(said) if of_instruction == Some(wanted) && !has_language_name(words, wanted) => {
                said
            }
            _ => wanted,
        }
    }

    fn memory(&self, check: &Memory) -> Finding {
        let regex = pattern(&check.regex)?;
        let sources = alternatives(&check.source);
        let notes = self.outcome.notes.iter();
        let mut fitting = notes.filter(|(source, _)| sources.contains(&source.as_str()));
        match fitting.find(|(_, text)| regex.is_match(text)) {
            Some((source, _)) => Ok(format!("a {source} matches")),
            None => Err(format!("no {} matches", check.source)),
        }
    }

    fn budget(&self, check: &Budget) -> Finding {
        let spent = &self.outcome.spent;
        let holds = check
            .max_model_calls
            .is_none_or(|max| spent.model_calls <= max)
            && check.max_wall_s.is_none_or(|max| spent.wall_s <= max)
            && check.max_cost_usd.is_none_or(|max| spent.usd <= max);
        let found = format!(
            "{} calls of a model, {:.1} s, ${:.4}",
            spent.model_calls, spent.wall_s, spent.usd
        );
        grade_if(holds, found)
    }
}

/// Compiles a pattern that ignores case.
fn pattern(written: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(written).case_insensitive(true).build();
    built.map_err(|e| format!("the pattern {written:?} can't be read: {e}"))
}

fn points(value: &Value) -> Option<Vec<Point>> {
    let points: Vec<[f64; 2]> = serde_json::from_value(value.clone()).ok()?;
    Some(points.iter().map(|[x, y]| Point::new(*x, *y)).collect())
}

/// Returns intersection over union, and the share of the first polygon that lies in the second.
fn overlap(shape: &[Point], region: &[Point]) -> (f64, f64) {
    let both = intersection_area(shape, region);
    let (a, b) = (polygon_area(shape), polygon_area(region));
    let any = a + b - both;
    let share = |of: f64| {
        if of > 0.0 {
            (both / of).clamp(0.0, 1.0)
        } else {
            0.0
        }
    };
    (share(any), share(a))
}

/// Returns the larger distance between the ends of two lines, in the better of both directions.
fn distance_of_ends(shape: &[Point], region: &[Point]) -> Option<f64> {
    let ([a, b], [c, d]) = (shape, region) else {
        return None;
    };
    let apart = |p: &Point, q: &Point| (p.x - q.x).hypot(p.y - q.y);
    let same = apart(a, c).max(apart(b, d));
    Some(same.min(apart(a, d).max(apart(b, c))))
}

/// Keys of the settings that a key of a check may mean. `more than 2` and `at least 3` are one
/// bound; an area over 1 is in pixels.
fn spellings<'k>(key: &'k str, value: &Value) -> Vec<&'k str> {
    let is_over_one = |v: &Value| v.as_f64().is_some_and(|v| v > 1.0);
    let mut numbers = value.as_array().into_iter().flatten().chain([value]);
    match key {
        "threshold" => vec!["threshold", "at_least", "at_most"],
        "min_area" if numbers.any(is_over_one) => vec!["min_area_px"],
        key => vec![key],
    }
}

/// Returns the counters that this name may mean.
fn fitting<'p>(
    played: &'p Played,
    name: &str,
    scene: &Scene,
) -> impl Iterator<Item = &'p super::play::Counter> {
    let (camera, rest) = match name.split_once('.') {
        Some((camera, rest)) if scene.camera(camera).is_some() => (Some(camera), rest),
        _ => (None, name),
    };
    let (camera, wanted) = (camera.map(str::to_owned), words(rest));
    played.counters.iter().filter(move |counter| {
        let mut sides = SIDES.iter().filter(|side| counter.words.contains(**side));
        camera.as_deref().is_none_or(|c| counter.camera == c)
            && wanted.is_subset(&counter.words)
            && sides.all(|side| wanted.contains(*side))
    })
}

/// Returns the values of the counters that this name may mean. `crossings_total` is also the sum
/// over the lines, `occupancy` what is in a zone.
fn counted(played: &Played, name: &str, scene: &Scene) -> Vec<f64> {
    let values =
        |name: &str| -> Vec<f64> { fitting(played, name, scene).map(|c| c.value).collect() };
    let mut all = values(name);
    if name.contains(CROSSINGS) {
        let totals = values(&name.replace(CROSSINGS, "total"));
        all.extend(totals.iter().copied().chain([totals.iter().sum()]));
    }
    if name.contains(OCCUPANCY) {
        all.extend(values(&name.replace(OCCUPANCY, "present")));
    }
    all
}

/// Returns the values of the counters that none of these names may mean.
fn uncounted(played: &Played, names: &[(String, Value)], scene: &Scene) -> Vec<f64> {
    let names = names
        .iter()
        .map(|(name, _)| name)
        .filter(|name| *name != OTHER);
    let named: Vec<_> = names
        .flat_map(|name| fitting(played, name, scene))
        .collect();
    let other = played
        .counters
        .iter()
        .filter(|counter| !named.contains(counter));
    other.map(|counter| counter.value).collect()
}

/// Describes the tools without a call that has the wanted arguments.
fn wrong_arguments(calls: &[Call], check: &Tools, zone: &TimeZone) -> Vec<String> {
    let mut wrong = Vec::new();
    for (tool, wanted) in &check.args {
        let names = alternatives(tool);
        let mut of_it = calls.iter().filter(|c| c.is(&names));
        if !of_it.any(|c| has_arguments(c, wanted, zone)) {
            let shown: Vec<String> = calls
                .iter()
                .filter(|c| c.is(&names))
                .map(|c| c.arguments.to_string().chars().take(200).collect())
                .collect();
            let wanted = serde_json::to_string(wanted).unwrap_or_default();
            wrong.push(format!("{tool} had {shown:?}, wanted {wanted}"));
        }
    }
    wrong
}

/// Whether a call has these arguments; the last part of a dotted name is enough.
fn has_arguments(call: &Call, wanted: &BTreeMap<String, Value>, zone: &TimeZone) -> bool {
    wanted
        .iter()
        .all(|(key, value)| is_equal(&dated(&call.arguments[key.as_str()], zone), value))
}

/// A local time with the offset of `zone`; other values as they are.
fn dated(value: &Value, zone: &TimeZone) -> Value {
    let local = value
        .as_str()
        .filter(|text| text.parse::<Timestamp>().is_err());
    let local = local.and_then(|text| text.parse::<DateTime>().ok());
    let at = local.and_then(|local| local.to_zoned(zone.clone()).ok());
    at.map_or_else(
        || value.clone(),
        |at| Value::from(at.timestamp().to_string()),
    )
}

/// Whether two values are equal: numbers within [`NEAR`], times as moments in any time zone.
fn is_equal(a: &Value, b: &Value) -> bool {
    if let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) {
        return (a - b).abs() < NEAR;
    }
    if let (Some(a), Some(b)) = (a.as_array(), b.as_array()) {
        return a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b));
    }
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        let moments = (a.parse::<Timestamp>(), b.parse::<Timestamp>());
        return a == b || matches!(moments, (Ok(a), Ok(b)) if a == b);
    }
    a == b
}

/// Returns the texts of a list, or of a single text.
fn set(value: &Value) -> Option<BTreeSet<String>> {
    let plain = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    match value {
        Value::Array(items) => Some(items.iter().map(plain).collect()),
        Value::String(_) => Some(BTreeSet::from([plain(value)])),
        _ => None,
    }
}

/// Evaluates a predicate on a setting. An absent setting equals null.
pub fn predicate(pred: &str, found: Option<&Value>, wanted: &Value) -> bool {
    let Some(found) = found.filter(|v| !v.is_null()) else {
        return pred == "exists" && *wanted == Value::Bool(false);
    };
    let sets = || Some((set(found)?, set(wanted)?));
    match pred {
        "exists" => *wanted != Value::Bool(false),
        "eq" => is_equal(found, wanted),
        "in" => wanted
            .as_array()
            .is_some_and(|all| all.iter().any(|w| is_equal(found, w))),
        "between" => {
            let bound = |i: usize| wanted.get(i).and_then(Value::as_f64);
            let is_between = |found: &Value| {
                found.as_f64().is_some_and(|v| {
                    bound(0).is_none_or(|min| v >= min - NEAR)
                        && bound(1).is_none_or(|max| v <= max + NEAR)
                })
            };
            match found {
                Value::Array(both) => !both.is_empty() && both.iter().all(is_between),
                one => is_between(one),
            }
        }
        "contains" => match (found, wanted) {
            (Value::String(text), Value::String(part)) => {
                text.to_lowercase().contains(&part.to_lowercase())
            }
            (Value::Array(items), one) => items.iter().any(|item| is_equal(item, one)),
            _ => false,
        },
        "subset" => sets().is_some_and(|(f, w)| f.is_subset(&w)),
        "superset" => sets().is_some_and(|(f, w)| f.is_superset(&w)),
        "set_eq" => sets().is_some_and(|(f, w)| f == w),
        "regex" => {
            let text = found
                .as_str()
                .map_or_else(|| found.to_string(), str::to_owned);
            wanted
                .as_str()
                .is_some_and(|p| pattern(p).is_ok_and(|r| r.is_match(&text)))
        }
        _ => false,
    }
}

/// Finds the numbers of a text, also those written as words.
fn numbers(text: &str) -> Vec<f64> {
    const WORDS: [&str; 13] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    let parts = text.split(|c: char| !(c.is_alphanumeric() || c == '.'));
    let number = |part: &str| {
        let part = part.trim_matches('.');
        let by_word = WORDS.iter().position(|w| w.eq_ignore_ascii_case(part));
        part.parse().ok().or(by_word.map(|n| n as f64))
    };
    parts.filter_map(number).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn predicate_accepts_only_matching_values() {
        for (pred, found, wanted, holds) in [
            ("eq", json!(3), json!(3.0), true),
            ("eq", json!("#a"), json!("#b"), false),
            (
                "eq",
                json!("2026-03-29T06:00:00Z"),
                json!("2026-03-29T08:00:00+02:00"),
                true,
            ),
            ("in", json!("a"), json!(["a", "b"]), true),
            ("in", json!("c"), json!(["a", "b"]), false),
            ("between", json!(3.5), json!([3, 3.5]), true),
            ("between", json!(3.6), json!([3, 3.5]), false),
            ("between", json!(9), json!([3, null]), true),
            ("between", json!([0.4, 0.6]), json!([0.3, 0.7]), true),
            ("between", json!([0.2, 0.6]), json!([0.3, 0.7]), false),
            ("eq", json!([1, 2.0]), json!([1.0, 2]), true),
            ("contains", json!(["car", "bus"]), json!("car"), true),
            ("contains", json!("Security"), json!("secur"), true),
            ("contains", json!(["car"]), json!("bus"), false),
            ("subset", json!(["car"]), json!(["car", "bus"]), true),
            ("subset", json!(["cat"]), json!(["car", "bus"]), false),
            (
                "superset",
                json!(["car", "bus", "cat"]),
                json!(["car", "bus"]),
                true,
            ),
            ("superset", json!(["car"]), json!(["car", "bus"]), false),
            ("set_eq", json!(["bus", "car"]), json!(["car", "bus"]), true),
            ("set_eq", json!(["car"]), json!(["car", "bus"]), false),
            ("regex", json!("door-3"), json!("^door-\\d$"), true),
            ("regex", json!("gate"), json!("^door"), false),
            ("exists", json!(0), json!(null), true),
            ("exists", json!(0), json!(false), false),
            ("loud", json!(0), json!(0), false),
        ] {
            assert_eq!(
                predicate(pred, Some(&found), &wanted),
                holds,
                "{found} {pred} {wanted}"
            );
        }
        assert!(!predicate("between", None, &json!([0, 1])));
        assert!(!predicate("exists", None, &json!(true)));
        assert!(predicate("exists", None, &json!(false)));
    }

    #[test]
    fn lines_are_compared_by_ends_in_both_directions() {
        let line = |x: f64| vec![Point::new(x, 0.0), Point::new(x, 1.0)];
        let mut turned = line(0.5);
        turned.reverse();
        assert_eq!(distance_of_ends(&turned, &line(0.5)), Some(0.0));
        assert!(distance_of_ends(&line(0.6), &line(0.5)).unwrap() > 0.09);
        assert!(distance_of_ends(&line(0.5)[..1], &line(0.5)).is_none());
    }

    #[test]
    fn wanted_language_is_that_of_a_wording_in_another_one() {
        let task = Task {
            instruction: "Pausiere die Kamera am Tor bis morgen um acht Uhr.".to_owned(),
            ..Task::default()
        };
        let wanted = |words: &str, wanted: &str| {
            let outcome = Outcome {
                words: words.to_owned(),
                ..Outcome::default()
            };
            let grader = Grader::new(&task, &outcome, &Models::default());
            grader.wanted_language(wanted).to_owned()
        };
        let english = "Pause the gate camera until eight tomorrow morning.";
        assert_eq!(wanted(english, "de"), "en");
        assert_eq!(wanted(&task.instruction, "de"), "de");
        assert_eq!(wanted("w1 42", "de"), "de");
        assert_eq!(wanted(english, "fr"), "fr", "a language that was asked for");
        let asks_for_german = "Answer in German: until when is the gate camera paused?";
        assert_eq!(wanted(asks_for_german, "de"), "de");
        let asks_for_english = "Answer in English: until when is the gate camera paused?";
        assert_eq!(wanted(asks_for_english, "de"), "en");
    }

    #[test]
    fn numbers_are_found_in_digits_and_words() {
        assert_eq!(
            numbers("Stop three pipelines: 4, 5.5 and x9."),
            [3.0, 4.0, 5.5]
        );
    }

    #[test]
    fn other_cameras_lines_and_zones_are_counted() {
        let scene: Scene =
            serde_json::from_value(json!({"cameras": [{"id": "a"}, {"id": "b"}]})).unwrap();
        let counter = |camera: &str, name: &str, value: f64| super::super::play::Counter {
            camera: camera.to_owned(),
            words: words(name),
            value,
        };
        let played = Played {
            counters: vec![
                counter("a", "gate total", 3.0),
                counter("b", "door total", 4.0),
                counter("b", "room present", 2.0),
            ],
            ..Played::default()
        };
        assert!(counted(&played, "crossings_total", &scene).contains(&7.0));
        assert!(counted(&played, "b.crossings_total", &scene).contains(&4.0));
        assert!(!counted(&played, "b.crossings_total", &scene).contains(&7.0));
        assert_eq!(counted(&played, "b.occupancy", &scene), [2.0]);
        let named = [
            ("gate.total".to_owned(), json!(3)),
            ("*other".to_owned(), json!(0)),
        ];
        assert_eq!(uncounted(&played, &named, &scene), [4.0, 2.0]);
    }

    #[test]
    fn local_time_of_an_argument_is_in_the_scenes_zone() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let wanted = json!("2026-10-25T07:00:00+01:00");
        assert!(is_equal(&dated(&json!("2026-10-25T07:00"), &zone), &wanted));
        assert!(!is_equal(
            &dated(&json!("2026-10-25T08:00"), &zone),
            &wanted
        ));
        assert_eq!(dated(&json!("w1"), &zone), json!("w1"));
    }
}
