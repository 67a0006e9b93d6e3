//! Tools on pictures that ask networks of the runtime: likeness, tags, objects.
//!
//! - `connection`: asking, and the answers that are kept. `alike`: likeness. `tag`: words. `find`:
//!   objects.
//! - A model that is missing is a fault of the plan, with the remedy. An unreachable runtime is not
//!   a fault of the plan: the step is tried again, then fails with its address.
//! - Pictures are asked about one by one. An answer is kept with the job, by the SHA-256 of the
//!   file and of the model, so a resumed job asks about none twice.

mod alike;
mod connection;
mod find;
mod tag;

use std::sync::Arc;

use watchkeeper_jobs::Toolbox;

pub use connection::ToolSetup;
pub(super) use connection::{RuntimeAccess, event_loop, wait};

pub(super) fn add(tools: &mut Toolbox, runtime: Arc<RuntimeAccess>) {
    tools.add(Arc::new(alike::RankAlike(Arc::clone(&runtime))));
    tools.add(Arc::new(alike::GroupAlike(Arc::clone(&runtime))));
    tools.add(Arc::new(tag::Tag(Arc::clone(&runtime))));
    tools.add(Arc::new(find::FindObjects(runtime)));
}
