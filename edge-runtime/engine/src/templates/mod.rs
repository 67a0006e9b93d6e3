//! Workflow definitions that are built and not written by hand.
//!
//! - [`watch`](mod@watch): detect, track, count at lines, time in zones, draw.
//! - [`annotate`]: adds drawing steps to a workflow without any.
//! - [`drawing`]: steps that draw what a workflow sees.
//! - [`shape`]: lines and zones as `NAME:x1,y1,…`, parsed and checked.
//!
//! Not here: which template a text or a command line asks for.

pub mod annotate;
pub mod drawing;
pub mod shape;
pub mod watch;
