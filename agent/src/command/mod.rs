//! Commands from outside: received, answered, carried out once.
//!
//! `board` decides (sans-IO), `ledger` is the stored form, `execute` calls the runtime.

mod board;
mod execute;
mod ledger;

pub use board::{CommandBoard, Input, LEDGER_DAYS, LEDGER_ENTRIES, MAX_OPEN, Output};
pub use execute::{Outcome, PATIENCE, execute};
pub use ledger::{Record, restore, rider};
