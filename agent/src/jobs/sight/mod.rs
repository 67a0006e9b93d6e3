//! Tools on pictures that ask networks of the runtime: likeness, tags, objects.
//!
//! - `look`: asking, and what is kept of the answers. `alike`: likeness. `tag`: words. `find`:
//!   objects.
//! - A model that is missing is a fault of the plan, with the remedy. A runtime that is away is
//!   none: the step is tried again, then fails with its address.
//! - Pictures are asked about one by one; an answer is kept with the job, by the SHA-256 of the
//!   file and of the model, so a resumed job asks about none twice.

mod alike;
mod find;
mod look;
mod tag;

use std::sync::Arc;

use watchkeeper_jobs::Toolbox;

pub use look::ToolSetup;

/// Adds the tools.
pub(super) fn add(tools: &mut Toolbox, setup: &ToolSetup) {
    let sight = Arc::new(look::Sight::new(setup.clone()));
    tools.add(Arc::new(alike::RankAlike(Arc::clone(&sight))));
    tools.add(Arc::new(alike::GroupAlike(Arc::clone(&sight))));
    tools.add(Arc::new(tag::Tag(Arc::clone(&sight))));
    tools.add(Arc::new(find::FindObjects(sight)));
}
