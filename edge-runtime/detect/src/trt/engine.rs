//! A network as an opened engine of TensorRT.
//!
//! - Its shapes are fixed when it is opened.
//! - Inputs are copied into buffers of the engine, outputs are lent out of them.

use std::path::Path;

use parking_lot::Mutex;
use watchkeeper_trt::{Engine, Failure, Shim, TensorInfo, Values};

use crate::network::{
    Feed, FileInput, LoadError, Network, Numbers, OwnedFeed, OwnedNumbers, Signature, Tensor,
    pick_inputs, pick_outputs,
};

/// Name of the back end.
pub const NAME: &str = "trt";

/// An engine with the tensors of its signature.
pub struct TrtNetwork {
    engine: Engine,
    /// Tensor and shape, in the order of the signature.
    inputs: Vec<(usize, Vec<usize>)>,
    outputs: Vec<Output>,
}

#[derive(Debug)]
struct Output {
    index: usize,
    name: String,
    shape: Vec<usize>,
}

impl TrtNetwork {
    /// Opens an engine and fixes its shapes.
    pub(super) fn open(
        shim: &'static Shim,
        engine: &[u8],
        signature: &Signature<'_>,
    ) -> Result<Self, EngineFailure> {
        let mut engine = Engine::open(shim, engine, signature.manifest)?;
        let is_input = |info: &&(usize, TensorInfo)| info.1.is_input;
        let all: Vec<_> = engine.tensors().iter().cloned().enumerate().collect();
        let there: Vec<_> = all.iter().filter(is_input).collect();
        let infos: Vec<_> = there.iter().map(|(_, info)| info.clone()).collect();
        let shapes = fixed_shapes(&infos, signature).map_err(EngineFailure::Mismatch)?;
        for ((index, _), shape) in there.iter().zip(&shapes) {
            engine.set_shape(*index, shape)?;
        }
        engine.allocate()?;
        let order = pick_inputs(&signature.inputs, &file_inputs(&infos))
            .map_err(EngineFailure::Mismatch)?;
        let inputs = order.iter().filter_map(|i| {
            let (index, _) = there.get(*i)?;
            Some((*index, shapes.get(*i)?.clone()))
        });
        let inputs = inputs.collect();
        let outputs = outputs(engine.tensors(), signature).map_err(EngineFailure::Mismatch)?;
        Ok(Self {
            engine,
            inputs,
            outputs,
        })
    }

    /// Grey pictures and zeros, of the shapes of the inputs.
    pub(super) fn trial_inputs(&self) -> Vec<OwnedFeed> {
        let inputs = self.inputs.iter().map(|(index, shape)| {
            let count = shape.iter().product();
            let numbers = match self.engine.values(*index) {
                Some(Values::Floats(_)) => OwnedNumbers::Floats(vec![0.5; count]),
                _ => OwnedNumbers::Whole(vec![0; count]),
            };
            let shape = shape.clone();
            OwnedFeed { shape, numbers }
        });
        inputs.collect()
    }

    /// Runs the network, like [`Network::infer`].
    pub(super) fn run(
        &mut self,
        inputs: &[Feed<'_>],
        read: &mut dyn FnMut(&[Tensor<'_>]),
    ) -> Result<(), EngineFailure> {
        for ((index, shape), feed) in self.inputs.iter().zip(inputs) {
            if feed.shape != shape {
                return Err(EngineFailure::Values(format!(
                    "an input is {:?}, the engine was built for {shape:?}",
                    feed.shape
                )));
            }
            let values = self.engine.values_mut(*index);
            let values = values.ok_or_else(|| "the engine has no such input".to_owned());
            feed_values(values.map_err(EngineFailure::Values)?, feed)
                .map_err(EngineFailure::Values)?;
        }
        self.engine.run()?;
        let mut tensors = Vec::with_capacity(self.outputs.len());
        for Output { index, name, shape } in &self.outputs {
            let Some(Values::Floats(data)) = self.engine.values(*index) else {
                return Err(EngineFailure::Values(format!(
                    "output `{name}` is not float32"
                )));
            };
            // No early end: so the compiler uses vectors.
            if !data.iter().fold(true, |all, value| all & value.is_finite()) {
                return Err(EngineFailure::Values(format!(
                    "output `{name}` has values that are not finite; set \
                     runtime.inference.precision = \"fp32\", or another \
                     runtime.inference.backend"
                )));
            }
            tensors.push(Tensor { name, shape, data });
        }
        read(&tensors);
        Ok(())
    }
}

/// Why an engine is not opened, or did not run.
#[derive(Debug)]
pub(super) enum EngineFailure {
    Trt(Failure),
    /// The engine does not match the signature.
    Mismatch(String),
    /// Its inputs or outputs are wrong.
    Values(String),
}

impl From<Failure> for EngineFailure {
    fn from(failure: Failure) -> Self {
        Self::Trt(failure)
    }
}

impl EngineFailure {
    pub(super) fn into_load(self, path: &Path, signature: &Signature<'_>) -> LoadError {
        let path = path.to_owned();
        match self {
            Self::Mismatch(message) => LoadError::Mismatch {
                path,
                manifest: signature.manifest.to_owned(),
                message,
            },
            other => LoadError::Run {
                path,
                backend: NAME,
                message: other.into_message(),
            },
        }
    }

    pub(super) fn into_message(self) -> String {
        match self {
            Self::Trt(Failure { message, .. })
            | Self::Mismatch(message)
            | Self::Values(message) => message,
        }
    }
}

fn file_inputs(inputs: &[TensorInfo]) -> Vec<FileInput> {
    let one = |info: &TensorInfo| FileInput {
        name: info.name.clone(),
        axes: Some(info.axes.clone()),
    };
    inputs.iter().map(one).collect()
}

/// Returns the shape of each input of a file, from the file where it fixes a length and from the
/// signature elsewhere.
///
/// # Errors
/// One clause: an input does not fit, or its length varies.
pub(super) fn fixed_shapes(
    inputs: &[TensorInfo],
    signature: &Signature<'_>,
) -> Result<Vec<Vec<usize>>, String> {
    let picked = pick_inputs(&signature.inputs, &file_inputs(inputs))?;
    let mut shapes = vec![Vec::new(); inputs.len()];
    for (i, wanted) in picked.into_iter().zip(&signature.inputs) {
        let (Some(input), Some(shape)) = (inputs.get(i), shapes.get_mut(i)) else {
            continue;
        };
        let axes = input.axes.iter().zip(&wanted.axes);
        let lengths: Option<Vec<usize>> = axes.map(|(file, wanted)| file.or(*wanted)).collect();
        *shape = lengths.ok_or_else(|| {
            format!(
                "its input `{}` varies in length, which an engine of TensorRT does not here; \
                 leave it to another back end with runtime.inference.backend = \"auto\"",
                input.name
            )
        })?;
    }
    Ok(shapes)
}

fn outputs(tensors: &[TensorInfo], signature: &Signature<'_>) -> Result<Vec<Output>, String> {
    let there = tensors.iter().filter(|info| !info.is_input);
    let there: Vec<String> = there.map(|info| info.name.clone()).collect();
    let names = pick_outputs(signature.outputs, &there)?;
    let output = |name: String| {
        let index = tensors.iter().position(|info| info.name == name);
        let index = index.unwrap_or_default();
        let shape = tensors.get(index).and_then(TensorInfo::shape);
        let shape = shape.ok_or_else(|| format!("its output `{name}` has no fixed length"))?;
        Ok(Output { index, name, shape })
    };
    names.into_iter().map(output).collect()
}

/// Copies an input into the engine's buffer.
fn feed_values(values: &mut Values, feed: &Feed<'_>) -> Result<(), String> {
    let fits = match (values, feed.numbers) {
        (Values::Floats(to), Numbers::Floats(from)) if to.len() == from.len() => {
            to.copy_from_slice(from);
            true
        }
        (Values::Int32(to), Numbers::Whole(from)) if to.len() == from.len() => {
            to.copy_from_slice(from);
            true
        }
        (Values::Int64(to), Numbers::Whole(from)) if to.len() == from.len() => {
            for (to, from) in to.iter_mut().zip(from) {
                *to = i64::from(*from);
            }
            true
        }
        _ => false,
    };
    fits.then_some(())
        .ok_or_else(|| "an input has another type than in the file".to_owned())
}

impl Network for Mutex<TrtNetwork> {
    fn backend(&self) -> &'static str {
        NAME
    }

    fn infer(
        &self,
        inputs: &[Feed<'_>],
        read: &mut dyn FnMut(&[Tensor<'_>]),
    ) -> Result<(), String> {
        let mut network = self.lock();
        network
            .run(inputs, read)
            .map_err(EngineFailure::into_message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Wanted;

    fn info(name: &str, axes: &[Option<usize>]) -> TensorInfo {
        TensorInfo {
            name: name.to_owned(),
            is_input: true,
            data_type: 0,
            axes: axes.to_vec(),
        }
    }

    fn shapes(inputs: &[TensorInfo], wanted: Vec<Wanted>) -> Result<Vec<Vec<usize>>, String> {
        let signature = Signature {
            manifest: "m",
            inputs: wanted,
            outputs: &[],
        };
        fixed_shapes(inputs, &signature)
    }

    #[test]
    fn open_axes_of_the_file_take_the_lengths_of_the_manifest() {
        let file = [info("images", &[None, Some(3), None, None])];
        let wanted = vec![Wanted::axes([1, 3, 8, 8].map(Some))];
        assert_eq!(shapes(&file, wanted), Ok(vec![vec![1, 3, 8, 8]]));
    }

    #[test]
    fn input_that_varies_or_differs_is_refused() {
        let file = [info("texts", &[Some(1), None])];
        let varies = shapes(&file, vec![Wanted::axes([Some(1), None])]);
        assert!(varies.is_err_and(|why| why.contains("`texts` varies")));
        let differs = shapes(&file, vec![Wanted::axes([Some(2), Some(4)])]);
        assert!(differs.is_err_and(|why| why.contains("the manifest says")));
    }
}
