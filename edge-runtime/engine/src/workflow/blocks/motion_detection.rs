//! Detects motion.

use watchkeeper_vision::geometry::polygon_area;
use watchkeeper_vision::imaging::background::Background;
use watchkeeper_vision::imaging::morphology::{self, Kernel};
use watchkeeper_vision::outline::{around, perimeter, simplified};

use super::background_subtraction::{learner, look};
use crate::workflow::block_api::prelude::*;
use crate::workflow::block_api::shape::MAX_POINTS;
use crate::workflow::blocks::common::per_video::PerVideo;
use crate::workflow::blocks::common::picture_filter::KERNELS;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/motion_detection@v1",
    summary: "Detects motion against a learned background, and when it starts.",
    properties: &[
        IMAGE,
        Property::count("minimum_contour_area", 200).about("minimum area in square pixels"),
        Property::count("morphological_kernel_size", 3)
            .about("size of specks to ignore, in pixels"),
        Property::count("threshold", 16)
            .about("minimum difference from the background, in squared standard deviations"),
        Property::count("history", 30)
            .about("number of frames from which the background is learned"),
        Property::optional("detection_zone", TEXT_OR_POINTS)
            .about(
                "zone of interest: corners [[x, y], …], or the same as JSON text; by default \
                 everywhere",
            )
            .kinds(&[Kind::Zone, Kind::ListOfValues])
            .not_null(),
        Property::boolean("suppress_first_detections", true)
            .about("whether to report nothing before the background is learned"),
    ],
    outputs: &[
        Output::new("motion", &[Kind::Boolean]),
        Output::new("alarm", &[Kind::Boolean]),
        Output::new("detections", &[Kind::ObjectDetection]),
        Output::new("motion_zones", &[Kind::ListOfValues]),
    ],
    build: |_| Ok(stateful(run)),
    ..Manifest::of("classical_computer_vision")
}];

struct Watched {
    background: Background,
    /// Frames from which it was learned.
    frames: i64,
    moved: bool,
}

impl Watched {
    fn new(size: [u32; 2]) -> Result<Self, String> {
        Ok(Self {
            background: learner(size)?,
            frames: 0,
            moved: false,
        })
    }
}

fn run(learned: &mut Unsaved<PerVideo<Watched>>, call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let zone = zone(call.arg(arg!("detection_zone")))?;
    let history = call.integer(arg!("history"))?;
    let size = image.size();
    let videos = &mut learned.0;
    let seen = videos.get(&image.meta.video_identifier, || Watched::new(size))?;
    // The first pictures of another size would all be motion.
    if seen.background.size() != size {
        *seen = Watched::new(size)?;
    }
    let threshold = call.number(arg!("threshold"))?;
    let mask = look(&mut seen.background, image, history, threshold);
    call.put(0, false);
    call.put(1, false);
    call.put(2, Detections::none([0, 0]));
    call.put(3, Vec::new());
    if seen.frames < history && call.boolean(arg!("suppress_first_detections"))? {
        seen.frames += 1;
        return Ok(());
    }
    let kernel = call.clamped(arg!("morphological_kernel_size"), KERNELS)?;
    let mask = morphology::open(&mask, &Kernel::ellipse(kernel));
    let shape = Bitmap::from_fn(size, |x, y| {
        mask.data.get(y * mask.width + x).is_some_and(|v| *v > 0)
    });
    let outlines = outlines(
        shape,
        size,
        zone.as_deref(),
        call.number(arg!("minimum_contour_area"))?,
    );
    let moves = !outlines.is_empty();
    let (found, polygons) = moving(call, &outlines);
    call.put(0, moves);
    call.put(1, moves && !seen.moved);
    call.put(2, found);
    call.put(3, polygons);
    seen.moved = moves;
    Ok(())
}

/// A box and a simpler polygon for each outline.
fn moving(call: &Call<'_>, outlines: &[Vec<Point>]) -> (Detections, Vec<Value>) {
    let mut found = Detections::none([0, 0]);
    let mut polygons = Vec::new();
    for outline in outlines {
        let simple = simplified(outline, 0.01 * perimeter(outline));
        if simple.len() < 3 {
            continue;
        }
        let b = around(&simple);
        found.boxes.push(Detection::new(
            BBox::new(b.x1, b.y1, b.x2 + 1.0, b.y2 + 1.0),
            1.0,
            0,
            "motion",
            call.new_id(),
        ));
        let corner = |p: &Point| Value::list(vec![Value::Int(p.x as i64), Value::Int(p.y as i64)]);
        polygons.push(Value::list(simple.iter().map(corner).collect()));
    }
    (found, polygons)
}

/// Returns the outlines of moving areas of at least `min_area`, clipped to the zone.
fn outlines(
    mut shape: Bitmap,
    size: [u32; 2],
    zone: Option<&[Point]>,
    min_area: f64,
) -> Vec<Vec<Point>> {
    let large = |outline: &Vec<Point>| outline.len() > 2 && polygon_area(outline) > min_area;
    if let Some(zone) = zone {
        // The area is that before clipping to the zone.
        let whole = shape.parts().into_iter().filter(large);
        let kept = whole
            .map(|outline| Bitmap::fill(&outline, size))
            .reduce(|a, b| a.union(&b));
        shape = kept.map_or_else(
            || Bitmap::empty(size),
            |kept| kept.within(&Bitmap::fill(zone, size)),
        );
    }
    let parts = shape.parts().into_iter().rev();
    let parts = parts.filter(|o| zone.is_some() && o.len() > 2 || large(o));
    parts.collect()
}

/// The corners of the zone, if there is one.
fn zone(value: &Value) -> Result<Option<Vec<Point>>, String> {
    let read;
    let value = match value {
        Value::Text(text) => {
            let json: serde_json::Value = serde_json::from_str(text)
                .map_err(|e| format!("detection_zone is not JSON: {e}"))?;
            read = Value::from(json);
            &read
        }
        other => other,
    };
    if value.is_null() || value.as_list().is_some_and(<[Value]>::is_empty) {
        return Ok(None);
    }
    let points = value.as_points();
    let points = points.filter(|points| (3..=MAX_POINTS).contains(&points.len()));
    points
        .map(Some)
        .ok_or_else(|| format!("detection_zone has to be 3 to {MAX_POINTS} points [x, y]"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    #[test]
    fn pictures_of_another_size_are_learned_first() {
        let step = json!({
            "type": "roboflow_core/motion_detection@v1", "image": "$inputs.image", "history": 2
        });
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        let sizes = [[64, 48], [64, 48], [64, 48], [32, 24], [32, 24], [32, 24]];
        for (number, size) in (0..).zip(sizes) {
            let out = bench.feed(&[("image", picture(number, size, |_, _| [90; 3]))]);
            let out = out.unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(out["motion"], false, "picture {number}");
        }
    }
}
