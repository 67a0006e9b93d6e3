//! The pure Rust back end: no library to install, loads in milliseconds.
//!
//! Invariant: no type of the `rten` crates leaves this file.

use std::path::Path;
use std::sync::Arc;

use rten::{Dimension, Model, NodeId, RunOptions, ThreadPool};
use rten_tensor::prelude::*;
use rten_tensor::{Contiguous, NdTensorView, TensorView};
use watchkeeper_models::manifest::Manifest;

use super::network::{
    LoadError, Network, Tensor, check_input, input_shape, one_line, pick_outputs,
};

/// Name of this back end.
pub const NAME: &str = "rten";

/// A network that `rten` runs.
pub struct RtenNetwork {
    model: Model,
    input: NodeId,
    input_shape: [usize; 4],
    outputs: Vec<NodeId>,
    names: Vec<String>,
    pool: Arc<ThreadPool>,
}

impl std::fmt::Debug for RtenNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RtenNetwork")
            .field("input_shape", &self.input_shape)
            .field("outputs", &self.names)
            .finish_non_exhaustive()
    }
}

impl RtenNetwork {
    /// Loads a file and compares it with its manifest.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(path: &Path, manifest: &Manifest, threads: usize) -> Result<Self, LoadError> {
        let mismatch = |message| LoadError::Mismatch {
            path: path.to_owned(),
            manifest: manifest.name.clone(),
            message,
        };
        // Read into memory: a file that is replaced while it runs must not change under the network.
        let data = std::fs::read(path).map_err(|e| LoadError::file(path, NAME, &e))?;
        let model = Model::load(data).map_err(|e| LoadError::file(path, NAME, &e))?;
        let &[input] = model.input_ids() else {
            let count = model.input_ids().len();
            return Err(mismatch(format!("it has {count} inputs, one is needed")));
        };
        if let Some(dims) = model.input_shape(0) {
            let dims: Vec<_> = dims
                .iter()
                .map(|d| match d {
                    Dimension::Fixed(n) => Some(*n),
                    Dimension::Symbolic(_) => None,
                })
                .collect();
            check_input(&dims, &manifest.input).map_err(mismatch)?;
        }
        let name_of = |id: &NodeId| {
            let info = model.node_info(*id);
            info.and_then(|n| n.name()).unwrap_or_default().to_owned()
        };
        let there: Vec<_> = model.output_ids().iter().map(name_of).collect();
        let names = pick_outputs(&manifest.decode.outputs, &there).map_err(mismatch)?;
        let outputs = names
            .iter()
            .filter_map(|name| model.find_node(name))
            .collect();
        Ok(Self {
            input,
            input_shape: input_shape(&manifest.input),
            outputs,
            names,
            pool: Arc::new(ThreadPool::with_num_threads(threads)),
            model,
        })
    }
}

impl Network for RtenNetwork {
    fn backend(&self) -> &'static str {
        NAME
    }

    fn infer(&mut self, input: &[f32], read: &mut dyn FnMut(&[Tensor<'_>])) -> Result<(), String> {
        let said = |e: &dyn std::fmt::Display| one_line(&e.to_string());
        let input = NdTensorView::try_from_data(self.input_shape, input).map_err(|e| said(&e))?;
        let options = RunOptions::default().with_thread_pool(Some(self.pool.clone()));
        let values = self
            .model
            .run(
                vec![(self.input, input.into())],
                &self.outputs,
                Some(options),
            )
            .map_err(|e| said(&e))?;
        let contiguous: Vec<_> = values
            .iter()
            .zip(&self.names)
            .map(|(value, name)| {
                let view: TensorView<'_, f32> = value
                    .as_view()
                    .try_into()
                    .map_err(|e| format!("output `{name}`: {}", said(&e)))?;
                Ok(view.to_contiguous())
            })
            .collect::<Result<_, String>>()?;
        let tensors: Vec<_> = contiguous
            .iter()
            .zip(&self.names)
            .map(|(view, name)| Tensor {
                name,
                shape: view.shape(),
                data: Contiguous::data(view),
            })
            .collect();
        read(&tensors);
        Ok(())
    }
}
