//! A pipeline as a person wrote it → what can run: workflow, rules and detection mode, checked together and once.
//!
//! Used by the runtime when it deploys and by `config check`, so that both say the same. Invariant: whoever holds a [`Plan`]
//! holds a workflow that compiled, rules whose steps exist, and slots that are valid for every
//! [`Execution`](crate::workflow::Execution) made from it. Checking touches no model file and no source.

mod error;
mod fit;
mod plaintext_logins;
mod plan;

pub use error::{SpecError, Unfit};
pub use fit::{Fit, ModelFacts, filters_in_vain, fit};
pub use plan::{Plan, plan};
