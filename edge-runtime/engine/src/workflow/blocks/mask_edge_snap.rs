//! Snaps the borders of masks to edges of the picture.

use watchkeeper_vision::geometry::polygon_area;
use watchkeeper_vision::imaging::focus;
use watchkeeper_vision::imaging::morphology::{self, Kernel};

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/mask_edge_snap@v1",
    summary: "Snaps the border of each mask to nearby edges of the picture, and shows these edges.",
    properties: &[
        IMAGE,
        Property::data("segmentation", &[Kind::InstanceSegmentation])
            .about("detections with masks"),
        Property::value_or("pixel_tolerance", Shape::Integer(1, 100), Or::Int(15))
            .about("maximum movement of a border in pixels, 1 to 100"),
        Property::value_or("sigma", Shape::Number(0.01, 10.0), Or::Float(1.0))
            .about("strength of an edge in standard deviations above its surroundings, 0.01 to 10"),
        Property::value_or(
            "min_contour_area",
            Shape::Number(0.0, 10_000.0),
            Or::Float(50.0),
        )
        .about("minimum area of an edge, 0 to 10000"),
        Property::value_or("dilation_iterations", Shape::Integer(0, 20), Or::Int(2))
            .about("maximum gap in edges to close, 0 to 20"),
        Property::value_or("boundary_band_width", Shape::Integer(1, 100), Or::Int(15))
            .about("distance from a border in which to look for edges, in pixels, 1 to 100"),
        Property::value_or("adaptive_window_size", Shape::Integer(3, 201), Or::Int(41))
            .about("size of the surroundings of an edge in pixels, 3 to 201"),
    ],
    outputs: &[
        Output::new("refined_segmentation", &[Kind::InstanceSegmentation]),
        Output::new("edges", &[Kind::InstanceSegmentation]),
    ],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("classical_computer_vision")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let all = call.detections(arg!("segmentation"))?;
    let tolerance = call.bounded(arg!("pixel_tolerance"))?;
    let sigma = call.bounded(arg!("sigma"))?;
    let least_area = call.bounded(arg!("min_contour_area"))?;
    let gaps = call.bounded(arg!("dilation_iterations"))?;
    let band = call.bounded(arg!("boundary_band_width"))?;
    let window = call.bounded(arg!("adaptive_window_size"))?;
    let size = image.size();
    let grey = Plane::from(&imaging::grey(&image.pixels.rgb()));
    let strength: Vec<f64> = focus::tenengrad(&grey).into_iter().map(f64::sqrt).collect();
    let masks = all.boxes.iter().filter_map(|d| d.mask());
    let masks: Vec<Bitmap> = masks.map(|m| m.bitmap(size)).collect();
    let mut edges = strong(&strength, size, whole(window) | 1, sigma);
    if gaps >= 1.0 {
        edges = thinned(&closed(&edges, whole(gaps)));
    }
    if !masks.is_empty() {
        let near = masks.iter().map(|mask| around_border(mask, whole(band)));
        let near = near.fold(Bitmap::empty(size), |a, b| a.union(&b));
        edges = edges.within(&near);
    }
    let edges = large(&edges, least_area);
    let mut shown = Detections::none([0, 0]);
    if let Some(b) = edges.bbox() {
        shown.size = size;
        let bbox = BBox::new(b.x1, b.y1, b.x2 + 1.0, b.y2 + 1.0);
        let mut found = Detection::new(bbox, 1.0, 0, "edges", call.new_id());
        found.set_mask(edges.clone());
        shown.boxes.push(found);
    }
    let mut out = Detections::clone(all);
    for d in &mut out.boxes {
        if let Some(mask) = d.mask().map(|m| m.bitmap(size)) {
            let snapped = snapped(&mask, &edges, &strength, whole(tolerance));
            d.set_mask(snapped);
        }
    }
    call.finish_all((out, shown))
}

fn whole(n: f64) -> usize {
    n.max(0.0) as usize
}

/// Pixels whose gradient exceeds the mean of a window by `sigma` standard deviations.
fn strong(strength: &[f64], size: [u32; 2], window: usize, sigma: f64) -> Bitmap {
    let [width, height] = size.map(|n| n as usize);
    // Summed-area table: a window is four lookups.
    let mut sums = vec![[0.0_f64; 2]; (width + 1) * (height + 1)];
    for y in 0..height {
        let mut row = [0.0; 2];
        for x in 0..width {
            let s = strength.get(y * width + x).copied().unwrap_or(0.0);
            row = [row[0] + s, row[1] + s * s];
            let above = sums[y * (width + 1) + x + 1];
            sums[(y + 1) * (width + 1) + x + 1] = [above[0] + row[0], above[1] + row[1]];
        }
    }
    let half = window / 2;
    Bitmap::from_fn(size, |x, y| {
        let (x0, x1) = (x.saturating_sub(half), (x + half + 1).min(width));
        let (y0, y1) = (y.saturating_sub(half), (y + half + 1).min(height));
        let at = |x: usize, y: usize| sums[y * (width + 1) + x];
        let count = ((x1 - x0) * (y1 - y0)) as f64;
        let mean =
            |i: usize| (at(x1, y1)[i] - at(x0, y1)[i] - at(x1, y0)[i] + at(x0, y0)[i]) / count;
        let spread = (mean(1) - mean(0) * mean(0)).max(0.0).sqrt();
        strength
            .get(y * width + x)
            .is_some_and(|s| *s > mean(0) + sigma * spread)
    })
}

fn plane(bitmap: &Bitmap) -> Plane {
    let [width, height] = bitmap.size().map(|n| n as usize);
    Plane::from_fn(width, height, |x, y| if bitmap.at(x, y) { 255 } else { 0 })
}

fn bitmap(plane: &Plane) -> Bitmap {
    let side = |n: usize| u32::try_from(n).unwrap_or(0);
    Bitmap::from_fn([side(plane.width), side(plane.height)], |x, y| {
        plane.data.get(y * plane.width + x).is_some_and(|v| *v > 0)
    })
}

/// Closes gaps of up to `times` pixels.
fn closed(edges: &Bitmap, times: usize) -> Bitmap {
    // Closing repeatedly with a square equals closing once with a larger one.
    bitmap(&morphology::close(
        &plane(edges),
        &Kernel::square(2 * times + 1),
    ))
}

/// One pass of Zhang and Suen, "A fast parallel algorithm for thinning digital patterns", 1984.
fn thinned(edges: &Bitmap) -> Bitmap {
    let [width, height] = edges.size().map(|n| n as usize);
    let mut now = edges.clone();
    for first in [true, false] {
        let before = now.clone();
        for y in 1..height.saturating_sub(1) {
            for x in 1..width.saturating_sub(1) {
                // Neighbours clockwise from the top.
                let p = [
                    before.at(x, y - 1),
                    before.at(x + 1, y - 1),
                    before.at(x + 1, y),
                    before.at(x + 1, y + 1),
                    before.at(x, y + 1),
                    before.at(x - 1, y + 1),
                    before.at(x - 1, y),
                    before.at(x - 1, y - 1),
                ];
                let count = p.iter().filter(|p| **p).count();
                let begins = (0..8).filter(|i| !p[*i] && p[(i + 1) % 8]).count();
                let ends = if first {
                    !(p[2] && p[4] && (p[0] || p[6]))
                } else {
                    !(p[0] && p[6] && (p[2] || p[4]))
                };
                if before.at(x, y) && (2..=6).contains(&count) && begins == 1 && ends {
                    now.set(x, y, false);
                }
            }
        }
    }
    now
}

fn around_border(mask: &Bitmap, reach: usize) -> Bitmap {
    let (shape, kernel) = (plane(mask), Kernel::ellipse(2 * reach + 1));
    bitmap(&morphology::above(
        &morphology::dilate(&shape, &kernel),
        &morphology::erode(&shape, &kernel),
    ))
}

/// Connected edges that surround at least the area `least`.
fn large(edges: &Bitmap, least: f64) -> Bitmap {
    if least <= 0.0 {
        return edges.clone();
    }
    let mut kept = Bitmap::empty(edges.size());
    for part in edges.parts() {
        if polygon_area(&part) >= least {
            kept = kept.union(&Bitmap::fill(&part, edges.size()));
        }
    }
    edges.within(&kept)
}

/// Moves each pixel of the mask's border across it to the strongest nearby edge.
fn snapped(mask: &Bitmap, edges: &Bitmap, strength: &[f64], tolerance: usize) -> Bitmap {
    /// Border pixels on each side that define its direction.
    const TANGENT: usize = 5;
    let width = mask.size()[0] as usize;
    let mut out = Bitmap::empty(mask.size());
    for border in mask.borders() {
        let count = border.len();
        let at = |i: usize| border.get(i % count.max(1)).copied().unwrap_or_default();
        let moved: Vec<Point> = (0..count)
            .map(|i| {
                let here = at(i);
                let (before, after) = (at(i + count * TANGENT - TANGENT), at(i + TANGENT));
                let (tx, ty) = (after.x - before.x, after.y - before.y);
                let length = tx.hypot(ty);
                if length < 1e-6 {
                    return here;
                }
                let (nx, ny) = (-ty / length, tx / length);
                let mut best = (0.0, here);
                for step in 1..=tolerance {
                    let (d, near) = (step as f64, 1.0 - step as f64 / (tolerance as f64 + 1.0));
                    for sign in [1.0, -1.0] {
                        let p = Point::new(
                            (here.x + sign * nx * d).round_ties_even(),
                            (here.y + sign * ny * d).round_ties_even(),
                        );
                        if p.x < 0.0 || p.y < 0.0 {
                            continue;
                        }
                        let (x, y) = (whole(p.x), whole(p.y));
                        let score = strength.get(y * width + x).map_or(0.0, |s| s * near);
                        if edges.at(x, y) && score > best.0 {
                            best = (score, p);
                        }
                    }
                }
                best.1
            })
            .collect();
        out = out.union(&Bitmap::fill(&moved, mask.size()));
    }
    out
}
