//! The first run of a network, on a grey picture. It finds a file that does not match its manifest
//! when the file is opened, and leaves the network warm for the first frame.

use watchkeeper_models::Manifest;

use crate::decode::shapes::Shapes;
use crate::decode::{self, DecodeError};
use crate::network::{Feed, Network, input_shape};

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
pub(crate) fn warm_up(network: &mut dyn Network, manifest: &Manifest) -> Result<(), WarmUpError> {
    warm_up_with(network, manifest, manifest.classes(), &[])
}

/// Like [`warm_up`], with further inputs and for `classes` classes.
///
/// # Errors
/// [`WarmUpError`], one clause.
pub(super) fn warm_up_with(
    network: &mut dyn Network,
    manifest: &Manifest,
    classes: usize,
    besides: &[Feed<'_>],
) -> Result<(), WarmUpError> {
    let shape = input_shape(&manifest.input);
    let input = vec![0.5; shape.iter().product()];
    let mut inputs = vec![Feed::floats(&shape, &input)];
    inputs.extend_from_slice(besides);
    let mut decoded: Result<(), DecodeError> = Ok(());
    let ran = network.infer(&inputs, &mut |outputs| {
        decoded = decode::decode(manifest, classes, outputs, 1.0, &mut Vec::new())
            .and_then(|()| Shapes::default().read(manifest, outputs, &[]));
    });
    ran.map_err(WarmUpError::Run)?;
    decoded.map_err(WarmUpError::Outputs)
}
