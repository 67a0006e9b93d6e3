//! `watchkeeper models bench`: starts `watchkeeper-runtime model-bench` and prints its report.
//!
//! - Each back end has its own process, so that its peak memory is its own.
//! - The motion detector runs on none of them, and is measured once.

use std::time::Duration;

use watchkeeper_contract::backend::{BUILT_IN, BackendBench, ModelBench};
use watchkeeper_models::MOTION;

use crate::args::{BenchArgs, Global};
use crate::backends::{self, found_by_program, no_network};
use crate::exit::Failure;
use crate::output::{self, Output};
use crate::runtime_program;

/// Longest time for loading a model and warming it up.
const LOADING: Duration = Duration::from_secs(150);

/// Measures a model and prints the figures.
///
/// # Errors
/// [`Exit::Failed`](crate::exit::Exit): no back end runs it; with one sentence for each.
pub(super) fn run(args: &BenchArgs, global: &Global, out: &Output) -> Result<(), Failure> {
    if let Some(backend) = backends::named(global)
        && args.name == MOTION
    {
        return Err(no_network(backend, "a network"));
    }
    let model = runtime_program::model(&args.name);
    let mut whole: Option<ModelBench> = None;
    let mut refused = Vec::new();
    for backend in back_ends(global)? {
        out.busy(format!("measuring {} on {backend}", args.name));
        let seconds = args.seconds.to_string();
        let mut command = runtime_program::command(global)?;
        command.args([
            "model-bench",
            "--backend",
            &backend,
            "--for",
            &seconds,
            "--",
        ]);
        let timeout = Duration::try_from_secs_f64(args.seconds).unwrap_or(Duration::MAX);
        let timeout = timeout.saturating_add(LOADING);
        match runtime_program::answer::<ModelBench>(command.arg(&model), timeout) {
            Ok(bench) => {
                let is_built_in = bench.backends.iter().any(|b| b.backend == BUILT_IN);
                match &mut whole {
                    Some(whole) => whole.backends.extend(bench.backends),
                    None => whole = Some(bench),
                }
                if is_built_in {
                    break;
                }
            }
            // A fault of the model has one sentence for all back ends.
            Err(failure) if refused.contains(&failure.sentence) => {}
            Err(failure) => refused.push(failure.sentence),
        }
    }
    out.end_live_line();
    let Some(report) = whole else {
        let mut refused = refused.into_iter();
        let first = refused.next();
        let first = first.unwrap_or_else(|| format!("{} could not be measured", args.name));
        return Err(Failure::failed(first).with(refused));
    };
    for why in refused {
        out.note(why);
    }
    out.both(&report, || text(&report));
    Ok(())
}

/// The back end of `--backend`, else all that are available.
fn back_ends(global: &Global) -> Result<Vec<String>, Failure> {
    match backends::named(global) {
        None => {
            let found = found_by_program(global)?.into_iter();
            Ok(found.filter(|b| b.available).map(|b| b.name).collect())
        }
        Some(backend) => Ok(vec![backend.to_owned()]),
    }
}

fn text(report: &ModelBench) -> String {
    let [width, height] = report.picture;
    let input = match report.input {
        [0, 0] => String::new(),
        [width, height] => format!("input {width}x{height}, "),
    };
    let rows = report.backends.iter().map(row);
    let table = output::table(
        &[
            "back end",
            "frames/s",
            "preprocess ms",
            "infer ms",
            "postprocess ms",
            "threads",
            "memory MB",
            "copies",
        ],
        rows,
    );
    format!(
        "{}, {input}picture {width}x{height}; p50 / p99, without {} runs of warm-up\n{table}",
        report.model, report.warm_up_runs
    )
}

fn row(bench: &BackendBench) -> Vec<String> {
    let name = match &bench.provider {
        Some(provider) => format!("{} ({provider})", bench.backend),
        None => bench.backend.clone(),
    };
    let stages = [bench.preprocess, bench.infer, bench.postprocess];
    let [preprocess, infer, postprocess] =
        stages.map(|stage| format!("{:.2} / {:.2}", stage.p50_ms, stage.p99_ms));
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    vec![
        name,
        format!("{:.1}", bench.fps),
        preprocess,
        infer,
        postprocess,
        or_dash(bench.threads.map(|threads| threads.to_string())),
        or_dash(bench.peak_memory_mb.map(|mb| format!("{mb:.0}"))),
        or_dash(bench.tensor_copies.map(|copies| copies.to_string())),
    ]
}
