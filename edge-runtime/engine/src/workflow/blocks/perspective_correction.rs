//! Transforms pictures to a view from straight above.

use watchkeeper_vision::detections::Keypoint;
use watchkeeper_vision::geometry::{Anchor, polygon_area};
use watchkeeper_vision::imaging::warp::Perspective;
use watchkeeper_vision::outline::around;

use crate::workflow::block_api::call;
use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/perspective_correction@v1",
    summary: "Transforms a part of the picture with four corners, such as a floor, and the \
              detections on it, to a rectangle.",
    properties: &[
        Property::optional_data("predictions", BOXES).about("the detections to transform too"),
        IMAGES.about("the pictures"),
        Property::value("perspective_polygons", Shape::Points).about(
            "the four corners [[x, y], …], or several such polygons of which the largest is used",
        ),
        Property::integer("transformed_rect_width", 1000).about("width of the rectangle"),
        Property::integer("transformed_rect_height", 1000).about("height of the rectangle"),
        Property::text("extend_perspective_polygon_by_detections_anchor", "").about(
            "a point of the box: the part is extended to hold that of every detection; ALL for all \
             corners",
        ),
        Property::boolean("warp_image", false).about("whether to transform the picture too"),
    ],
    outputs: &[
        Output::new("corrected_coordinates", BOXES),
        Output::new("warped_image", &[Kind::Image]),
        Output::new("extended_transformed_rect_width", &[Kind::Integer]),
        Output::new("extended_transformed_rect_height", &[Kind::Integer]),
    ],
    batch: &["images", "predictions"],
    mixed: &[
        "perspective_polygons",
        "transformed_rect_width",
        "transformed_rect_height",
    ],
    build: |_| Ok(stateful(run)),
    ..Manifest::of("transformation")
}];

/// Maximum side of a rectangle in pixels.
const MAX_SIDE: i64 = 16_384;

/// `first`: the first transformation, kept unless it depends on detections.
fn run(first: &mut Option<(Perspective, [f64; 2])>, call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("images"))?;
    let detections = call.optional(arg!("predictions"), Call::detections)?;
    let size = [
        call.integer_in(arg!("transformed_rect_width"), 1..=MAX_SIDE)?,
        call.integer_in(arg!("transformed_rect_height"), 1..=MAX_SIDE)?,
    ];
    let anchor = call.text(arg!("extend_perspective_polygon_by_detections_anchor"))?;
    let (homography, extended) = match first.filter(|_| anchor.is_empty()) {
        Some(found) => found,
        None => {
            let corners = turned(largest(call.arg(arg!("perspective_polygons")))?);
            let found = to_rectangle(
                corners,
                size,
                detections.filter(|_| !anchor.is_empty()),
                anchor,
            )?;
            *first = Some(found);
            found
        }
    };
    let whole = |n: i64, more: f64| {
        n.saturating_add(more.round_ties_even() as i64)
            .min(MAX_SIDE)
    };
    let full = [whole(size[0], extended[0]), whole(size[1], extended[1])];
    let full_size = full.map(|n| u32::try_from(n).unwrap_or(1));
    call.put(2, full[0]);
    call.put(3, full[1]);
    if let Some(all) = detections {
        call.put(0, corrected(all, &homography, full_size));
    }
    if call.boolean(arg!("warp_image"))? {
        call.put(
            1,
            image.changed(full_size, move |pixels| homography.warp(pixels, full_size)),
        );
    } else {
        call.put(1, Value::Image(Arc::clone(image)));
    }
    Ok(())
}

/// The largest four-cornered polygon of one, or of lists of them.
fn largest(value: &Value) -> Result<[Point; 4], String> {
    fn collect(value: &Value, out: &mut Vec<[Point; 4]>) {
        match value.as_points().as_deref() {
            Some(&[a, b, c, d]) => out.push([a, b, c, d]),
            _ => value
                .as_list()
                .unwrap_or_default()
                .iter()
                .for_each(|v| collect(v, out)),
        }
    }
    let mut all = Vec::new();
    collect(value, &mut all);
    let largest = all
        .into_iter()
        .rev()
        .max_by(|a, b| polygon_area(a).total_cmp(&polygon_area(b)));
    largest.ok_or_else(|| {
        "perspective_polygons has to hold a polygon with four corners [x, y]".to_owned()
    })
}

/// The corners clockwise, starting at the lower left.
fn turned(mut corners: [Point; 4]) -> [Point; 4] {
    let b = around(&corners);
    let c = b.center();
    let angle = |p: &Point| (c.x - p.x).atan2(c.y - p.y);
    corners.sort_by(|p, q| angle(q).total_cmp(&angle(p)));
    let upright = [
        Point::new(b.x1, b.y2),
        Point::new(b.x1, b.y1),
        Point::new(b.x2, b.y1),
        Point::new(b.x2, b.y2),
    ];
    let distance = |list: &[Point; 4]| -> f64 {
        list.iter()
            .zip(&upright)
            .map(|(p, q)| (p.x - q.x).hypot(p.y - q.y))
            .sum()
    };
    let mut best = corners;
    for shift in 1..4 {
        let mut rolled = corners;
        rolled.rotate_right(shift);
        let (new, old) = (distance(&rolled), distance(&best));
        if new < old || (new == old && rolled[0].x < best[0].x) {
            best = rolled;
        }
    }
    best
}

/// The transformation of the corners to a rectangle of this size, and the extension for the
/// detections.
fn to_rectangle(
    corners: [Point; 4],
    size: [i64; 2],
    detections: Option<&Arc<Detections>>,
    anchor: &str,
) -> Result<(Perspective, [f64; 2]), String> {
    let [width, height] = size.map(|n| Value::Int(n).as_f64().unwrap_or(1.0));
    let mut part = Part {
        corners,
        extended: [0.0; 2],
    };
    let mut extended = [0.0; 2];
    if let Some(all) = detections.filter(|all| !all.boxes.is_empty()) {
        let [left_below, left_above, right_above, right_below] = corners;
        let length = |a: Point, b: Point| (a.x - b.x).hypot(a.y - b.y);
        let before = [
            length(left_below, right_below).max(length(left_above, right_above)),
            length(left_below, left_above).max(length(right_below, right_above)),
        ];
        part.hold(all, anchor)?;
        extended = [
            part.extended[0] * width / before[0].max(1.0),
            part.extended[1] * height / before[1].max(1.0),
        ];
    }
    let right = width + extended[0].round_ties_even() - 1.0;
    let below = height + extended[1].round_ties_even() - 1.0;
    let to = [
        Point::new(0.0, below),
        Point::default(),
        Point::new(right, 0.0),
        Point::new(right, below),
    ];
    let homography = Perspective::between(&part.corners, &to);
    homography
        .map(|homography| (homography, extended))
        .ok_or_else(|| "three corners of the perspective polygon are on a line".to_owned())
}

/// A part of the picture that is extended.
struct Part {
    /// Lower left, upper left, upper right, lower right.
    corners: [Point; 4],
    /// Extension in pixels, horizontal and vertical.
    extended: [f64; 2],
}

impl Part {
    /// Extends it to hold a point of every detection.
    fn hold(&mut self, all: &Detections, anchor: &str) -> Result<(), String> {
        // Each side by its corners clockwise, with the corners of a box that are outermost on that
        // side.
        let sides = [
            (0, 1, [Anchor::BottomLeft, Anchor::TopLeft]),
            (2, 3, [Anchor::BottomRight, Anchor::TopRight]),
            (3, 0, [Anchor::BottomRight, Anchor::BottomLeft]),
            (1, 2, [Anchor::TopRight, Anchor::TopLeft]),
        ];
        let one = match anchor {
            "ALL" => None,
            name => Some(call::anchor(name).map_err(|why| format!("{why}, or ALL"))?),
        };
        for d in &all.boxes {
            for (i, (from, to, farthest)) in sides.into_iter().enumerate() {
                let anchors = one.map_or(farthest.to_vec(), |a| vec![a]);
                for anchor in anchors {
                    let moved = self.push(from, to, d.anchor(anchor, all.size))?;
                    self.extended[usize::from(i > 1)] += moved;
                }
            }
        }
        Ok(())
    }

    /// Moves a side out to a point beyond it. Returns the movement in pixels of its second corner,
    /// or of the first for the left and upper side.
    fn push(&mut self, from: usize, to: usize, p: Point) -> Result<f64, String> {
        let (a, b) = (self.corners[from], self.corners[to]);
        let beyond = (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x) <= 0.0;
        if inside(&self.corners, p) || !beyond {
            return Ok(0.0);
        }
        // The corners slide along the sides that end in them.
        let (before, after) = (self.corners[(from + 3) % 4], self.corners[(to + 1) % 4]);
        let through = Point::new(p.x + b.x - a.x, p.y + b.y - a.y);
        let meet = |side: [Point; 2]| {
            let crossing = crossing([p, through], side);
            crossing
                .map(|c| Point::new(c.x.round_ties_even(), c.y.round_ties_even()))
                .ok_or_else(|| {
                    "the perspective polygon can't be made to hold all detections".to_owned()
                })
        };
        let (new_a, new_b) = (meet([a, before])?, meet([b, after])?);
        self.corners[from] = new_a;
        self.corners[to] = new_b;
        let (old, new) = if from == 0 || from == 1 {
            (a, new_a)
        } else {
            (b, new_b)
        };
        Ok((old.x - new.x).hypot(old.y - new.y))
    }
}

/// Returns whether a point is in a polygon or on its edge.
fn inside(corners: &[Point; 4], p: Point) -> bool {
    let next = corners.iter().cycle().skip(1);
    let sides = corners
        .iter()
        .zip(next)
        .map(|(a, b)| (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x));
    let sides: Vec<f64> = sides.collect();
    sides.iter().all(|s| *s >= 0.0) || sides.iter().all(|s| *s <= 0.0)
}

/// Intersection of two lines, each given by two points.
fn crossing([a, b]: [Point; 2], [c, d]: [Point; 2]) -> Option<Point> {
    let determinant = (b.x - a.x) * (d.y - c.y) - (b.y - a.y) * (d.x - c.x);
    let t = ((c.x - a.x) * (d.y - c.y) - (c.y - a.y) * (d.x - c.x)) / determinant;
    t.is_finite()
        .then(|| Point::new(a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)))
}

/// Transforms the detections, in whole pixels.
fn corrected(all: &Detections, homography: &Perspective, size: [u32; 2]) -> Detections {
    let whole = |p: Point| Point::new(p.x.round_ties_even(), p.y.round_ties_even());
    let box_of = |points: &[Point]| {
        let b = around(points);
        let (low, high) = (whole(Point::new(b.x1, b.y1)), whole(Point::new(b.x2, b.y2)));
        BBox::new(low.x, low.y, high.x, high.y)
    };
    let mut out = Detections::clone(all);
    for d in &mut out.boxes {
        let outline = d.mask().and_then(|m| m.bitmap(all.size).longest_outline());
        if let Some(outline) = outline {
            let seen: Vec<Point> = outline.iter().map(|p| homography.apply(*p)).collect();
            d.bbox = box_of(&seen);
            let corners: Vec<Point> = seen.into_iter().map(whole).collect();
            d.set_mask(Bitmap::fill(&corners, size));
        } else {
            let seen = d.bbox.corners().map(|p| homography.apply(whole(p)));
            d.bbox = box_of(&seen);
        }
        if let Some(points) = d.extra.as_mut().and_then(|e| e.keypoints.as_mut()) {
            let moved = points.iter().map(|p| Keypoint {
                at: whole(homography.apply(p.at)),
                ..p.clone()
            });
            *points = moved.collect();
        }
    }
    out
}
