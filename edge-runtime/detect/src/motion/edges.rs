//! Geometry of boxes in cells.

/// A box in cells: left, upper, right, lower.
pub(super) type Edges = [f32; 4];

/// Distance between two intervals; 0 when they touch.
pub(super) fn gap(a1: f32, a2: f32, b1: f32, b2: f32) -> f32 {
    (b1 - a2).max(a1 - b2).max(0.0)
}

pub(super) fn width(e: &Edges) -> f32 {
    (e[2] - e[0]).max(0.0)
}

pub(super) fn height(e: &Edges) -> f32 {
    (e[3] - e[1]).max(0.0)
}

pub(super) fn size(e: &Edges) -> f32 {
    width(e) * height(e)
}

pub(super) fn centre(e: &Edges) -> [f32; 2] {
    [(e[0] + e[2]) / 2.0, (e[1] + e[3]) / 2.0]
}

pub(super) fn distance(a: [f32; 2], b: [f32; 2]) -> f32 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

/// Intersection over union.
pub(super) fn iou(a: &Edges, b: &Edges) -> f32 {
    let both = overlap(a, b);
    both / (size(a) + size(b) - both).max(1.0)
}

pub(super) fn overlap(a: &Edges, b: &Edges) -> f32 {
    size(&[
        a[0].max(b[0]),
        a[1].max(b[1]),
        a[2].min(b[2]),
        a[3].min(b[3]),
    ])
}

pub(super) fn unite(a: &Edges, b: &Edges) -> Edges {
    [
        a[0].min(b[0]),
        a[1].min(b[1]),
        a[2].max(b[2]),
        a[3].max(b[3]),
    ]
}

/// Similarity of centres: 1 when equal, 0 when further apart than the longest side or when the
/// sizes differ threefold.
pub(super) fn near(a: &Edges, b: &Edges) -> f32 {
    let apart = distance(centre(a), centre(b));
    let side = width(a)
        .max(height(a))
        .max(width(b))
        .max(height(b))
        .max(1.0);
    let alike = size(a) < 3.0 * size(b) && size(b) < 3.0 * size(a);
    if alike {
        (1.0 - apart / side).max(0.0)
    } else {
        0.0
    }
}
