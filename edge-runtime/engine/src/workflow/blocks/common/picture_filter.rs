//! Declaration of the blocks that make a new picture of one, and the change of its pixels.
//!
//! - Pixels are computed when they are read.

use std::ops::RangeInclusive;

use watchkeeper_vision::imaging::filter::MAX_KERNEL;

use crate::workflow::block_api::prelude::*;

/// Sizes of a square kernel, in pixels.
pub(crate) const KERNELS: RangeInclusive<i64> = 1..=MAX_KERNEL as i64;

/// Defaults of such blocks; their first property is [`IMAGE`].
pub(crate) const BASE: Manifest = Manifest {
    properties: &[IMAGE],
    outputs: &[Output::new("image", &[Kind::Image])],
    ..Manifest::of("classical_computer_vision")
};

/// Sets output 0 to the picture with its pixels changed.
pub(crate) fn put(
    call: &mut Call<'_>,
    change: impl Fn(&RgbPixels) -> RgbPixels + Send + Sync + 'static,
) -> Result<(), String> {
    let image = call.image(arg!(BASE.properties, "image"))?;
    call.finish(image.changed(image.size(), change))
}
