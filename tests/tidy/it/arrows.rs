//! Arrows between crates go one way, and native and network libraries stay where they belong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::workspace::{Package, packages, read};

/// Allowed dependencies of the product code of each crate; ARCHITECTURE.md shows the same.
const ARROWS: [(&str, &[&str]); 31] = [
    ("contract", &[]),
    ("board", &["contract"]),
    ("store", &[]),
    ("bundle", &["contract", "store"]),
    ("config", &["contract"]),
    ("http", &["config", "contract"]),
    ("outgoing", &[]),
    ("models", &["board", "contract"]),
    ("trt", &[]),
    ("vision", &["contract"]),
    ("demo", &["config", "vision"]),
    ("detect", &["models", "trt", "vision"]),
    ("engine", &["contract", "vision"]),
    (
        "runtime",
        &[
            "board", "bundle", "config", "contract", "demo", "detect", "engine", "http", "models",
            "store", "vision",
        ],
    ),
    ("client", &["board", "contract", "outgoing"]),
    (
        "agent",
        &[
            "archive",
            "assistant",
            "board",
            "bundle",
            "client",
            "config",
            "contract",
            "engine",
            "evidence",
            "http",
            "jobs",
            "llm",
            "memory",
            "models",
            "outgoing",
            "pictures",
            "plain",
            "store",
        ],
    ),
    (
        "evidence",
        &["config", "contract", "outgoing", "store", "vision"],
    ),
    // The engine is sans-IO: a proposal is checked with it before a person is asked.
    (
        "assistant",
        &[
            "archive", "client", "config", "contract", "engine", "http", "jobs", "llm", "memory",
            "models", "plain", "store", "vision",
        ],
    ),
    (
        "cli",
        &[
            "agent",
            "archive",
            "assistant",
            "board",
            "bundle",
            "client",
            "config",
            "contract",
            "engine",
            "evidence",
            "http",
            "jobs",
            "llm",
            "memory",
            "models",
            "outgoing",
            "pictures",
            "plain",
            "store",
        ],
    ),
    // Pictures for a model are decoded within the same bounds as all others.
    ("llm", &["contract", "outgoing", "store", "vision"]),
    ("memory", &["contract"]),
    ("pictures", &["vision"]),
    ("english", &[]),
    ("jobs", &["english", "pictures", "store"]),
    ("archive", &["english", "outgoing", "pictures", "store"]),
    ("plain", &["contract", "engine", "english"]),
    // Stands in for a provider, so it shares no code with the client.
    ("scripted-model", &[]),
    // C++ of the tests opens it.
    ("fake-trt", &[]),
    ("tidy", &[]),
    // The testbed starts both daemons.
    (
        "tests",
        &[
            "agent",
            "assistant",
            "bundle",
            "cli",
            "client",
            "config",
            "contract",
            "demo",
            "detect",
            "engine",
            "evidence",
            "jobs",
            "llm",
            "memory",
            "models",
            "outgoing",
            "plain",
            "runtime",
            "store",
            "vision",
        ],
    ),
    ("fuzz", &["tests"]),
];

/// The crates that may use a library; no other may.
const LIBRARIES: [(&str, &[&str]); 15] = [
    ("gstreamer", &["runtime", "tests"]),
    ("gstreamer-app", &["runtime"]),
    ("gstreamer-video", &["runtime"]),
    ("rten", &["memory", "detect", "fake-trt"]),
    ("ort", &["detect"]),
    ("libloading", &["trt"]),
    ("axum", &["agent", "runtime", "http"]),
    ("rumqttc-v4-next", &["agent", "tests"]),
    (
        "reqwest",
        &[
            "agent", "archive", "cli", "client", "evidence", "llm", "outgoing", "tests",
        ],
    ),
    ("lettre", &["agent"]),
    ("async-memcached", &["archive"]),
    ("rusty-s3", &["agent", "archive"]),
    ("redb", &["store"]),
    ("rusqlite", &["archive", "evidence"]),
    ("figment", &["config"]),
];

fn wrong_arrows(packages: &[Package], arrows: &[(&str, &[&str])]) -> Vec<String> {
    let mut wrong = Vec::new();
    for Package {
        name, dependencies, ..
    } in packages
    {
        let Some((_, may)) = arrows.iter().find(|(krate, _)| krate == name) else {
            wrong.push(format!(
                "say in ARROWS of tests/tidy/it/arrows.rs what {name} may depend on"
            ));
            continue;
        };
        let ours = dependencies.iter().filter(|dependency| dependency.is_ours);
        for dependency in ours.filter(|dependency| !may.contains(&dependency.name.as_str())) {
            wrong.push(format!("{name} must not depend on {}", dependency.name));
        }
    }
    wrong
}

fn wrong_libraries(packages: &[Package], libraries: &[(&str, &[&str])]) -> Vec<String> {
    let mut wrong = Vec::new();
    for Package {
        name, dependencies, ..
    } in packages
    {
        for dependency in dependencies {
            let library = libraries
                .iter()
                .find(|(library, _)| *library == dependency.name);
            if let Some((library, crates)) = library
                && !crates.contains(&name.as_str())
            {
                wrong.push(format!(
                    "{name} uses {library}, which belongs to {crates:?}"
                ));
            }
        }
    }
    wrong
}

#[test]
fn arrows_between_crates_go_one_way() -> crate::Outcome {
    let wrong = wrong_arrows(&packages()?, &ARROWS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Reads the arrows of a document: indented lines such as `    a, b → c, d     e → f`.
fn read_arrows(text: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut from: Vec<&str> = Vec::new();
    for part in text
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .flat_map(|line| line.split("   "))
    {
        let to = match part.split_once('→') {
            Some((names, to)) => {
                from = split_names(names).collect();
                to
            }
            None => part,
        };
        for name in &from {
            let targets = arrows.entry(name).or_default();
            targets.extend(split_names(to).filter(|to| *to != "nothing of ours"));
        }
    }
    arrows
}

fn split_names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

#[test]
fn architecture_shows_the_arrows() -> crate::Outcome {
    const NOT_SHOWN: [&str; 5] = ["fake-trt", "fuzz", "scripted-model", "tests", "tidy"];
    let text = read(Path::new("ARCHITECTURE.md"))?;
    let section = text
        .split_once("\n## Crates\n")
        .map_or("", |(_, rest)| rest);
    let section = section
        .split_once("\n## ")
        .map_or("", |(section, _)| section);
    let shown = read_arrows(section);
    let allowed: BTreeMap<&str, BTreeSet<&str>> = ARROWS
        .iter()
        .filter(|(name, _)| !NOT_SHOWN.contains(name))
        .map(|(name, may)| (*name, may.iter().copied().collect()))
        .collect();
    assert_eq!(shown, allowed);
    Ok(())
}

#[test]
fn arrows_are_read_over_lines_and_from_several_crates() {
    let arrows = read_arrows("text → x\n    a, b → c,\n      d     e → nothing of ours\n");
    let arrows: Vec<_> = arrows.iter().map(|(k, v)| (*k, v.len())).collect();
    assert_eq!(arrows, [("a", 2), ("b", 2), ("e", 0)]);
}

#[test]
fn native_and_network_libraries_stay_where_they_belong() -> crate::Outcome {
    let wrong = wrong_libraries(&packages()?, &LIBRARIES);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[cfg(test)]
fn package(name: &str, ours: &str, other: &str) -> Package {
    let dependency = |name: &str, is_ours| crate::workspace::Dependency {
        name: name.to_owned(),
        is_ours,
    };
    Package {
        name: name.to_owned(),
        folder: name.into(),
        dependencies: vec![dependency(ours, true), dependency(other, false)],
        targets: Vec::new(),
    }
}

#[test]
fn an_arrow_the_other_way_is_refused() {
    let packages = [package("a", "b", "x"), package("b", "a", "x")];
    let wrong = wrong_arrows(&packages, &[("a", &["b"]), ("b", &[])]);
    assert_eq!(wrong, ["b must not depend on a"]);
}

#[test]
fn a_crate_without_an_entry_is_refused() {
    let wrong = wrong_arrows(&[package("a", "b", "x")], &[]);
    assert_eq!(
        wrong,
        ["say in ARROWS of tests/tidy/it/arrows.rs what a may depend on"]
    );
}

#[test]
fn a_library_in_a_foreign_crate_is_refused() {
    let wrong = wrong_libraries(&[package("a", "b", "x")], &[("x", &["b"])]);
    assert_eq!(wrong, ["a uses x, which belongs to [\"b\"]"]);
}
