//! Draws heat maps of detections.

use watchkeeper_vision::analytics::recent::Recent;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;
use crate::workflow::blocks::common::per_video::PerVideo;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/heatmap_visualization@v1",
    summary: "Draws a heat map of where detections have been.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        drawing::PREDICTIONS,
        Property::data("metadata", &[Kind::VideoMetadata])
            .without_effect("kept for compatibility: the video is that of the picture")
            .or(Or::Null)
            .not_null(),
        Property::choice(
            "position",
            &[
                "CENTER",
                "CENTER_LEFT",
                "CENTER_RIGHT",
                "TOP_CENTER",
                "TOP_LEFT",
                "TOP_RIGHT",
                "BOTTOM_CENTER",
                "BOTTOM_LEFT",
                "BOTTOM_RIGHT",
            ],
            "BOTTOM_CENTER",
        )
        .about("point of the box that leaves heat"),
        Property::number("opacity", 0.2).about("how opaque the colour is, 0 to 1"),
        Property::integer("radius", 40).about("radius of the spot of a detection in pixels"),
        Property::integer("kernel_size", 25)
            .without_effect("kept for compatibility: spots have soft edges"),
        Property::integer("top_hue", 0).about("hue of the hottest cell, 0 to 179"),
        Property::integer("low_hue", 125).about("hue of the coldest cell, 0 to 179"),
        Property::boolean("ignore_stationary", true)
            .about("whether tracked objects leave no heat while they stand still"),
        Property::integer("motion_threshold", 25)
            .about("minimum movement in pixels of a tracked object that leaves heat"),
    ],
    build: |_| Ok(stateful(run)),
    ..drawing::BASE
}];

/// Side of a heat map cell in pixels of the picture; soft edges hide the cells.
const CELL: f64 = 4.0;
/// Maximum number of tracks per video.
const MAX_TRACKS: usize = 16_384;

#[derive(Serialize, Deserialize)]
struct Heat {
    map: Arc<HeatMap>,
    /// Position of each track when it last left heat.
    last: Recent<Point>,
}

/// Heat of each cell: how often it was within a spot.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct HeatMap {
    columns: usize,
    rows: usize,
    cells: Vec<f32>,
}

impl HeatMap {
    /// Number of cells for a picture of this size, per axis.
    fn sides(size: [u32; 2]) -> [usize; 2] {
        size.map(|n| (n as usize).div_ceil(4))
    }

    fn new(size: [u32; 2]) -> Self {
        let [columns, rows] = Self::sides(size);
        Self {
            columns,
            rows,
            cells: vec![0.0; columns * rows],
        }
    }

    fn add(&mut self, at: Point, radius: f64) {
        let (x, y, r) = (at.x / CELL, at.y / CELL, (radius / CELL).max(0.5));
        let range = |c: f64, most: usize| {
            ((c - r).max(0.0) as usize)..((c + r + 1.0).max(0.0) as usize).min(most)
        };
        for row in range(y, self.rows) {
            for column in range(x, self.columns) {
                let distance = (column as f64 + 0.5 - x).hypot(row as f64 + 0.5 - y);
                if distance <= r
                    && let Some(cell) = self.cells.get_mut(row * self.columns + column)
                {
                    *cell += 1.0;
                }
            }
        }
    }
}

fn run(videos: &mut PerVideo<Heat>, call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let all = call.detections(arg!("predictions"))?;
    let anchor = call.anchor(arg!("position"))?;
    let radius = call.number(arg!("radius"))?.clamp(0.0, 4096.0);
    let only_moving = call.boolean(arg!("ignore_stationary"))?;
    let least = call.number(arg!("motion_threshold"))?;
    let hues = [call.number(arg!("low_hue"))?, call.number(arg!("top_hue"))?];
    let opacity = call.number(arg!("opacity"))?;
    let size = image.size();
    let heat = videos.get(&image.meta.video_identifier, || {
        Ok(Heat {
            map: Arc::new(HeatMap::new(size)),
            last: Recent::new(MAX_TRACKS),
        })
    })?;
    if [heat.map.columns, heat.map.rows] != HeatMap::sides(size) {
        heat.map = Arc::new(HeatMap::new(size));
    }
    heat.last.next_round(u64::MAX);
    let mut spots = Vec::new();
    for d in &all.boxes {
        let at = d.anchor(anchor, all.size);
        if let Some(track) = d.track.filter(|_| only_moving) {
            let before = heat.last.touch(track).copied();
            let moved = before.map(|b| (b.x - at.x).hypot(b.y - at.y) >= least);
            if moved != Some(false) {
                *heat.last.touch_or_insert(track, at) = at;
            }
            if moved != Some(true) {
                continue;
            }
        }
        spots.push(at);
    }
    if !spots.is_empty() {
        let map = Arc::make_mut(&mut heat.map);
        spots.iter().for_each(|at| map.add(*at, radius));
    }
    let map = Arc::clone(&heat.map);
    drawing::put(call, move |canvas: &mut Canvas<'_>| {
        draw(canvas, &map, hues, opacity)
    })
}

fn draw(canvas: &mut Canvas<'_>, map: &HeatMap, [low, top]: [f64; 2], opacity: f64) {
    let most = map.cells.iter().copied().fold(0.0, f32::max);
    if most <= 0.0 {
        return;
    }
    for (i, cell) in map.cells.iter().enumerate().filter(|(_, c)| **c > 0.0) {
        let share = f64::from(cell / most);
        let color = of_hue(low + (top - low) * share);
        let x = (i % map.columns) as f64 * CELL;
        let y = (i / map.columns) as f64 * CELL;
        canvas.fill_box(
            &BBox::new(x, y, x + CELL, y + CELL),
            color,
            opacity * (0.3 + 0.7 * share),
        );
    }
}

/// The saturated colour of a hue, 0 to 179 as in OpenCV.
fn of_hue(hue: f64) -> Color {
    let sector = (hue * 2.0).rem_euclid(360.0) / 60.0;
    let part = |n: f64| ((sector - n).abs().min(6.0 - (sector - n).abs()) - 1.0).clamp(0.0, 1.0);
    let byte = |n: f64| ((1.0 - part(n)) * 255.0) as u8;
    Color::new(byte(0.0), byte(2.0), byte(4.0))
}
