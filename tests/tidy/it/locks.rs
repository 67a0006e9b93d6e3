//! The fuzz targets, a workspace of their own, are built from the crates that `./test` tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::findings::{Finding, check};
use crate::workspace::read;

/// Versions of the crates in a lock file, by name.
fn versions(lock: &str) -> Result<BTreeMap<String, BTreeSet<String>>, toml::de::Error> {
    let lock: toml::Table = lock.parse()?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let mut versions = BTreeMap::<String, BTreeSet<String>>::new();
    for package in packages.into_iter().flatten() {
        let text = |key: &str| package.get(key)?.as_str().map(str::to_owned);
        if let (Some(name), Some(version)) = (text("name"), text("version")) {
            versions.entry(name).or_default().insert(version);
        }
    }
    Ok(versions)
}

/// Crates of `fuzz` that `product` has only in other versions.
fn differences(product: &str, fuzz: &str) -> Result<Vec<String>, toml::de::Error> {
    let product = versions(product)?;
    let other = |(name, versions): (String, BTreeSet<String>)| {
        let ours = product.get(&name)?;
        let is_equal = versions.is_subset(ours);
        (!is_equal).then(|| format!("{name} {versions:?}, and {ours:?} in Cargo.lock"))
    };
    Ok(versions(fuzz)?.into_iter().filter_map(other).collect())
}

#[test]
fn fuzz_targets_have_the_versions_of_the_product() -> crate::Outcome {
    let file = Path::new("tests/fuzz/Cargo.lock");
    let differences = differences(&read(Path::new("Cargo.lock"))?, &read(file)?)?;
    let findings: Vec<Finding> = differences
        .into_iter()
        .map(|says| Finding {
            file: file.to_owned(),
            line: 1,
            says: format!("{says}; copy Cargo.lock there and build a target"),
        })
        .collect();
    check("locks", &findings)
}

#[test]
fn other_version_of_a_shared_crate_is_found() -> crate::Outcome {
    let lock = |version: &str, own: &str| {
        format!(
            "[[package]]\nname = \"redb\"\nversion = \"{version}\"\n\
             [[package]]\nname = \"{own}\"\nversion = \"1.0.0\"\n"
        )
    };
    let product = lock("4.0.0", "rten");
    assert!(differences(&product, &lock("4.0.0", "arbitrary"))?.is_empty());
    let found = differences(&product, &lock("3.1.0", "arbitrary"))?;
    assert_eq!(found, ["redb {\"3.1.0\"}, and {\"4.0.0\"} in Cargo.lock"]);
    Ok(())
}
