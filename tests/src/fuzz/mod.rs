//! Bodies of the fuzz targets: one for every parser of outside data, each with the property that must hold.
//!
//! A body takes any bytes and panics where its property does not hold. It is run twice: by libFuzzer, which looks for new
//! inputs (`tests/tools/fuzz`, crate `tests/fuzz`), and by `tests/tests/it/fuzz_seeds.rs`, which replays the seeds in
//! `tests/fuzz/seeds/NAME/` and mutations of them on every run of the suite. What libFuzzer finds becomes a seed.
//!
//! Invariants: a body is deterministic, keeps no state from one input to the next, and touches no file outside a folder of
//! its own.

mod address;
mod blueprint;
mod config;
mod contract;
mod decoders;
mod download;
mod effect;
mod hostile;
mod journal;
mod manifest;
mod model;
mod mqtt;
mod outbox;
mod pipeline;
mod sentences;
mod shapes;
mod store;
mod talk;
mod uql;
mod workflow;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: of the binary in `tests/fuzz/fuzz_targets` and of the folder of seeds.
    pub name: &'static str,
    /// The property, for any input.
    pub body: fn(&[u8]),
}

/// Every target, by name.
pub const TARGETS: &[Target] = &[
    target("address", address::address),
    target("blueprint", blueprint::blueprint),
    target("config", config::config),
    target("contract", contract::contract),
    target("decoders", decoders::decoders),
    target("download", download::download),
    target("effect", effect::effect),
    target("journal", journal::journal),
    target("manifest", manifest::manifest),
    target("model", model::model),
    target("mqtt", mqtt::mqtt),
    target("outbox", outbox::outbox),
    target("pipeline", pipeline::pipeline),
    target("sentences", sentences::sentences),
    target("shapes", shapes::shapes),
    target("store", store::store),
    target("talk", talk::talk),
    target("uql", uql::uql),
    target("workflow", workflow::workflow),
];

const fn target(name: &'static str, body: fn(&[u8])) -> Target {
    Target { name, body }
}

/// Runs the target of this name on one input.
///
/// # Panics
/// When there is no such target, or when its property does not hold.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|t| t.name == name);
    let target = target.unwrap_or_else(|| panic!("there is no fuzz target {name}"));
    (target.body)(input);
}
