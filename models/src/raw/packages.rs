//! Checks the tables `package`: networks in packages of a registry.

use std::ops::Range;

use crate::registry::{
    ArchiveFormat, Conversion, MAX_ARCHIVE, MAX_TAKEN, MAX_UNPACKED, RegistryPackage,
};

use super::error::FieldErrors;
use super::parts::check_url;
use super::shape::RawPackage;

/// Longest path in an archive: what a header of a tar holds.
const MAX_PATH: usize = 255;

pub(super) fn check_packages(
    raw: Vec<RawPackage>,
    errors: &mut FieldErrors,
) -> Vec<RegistryPackage> {
    let packages = raw.into_iter().enumerate();
    packages
        .filter_map(|(i, package)| check_package(&format!("package[{i}]"), package, errors))
        .collect()
}

pub(super) fn check_package(
    at: &str,
    raw: RawPackage,
    errors: &mut FieldErrors,
) -> Option<RegistryPackage> {
    let key = |field: &str| format!("{at}.{field}");
    check_url(&key("registry"), &raw.registry, errors);
    check_path(
        &key("path"),
        &raw.path,
        "a package below `registry`",
        errors,
    );
    errors.require(
        (1..=MAX_ARCHIVE).contains(&raw.bytes),
        &key("bytes"),
        raw.bytes,
        format!("the size of the archive, 1 to {MAX_ARCHIVE}"),
    );
    let format = errors.choose(
        &key("format"),
        &raw.format,
        &[("tgz", ArchiveFormat::Tgz), ("wheel", ArchiveFormat::Wheel)],
    );
    check_path(&key("member"), &raw.member, "a file in the archive", errors);
    let convert = errors.choose(
        &key("convert"),
        raw.convert.as_deref().unwrap_or("none"),
        &[("none", Conversion::None), ("tflite", Conversion::Tflite)],
    );
    let convert = match (convert, raw.features) {
        (convert, None) => convert,
        (Some(Conversion::Tflite), Some(tensor)) => Some(Conversion::TfliteFeatures { tensor }),
        (_, Some(tensor)) => {
            errors.push(
                key("features"),
                tensor,
                "absent, or beside convert = \"tflite\"",
            );
            None
        }
    };
    Some(RegistryPackage {
        range: raw
            .range
            .map(|range| check_range(&key("range"), range, errors)),
        registry: raw.registry,
        path: raw.path,
        sha256: raw.sha256,
        bytes: raw.bytes,
        format: format?,
        member: raw.member,
        member_sha256: raw.member_sha256,
        convert: convert?,
    })
}

pub(super) fn check_path(key: &str, path: &str, of: &str, errors: &mut FieldErrors) {
    let good = (1..=MAX_PATH).contains(&path.len())
        && !path.chars().any(char::is_control)
        && path.split('/').all(|name| !matches!(name, "" | "." | ".."));
    let allowed = format!("the path of {of}: 1 to {MAX_PATH} bytes, without empty names and `..`");
    errors.require(good, key, path, allowed);
}

fn check_range(key: &str, [start, end]: [u64; 2], errors: &mut FieldErrors) -> Range<u64> {
    errors.require(
        end <= MAX_UNPACKED && (1..=MAX_TAKEN).contains(&end.saturating_sub(start)),
        key,
        [start, end],
        format!("the first byte and the one after the last, at most {MAX_TAKEN} apart"),
    );
    start..end
}
