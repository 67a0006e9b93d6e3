//! `watchkeeper doctor`: checks this machine and prints a remedy for each finding.
//!
//! - The exit code is 1 if any [`Finding`] is a problem.
//! - `watchkeeper-board` reads the hardware, `watchkeeper-runtime --check-media` checks GStreamer.
//! - Nothing is sent to a channel or an LLM.

mod channels;
mod finding;
mod llm;
mod tcp_probe;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use watchkeeper_board::{clock, identity, profile, storage, thermal};
use watchkeeper_config::{Backend, CommandAccess, Config, ConfigError, MqttConfig};
use watchkeeper_models::Zoo;

use super::agent_health::AgentHealth;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::run::find;
use finding::{Finding, Level};
use watchkeeper_agent::connectors::secrets::credentials_folder;
use watchkeeper_agent::program::NAME as AGENT;
use watchkeeper_assistant::notes::EmbedderChoice;
use watchkeeper_client::how_to_start;

const RUNTIME: &str = "watchkeeper-runtime";

/// Free bytes below which journal and media are at risk.
const MIN_FREE_BYTES: u64 = 1 << 30;
/// Degrees Celsius at which boards throttle; NVIDIA states 85 to 99 for Orin's zones.
const THROTTLE_CELSIUS: f64 = 85.0;

/// Runs all checks. `warnings` are the findings of `config check` with which the daemons still
/// start.
pub(super) fn run(
    config: Result<Config, Failure>,
    warnings: &[ConfigError],
    out: &Output,
) -> Result<(), Failure> {
    let root = Path::new("/");
    let mut findings = vec![board(root)];
    findings.extend(programs());
    findings.extend(media());
    match &config {
        Ok(config) => {
            findings.extend(configuration(warnings));
            findings.push(onnxruntime(config));
            findings.push(models(config));
            findings.push(folder("state folder", &config.state_dir));
            findings.push(socket(&config.runtime_socket));
            findings.extend(agent(config));
            findings.push(space(&config.state_dir));
            findings.extend(sinks(config));
            findings.extend(config.mqtt.as_ref().map(broker));
            findings.extend(config.mqtt.as_ref().map(commands));
            let credentials = credentials_folder();
            findings.extend(channels::check(&config.channels, credentials.as_deref()));
            findings.extend(llm::check(config));
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
            Level::Unknown => "unknown",
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
        1 => Err(Failure::new(Exit::Failed, "1 problem found")),
        count => Err(Failure::new(
            Exit::Failed,
            format!("{count} problems found"),
        )),
    }
}

fn board(root: &Path) -> Finding {
    let kind = match profile::detect(root) {
        profile::Profile::Jetson => "Jetson",
        profile::Profile::Generic => "generic",
    };
    match identity::read(root).model {
        Some(model) => Finding::ok(format!("board: {model} ({kind})")),
        None => Finding::ok(format!(
            "board: not recognised, settings of a {kind} machine"
        )),
    }
}

fn programs() -> Vec<Finding> {
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

fn media() -> Vec<Finding> {
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

fn configuration(warnings: &[ConfigError]) -> Vec<Finding> {
    if warnings.is_empty() {
        return vec![Finding::ok("configuration: valid")];
    }
    let remedy = "edit the file, then run: watchkeeper config check";
    warnings
        .iter()
        .map(|warning| Finding::problem(format!("configuration: {warning}"), remedy))
        .collect()
}

/// Checks the embedder of notes; loads its model, if one is configured.
fn notes(config: &Config) -> Finding {
    let (_, embedder) = watchkeeper_assistant::notes::choose_embedder(&config.memory);
    match embedder {
        EmbedderChoice::Hashed => Finding::ok("note search: built-in synonyms"),
        EmbedderChoice::Model { folder, .. } => Finding::ok(format!(
            "note search: sentence embeddings of {}",
            folder.display()
        )),
        EmbedderChoice::Refused { folder, why } => {
            let what = format!(
                "note search: built-in synonyms only; the model in {} failed: {why}",
                folder.display()
            );
            let remedy = format!("repair or remove {}", folder.display());
            match config.memory.model {
                Some(_) => Finding::problem(what, remedy),
                None => Finding::advice(what, remedy),
            }
        }
    }
}

fn onnxruntime(config: &Config) -> Finding {
    let variable = std::env::var_os("ORT_DYLIB_PATH").map(PathBuf::from);
    let named = config.inference.ort_library.clone().or(variable);
    let found = match named {
        Some(path) => Some(path).filter(|path| path.exists()),
        None => library("libonnxruntime.so", &config.state_dir.join("lib")),
    };
    let remedy = "set runtime.inference.ort_library to the libonnxruntime.so of the Python package \
                  onnxruntime";
    match (found, config.inference.backend) {
        (Some(path), _) => Finding::ok(format!("ONNX Runtime: {}", path.display())),
        (None, Backend::Ort) => Finding::problem(
            "ONNX Runtime: not installed, but runtime.inference.backend is \"ort\"",
            remedy,
        ),
        (None, Backend::Auto | Backend::Rten) => Finding::advice(
            "ONNX Runtime: not installed; models run on the built-in engine, at about half the speed",
            remedy,
        ),
    }
}

/// Finds a shared library in the runtime's search order; `own` is its last folder.
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
            format!("models: none in {shown}; the built-in motion detector is used"),
            "watchkeeper models pull yolox-nano",
        );
    }
    Finding::ok(format!("models in {shown}: {}", here.join(", ")))
}

/// Returns the user id of a folder's owner.
fn owner_of(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    path.metadata().ok().map(|m| m.uid())
}

/// Checks that this user can write a folder or create it in its nearest existing parent.
fn folder(what: &str, path: &Path) -> Finding {
    use rustix::fs::{Access, access};
    let shown = path.display();
    if path.is_dir() {
        let is_writable =
            access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_ok();
        return if is_writable {
            Finding::ok(format!("{what} {shown}: writable"))
        } else {
            unwritable_folder(what, path)
        };
    }
    let above = path
        .ancestors()
        .skip(1)
        .find(|p| p.is_dir())
        .unwrap_or(Path::new("/"));
    match access(above, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok(format!("{what} {shown}: created at the first start")),
        Err(_) => Finding::advice(
            format!("{what} {shown}: missing, and this user can't create it"),
            format!("sudo install -d -o $(id -un) {shown}    (not needed for `watchkeeper run`)"),
        ),
    }
}

fn unwritable_folder(what: &str, path: &Path) -> Finding {
    let shown = path.display();
    match owner_of(path) {
        // The daemons run as that user; this user only reads.
        Some(other) if other != rustix::process::getuid().as_raw() => {
            let what = format!("{what} {shown}: owned by user {other}, as the daemons must be");
            if how_to_start::is_installed(Path::new("/"), RUNTIME) {
                Finding::ok(what)
            } else {
                let remedy = "start the daemons as that user, or set runtime.state_dir to a folder \
                              of yours    (not needed for `watchkeeper run`)";
                Finding::advice(what, remedy)
            }
        }
        _ => Finding::problem(
            format!("{what} {shown}: not writable, although this user owns it"),
            format!("chmod u+rwx {shown}"),
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
                "{}    (not needed for `watchkeeper run`)",
                how_to_start::start(Path::new("/"), RUNTIME)
            ),
        );
    }
    if access(path, Access::READ_OK | Access::WRITE_OK).is_err() {
        return Finding::problem(
            format!("socket {shown}: permission denied"),
            how_to_start::admission(path),
        );
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Finding::ok(format!("socket {shown}: the runtime is listening")),
        Err(e) => Finding::problem(
            format!("socket {shown}: the runtime does not accept connections: {e}"),
            how_to_start::restart(Path::new("/"), RUNTIME),
        ),
    }
}

fn space(state_dir: &Path) -> Finding {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    match storage::space(state_dir) {
        Ok(space) if space.free < MIN_FREE_BYTES => Finding::problem(
            format!(
                "disk: only {:.1} GiB free for the state folder",
                gib(space.free)
            ),
            "free some space, or lower runtime.media_bytes and runtime.journal_bytes",
        ),
        Ok(space) => Finding::ok(format!("disk: {:.1} GiB free", gib(space.free))),
        Err(e) => Finding::problem(
            format!("disk: {e}"),
            "create the state folder, or set runtime.state_dir",
        ),
    }
}

/// Checks `[sinks]`, if the configuration allows any effect or a configured pipeline needs one.
fn sinks(config: &Config) -> Vec<Finding> {
    let sinks = &config.sinks;
    let steps = config.pipelines.iter().flat_map(|pipeline| {
        let steps = pipeline.workflow.get("steps").and_then(|s| s.as_array());
        steps.into_iter().flatten()
    });
    let is_needed = steps
        .filter_map(|step| step.get("type")?.as_str())
        .any(|kind| {
            watchkeeper_engine::workflow::details(kind).is_some_and(|block| {
                block.summary.category == "sink" && kind.starts_with("roboflow")
            })
        });
    if sinks.hosts.is_empty() && sinks.folders.is_empty() {
        return match is_needed {
            false => Vec::new(),
            true => vec![Finding::advice(
                "sinks: a workflow sends or writes data, but [sinks] allows nothing",
                "list the hosts and folders in [sinks]; see docs/ref/configuration.md",
            )],
        };
    }
    let hosts: Vec<String> = sinks.hosts.iter().map(ToString::to_string).collect();
    let mut findings = vec![Finding::ok(format!(
        "sinks: {} hosts allowed ({}), {} secrets",
        hosts.len(),
        hosts.join(", "),
        sinks.secrets.len()
    ))];
    findings.extend(sinks.folders.iter().map(|path| folder("sink folder", path)));
    findings
}

/// Checks that the broker accepts connections; login and TLS are left to the agent.
fn broker(mqtt: &MqttConfig) -> Finding {
    match tcp_probe::probe_host(&mqtt.host, mqtt.port) {
        Ok(name) => Finding::ok(format!("broker: {name} is reachable")),
        Err(why) => Finding::problem(
            format!("broker: {why}"),
            "check mqtt.host, mqtt.port and the firewall; events are kept until it answers",
        ),
    }
}

/// Asks the agent for its problems: broker, channels, outbox, language model.
fn agent(config: &Config) -> Vec<Finding> {
    if !config.runtime_socket.exists() {
        // Nothing runs here.
        return Vec::new();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let health = match runtime {
        Ok(runtime) => runtime.block_on(AgentHealth::ask(config)),
        Err(error) => {
            let what = format!("agent: can't be asked: {error}");
            return vec![Finding::problem(what, "run the command again")];
        }
    };
    let problems = health.problems();
    if problems.is_empty() && health.answers() {
        return vec![Finding::ok("agent: running, without a problem")];
    }
    let finding = |(what, remedy): (String, Option<String>)| {
        // A reason of the agent names its remedy itself.
        let remedy = remedy.unwrap_or_else(|| "see the agent's log".to_owned());
        Finding::problem(format!("agent: {what}"), remedy)
    };
    problems.into_iter().map(finding).collect()
}

/// Tells who can command the box over MQTT.
fn commands(mqtt: &MqttConfig) -> Finding {
    let what = format!("commands over MQTT: {}", mqtt.describe_commands());
    match mqtt.commands == CommandAccess::Off || mqtt.has_login() {
        true => Finding::ok(what),
        false => Finding::advice(
            what,
            "give the broker logins and ACLs (docs/guide/fleet.md), or set mqtt.commands = \"off\"",
        ),
    }
}

fn cameras(root: &Path) -> Vec<Finding> {
    use rustix::fs::{Access, access};
    profile::video_devices(root)
        .into_iter()
        .map(
            |path| match access(&path, Access::READ_OK | Access::WRITE_OK) {
                Ok(()) => Finding::ok(format!("camera {}: accessible", path.display())),
                Err(_) => Finding::problem(
                    format!("camera {}: permission denied", path.display()),
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
            "clock: not synchronised (no NTP); event times may be off",
            remedy,
        ),
        clock::ClockState::Wrong => Finding::problem(
            "clock: wrong, the date is before this program was written",
            remedy,
        ),
    }
}

fn heat(root: &Path) -> Finding {
    match thermal::hottest(root) {
        Some(zone) if zone.temperature.0 >= THROTTLE_CELSIUS => Finding::problem(
            format!(
                "temperature: {:.0} °C ({}); the board throttles",
                zone.temperature.0, zone.name
            ),
            "improve the cooling of the box",
        ),
        Some(zone) => Finding::ok(format!(
            "temperature: {:.0} °C ({})",
            zone.temperature.0, zone.name
        )),
        None => Finding::unknown("temperature: the board has no sensor that can be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn only_problems_fail_the_command() {
        let out = Output::new(true);
        assert_eq!(report(&[Finding::advice("a", "b")], &out), Ok(()));
        let failure = report(&[Finding::problem("a", "b")], &out);
        assert_eq!(failure.map_err(|f| f.exit), Err(Exit::Failed));
    }

    #[test]
    fn missing_folder_is_ok_if_it_can_be_created() {
        let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
        let deep = dir.path().join("a/b");
        assert_eq!(folder("state folder", &deep).level, Level::Ok);
    }
}
