//! Which back ends this machine has.
//!
//! - The question opens ONNX Runtime's library, which may crash: a daemon asks in a child process.
//! - An absent back end has its reason.

use std::path::PathBuf;

use super::ort_library::OrtSettings;
#[cfg(feature = "ort")]
use super::ort_library::version;
use super::rten;
use super::trt::{self, TrtSettings};

/// A back end, and whether it can run networks here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendState {
    /// Value of the configuration key.
    pub name: &'static str,
    /// Absent with the reason, one clause.
    pub found: Result<FoundBackend, String>,
}

/// A back end that is here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundBackend {
    /// Absent if the name of the library does not have it.
    pub version: Option<String>,
    /// The library; absent for a part of this program.
    pub library: Option<PathBuf>,
    /// Execution providers in the order in which they are asked for; empty if it has none.
    pub providers: Vec<&'static str>,
}

/// Lists all back ends, those of libraries first.
#[must_use]
pub fn list(ort_settings: &OrtSettings, trt_settings: &TrtSettings) -> Vec<BackendState> {
    with(tensorrt(trt_settings), ort(ort_settings))
}

/// Lists all back ends without opening a library: those of libraries count as absent.
#[must_use]
pub fn list_unopened() -> Vec<BackendState> {
    let unopened = || Err("its library was not opened".to_owned());
    with(unopened(), unopened())
}

fn with(trt: Result<FoundBackend, String>, ort: Result<FoundBackend, String>) -> Vec<BackendState> {
    let state = |name, found| BackendState { name, found };
    vec![
        state(trt::NAME, trt),
        state("ort", ort),
        BackendState {
            name: rten::NAME,
            found: Ok(FoundBackend {
                version: Some(rten::VERSION.to_owned()),
                ..FoundBackend::default()
            }),
        },
    ]
}

fn tensorrt(settings: &TrtSettings) -> Result<FoundBackend, String> {
    let facts = trt::availability(settings)?;
    Ok(FoundBackend {
        version: Some(facts.version),
        library: settings.library_file().ok(),
        providers: Vec::new(),
    })
}

#[cfg(feature = "ort")]
fn ort(settings: &OrtSettings) -> Result<FoundBackend, String> {
    let library = settings.library_file();
    let providers = super::ort::providers(settings)?;
    Ok(FoundBackend {
        version: library.as_deref().and_then(version),
        library,
        providers,
    })
}

#[cfg(not(feature = "ort"))]
fn ort(_: &OrtSettings) -> Result<FoundBackend, String> {
    Err("this program was built without it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::precision::Precision;

    #[test]
    fn missing_library_is_named_and_rten_is_always_there() {
        let ort = OrtSettings {
            library: Some("/nowhere/libonnxruntime.so".into()),
            ..OrtSettings::default()
        };
        let trt = TrtSettings {
            library: Some("/nowhere/libwk_trt.so".into()),
            folders: Vec::new(),
            engine_dir: "/nowhere".into(),
            precision: Precision::default(),
            program: "/nowhere/program".into(),
            stop: trt::StopFlag::default(),
        };
        let all = list(&ort, &trt);
        let [trt, ort, rten] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!([trt.name, ort.name, rten.name], ["trt", "ort", "rten"]);
        for absent in [trt, ort] {
            let why = absent.found.clone().err().unwrap_or_default();
            assert!(why.contains("/nowhere"), "{why}");
        }
        assert!(rten.found.is_ok());
    }
}
