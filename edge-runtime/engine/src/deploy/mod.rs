//! Checks a pipeline specification: workflow, rules and detection mode together.
//!
//! Used by the runtime when it deploys and by `config check`, so that both report the same.
//!
//! - A [`Plan`] has a workflow that compiled, rules whose steps exist, and slots valid for every
//!   [`Execution`](crate::workflow::Execution) made from it.
//! - No model file and no source is opened.

mod bounds;
mod error;
mod fit;
mod plaintext_logins;
mod plan;
mod without_effect;

pub use bounds::outside;
pub use error::{SpecError, Unfit};
pub use fit::{Fit, ModelFacts, fit, ineffective_filters};
pub use plan::{Plan, plan};
