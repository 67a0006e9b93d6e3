//! New pipelines: the specification of each watch.

use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{Condition, RuleSpec};
use watchkeeper_engine::templates::shape::{NamedLine, NamedZone, OUTPUTS};
use watchkeeper_engine::templates::watch::{self, NamedCount, Watch};

use super::{ChangeSet, sentence::sentence};
use crate::answer::{Change, Missing};
use crate::kinds::name_of;
use crate::new_watch::NewWatch;
use crate::place::Where;
use crate::reader::one_of;
use crate::refusal::Refusal;
use crate::request::slug;
use crate::scene::{Scene, Shape};

/// Makes a new pipeline of each watch.
pub(crate) fn deploy(watches: &[NewWatch], scene: &Scene) -> Result<ChangeSet, Refusal> {
    let ids = scene.pipelines.iter().map(|p| p.spec.id.to_string());
    let mut taken: Vec<String> = ids.collect();
    let (mut changes, mut texts) = (Vec::new(), Vec::new());
    for watch in watches {
        let wanted = pipeline_name(watch);
        let others = (2..).map(|nth| format!("{wanted}-{nth}"));
        let mut names = std::iter::once(wanted.clone()).chain(others);
        let name = names.find(|name| !taken.contains(name)).unwrap_or_default();
        taken.push(name.clone());
        let id = PipelineId::new(name)
            .map_err(|e| Refusal::meaning(format!("{e}. Say it with another name.")))?;
        changes.push(Change::Deploy(Box::new(spec(watch, id, scene)?)));
        texts.push(sentence(watch));
    }
    let text = texts.join(" ");
    Ok(ChangeSet { changes, text })
}

fn pipeline_name(watch: &NewWatch) -> String {
    let what = watch.conditions.first().map_or("count", name_of);
    let camera: String = watch.camera.as_str().chars().take(16).collect();
    let words = watch.objects.said.split(' ');
    let first: Vec<&str> = words.take_while(|w| !one_of("or|but", w)).collect();
    let objects: String = slug(&first.join(" ")).chars().take(12).collect();
    let objects = if objects.is_empty() { "all" } else { &objects };
    let name = format!("{camera}-{objects}-{what}");
    name.chars().take(36).collect()
}

fn spec(watch: &NewWatch, id: PipelineId, scene: &Scene) -> Result<PipelineSpec, Refusal> {
    let mut built = Watch {
        classes: watch.objects.labels.clone(),
        confidence: watch.settings.confidence,
        ..Watch::default()
    };
    if let Some(place) = &watch.place {
        draw(place, watch, scene, &mut built)?;
    }
    let counts = watch.counts.then(|| count(watch, &built.zones));
    built.counts.extend(counts);
    watch::unique_names(&built).map_err(|e| Refusal::meaning(e.to_string()))?;
    watch::plain_classes(&built).map_err(|e| Refusal::new(Missing::Class, e.to_string()))?;
    let workflow = watch::workflow(&built, &watch.model);
    let rule = |when: &Condition| {
        let mut rule = RuleSpec::new(name_of(when).to_owned(), when.clone());
        watch.settings.set_on(&mut rule);
        rule
    };
    Ok(PipelineSpec {
        rules: Some(watch.conditions.iter().map(rule).collect()),
        stop_after_s: watch.settings.stop_after_s,
        ..PipelineSpec::new(id, watch.camera.clone(), workflow)
    })
}

/// Draws a place in the pixels of its camera's picture.
fn draw(place: &Where, watch: &NewWatch, scene: &Scene, built: &mut Watch) -> Result<(), Refusal> {
    let size = scene.camera(&watch.camera).and_then(|c| c.size);
    let [w, h] = size.filter(|[w, h]| *w > 0 && *h > 0).ok_or_else(|| {
        let text = format!(
            "The camera {} has shown no picture yet, so nothing can be placed in it. Ask again when it does.",
            watch.camera
        );
        Refusal::new(Missing::Picture, text)
    })?;
    let pixel = |[x, y]: &[f64; 2]| [(x * f64::from(w)).round(), (y * f64::from(h)).round()];
    let name = place.step();
    match &place.shape {
        Shape::Line(a, b) => {
            let (from, to) = (pixel(a), pixel(b));
            built.lines.push(NamedLine { name, from, to });
        }
        Shape::Zone(points) => {
            let points = points.iter().map(pixel).collect();
            built.zones.push(NamedZone { name, points });
        }
    }
    Ok(())
}

/// Names the count of a watch's objects.
fn count(watch: &NewWatch, zones: &[NamedZone]) -> NamedCount {
    let slug = slug(&watch.objects.said);
    let name = if slug.is_empty() { "objects" } else { &slug };
    let step = watch.place.as_ref().map(Where::step).unwrap_or_default();
    NamedCount {
        name: match OUTPUTS.contains(&name) || name == step {
            true => format!("{name}-now"),
            false => name.to_owned(),
        },
        zone: zones.first().map(|z| z.name.clone()),
    }
}
