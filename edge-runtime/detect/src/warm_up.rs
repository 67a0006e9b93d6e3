//! The first run of a network, on a picture of grey and white. It finds a file that does not match
//! its manifest when the file is opened, and leaves the network warm for the first frame.
//!
//! - The picture is normalised like a frame, so that float16 overflows here if it does.

use watchkeeper_models::Manifest;
use watchkeeper_models::manifest::{Input, Layout};

use crate::decode::shapes::Shapes;
use crate::decode::{self, DecodeError};
use crate::network::{Feed, Network, input_shape};
use crate::stream_network::Read;

/// Why the first run of a network failed.
#[derive(Debug)]
pub enum WarmUpError {
    /// The back end can't run it; its message.
    Run(String),
    /// It runs, but its outputs do not match the manifest.
    Outputs(DecodeError),
}

/// Runs a network once and decodes its outputs.
///
/// # Errors
/// [`WarmUpError`], one clause.
pub(crate) fn warm_up(network: &dyn Network, manifest: &Manifest) -> Result<(), WarmUpError> {
    warm_up_with(network, manifest, manifest.classes(), &[])
}

/// Like [`warm_up`], with `further` inputs and for `classes` classes.
///
/// # Errors
/// [`WarmUpError`], one clause.
pub(super) fn warm_up_with(
    network: &dyn Network,
    manifest: &Manifest,
    classes: usize,
    further: &[Feed<'_>],
) -> Result<(), WarmUpError> {
    let shape = input_shape(&manifest.input);
    let input = grey_and_white(&manifest.input);
    let mut inputs = vec![Feed::floats(&shape, &input)];
    inputs.extend_from_slice(further);
    run_once(network, &inputs, &mut |outputs| {
        decode::decode(manifest, classes, outputs, 1.0, &mut Vec::new())?;
        Shapes::default().read(manifest, outputs, &[])
    })
}

/// Runs a network once on values of 0.5, and decodes its outputs.
///
/// # Errors
/// [`WarmUpError`], one clause.
pub(super) fn run_on_grey(
    network: &dyn Network,
    shape: &[usize],
    read: Read<'_>,
) -> Result<(), WarmUpError> {
    let grey = vec![0.5; shape.iter().product()];
    run_once(network, &[Feed::floats(shape, &grey)], read)
}

/// Runs a network once, and decodes its outputs.
///
/// # Errors
/// [`WarmUpError`], one clause.
pub(super) fn run_once(
    network: &dyn Network,
    inputs: &[Feed<'_>],
    read: Read<'_>,
) -> Result<(), WarmUpError> {
    let mut decoded = Ok(());
    let ran = network.infer(inputs, &mut |outputs| decoded = read(outputs));
    ran.map_err(WarmUpError::Run)?;
    decoded.map_err(WarmUpError::Outputs)
}

/// A picture whose upper half is grey (128) and whose lower half is white (255), normalised.
fn grey_and_white(input: &Input) -> Vec<f32> {
    let (rows, columns) = (input.height as usize, input.width as usize);
    let level = |row: usize, channel: usize| {
        let sample = if row < rows / 2 { 128.0 } else { 255.0 };
        (sample * input.scale - input.mean[channel]) / input.std[channel]
    };
    let line = |row: usize, channel: usize| std::iter::repeat_n(level(row, channel), columns);
    let pixels = |row: usize| std::iter::repeat_n([0, 1, 2].map(|c| level(row, c)), columns);
    match input.layout {
        Layout::Nchw => (0..3)
            .flat_map(|channel| (0..rows).flat_map(move |row| line(row, channel)))
            .collect(),
        Layout::Nhwc => (0..rows).flat_map(pixels).flatten().collect(),
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_models::manifest::Fit;

    use super::*;
    use crate::testing::input;

    #[test]
    fn picture_is_normalised_by_channel_in_both_layouts() {
        let mut input = input(2, 4, Fit::Stretch);
        input.scale = 1.0 / 255.0;
        input.mean = [0.0, 1.0, 0.0];
        input.std = [1.0, 1.0, 0.5];
        let grey = 128.0 / 255.0;
        let (above, below) = ([grey, grey - 1.0, 2.0 * grey], [1.0_f32, 0.0, 2.0]);
        let planar = grey_and_white(&input);
        input.layout = Layout::Nhwc;
        let mixed = grey_and_white(&input);
        for row in 0..4 {
            for column in 0..2 {
                for channel in 0..3 {
                    let right = if row < 2 { above } else { below }[channel];
                    let pixel = row * 2 + column;
                    assert!((planar[channel * 8 + pixel] - right).abs() < 1e-6);
                    assert!((mixed[pixel * 3 + channel] - right).abs() < 1e-6);
                }
            }
        }
    }
}
