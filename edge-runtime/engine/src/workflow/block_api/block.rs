//! Blocks at run time: one instance per step, called once per element.
//!
//! - A block sees its properties as values, by a [`Call`]; never selectors or other steps.
//! - It reads no clock: the time is in the call.
//! - A [`Block`] has no state; without settings it is a function. One with state is
//!   [`Stateful`](crate::workflow::block_api::stateful::Stateful).

use serde_json::{Map, Value as Json};

use crate::workflow::block_api::call::Call;

/// Input from which a block is built.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    /// Properties as written in the definition, by canonical name.
    pub(crate) literals: &'a Map<String, Json>,
}

impl Setup<'_> {
    /// Parses a property with its own grammar. Fails if it does not parse; the check of the
    /// definition excludes that.
    pub(crate) fn parse<T: serde::de::DeserializeOwned>(
        &self,
        property: &str,
    ) -> Result<T, String> {
        let json = self.literals.get(property).cloned().unwrap_or(Json::Null);
        serde_json::from_value(json).map_err(|e| format!("{property}: {e}"))
    }
}

/// One step's block without state: its result depends on the call alone.
pub(crate) trait Block: Send + Sync {
    /// Processes one element.
    fn run(&self, call: &mut Call<'_>) -> Result<(), String>;
}

/// The state of one step, as bytes.
pub(crate) trait Memory {
    /// Version of the format.
    fn form(&self) -> u32;

    /// Serialises the state in at most `max_bytes` bytes. Fails if it can't be saved.
    fn write(&self, max_bytes: usize) -> Result<Vec<u8>, String>;

    /// Restores state saved in this format version. Fails if it can't be read; the state is
    /// unchanged then.
    fn read(&mut self, bytes: &[u8]) -> Result<(), String>;
}

/// One step of a running workflow: a block, with its state if it has one.
pub(crate) trait Instance: Send {
    /// Processes one element. An error fails the step for it; steps that need it are skipped.
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String>;

    /// The state to save.
    fn memory(&self) -> Option<&dyn Memory> {
        None
    }

    /// The state to restore.
    fn memory_mut(&mut self) -> Option<&mut dyn Memory> {
        None
    }
}

/// A block without settings is a function.
impl<F: Fn(&mut Call<'_>) -> Result<(), String> + Send + Sync> Block for F {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        self(call)
    }
}

impl<B: Block> Instance for B {
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String> {
        Block::run(self, call)
    }
}
