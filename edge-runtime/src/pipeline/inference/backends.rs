//! The back ends of this box, with what would bring the absent ones.
//!
//! - A library that can't be opened is reported, not fatal: a daemon has a child process open it.

use std::time::Duration;

use watchkeeper_contract::backend::BackendInfo;
use watchkeeper_detect::availability::{self, BackendState};

use super::child::ChildProgram;
use super::settings::ModelSettings;

/// Name of the subcommand that prints the back ends.
pub const SUBCOMMAND: &str = "backends";

/// Longest time for opening the libraries; that of a graphics card initialises its driver.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Lists the back ends, opening their libraries in this process.
#[must_use]
pub fn list(settings: &ModelSettings) -> Vec<BackendInfo> {
    availability::list(&settings.ort_settings(), &settings.trt_settings())
        .into_iter()
        .map(|state| info(state, settings))
        .collect()
}

/// Lists the back ends, opening their libraries in a child process.
pub(super) fn ask(settings: &ModelSettings, child: &ChildProgram) -> Vec<BackendInfo> {
    child
        .ask(SUBCOMMAND, settings, &[], TIMEOUT)
        .unwrap_or_else(|error| {
            // The part of this program is there in any case.
            let without = availability::list_unopened();
            let reason = error.to_string();
            let states = without.into_iter().map(|mut state| {
                if let Err(why) = &mut state.found {
                    why.clone_from(&reason);
                }
                info(state, settings)
            });
            states.collect()
        })
}

fn info(state: BackendState, settings: &ModelSettings) -> BackendInfo {
    let name = state.name.to_owned();
    match state.found {
        Ok(found) => BackendInfo {
            name,
            available: true,
            version: found.version,
            library: found.library.map(|path| path.display().to_string()),
            why_not: None,
            remedy: None,
            providers: found.providers.into_iter().map(str::to_owned).collect(),
        },
        Err(why) => BackendInfo {
            // The reason of TensorRT names its own.
            remedy: (name == "ort").then(|| settings.ort_settings().remedy()),
            name,
            available: false,
            version: None,
            library: None,
            why_not: Some(why),
            providers: Vec::new(),
        },
    }
}
