//! systemd takes the units as they are.

use std::fs;
use std::process::Command;

use crate::workspace::root;

const UNITS: [&str; 2] = ["watchkeeper-runtime.service", "watchkeeper-agent.service"];

/// Finds the complaints of `systemd-analyze verify` that concern our units.
///
/// A key that only this systemd is too old for is not a complaint.
fn complaints(output: &str) -> Vec<&str> {
    output
        .lines()
        .filter(|line| line.contains("watchkeeper-"))
        .filter(|line| !line.contains("RestartSteps") && !line.contains("RestartMaxDelaySec"))
        .collect()
}

#[expect(clippy::print_stderr, reason = "a skip must be loud")]
#[test]
fn systemd_accepts_the_units() -> crate::Outcome {
    let Ok(version) = Command::new("systemd-analyze").arg("--version").output() else {
        eprintln!("SKIPPED: systemd_accepts_the_units (no systemd-analyze here)");
        return Ok(());
    };
    assert!(version.status.success());
    // `verify` insists that the programs exist: check copies that start something which does.
    let folder = tempfile::tempdir()?;
    for name in UNITS {
        let text = fs::read_to_string(root().join("systemd").join(name))?;
        assert!(
            text.contains("StartLimitIntervalSec=0"),
            "{name}: a systemd that does not know RestartSteps would give up after five failures"
        );
        let text = text
            .replace("/usr/bin/watchkeeper-runtime", "/bin/true")
            .replace("/usr/bin/watchkeeper-agent", "/bin/true");
        fs::write(folder.path().join(name), text)?;
    }
    for name in UNITS {
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(folder.path().join(name))
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
        assert!(complaints(&said).is_empty(), "{name}: {said}");
    }
    Ok(())
}

#[test]
fn an_unknown_key_is_a_complaint() {
    let output = "watchkeeper-agent.service:3: Unknown key 'Restrat'\n\
                  watchkeeper-agent.service:4: Unknown key 'RestartSteps'\n";
    assert_eq!(complaints(output).len(), 1);
}
