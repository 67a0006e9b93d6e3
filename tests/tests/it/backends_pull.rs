//! `watchkeeper backends pull onnxruntime`: the library that the description names is in place with
//! the texts of its licence, or nothing is. `watchkeeper backends` and `models bench` beside it.

use std::env::consts::ARCH;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::ensure;
use serde_json::Value;
use tempfile::TempDir;
use watchkeeper_tests::daemons::{Bench, program};
use watchkeeper_tests::file_server::{Answer, FileServer};
use watchkeeper_tests::mounts::{SmallDisk, in_private_mounts};

use super::models_package::wheel;
use super::models_pull::sum;

/// Path of the library in every package here.
const MEMBER: &str = "onnxruntime/capi/libonnxruntime.so.1.99.0";
/// Name of the library in its folder.
const LIBRARY: &str = "libonnxruntime.so.1.99.0";
const LICENCE: &str = "onnxruntime/LICENSE";
const NOTICES: &str = "onnxruntime/ThirdPartyNotices.txt";
/// Exit codes of a request that could not be executed, and of a wrong one.
const FAILED: i32 = 1;
const BAD_INPUT: i32 = 2;

/// Bytes that no compression makes smaller.
fn library() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..2 << 20).map(|_| random.u8(..)).collect()
}

fn package() -> anyhow::Result<Vec<u8>> {
    wheel(&[
        (LICENCE, b"MIT"),
        (NOTICES, b"and others"),
        ("onnxruntime/__init__.py", b"raise SystemExit"),
        (MEMBER, &library()),
    ])
}

/// A user's folder for libraries, and a registry with a package for them.
struct Site {
    folder: TempDir,
    server: FileServer,
    package: Vec<u8>,
}

impl Site {
    /// Describes a package for this processor architecture; `changes` replace texts of the
    /// description.
    fn new(package: Vec<u8>, changes: &[(&str, &str)]) -> anyhow::Result<Self> {
        let server = FileServer::start(Vec::new(), None)?;
        server.put("own.whl", package.clone());
        let site = Self {
            folder: tempfile::tempdir()?,
            server,
            package,
        };
        fs::create_dir_all(site.lib())?;
        site.describe(changes)?;
        Ok(site)
    }

    fn describe(&self, changes: &[(&str, &str)]) -> anyhow::Result<()> {
        let build = |arch: &str, sha256: &str| -> anyhow::Result<String> {
            Ok(format!(
                "[build.{arch}.package]\nregistry = \"{}\"\npath = \"own.whl\"\n\
                 sha256 = \"{sha256}\"\nbytes = {}\nformat = \"wheel\"\nmember = \"{MEMBER}\"\n\
                 member_sha256 = \"{}\"\n\
                 [[build.{arch}.notice]]\nmember = \"{LICENCE}\"\nsha256 = \"{}\"\n\
                 [[build.{arch}.notice]]\nmember = \"{NOTICES}\"\nsha256 = \"{}\"\n",
                self.server.folder(),
                self.package.len(),
                sum(&library())?,
                sum(b"MIT")?,
                sum(b"and others")?,
            ))
        };
        let mut text = format!(
            "name = \"onnxruntime\"\nversion = \"1.99.0\"\nlicence = \"MIT\"\n{}{}",
            build(ARCH, &sum(&self.package)?)?,
            build("other-arch", &sum(b"the package for another processor")?)?,
        );
        for (from, to) in changes {
            ensure!(text.contains(from), "{from} is not in {text}");
            text = text.replace(from, to);
        }
        Ok(fs::write(self.lib().join("onnxruntime.toml"), text)?)
    }

    /// The folder of the libraries, for root and for other users.
    fn lib(&self) -> PathBuf {
        self.folder.path().join("watchkeeper/lib")
    }

    fn command(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(program("watchkeeper")?);
        command
            .env("XDG_DATA_HOME", self.folder.path())
            .env(
                "WATCHKEEPER_RUNTIME__STATE_DIR",
                self.folder.path().join("watchkeeper"),
            )
            .env("NO_PROXY", "127.0.0.1")
            // A library of the machine that runs the tests would be found first.
            .env("ORT_DYLIB_PATH", self.lib())
            .args(["backends"])
            .args(arguments)
            .stdin(Stdio::null());
        Ok(command)
    }

    fn pull(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let arguments = [&["pull", "onnxruntime"], arguments].concat();
        Ok(self.command(&arguments)?.output()?)
    }

    /// Pulls; the files are in place, and the runtime says that these bytes are not a library.
    fn places(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let out = self.pull(arguments)?;
        let errors = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.code() == Some(FAILED), "{out:?}");
        ensure!(errors.contains("is in place, but"), "{errors}");
        ensure!(
            fs::read(self.lib().join(LIBRARY))? == library(),
            "other bytes"
        );
        let licence = fs::read_to_string(self.lib().join("onnxruntime-LICENSE"))?;
        ensure!(licence == "MIT", "{licence}");
        ensure!(
            self.lib()
                .join("onnxruntime-ThirdPartyNotices.txt")
                .is_file()
        );
        let left = self.names()?;
        ensure!(left.iter().all(|name| !name.contains("part")), "{left:?}");
        Ok(())
    }

    /// Pulls; it fails with all of `parts` in its sentence, and no library is there.
    fn fails(&self, arguments: &[&str], code: i32, parts: &[&str]) -> anyhow::Result<()> {
        let out = self.pull(arguments)?;
        let errors = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.code() == Some(code), "{out:?}");
        for part in parts {
            ensure!(errors.contains(part), "no {part:?} in {errors}");
        }
        let left = self.names()?;
        ensure!(left == ["onnxruntime.toml"], "{left:?}");
        Ok(())
    }

    fn names(&self) -> anyhow::Result<Vec<String>> {
        let entries = fs::read_dir(self.lib())?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<anyhow::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }
}

#[test]
fn library_is_placed_with_the_texts_of_its_licence() -> anyhow::Result<()> {
    let site = Site::new(package()?, &[])?;
    site.places(&[])?;
    drop(site.server.requests());
    // The second pull compares the files in place, and fetches nothing.
    site.places(&[])?;
    ensure!(site.server.requests().is_empty(), "fetched again");
    Ok(())
}

#[test]
fn copied_package_needs_no_network() -> anyhow::Result<()> {
    let site = Site::new(package()?, &[])?;
    let copy = site.folder.path().join("copy.whl");
    fs::write(&copy, &site.package)?;
    let copy = copy.display().to_string();
    site.places(&["--from", &copy])?;
    ensure!(site.server.requests().is_empty(), "it asked the network");
    Ok(())
}

#[test]
fn interrupted_package_resumes() -> anyhow::Result<()> {
    let site = Site::new(package()?, &[])?;
    site.server.script([Answer::CutAfter(100_000)]);
    site.places(&[])?;
    let range = site.server.requests().get(1).cloned();
    let range = range.and_then(|request| request.headers.get("range").cloned());
    assert_eq!(range.as_deref(), Some("bytes=100000-"));
    Ok(())
}

#[test]
fn damaged_or_changed_package_leaves_nothing() -> anyhow::Result<()> {
    let site = Site::new(package()?, &[])?;
    site.server.script([Answer::WrongBytes]);
    site.fails(&[], FAILED, &["own.whl", "expected"])?;
    let garbage = Site::new(b"no zip at all".to_vec(), &[])?;
    garbage.fails(&[], FAILED, &["own.whl", "can't be read"])?;
    let absent = Site::new(wheel(&[(LICENCE, b"MIT")])?, &[])?;
    absent.fails(&[], FAILED, &["no such file"])?;
    let other = wheel(&[
        (LICENCE, b"MIT"),
        (NOTICES, b"and others"),
        (MEMBER, b"other"),
    ])?;
    Site::new(other, &[])?.fails(&[], FAILED, &[MEMBER, "sha256"])
}

#[test]
fn wrong_copy_is_refused_before_anything_is_written() -> anyhow::Result<()> {
    let site = Site::new(package()?, &[])?;
    let copy = site.folder.path().join("copy.whl");
    let from = copy.display().to_string();
    site.fails(&["--from", &from], BAD_INPUT, &["can't read", "copy.whl"])?;
    fs::write(&copy, "another file")?;
    site.fails(&["--from", &from], BAD_INPUT, &["has sha256", "own.whl"])?;
    fs::write(&copy, "the package for another processor")?;
    let parts = ["for other-arch, but this box is", ARCH];
    site.fails(&["--from", &from], BAD_INPUT, &parts)
}

#[test]
fn unknown_architecture_is_named_with_the_known_ones() -> anyhow::Result<()> {
    let build = format!("build.{ARCH}.");
    let site = Site::new(package()?, &[(&build, "build.riscv64.")])?;
    let known = format!("for {ARCH} is known, only for other-arch, riscv64");
    site.fails(&[], BAD_INPUT, &[&known])
}

#[test]
fn unreachable_registry_names_the_way_of_a_copy() -> anyhow::Result<()> {
    let site = Site::new(package()?, &[])?;
    let refused = [
        Answer::Status(503),
        Answer::Status(503),
        Answer::Status(503),
    ];
    site.server
        .script(refused.into_iter().chain([Answer::Status(503)]));
    site.fails(&[], FAILED, &["can't download", "--from FILE"])
}

#[test]
fn full_disk_is_named_and_leaves_no_library() -> anyhow::Result<()> {
    in_private_mounts(
        "backends_pull::full_disk_is_named_and_leaves_no_library",
        || {
            let site = Site::new(package()?, &[])?;
            // Room for the package, but not for the library beside it.
            let _disk = SmallDisk::mount(&site.lib(), 3)?;
            site.describe(&[])?;
            let out = site.pull(&[])?;
            let errors = String::from_utf8_lossy(&out.stderr);
            ensure!(out.status.code() == Some(FAILED), "{out:?}");
            ensure!(errors.contains("free some space"), "{errors}");
            ensure!(!site.lib().join(LIBRARY).exists(), "a library is there");
            Ok(())
        },
    )
}

#[test]
fn absent_library_is_listed_with_its_remedy() -> anyhow::Result<()> {
    let site = Site::new(package()?, &[])?;
    let mut command = site.command(&["--json"])?;
    command.env(
        "WATCHKEEPER_RUNTIME__SOCKET",
        site.folder.path().join("none.sock"),
    );
    let out = command.output()?;
    ensure!(out.status.success(), "{out:?}");
    let report: Value = serde_json::from_slice(&out.stdout)?;
    assert_eq!(report["answered_by"], "program");
    let [trt, ort, rten] = [0, 1, 2].map(|n| &report["backends"][n]);
    assert_eq!(
        (&trt["name"], &trt["available"]),
        (&"trt".into(), &false.into())
    );
    assert_eq!(
        (&ort["name"], &ort["available"]),
        (&"ort".into(), &false.into())
    );
    let remedy = ort["remedy"].as_str().unwrap_or_default();
    // The variable that names it comes before a pulled library.
    ensure!(
        remedy
            == "correct ORT_DYLIB_PATH, or remove it and run watchkeeper backends pull onnxruntime",
        "{ort}"
    );
    ensure!(
        ort["why_not"].to_string().contains("does not exist"),
        "{ort}"
    );
    assert_eq!(
        (&rten["name"], &rten["available"]),
        (&"rten".into(), &true.into())
    );
    Ok(())
}

#[test]
fn running_runtime_answers_for_its_back_ends() -> anyhow::Result<()> {
    let test_box = Bench::new("")?;
    let _runtime = test_box.runtime()?;
    let out = Command::new(program("watchkeeper")?)
        .args(["backends", "--json", "--socket"])
        .arg(test_box.socket())
        .output()?;
    ensure!(out.status.success(), "{out:?}");
    let report: Value = serde_json::from_slice(&out.stdout)?;
    assert_eq!(report["answered_by"], "runtime");
    assert_eq!(
        report["backends"],
        test_box.get("/v1/backends")?["backends"]
    );
    Ok(())
}

#[test]
fn bench_reports_each_stage_and_refuses_other_models() -> anyhow::Result<()> {
    let models = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("models");
    let bench = |model: &str| {
        Command::new(program("watchkeeper")?)
            .args([
                "models",
                "bench",
                model,
                "--for",
                "0.2s",
                "--json",
                "--models-dir",
            ])
            .arg(&models)
            .args(["--backend", "rten"])
            .stdin(Stdio::null())
            .output()
            .map_err(anyhow::Error::from)
    };
    let out = bench("bright-class")?;
    ensure!(out.status.success(), "{out:?}");
    let report: Value = serde_json::from_slice(&out.stdout)?;
    let rten = &report["backends"][0];
    assert_eq!(rten["backend"], "rten");
    assert_eq!(rten["tensor_copies"], 0);
    ensure!(rten["runs"].as_u64() > Some(0), "{rten}");
    ensure!(rten["peak_memory_mb"].as_f64() > Some(1.0), "{rten}");
    for stage in ["preprocess", "infer", "postprocess"] {
        let [p50, p99] = ["p50_ms", "p99_ms"].map(|key| rten[stage][key].as_f64());
        ensure!(p50.is_some() && p50 <= p99, "{rten}");
    }
    let out = bench("bright-depth")?;
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.code() == Some(FAILED), "{errors}");
    ensure!(errors.contains("depth-estimation"), "{errors}");
    Ok(())
}

#[test]
fn bench_measures_motion_once_and_names_a_fault_once() -> anyhow::Result<()> {
    let bench = |model: &str| {
        Command::new(program("watchkeeper")?)
            .args(["models", "bench", model, "--for", "0.2s", "--json"])
            .stdin(Stdio::null())
            .output()
            .map_err(anyhow::Error::from)
    };
    let out = bench("motion")?;
    ensure!(out.status.success(), "{out:?}");
    let report: Value = serde_json::from_slice(&out.stdout)?;
    let names: Vec<_> = report["backends"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(names.len(), 1, "{report}");
    assert_eq!(names[0]["backend"], "builtin");
    let out = bench("yolx-nano")?;
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.code() == Some(2), "{errors}");
    ensure!(errors.matches("yolx-nano").count() == 1, "{errors}");
    ensure!(errors.contains("did you mean `yolox-nano`"), "{errors}");
    Ok(())
}

/// The published package for this architecture, where the environment names a copy of it.
#[expect(clippy::print_stderr, reason = "a skip must be loud")]
fn published() -> Option<PathBuf> {
    let wheel = std::env::var_os("WATCHKEEPER_ONNXRUNTIME").map(PathBuf::from);
    if wheel.is_none() {
        eprintln!(
            "SKIPPED: the published ONNX Runtime (WATCHKEEPER_ONNXRUNTIME names a copy of the package of models/libraries/onnxruntime.toml)"
        );
    }
    wheel
}

#[test]
fn published_library_runs_a_model_on_its_cpu_provider() -> anyhow::Result<()> {
    let Some(wheel) = published() else {
        return Ok(());
    };
    let site = Site::new(Vec::new(), &[])?;
    fs::remove_file(site.lib().join("onnxruntime.toml"))?;
    let out = site.pull(&["--json", "--from", &wheel.display().to_string()])?;
    ensure!(out.status.success(), "{out:?}");
    let out = Command::new(program("watchkeeper")?)
        .env("ORT_DYLIB_PATH", site.lib())
        .args(["models", "bench", "bright-class", "--for", "0.2", "--json"])
        .arg("--models-dir")
        .arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("models"))
        .output()?;
    ensure!(out.status.success(), "{out:?}");
    let report: Value = serde_json::from_slice(&out.stdout)?;
    let ort = &report["backends"][0];
    assert_eq!(
        (&ort["backend"], &ort["provider"]),
        (&"ort".into(), &"CPU".into())
    );
    assert_eq!(report["backends"][1]["backend"], "rten");
    Ok(())
}
