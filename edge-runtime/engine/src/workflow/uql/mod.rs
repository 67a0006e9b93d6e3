//! The query language: chains of operations on values, and statements about them.
//!
//! - Evaluation is pure, and no chain panics on any value.
//! - Random numbers are derived from the running workflow's counter
//!   ([`IdCounter`](crate::workflow::block_api::call::IdCounter)).

pub(crate) mod budget;
mod compare;
mod convert;
mod detections;
pub(crate) mod env;
pub(crate) mod evaluate;
pub(crate) mod grammar;
mod names;
mod numbers;
pub(crate) mod properties;
mod python;

pub(crate) use budget::Budget;
pub(crate) use env::Env;
pub(crate) use evaluate::{apply, apply_alone, apply_named};
pub(crate) use grammar::{Chain, StatementGroup};
pub use names::{OperationNames, operation_names};
pub(crate) use properties::{CONDITION, DATA_OPERATIONS, OPERATIONS, named_operations};
