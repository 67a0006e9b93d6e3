//! Weights and window of a convolution.
//!
//! - TFLite pads so that the last window ends with the picture (`SAME`), or not at all (`VALID`).
//! - Not here: dilation, which is refused.

use super::error::TfliteError;
use super::flatbuffer::{Field, Table};
use super::schema::{Model, refused, require};

const PADDING: Field = Field(0, "Conv2DOptions.padding");
const STRIDE_W: Field = Field(1, "Conv2DOptions.stride_w");
const STRIDE_H: Field = Field(2, "Conv2DOptions.stride_h");
const ACTIVATION: Field = Field(3, "Conv2DOptions.fused_activation_function");
const DILATION: [Field; 2] = [
    Field(4, "Conv2DOptions.dilation_w_factor"),
    Field(5, "Conv2DOptions.dilation_h_factor"),
];
/// Depth-wise options have one field more before these.
const DEPTHWISE_ACTIVATION: Field = Field(4, "DepthwiseConv2DOptions.fused_activation_function");
const DEPTHWISE_DILATION: [Field; 2] = [
    Field(5, "DepthwiseConv2DOptions.dilation_w_factor"),
    Field(6, "DepthwiseConv2DOptions.dilation_h_factor"),
];

const MAX_STRIDE: usize = 64;

/// Sizes of a convolution's weights.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    pub(super) outputs: usize,
    /// Channels that one output sees.
    pub(super) inputs: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    /// Channels, where each is convolved by itself; else 1.
    pub(super) groups: usize,
    is_depthwise: bool,
}

impl Kernel {
    /// Compares the shapes of input, weights and bias.
    pub(super) fn of(
        model: &Model<'_>,
        [input, weights, bias]: [usize; 3],
        is_depthwise: bool,
        at: &str,
    ) -> Result<Self, TfliteError> {
        let shape = |tensor: usize| &model.tensors[tensor].shape[..];
        let channels = shape(input).last().copied().unwrap_or(1);
        let found = match *shape(weights) {
            [1, height, width, outputs] if is_depthwise && outputs % channels == 0 => {
                Some((outputs, height, width, 1, channels))
            }
            [outputs, height, width, inputs] if !is_depthwise && inputs == channels => {
                Some((outputs, height, width, inputs, 1))
            }
            _ => None,
        };
        let Some((outputs, height, width, inputs, groups)) = found else {
            let found = format!("{:?}", shape(weights));
            let allowed = format!("those of {channels} channels");
            return Err(refused(
                format!("{at}, shape of the weights"),
                found,
                allowed,
            ));
        };
        require(
            *shape(bias) == [outputs],
            || {
                let found = format!("{:?}", shape(bias));
                (format!("{at}, shape of the bias"), found)
            },
            &format!("[{outputs}]"),
        )?;
        Ok(Self {
            outputs,
            inputs,
            height,
            width,
            groups,
            is_depthwise,
        })
    }

    /// Reorders weights to `outputs × inputs × height × width`. TFLite has `outputs × height ×
    /// width × inputs`, and depth-wise `height × width × outputs`.
    pub(super) fn planes(&self, rows: &[f32]) -> Vec<f32> {
        let area = self.height * self.width;
        let mut planes = Vec::with_capacity(rows.len());
        for output in 0..self.outputs {
            for input in 0..self.inputs {
                planes.extend((0..area).filter_map(|place| {
                    rows.get(if self.is_depthwise {
                        place * self.outputs + output
                    } else {
                        (output * area + place) * self.inputs + input
                    })
                }));
            }
        }
        planes
    }
}

/// Steps of a convolution over its picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    is_padded: bool,
    /// Down and across.
    pub(super) strides: [usize; 2],
    pub(super) activation: u8,
}

impl Window {
    /// Reads the options of a convolution.
    pub(super) fn of(
        options: Option<Table<'_>>,
        is_depthwise: bool,
        at: &str,
    ) -> Result<Self, TfliteError> {
        let number = |field: Field| options.map_or(Ok(1), |o| o.int(field, 1));
        let (activation, dilation) = if is_depthwise {
            (DEPTHWISE_ACTIVATION, DEPTHWISE_DILATION)
        } else {
            (ACTIVATION, DILATION)
        };
        for field in dilation {
            let found = number(field)?;
            require(found == 1, || (format!("{at}, {}", field.1), found), "1")?;
        }
        let stride = |field: Field| {
            let found = number(field)?;
            let stride = usize::try_from(found).ok();
            let stride = stride.filter(|stride| (1..=MAX_STRIDE).contains(stride));
            let allowed = format!("1 to {MAX_STRIDE}");
            stride.ok_or_else(|| refused(format!("{at}, {}", field.1), found, allowed))
        };
        let padding = option(options, PADDING)?;
        require(
            padding <= 1,
            || (format!("{at}, padding"), padding),
            "0 (SAME), 1 (VALID)",
        )?;
        Ok(Self {
            is_padded: padding == 0,
            strides: [stride(STRIDE_H)?, stride(STRIDE_W)?],
            activation: option(options, activation)?,
        })
    }

    /// Returns the number of places on a side of `size`, and the padding before and after it.
    pub(super) fn places(
        &self,
        size: usize,
        kernel: usize,
        stride: usize,
        at: &str,
    ) -> Result<(usize, (usize, usize)), TfliteError> {
        if self.is_padded {
            let places = size.div_ceil(stride);
            let padding = (places.saturating_sub(1) * stride + kernel).saturating_sub(size);
            return Ok((places, (padding / 2, padding - padding / 2)));
        }
        let Some(rest) = size.checked_sub(kernel) else {
            let allowed = format!("at most {size}, the side of its picture");
            return Err(refused(
                format!("{at}, side of the weights"),
                kernel,
                allowed,
            ));
        };
        Ok((rest / stride + 1, (0, 0)))
    }
}

/// Returns an option of one byte; 0 where the options are absent.
pub(super) fn option(options: Option<Table<'_>>, field: Field) -> Result<u8, TfliteError> {
    options.map_or(Ok(0), |options| options.byte(field))
}
