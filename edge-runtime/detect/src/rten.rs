//! The pure Rust back end: no library to install, loads in milliseconds.
//!
//! No type of the `rten` crates leaves this file.

use std::path::Path;
use std::sync::Arc;

use rten::{Dimension, Model, NodeId, RunOptions, ThreadPool, ValueOrView};
use rten_tensor::prelude::*;
use rten_tensor::{Contiguous, TensorView};

use super::network::{
    Feed, FileInput, LoadError, Network, Numbers, Signature, Tensor, one_line, pick_inputs,
    pick_outputs,
};
use super::workers::Workers;

pub const NAME: &str = "rten";

/// Version of the library.
pub const VERSION: &str = "0.27";

pub struct RtenNetwork {
    model: Model,
    inputs: Vec<NodeId>,
    outputs: Vec<NodeId>,
    names: Vec<String>,
    pool: Arc<ThreadPool>,
    threads: usize,
    workers: Workers,
}

impl RtenNetwork {
    /// Loads a file and checks it against `signature`.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(path: &Path, signature: &Signature<'_>, threads: usize) -> Result<Self, LoadError> {
        let mismatch = |message| LoadError::Mismatch {
            path: path.to_owned(),
            manifest: signature.manifest.to_owned(),
            message,
        };
        // Loaded into memory, because the file may be replaced while the network runs.
        let data = std::fs::read(path).map_err(|e| LoadError::file(path, NAME, &e))?;
        let model = Model::load(data).map_err(|e| {
            let remedy = format_args!("{e}; check that it is a complete ONNX file");
            LoadError::file(path, NAME, &remedy)
        })?;
        let name_of = |id: &NodeId| {
            let info = model.node_info(*id);
            info.and_then(|n| n.name()).unwrap_or_default().to_owned()
        };
        let axes = |n: usize| -> Option<Vec<Option<usize>>> {
            let dims = model.input_shape(n)?;
            let axes = dims.iter().map(|d| match d {
                Dimension::Fixed(n) => Some(*n),
                Dimension::Symbolic(_) => None,
            });
            Some(axes.collect())
        };
        let found = model.input_ids().iter().enumerate();
        let found: Vec<FileInput> = found
            .map(|(n, id)| FileInput {
                name: name_of(id),
                axes: axes(n),
            })
            .collect();
        let picked = pick_inputs(&signature.inputs, &found).map_err(mismatch)?;
        let ids = model.input_ids();
        let inputs = picked.into_iter().filter_map(|i| ids.get(i).copied());
        let inputs = inputs.collect();
        let there: Vec<_> = model.output_ids().iter().map(name_of).collect();
        let names = pick_outputs(signature.outputs, &there).map_err(mismatch)?;
        let outputs = names
            .iter()
            .filter_map(|name| model.find_node(name))
            .collect();
        let (pool, workers) = Workers::started_by(|| ThreadPool::with_num_threads(threads));
        Ok(Self {
            inputs,
            outputs,
            names,
            pool: Arc::new(pool),
            threads,
            workers,
            model,
        })
    }
}

/// Converts an input to the library's type.
fn value<'a>(feed: &Feed<'a>) -> Result<ValueOrView<'a>, String> {
    let said = |e: &dyn std::fmt::Display| one_line(&e.to_string());
    Ok(match feed.numbers {
        Numbers::Floats(data) => TensorView::try_from_data(feed.shape, data)
            .map_err(|e| said(&e))?
            .into(),
        Numbers::Whole(data) => TensorView::try_from_data(feed.shape, data)
            .map_err(|e| said(&e))?
            .into(),
    })
}

impl Network for RtenNetwork {
    fn backend(&self) -> &'static str {
        NAME
    }

    fn threads(&self) -> Option<usize> {
        Some(self.threads)
    }

    fn tensor_copies(&self) -> Option<u32> {
        // Inputs are views, and so are contiguous outputs.
        Some(0)
    }

    fn infer(
        &self,
        inputs: &[Feed<'_>],
        read: &mut dyn FnMut(&[Tensor<'_>]),
    ) -> Result<(), String> {
        let said = |e: &dyn std::fmt::Display| one_line(&e.to_string());
        let mut fed = Vec::with_capacity(inputs.len());
        for (id, feed) in self.inputs.iter().zip(inputs) {
            fed.push((*id, value(feed)?));
        }
        let options = RunOptions::default().with_thread_pool(Some(self.pool.clone()));
        let run = || self.model.run(fed, &self.outputs, Some(options));
        let values = self.workers.meter(run).map_err(|e| said(&e))?;
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

#[cfg(test)]
mod tests {
    use super::VERSION;

    #[test]
    fn version_is_that_of_the_dependency() {
        let workspace = include_str!("../../../Cargo.toml");
        assert!(workspace.contains(&format!("\nrten = \"{VERSION}\"\n")));
    }
}
