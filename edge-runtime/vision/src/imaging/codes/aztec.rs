//! Places of Aztec codes: squares around rings of one width.
//!
//! The library's reader looks only around the middle of a picture, so each square is read as one.

use rxing::common::BitMatrix;

const MAX_SQUARES: usize = 8;

/// Rings around the middle that are compared; the smallest codes have four.
const RINGS: u32 = 3;

/// Modules from the middle of the largest code to its border.
const MAX_MODULES: u32 = 76;

/// Corner and side of squares in a picture in black and white, each around what looks like the
/// middle of a code.
pub(super) fn squares(dark: &BitMatrix) -> Vec<[u32; 3]> {
    let (width, height) = (dark.width(), dark.getHeight());
    let mut middles: Vec<[u32; 3]> = Vec::new();
    for y in (0..height).step_by(2) {
        let is_edge = |x: &u32| dark.get(*x, y) != dark.get(*x - 1, y);
        let edges: Vec<u32> = (1..width).filter(is_edge).collect();
        for edges in edges.windows(2 * RINGS as usize + 2) {
            let Some([x, y, module]) = middle(dark, edges, y) else {
                continue;
            };
            let is_near = |[a, b, _]: &[u32; 3]| a.abs_diff(x).max(b.abs_diff(y)) < 2 * module;
            if middles.len() < MAX_SQUARES && !middles.iter().any(is_near) {
                middles.push([x, y, module]);
            }
        }
    }
    let square = |[x, y, module]: [u32; 3]| {
        let inside = x.min(y).min(width - 1 - x).min(height - 1 - y);
        let half = inside.min(MAX_MODULES.saturating_mul(module));
        [x - half, y - half, 2 * half + 1]
    };
    middles.into_iter().map(square).collect()
}

/// The middle of rings and the size of their modules in pixels. A row crosses dark and light rings
/// at these edges, and the column through their middle has the same rings.
fn middle(dark: &BitMatrix, edges: &[u32], y: u32) -> Option<[u32; 3]> {
    let (first, last) = (edges.first()?, edges.last()?);
    let runs = 2 * RINGS + 1;
    let module = (last - first) / runs;
    let is_even = |pair: &[u32]| (pair[1] - pair[0]).abs_diff(module) <= module.div_ceil(2);
    let x = u32::midpoint(*edges.get(RINGS as usize)?, *edges.get(RINGS as usize + 1)?);
    if module == 0 || !dark.get(x, y) || !edges.windows(2).all(is_even) {
        return None;
    }
    let (is_dark, reach) = (|y: &u32| dark.get(x, *y), module as usize);
    let above = (0..y).rev().take(reach).take_while(is_dark).count();
    let below = (y + 1..dark.getHeight())
        .take(reach)
        .take_while(is_dark)
        .count();
    let y = u32::midpoint(y - above as u32, y + below as u32);
    let has_ring = |ring: u32| {
        let places = [y.checked_sub(ring * module), y.checked_add(ring * module)];
        places
            .iter()
            .all(|place| place.and_then(|y| dark.try_get(x, y)) == Some(ring.is_multiple_of(2)))
    };
    (1..=RINGS).all(has_ring).then_some([x, y, module])
}
