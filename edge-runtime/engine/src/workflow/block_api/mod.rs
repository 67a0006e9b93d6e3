//! What a block is to the engine: its manifest, one call of it, and the state that it keeps.
//!
//! - The blocks themselves stand in [`blocks`](super::blocks), one file each.

pub(crate) mod block;
pub(crate) mod host;
pub(crate) mod manifest;
pub(crate) mod stateful;
