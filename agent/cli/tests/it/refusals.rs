//! Exit codes and texts of refused commands.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::support::fake_runtime::FakeRuntime;

/// Runs the command with a state folder in `dir`; returns exit code and standard error.
async fn watchkeeper(dir: &Path, socket: &Path, arguments: &[&str]) -> (i32, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_watchkeeper"))
        .arg("--socket")
        .arg(socket)
        .args(arguments)
        .env("XDG_STATE_HOME", dir)
        .stdin(Stdio::null())
        .output()
        .await
        .expect("start the command");
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    (out.status.code().unwrap_or(-1), errors)
}

#[tokio::test]
async fn coverage_of_an_unknown_camera_names_the_known_ones() {
    let dir = tempfile::tempdir().expect("dir");
    let runtime = FakeRuntime::start(dir.path());
    let file = dir.path().join("statement.json");
    let file = file.to_str().expect("a path of text");
    for more in [&[][..], &["--statement", file]] {
        let command = ["coverage", "gaet", "--since", "1h"];
        let arguments = [&command, more].concat();
        let (code, errors) = watchkeeper(dir.path(), runtime.socket(), &arguments).await;
        assert_eq!(code, 2, "{errors}");
        for part in [
            "there is no camera \"gaet\"",
            "there are: gate",
            "did you mean gate?",
        ] {
            assert!(errors.contains(part), "{part}: {errors}");
        }
    }
    assert!(!Path::new(file).exists());
}

#[tokio::test]
async fn watch_without_camera_needs_a_runtime_with_one() {
    const WATCH: [&str; 4] = ["watch", "zone-entry", "--zone", "the left half"];
    let dir = tempfile::tempdir().expect("dir");
    let nowhere = dir.path().join("nowhere.sock");
    let (code, errors) = watchkeeper(dir.path(), &nowhere, &WATCH).await;
    assert_eq!(code, 3, "{errors}");
    assert!(!errors.contains("--camera is missing"), "{errors}");

    let runtime = FakeRuntime::start(dir.path());
    let (_, errors) = watchkeeper(dir.path(), runtime.socket(), &WATCH).await;
    assert!(!errors.contains("--camera is missing"), "{errors}");

    runtime.more_sources(&["yard"]);
    let (code, errors) = watchkeeper(dir.path(), runtime.socket(), &WATCH).await;
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("--camera is missing"), "{errors}");
}
