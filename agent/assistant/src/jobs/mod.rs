//! Plans of jobs for requests in plain words: by rules, or by a language model if the rules do not
//! understand.
//!
//! - [`request_planner`] decides what plans a request, for every entrypoint; `revision` replaces
//!   the rest of a plan.
//! - [`proposal`] checks what a model proposes; [`prompt`] is what it reads; both are sans-IO.
//!   [`planner`] calls it, within the blueprint's bounds of calls and money; [`places`] bounds how
//!   many requests wait for it.
//! - [`known_names`]: the cameras, classes and rules that requests may name.
//! - A proposed plan is checked and repaired as one of a file. It reads no folder and no other job
//!   that the user did not name, and leaves done steps unchanged.
//! - Names of files, errors and summaries are only in results of the tool.
//!
//! Not here: rules and templates (`watchkeeper-jobs`), running, progress bars.

mod names;
pub mod places;
pub mod planner;
pub mod prompt;
pub mod proposal;
pub mod request_planner;
mod revision;

pub use names::known_names;
pub use places::ModelPlaces;
pub use planner::{ModelPlan, ModelPlanner, PlanningError};
pub use proposal::{FailedJob, PlanTask};
pub use request_planner::{
    ModelShare, OpenModel, PlannedRequest, PlanningEvent, RequestPlanner, Unplanned,
};
