//! The architecture's rules, read from manifests and sources. A rule that only stands in a document is a wish.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

/// Crate folders of the workspace, relative to its root.
const CRATES: [&str; 17] = [
    "agent",
    "agent/llm",
    "agent/memory",
    "agent/plain",
    "board",
    "edge-runtime",
    "edge-runtime/shared/config",
    "edge-runtime/shared/contract",
    "edge-runtime/demo",
    "edge-runtime/detect",
    "edge-runtime/engine",
    "edge-runtime/shared/http",
    "edge-runtime/shared/store",
    "edge-runtime/vision",
    "models",
    "tests",
    "tests/scripted-model",
];

fn dependencies(krate: &str) -> Result<BTreeSet<String>, Box<dyn std::error::Error>> {
    let text = fs::read_to_string(root().join(krate).join("Cargo.toml"))?;
    let manifest: toml::Table = text.parse()?;
    Ok(manifest
        .get("dependencies")
        .and_then(toml::Value::as_table)
        .map(|table| table.keys().cloned().collect())
        .unwrap_or_default())
}

fn sources(krate: &str) -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(dir) else {
            return;
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                // Unit tests that grew into files of their own follow the rules of tests.
                if !path.ends_with("tests") {
                    walk(&path, found);
                }
            } else if path.extension().is_some_and(|e| e == "rs")
                && !path.ends_with("tests.rs")
                && !path.ends_with("testing.rs")
            {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(krate).join("src"), &mut found);
    found
}

/// The part of a file before its unit tests, which stand last: `mod tests` after its attributes. Other test-only items may
/// stand anywhere and end nothing.
fn production(text: &str) -> &str {
    let mut at = 0;
    let mut attributes = None;
    for line in text.split_inclusive('\n') {
        let code = line.trim();
        if code.starts_with("#[cfg(test)]") {
            attributes = Some(at);
        } else if let Some(start) = attributes
            && (code.starts_with("mod tests") || code.starts_with("pub(crate) mod testing"))
        {
            return text.get(..start).unwrap_or(text);
        } else if !code.starts_with("#[") && !code.ends_with(")]") {
            attributes = None;
        }
        at += line.len();
    }
    text
}

#[test]
fn only_the_module_of_unit_tests_ends_what_is_checked() {
    let text = "a\n#[cfg(test)]\nmod sim;\nb\n#[cfg(test)]\n#[allow(x)]\nmod tests {\nc\n}\n";
    assert_eq!(production(text), "a\n#[cfg(test)]\nmod sim;\nb\n");
}

fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !line.starts_with("//")
}

#[test]
fn arrows_between_crates_go_one_way() -> Outcome {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("board", &[][..]),
        ("models", &["contract"][..]),
        ("edge-runtime/shared/contract", &[][..]),
        ("edge-runtime/shared/store", &[][..]),
        ("edge-runtime/shared/config", &["contract"][..]),
        ("edge-runtime/vision", &["contract"][..]),
        ("edge-runtime/demo", &["config", "vision"][..]),
        ("edge-runtime/detect", &["models", "vision"][..]),
        ("edge-runtime/engine", &["contract", "vision"][..]),
        ("edge-runtime/shared/http", &["config", "contract"][..]),
        (
            "edge-runtime",
            &[
                "board", "config", "contract", "demo", "detect", "engine", "http", "models",
                "store", "vision",
            ][..],
        ),
        // The engine is sans-IO: the command checks workflows with it when no runtime is there.
        (
            "agent",
            &[
                "board", "config", "contract", "engine", "http", "llm", "memory", "models",
                "plain", "store", "vision",
            ][..],
        ),
        ("agent/llm", &["contract", "store"][..]),
        ("agent/memory", &["contract"][..]),
        ("agent/plain", &["contract"][..]),
        // It is what the provider is: it knows the protocol a second time, and nothing of ours.
        ("tests/scripted-model", &[][..]),
    ]);
    for (krate, may) in allowed {
        for dependency in dependencies(krate)? {
            if let Some(ours) = dependency.strip_prefix("watchkeeper-") {
                assert!(
                    may.contains(&ours),
                    "{krate} must not depend on watchkeeper-{ours}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn native_and_network_libraries_stay_where_they_belong() -> Outcome {
    let only: [(&str, &[&str]); 13] = [
        ("gstreamer", &["edge-runtime", "tests"]),
        ("gstreamer-app", &["edge-runtime"]),
        ("gstreamer-video", &["edge-runtime"]),
        ("rten", &["agent/memory", "edge-runtime/detect"]),
        ("ort", &["edge-runtime/detect"]),
        (
            "axum",
            &["agent", "edge-runtime", "edge-runtime/shared/http"],
        ),
        ("rumqttc", &["agent"]),
        ("rumqttd", &["agent"]),
        ("reqwest", &["agent", "agent/llm", "tests"]),
        ("lettre", &["agent"]),
        ("rusty-s3", &["agent"]),
        ("redb", &["edge-runtime/shared/store"]),
        ("figment", &["edge-runtime/shared/config"]),
    ];
    for krate in CRATES {
        let has = dependencies(krate)?;
        for (library, crates) in only {
            assert!(
                !has.contains(library) || crates.contains(&krate),
                "{krate} depends on {library}, which belongs to {crates:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn every_file_opens_with_what_it_owns() -> Outcome {
    for krate in CRATES {
        for file in sources(krate) {
            let text = fs::read_to_string(&file)?;
            assert!(
                text.starts_with("//!"),
                "{} has no module doc",
                file.display()
            );
        }
    }
    Ok(())
}

#[test]
fn the_brain_reads_no_clock_opens_nothing_and_draws_no_randomness() -> Outcome {
    const FORBIDDEN: [&str; 9] = [
        "Instant::now",
        "SystemTime::now",
        "Timestamp::now",
        "Zoned::now",
        "std::fs",
        "std::net",
        "std::thread",
        "fastrand::",
        "HashMap",
    ];
    // Of the provider layer, all but the shell around it and the file that the key is read from; of memory and the models of its sentences, all but their folders; of the assistant,
    // all but its two files; of the second opinion, all but who asks; of the sinks, their queue.
    let shell = [
        "agent/llm/src/client",
        "agent/llm/src/key.rs",
        "agent/memory/src/folder",
        "agent/memory/src/neural/folder.rs",
        "agent/src/assistant/trace.rs",
        "agent/src/assistant/waiting.rs",
        "agent/src/opinion/asker.rs",
    ]
    .map(|part| root().join(part));
    let brains = [
        "edge-runtime/demo",
        "edge-runtime/engine",
        "edge-runtime/vision",
        "agent/llm",
        "agent/memory",
        "agent/plain",
    ]
    .map(sources)
    .concat();
    let folders = [
        "agent/src/assistant",
        "agent/src/opinion",
        "agent/src/sinks/queue.rs",
    ]
    .map(|part| root().join(part));
    let mut parts = sources("agent");
    for folder in &folders {
        let is_there = parts.iter().any(|file| file.starts_with(folder));
        assert!(is_there, "{} has moved", folder.display());
    }
    parts.retain(|file| folders.iter().any(|folder| file.starts_with(folder)));
    let brains = brains
        .into_iter()
        .chain(parts)
        .filter(|file| !shell.iter().any(|part| file.starts_with(part)));
    for file in brains {
        let text = fs::read_to_string(&file)?;
        for (number, line) in production(&text).lines().enumerate() {
            for word in FORBIDDEN {
                // A seeded generator is data; the global one is not.
                let seeded = word == "fastrand::" && line.contains("fastrand::Rng");
                assert!(
                    seeded || !is_code(line) || !line.contains(word),
                    "{}:{}: {word} in a sans-IO crate",
                    file.display(),
                    number + 1
                );
            }
        }
    }
    Ok(())
}

#[test]
fn no_channel_is_unbounded() -> Outcome {
    const FORBIDDEN: [&str; 3] = ["unbounded_channel", "mpsc::channel()", "unbounded()"];
    for krate in CRATES {
        for file in sources(krate) {
            let text = fs::read_to_string(&file)?;
            for (number, line) in production(&text).lines().enumerate() {
                for word in FORBIDDEN {
                    assert!(
                        !is_code(line) || !line.contains(word),
                        "{}:{}: {word}; every queue has a size",
                        file.display(),
                        number + 1
                    );
                }
            }
        }
    }
    Ok(())
}

#[test]
fn only_board_names_the_kernels_files() -> Outcome {
    for krate in CRATES {
        if krate == "board" {
            continue;
        }
        for file in sources(krate) {
            let text = fs::read_to_string(&file)?;
            for (number, line) in production(&text).lines().enumerate() {
                assert!(
                    !is_code(line) || !line.contains("\"/sys/"),
                    "{}:{}: a path below /sys outside board",
                    file.display(),
                    number + 1
                );
            }
        }
    }
    Ok(())
}

#[test]
fn unsafe_code_is_allowed_only_in_named_shells() -> Outcome {
    const SHELLS: [&str; 2] = ["board/src/kernel.rs", "edge-runtime/src/main.rs"];
    for krate in CRATES {
        for file in sources(krate) {
            let text = fs::read_to_string(&file)?;
            let has = text.lines().any(|l| {
                is_code(l) && (l.contains("unsafe {") || l.contains("allow(unsafe_code)"))
            });
            let name = file.strip_prefix(root())?.display().to_string();
            assert!(
                !has || SHELLS.contains(&name.as_str()),
                "{name} holds unsafe code"
            );
        }
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a skip must be loud")]
#[test]
fn systemd_accepts_the_units() -> Outcome {
    let Ok(version) = std::process::Command::new("systemd-analyze")
        .arg("--version")
        .output()
    else {
        eprintln!("SKIPPED: systemd_accepts_the_units (no systemd-analyze here)");
        return Ok(());
    };
    assert!(version.status.success());
    // `verify` insists that the programs exist: check copies that start something which does.
    let dir = tempfile::tempdir()?;
    for name in ["watchkeeper-runtime.service", "watchkeeper-agent.service"] {
        let text = fs::read_to_string(root().join("systemd").join(name))?;
        assert!(
            text.contains("StartLimitIntervalSec=0"),
            "{name}: a systemd that does not know RestartSteps would give up after five failures"
        );
        let text = text
            .replace("/usr/bin/watchkeeper-runtime", "/bin/true")
            .replace("/usr/bin/watchkeeper-agent", "/bin/true");
        fs::write(dir.path().join(name), text)?;
    }
    for name in ["watchkeeper-runtime.service", "watchkeeper-agent.service"] {
        let out = std::process::Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(dir.path().join(name))
            .output()?;
        let said = String::from_utf8_lossy(&out.stderr);
        // Keys that this systemd is too old for are said but not refused; a key that no systemd knows is a typo.
        let complaints: Vec<&str> = said
            .lines()
            .filter(|l| {
                l.contains("watchkeeper-")
                    && !l.contains("RestartSteps")
                    && !l.contains("RestartMaxDelaySec")
            })
            .collect();
        assert!(out.status.success(), "{name}: {said}");
        assert!(complaints.is_empty(), "{name}: {complaints:?}");
    }
    Ok(())
}
