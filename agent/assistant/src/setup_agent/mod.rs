//! The LLM tool loop: sets up watches, answers questions, keeps notes ([`crate::blueprint`]).
//!
//! - State, sans-IO: [`job_spec`] (a blueprint with permissions), [`turn`] and [`turn_record`] (one
//!   request), [`facts`] (what tools left), [`reflection`] (the lessons of a turn). Also sans-IO:
//!   [`prompt`], [`context_window`], [`geometry`], [`preview_spec`], [`example`].
//! - [`delegation`]: how a coordinator hands an instruction to another blueprint.
//! - I/O: [`turn_log`] (write-ahead log), [`tool_context`], [`tool`], `reminder`, and [`drive`],
//!   the loop.
//!
//! Invariants:
//! - No tool acts. A change becomes an [`LlmProposal`](crate::proposal::llm_proposal::LlmProposal),
//!   which only the user's confirmation applies ([`crate::proposal::conversation`]).
//! - Data from outside (pictures, names, events, notes, errors) is only in tool results.
//! - After a crash a turn resumes from its log, and no tool with an effect runs twice.
//! - Model calls, tool calls, pictures, texts, time and money are bounded.

pub mod context_window;
pub mod delegation;
pub mod drive;
pub mod example;
pub mod facts;
pub mod geometry;
pub mod job_spec;
pub(crate) mod kept_watch;
pub mod preview_spec;
pub mod prompt;
pub mod reflection;
pub(crate) mod reminder;
pub mod tool;
pub mod tool_context;
pub mod turn;
pub mod turn_log;
pub mod turn_record;
