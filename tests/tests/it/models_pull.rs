//! `watchkeeper models pull` against a real server that breaks off, lies and refuses: afterwards
//! the right file is in place, or nothing.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;
use watchkeeper_tests::daemons::{Process, program, wait_for};
use watchkeeper_tests::file_server::{Answer, FileServer};

/// Models in the manifests of the zoo: one with the checksum of a published file, one without.
const ZOO: &str = "yolox-nano";
/// Name of the model whose manifest the test writes.
pub(super) const OWN: &str = "own";
/// Exit code of a request that could not be executed.
const FAILED: i32 = 1;

/// A models folder and a server with the files for it.
pub(super) struct PullSite {
    folder: TempDir,
    body: Vec<u8>,
    pub(super) server: FileServer,
}

/// Makes a file of some hundred packets whose bytes depend on their position.
fn body(salt: u32) -> Vec<u8> {
    (0..75_000_u32)
        .flat_map(|i| (i.wrapping_mul(2_654_435_761) ^ salt).to_le_bytes())
        .collect()
}

pub(super) fn sum(bytes: &[u8]) -> anyhow::Result<String> {
    use std::io::Write as _;
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child.stdin.take().context("no input")?.write_all(bytes)?;
    let out = String::from_utf8(child.wait_with_output()?.stdout)?;
    Ok(out.split(' ').next().unwrap_or_default().to_owned())
}

impl PullSite {
    /// Makes a site whose manifest has the checksum and size of the file, or neither.
    pub(super) fn new(is_known: bool, etag: Option<&str>) -> anyhow::Result<Self> {
        let body = body(0);
        let server = FileServer::start(body.clone(), etag)?;
        let site = Self {
            folder: tempfile::tempdir()?,
            body,
            server,
        };
        let zoo = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../models/zoo/yolox-nano.toml");
        let mut manifest: toml::Table = fs::read_to_string(zoo)?.parse()?;
        manifest.insert("name".to_owned(), OWN.into());
        let mut file = toml::Table::new();
        let url = format!("{}/{OWN}.onnx", site.server.folder());
        file.insert("url".to_owned(), url.into());
        if is_known {
            file.insert("sha256".to_owned(), sum(&site.body)?.into());
            file.insert("bytes".to_owned(), i64::try_from(site.body.len())?.into());
        }
        manifest.insert("file".to_owned(), vec![toml::Value::Table(file)].into());
        fs::write(site.path(&format!("{OWN}.toml")), manifest.to_string())?;
        Ok(site)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(program("watchkeeper")?);
        // Without the configuration and the proxy of the machine that runs the tests.
        command
            .env("WATCHKEEPER_MODELS__DIR", self.folder.path())
            .env("NO_PROXY", "127.0.0.1")
            .args(["models", "pull"])
            .args(arguments)
            .stdin(Stdio::null());
        Ok(command)
    }

    pub(super) fn pull(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        Ok(self.command(arguments)?.output()?)
    }

    /// Pulls successfully; the file is in place and complete, and nothing else is left.
    fn succeeds(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let out = self.pull(arguments)?;
        ensure!(out.status.success(), "{out:?}");
        self.has_the_file(&self.body)
    }

    /// Rewrites the manifest of the tiny OCR model so that this server has both its networks;
    /// returns their bytes by name.
    fn reader(&self) -> anyhow::Result<[(&'static str, Vec<u8>); 2]> {
        const LINES: &str = "own-lines.onnx";
        let bright = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("models/bright-page.toml");
        let mut manifest: toml::Table = fs::read_to_string(bright)?.parse()?;
        manifest.insert("name".to_owned(), OWN.into());
        let described = |file: &str, bytes: &[u8]| -> anyhow::Result<toml::Table> {
            let mut table = toml::Table::new();
            let url = format!("{}/{file}", self.server.folder());
            table.insert("url".to_owned(), url.into());
            table.insert("sha256".to_owned(), sum(bytes)?.into());
            table.insert("bytes".to_owned(), i64::try_from(bytes.len())?.into());
            Ok(table)
        };
        let lines = body(7);
        self.server.put(LINES, lines.clone());
        let network = described("own.onnx", &self.body)?;
        manifest.insert("file".to_owned(), vec![toml::Value::Table(network)].into());
        let part = manifest
            .get_mut("lines")
            .and_then(toml::Value::as_table_mut);
        let part = part.context("the reader finds lines")?;
        part.insert("file".to_owned(), LINES.into());
        part.extend(described(LINES, &lines)?);
        fs::write(self.path("own.toml"), manifest.to_string())?;
        Ok([("own.onnx", self.body.clone()), (LINES, lines)])
    }

    /// Checks that exactly these files are in place and complete.
    fn holds(&self, files: &[(&str, Vec<u8>)]) -> anyhow::Result<()> {
        for (name, body) in files {
            ensure!(
                fs::read(self.path(name))? == *body,
                "{name} is another file"
            );
        }
        let mut wanted: Vec<String> = files
            .iter()
            .flat_map(|(name, _)| [(*name).to_owned(), format!("{name}.sha256")])
            .chain(["own.toml".to_owned()])
            .collect();
        wanted.sort();
        ensure!(self.names() == wanted, "{:?}", self.names());
        Ok(())
    }

    fn has_the_file(&self, body: &[u8]) -> anyhow::Result<()> {
        ensure!(fs::read(self.path("own.onnx"))? == body, "another file");
        let recorded = fs::read_to_string(self.path("own.onnx.sha256"))?;
        ensure!(recorded.starts_with(&sum(body)?), "{recorded}");
        ensure!(
            self.names() == ["own.onnx", "own.onnx.sha256", "own.toml"],
            "{:?}",
            self.names()
        );
        Ok(())
    }

    /// Checks that a pull fails with one sentence that holds `parts`, and that nothing is in place.
    pub(super) fn fails(&self, arguments: &[&str], parts: &[&str]) -> anyhow::Result<()> {
        let out = self.pull(arguments)?;
        let errors = String::from_utf8(out.stderr)?;
        ensure!(
            out.status.code() == Some(FAILED),
            "{:?}: {errors}",
            out.status
        );
        ensure!(!errors.contains("panicked"), "{errors}");
        let said = errors
            .lines()
            .filter(|l| l.starts_with("watchkeeper: "))
            .count();
        ensure!(said == 1, "{said} sentences: {errors}");
        for part in parts {
            ensure!(errors.contains(part), "no {part:?} in {errors}");
        }
        ensure!(!self.path("own.onnx").exists(), "it is in place");
        Ok(())
    }

    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn interrupted_transfer_resumes_at_the_same_byte() -> anyhow::Result<()> {
    let site = PullSite::new(true, Some("v1"))?;
    site.server
        .script([Answer::CutAfter(100_000), Answer::CutAfter(50_000)]);
    site.succeeds(&[OWN])?;
    let requests = site.server.requests();
    let header = |i: usize, name: &str| {
        requests
            .get(i)
            .and_then(|r| r.headers.get(name))
            .map(String::as_str)
    };
    assert_eq!(requests.len(), 3);
    assert_eq!(header(0, "range"), None);
    for (i, range) in [(1, "bytes=100000-"), (2, "bytes=150000-")] {
        assert_eq!(header(i, "range"), Some(range));
        assert_eq!(header(i, "if-range"), Some("\"v1\""));
    }
    // An existing file is not fetched again.
    site.succeeds(&[OWN])?;
    assert!(site.server.requests().is_empty());
    Ok(())
}

#[test]
fn servers_without_ranges_or_length_are_supported() -> anyhow::Result<()> {
    for script in [
        vec![Answer::CutAfter(100_000), Answer::IgnoresRange],
        // Such a server only closes the connection; the manifest has the size.
        vec![Answer::UntilClose(100_000)],
        vec![Answer::UntilClose(usize::MAX)],
        // Too large a length ends in an incomplete file; too small a one leaves a rest.
        vec![Answer::Length(100_000)],
        vec![
            Answer::Status(503),
            Answer::Status(500),
            Answer::Status(429),
        ],
        vec![Answer::Redirect("/elsewhere/own.onnx".to_owned())],
    ] {
        let site = PullSite::new(true, None)?;
        site.server.script(script.clone());
        site.succeeds(&[OWN])
            .with_context(|| format!("{script:?}"))?;
    }
    Ok(())
}

#[test]
fn wrong_file_never_gets_the_models_name() -> anyhow::Result<()> {
    let site = PullSite::new(true, None)?;
    site.server.script([Answer::WrongBytes]);
    site.fails(&[OWN], &["sha256", "expected"])?;
    assert_eq!(site.names(), ["own.toml"]);
    site.server.script([Answer::Status(404)]);
    site.fails(&[OWN], &["404", "own.onnx"])?;
    // A file above the limit is refused before a byte of it is stored.
    site.server.script([Answer::Length(1 << 40)]);
    site.fails(&[OWN], &["more than"])?;
    site.server
        .script([Answer::CutAfter(1000), Answer::WrongRange]);
    site.fails(&[OWN], &["a range other than"])?;
    site.server
        .script((0..40).map(|i| Answer::Redirect(format!("/{i}"))));
    site.fails(&[OWN], &["redirect"])?;
    // Nothing is left that disturbs a working server.
    site.server.script([]);
    site.succeeds(&[OWN])
}

#[test]
fn file_changed_between_two_parts_is_fetched_again() -> anyhow::Result<()> {
    for etag in [Some("v1"), None] {
        let site = PullSite::new(false, etag)?;
        // Four attempts at a file that makes no progress.
        site.server.script([
            Answer::CutAfter(100_000),
            Answer::Status(500),
            Answer::Status(500),
            Answer::Status(500),
        ]);
        site.fails(&[OWN, "--trust"], &["run the command again"])?;
        let other = body(1);
        site.server.replace(other.clone(), "v2");
        let out = site.pull(&[OWN, "--trust"])?;
        ensure!(out.status.success(), "{out:?}");
        site.has_the_file(&other)?;
    }
    Ok(())
}

#[test]
fn unknown_checksum_is_shown_and_needs_confirmation() -> anyhow::Result<()> {
    let site = PullSite::new(false, Some("v1"))?;
    let wanted = sum(&site.body)?;
    site.fails(&[OWN], &[&wanted, "--trust"])?;
    site.fails(
        &[OWN, "--sha256", &wanted.replace(['a', '3'], "0")],
        &["expected"],
    )?;
    site.succeeds(&[OWN, "--sha256", &wanted])
}

#[test]
fn killed_pull_resumes_and_a_parallel_one_is_refused() -> anyhow::Result<()> {
    let site = PullSite::new(true, Some("v1"))?;
    site.server.script([Answer::StallAfter(200_000)]);
    let logs = tempfile::tempdir()?;
    let running = Process::start(site.command(&[OWN])?, &logs.path().join("pull.log"))?;
    let part = site.path("own.onnx.part");
    wait_for("the part to grow", || {
        fs::metadata(&part).ok().filter(|m| m.len() >= 200_000)
    })?;
    assert!(!site.path("own.onnx").exists());
    site.fails(&[OWN], &["is running; wait for it"])?;
    drop(site.server.requests());
    running.kill()?;
    site.succeeds(&[OWN])?;
    let range = site
        .server
        .requests()
        .first()
        .and_then(|r| r.headers.get("range").cloned());
    assert_eq!(range.as_deref(), Some("bytes=200000-"));
    Ok(())
}

#[test]
fn multi_file_model_resumes_each_of_its_files() -> anyhow::Result<()> {
    let site = PullSite::new(true, Some("v1"))?;
    let files = site.reader()?;
    // Both files break off; the second one makes no further progress.
    site.server.script([
        Answer::CutAfter(100_000),
        Answer::Good,
        Answer::CutAfter(50_000),
        Answer::Status(500),
        Answer::Status(500),
        Answer::Status(500),
    ]);
    site.fails(&[OWN], &["own.onnx", "run the command again"])?;
    ensure!(
        !site.path("own-lines.onnx").exists(),
        "one without the other"
    );
    drop(site.server.requests());
    let out = site.pull(&[OWN])?;
    ensure!(out.status.success(), "{out:?}");
    site.holds(&files)?;
    let requests = site.server.requests();
    let [only] = &requests[..] else {
        anyhow::bail!("{requests:?}");
    };
    let range = only.headers.get("range").map(String::as_str);
    assert_eq!(
        (&*only.target, range),
        ("/models/own.onnx", Some("bytes=50000-"))
    );
    // An existing file is not fetched again, and a deleted one is fetched by itself.
    fs::remove_file(site.path("own-lines.onnx"))?;
    let out = site.pull(&[OWN])?;
    ensure!(out.status.success(), "{out:?}");
    site.holds(&files)?;
    let targets: Vec<_> = site
        .server
        .requests()
        .into_iter()
        .map(|r| r.target)
        .collect();
    assert_eq!(targets, ["/models/own-lines.onnx"]);
    Ok(())
}

#[test]
fn multi_file_model_with_one_wrong_file_is_not_installed() -> anyhow::Result<()> {
    let site = PullSite::new(true, None)?;
    site.reader()?;
    site.server.put("own-lines.onnx", body(8));
    site.fails(&[OWN], &["own-lines.onnx", "sha256", "expected"])?;
    assert_eq!(site.names(), ["own.toml"]);
    // The other way round: the second file is right, the network is not.
    let files = site.reader()?;
    site.server.replace(body(9), "v2");
    site.fails(&[OWN], &["own.onnx", "expected"])?;
    ensure!(
        !site.path("own-lines.onnx").exists(),
        "one without the other"
    );
    site.server.replace(site.body.clone(), "v3");
    let out = site.pull(&[OWN, "--json"])?;
    ensure!(out.status.success(), "{out:?}");
    site.holds(&files)?;
    let said: serde_json::Value = serde_json::from_slice(&out.stdout)?;
    assert_eq!(said["parts"][0]["sha256"], sum(&files[1].1)?);
    Ok(())
}

#[test]
fn mirror_is_checked_against_published_checksums() -> anyhow::Result<()> {
    let site = PullSite::new(true, None)?;
    let mut command = site.command(&[ZOO])?;
    command.env("WATCHKEEPER_MODELS__MIRROR", site.server.folder());
    let out = command.output()?;
    let errors = String::from_utf8_lossy(&out.stderr);
    // The mirror has another file than the zoo: it is fetched from there, and refused.
    ensure!(out.status.code() == Some(FAILED), "{errors}");
    let requests = site.server.requests();
    let target = requests.first().map(|r| r.target.as_str());
    ensure!(target == Some("/models/yolox-nano.onnx"), "{target:?}");
    ensure!(!site.path("yolox-nano.onnx").exists());

    let mut command = site.command(&[OWN])?;
    command.env("WATCHKEEPER_MODELS__MIRROR", "ftp://mirror");
    let out = command.output()?;
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(errors.contains("models.mirror"), "{errors}");
    Ok(())
}

#[test]
fn proxy_of_the_environment_is_used() -> anyhow::Result<()> {
    let site = PullSite::new(true, None)?;
    let mut command = site.command(&[OWN])?;
    // This name has no DNS entry: only the proxy can have answered.
    command
        .env("WATCHKEEPER_MODELS__MIRROR", "http://models.invalid")
        .env("http_proxy", site.server.folder().replace("/models", ""))
        .env_remove("NO_PROXY")
        .env_remove("no_proxy");
    let out = command.output()?;
    ensure!(out.status.success(), "{out:?}");
    let target = site.server.requests().first().map(|r| r.target.clone());
    assert_eq!(target.as_deref(), Some("http://models.invalid/own.onnx"));
    site.has_the_file(&site.body)
}

#[test]
fn unwritable_models_folder_is_named() -> anyhow::Result<()> {
    let site = PullSite::new(true, None)?;
    // A file in place of the folder: unwritable for every user, root included.
    let mut command = Command::new(program("watchkeeper")?);
    command
        .env("WATCHKEEPER_MODELS__DIR", site.path("own.toml"))
        .env("WATCHKEEPER_MODELS__MIRROR", site.server.folder())
        .args(["models", "pull", ZOO]);
    let out = command.output()?;
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.code() == Some(FAILED), "{errors}");
    ensure!(
        errors.contains("can't write") && errors.contains("own.toml"),
        "{errors}"
    );
    ensure!(site.server.requests().is_empty(), "it asked all the same");
    Ok(())
}
