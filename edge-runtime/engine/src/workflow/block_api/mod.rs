//! What a block is to the engine: manifest, call, state, and the host around it.
//!
//! - The blocks themselves are in [`blocks`](super::blocks), one file each.

pub(crate) mod arg;
pub(crate) mod block;
pub(crate) mod call;
pub(crate) mod host;
#[macro_use]
pub(crate) mod manifest;
pub(crate) mod prelude;
pub(crate) mod property;
pub(crate) mod shape;
pub(crate) mod shared_state;
pub(crate) mod stateful;
