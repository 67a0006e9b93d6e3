//! The blocks, one file for each family. A block is added by adding a file here; `build.rs` finds it.
//!
//! Each file owns what its block is called, takes, gives and does; what several declare alike has one owner
//! ([`manifest`](crate::workflow::block_api::manifest), [`drawing`](crate::workflow::blocks::common::drawing), [`sink`](crate::workflow::blocks::common::sink), [`per_video`](crate::workflow::blocks::common::per_video),
//! [`uql`](super::uql)). Invariant, of every block: its outputs follow from its properties, from what it remembers, and from
//! the time and the answers that the program around it gives; it fails with one sentence, and remembers a bounded amount.
//!
//! # How to add a block
//!
//! 1. `blocks/<family>.rs` declares `pub(super) const BLOCKS: &[Manifest]`, one [`Manifest`] for each version, ending in
//!    `..Manifest::BASE`. `name` is the canonical type; other names are in `types.tsv` already and nobody repeats them.
//!    `category` is the block's own in the language; `summary` is one sentence of ours.
//! 2. Properties stand in the order in which the block reads them: `call.arg(0)` is the first. `Property::data` takes a
//!    selector only, `Property::value` a literal or a selector, `Property::literal` a literal only; `.or(…)` gives the
//!    default, `.nullable()` takes null, `.inputs_only()` takes only `$inputs…`, `.deeper()` takes data one level deeper.
//!    [`Shape`](crate::workflow::block_api::manifest::Shape) says what a literal looks like; a grammar of its own is a
//!    [`Grammar`](crate::workflow::block_api::manifest::Grammar), such as [`OPERATIONS`](super::uql::OPERATIONS). Kinds are those that the
//!    language gives the property: a selector that shares none of them is refused.
//! 3. Outputs stand in the order in which the block writes them: `call.put(0, …)` is the first. Outputs that only a
//!    definition names come from `own_outputs`, after those; the manifest says `*` for them.
//! 4. `depth` only where one element becomes many (`Deeper`: put a list), many become one (`Shallower`: get a list) or an
//!    input is one level deeper (`Reference`). `batch` and `mixed` name the properties that the language calls so; where
//!    there are any, data that differs from picture to picture may flow into no others. A block that answers only after
//!    the last element of a batch says `whole_batch` and reads `call.left`.
//! 5. `build` makes one step from literals ([`Setup::parse`](crate::workflow::block_api::block::Setup::parse)). A block that remembers nothing is
//!    a [`Block`](crate::workflow::block_api::block::Block). One that does is [`Stateful`](crate::workflow::block_api::stateful::Stateful) and is made by
//!    [`remembering`](crate::workflow::block_api::stateful::remembering): what it keeps is its `State`, which outlives the process, so it is
//!    serialisable; what is kept for each video goes into a [`PerVideo`](crate::workflow::blocks::common::per_video::PerVideo), a value from a slot
//!    is [`StoredValue`](crate::workflow::values::stored_value::StoredValue), and what is learned from pictures within moments is
//!    [`Fleeting`](crate::workflow::block_api::stateful::Fleeting). A change of that type raises `FORM`. A block reads no clock (`call.now`, or
//!    [`VideoMeta::time_s`]), opens nothing and draws no random numbers; a model or anything else outside is asked for
//!    through `call.host`. What is to be done outside (a message, a file) is an
//!    [`Effect`](watchkeeper_contract::effect::Effect) handed to [`Host::emit`](crate::workflow::block_api::host::Host::emit), through
//!    [`sink`](crate::workflow::blocks::common::sink), whose [`Sink`](crate::workflow::blocks::common::sink::Sink) tells how it went; a secret is known by its name only. Maps
//!    that grow have a bound.
//! 6. Detections are shared: [`Detections::pick`] keeps some, [`Detection::moved`](watchkeeper_vision::detections::Detection::moved)
//!    moves boxes with mask and keypoints, [`Detection::extra_mut`](watchkeeper_vision::detections::Detection::extra_mut) attaches
//!    `data` under its serialised name. Keep `size`, and the ids of boxes that stay the same objects; a block that makes
//!    boxes of which the peer knows no picture size says `[0, 0]`. [`ImageValue::crop`](crate::workflow::values::image::ImageValue::crop)
//!    and `part` make pictures that know where they lie; pixels are `image.pixels.rgb()`; a block that draws hands
//!    [`drawing`](crate::workflow::blocks::common::drawing) something to paint, and one that changes pixels a way to do it
//!    ([`lazy`](crate::workflow::values::image::lazy)), so that nothing is done unless someone looks. Pixels are judged in
//!    [`vision`](watchkeeper_vision::imaging).
//! 7. Tests at the end of the file: one sentence for each promise, through `Bench` in `tests/bench.rs`, which runs one
//!    step on one frame after the other. Where the peer has the block, cases in `tests/peer/cases.py` ask it for its answers,
//!    and `tests/peer.rs` compares ours with them. What a block remembers is tested in `tests/state.rs`. Then `cargo nextest run -p watchkeeper-engine` (the conformance suite prints what the block unlocked; raise
//!    its ratchet) and `UPDATE_DOCS=1 cargo test -p watchkeeper-engine blocks_document`.
//!
//! `cargo fmt` doesn't see these files, as no `mod` line names them: `rustfmt --edition 2024` does.

use std::sync::Arc;

use watchkeeper_vision::detections::Detections;

use crate::workflow::block_api::manifest::Manifest;
use crate::workflow::language::types;
use crate::workflow::values::image::VideoMeta;
use crate::workflow::values::value::Value;

pub(crate) mod common;

include!(concat!(env!("OUT_DIR"), "/families.rs"));

/// Every block, in the order of the families.
pub(crate) fn all() -> impl Iterator<Item = &'static Manifest> {
    let all = FAMILIES.iter().flat_map(|family| family.iter());
    #[cfg(test)]
    let all = all.chain(super::tests::blocks::BLOCKS);
    all
}

/// The block of this type string, canonical or alias.
pub(crate) fn find(r#type: &str) -> Option<&'static Manifest> {
    let name = types::canonical(r#type);
    all().find(|m| m.name == name)
}

/// The latest version of a family that is here.
pub(crate) fn latest(family: &str) -> Option<&'static str> {
    let of_family = all().filter(|m| types::family(m.name) == family);
    of_family.map(|m| m.name).max()
}

/// Where a frame stands in its video, from an image or from metadata.
pub(super) fn video_of(value: &Value) -> Result<&Arc<VideoMeta>, String> {
    match value {
        Value::Image(image) => Ok(&image.meta),
        Value::Meta(meta) => Ok(meta),
        other => Err(format!("an image expected, got {}", other.what())),
    }
}

/// Refuses boxes without an identity, which analytics over time can't work on.
fn require_tracks(detections: &Detections) -> Result<(), String> {
    if detections.boxes.iter().all(|d| d.track.is_some()) {
        Ok(())
    } else {
        Err(
            "the detections have no track ids; put a byte_tracker step in front of this one"
                .to_owned(),
        )
    }
}
