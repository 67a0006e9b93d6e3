//! Commands from outside: received, answered, carried out once.
//!
//! `key` names a command, `board` decides (sans-IO), `replies` bounds the answers that need no decision, `refusals` knows which of
//! them have to be cleared again, `ledger` is the
//! stored form, `execute` calls the runtime.

mod board;
mod execute;
mod key;
mod ledger;
mod refusals;
mod replies;

pub use board::{
    CLOCK_PATIENCE, CommandBoard, Input, LEDGER_DAYS, LEDGER_ENTRIES, MAX_OPEN, Output,
    REJECTED_ENTRIES, refusal,
};
pub use execute::{Outcome, execute};
pub use key::{
    CommandId, CommandKey, InvalidCommandId, InvalidCommandKey, MAX_COMMAND_ID_LEN, OperationName,
    UnknownOperation,
};
pub use ledger::{Record, Restored, restore, rider};
pub use refusals::{MAX_STANDING, Refusals, TooMany};
pub use replies::{MAX_PENDING, Replies, Reply};
