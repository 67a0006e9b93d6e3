//! The query language: chains of operations on values, and statements about them.
//!
//! Owns the grammar (as serde types) and its evaluation. Invariant: evaluation is pure; the same chain on the same value
//! gives the same result, and no chain panics on any value. The one exception is drawing a random number: the engine has no
//! randomness of its own, so each is made of the next number of the running workflow's count ([`Ids`]).

pub(crate) mod budget;
mod compare;
mod convert;
mod detections;
pub(crate) mod env;
pub(crate) mod evaluate;
pub(crate) mod grammar;
mod numbers;
pub(crate) mod properties;
mod python;

pub(crate) use budget::Budget;
pub(crate) use env::Env;
pub(crate) use evaluate::{apply, apply_alone, apply_named};
pub(crate) use grammar::{Chain, StatementGroup};
pub(crate) use properties::{CONDITION, DATA_OPERATIONS, OPERATIONS, named_operations};
