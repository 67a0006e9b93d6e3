//! Areas of the picture in which people rejected the events, and approved nearly none.
//!
//! - An area grows from a rejected event to the next nearest ones. It has at most the allowed
//!   number of approved events, and [`MAX_SIZE`] of the picture.
//! - An event is where the middle of the lower edge of its bounding box is.

use watchkeeper_contract::review::RuleAnswer;

/// Most areas of one narrowing: more would follow single events.
const MAX_AREAS: usize = 3;
/// Fewest rejected events in an area.
const MIN_IN_AREA: usize = 3;
/// Largest area, as a share of the picture.
const MAX_SIZE: f64 = 0.25;
/// Distance by which an area is wider than its events, as a share of the picture.
const MARGIN: f64 = 0.01;
/// Distance that it keeps from approved events.
const CLEARANCE: f64 = 0.02;

/// Whether the event with this bounding box is in an area.
pub(super) fn is_within([x_min, y_min, x_max, y_max]: [f64; 4], bbox: [f64; 4]) -> bool {
    let [x, y] = anchor(bbox);
    (x_min..=x_max).contains(&x) && (y_min..=y_max).contains(&y)
}

/// Finds at most `most` areas that together hold no more than `allowed` approved events.
pub(super) fn find_areas(
    answers: &[&RuleAnswer],
    mut allowed: usize,
    most: usize,
) -> Vec<[f64; 4]> {
    let place = |answer: &&RuleAnswer| answer.bbox.map(anchor);
    let (approved, rejected): (Vec<&RuleAnswer>, Vec<&RuleAnswer>) =
        answers.iter().partition(|answer| answer.is_true);
    let mut approved: Vec<[f64; 2]> = approved.iter().filter_map(place).collect();
    let mut rejected: Vec<[f64; 2]> = rejected.iter().filter_map(place).collect();
    let mut areas = Vec::new();
    while areas.len() < most.min(MAX_AREAS) {
        let grown = rejected.iter().filter_map(|seed| {
            let area = grow(*seed, &rejected, &approved, allowed)?;
            Some((count_in(area, &rejected), area))
        });
        // Of equals the smallest, which is the least of the picture.
        let best = grown.max_by(|a, b| a.0.cmp(&b.0).then(size(b.1).total_cmp(&size(a.1))));
        let Some((_, area)) = best.filter(|(held, _)| *held >= MIN_IN_AREA) else {
            break;
        };
        allowed = allowed.saturating_sub(count_in(area, &approved));
        approved.retain(|point| !holds(area, *point));
        rejected.retain(|point| !holds(area, *point));
        areas.push(area);
    }
    areas
}

fn anchor([x_min, _, x_max, y_max]: [f64; 4]) -> [f64; 2] {
    [f64::midpoint(x_min, x_max), y_max]
}

/// Grows an area from `seed` over the rejected events, nearest first; `None` if approved ones are
/// too near.
fn grow(
    seed: [f64; 2],
    rejected: &[[f64; 2]],
    approved: &[[f64; 2]],
    allowed: usize,
) -> Option<[f64; 4]> {
    let distance = |[x, y]: &[f64; 2]| (x - seed[0]).abs().max((y - seed[1]).abs());
    let mut others = rejected.to_vec();
    others.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
    let mut corners = [seed[0], seed[1], seed[0], seed[1]];
    let mut area = None;
    for [x, y] in others {
        let [x_min, y_min, x_max, y_max] = corners;
        corners = [x_min.min(x), y_min.min(y), x_max.max(x), y_max.max(y)];
        let wider = rounded(corners);
        let near = count_in(widen(wider, CLEARANCE - MARGIN), approved);
        if near > allowed || size(wider) > MAX_SIZE {
            break;
        }
        area = Some(wider);
    }
    area
}

/// The area around these corners, in hundredths of the picture.
fn rounded(corners: [f64; 4]) -> [f64; 4] {
    let [x_min, y_min, x_max, y_max] = widen(corners, MARGIN);
    let down = |v: f64| ((v * 100.0).floor() / 100.0).clamp(0.0, 0.99);
    let up = |v: f64| ((v * 100.0).ceil() / 100.0).clamp(0.01, 1.0);
    [down(x_min), down(y_min), up(x_max), up(y_max)]
}

fn widen([x_min, y_min, x_max, y_max]: [f64; 4], by: f64) -> [f64; 4] {
    [x_min - by, y_min - by, x_max + by, y_max + by]
}

fn size([x_min, y_min, x_max, y_max]: [f64; 4]) -> f64 {
    (x_max - x_min) * (y_max - y_min)
}

fn holds([x_min, y_min, x_max, y_max]: [f64; 4], [x, y]: [f64; 2]) -> bool {
    (x_min..=x_max).contains(&x) && (y_min..=y_max).contains(&y)
}

fn count_in(area: [f64; 4], points: &[[f64; 2]]) -> usize {
    points.iter().filter(|point| holds(area, **point)).count()
}
