//! Overlapping tiles of a picture, so that small objects are large enough for a network.
//!
//! - Tiles cover the picture and lie inside it; their upper left corners are even.
//! - Neighbours overlap by about [`OVERLAP`] of a tile: a smaller object lies whole in one of them.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::geometry::BBox;

/// Share of a tile that its neighbour shows too.
const OVERLAP: f64 = 0.2;
/// Maximum number of tiles along a side.
pub const MAX_SIDE: u32 = 8;
/// Maximum number of tiles that [`Tiles::Auto`] chooses along a side: each costs a network run.
const MAX_AUTO_SIDE: u32 = 3;
/// Input pixels per pixel of the picture from which [`Tiles::Auto`] adds no further tiles.
const AUTO_SCALE: f64 = 0.75;
/// Longest distance from an inner edge of a tile, in shares of the tile, at which a bounding box
/// counts as cut.
const CUT_MARGIN: f64 = 0.01;

/// The grid of tiles that a detection examines besides the whole picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tiles {
    /// As many as the sizes of picture and network require: 2x1 to 3x3.
    #[default]
    Auto,
    Grid {
        columns: NonZeroU32,
        rows: NonZeroU32,
    },
}

/// A text that names no grid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tiles are `auto` or COLUMNSxROWS from 1 to {MAX_SIDE}, such as 2x2, not {0:?}")]
pub struct InvalidTiles(String);

impl FromStr for Tiles {
    type Err = InvalidTiles;

    fn from_str(text: &str) -> Result<Self, InvalidTiles> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let side = |text: &str| {
            let side = text.parse::<NonZeroU32>().ok()?;
            (side.get() <= MAX_SIDE).then_some(side)
        };
        let grid = text.split_once('x').and_then(|(columns, rows)| {
            Some(Self::Grid {
                columns: side(columns)?,
                rows: side(rows)?,
            })
        });
        grid.ok_or_else(|| InvalidTiles(text.to_owned()))
    }
}

impl fmt::Display for Tiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Grid { columns, rows } => write!(f, "{columns}x{rows}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// Upper left corner, even.
    pub corner: [u32; 2],
    /// At least 1 by 1.
    pub size: [u32; 2],
}

impl Tile {
    /// Moves a bounding box from the tile to the picture.
    pub fn to_picture(&self, bbox: &BBox) -> BBox {
        let [left, top] = self.corner.map(f64::from);
        bbox.moved(left, top)
    }

    /// Whether an inner edge of the tile cuts a bounding box, given in pixels of the tile. The
    /// edges of the picture cut nothing that another tile could show.
    pub fn cuts(&self, bbox: &BBox, picture: [u32; 2]) -> bool {
        let is_cut = |axis: usize, start: f64, end: f64| {
            let side = f64::from(self.size[axis]);
            let margin = (CUT_MARGIN * side).max(1.0);
            let is_first = self.corner[axis] == 0;
            let is_last = self.corner[axis] + self.size[axis] >= picture[axis];
            (!is_first && start < margin) || (!is_last && end > side - margin)
        };
        is_cut(0, bbox.x1, bbox.x2) || is_cut(1, bbox.y1, bbox.y2)
    }
}

impl Tiles {
    /// Returns the grid that [`Tiles::Auto`] is for a picture and a network's input of these sizes,
    /// and any other grid as it is.
    #[must_use]
    pub fn resolved(self, picture: [u32; 2], input: [u32; 2]) -> Self {
        let Self::Auto = self else { return self };
        let sides = auto_grid(picture, input).map(|side| NonZeroU32::MIN.saturating_add(side - 1));
        let [columns, rows] = sides;
        Self::Grid { columns, rows }
    }

    /// Returns the tiles of a picture for a network with an input of this size, row by row. Empty
    /// for a picture that is not larger than one tile.
    pub fn of(self, picture: [u32; 2], input: [u32; 2]) -> Vec<Tile> {
        let [columns, rows] = match self {
            Self::Auto => auto_grid(picture, input),
            Self::Grid { columns, rows } => [columns.get(), rows.get()],
        };
        let across = spans(picture[0], columns);
        let down = spans(picture[1], rows);
        if across.len() * down.len() < 2 {
            return Vec::new();
        }
        let tiles = down.iter().flat_map(|&[top, height]| {
            across.iter().map(move |&[left, width]| Tile {
                corner: [left, top],
                size: [width, height],
            })
        });
        tiles.collect()
    }
}

/// The smallest grid of about square tiles that a network shows at [`AUTO_SCALE`] or more.
fn auto_grid(picture: [u32; 2], input: [u32; 2]) -> [u32; 2] {
    let shown = |axis: usize, count: u32| {
        f64::from(input[axis]) / tile_side(f64::from(picture[axis]), count)
    };
    let mut grid = [1, 1];
    loop {
        let scales = [shown(0, grid[0]), shown(1, grid[1])];
        // The side that fills the input decides on the scale.
        let axis = usize::from(scales[0] > scales[1]);
        let is_enough = scales[axis] >= AUTO_SCALE && grid != [1, 1];
        if is_enough || grid[axis] >= MAX_AUTO_SIDE || picture[axis] < 4 {
            return grid;
        }
        grid[axis] += 1;
    }
}

/// Side of each of `count` overlapping tiles.
fn tile_side(side: f64, count: u32) -> f64 {
    side / (f64::from(count) - f64::from(count.saturating_sub(1)) * OVERLAP)
}

/// Starts and lengths of `count` tiles along a side; fewer where the side is too short for them.
fn spans(side: u32, count: u32) -> Vec<[u32; 2]> {
    // Even, so that rounding of starts leaves no gap.
    let length = (tile_side(f64::from(side), count).ceil() as u32).next_multiple_of(2);
    let length = length.min(side);
    let rest = side - length;
    let last = count.saturating_sub(1);
    let mut spans: Vec<[u32; 2]> = (0..count)
        .map(|i| {
            let start = if last == 0 {
                0
            } else {
                u64::from(rest) * u64::from(i) / u64::from(last)
            };
            // Even starts; the last tile is a pixel longer if that is needed to reach the edge.
            let start = start as u32 & !1;
            let end = if i == last { side } else { start + length };
            [start, end - start]
        })
        .collect();
    spans.retain(|span| span[1] > 0);
    spans.dedup();
    spans
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grid(columns: u32, rows: u32) -> Tiles {
        format!("{columns}x{rows}").parse().unwrap()
    }

    #[test]
    fn text_is_auto_or_a_grid() {
        assert_eq!("auto".parse(), Ok(Tiles::Auto));
        assert_eq!(grid(3, 2).to_string(), "3x2");
        for wrong in [
            "",
            "2",
            "0x2",
            "2x9",
            "2X2",
            "2x2x2",
            "x",
            "-1x2",
            "video.mp4",
        ] {
            let message = wrong.parse::<Tiles>().unwrap_err().to_string();
            assert!(message.contains("such as 2x2"), "{message}");
        }
    }

    #[test]
    fn automatic_grid_follows_picture_and_network() {
        let count = |picture, input| Tiles::Auto.of(picture, input).len();
        // 416 of 427 pixels, and 416 of 533.
        assert_eq!(count([768, 576], [416, 416]), 4);
        assert_eq!(count([640, 480], [416, 416]), 2);
        assert_eq!(count([1920, 1080], [416, 416]), 6);
        assert_eq!(count([1920, 1080], [640, 640]), 6);
        assert_eq!(count([3840, 2160], [416, 416]), 6);
        assert_eq!(count([2, 2], [416, 416]), 0);
    }

    #[test]
    fn box_at_an_inner_edge_is_cut() {
        let tiles = grid(2, 1).of([200, 100], [64, 64]);
        let [left, right] = tiles[..] else {
            panic!("{tiles:?}")
        };
        assert_eq!((left.size, right.corner), ([112, 100], [88, 0]));
        let at = |x1: f64, x2: f64| BBox::new(x1, 0.0, x2, 100.0);
        assert!(!left.cuts(&at(0.0, 50.0), [200, 100]));
        assert!(left.cuts(&at(50.0, 112.0), [200, 100]));
        assert!(right.cuts(&at(0.5, 20.0), [200, 100]));
        assert!(!right.cuts(&at(50.0, 112.0), [200, 100]));
        assert_eq!(right.to_picture(&at(1.0, 2.0)), at(89.0, 90.0));
    }

    proptest! {
        #[test]
        fn tiles_cover_the_picture_and_stay_inside(
            picture in prop::array::uniform2(1_u32..4000),
            columns in 1..=MAX_SIDE,
            rows in 1..=MAX_SIDE,
        ) {
            let tiles = grid(columns, rows).of(picture, [416, 416]);
            prop_assert!(tiles.len() <= (columns * rows) as usize);
            for tile in &tiles {
                for ((corner, size), whole) in tile.corner.into_iter().zip(tile.size).zip(picture) {
                    prop_assert!(corner.is_multiple_of(2) && size > 0);
                    prop_assert!(corner + size <= whole);
                }
            }
            let covers = |x: u32, y: u32| tiles.iter().any(|t| {
                let is_in = |axis: usize, at: u32| t.corner[axis] <= at && at < t.corner[axis] + t.size[axis];
                is_in(0, x) && is_in(1, y)
            });
            if !tiles.is_empty() {
                for x in [0, picture[0] / 3, picture[0] / 2, picture[0] - 1] {
                    for y in [0, picture[1] / 3, picture[1] / 2, picture[1] - 1] {
                        prop_assert!(covers(x, y), "{x},{y}");
                    }
                }
            }
        }

        #[test]
        fn automatic_grid_is_bounded(
            picture in prop::array::uniform2(0_u32..10_000),
            input in prop::array::uniform2(1_u32..2000),
        ) {
            prop_assert!(Tiles::Auto.of(picture, input).len() <= 9);
        }
    }
}
