//! Times a workflow on recorded detections, frame by frame: `replay-bench DEFINITION DETECTIONS
//! [WARM-UP]`.
//!
//! Prints one JSON object: the milliseconds of each frame after the warm-up (30 frames by default),
//! and the numeric outputs of the last frame. Timed is one call of the engine with a picture and
//! detections in memory; reading, compiling and making detections is not. `tests/tools/engine/run`
//! compares it with the peer's engine.

#![expect(clippy::print_stdout, reason = "what it finds is its output")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};
use watchkeeper_engine::workflow::compile;
use watchkeeper_engine::workflow::replay::{Player, Recording};

fn read<T: DeserializeOwned>(path: &str) -> Result<T> {
    let bytes = std::fs::read(Path::new(path)).with_context(|| path.to_owned())?;
    serde_json::from_slice(&bytes).with_context(|| path.to_owned())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (definition, detections, warm_up) = match arguments.as_slice() {
        [definition, detections] => (definition, detections, 30),
        [definition, detections, warm_up] => (definition, detections, warm_up.parse()?),
        _ => bail!("usage: replay-bench DEFINITION DETECTIONS [WARM-UP]"),
    };
    let definition: Json = read(definition)?;
    let compiled = compile(&definition, &BTreeMap::new());
    let compiled = compiled.map_err(|errors| anyhow::anyhow!("{errors:#?}"))?;
    let recording: Recording = read(detections)?;
    let mut player = Player::new(&compiled, &recording).map_err(|e| anyhow::anyhow!(e.message))?;
    let mut spent = Vec::new();
    for number in 0..player.frames() {
        let mut frame = player.frame(number);
        let began = Instant::now();
        let report = player.play(&mut frame);
        let took = began.elapsed().as_secs_f64() * 1e3;
        let report = report.map_err(|e| anyhow::anyhow!(e.message))?;
        ensure!(
            report.errors.is_empty(),
            "frame {number}: {:?}",
            report.errors
        );
        if number >= warm_up {
            spent.push(took);
        }
    }
    let outputs = player.execution().outputs_json();
    let numbers = outputs.as_object().into_iter().flatten();
    let numbers: Map<String, Json> = numbers
        .filter(|(_, value)| value.is_number())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    println!("{}", json!({"ms": spent, "numbers": numbers}));
    Ok(())
}
