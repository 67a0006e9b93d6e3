//! Crates and files of the workspace.
//!
//! - Crates come from `cargo metadata`: one that is added falls under every rule at once.
//! - Paths are relative to the root of the workspace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Folders without sources of ours.
const SKIPPED: [&str; 3] = ["target", ".git", "node_modules"];

/// A crate of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    /// Name without `watchkeeper-`.
    pub(crate) name: String,
    /// Folder of the manifest.
    pub(crate) folder: PathBuf,
    /// Names of the crates that its product code depends on, ours without `watchkeeper-`.
    pub(crate) dependencies: Vec<Dependency>,
    /// Roots of its libraries and programs.
    pub(crate) targets: Vec<PathBuf>,
}

/// A crate that another depends on.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) is_ours: bool,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

/// Reads the crates of the workspace from `cargo metadata`.
pub(crate) fn packages() -> Result<Vec<Package>, Box<dyn std::error::Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let mut packages: Vec<Package> = array(&metadata, "packages").map(package).collect();
    packages.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(packages)
}

fn array<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn package(value: &Value) -> Package {
    let manifest = relative(Path::new(text(value, "manifest_path")));
    let dependencies = array(value, "dependencies")
        .filter(|dependency| dependency.get("kind").is_none_or(Value::is_null))
        .map(|dependency| {
            let name = text(dependency, "name");
            let ours = name.strip_prefix("watchkeeper-");
            Dependency {
                name: ours.unwrap_or(name).to_owned(),
                is_ours: ours.is_some(),
            }
        })
        .collect();
    let targets = array(value, "targets")
        .filter(|target| {
            array(target, "kind").any(|kind| matches!(kind.as_str(), Some("lib" | "bin")))
        })
        .map(|target| relative(Path::new(text(target, "src_path"))))
        .collect();
    Package {
        name: text(value, "name")
            .trim_start_matches("watchkeeper-")
            .to_owned(),
        folder: manifest.parent().map(Path::to_path_buf).unwrap_or_default(),
        dependencies,
        targets,
    }
}

fn relative(path: &Path) -> PathBuf {
    path.strip_prefix(root()).unwrap_or(path).to_path_buf()
}

/// Reads a file of the workspace.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|e| format!("{}: {e}", path.display()))
}

/// Lists all files below `folder` that git would not ignore, sorted.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    found
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_symlink() {
            continue;
        }
        if path.is_file() {
            found.push(relative(&path));
        } else if !SKIPPED.iter().any(|name| path.ends_with(name)) {
            walk(&path, found);
        }
    }
}

/// Lists the product code of a crate: the files below `src` that are not unit tests.
pub(crate) fn sources(package: &Package) -> Vec<PathBuf> {
    files(&package.folder.join("src"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .filter(|path| !path.ends_with("tests.rs") && !path.ends_with("testing.rs"))
        .filter(|path| !path.iter().any(|part| part == "tests") || path.starts_with("tests"))
        .collect()
}

#[test]
fn packages_hold_this_crate_with_no_product_dependency() -> crate::Outcome {
    let packages = packages()?;
    let tidy = packages.iter().find(|package| package.name == "tidy");
    let tidy = tidy.ok_or("this crate is not in the workspace")?;
    assert_eq!(tidy.folder, Path::new("tests/tidy"));
    assert!(tidy.dependencies.is_empty());
    Ok(())
}
