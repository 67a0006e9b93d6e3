//! Counts tracked objects that cross a line.

use watchkeeper_vision::analytics::{CROSSING_DEPTH, Crossing, CrossingCounter, LineCounter};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::per_video::{FRAME, METADATA, PerVideo, TRACKED};

const LINE: Property = Property::value("line_segment", Shape::Points)
    .about("the two ends of the line, [[x, y], [x, y]] in pixels");
const ANCHOR: Property = Property::value("triggering_anchor", ANCHORS)
    .about("the point of the box that must cross; by default all four corners must");
const POINT: Property = Property::anchor("triggering_anchor", "BOTTOM_CENTER")
    .about("the point of the box that must cross; CENTER where the camera looks straight down");
const IN: Output = Output::new("count_in", &[Kind::Integer]);
const OUT: Output = Output::new("count_out", &[Kind::Integer]);

const OUTPUTS: &[Output] = &[
    IN,
    OUT,
    Output::new("detections_in", BOXES),
    Output::new("detections_out", BOXES),
];

const BASE: Manifest = Manifest {
    summary: "Counts tracked objects that cross a line, each way.",
    role: Role::Line,
    build: |_| Ok(stateful(count)),
    keeps_classes: true,
    ..Manifest::of("analytics")
};

pub(super) const BLOCKS: &[Manifest] = &[
    BASE.version(
        "roboflow_core/line_counter@v1",
        &[METADATA, TRACKED, LINE, ANCHOR.or(Or::Text("CENTER"))],
        &[IN, OUT],
    ),
    BASE.version(
        "roboflow_core/line_counter@v2",
        &[FRAME.inputs_only(), TRACKED, LINE, ANCHOR.or(Or::Null)],
        OUTPUTS,
    ),
    Manifest {
        summary: "Counts tracked objects that cross a line, each way: by the foot of a box, with a \
                  dead band, over losses of sight and changes of track id.",
        build: |_| Ok(stateful(count_crossings)),
        ..BASE.version(
            "watchkeeper/line_counter@v1",
            &[FRAME.inputs_only(), TRACKED, LINE, POINT],
            OUTPUTS,
        )
    },
];

fn count(videos: &mut PerVideo<LineCounter>, call: &mut Call<'_>) -> Result<(), String> {
    let meta = call.video(arg!("metadata" | "image"))?;
    let detections = call.tracked(arg!("detections"))?;
    let line = call.arg(arg!("line_segment"));
    let anchor = call.optional(arg!("triggering_anchor"), Call::anchor)?;
    let counter = videos.get(&meta.video_identifier, || {
        let [start, end] = ends(line)?;
        Ok(LineCounter::new(start, end, anchor.as_slice()))
    })?;
    let nothing = Detections::default();
    counter.update(if call.is_end { &nothing } else { detections });
    put_counts(call, counter.count_in(), counter.count_out());
    if call.out.len() > 2 {
        let crossings = counter.crossings();
        for (output, crossed) in [(2, &crossings.crossed_in), (3, &crossings.crossed_out)] {
            let mut picked = call.blank(output);
            detections.pick_into(crossed.iter().copied(), Arc::make_mut(&mut picked));
            call.put(output, picked);
        }
    }
    Ok(())
}

fn count_crossings(
    videos: &mut PerVideo<CrossingCounter>,
    call: &mut Call<'_>,
) -> Result<(), String> {
    let meta = call.video(arg!("image"))?;
    let detections = call.tracked(arg!("detections"))?;
    let line = call.arg(arg!("line_segment"));
    let anchor = call.anchor(arg!("triggering_anchor"))?;
    let counter = videos.get(&meta.video_identifier, || {
        let [start, end] = ends(line)?;
        Ok(CrossingCounter::new(start, end, anchor))
    })?;
    if call.is_end {
        counter.finish();
    } else {
        counter.update(detections, meta.time_s());
    }
    put_counts(call, counter.count_in(), counter.count_out());
    let crossed = counter.crossed();
    for (output, crossings) in [(2, &crossed.crossed_in), (3, &crossed.crossed_out)] {
        let mut list = call.blank(output);
        let out = Arc::make_mut(&mut list);
        out.boxes.clear();
        out.boxes.extend(crossings.iter().map(with_depth));
        out.size = detections.size;
        call.put(output, list);
    }
    Ok(())
}

/// The box of a crossing with its depth as a property.
fn with_depth(crossing: &Crossing) -> Detection {
    let mut detection = crossing.detection.clone();
    if let Some(depth) = crossing.depth {
        detection.set_data(CROSSING_DEPTH, depth);
    }
    detection
}

/// The two ends of a line.
fn ends(line: &Value) -> Result<[Point; 2], String> {
    match line.as_points().as_deref() {
        Some([start, end]) => Ok([*start, *end]),
        _ => Err("a line is two points, [[x, y], [x, y]]".to_owned()),
    }
}

fn put_counts(call: &mut Call<'_>, count_in: u64, count_out: u64) {
    call.put(0, count_in);
    call.put(1, count_out);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, boxes, picture};
    use super::{Kind, Value};

    /// Frames of one person on the way down over a line, by a line counter of this type: the
    /// outputs of each frame.
    fn walk(r#type: &str, feet: &[f64]) -> Vec<Json> {
        let step = json!({
            "type": r#type, "image": "$inputs.image", "detections": "$inputs.boxes",
            "line_segment": [[0, 200], [640, 200]],
        });
        let kinds = [("image", Kind::Image), ("boxes", Kind::ObjectDetection)];
        let mut bench = Bench::new(step, &kinds);
        let frame = |(n, foot): (usize, &f64)| {
            let row = json!({"x": 300.0, "y": foot - 25.0, "width": 20.0, "height": 50.0,
                "confidence": 0.9, "tracker_id": 7});
            let image = picture(n as u64, [4, 4], |_, _| [0, 0, 0]);
            let inputs = [("image", image), ("boxes", boxes([640, 480], &[row]))];
            bench.feed(&inputs).unwrap_or_else(|e| panic!("{e}"))
        };
        feet.iter().enumerate().map(frame).collect()
    }

    #[test]
    fn ours_counts_the_foot_and_names_the_box_that_crossed() {
        let feet = [[180.0; 5], [215.0; 5], [215.0; 5], [215.0; 5]].concat();
        let frames = walk("watchkeeper/line_counter@v1", &feet);
        let crossed =
            |frame: &Json| frame["detections_out"]["predictions"][0]["tracker_id"].clone();
        let named: Vec<Json> = frames
            .iter()
            .map(crossed)
            .filter(|id| !id.is_null())
            .collect();
        assert_eq!(named, [json!(7)], "once");
        let depth = |frame: &Json| {
            let depth = &frame["detections_out"]["predictions"][0]["crossing_depth"];
            depth.as_f64()
        };
        // 20 pixels before the line, in boxes of 50 pixels.
        assert_eq!(frames.iter().find_map(depth), Some(0.4));
        let last = frames
            .last()
            .map(|frame| [&frame["count_in"], &frame["count_out"]]);
        assert_eq!(last, Some([&json!(0), &json!(1)]));
    }

    #[test]
    fn line_decides_at_end_also_after_frame_without_detections() {
        let step = json!({
            "type": "watchkeeper/line_counter@v1", "image": "$inputs.image",
            "detections": "$inputs.boxes", "line_segment": [[0, 200], [640, 200]],
        });
        let kinds = [("image", Kind::Image), ("boxes", Kind::ObjectDetection)];
        let mut bench = Bench::new(step, &kinds);
        for (n, foot) in [180.0, 180.0, 180.0, 215.0, 215.0].into_iter().enumerate() {
            let row = json!({"x": 300.0, "y": foot - 25.0, "width": 20.0, "height": 50.0,
                "confidence": 0.9, "tracker_id": 7});
            let image = picture(n as u64, [4, 4], |_, _| [0, 0, 0]);
            let fed = bench.feed(&[("image", image), ("boxes", boxes([640, 480], &[row]))]);
            assert_eq!(fed.map(|out| out["count_out"].clone()), Ok(json!(0)));
        }
        let last = picture(5, [4, 4], |_, _| [0, 0, 0]);
        let missing = [("image", vec![last]), ("boxes", vec![Value::Null])];
        bench.feed_batch(&missing).unwrap_or_else(|e| panic!("{e}"));
        bench.finish();
        let counted = bench.value("count_out").and_then(|count| count.as_i64());
        assert_eq!(counted, Some(1));
    }

    #[test]
    fn roboflows_needs_the_whole_box() {
        let counted = |feet: &[f64]| {
            let frames = walk("roboflow_core/line_counter@v2", feet);
            frames.last().map(|frame| frame["count_out"].clone())
        };
        assert_eq!(counted(&[180.0, 215.0]), Some(json!(0)));
        assert_eq!(counted(&[180.0, 215.0, 260.0]), Some(json!(1)));
    }
}
