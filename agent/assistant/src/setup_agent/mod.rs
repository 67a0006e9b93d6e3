//! A model of language sets up what the rules did not understand: it looks around, writes a workflow, sees it on the real picture, tries it, and
//! proposes it. With fewer tools and other instructions the same loop answers questions and keeps the archive ([`crate::blueprint`]). Nothing it does
//! changes what the box does.
//!
//! Map: [`job_spec`] is what a blueprint comes to on a channel, [`turn`] is the state of one request, from its first look to its end; [`facts`] what the tools have left in it; [`permissions`](crate::permissions) who may use what;
//! [`prompt`] what the model is told, [`context_window`] whether there is room to ask it again, [`geometry`] what a place in a picture is worth, [`preview_spec`] the workflow that shows a workflow, `sentences` what a person may be quoted with. They are
//! sans-IO. [`turn_log`] is the file that a turn is written to before it goes on, [`tool_context`] the way to the box, [`tool`] the tools, one file each,
//! and [`drive`] the loop that has them all work together.
//!
//! Invariants:
//! - no tool acts: what would change a pipeline becomes a [`LlmProposal`](crate::proposal::llm_proposal::LlmProposal) that a person is shown, with the difference to what
//!   runs, and that only their yes carries out ([`crate::proposal::conversation`]);
//! - what comes from outside (pictures, names, events, notes, answers of the box) stands in results of tools and nowhere else;
//! - a turn is on the disk before what it says is done: after a crash it goes on where it was, and no tool with an effect runs twice;
//! - everything is bounded: the calls of a model, those of each tool, pictures, texts, time and money.
//!
//! Not here: what a call costs and whether it may be made (`watchkeeper-llm`), the yes, and who shows what (`watchkeeper-cli`).

pub mod context_window;
pub mod drive;
pub mod facts;
pub mod geometry;
pub mod job_spec;
pub mod preview_spec;
pub mod prompt;
mod sentences;
pub mod tool;
pub mod tool_context;
pub mod turn;
pub mod turn_log;
