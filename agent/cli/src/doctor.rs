//! `watchkeeper doctor`: what is missing on this machine, and the command that mends it.
//!
//! A [`Finding`] is `ok`, `advice` (it works without) or `problem` (something will not work). The exit code is 1 where
//! there is a problem. The hardware is asked through `watchkeeper-board`, GStreamer through the runtime's own check.

mod channels;
mod model;
mod tcp_probe;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use watchkeeper_board::{clock, identity, profile, storage, thermal};
use watchkeeper_config::{Backend, Config, ConfigError};
use watchkeeper_models::Zoo;

use super::exit::{Exit, Failure};
use super::output::Output;
use super::run::find;
use watchkeeper_agent::connectors::secrets::credentials_folder;
use watchkeeper_assistant::notes::EmbedderChoice;
use watchkeeper_client::how_to_start;

/// The daemon whose folder and socket are looked at.
const RUNTIME: &str = "watchkeeper-runtime";

/// Free space below which the journal and pictures are in danger, in bytes.
const LITTLE_SPACE: u64 = 1 << 30;
/// Temperature at which boards begin to slow down (NVIDIA states 85 to 99 °C for Orin's zones), in degrees Celsius.
const HOT: f64 = 85.0;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    /// As it should be.
    Ok,
    /// It works without.
    Advice,
    /// Something will not work.
    Problem,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    level: Level,
    what: String,
    /// Command or action that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Finding {
    fn ok(what: impl Into<String>) -> Self {
        Self {
            level: Level::Ok,
            what: what.into(),
            remedy: None,
        }
    }

    fn advice(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            level: Level::Advice,
            what: what.into(),
            remedy: Some(remedy.into()),
        }
    }

    fn problem(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            level: Level::Problem,
            what: what.into(),
            remedy: Some(remedy.into()),
        }
    }
}

/// Looks at everything. `wrong` is what `config check` finds in a configuration that can be run with.
pub(super) fn run(
    config: Result<Config, Failure>,
    wrong: &[ConfigError],
    out: &Output,
) -> Result<(), Failure> {
    let root = Path::new("/");
    let mut findings = vec![board(root)];
    findings.extend(programs());
    findings.extend(media());
    match &config {
        Ok(config) => {
            findings.extend(configuration(wrong));
            findings.push(onnxruntime(config));
            findings.push(models(config));
            findings.push(folder("state folder", &config.state_dir));
            findings.push(socket(&config.runtime_socket));
            findings.push(space(&config.state_dir));
            findings.extend(sinks(config));
            let credentials = credentials_folder();
            findings.extend(channels::look(&config.channels, credentials.as_deref()));
            findings.extend(model::look(config));
            findings.push(notes(config));
        }
        Err(failure) => findings.push(Finding::problem(
            failure.to_string(),
            "watchkeeper config check",
        )),
    }
    findings.extend(cameras(root));
    findings.push(wall_clock(root));
    findings.push(heat(root));
    report(&findings, out)
}

fn report(findings: &[Finding], out: &Output) -> Result<(), Failure> {
    for finding in findings {
        let mark = match finding.level {
            Level::Ok => "ok     ",
            Level::Advice => "advice ",
            Level::Problem => "PROBLEM",
        };
        out.both(finding, || match &finding.remedy {
            Some(remedy) => format!("{mark}  {}\n         -> {remedy}", finding.what),
            None => format!("{mark}  {}", finding.what),
        });
    }
    match findings
        .iter()
        .filter(|f| f.level == Level::Problem)
        .count()
    {
        0 => Ok(()),
        1 => Err(Failure::new(Exit::Failed, "one problem was found")),
        count => Err(Failure::new(
            Exit::Failed,
            format!("{count} problems were found"),
        )),
    }
}

fn board(root: &Path) -> Finding {
    let kind = match profile::detect(root) {
        profile::Profile::Jetson => "Jetson",
        profile::Profile::Generic => "generic",
    };
    let model = identity::read(root)
        .model
        .unwrap_or_else(|| "unnamed hardware".to_owned());
    Finding::ok(format!("board: {model} ({kind})"))
}

fn programs() -> Vec<Finding> {
    ["watchkeeper-runtime", "watchkeeper-agent"]
        .into_iter()
        .map(|name| match find(name) {
            Some(path) => Finding::ok(format!("{name}: {}", path.display())),
            None => Finding::problem(
                format!("{name} is neither beside this program nor on PATH"),
                format!("cargo build --release -p {name}"),
            ),
        })
        .collect()
}

/// One GStreamer element that is missing, as `watchkeeper-runtime --check-media` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct MissingElement {
    element: String,
    package: String,
    needed_for: String,
}

fn media() -> Vec<Finding> {
    let Some(runtime) = find("watchkeeper-runtime") else {
        return Vec::new();
    };
    let asked = Command::new(&runtime).arg("--check-media").output();
    match asked {
        Ok(output) if output.status.success() => match serde_json::from_slice(&output.stdout) {
            Ok(missing) => missing_elements(missing),
            Err(e) => vec![Finding::problem(
                format!(
                    "{} --check-media answered something else: {e}",
                    runtime.display()
                ),
                "install runtime and command of the same version",
            )],
        },
        // A library that the loader does not find is named on standard error.
        Ok(output) => vec![Finding::problem(
            format!(
                "watchkeeper-runtime does not start: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ),
            "sudo apt-get install libgstreamer1.0-0 libgstreamer-plugins-base1.0-0",
        )],
        Err(e) => vec![Finding::problem(
            format!("watchkeeper-runtime does not start: {e}"),
            format!("chmod +x {}", runtime.display()),
        )],
    }
}

fn missing_elements(missing: Vec<MissingElement>) -> Vec<Finding> {
    if missing.is_empty() {
        return vec![Finding::ok("GStreamer: every element is here")];
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

fn configuration(wrong: &[ConfigError]) -> Vec<Finding> {
    if wrong.is_empty() {
        return vec![Finding::ok("configuration: right")];
    }
    let mend = "correct it; `watchkeeper config check` says whether it is right";
    wrong
        .iter()
        .map(|w| Finding::problem(format!("configuration: {w}"), mend))
        .collect()
}

/// What makes the vectors of notes. A model is loaded and tried for it.
fn notes(config: &Config) -> Finding {
    let (_, vectors) = watchkeeper_assistant::notes::choose_embedder(&config.memory);
    let what = vectors.sentence();
    let remedy = "mend what it says, or take the folder away";
    match (vectors, &config.memory.model) {
        (EmbedderChoice::Hashed | EmbedderChoice::Model { .. }, _) => Finding::ok(what),
        (EmbedderChoice::Refused { .. }, Some(_)) => Finding::problem(what, remedy),
        (EmbedderChoice::Refused { .. }, None) => Finding::advice(what, remedy),
    }
}

fn onnxruntime(config: &Config) -> Finding {
    let variable = std::env::var_os("ORT_DYLIB_PATH").map(PathBuf::from);
    let named = config.inference.ort_library.clone().or(variable);
    let found = match named {
        Some(path) => Some(path).filter(|path| path.exists()),
        None => library("libonnxruntime.so", &config.state_dir.join("lib")),
    };
    let remedy = "set runtime.inference.ort_library to a libonnxruntime.so (it is in the Python package onnxruntime)";
    match (found, config.inference.backend) {
        (Some(path), _) => Finding::ok(format!("ONNX Runtime: {}", path.display())),
        (None, Backend::Ort) => Finding::problem(
            "ONNX Runtime is not here, and runtime.inference.backend asks for it",
            remedy,
        ),
        (None, Backend::Auto | Backend::Rten) => Finding::advice(
            "ONNX Runtime is not here; models run on the built-in engine, at about half the speed",
            remedy,
        ),
    }
}

/// A shared library in the folders where the runtime looks for it, the last of which is `own`.
fn library(name: &str, own: &Path) -> Option<PathBuf> {
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
        .chain([own.to_owned()])
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flat_map(|entries| entries.filter_map(Result::ok))
        .find(|entry| entry.file_name().to_string_lossy().starts_with(name))
        .map(|entry| entry.path())
}

fn models(config: &Config) -> Finding {
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
            format!("no model is in {shown}; the built-in motion detector watches"),
            "watchkeeper models pull yolox-nano",
        );
    }
    Finding::ok(format!("models in {shown}: {}", here.join(", ")))
}

/// The number of the user that a folder belongs to.
fn owner_of(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    path.metadata().ok().map(|m| m.uid())
}

/// Whether this user can write a folder, or the one above where it is not there yet.
fn folder(what: &str, path: &Path) -> Finding {
    use rustix::fs::{Access, access};
    let shown = path.display();
    if path.is_dir() {
        return match access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => Finding::ok(format!("{what} {shown}: writable")),
            Err(_) => match owner_of(path) {
                // Its daemons run as that user; this one only looks on.
                Some(other) if other != rustix::process::getuid().as_raw() => {
                    let whose = format!(
                        "{what} {shown} belongs to user {other}, and so must daemons that use it"
                    );
                    if how_to_start::is_installed(Path::new("/"), RUNTIME) {
                        Finding::ok(whose)
                    } else {
                        let remedy = "start them as that user, or give runtime.state_dir a folder of this user's    \
                                      (`watchkeeper run` needs none)";
                        Finding::advice(whose, remedy)
                    }
                }
                _ => Finding::problem(
                    format!("{what} {shown} can't be written by its owner, who is this user"),
                    format!("chmod u+rwx {shown}"),
                ),
            },
        };
    }
    let above = path
        .ancestors()
        .skip(1)
        .find(|p| p.is_dir())
        .unwrap_or(Path::new("/"));
    match access(above, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok(format!("{what} {shown}: not there yet, it will be made")),
        Err(_) => Finding::advice(
            format!("{what} {shown} is not there, and this user can't make it"),
            format!("sudo install -d -o $(id -un) {shown}    (`watchkeeper run` needs none)"),
        ),
    }
}

fn socket(path: &Path) -> Finding {
    use rustix::fs::{Access, access};
    let shown = path.display();
    if !path.exists() {
        return Finding::advice(
            format!("socket {shown}: no runtime is running"),
            format!(
                "{}    (`watchkeeper run` needs none)",
                how_to_start::start(Path::new("/"), RUNTIME)
            ),
        );
    }
    if access(path, Access::READ_OK | Access::WRITE_OK).is_err() {
        return Finding::problem(
            format!("socket {shown} is not open to this user"),
            how_to_start::admission(path),
        );
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Finding::ok(format!("socket {shown}: a runtime listens")),
        Err(e) => Finding::problem(
            format!("socket {shown} is there, but nobody listens: {e}"),
            how_to_start::restart(Path::new("/"), RUNTIME),
        ),
    }
}

fn space(state_dir: &Path) -> Finding {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    match storage::space(state_dir) {
        Ok(space) if space.free < LITTLE_SPACE => Finding::problem(
            format!(
                "only {:.1} GiB are free for the state folder",
                gib(space.free)
            ),
            "free some space, or lower runtime.media_bytes and runtime.journal_bytes",
        ),
        Ok(space) => Finding::ok(format!("free space: {:.1} GiB", gib(space.free))),
        Err(e) => Finding::problem(
            e.to_string(),
            "make the state folder, or set runtime.state_dir",
        ),
    }
}

/// What workflows may have done outside, where the configuration allows anything or a pipeline of it wants something.
fn sinks(config: &Config) -> Vec<Finding> {
    let sinks = &config.sinks;
    let steps = config.pipelines.iter().flat_map(|pipeline| {
        let steps = pipeline.workflow.get("steps").and_then(|s| s.as_array());
        steps.into_iter().flatten()
    });
    let is_wanted = steps
        .filter_map(|step| step.get("type")?.as_str())
        .any(|kind| {
            watchkeeper_engine::workflow::details(kind).is_some_and(|block| {
                block.summary.category == "sink" && kind.starts_with("roboflow")
            })
        });
    if sinks.hosts.is_empty() && sinks.folders.is_empty() {
        return match is_wanted {
            false => Vec::new(),
            true => vec![Finding::advice(
                "a workflow wants to send or write something, and the configuration allows nothing",
                "name the hosts and folders in [sinks], as docs/ref/configuration.md says",
            )],
        };
    }
    let hosts: Vec<String> = sinks.hosts.iter().map(ToString::to_string).collect();
    let mut findings = vec![Finding::ok(format!(
        "sinks: {} hosts may be called ({}), {} secrets",
        hosts.len(),
        hosts.join(", "),
        sinks.secrets.len()
    ))];
    findings.extend(
        sinks
            .folders
            .iter()
            .map(|path| folder("folder of sinks", path)),
    );
    findings
}

fn cameras(root: &Path) -> Vec<Finding> {
    use rustix::fs::{Access, access};
    profile::video_devices(root)
        .into_iter()
        .map(
            |path| match access(&path, Access::READ_OK | Access::WRITE_OK) {
                Ok(()) => Finding::ok(format!("camera {}: open to this user", path.display())),
                Err(_) => Finding::problem(
                    format!("camera {} is not open to this user", path.display()),
                    "sudo usermod -aG video $(id -un)    (then log in again)",
                ),
            },
        )
        .collect()
}

fn wall_clock(root: &Path) -> Finding {
    let remedy = "sudo timedatectl set-ntp true";
    match clock::state(root, jiff::Timestamp::now().as_second()) {
        clock::ClockState::Synced => Finding::ok("clock: synchronised"),
        clock::ClockState::Unknown => Finding::advice(
            "clock: nobody says that it is synchronised; events are stamped as estimated",
            remedy,
        ),
        clock::ClockState::Wrong => {
            Finding::problem("clock: the date is before this program was written", remedy)
        }
    }
}

fn heat(root: &Path) -> Finding {
    match thermal::hottest(root) {
        Some(zone) if zone.temperature.0 >= HOT => Finding::problem(
            format!(
                "temperature: {} is at {:.0} °C; the board slows down",
                zone.name, zone.temperature.0
            ),
            "see to its cooling",
        ),
        Some(zone) => Finding::ok(format!(
            "temperature: {:.0} °C ({})",
            zone.temperature.0, zone.name
        )),
        None => Finding::ok("temperature: this machine has no sensor"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_element_comes_with_the_package_that_brings_it() {
        let listed = r#"[{"element": "avdec_h264", "package": "gstreamer1.0-libav", "needed_for": "H.264"}]"#;
        let findings = missing_elements(serde_json::from_str(listed).unwrap_or_default());
        assert_eq!(findings[0].level, Level::Problem);
        assert_eq!(
            findings[0].remedy.as_deref(),
            Some("sudo apt-get install gstreamer1.0-libav")
        );
    }

    #[test]
    fn advice_is_no_failure_and_a_problem_is() {
        let out = Output::new(true);
        assert_eq!(report(&[Finding::advice("a", "b")], &out), Ok(()));
        let failure = report(&[Finding::problem("a", "b")], &out);
        assert_eq!(failure.map_err(|f| f.exit), Err(Exit::Failed));
    }

    #[test]
    fn a_folder_is_judged_by_the_nearest_one_that_exists() {
        let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
        let deep = dir.path().join("a/b");
        assert_eq!(folder("state folder", &deep).level, Level::Ok);
    }
}
