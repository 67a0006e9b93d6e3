//! Makes polygon zones from masks.

use serde_json::json;
use watchkeeper_vision::outline::{hull, perimeter, simplified};

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/dynamic_zone@v1",
    summary: "Makes a polygon zone with a given number of corners from each mask.",
    properties: &[
        Property::data("predictions", &[Kind::InstanceSegmentation]).about("detections with masks"),
        Property::value("required_number_of_vertices", INTEGER)
            .about("number of corners of a zone"),
        Property::number("scale_ratio", 1.0).about("scale of the zone relative to the mask"),
        Property::boolean("apply_least_squares", false)
            .about("whether to fit the sides to the edges of the mask"),
        Property::fraction("midpoint_fraction", 1.0)
            .about("share of each edge, around its middle, used for the fit"),
    ],
    outputs: &[
        Output::new("zones", &[Kind::ListOfValues]),
        Output::new("predictions", &[Kind::InstanceSegmentation]),
        Output::new("simplification_converged", &[Kind::Boolean]),
    ],
    batch: &["predictions"],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("transformation")
}];

/// Maximum steps of the search for a tolerance.
const MAX_STEPS: u32 = 1000;
const MAX_CORNERS: i64 = 1000;

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let all = call.detections(arg!("predictions"))?;
    let wanted = call.integer_in(arg!("required_number_of_vertices"), 1..=MAX_CORNERS)?;
    let scale = call.number(arg!("scale_ratio"))?;
    let by_edges = call.boolean(arg!("apply_least_squares"))?;
    let share = call.number(arg!("midpoint_fraction"))?;
    if all.boxes.iter().any(|d| d.mask().is_none()) || all.boxes.is_empty() {
        call.put(0, Vec::new());
        call.put(2, false);
        return Ok(());
    }
    let mut out = Detections::clone(all);
    let (mut zones, mut all_converged) = (Vec::new(), true);
    for d in &mut out.boxes {
        let outline = d.mask().and_then(|m| m.bitmap(all.size).longest_outline());
        let outline = outline.ok_or(
            "a mask is too small to make a zone of; remove small masks by a detections_filter",
        )?;
        let mut zone = with_corners(&hull(&outline), wanted);
        if by_edges {
            zone = along_edges(&zone, &outline, share)?;
        }
        all_converged &= zone.len() == wanted;
        if let Some(last) = zone.last().copied() {
            zone.resize(wanted, last);
        }
        if scale != 1.0 {
            zone = scaled(&zone, scale);
        }
        let pair = |p: &Point| [p.x as i64, p.y as i64];
        let corners: Vec<[i64; 2]> = zone.iter().map(pair).collect();
        zones.push(Value::from(json!(corners)));
        d.set_data("polygon", json!(corners));
        d.set_mask(Bitmap::fill(&zone, all.size));
    }
    call.finish_all((zones, out, all_converged))
}

/// Returns the hull with `wanted` corners, or about as many if no tolerance gives exactly these.
fn with_corners(hull: &[Point], wanted: usize) -> Vec<Point> {
    let (mut low, mut high) = (1e-7, perimeter(hull));
    let mut tolerance = low + high / 2.0;
    let mut zone = simplified(hull, tolerance);
    for _ in 0..MAX_STEPS {
        if zone.len() == wanted {
            break;
        }
        if zone.len() > wanted {
            low = tolerance;
        } else {
            high = tolerance;
        }
        let next = low + (high - low) / 2.0;
        if next == tolerance {
            break;
        }
        tolerance = next;
        zone = simplified(hull, tolerance);
    }
    zone
}

/// Returns the intersections of the lines fitted to the outline between each two corners.
fn along_edges(zone: &[Point], outline: &[Point], share: f64) -> Result<Vec<Point>, String> {
    let nearest = |p: &Point| {
        let distance = |q: &Point| (p.x - q.x).powi(2) + (p.y - q.y).powi(2);
        let each = outline.iter().map(distance).enumerate();
        each.min_by(|a, b| a.1.total_cmp(&b.1))
            .map_or(0, |(i, _)| i)
    };
    let before = zone.iter().cycle().skip(zone.len().saturating_sub(1));
    let lines: Vec<Option<[f64; 2]>> = before
        .zip(zone)
        .map(|(a, b)| {
            let (from, to) = (nearest(a), nearest(b));
            let mut points: Vec<Point> = if from <= to {
                outline.get(from..=to).unwrap_or_default().to_vec()
            } else {
                [
                    outline.get(from..).unwrap_or_default(),
                    outline.get(..=to).unwrap_or_default(),
                ]
                .concat()
            };
            let kept = (points.len() as f64 * share.clamp(0.0, 1.0)).round_ties_even() as usize;
            if share < 1.0 && kept > 2 {
                let cut = (points.len() - kept) / 2;
                points = points
                    .get(cut..points.len() - cut)
                    .unwrap_or_default()
                    .to_vec();
            }
            line(&points)
        })
        .collect();
    let after = lines.iter().cycle().skip(1);
    let corners = lines.iter().zip(after).map(|(one, other)| {
        let ([a, b], [c, d]) = ((*one)?, (*other)?);
        // Nearly parallel lines have no intersection.
        if (a - c).abs() <= 1e-8 + 1e-5 * c.abs() {
            return None;
        }
        let x = (d - b) / (a - c);
        Some(Point::new(
            x.round_ties_even(),
            (a * x + b).round_ties_even(),
        ))
    });
    let corners: Option<Vec<Point>> = corners.collect();
    corners.ok_or_else(|| {
        "the edges of a mask don't intersect; set apply_least_squares to false".to_owned()
    })
}

/// Slope and height of the line fitted to points by least squares; `None` for fewer than two.
fn line(points: &[Point]) -> Option<[f64; 2]> {
    if points.len() < 2 {
        return None;
    }
    let count = points.len() as f64;
    let mean = |f: fn(&Point) -> f64| points.iter().map(f).sum::<f64>() / count;
    let (mx, my) = (mean(|p| p.x), mean(|p| p.y));
    let spread: f64 = points.iter().map(|p| (p.x - mx).powi(2)).sum();
    if spread == 0.0 {
        // Vertical: of all lines through the centre the minimum-norm solution, as in the peer.
        let slope = my * mx / (mx * mx + 1.0);
        return Some([slope, my / (mx * mx + 1.0)]);
    }
    let slope = points.iter().map(|p| (p.x - mx) * (p.y - my)).sum::<f64>() / spread;
    Some([slope, my - slope * mx])
}

/// Scales the polygon around its centroid.
fn scaled(zone: &[Point], scale: f64) -> Vec<Point> {
    let next = || zone.iter().cycle().skip(1);
    let cross = |a: &Point, b: &Point| a.x * b.y - b.x * a.y;
    let area: f64 = zone
        .iter()
        .zip(next())
        .map(|(a, b)| cross(a, b))
        .sum::<f64>()
        / 2.0;
    if area == 0.0 {
        return zone.to_vec();
    }
    let moment = |f: fn(&Point) -> f64| {
        let each = zone
            .iter()
            .zip(next())
            .map(|(a, b)| (f(a) + f(b)) * cross(a, b));
        each.sum::<f64>() / (6.0 * area)
    };
    let (cx, cy) = (moment(|p| p.x), moment(|p| p.y));
    let each = zone.iter();
    each.map(|p| {
        Point::new(
            (cx + (p.x - cx) * scale).round_ties_even(),
            (cy + (p.y - cy) * scale).round_ties_even(),
        )
    })
    .collect()
}
