//! Finds lines and zones of a workflow that lie outside the picture, once its size is known.
//!
//! - A shape that shares a point with the picture is never reported as outside.
//! - The picture reaches from 0 to its width and height, both included, in pixels of the source.

use watchkeeper_contract::pipeline::{PipelineWarning, WarningKind};
use watchkeeper_vision::geometry::Point;

use crate::workflow::Overlay;

/// Checks each line and zone of a workflow against a picture of `size` in pixels.
pub fn outside(overlays: &[Overlay], size: [u32; 2]) -> Vec<PipelineWarning> {
    overlays
        .iter()
        .filter_map(|overlay| check(overlay, size))
        .collect()
}

fn check(overlay: &Overlay, [width, height]: [u32; 2]) -> Option<PipelineWarning> {
    let (what, name, points): (_, _, Vec<Point>) = match overlay {
        Overlay::Line { name, start, end } => ("line", name, vec![*start, *end]),
        Overlay::Zone { name, polygon } => ("zone", name, polygon.clone()),
    };
    let (w, h) = (f64::from(width), f64::from(height));
    let is_inside = |p: &&Point| (0.0..=w).contains(&p.x) && (0.0..=h).contains(&p.y);
    let beyond = points.iter().find(|p| !is_inside(p))?;
    let (kind, message) = if clip(&points, w, h).is_empty() {
        let message = format!(
            "{what} {name:?} lies outside the picture, which is {width}x{height} pixels, so \
             no object reaches it; give coordinates between 0,0 and {width},{height}"
        );
        (WarningKind::OutsidePicture, message)
    } else {
        let message = format!(
            "{what} {name:?} extends beyond the picture, which is {width}x{height} pixels, at \
             {},{}",
            beyond.x, beyond.y
        );
        (WarningKind::PartlyOutsidePicture, message)
    };
    Some(PipelineWarning { kind, message })
}

/// The part of a polygon inside the picture, by clipping at each border in turn (Sutherland and
/// Hodgman, 1974). A line is a polygon of two corners.
fn clip(points: &[Point], width: f64, height: f64) -> Vec<Point> {
    type Inside = fn(&Point, f64) -> f64;
    let borders: [(Inside, f64); 4] = [
        (|p, _| p.x, 0.0),
        (|p, at| at - p.x, width),
        (|p, _| p.y, 0.0),
        (|p, at| at - p.y, height),
    ];
    borders
        .into_iter()
        .fold(points.to_vec(), |points, (depth, at)| {
            let mut kept = Vec::with_capacity(points.len() + 1);
            for (i, here) in points.iter().enumerate() {
                let before = points[(i + points.len() - 1) % points.len()];
                let (d0, d1) = (depth(&before, at), depth(here, at));
                if (d0 < 0.0) != (d1 < 0.0) {
                    let t = d0 / (d0 - d1);
                    kept.push(Point::new(
                        before.x + t * (here.x - before.x),
                        before.y + t * (here.y - before.y),
                    ));
                }
                if d1 >= 0.0 {
                    kept.push(*here);
                }
            }
            kept
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: [u32; 2] = [640, 360];

    fn line(from: [f64; 2], to: [f64; 2]) -> Overlay {
        Overlay::Line {
            name: "door".to_owned(),
            start: Point::new(from[0], from[1]),
            end: Point::new(to[0], to[1]),
        }
    }

    fn zone(points: &[[f64; 2]]) -> Overlay {
        Overlay::Zone {
            name: "desk".to_owned(),
            polygon: points.iter().map(|p| Point::new(p[0], p[1])).collect(),
        }
    }

    fn kind(overlay: Overlay) -> Option<WarningKind> {
        outside(&[overlay], SIZE).first().map(|w| w.kind)
    }

    #[test]
    fn line_along_the_border_is_inside() {
        assert_eq!(kind(line([0.0, 360.0], [640.0, 360.0])), None);
    }

    #[test]
    fn line_below_the_picture_is_outside() {
        let warnings = outside(&[line([0.0, 800.0], [1920.0, 800.0])], SIZE);
        let message = warnings.first().map(|w| w.message.clone());
        let message = message.unwrap_or_default();
        assert!(
            message.contains("\"door\"") && message.contains("640x360"),
            "{message}"
        );
        assert_eq!(warnings[0].kind, WarningKind::OutsidePicture);
    }

    #[test]
    fn line_that_passes_a_corner_is_outside() {
        let past = line([600.0, -100.0], [900.0, 200.0]);
        assert_eq!(kind(past), Some(WarningKind::OutsidePicture));
    }

    #[test]
    fn shape_across_the_border_is_partly_outside() {
        let partly = Some(WarningKind::PartlyOutsidePicture);
        assert_eq!(kind(line([-5.0, 100.0], [645.0, 100.0])), partly);
        assert_eq!(
            kind(zone(&[[600.0, 300.0], [900.0, 300.0], [900.0, 900.0]])),
            partly
        );
        // A zone around the whole picture has no corner in it.
        assert_eq!(
            kind(zone(&[
                [-10.0, -10.0],
                [700.0, -10.0],
                [700.0, 400.0],
                [-10.0, 400.0]
            ])),
            partly
        );
    }

    proptest! {
        #[test]
        fn shape_with_a_corner_inside_is_never_outside(
            x in 0.0..=640.0f64, y in 0.0..=360.0f64, others in proptest::collection::vec((-2e3..2e3f64, -2e3..2e3f64), 2..6),
        ) {
            let mut points: Vec<[f64; 2]> = others.into_iter().map(|(x, y)| [x, y]).collect();
            points.push([x, y]);
            prop_assert_ne!(kind(zone(&points)), Some(WarningKind::OutsidePicture));
        }
    }
}
