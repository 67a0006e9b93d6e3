//! Finds the nearest other detection of each detection.

use crate::workflow::block_api::prelude::*;

const POINTS: Shape = Shape::Choice(&[
    "CENTER",
    "CENTER_LEFT",
    "CENTER_RIGHT",
    "TOP_CENTER",
    "TOP_LEFT",
    "TOP_RIGHT",
    "BOTTOM_LEFT",
    "BOTTOM_CENTER",
    "BOTTOM_RIGHT",
    "KEYPOINT",
]);

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/detections_nearest_neighbor@v1",
    summary: "Finds the nearest target of each detection and its distance, by points of boxes or \
              by keypoints.",
    properties: &[
        Property::data("query_predictions", DETECTIONS)
            .about("the detections to find a neighbour for"),
        Property::data("target_predictions", DETECTIONS)
            .about("the detections that may be neighbours"),
        Property::value_or("query_point", POINTS, Or::Text("CENTER"))
            .about("the point of a detection to measure from"),
        Property::value_or("target_point", POINTS, Or::Text("CENTER"))
            .about("the point of a target to measure to"),
        Property::optional("query_keypoint_name", Shape::Text)
            .about("name of the keypoint, where query_point is KEYPOINT"),
        Property::optional("target_keypoint_name", Shape::Text)
            .about("name of the keypoint, where target_point is KEYPOINT"),
        Property::optional("max_distance", Shape::at_least(0)).about("maximum distance in pixels"),
    ],
    outputs: &[
        Output::new("query_predictions", DETECTIONS),
        Output::new("matched_query_detections", DETECTIONS),
        Output::new("matched_target_detections", DETECTIONS),
    ],
    build: |_| Ok(Box::new(run)),
    keeps_classes: true,
    ..Manifest::of("classical_computer_vision")
}];

/// Maximum number of detections on each side.
const MAX_DETECTIONS: usize = 1000;
/// Maximum number of pairs in the result.
const MAX_PAIRS: usize = 10_000;
/// Pixels by which a target may be farther than the nearest and still count as nearest.
const TIE: f64 = 1.0;

/// Points of the detections; none for one without the keypoint.
fn points(
    call: &Call<'_>,
    all: &Detections,
    point: Arg,
    keypoint: Arg,
) -> Result<Vec<Option<Point>>, String> {
    if all.boxes.len() > MAX_DETECTIONS {
        return Err(format!(
            "{} detections are too many to compare; at most {MAX_DETECTIONS} are",
            all.boxes.len()
        ));
    }
    if call.text(point)? != "KEYPOINT" {
        let anchor = call.anchor(point)?;
        return Ok(all
            .boxes
            .iter()
            .map(|d| Some(d.anchor(anchor, all.size)))
            .collect());
    }
    let name = call
        .arg(keypoint)
        .as_str()
        .ok_or("KEYPOINT needs the name of a keypoint")?;
    let of = |d: &Detection| {
        let points = d.keypoints()?;
        Some(points.iter().find(|p| &*p.class == name)?.at)
    };
    if !all.boxes.is_empty() && all.boxes.iter().all(|d| d.keypoints().is_none()) {
        return Err("KEYPOINT needs detections with keypoints".to_owned());
    }
    Ok(all.boxes.iter().map(of).collect())
}

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let queries = call.detections(arg!("query_predictions"))?;
    let targets = call.detections(arg!("target_predictions"))?;
    let from = points(
        call,
        queries,
        arg!("query_point"),
        arg!("query_keypoint_name"),
    )?;
    let to = points(
        call,
        targets,
        arg!("target_point"),
        arg!("target_keypoint_name"),
    )?;
    let most = call
        .optional(arg!("max_distance"), Call::number)?
        .unwrap_or(f64::INFINITY);
    let mut out = Detections::clone(queries);
    let (mut pairs_from, mut pairs_to) = (Vec::new(), Vec::new());
    for (i, d) in out.boxes.iter_mut().enumerate() {
        let distance = |j: usize| {
            let a = from.get(i).copied().flatten()?;
            let b = to.get(j).copied().flatten()?;
            // A detection is not its own neighbour.
            let is_other = targets.boxes.get(j).is_some_and(|t| t.id != d.id);
            let distance = (a.x - b.x).hypot(a.y - b.y);
            (is_other && distance <= most).then_some(distance)
        };
        let distances: Vec<Option<f64>> = (0..targets.boxes.len()).map(distance).collect();
        let least = distances
            .iter()
            .flatten()
            .copied()
            .fold(f64::INFINITY, f64::min);
        // Infinity is null in JSON.
        d.set_data("nearest_target_distance", least);
        for (j, _) in distances
            .iter()
            .enumerate()
            .filter(|(_, n)| n.is_some_and(|n| n <= least + TIE))
        {
            pairs_from.push(i);
            pairs_to.push(j);
        }
        if pairs_to.len() > MAX_PAIRS {
            return Err(format!("more than {MAX_PAIRS} pairs are equally near"));
        }
    }
    call.put(1, out.pick(pairs_from));
    call.put(2, targets.pick(pairs_to));
    call.finish(out)
}
