//! The tools of the setup agent, one file each. [`definition`] has the types, [`tool_set`] lists
//! the tools.
//!
//! - Two tiers: a list in few words (`list_workflow_blocks`) and the details of one item
//!   (`get_block_details`). So two hundred blocks cost no tokens before they are needed.
//! - Every tool states its effect and its maximum uses. None of them acts.
//! - A workflow is written once and becomes a named draft; later calls use the name.
//! - Every error is a sentence that says what would work.

mod archive_selection;
mod chosen_draft;
pub mod definition;
mod delegate;
mod draft_edit;
mod draft_spec;
mod dry_run_workflow;
mod get_block_details;
mod get_evidence;
mod get_example;
mod get_observations;
mod get_snapshot;
mod infer_image;
mod keep_pattern;
mod list_available_models;
mod list_cameras;
mod list_streams;
mod list_workflow_blocks;
mod look_around;
mod lookup;
mod memory_note;
mod memory_search;
mod preview_workflow;
mod propose_control;
mod propose_deployment;
mod propose_ingest;
mod propose_job;
mod query_archive;
mod query_events;
mod retrieve_archive;
mod start_setup;
mod stream_status;
pub mod tool_set;
mod update_plan;
mod validate_workflow;

pub use definition::{MAX_TEXT, Tool, ToolInput, ToolOutcome};
pub use tool_set::ToolSet;
