//! Commands over MQTT: each is received, answered and executed once.
//!
//! - `key` identifies a command; `board` is the state machine; `ledger` its records on disk.
//! - `replies` bounds the replies that need no record.
//! - `execute` calls the runtime.

mod board;
mod execute;
mod key;
mod ledger;
mod replies;

pub use board::{
    CLOCK_TIMEOUT, CommandBoard, Input, LEDGER_DAYS, LEDGER_ENTRIES, MAX_OPEN, Output,
    REJECTED_ENTRIES, refusal,
};
pub use execute::{Outcome, execute};
pub use key::{
    CommandId, CommandKey, InvalidCommandId, InvalidCommandKey, MAX_COMMAND_ID_LEN, OperationName,
    UnknownOperation,
};
pub use ledger::{Record, restore, store_op};
pub use replies::{MAX_PENDING, Replies, Reply, ReplyBody};
