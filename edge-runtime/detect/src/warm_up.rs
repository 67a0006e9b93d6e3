//! The first run of a network, on a grey picture.

use watchkeeper_models::Manifest;

use crate::decode::shapes::Shapes;
use crate::decode::{self, DecodeError};
use crate::network::{Feed, Network, input_shape};

/// Why a network is not what it should be.
#[derive(Debug)]
pub enum WarmUpError {
    /// It can't be run; what the back end said.
    Run(String),
    /// It runs, and its outputs are not what the manifest says.
    Outputs(DecodeError),
}

/// Runs the network once on a grey picture: a file whose outputs are not what its manifest says is found out when it is
/// opened, and the first real frame finds everything warm.
///
/// # Errors
/// [`WarmUpError`], one clause.
pub(crate) fn warm_up(network: &mut dyn Network, manifest: &Manifest) -> Result<(), WarmUpError> {
    warm_up_with(network, manifest, manifest.classes(), &[])
}

/// The same with what the network takes besides a picture, for as many classes.
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
