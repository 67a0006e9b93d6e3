//! Findings about what is installed: the programs, GStreamer, ONNX Runtime and models.
//!
//! - `watchkeeper-runtime --check-media` checks GStreamer.
//! - Not here: folders that the daemons write (`state`).

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;
use watchkeeper_agent::program::NAME as AGENT;
use watchkeeper_config::{Backend, Config};
use watchkeeper_models::Zoo;

use super::finding::Finding;
use crate::run::find;
use crate::runtime_program::PROGRAM as RUNTIME;

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
            format!("{name}: not found beside this program or on PATH"),
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
    match Command::new(&runtime).arg("--check-media").output() {
        Ok(output) if output.status.success() => match serde_json::from_slice(&output.stdout) {
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
        Ok(output) => vec![Finding::problem(
            format!(
                "{RUNTIME}: does not start: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ),
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

pub(super) fn onnxruntime(config: &Config) -> Finding {
    let variable = std::env::var_os("ORT_DYLIB_PATH").map(PathBuf::from);
    let named = config.inference.ort_library.clone().or(variable);
    let remedy = match named {
        Some(_) => "correct runtime.inference.ort_library or ORT_DYLIB_PATH, or remove it",
        None => "watchkeeper backends pull onnxruntime",
    };
    let found = match named {
        Some(path) => Some(path).filter(|path| path.exists()),
        None => library("libonnxruntime.so", &config.library_folders()),
    };
    match (found, config.inference.backend) {
        (Some(path), _) => Finding::ok(format!("ONNX Runtime: {}", path.display())),
        (None, Backend::Ort) => Finding::problem(
            "ONNX Runtime: not installed, but runtime.inference.backend is \"ort\"",
            remedy,
        ),
        (None, Backend::Trt) => {
            Finding::ok("ONNX Runtime: not installed, and not used with \"trt\"")
        }
        (None, Backend::Auto | Backend::Rten) => Finding::advice(
            "ONNX Runtime: not installed; models run on the built-in engine, at about half the speed",
            remedy,
        ),
    }
}

/// The shim of TensorRT, which `backend = "trt"` needs; `None` with another back end.
pub(super) fn tensorrt(config: &Config) -> Option<Finding> {
    if config.inference.backend != Backend::Trt {
        return None;
    }
    let found = match &config.inference.trt_library {
        Some(path) => Some(path.clone()).filter(|path| path.exists()),
        None => library("libwk_trt.so", &config.library_folders()),
    };
    Some(match found {
        Some(path) => Finding::ok(format!("TensorRT: {}", path.display())),
        None => Finding::problem(
            "TensorRT: no libwk_trt.so, but runtime.inference.backend is \"trt\"",
            "compile it into /var/lib/watchkeeper/lib as docs/guide/models.md says",
        ),
    })
}

/// Finds a shared library in the runtime's search order; `own` are its last folders.
fn library(name: &str, own: &[PathBuf]) -> Option<PathBuf> {
    let arch = std::env::consts::ARCH;
    let set = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let fixed = [
        "/usr/local/lib",
        "/usr/lib",
        "/lib",
        "/usr/lib64",
        "/opt/onnxruntime/lib",
    ]
    .map(PathBuf::from);
    let multiarch = [
        format!("/usr/lib/{arch}-linux-gnu"),
        format!("/lib/{arch}-linux-gnu"),
    ]
    .map(PathBuf::from);
    std::env::split_paths(&set)
        .chain(fixed)
        .chain(multiarch)
        .chain(own.iter().cloned())
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flat_map(|entries| entries.filter_map(Result::ok))
        .find(|entry| {
            let file = entry.file_name();
            // Checksums and partial downloads lie beside a library.
            let version = file.to_str().and_then(|file| file.strip_prefix(name));
            version.is_some_and(|v| v.chars().all(|c| c == '.' || c.is_ascii_digit()))
        })
        .map(|entry| entry.path())
}

pub(super) fn models(config: &Config) -> Finding {
    let folders = config.models.folders();
    let shown: Vec<String> = folders
        .iter()
        .map(|dir| dir.display().to_string())
        .collect();
    let shown = shown.join(" or ");
    let zoo = Zoo::with_dirs(folders);
    let here = zoo
        .manifests()
        .filter(|m| zoo.file_of(&m.name).is_some_and(|f| f.is_file()));
    let here: Vec<&str> = here.map(|m| m.name.as_str()).collect();
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
    use super::super::finding::Level;
    use super::missing_elements;

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
