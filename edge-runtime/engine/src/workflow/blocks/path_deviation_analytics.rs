//! Measures how far tracked objects deviate from a path.

use watchkeeper_vision::analytics::recent::Recent;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::per_video::{FRAME, METADATA, PerVideo, TRACKED};

const TRIGGERING_ANCHOR: Property =
    Property::anchor("triggering_anchor", "CENTER").about("point of the box that follows the path");
const REFERENCE_PATH: Property =
    Property::value("reference_path", Shape::Points).about("the path, [[x, y], …] in pixels");
const V1: Manifest = Manifest {
    name: "roboflow_core/path_deviation_analytics@v1",
    summary: "Measures how far each tracked object deviates from a path, by the discrete Fréchet \
              distance.",
    properties: &[METADATA, TRACKED, TRIGGERING_ANCHOR, REFERENCE_PATH],
    outputs: &[Output::new("path_deviation_detections", BOXES)],
    build: |_| Ok(stateful(run)),
    ..Manifest::of("analytics")
};
pub(super) const BLOCKS: &[Manifest] = &[
    V1,
    Manifest {
        name: "roboflow_core/path_deviation_analytics@v2",
        properties: &[
            FRAME.inputs_only(),
            TRACKED,
            TRIGGERING_ANCHOR,
            REFERENCE_PATH,
        ],
        ..V1
    },
];

/// Maximum number of tracks per video.
const MAX_TRACKS: usize = 16_384;

#[derive(Serialize, Deserialize)]
struct TrackedPaths {
    path: Vec<Point>,
    tracks: Recent<PathDistance>,
}

/// Distance of a track so far from each prefix of the path. It is the last row of the table of
/// Eiter and Mannila, "Computing discrete Fréchet distance", 1994. A row follows from the one
/// before, so positions need not be kept.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct PathDistance(Vec<f64>);

impl PathDistance {
    /// Adds a position and returns the distance from the whole path.
    fn extend(&mut self, to: Point, path: &[Point]) -> f64 {
        let first = self.0.is_empty();
        self.0.resize(path.len(), 0.0);
        let (mut diagonal, mut left) = (f64::INFINITY, f64::INFINITY);
        for (j, (cell, at)) in self.0.iter_mut().zip(path).enumerate() {
            let distance = (at.x - to.x).hypot(at.y - to.y);
            let up = if first { f64::INFINITY } else { *cell };
            let best = up.min(diagonal).min(left);
            let reached = if first && j == 0 {
                distance
            } else {
                best.max(distance)
            };
            (diagonal, left) = (up, reached);
            *cell = reached;
        }
        left
    }
}

fn run(videos: &mut PerVideo<TrackedPaths>, call: &mut Call<'_>) -> Result<(), String> {
    let meta = call.video(arg!("metadata" | "image"))?;
    let all = call.tracked(arg!("detections"))?;
    let anchor = call.anchor(arg!("triggering_anchor"))?;
    let path = call
        .arg(arg!("reference_path"))
        .as_points()
        .filter(|p| !p.is_empty());
    let path = path.ok_or("reference_path has to be a list of points [x, y]")?;
    let paths = videos.get(&meta.video_identifier, || {
        Ok(TrackedPaths {
            path: Vec::new(),
            tracks: Recent::new(MAX_TRACKS),
        })
    })?;
    if paths.path != path {
        *paths = TrackedPaths {
            path,
            tracks: Recent::new(MAX_TRACKS),
        };
    }
    paths.tracks.next_round(u64::MAX);
    let mut out = Detections::clone(all);
    for d in &mut out.boxes {
        let Some(track) = d.track else { continue };
        let at = d.anchor(anchor, all.size);
        let distance = paths.tracks.touch_or_insert(track, PathDistance::default());
        let deviation = distance.extend(at, &paths.path);
        d.set_data("path_deviation", deviation);
    }
    call.finish(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::super::tests::bench::{Bench, boxes, picture};
    use super::{PathDistance, Point};
    use crate::workflow::language::kinds::Kind;

    /// The distance by its definition.
    fn by_definition(way: &[Point], path: &[Point]) -> f64 {
        let mut table = vec![vec![0.0_f64; path.len()]; way.len()];
        for (i, p) in way.iter().enumerate() {
            for (j, q) in path.iter().enumerate() {
                let before = match (i, j) {
                    (0, 0) => 0.0,
                    (0, j) => table[0][j - 1],
                    (i, 0) => table[i - 1][0],
                    (i, j) => table[i - 1][j]
                        .min(table[i - 1][j - 1])
                        .min(table[i][j - 1]),
                };
                table[i][j] = before.max((p.x - q.x).hypot(p.y - q.y));
            }
        }
        table[way.len() - 1][path.len() - 1]
    }

    #[test]
    fn deviation_of_a_walker_matches_the_peer() {
        let step = json!({
            "type": "roboflow_core/path_deviation_analytics@v2", "image": "$inputs.image", "detections": "$inputs.boxes",
            "triggering_anchor": "BOTTOM_CENTER", "reference_path": [[10, 10], [50, 20], [90, 60]]
        });
        let mut bench = Bench::new(
            step,
            &[("image", Kind::Image), ("boxes", Kind::ObjectDetection)],
        );
        let walk = [
            (10.0, 10.0, 94.3398),
            (30.0, 15.0, 75.0),
            (60.0, 50.0, 31.6228),
            (85.0, 55.0, 31.6228),
        ];
        for (number, (x, y, wanted)) in (1..).zip(walk) {
            let row =
                json!({"x": x, "y": y - 10.0, "width": 10.0, "height": 20.0, "tracker_id": 1});
            let frame = picture(number, [4, 4], |_, _| [0; 3]);
            let out = bench
                .feed(&[("image", frame), ("boxes", boxes([100, 100], &[row]))])
                .unwrap();
            let deviation = &out["path_deviation_detections"]["predictions"][0]["path_deviation"];
            assert!(
                (deviation.as_f64().unwrap() - wanted).abs() < 1e-3,
                "{number}: {deviation}"
            );
        }
    }

    proptest! {
        #[test]
        fn one_row_of_the_table_gives_the_distance(
            way in proptest::collection::vec((0.0..100.0_f64, 0.0..100.0_f64), 1..12),
            path in proptest::collection::vec((0.0..100.0_f64, 0.0..100.0_f64), 1..8),
        ) {
            let points = |list: &[(f64, f64)]| list.iter().map(|(x, y)| Point::new(*x, *y)).collect::<Vec<_>>();
            let (way, path) = (points(&way), points(&path));
            let mut so_far = PathDistance::default();
            for i in 0..way.len() {
                prop_assert_eq!(so_far.extend(way[i], &path), by_definition(&way[..=i], &path));
            }
        }
    }
}
