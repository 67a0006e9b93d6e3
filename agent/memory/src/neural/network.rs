//! The network: numbers of tokens in, numbers of the text out.
//!
//! Invariants: no type of the `rten` crates leaves this file; a panic of the library is an error.
//!
//! Not `edge-runtime/detect`'s network: that one is of pictures, of one shape that a manifest states, and the agent does not depend on what looks at pictures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rten::{Dimension, Model, NodeId, RunOptions, ThreadPool, ValueOrView};
use rten_tensor::prelude::*;
use rten_tensor::{Contiguous, TensorView};

/// What an input is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    /// The tokens.
    Tokens,
    /// One for each token: nothing is filled up, so all of them count.
    Mask,
    /// Nought for each token: there is one text.
    Kinds,
}

/// A network of sentences.
pub(crate) struct Network {
    model: Model,
    inputs: Vec<(NodeId, Given)>,
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

/// What is read of a network, the first that is there: the vector of the whole text, or those of its tokens.
const OUTPUTS: [&str; 3] = [
    "sentence_embedding",
    "last_hidden_state",
    "token_embeddings",
];

impl Network {
    /// Takes a file's bytes.
    ///
    /// # Errors
    /// What is wrong, one clause.
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Self, String> {
        guarded(|| Self::load(bytes))
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
            let given = match name.as_str() {
                "input_ids" => Given::Tokens,
                "attention_mask" => Given::Mask,
                "token_type_ids" => Given::Kinds,
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
            inputs.push((*id, given));
        }
        if !inputs.iter().any(|(_, given)| *given == Given::Tokens) {
            return Err("it has no input `input_ids`".to_owned());
        }
        let there: Vec<String> = model.output_ids().iter().map(name_of).collect();
        let name = OUTPUTS
            .into_iter()
            .find(|name| there.iter().any(|there| there == name));
        let name = name.ok_or_else(|| {
            format!(
                "it has none of the outputs `{}`, only `{}`",
                OUTPUTS.join("`, `"),
                there.join("`, `")
            )
        })?;
        let output = model
            .find_node(name)
            .ok_or_else(|| format!("its output `{name}` leads nowhere"))?;
        Ok(Self {
            inputs,
            output,
            name: name.to_owned(),
            // One: the cameras need the other cores, and a sentence takes milliseconds.
            pool: Arc::new(ThreadPool::with_num_threads(1)),
            model,
        })
    }

    /// Hands `read` the shape and the numbers that the network answers to some tokens.
    ///
    /// # Errors
    /// What the network says, one clause.
    pub(crate) fn run<T>(
        &self,
        tokens: &[i32],
        read: impl FnOnce(&[usize], &[f32]) -> T,
    ) -> Result<T, String> {
        guarded(|| {
            let shape: &[usize] = &[1, tokens.len()];
            let (ones, noughts) = (vec![1; tokens.len()], vec![0; tokens.len()]);
            let mut fed: Vec<(NodeId, ValueOrView<'_>)> = Vec::new();
            for (id, given) in &self.inputs {
                let data: &[i32] = match given {
                    Given::Tokens => tokens,
                    Given::Mask => &ones,
                    Given::Kinds => &noughts,
                };
                let view = TensorView::try_from_data(shape, data).map_err(|e| e.to_string())?;
                fed.push((*id, view.into()));
            }
            let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&self.pool)));
            let values = self.model.run(fed, &[self.output], Some(options));
            let values = values.map_err(|e| e.to_string())?;
            let value = values.first().ok_or("it answers nothing")?;
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
fn guarded<T>(does: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(does)).unwrap_or_else(|panic| {
        let said = panic
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| panic.downcast_ref::<String>().cloned());
        Err(format!(
            "the library broke over it: {}",
            said.unwrap_or_default()
        ))
    })
}
