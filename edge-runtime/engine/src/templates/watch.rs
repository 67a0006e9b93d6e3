//! The workflow of a watch: detect, track, count at lines, time in zones, draw.
//!
//! Callers: `watchkeeper run --watch`, requests in plain English and the tools of the LLM.
//!
//! - Each line and zone has one step of its own name, so counts, events and drawings carry it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use watchkeeper_vision::geometry::Point;
pub use watchkeeper_vision::tiles::Tiles;

use super::drawing;
use super::shape::{COUNT_PREFIX, InterestRegion, NamedLine, NamedZone};

/// Selector of the tracker's output.
pub const TRACKED: &str = "$steps.tracker.tracked_detections";
/// Default minimum score of a detection: the lower bound of ByteTrack's second association (Zhang
/// et al., ECCV 2022, section 3). It keeps tracks alive through weak detections.
pub const CONFIDENCE: f64 = 0.1;
/// The motion detector, whose scores measure contrast and persistence instead of likeness.
pub const MOTION: &str = "motion";
/// Name of the step that drops what lies in no region.
const REGION: &str = "region";
/// Points of a line at which [`lines_beside_regions`] looks.
const POINTS_OF_LINE: u32 = 200;
/// Overlap above which non-maximum suppression removes a box: YOLOX's own value.
pub const IOU: f64 = 0.45;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Watch {
    /// Classes to detect; empty for all.
    pub classes: Vec<String>,
    pub lines: Vec<NamedLine>,
    pub zones: Vec<NamedZone>,
    /// Minimum score of a detection.
    pub confidence: Option<f64>,
    pub counts: Vec<NamedCount>,
    /// Tiles to examine besides the whole picture; absent: none.
    pub tiles: Option<Tiles>,
    /// Regions of interest in pixels: objects whose centre is in none of them are dropped before
    /// tracking. Empty for the whole picture.
    pub regions: Vec<InterestRegion>,
}

/// The current number of objects, as an output of the workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedCount {
    /// Name of the output; the step is called `count-NAME`.
    pub name: String,
    /// Zone to count in; the whole picture if absent.
    pub zone: Option<String>,
}

/// Two lines or zones of the same name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the name {0:?} is used twice; every line and zone needs a name of its own")]
pub struct DuplicateName(String);

/// Refuses a name that is used twice.
///
/// # Errors
/// [`DuplicateName`] with the first such name.
pub fn unique_names(watch: &Watch) -> Result<(), DuplicateName> {
    let mut seen = BTreeSet::new();
    let lines = watch.lines.iter().map(|l| &l.name);
    let zones = watch.zones.iter().map(|z| &z.name);
    match lines.chain(zones).find(|name| !seen.insert(name.as_str())) {
        Some(name) => Err(DuplicateName(name.clone())),
        None => Ok(()),
    }
}

/// A class that the workflow language would read as a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the class {0:?} begins with '$', which marks a selector; use another name")]
pub struct InvalidClass(String);

/// Refuses a class that can't be written in a workflow.
///
/// # Errors
/// [`InvalidClass`] with the first such class.
pub fn plain_classes(watch: &Watch) -> Result<(), InvalidClass> {
    match watch.classes.iter().find(|class| class.starts_with('$')) {
        Some(class) => Err(InvalidClass(class.clone())),
        None => Ok(()),
    }
}

/// Names of the lines that have no part in a region of interest.
pub fn lines_beside_regions(watch: &Watch) -> impl Iterator<Item = &str> {
    let regions = watch.regions.iter().map(|InterestRegion(corners)| {
        let corners = corners.iter().map(|[x, y]| Point::new(*x, *y));
        corners.collect::<Vec<_>>()
    });
    let regions: Vec<_> = regions.collect();
    let beside = watch.lines.iter().filter(move |line| {
        let mut points = (0..=POINTS_OF_LINE).map(|n| point_on(line, n));
        !regions.is_empty() && !points.any(|point| regions.iter().any(|r| point.is_inside(r)))
    });
    beside.map(|line| line.name.as_str())
}

/// Point `n` of [`POINTS_OF_LINE`] from the start of a line to its end.
fn point_on(line: &NamedLine, n: u32) -> Point {
    let share = f64::from(n) / f64::from(POINTS_OF_LINE);
    let [x, y] = [0, 1].map(|i| line.from[i] + share * (line.to[i] - line.from[i]));
    Point::new(x, y)
}

/// Builds the workflow: detect, track, count at each line, time in each zone, draw.
pub fn workflow(watch: &Watch, model: &str) -> Value {
    let mut steps = vec![detect_step(watch, model)];
    steps.extend(region_step(watch));
    steps.push(tracker_step(watch));
    steps.extend(watch.lines.iter().map(line_step));
    steps.extend(watch.zones.iter().map(zone_step));
    steps.extend(watch.counts.iter().map(count_step));
    let mut canvas = "$inputs.image".to_owned();
    for mut step in drawing_steps(watch) {
        let name = step["name"].as_str().unwrap_or_default().to_owned();
        step["image"] = json!(canvas);
        canvas = format!("$steps.{name}.image");
        steps.push(step);
    }
    let mut outputs = vec![output("tracked", TRACKED), output("annotated", &canvas)];
    for line in &watch.lines {
        for side in ["count_in", "count_out"] {
            outputs.push(output(
                &format!("{}_{side}", line.name),
                &format!("$steps.{}.{side}", line.name),
            ));
        }
    }
    for zone in &watch.zones {
        let selector = format!("$steps.{}.timed_detections", zone.name);
        outputs.push(output(&zone.name, &selector));
    }
    for count in &watch.counts {
        let selector = format!("$steps.{}{}.output", COUNT_PREFIX, count.name);
        outputs.push(output(&count.name, &selector));
    }
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": steps,
        "outputs": outputs,
    })
}

fn detect_step(watch: &Watch, model: &str) -> Value {
    let mut step = json!({
        "type": "roboflow_core/roboflow_object_detection_model@v2",
        "name": "detect",
        "images": "$inputs.image",
        "model_id": model,
        "confidence": watch.confidence.unwrap_or(CONFIDENCE),
        "iou_threshold": IOU,
    });
    if !watch.classes.is_empty() {
        step["class_filter"] = json!(watch.classes);
    }
    if let Some(tiles) = watch.tiles {
        step["type"] = json!("watchkeeper/tiled_object_detection@v1");
        step["tiles"] = json!(tiles.to_string());
    }
    step
}

/// Keeps the objects whose centre is in a region; `None` without regions.
fn region_step(watch: &Watch) -> Option<Value> {
    let statements = watch.regions.iter().map(|region| {
        json!({
            "type": "BinaryStatement",
            "left_operand": {"type": "DynamicOperand", "operand_name": "_"},
            "comparator": {"type": "(Detection) in zone"},
            "right_operand": {
                "type": "StaticOperand",
                "value": region.0.iter().copied().map(pixel).collect::<Vec<_>>(),
            },
        })
    });
    let statements: Vec<Value> = statements.collect();
    (!statements.is_empty()).then(|| {
        json!({
            "type": "roboflow_core/detections_filter@v1",
            "name": REGION,
            "predictions": "$steps.detect.predictions",
            "operations": [{
                "type": "DetectionsFilter",
                "filter_operation": {
                    "type": "StatementGroup",
                    "operator": "or",
                    "statements": statements,
                },
            }],
        })
    })
}

fn tracker_step(watch: &Watch) -> Value {
    let detector = if watch.regions.is_empty() {
        "detect"
    } else {
        REGION
    };
    json!({
        "type": "watchkeeper/tracker@v1",
        "name": "tracker",
        "image": "$inputs.image",
        "detections": format!("$steps.{detector}.predictions"),
    })
}

fn line_step(line: &NamedLine) -> Value {
    json!({
        "type": "watchkeeper/line_counter@v1",
        "name": line.name,
        "image": "$inputs.image",
        "detections": TRACKED,
        "line_segment": [pixel(line.from), pixel(line.to)],
    })
}

fn zone_step(zone: &NamedZone) -> Value {
    json!({
        "type": "roboflow_core/time_in_zone@v3",
        "name": zone.name,
        "image": "$inputs.image",
        "detections": TRACKED,
        "zone": zone.points.iter().copied().map(pixel).collect::<Vec<_>>(),
    })
}

fn count_step(count: &NamedCount) -> Value {
    let counted = match &count.zone {
        Some(zone) => format!("$steps.{zone}.timed_detections"),
        None => TRACKED.to_owned(),
    };
    json!({
        "type": "roboflow_core/property_definition@v1",
        "name": format!("{COUNT_PREFIX}{}", count.name),
        "data": counted,
        "operations": [{"type": "SequenceLength"}],
    })
}

fn drawing_steps(watch: &Watch) -> Vec<Value> {
    let named = |name: &str, mut step: Value| {
        step["name"] = json!(name);
        step
    };
    let mut steps: Vec<Value> = watch.zones.iter().map(draw_zone).collect();
    steps.push(named("tints", drawing::tints(TRACKED, "TRACK")));
    steps.push(json!({
        "type": "roboflow_core/trace_visualization@v1",
        "name": "traces",
        "predictions": TRACKED,
        "color_axis": "TRACK",
    }));
    steps.push(named("boxes", drawing::boxes(TRACKED, "TRACK")));
    steps.extend(watch.lines.iter().map(|line| {
        let ends = json!([pixel(line.from), pixel(line.to)]);
        named(
            &format!("draw-{}", line.name),
            drawing::line(&line.name, &ends),
        )
    }));
    steps.push(named("labels", drawing::labels(TRACKED, "TRACK")));
    steps
}

fn draw_zone(zone: &NamedZone) -> Value {
    let corners: Vec<Value> = zone.points.iter().copied().map(pixel).collect();
    let inside = format!("$steps.{}.timed_detections", zone.name);
    let mut step = drawing::zone(&zone.name, &json!(corners), Some(&inside));
    step["name"] = json!(format!("draw-{}", zone.name));
    step
}

fn output(name: &str, selector: &str) -> Value {
    json!({"type": "JsonField", "name": name, "selector": selector})
}

/// Writes a point with whole pixels as integers.
fn pixel(point: [f64; 2]) -> Value {
    let number = |n: f64| {
        if n.fract() == 0.0 && n.abs() < 1e9 {
            json!(n as i64)
        } else {
            json!(n)
        }
    };
    json!([number(point[0]), number(point[1])])
}

/// Returns the model of all detection steps, if it is the same text in all of them.
pub fn named_model(workflow: &Value) -> Option<&str> {
    let steps = workflow["steps"].as_array()?;
    let mut names = steps.iter().filter_map(|step| step["model_id"].as_str());
    let first = names.next()?;
    names.all(|name| name == first).then_some(first)
}

/// Returns the classes that all detection steps keep; `None` if they keep all classes, or differ.
pub fn named_classes(workflow: &Value) -> Option<Vec<String>> {
    let steps = workflow["steps"].as_array()?;
    let mut lists = steps
        .iter()
        .filter_map(|step| step["class_filter"].as_array());
    let first = lists.next()?;
    lists.all(|list| list == first).then_some(())?;
    let labels = first.iter().map(|label| label.as_str().map(str::to_owned));
    labels.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(lines: &[&str], zones: &[&str], classes: &[&str]) -> Watch {
        Watch {
            classes: classes.iter().map(|c| (*c).to_owned()).collect(),
            lines: lines.iter().map(|l| l.parse().unwrap()).collect(),
            zones: zones.iter().map(|z| z.parse().unwrap()).collect(),
            ..Watch::default()
        }
    }

    #[test]
    fn tiles_and_regions_are_steps_before_the_tracker() {
        let mut watch = watch(&[], &[], &["person"]);
        watch.tiles = Some(Tiles::Auto);
        watch.regions = ["0,0,9,0,9,9", "20,0,29.5,0,29,9"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        let built = workflow(&watch, "yolox-nano");
        let report = crate::workflow::validate(&built);
        assert!(report.ok, "{:#?}", report.errors);
        assert_eq!(built["steps"][0]["tiles"], json!("auto"));
        let filter = &built["steps"][1]["operations"][0]["filter_operation"];
        assert_eq!(
            filter["statements"][1]["right_operand"]["value"][1],
            json!([29.5, 0])
        );
        assert_eq!(
            built["steps"][2]["detections"],
            json!("$steps.region.predictions")
        );
    }

    #[test]
    fn line_without_a_part_in_a_region_is_beside_it() {
        let mut watch = watch(&["below:0,50,100,50", "border:0,40,100,40"], &[], &[]);
        watch.lines.push("through:10,0,10,100".parse().unwrap());
        assert_eq!(lines_beside_regions(&watch).count(), 0);
        watch.regions = vec!["0,0,100,0,100,40,0,40".parse().unwrap()];
        let beside: Vec<_> = lines_beside_regions(&watch).collect();
        assert_eq!(beside, ["below", "border"]);
    }

    #[test]
    fn built_workflow_equals_the_golden_file() {
        let watch = watch(
            &["door:0,218,640,218", "gate:10.5,0,10,480"],
            &["desk:100,100,500,100,500,400"],
            &["person", "car"],
        );
        let built = workflow(&watch, "yolox-nano");
        let text = format!("{}\n", serde_json::to_string_pretty(&built).unwrap());
        let golden =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/templates/watch.json");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&golden).unwrap();
        assert!(
            kept == text,
            "UPDATE_GOLDEN=1 rewrites {}\n{text}",
            golden.display()
        );
    }

    #[test]
    fn built_workflow_compiles() {
        let watch = watch(&["l:0,0,9,9"], &["z:0,0,9,0,9,9"], &["person"]);
        let report = crate::workflow::validate(&workflow(&watch, "yolox-nano"));
        assert!(report.ok, "{:#?}", report.errors);
    }

    #[test]
    fn count_is_an_output_of_the_built_workflow() {
        let mut watch = watch(&[], &["desk:0,0,9,0,9,9"], &[]);
        let count = |name: &str, zone: Option<&str>| NamedCount {
            name: name.to_owned(),
            zone: zone.map(str::to_owned),
        };
        watch.counts = vec![count("people", None), count("waiting", Some("desk"))];
        let report = crate::workflow::validate(&workflow(&watch, "yolox-nano"));
        assert!(report.ok, "{:#?}", report.errors);
        assert!(report.outputs.contains_key("people") && report.outputs.contains_key("waiting"));
    }

    #[test]
    fn no_classes_means_all_classes() {
        let built = workflow(&watch(&[], &[], &[]), "motion");
        assert!(built["steps"][0].get("class_filter").is_none());
    }

    #[test]
    fn every_selector_names_an_earlier_step() {
        let built = workflow(&watch(&["l:0,0,9,9"], &["z:0,0,9,0,9,9"], &[]), "motion");
        let mut known = vec!["$inputs.image".to_owned()];
        for step in built["steps"].as_array().unwrap() {
            for (key, value) in step.as_object().unwrap() {
                let Some(selector) = value.as_str().filter(|v| v.starts_with('$')) else {
                    continue;
                };
                let root = selector.rsplit_once('.').map_or(selector, |(root, _)| root);
                assert!(
                    known.iter().any(|k| k == root || k == selector),
                    "{key} of {} names {selector}",
                    step["name"]
                );
            }
            known.push(format!("$steps.{}", step["name"].as_str().unwrap()));
        }
    }

    #[test]
    fn name_used_twice_is_refused() {
        let twice = watch(&["a:0,0,9,9"], &["a:0,0,9,0,9,9"], &[]);
        assert_eq!(unique_names(&twice), Err(DuplicateName("a".to_owned())));
    }

    #[test]
    fn class_like_a_selector_is_refused() {
        let odd = watch(&[], &[], &["person", "$car"]);
        assert_eq!(plain_classes(&odd), Err(InvalidClass("$car".to_owned())));
    }

    #[test]
    fn named_model_needs_all_steps_to_agree() {
        let one = workflow(&watch(&[], &[], &[]), "yolox-nano");
        assert_eq!(named_model(&one), Some("yolox-nano"));
        let two = json!({"steps": [{"model_id": "a"}, {"model_id": "b"}]});
        assert_eq!(named_model(&two), None);
    }
}
