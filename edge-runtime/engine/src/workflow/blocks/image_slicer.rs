//! Cuts pictures into overlapping tiles, so that small objects are large enough for a model.

use crate::workflow::block_api::prelude::*;

/// Maximum number of tiles per picture.
const MAX_TILES: usize = 4096;

const V1: Manifest = Manifest {
    name: "roboflow_core/image_slicer@v1",
    summary: "Cuts a picture into overlapping tiles; those at the right and lower edge are \
              smaller.",
    properties: &[
        IMAGE.about("the picture to cut"),
        Property::count("slice_width", 640).about("width of a tile in pixels"),
        Property::count("slice_height", 640).about("height of a tile in pixels"),
        Property::value_or(
            "overlap_ratio_width",
            Shape::Number(0.0, 1.0 - f64::EPSILON),
            Or::Float(0.2),
        )
        .about("share of a tile's width that overlaps the next one")
        .kinds(&[Kind::FloatZeroToOne]),
        Property::value_or(
            "overlap_ratio_height",
            Shape::Number(0.0, 1.0 - f64::EPSILON),
            Or::Float(0.2),
        )
        .about("share of a tile's height that overlaps the next one")
        .kinds(&[Kind::FloatZeroToOne]),
    ],
    outputs: &[Output::new("slices", &[Kind::Image])],
    depth: Depth::Deeper,
    build: |_| Ok(stateful(|cuts, call| slice(cuts, call, false))),
    ..Manifest::of("transformation")
};
pub(super) const BLOCKS: &[Manifest] = &[
    V1,
    Manifest {
        name: "roboflow_core/image_slicer@v2",
        summary: "Cuts a picture into overlapping tiles of one size; the last ones start earlier.",
        build: |_| Ok(stateful(|cuts, call| slice(cuts, call, true))),
        ..V1
    },
];

/// Cuts a picture; `cuts` is the number of tiles so far, for their names. If `whole`, tiles at the
/// edge keep their size.
fn slice(cuts: &mut u64, call: &mut Call<'_>, whole: bool) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let [width, height] = image.size().map(i64::from);
    let across = starts(
        width,
        call.bounded_integer(arg!("slice_width"))?,
        call.bounded(arg!("overlap_ratio_width"))?,
        whole,
    )?;
    let down = starts(
        height,
        call.bounded_integer(arg!("slice_height"))?,
        call.bounded(arg!("overlap_ratio_height"))?,
        whole,
    )?;
    if across.len().saturating_mul(down.len()) > MAX_TILES {
        return Err(format!(
            "{} by {} tiles are more than {MAX_TILES}; make them larger or reduce the overlap",
            across.len(),
            down.len()
        ));
    }
    let mut tiles = Vec::with_capacity(across.len() * down.len());
    for [top, bottom] in &down {
        for [left, right] in &across {
            *cuts += 1;
            let id = Arc::from(format!("image_slicer.{cuts}"));
            let tile = image.crop([*left, *top], [*right, *bottom], id);
            tiles.push(tile.map_or(Value::Null, Value::from));
        }
    }
    call.finish(tiles)
}

/// Start and end of the tiles along a side, in pixels.
fn starts(side: i64, tile: i64, overlap: f64, whole: bool) -> Result<Vec<[i64; 2]>, String> {
    let step = tile - (overlap * tile as f64) as i64;
    if step < 1 {
        return Err(format!(
            "tiles that overlap by {overlap} of their size never reach the other edge"
        ));
    }
    if whole && tile >= side {
        return Ok(vec![[0, side]]);
    }
    let mut all = Vec::new();
    let mut start = 0;
    while start < side && all.len() <= MAX_TILES {
        let end = tile.saturating_add(start);
        if whole && end >= side {
            all.push([side - tile, side]);
            break;
        }
        all.push([start, end.min(side)]);
        start += step;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::bench::{Bench, picture};
    use super::{Kind, Value, starts};
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn tiles_at_the_edge_are_smaller_or_start_earlier() {
        assert_eq!(
            starts(640, 640, 0.2, false).unwrap(),
            [[0, 640], [512, 640]]
        );
        assert_eq!(starts(640, 640, 0.2, true).unwrap(), [[0, 640]]);
        assert_eq!(
            starts(1000, 640, 0.2, true).unwrap(),
            [[0, 640], [360, 1000]]
        );
    }

    #[test]
    fn tiles_that_never_end_are_refused() {
        assert!(starts(640, 100, 1.0, false).is_err());
        assert!(starts(640, i64::MAX, 1.0 - f64::EPSILON, false).is_ok());
    }

    #[test]
    fn overlap_of_a_step_is_refused_out_of_its_bounds() {
        let step = json!({
            "type": "roboflow_core/image_slicer@v1", "image": "$inputs.image",
            "overlap_ratio_width": "$inputs.overlap"
        });
        let kinds = [("image", Kind::Image), ("overlap", Kind::FloatZeroToOne)];
        let mut bench = Bench::new(step, &kinds);
        let image = picture(1, [64, 48], |_, _| [0; 3]);
        let refused = bench.feed(&[("image", image), ("overlap", Value::Float(-1e300))]);
        assert!(
            refused
                .unwrap_err()
                .starts_with("overlap_ratio_width is -1")
        );
    }

    proptest! {
        #[test]
        fn tiles_cover_the_side(side in 1_i64..3000, tile in 1_i64..900, overlap in 0.0..0.9_f64, whole: bool) {
            if let Ok(all) = starts(side, tile, overlap, whole) {
                prop_assume!(all.len() < super::MAX_TILES);
                prop_assert_eq!(all[0][0], 0);
                prop_assert_eq!(all[all.len() - 1][1], side);
                prop_assert!(all.windows(2).all(|pair| pair[1][0] <= pair[0][1]));
            }
        }
    }
}
