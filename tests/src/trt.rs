//! A TensorRT without an NVIDIA device, compiled out of TensorRT's own headers.
//!
//! - The headers come from the crate `trtx-sys` (Apache-2.0), fetched by cargo; nothing of it is
//!   built or kept in this repository.
//! - The networks are run by rten (`libwatchkeeper_fake_trt.so`), so results are real.
//! - One build serves all tests of a target folder; a lock keeps processes apart.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use watchkeeper_models::Sha256Sum;

use crate::daemons::program;

/// A version of TensorRT's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Headers {
    /// 10.16, as in JetPack 7.2.
    V10,
    /// 11.4, where the networks of 8 and the calibration of int8 are gone.
    V11,
}

impl Headers {
    /// Version of `trtx-sys` with the folder in it.
    const fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::V10 => ("=0.4.0", "TensorRT-Headers/TRT-Enterprise-10.16"),
            Self::V11 => ("=0.9.1", "TensorRT-Headers/TRT-Enterprise-11.4"),
        }
    }
}

/// Folder with the shim and the fake libraries.
#[derive(Debug, Clone)]
pub struct FakeTrt {
    headers: Headers,
    folder: PathBuf,
    network: PathBuf,
}

impl FakeTrt {
    /// Builds the libraries in `target`, unless they are there; without a compiler or the headers
    /// prints that `what` is skipped.
    ///
    /// # Errors
    /// If they do not compile.
    #[expect(clippy::print_stderr, reason = "a skip must be loud")]
    pub fn get(target: &Path, headers: Headers, what: &str) -> anyhow::Result<Option<Self>> {
        for tool in ["g++", "python3"] {
            if Command::new(tool).arg("--version").output().is_err() {
                eprintln!("SKIPPED: {what} (no {tool}; apt-get install {tool})");
                return Ok(None);
            }
        }
        let folder = target.join(format!("fake-trt-{headers:?}"));
        fs::create_dir_all(&folder)?;
        let lock = File::create(folder.join("lock"))?;
        lock.lock()?;
        let stamp = sources()?;
        let done = folder.join("done");
        if fs::read_to_string(&done).is_ok_and(|known| known == stamp) {
            return Self::at(folder, headers).map(Some);
        }
        let Some(include) = fetch(&folder, headers) else {
            eprintln!("SKIPPED: {what} (no headers of TensorRT; cargo could not fetch trtx-sys)");
            return Ok(None);
        };
        compile(&include, &folder)?;
        fs::write(&done, stamp)?;
        Self::at(folder, headers).map(Some)
    }

    fn at(folder: PathBuf, headers: Headers) -> anyhow::Result<Self> {
        let network = program("libwatchkeeper_fake_trt.so")?;
        Ok(Self {
            headers,
            folder,
            network,
        })
    }

    /// Copies the headers of TensorRT, and what they need of CUDA's, into a folder.
    ///
    /// # Errors
    /// If one can't be copied.
    pub fn copy_headers(&self, to: &Path) -> anyhow::Result<()> {
        let include = fetch(&self.folder, self.headers).context("the headers are gone")?;
        fs::create_dir_all(to)?;
        for from in [include, workspace().join("tests/tools/trt/fake/include")] {
            for file in fs::read_dir(from)? {
                let file = file?;
                fs::copy(file.path(), to.join(file.file_name()))?;
            }
        }
        Ok(())
    }

    /// The shim, `libwk_trt.so`.
    pub fn shim(&self) -> PathBuf {
        self.folder.join("libwk_trt.so")
    }

    /// The variable with which a program finds the fake libraries, in a mode of theirs. `folder`
    /// keeps the mode.
    ///
    /// # Errors
    /// If `folder` can't be written.
    pub fn environment(
        &self,
        mode: &str,
        folder: &Path,
    ) -> anyhow::Result<(&'static str, OsString)> {
        let settings = format!("{mode}\n{}\n", self.network.display());
        fs::write(folder.join("wk-fake-trt"), settings)?;
        let folders = std::env::join_paths([self.folder.as_path(), folder])?;
        Ok(("LD_LIBRARY_PATH", folders))
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Checksum over everything that is compiled.
fn sources() -> anyhow::Result<String> {
    let mut all = Vec::new();
    for folder in [
        "edge-runtime/trt",
        "edge-runtime/trt/cpp",
        "edge-runtime/trt/include",
        "tests/tools/trt/fake",
        "tests/tools/trt/fake/include",
    ] {
        let entries = fs::read_dir(workspace().join(folder))?;
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_file())
            .collect();
        files.sort();
        for file in files {
            all.extend(fs::read(file)?);
        }
    }
    Ok(Sha256Sum::of(&all).to_string())
}

/// Fetches the crate with the headers; returns their folder.
fn fetch(folder: &Path, headers: Headers) -> Option<PathBuf> {
    let (version, headers) = headers.place();
    let manifest = folder.join("Cargo.toml");
    fs::create_dir_all(folder.join("src")).ok()?;
    fs::write(folder.join("src/lib.rs"), "").ok()?;
    let text = format!(
        "[package]\nname = \"headers\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\ntrtx-sys = \"{version}\"\n\n[workspace]\n"
    );
    fs::write(&manifest, text).ok()?;
    let out = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--manifest-path"])
        .arg(&manifest)
        .current_dir(folder)
        .output()
        .ok()?;
    let metadata: Value = serde_json::from_slice(&out.stdout).ok()?;
    let package = metadata["packages"]
        .as_array()?
        .iter()
        .find(|package| package["name"] == "trtx-sys")?;
    let include = Path::new(package["manifest_path"].as_str()?).parent()?;
    let include = include.join(headers);
    include.join("NvInferImpl.h").is_file().then_some(include)
}

fn compile(include: &Path, out: &Path) -> anyhow::Result<()> {
    let fake = workspace().join("tests/tools/trt/fake");
    let mut libraries = Command::new(fake.join("build"));
    libraries.arg(include).arg(out);
    let mut shim = Command::new(workspace().join("edge-runtime/trt/build"));
    shim.arg("--headers").arg(include).arg("--headers");
    shim.arg(fake.join("include")).arg("--out").arg(out);
    for mut command in [libraries, shim] {
        let done = command.output().with_context(|| format!("{command:?}"))?;
        let errors = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "{command:?}: {errors}");
    }
    Ok(())
}
