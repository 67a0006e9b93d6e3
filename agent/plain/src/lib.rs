//! The workflow of a watch, which the command line builds and requests in plain words will.

pub mod shape;
pub mod watch;
