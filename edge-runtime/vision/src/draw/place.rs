//! Candidate places of labels, and the choice among them. Pure.
//!
//! - A place lies in the picture, unless the label is larger than it.
//! - The first candidate that overlaps no label wins, else one with little overlap: equal input
//!   gives equal places.
//! - A label stays at its last side until another one is clearly better, so it does not flicker.

use super::canvas::finite;
use crate::geometry::{BBox, Point};

/// A later candidate wins if its overlap is below this share of the best earlier one's.
const MAX_SHARE: f64 = 0.6;

/// Position of a label relative to its box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Above,
    AboveRight,
    Below,
    BelowRight,
    Right,
    Left,
    /// Over the lower part of the box.
    OverFoot,
    /// Over the upper part of the box.
    OverHead,
}

impl Side {
    /// Whether the label leaves its box free.
    pub(super) fn is_beside(self) -> bool {
        !matches!(self, Self::OverFoot | Self::OverHead)
    }
}

/// A label to place: the size of its plate, and the size of the picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Space {
    pub plate: [f64; 2],
    pub picture: [f64; 2],
    /// Pixels between a label and what it names.
    pub gap: f64,
}

/// The index of the best of `candidates`, given the `taken` places and the `lines` that it should
/// not cross; `None` without candidates.
pub(super) fn choose(
    candidates: impl IntoIterator<Item = BBox>,
    taken: &[BBox],
    lines: &[(Point, Point)],
) -> Option<usize> {
    let mut best: Option<(f64, usize)> = None;
    for (i, place) in candidates.into_iter().enumerate() {
        let crossed = lines.iter().filter(|line| is_crossed(&place, line)).count();
        let overlap: f64 = taken.iter().map(|other| place.common_area(other)).sum();
        let cost = overlap + crossed as f64;
        if cost == 0.0 {
            return Some(i);
        }
        if best.is_none_or(|(least, _)| cost < least * MAX_SHARE) {
            best = Some((cost, i));
        }
    }
    best.map(|(_, i)| i)
}

fn is_crossed(place: &BBox, (a, b): &(Point, Point)) -> bool {
    visible_part(*place, *a, *b).is_some()
}

impl Space {
    /// Places beside a box, best first: above, below, beside and, last, over it.
    pub(super) fn beside_box(&self, b: &BBox) -> Vec<(Side, BBox)> {
        let ([w, h], [width, height], gap) = (self.plate, self.picture, self.gap);
        let (above, below) = (b.y1 - gap - h, b.y2 + gap);
        let (from_left, from_right) = (b.x1 - gap, b.x2 + gap - w);
        let (right, left) = (b.x2 + gap, b.x1 - gap - w);
        // The lower part first: the head of a person is in the upper one.
        let foot = b.y2.min(height) - gap - h;
        let head = b.y1.max(0.0) + gap;
        let (fits_above, fits_below) = (above >= 0.0, below + h <= height);
        let places = [
            (fits_above, Side::Above, from_left, above),
            (fits_above, Side::AboveRight, from_right, above),
            (fits_below, Side::Below, from_left, below),
            (fits_below, Side::BelowRight, from_right, below),
            (right + w <= width, Side::Right, right, b.y1),
            (left >= 0.0, Side::Left, left, b.y1),
            (true, Side::OverFoot, from_left, foot),
            (true, Side::OverHead, from_left, head),
        ];
        let fitting = places.into_iter().filter(|(fits, ..)| *fits);
        fitting
            .map(|(_, side, x, y)| (side, self.at(x, y)))
            .collect()
    }

    /// Places at a zone, best first: above its topmost corner, below that, then along its bounds.
    pub(super) fn at_zone(&self, corners: &[Point]) -> Vec<BBox> {
        let ([w, h], [width, height], gap) = (self.plate, self.picture, self.gap);
        let picture = BBox::new(0.0, 0.0, width, height);
        let next = corners.iter().cycle().skip(1);
        let edges = corners.iter().zip(next);
        let seen: Vec<Point> = edges
            .filter_map(|(a, b)| visible_part(picture, *a, *b))
            .flat_map(|(a, b)| [a, b])
            .collect();
        let order = |p: &&Point, q: &&Point| (p.y.total_cmp(&q.y)).then(p.x.total_cmp(&q.x));
        let (Some(top), Some(bottom)) = (seen.iter().min_by(order), seen.iter().max_by(order))
        else {
            // No edge is visible: the zone covers the picture, or none of it.
            return vec![self.at(gap, gap)];
        };
        let mut places = Vec::with_capacity(6);
        if top.y - gap - h >= 0.0 {
            let above = top.y - gap - h;
            places.extend([top.x, top.x - w / 2.0, top.x - w].map(|x| self.at(x, above)));
        }
        places.push(self.at(top.x + gap, top.y + gap));
        places.push(self.at(top.x - w - gap, top.y + gap));
        places.push(self.at(bottom.x - w / 2.0, bottom.y - h - gap));
        places
    }

    /// Places at a line that leave it and its arrow of length `arrow` free. They are beyond its
    /// ends, then beside them on the outer and the inner side, at last beside its middle.
    pub(super) fn beside_line(&self, start: Point, end: Point, arrow: f64) -> Vec<BBox> {
        let ([w, h], [width, height]) = (self.plate, self.picture);
        let picture = BBox::new(0.0, 0.0, width, height);
        let (start, end) = visible_part(picture, start, end).unwrap_or((start, end));
        let (dx, dy) = (end.x - start.x, end.y - start.y);
        let length = dx.hypot(dy).max(f64::MIN_POSITIVE);
        // To the left, looking from start to end, as y points down.
        let inward = Point::new(dy / length, -dx / length);
        // Half of the plate's extent across the line.
        let half = inward.x.abs() * w / 2.0 + inward.y.abs() * h / 2.0;
        let place = |share: f64, across: f64| {
            let center = Point::new(
                start.x + dx * share + inward.x * across,
                start.y + dy * share + inward.y * across,
            );
            BBox::new(center.x - w / 2.0, center.y - h / 2.0, 0.0, 0.0)
        };
        let (outside, inside) = (-(half + self.gap), half + self.gap + arrow);
        // Objects cross the middle most and nothing beyond an end.
        let beyond = ((dx.abs() * w + dy.abs() * h) / (2.0 * length) + self.gap) / length;
        let beside = [0.1, 0.9, 0.3, 0.7, 0.5]
            .iter()
            .flat_map(|&share| [place(share, outside), place(share, inside)]);
        let spots: Vec<BBox> = [place(-beyond, 0.0), place(1.0 + beyond, 0.0)]
            .into_iter()
            .chain(beside)
            .collect();
        let fits =
            |b: &&BBox| b.x1 >= 0.0 && b.y1 >= 0.0 && b.x1 + w <= width && b.y1 + h <= height;
        let mut places: Vec<BBox> = spots
            .iter()
            .filter(fits)
            .map(|b| self.at(b.x1, b.y1))
            .collect();
        if places.is_empty() {
            places.extend(spots.first().map(|b| self.at(b.x1, b.y1)));
        }
        places
    }

    /// The plate with its upper left corner at `x`, `y`, moved into the picture, on whole pixels.
    fn at(&self, x: f64, y: f64) -> BBox {
        let ([w, h], [width, height]) = (self.plate, self.picture);
        let x = x.min(width - w).max(0.0).round();
        let y = y.min(height - h).max(0.0).round();
        BBox::new(x, y, x + w, y + h)
    }
}

/// The part of a segment in a box; `None` if there is none. Liang and Barsky, "A new concept and
/// method for line clipping", 1984.
pub(super) fn visible_part(within: BBox, a: Point, b: Point) -> Option<(Point, Point)> {
    if !finite(&[a.x, a.y, b.x, b.y]) {
        return None;
    }
    let (dx, dy) = (b.x - a.x, b.y - a.y);
    let (mut from, mut to) = (0.0f64, 1.0f64);
    let edges = [
        (-dx, a.x - within.x1),
        (dx, within.x2 - a.x),
        (-dy, a.y - within.y1),
        (dy, within.y2 - a.y),
    ];
    for (step, room) in edges {
        if step == 0.0 && room < 0.0 {
            return None;
        }
        if step < 0.0 {
            from = from.max(room / step);
        }
        if step > 0.0 {
            to = to.min(room / step);
        }
    }
    let at = |share: f64| Point::new(a.x + dx * share, a.y + dy * share);
    (from <= to).then(|| (at(from), at(to)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPACE: Space = Space {
        plate: [60.0, 16.0],
        picture: [320.0, 240.0],
        gap: 2.0,
    };

    fn is_in_picture(b: &BBox) -> bool {
        b.x1 >= 0.0 && b.y1 >= 0.0 && b.x2 <= 320.0 && b.y2 <= 240.0
    }

    #[test]
    fn label_stands_above_a_box_with_room() {
        let places = SPACE.beside_box(&BBox::new(100.0, 100.0, 140.0, 200.0));
        assert_eq!(places[0], (Side::Above, BBox::new(98.0, 82.0, 158.0, 98.0)));
    }

    #[test]
    fn label_of_a_box_at_the_top_stands_below_it() {
        let places = SPACE.beside_box(&BBox::new(100.0, 0.0, 140.0, 100.0));
        assert_eq!(
            places[0],
            (Side::Below, BBox::new(98.0, 102.0, 158.0, 118.0))
        );
    }

    #[test]
    fn taken_place_is_avoided() {
        let beside = SPACE.beside_box(&BBox::new(100.0, 100.0, 140.0, 200.0));
        let places: Vec<BBox> = beside.iter().map(|(_, place)| *place).collect();
        assert_eq!(choose(places.clone(), &places[..2], &[]), Some(2));
    }

    #[test]
    fn later_place_wins_only_with_clearly_less_overlap() {
        let places = [SPACE.at(0.0, 0.0), SPACE.at(100.0, 100.0)];
        let half = BBox::new(30.0, 0.0, 60.0, 16.0);
        let right = |width: f64| BBox::new(160.0 - width, 100.0, 160.0, 116.0);
        assert_eq!(choose(places, &[half, right(25.0)], &[]), Some(0));
        assert_eq!(choose(places, &[half, right(10.0)], &[]), Some(1));
        assert_eq!(choose([], &[half], &[]), None);
    }

    #[test]
    fn plate_stands_beside_its_line_at_any_slope() {
        for degrees in 0..360 {
            let (sin, cos) = f64::from(degrees).to_radians().sin_cos();
            let at = |r: f64| Point::new(160.0 + r * cos, 120.0 + r * sin);
            let (start, end) = (at(-100.0), at(100.0));
            for place in SPACE.beside_line(start, end, 16.0) {
                assert!(is_in_picture(&place), "{degrees} {place:?}");
                assert!(!is_crossed(&place, &(start, end)), "{degrees} {place:?}");
            }
        }
    }

    #[test]
    fn plate_of_a_line_at_the_border_stands_on_the_inner_side() {
        let (start, end) = (Point::new(0.0, 238.0), Point::new(320.0, 238.0));
        let place = SPACE.beside_line(start, end, 16.0)[0];
        assert!(
            is_in_picture(&place) && place.y2 < 238.0 - 16.0,
            "{place:?}"
        );
    }

    proptest! {
        #[test]
        fn any_number_is_harmless(v in proptest::collection::vec(proptest::num::f64::ANY, 8)) {
            let p = |i: usize| Point::new(v[i], v[i + 1]);
            SPACE.beside_box(&BBox::new(v[0], v[1], v[2], v[3]));
            SPACE.at_zone(&[p(0), p(2), p(4)]);
            SPACE.beside_line(p(0), p(2), v[4]);
        }

        #[test]
        fn places_lie_in_the_picture(v in proptest::collection::vec(-500.0..800.0, 6)) {
            let p = |i: usize| Point::new(v[i], v[i + 1]);
            let b = BBox::new(v[0].min(v[2]), v[1].min(v[3]), v[0].max(v[2]), v[1].max(v[3]));
            let beside = SPACE.beside_box(&b).into_iter().map(|(_, place)| place).collect();
            let all = [beside, SPACE.at_zone(&[p(0), p(2), p(4)]),
                SPACE.beside_line(p(0), p(2), 16.0)];
            for places in all {
                prop_assert!(!places.is_empty() && places.iter().all(is_in_picture), "{places:?}");
            }
        }
    }
}
