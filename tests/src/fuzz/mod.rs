//! Bodies of the fuzz targets: one for every parser of outside data, each with the property that
//! must hold.
//!
//! A body takes any bytes and panics if its property does not hold. Two programs run it:
//! - libFuzzer searches new inputs (`tests/tools/fuzz`, crate `tests/fuzz`). An input that it finds
//!   becomes a seed.
//! - `tests/tests/it/fuzz_seeds.rs` replays the seeds in `tests/fuzz/seeds/NAME/` and mutations of
//!   them.
//!
//! A body is deterministic, keeps no state between inputs, and touches no file outside its own
//! folder.

mod address;
mod assessment;
mod blueprint;
mod bundle;
mod config;
mod contract;
mod decoders;
mod discovery;
mod download;
mod effect;
mod evidence;
mod history;
mod hostile;
mod journal;
mod manifest;
mod model;
mod mqtt;
pub mod mutate;
mod outbox;
mod pipeline;
mod plain;
mod planner;
mod sentences;
mod shapes;
mod store;
mod talk;
mod tflite;
mod uql;
mod workflow;

#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the binary in `tests/fuzz/fuzz_targets` and of the folder of seeds.
    pub name: &'static str,
    /// Panics on an input for which the property does not hold.
    pub body: fn(&[u8]),
}

/// Every target, sorted by name.
pub const TARGETS: &[Target] = &[
    target("address", address::address),
    target("assessment", assessment::assessment),
    target("blueprint", blueprint::blueprint),
    target("bundle", bundle::bundle),
    target("config", config::config),
    target("contract", contract::contract),
    target("decoders", decoders::decoders),
    target("discovery", discovery::discovery),
    target("download", download::download),
    target("effect", effect::effect),
    target("evidence", evidence::evidence),
    target("history", history::history),
    target("journal", journal::journal),
    target("manifest", manifest::manifest),
    target("model", model::model),
    target("mqtt", mqtt::mqtt),
    target("outbox", outbox::outbox),
    target("pipeline", pipeline::pipeline),
    target("plain", plain::plain),
    target("planner", planner::planner),
    target("sentences", sentences::sentences),
    target("shapes", shapes::shapes),
    target("store", store::store),
    target("talk", talk::talk),
    target("tflite", tflite::tflite),
    target("uql", uql::uql),
    target("workflow", workflow::workflow),
];

const fn target(name: &'static str, body: fn(&[u8])) -> Target {
    Target { name, body }
}

/// Runs the target of this name on one input.
///
/// # Panics
/// If there is no such target, or if its property does not hold.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|t| t.name == name);
    let target = target.unwrap_or_else(|| panic!("there is no fuzz target {name}"));
    (target.body)(input);
}
