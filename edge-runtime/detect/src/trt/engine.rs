//! A network as an opened engine of TensorRT.
//!
//! - Its shapes are fixed when it is opened.
//! - Inputs are copied into buffers of the engine, outputs are lent out of them.

use std::path::Path;

use parking_lot::Mutex;
use watchkeeper_trt::{Engine, Failure, Shim, TensorInfo, Values};

use crate::network::{
    Feed, FileInput, LoadError, Network, Numbers, Signature, Tensor, pick_inputs, pick_outputs,
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
    ) -> Result<Self, OpenFailure> {
        let mut engine = Engine::open(shim, engine, signature.manifest)?;
        let is_input = |info: &&(usize, TensorInfo)| info.1.is_input;
        let all: Vec<_> = engine.tensors().iter().cloned().enumerate().collect();
        let there: Vec<_> = all.iter().filter(is_input).collect();
        let infos: Vec<_> = there.iter().map(|(_, info)| info.clone()).collect();
        let shapes = fixed_shapes(&infos, signature).map_err(OpenFailure::Mismatch)?;
        for ((index, _), shape) in there.iter().zip(&shapes) {
            engine.set_shape(*index, shape)?;
        }
        engine.allocate()?;
        let order =
            pick_inputs(&signature.inputs, &file_inputs(&infos)).map_err(OpenFailure::Mismatch)?;
        let inputs = order.iter().filter_map(|i| {
            let (index, _) = there.get(*i)?;
            Some((*index, shapes.get(*i)?.clone()))
        });
        let inputs = inputs.collect();
        let outputs = outputs(engine.tensors(), signature).map_err(OpenFailure::Mismatch)?;
        Ok(Self {
            engine,
            inputs,
            outputs,
        })
    }

    /// Grey pictures and zeros, of the shapes of the inputs.
    pub(super) fn trial_inputs(&self) -> Vec<TrialInput> {
        let inputs = self.inputs.iter().map(|(index, shape)| {
            let count = shape.iter().product();
            let (floats, whole) = match self.engine.values(*index) {
                Some(Values::Floats(_)) => (vec![0.5; count], Vec::new()),
                _ => (Vec::new(), vec![0; count]),
            };
            TrialInput {
                shape: shape.clone(),
                floats,
                whole,
            }
        });
        inputs.collect()
    }

    /// Runs the network, like [`Network::infer`].
    pub(super) fn run(
        &mut self,
        inputs: &[Feed<'_>],
        read: &mut dyn FnMut(&[Tensor<'_>]),
    ) -> Result<(), RunFailure> {
        for ((index, shape), feed) in self.inputs.iter().zip(inputs) {
            if feed.shape != shape {
                return Err(RunFailure::Values(format!(
                    "an input is {:?}, the engine was built for {shape:?}",
                    feed.shape
                )));
            }
            let values = self.engine.values_mut(*index);
            let values = values.ok_or_else(|| "the engine has no such input".to_owned());
            feed_values(values.map_err(RunFailure::Values)?, feed).map_err(RunFailure::Values)?;
        }
        self.engine.run().map_err(RunFailure::Trt)?;
        let mut tensors = Vec::with_capacity(self.outputs.len());
        for Output { index, name, shape } in &self.outputs {
            let Some(Values::Floats(data)) = self.engine.values(*index) else {
                return Err(RunFailure::Values(format!(
                    "output `{name}` is not float32"
                )));
            };
            // No early end: so the compiler uses vectors.
            if !data.iter().fold(true, |all, value| all & value.is_finite()) {
                return Err(RunFailure::Values(format!(
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

/// Why an engine did not run.
#[derive(Debug)]
pub(super) enum RunFailure {
    Trt(Failure),
    /// Its inputs or outputs are wrong.
    Values(String),
}

/// An input of the run that tries an engine.
pub(super) struct TrialInput {
    shape: Vec<usize>,
    floats: Vec<f32>,
    whole: Vec<i32>,
}

impl TrialInput {
    pub(super) fn feed(&self) -> Feed<'_> {
        let numbers = match self.whole.is_empty() {
            true => Numbers::Floats(&self.floats),
            false => Numbers::Whole(&self.whole),
        };
        let shape = &self.shape;
        Feed { shape, numbers }
    }
}

/// Why an engine is not opened.
#[derive(Debug)]
pub(super) enum OpenFailure {
    Trt(Failure),
    Mismatch(String),
}

impl From<Failure> for OpenFailure {
    fn from(failure: Failure) -> Self {
        Self::Trt(failure)
    }
}

impl OpenFailure {
    pub(super) fn into_load(self, path: &Path, signature: &Signature<'_>) -> LoadError {
        let path = path.to_owned();
        match self {
            Self::Trt(failure) => LoadError::Run {
                path,
                backend: NAME,
                message: failure.message,
            },
            Self::Mismatch(message) => LoadError::Mismatch {
                path,
                manifest: signature.manifest.to_owned(),
                message,
            },
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
        self.lock()
            .run(inputs, read)
            .map_err(|failure| match failure {
                RunFailure::Trt(failure) => failure.message,
                RunFailure::Values(why) => why,
            })
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
