//! Checks the lines and zones of a workflow against a picture's size and its current detections.
//!
//! Invariant: pure. Only geometry that nobody can mean is an error: a corner outside the picture,
//! no length, no area.

use serde::Serialize;
use serde_json::{Value, json};
use watchkeeper_engine::workflow::Overlay;
use watchkeeper_vision::geometry::{BBox, Point, polygon_area};

/// Share of the picture below which a zone gets a warning: about 50 × 40 pixels of 1280 × 720.
const MIN_USUAL_SHARE: f64 = 0.002;
/// Share below which a zone is an error: less than ten pixels square of 1280 × 720. Corners given
/// as shares of the picture end there.
const MIN_SHARE: f64 = 0.0001;
/// Maximum detections in a list.
const MAX_DETECTIONS: usize = 25;

/// The result of [`check_places`].
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct GeometryReport {
    /// Errors, one sentence each. A draft with an error can't be proposed.
    pub wrong: Vec<String>,
    /// Warnings, one sentence each.
    pub mind: Vec<String>,
    /// Each line and zone with its position and its current detections.
    pub places: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Detection {
    pub class: String,
    /// From 0 to 1.
    pub confidence: f64,
    pub bbox: BBox,
}

impl Detection {
    /// Reads serialized detections; skips invalid ones.
    pub fn all(serialised: &Value) -> Vec<Self> {
        let all = serialised.get("predictions").and_then(Value::as_array);
        let one = |value: &Value| {
            let number = |name: &str| value.get(name).and_then(Value::as_f64);
            let (x, y) = (number("x")?, number("y")?);
            let (w, h) = (number("width")? / 2.0, number("height")? / 2.0);
            Some(Self {
                class: value.get("class")?.as_str()?.to_owned(),
                confidence: number("confidence")?,
                bbox: BBox::new(x - w, y - h, x + w, y + h),
            })
        };
        all.into_iter().flatten().filter_map(one).collect()
    }
}

/// Detections as JSON for the language model, highest confidence first.
pub fn list_detections(seen: &[Detection]) -> Value {
    let mut seen: Vec<&Detection> = seen.iter().collect();
    seen.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    let more = seen.len().saturating_sub(MAX_DETECTIONS);
    let one = |s: &&Detection| {
        json!({"class": s.class, "confidence": (s.confidence * 100.0).round() / 100.0,
        "box_px": whole_pixels(&s.bbox)})
    };
    let boxes: Vec<Value> = seen.iter().take(MAX_DETECTIONS).map(one).collect();
    match more {
        0 => Value::from(boxes),
        more => json!({"surest": boxes, "more": more}),
    }
}

/// Checks lines and zones in a picture of `size` pixels with the detections `seen`.
pub fn check_places(overlays: &[Overlay], size: [u32; 2], seen: &[Detection]) -> GeometryReport {
    let mut findings = GeometryReport::default();
    for overlay in overlays {
        match overlay {
            Overlay::Line { name, start, end } => {
                let what = format!("line {name:?}");
                check_inside(&what, &[*start, *end], size, &mut findings);
                let length = (end.x - start.x).hypot(end.y - start.y);
                if length < 1.0 {
                    findings
                        .wrong
                        .push(format!("{what} has no length: give two different points"));
                }
                findings.places.push(json!({
                    "line": name, "from": [start.x, start.y], "to": [end.x, end.y],
                    "length_px": length.round(),
                    "in_is": in_direction(*start, *end),
                }));
            }
            Overlay::Zone { name, polygon } => {
                let what = format!("zone {name:?}");
                check_inside(&what, polygon, size, &mut findings);
                let [width, height] = size.map(f64::from);
                let share = polygon_area(polygon).abs() / (width * height).max(1.0);
                if share <= 0.0 {
                    findings.wrong.push(format!(
                        "{what} has no area: give three or more corners that enclose an area"
                    ));
                } else if share < MIN_SHARE {
                    findings.wrong.push(format!(
                        "{what} covers {:.4} % of the picture: corners are pixels of the camera's \
                            own picture, {width}x{height}",
                        share * 100.0
                    ));
                } else if share < MIN_USUAL_SHARE {
                    findings.mind.push(format!(
                        "{what} covers {:.2} % of the picture",
                        share * 100.0
                    ));
                }
                let inside = seen.iter().filter(|s| s.bbox.center().is_inside(polygon));
                let corners = polygon.iter().map(|p| BBox::new(p.x, p.y, p.x, p.y));
                let around = corners.reduce(|a, b| a.union(&b));
                findings.places.push(json!({
                    "zone": name, "box_px": around.as_ref().map(whole_pixels),
                    "share_of_picture": (share * 1000.0).round() / 1000.0,
                    "detections_with_centre_inside_now": inside.count(),
                }));
            }
        }
    }
    findings
}

/// Left, top, right and bottom, rounded.
fn whole_pixels(bbox: &BBox) -> [f64; 4] {
    [bbox.x1, bbox.y1, bbox.x2, bbox.y2].map(f64::round)
}

/// Direction in the picture that a line counts as in: to the left, looking from its start to its
/// end.
fn in_direction(start: Point, end: Point) -> String {
    let (right, down) = (end.y - start.y, start.x - end.x);
    let horizontal = if right > 0.0 { "right" } else { "left" };
    let vertical = if down > 0.0 { "down" } else { "up" };
    let words = match (right.abs(), down.abs()) {
        (x, y) if x > 2.0 * y => vec![horizontal],
        (x, y) if y > 2.0 * x => vec![vertical],
        _ => vec![vertical, horizontal],
    };
    format!("movement {} in the picture", words.join(" and "))
}

fn check_inside(
    what: &str,
    points: &[Point],
    [width, height]: [u32; 2],
    findings: &mut GeometryReport,
) {
    let (w, h) = (f64::from(width), f64::from(height));
    let is_inside = |p: &&Point| (0.0..=w).contains(&p.x) && (0.0..=h).contains(&p.y);
    let outside = points.iter().find(|p| !is_inside(p));
    if let Some(point) = outside {
        findings.wrong.push(format!(
            "{what} reaches out of the picture at {},{}: the picture is {width}x{height} pixels",
            point.x, point.y
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: [u32; 2] = [640, 360];

    fn zone(points: &[[f64; 2]]) -> Overlay {
        Overlay::Zone {
            name: "desk".to_owned(),
            polygon: points.iter().map(|p| Point::new(p[0], p[1])).collect(),
        }
    }

    fn line(from: [f64; 2], to: [f64; 2]) -> Overlay {
        Overlay::Line {
            name: "door".to_owned(),
            start: Point::new(from[0], from[1]),
            end: Point::new(to[0], to[1]),
        }
    }

    #[test]
    fn place_outside_the_picture_is_an_error_with_its_size() {
        let found = check_places(&[line([900.0, 0.0], [900.0, 360.0])], SIZE, &[]);
        assert_eq!(found.wrong.len(), 1);
        assert!(found.wrong[0].contains("640x360"), "{:?}", found.wrong);
        let along = check_places(&[line([640.0, 0.0], [640.0, 360.0])], SIZE, &[]);
        assert!(along.wrong.is_empty(), "the border is inside");
    }

    #[test]
    fn zone_says_where_it_lies_in_pixels() {
        let desk = zone(&[[100.0, 50.0], [300.4, 50.0], [300.4, 200.0]]);
        let found = check_places(&[desk], SIZE, &[]);
        assert_eq!(
            found.places[0]["box_px"],
            json!([100.0, 50.0, 300.0, 200.0])
        );
    }

    #[test]
    fn line_says_where_in_leads_in_the_picture() {
        for (from, to, leads) in [
            ([320.0, 0.0], [320.0, 360.0], "right"),
            ([320.0, 360.0], [320.0, 0.0], "left"),
            ([0.0, 180.0], [640.0, 180.0], "up"),
            ([640.0, 180.0], [0.0, 190.0], "down"),
            ([100.0, 100.0], [200.0, 200.0], "up and right"),
        ] {
            let found = check_places(&[line(from, to)], SIZE, &[]);
            let wanted = format!("movement {leads} in the picture");
            assert_eq!(found.places[0]["in_is"], wanted);
        }
    }

    #[test]
    fn place_without_extent_is_an_error() {
        let same = check_places(&[line([9.0, 9.0], [9.0, 9.0])], SIZE, &[]);
        assert_eq!(same.wrong.len(), 1);
        let flat = check_places(&[zone(&[[0.0, 0.0], [9.0, 0.0], [20.0, 0.0]])], SIZE, &[]);
        assert_eq!(flat.wrong.len(), 1, "{flat:?}");
    }

    #[test]
    fn small_zone_is_a_warning_and_counts_detections() {
        let seen = Detection {
            class: "person".to_owned(),
            confidence: 0.9,
            bbox: BBox::new(10.0, 10.0, 20.0, 20.0),
        };
        let corners = [[0.0, 0.0], [20.0, 0.0], [20.0, 20.0], [0.0, 20.0]];
        let found = check_places(&[zone(&corners)], SIZE, &[seen]);
        assert!(found.wrong.is_empty());
        assert_eq!(found.mind.len(), 1);
        assert_eq!(found.places[0]["detections_with_centre_inside_now"], 1);
    }

    #[test]
    fn detections_are_read_and_listed_by_confidence() {
        let one = |confidence: f64| {
            json!({"x": 15.0, "y": 15.0, "width": 10.0, "height": 20.0,
        "class": "car", "confidence": confidence})
        };
        let boxes: Vec<Value> = (0..30).map(|n| one(f64::from(n) / 100.0)).collect();
        let seen = Detection::all(&json!({"predictions": boxes}));
        assert_eq!(seen[0].bbox, BBox::new(10.0, 5.0, 20.0, 25.0));
        let listed = list_detections(&seen);
        assert_eq!(listed["more"], 5);
        assert_eq!(listed["surest"][0]["confidence"], 0.29);
        assert!(Detection::all(&json!({"predictions": [{"x": "a"}]})).is_empty());
    }
}
