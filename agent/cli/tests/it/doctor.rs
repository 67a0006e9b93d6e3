//! `doctor` with a runtime's program that fails to list the back ends.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `doctor` beside a program of the runtime whose `backends` ends by the shell command `end`.
fn doctor(configuration: &str, end: &str) -> String {
    // In the target folder, where the command can be linked instead of copied.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("dir");
    let command = dir.path().join("watchkeeper");
    fs::hard_link(env!("CARGO_BIN_EXE_watchkeeper"), &command).expect("a link");
    let runtime = dir.path().join("watchkeeper-runtime");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--check-media*) echo '[]';; *backends*) {end};; esac\n"
    );
    fs::write(&runtime, script).expect("a script");
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).expect("permissions");
    let file = dir.path().join("watchkeeper.toml");
    fs::write(&file, configuration).expect("a configuration");
    run(&command, &file)
}

fn run(command: &Path, file: &Path) -> String {
    let out = Command::new(command)
        .args(["doctor", "--config"])
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .expect("start the command");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn invalid_configuration_leaves_back_ends_unchecked() {
    let findings = doctor("[runtime]\nstate_dir = 5\n", "exit 2");
    assert!(findings.contains("configuration: "), "{findings}");
    let unchecked = "back ends: not checked, because the configuration has errors";
    assert!(findings.contains(unchecked), "{findings}");
    assert!(!findings.contains("try again"), "{findings}");
}

#[test]
fn crashing_library_is_named_without_advice_about_models() {
    let findings = doctor("[runtime.inference]\nthreads = 1\n", "kill -SEGV $$");
    let crash = "back ends: a library crashes when it is opened (signal 11)";
    assert!(findings.contains(crash), "{findings}");
    assert!(!findings.contains("smaller"), "{findings}");
}
