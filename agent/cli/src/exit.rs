//! Failures of the command, with its exit codes.

pub(crate) use watchkeeper_assistant::failure::{Error as Failure, ErrorKind as Exit};
