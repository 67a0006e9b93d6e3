//! The blocks, one file per family, found by `build.rs`; docs/design/blocks.md says how to write
//! one.
//!
//! - A file owns the name, properties, outputs and behaviour of its block. What several share is in
//!   [`common`], [`block_api`](super::block_api) or [`uql`](super::uql).
//! - Outputs depend only on properties, the block's state, the time, and the host's answers.
//! - A block fails with one sentence and has bounded state.
//! - `cargo fmt` does not see these files, as no `mod` line names them: use `rustfmt --edition
//!   2024`.

use crate::workflow::block_api::prelude::*;
use crate::workflow::language::types;

pub(crate) mod common;

include!(concat!(env!("OUT_DIR"), "/families.rs"));

/// All blocks, in the order of the families.
pub(crate) fn all() -> impl Iterator<Item = &'static Manifest> {
    let all = FAMILIES.iter().flat_map(|family| family.iter());
    #[cfg(test)]
    let all = all.chain(super::tests::blocks::BLOCKS);
    all
}

pub(crate) fn find(r#type: &str) -> Option<&'static Manifest> {
    let name = types::canonical(r#type);
    all().find(|m| m.name == name)
}

/// Returns the latest supported version of a family.
pub(crate) fn latest(family: &str) -> Option<&'static str> {
    let of_family = all().filter(|m| types::family(m.name) == family);
    of_family.map(|m| m.name).max()
}
