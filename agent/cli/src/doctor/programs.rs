//! Findings about what is installed: the programs, GStreamer, back ends and models.
//!
//! - `watchkeeper-runtime` checks GStreamer and opens the libraries of back ends.
//! - Not here: folders that the daemons write (`state`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use watchkeeper_agent::program::NAME as AGENT;
use watchkeeper_config::{Backend, Config, ConfigError};
use watchkeeper_contract::backend::BackendInfo;
use watchkeeper_contract::model::ModelState;
use watchkeeper_models::Zoo;
use watchkeeper_models::model_check::{Ended, run_within};

use super::finding::Finding;
use crate::args::Global;
use crate::backends::found_by_program;
use crate::runtime_program::{PROGRAM as RUNTIME, find};

/// Longest check of GStreamer; the first one of a box scans all plugins.
const MEDIA_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn installed() -> Vec<Finding> {
    let this = std::env::current_exe().unwrap_or_else(|_| "/usr/bin/watchkeeper".into());
    let remedies = [
        (RUNTIME, format!("cargo build --release -p {RUNTIME}")),
        // The agent is this program by another name.
        (
            AGENT,
            format!(
                "ln -s {} {}",
                this.display(),
                this.with_file_name(AGENT).display()
            ),
        ),
    ];
    let findings = remedies.into_iter().map(|(name, remedy)| match find(name) {
        Some(path) => Finding::ok(format!("{name}: {}", path.display())),
        None => Finding::problem(
            format!("{name}: not found next to this program or on PATH"),
            remedy,
        ),
    });
    findings.collect()
}

/// Missing GStreamer element, as `watchkeeper-runtime --check-media` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct MissingElement {
    element: String,
    package: String,
    needed_for: String,
}

pub(super) fn media() -> Vec<Finding> {
    let Some(runtime) = find(RUNTIME) else {
        return Vec::new();
    };
    media_of(&runtime, MEDIA_TIMEOUT)
}

fn media_of(runtime: &Path, timeout: Duration) -> Vec<Finding> {
    let mut command = Command::new(runtime);
    match run_within(command.arg("--check-media"), timeout, &|| false) {
        Ok(None) => vec![Finding::problem(
            format!(
                "GStreamer: not checked within {} s; a plugin may hang",
                timeout.as_secs()
            ),
            "GST_DEBUG=3 gst-inspect-1.0 shows the plugin",
        )],
        Ok(Some(output)) if output.status.success() => match serde_json::from_str(&output.stdout) {
            Ok(missing) => missing_elements(missing),
            Err(e) => vec![Finding::problem(
                format!(
                    "{}: --check-media printed an unknown format: {e}",
                    runtime.display()
                ),
                "install the runtime and this command in the same version",
            )],
        },
        // The loader names a missing library on standard error.
        Ok(Some(Ended { stderr, .. })) => vec![Finding::problem(
            format!("{RUNTIME}: does not start: {}", stderr.trim()),
            "sudo apt-get install libgstreamer1.0-0 libgstreamer-plugins-base1.0-0",
        )],
        Err(e) => vec![Finding::problem(
            format!("{RUNTIME}: does not start: {e}"),
            format!("chmod +x {}", runtime.display()),
        )],
    }
}

fn missing_elements(missing: Vec<MissingElement>) -> Vec<Finding> {
    if missing.is_empty() {
        return vec![Finding::ok("GStreamer: all elements are installed")];
    }
    missing
        .into_iter()
        .map(|m| {
            Finding::problem(
                format!(
                    "GStreamer element {} is missing, needed for {}",
                    m.element, m.needed_for
                ),
                format!("sudo apt-get install {}", m.package),
            )
        })
        .collect()
}

/// The back ends that are libraries, as the runtime's program opens them.
pub(super) fn backends(config: &Config, errors: &[ConfigError], global: &Global) -> Vec<Finding> {
    let found = match found_by_program(global) {
        Ok(found) => found,
        // Its absence is a separate finding.
        Err(_) if find(RUNTIME).is_none() => return Vec::new(),
        // The program refuses an invalid configuration.
        Err(_) if !errors.is_empty() => {
            let what = "back ends: not checked, because the configuration has errors";
            return vec![Finding::unknown(what)];
        }
        Err(failure) => return vec![Finding::unknown(format!("back ends: {}", failure.sentence))],
    };
    let wanted = config.inference.backend;
    found.iter().filter_map(|it| backend(it, wanted)).collect()
}

fn backend(found: &BackendInfo, wanted: Backend) -> Option<Finding> {
    let (name, is_wanted) = match found.name.as_str() {
        "ort" => ("ONNX Runtime", wanted == Backend::Ort),
        "trt" => ("TensorRT", wanted == Backend::Trt),
        _ => return None,
    };
    let why = match (&found.why_not, &found.library) {
        (Some(why), _) => why,
        (None, library) => {
            let library = library.as_deref().unwrap_or("installed");
            return Some(Finding::ok(format!("{name}: {library}")));
        }
    };
    let remedy = found.remedy.as_deref();
    let remedy = remedy.unwrap_or("docs/guide/models.md says how it is installed");
    let key = &found.name;
    match (is_wanted, wanted, key.as_str()) {
        (true, ..) => Some(Finding::problem(
            format!("{name}: {why}; runtime.inference.backend is \"{key}\""),
            remedy,
        )),
        (false, Backend::Auto, "ort") => Some(Finding::advice(
            format!("{name}: {why}; without it models take about twice the time"),
            remedy,
        )),
        (false, ..) => None,
    }
}

pub(super) fn models(folders: Vec<PathBuf>) -> Finding {
    let shown: Vec<String> = folders
        .iter()
        .map(|dir| dir.display().to_string())
        .collect();
    let shown = shown.join(" or ");
    let models = Zoo::with_dirs(folders).list();
    let here = models
        .iter()
        .filter(|model| matches!(model.state, ModelState::Present { .. }));
    let here: Vec<&str> = here.map(|model| model.name.as_str()).collect();
    if here.is_empty() {
        return Finding::advice(
            format!("models: none in {shown}; the built-in motion detector is used"),
            "watchkeeper models pull yolox-nano",
        );
    }
    Finding::ok(format!("models in {shown}: {}", here.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::finding::Level;
    use super::*;

    #[test]
    fn check_of_media_that_hangs_is_a_problem() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("hangs");
        std::fs::write(&program, "#!/bin/sh\nexec sleep 1000\n").expect("write");
        let may_run = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&program, may_run).expect("permissions");
        let found = media_of(&program, Duration::from_millis(50));
        let [found] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(found.level, Level::Problem);
        assert!(found.what.contains("not checked within"), "{found:?}");
    }

    #[test]
    fn model_without_all_its_files_is_not_installed() {
        let folder = tempfile::tempdir().expect("a folder");
        let found = || models(vec![folder.path().to_owned()]).what;
        let network = folder.path().join("clip-vit-b-32.onnx");
        std::fs::write(network, "without its other files").expect("write");
        assert!(found().contains("none in"));
        std::fs::write(folder.path().join("yolox-nano.onnx"), "").expect("write");
        assert!(found().ends_with(": yolox-nano"));
    }

    #[test]
    fn absent_back_end_is_a_problem_only_where_it_is_wanted() {
        let level = |name: &str, wanted| {
            let found = BackendInfo {
                name: name.to_owned(),
                available: false,
                version: None,
                library: None,
                why_not: Some("no library is installed".to_owned()),
                remedy: None,
                providers: Vec::new(),
            };
            backend(&found, wanted).map(|finding| finding.level)
        };
        assert_eq!(level("ort", Backend::Ort), Some(Level::Problem));
        assert_eq!(level("ort", Backend::Auto), Some(Level::Advice));
        assert_eq!(level("ort", Backend::Rten), None);
        assert_eq!(level("trt", Backend::Trt), Some(Level::Problem));
        assert_eq!(level("trt", Backend::Auto), None);
        assert_eq!(level("rten", Backend::Rten), None);
    }

    #[test]
    fn missing_element_names_its_package() {
        let listed = r#"[{"element": "avdec_h264", "package": "gstreamer1.0-libav", "needed_for": "H.264"}]"#;
        let findings = missing_elements(serde_json::from_str(listed).unwrap_or_default());
        assert_eq!(findings[0].level, Level::Problem);
        assert_eq!(
            findings[0].remedy.as_deref(),
            Some("sudo apt-get install gstreamer1.0-libav")
        );
    }
}
