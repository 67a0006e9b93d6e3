//! New pipelines: the specification of each watch.

use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{Condition, RuleSpec};
use watchkeeper_engine::templates::shape::{NamedLine, NamedZone};
use watchkeeper_engine::templates::watch::{self, NamedCount, Watch};

use super::sentence::sentence;
use crate::answer::{Change, Missing};
use crate::intent::WatchFor;
use crate::need::Need;
use crate::place::Said;
use crate::request::slug;
use crate::scene::{Scene, Shape};

/// Returns a change for each watch, and the sentences about them.
pub(super) fn deploy(watches: &[WatchFor], scene: &Scene) -> Result<(Vec<Change>, String), Need> {
    let ids = scene.pipelines.iter().map(|p| p.spec.id.to_string());
    let mut taken: Vec<String> = ids.collect();
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
            .map_err(|e| Need::meaning(format!("{e}. Say it with another name.")))?;
        changes.push(Change::Deploy(Box::new(spec(watch, id, scene)?)));
        texts.push(sentence(watch));
    }
    Ok((changes, texts.join(" ")))
}

fn pipeline_name(watch: &WatchFor) -> String {
    let what = watch.conditions.first().map_or("count", kind);
    let camera: String = watch.camera.as_str().chars().take(16).collect();
    let objects = whole_words(&slug(&watch.objects.said), 12);
    let objects = if objects.is_empty() { "all" } else { &objects };
    format!("{camera}-{objects}-{what}")
        .chars()
        .take(36)
        .collect()
}

/// The first words of a slug, in at most `max` letters: "person" of "person-or-bicycle".
fn whole_words(slug: &str, max: usize) -> String {
    if slug.len() <= max {
        return slug.trim_end_matches('-').to_owned();
    }
    let cut: String = slug.chars().take(max + 1).collect();
    let words = cut.rsplit_once('-').map(|(words, _)| words);
    let words = words.or(cut.get(..max)).unwrap_or_default();
    let words = words.trim_end_matches("-or").trim_end_matches("-and");
    words.trim_end_matches('-').to_owned()
}

fn spec(watch: &WatchFor, id: PipelineId, scene: &Scene) -> Result<PipelineSpec, Need> {
    let shapes = match &watch.place {
        Some(place) => shapes(place, watch, scene)?,
        None => Shapes::default(),
    };
    let counts = watch.counts.then(|| count(watch, &shapes.zones));
    let built = Watch {
        classes: watch.objects.labels.clone(),
        lines: shapes.lines,
        zones: shapes.zones,
        confidence: watch.settings.confidence,
        counts: counts.into_iter().collect(),
        ..Watch::default()
    };
    watch::unique_names(&built).map_err(|e| Need::meaning(e.to_string()))?;
    watch::plain_classes(&built).map_err(|e| Need::new(Missing::Class, e.to_string()))?;
    let workflow = watch::workflow(&built, &watch.model);
    Ok(PipelineSpec {
        rules: Some(rules(watch)),
        stop_after_s: watch.settings.stop_after_s,
        ..PipelineSpec::new(id, watch.camera.clone(), workflow)
    })
}

/// Lines and zones in pixels.
#[derive(Default)]
struct Shapes {
    lines: Vec<NamedLine>,
    zones: Vec<NamedZone>,
}

/// Draws a place in the pixels of its camera's picture.
fn shapes(place: &Said, watch: &WatchFor, scene: &Scene) -> Result<Shapes, Need> {
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
    let mut shapes = Shapes::default();
    match &place.shape {
        Shape::Line(a, b) => shapes.lines.push(NamedLine {
            name: place.step(),
            from: pixel(a),
            to: pixel(b),
        }),
        Shape::Zone(points) => shapes.zones.push(NamedZone {
            name: place.step(),
            points: points.iter().map(pixel).collect(),
        }),
    }
    Ok(shapes)
}

/// Names the count of a watch's objects.
fn count(watch: &WatchFor, zones: &[NamedZone]) -> NamedCount {
    let name = slug(&watch.objects.said);
    let name = if name.is_empty() {
        "objects".to_owned()
    } else {
        name
    };
    let clashes = watch
        .place
        .as_ref()
        .map(Said::step)
        .is_some_and(|step| step == name || step == format!("count-{name}"));
    NamedCount {
        name: if clashes || matches!(name.as_str(), "tracked" | "annotated") {
            format!("{name}-now")
        } else {
            name
        },
        zone: zones.first().map(|z| z.name.clone()),
    }
}

/// Returns a rule for each condition and each span of hours.
fn rules(watch: &WatchFor) -> Vec<RuleSpec> {
    let awake = watch.settings.awake.as_slice();
    let mut rules = Vec::new();
    for when in &watch.conditions {
        let kind = kind(when);
        for nth in 0..awake.len().max(1) {
            let name = match nth {
                0 => kind.to_owned(),
                nth => format!("{kind}-{}", nth + 1),
            };
            let mut rule = RuleSpec::new(name, when.clone());
            watch.settings.set_on(&mut rule, awake.get(nth));
            rules.push(rule);
        }
    }
    rules
}

/// Returns the name of a rule with this condition.
fn kind(when: &Condition) -> &'static str {
    match when {
        Condition::Appears { .. } => "appears",
        Condition::Enters { .. } => "enters",
        Condition::Leaves { .. } => "leaves",
        Condition::Stays { .. } => "stays",
        Condition::Crosses { .. } => "crosses",
        _ => "number",
    }
}
