//! The network of a sentence model: tokens in, vectors out.
//!
//! - No type of the `rten` crates leaves this file; a panic of the library is an error.
//! - Not shared with `edge-runtime/detect`, whose networks take pictures of a shape from a
//!   manifest: the agent does not depend on vision.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rten::{Dimension, Model, NodeId, RunOptions, ThreadPool, ValueOrView};
use rten_tensor::prelude::*;
use rten_tensor::{Contiguous, TensorView};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Tokens,
    /// 1 for each token, because there is no padding.
    Mask,
    /// 0 for each token, because there is one text.
    Segments,
}

/// Network that computes sentence embeddings.
pub(crate) struct Network {
    model: Model,
    inputs: Vec<(NodeId, Input)>,
    output: NodeId,
    name: String,
    pool: Arc<ThreadPool>,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network")
            .field("output", &self.name)
            .finish_non_exhaustive()
    }
}

/// Names of outputs by preference: the vector of the whole text, or those of its tokens.
const OUTPUTS: [&str; 3] = [
    "sentence_embedding",
    "last_hidden_state",
    "token_embeddings",
];

impl Network {
    /// Loads a network.
    ///
    /// # Errors
    /// One clause.
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Self, String> {
        catch_panics(|| Self::load(bytes))
    }

    fn load(bytes: Vec<u8>) -> Result<Self, String> {
        let model = Model::load(bytes).map_err(|e| e.to_string())?;
        let name_of = |id: &NodeId| {
            let info = model.node_info(*id);
            info.and_then(|n| n.name()).unwrap_or_default().to_owned()
        };
        let mut inputs = Vec::new();
        for (n, id) in model.input_ids().iter().enumerate() {
            let name = name_of(id);
            let input = match name.as_str() {
                "input_ids" => Input::Tokens,
                "attention_mask" => Input::Mask,
                "token_type_ids" => Input::Segments,
                _ => {
                    return Err(format!(
                        "it has an input `{name}`, and only `input_ids`, `attention_mask` and `token_type_ids` are known"
                    ));
                }
            };
            let fits = model
                .input_shape(n)
                .is_none_or(|axes| match axes.as_slice() {
                    [texts, Dimension::Symbolic(_)] => {
                        !matches!(texts, Dimension::Fixed(n) if *n != 1)
                    }
                    _ => false,
                });
            if !fits {
                return Err(format!(
                    "its input `{name}` must take 1 text of any number of tokens; export it with dynamic axes"
                ));
            }
            inputs.push((*id, input));
        }
        if !inputs.iter().any(|(_, input)| *input == Input::Tokens) {
            return Err("it has no input `input_ids`".to_owned());
        }
        let outputs: Vec<String> = model.output_ids().iter().map(name_of).collect();
        let name = OUTPUTS
            .into_iter()
            .find(|name| outputs.iter().any(|output| output == name));
        let name = name.ok_or_else(|| {
            format!(
                "it has none of the outputs `{}`, only `{}`",
                OUTPUTS.join("`, `"),
                outputs.join("`, `")
            )
        })?;
        let output = model
            .find_node(name)
            .ok_or_else(|| format!("its output `{name}` has no node"))?;
        Ok(Self {
            inputs,
            output,
            name: name.to_owned(),
            // One thread: the cameras need the other cores, and a sentence takes milliseconds.
            pool: Arc::new(ThreadPool::with_num_threads(1)),
            model,
        })
    }

    /// Runs the network on tokens and passes shape and numbers of its output to `read`.
    ///
    /// # Errors
    /// One clause.
    pub(crate) fn run<T>(
        &self,
        tokens: &[i32],
        read: impl FnOnce(&[usize], &[f32]) -> T,
    ) -> Result<T, String> {
        catch_panics(|| {
            let shape: &[usize] = &[1, tokens.len()];
            let (ones, zeros) = (vec![1; tokens.len()], vec![0; tokens.len()]);
            let mut inputs: Vec<(NodeId, ValueOrView<'_>)> = Vec::new();
            for (id, input) in &self.inputs {
                let data: &[i32] = match input {
                    Input::Tokens => tokens,
                    Input::Mask => &ones,
                    Input::Segments => &zeros,
                };
                let view = TensorView::try_from_data(shape, data).map_err(|e| e.to_string())?;
                inputs.push((*id, view.into()));
            }
            let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&self.pool)));
            let values = self.model.run(inputs, &[self.output], Some(options));
            let values = values.map_err(|e| e.to_string())?;
            let value = values.first().ok_or("it returns no output")?;
            let view: TensorView<'_, f32> = value
                .as_view()
                .try_into()
                .map_err(|e| format!("its output `{}`: {e}", self.name))?;
            let flat = view.to_contiguous();
            Ok(read(flat.shape(), Contiguous::data(&flat)))
        })
    }
}

/// Turns a panic of the library into an error.
fn catch_panics<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| panic.downcast_ref::<String>().cloned());
        Err(format!(
            "the inference library panicked: {}",
            message.unwrap_or_default()
        ))
    })
}
