//! The input of a network: size, order of axes and channels, and how a picture is fitted in.
//!
//! - Not here: the conversion of pictures (crate `detect`).

/// The input of a network: `value = (sample * scale - mean[c]) / std[c]`, with samples `0..=255`.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Order of the tensor's axes.
    pub layout: Layout,
    /// Order of the three channels; `mean` and `std` follow it.
    pub colour: ColourOrder,
    /// Factor on samples.
    pub scale: f32,
    /// Subtracted after scaling, by channel in the tensor's order.
    pub mean: [f32; 3],
    /// Divides last, by channel in the tensor's order; never zero.
    pub std: [f32; 3],
    /// How a picture of another shape is fitted in.
    pub fit: Fit,
}

/// Order of the axes of an image tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Batch, channel, row, column.
    Nchw,
    /// Batch, row, column, channel.
    Nhwc,
}

/// Order of colour channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColourOrder {
    /// Blue first, as OpenCV reads pictures.
    Bgr,
    Rgb,
}

/// How a picture is fitted into the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Scaled in proportion, the rest filled.
    Letterbox {
        /// Position of the picture.
        placement: Placement,
        /// Sample that fills the rest, `0..=255`.
        pad: u8,
    },
    /// Scaled to the input's size, without keeping proportions.
    Stretch,
    /// Scaled in proportion until it covers the input; both sides are cut off.
    Crop,
}

/// Position of a letterboxed picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// In the upper left corner, filled to the right or below.
    TopLeft,
    Centre,
    /// In the middle; boxes are mapped as if the margins had not been rounded to whole pixels, as
    /// Roboflow's engine does.
    CentreExact,
}
