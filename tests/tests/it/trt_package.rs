//! The Debian package of TensorRT's shim, installed by dpkg into a folder.
//!
//! - Without the headers of TensorRT and CUDA it does nothing; it compiles the shim when the last
//!   of them come.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use tempfile::TempDir;
use watchkeeper_tests::mounts::in_private_mounts;
use watchkeeper_tests::trt::{FakeTrt, Headers};

/// A box with an empty list of packages.
struct Root(TempDir);

impl Root {
    fn new() -> anyhow::Result<Self> {
        let root = Self(tempfile::tempdir()?);
        let dpkg = root.0.path().join("var/lib/dpkg");
        for folder in ["info", "updates", "triggers"] {
            fs::create_dir_all(dpkg.join(folder))?;
        }
        // What the package depends on, which runs outside of the root.
        let installed = ["bash", "g++"].map(control);
        let installed = installed.map(|text| format!("{text}Status: install ok installed\n\n"));
        fs::write(dpkg.join("status"), installed.concat())?;
        Ok(root)
    }

    /// Runs dpkg; returns its output.
    fn dpkg(&self, action: &str, package: &Path) -> anyhow::Result<String> {
        let mut command = Command::new("dpkg");
        command.arg(format!("--root={}", self.0.path().display()));
        command.args([
            "--force-not-root",
            "--force-script-chrootless",
            "--log=/dev/null",
        ]);
        output(command.arg(action).arg(package))
    }

    fn shim(&self) -> PathBuf {
        let folder = format!("usr/lib/{ARCH}-linux-gnu");
        self.0.path().join(folder).join("libwk_trt.so")
    }
}

fn control(name: &str) -> String {
    format!(
        "Package: {name}\nVersion: 10.16\nArchitecture: all\nMaintainer: Test <test@localhost>\n\
         Description: made by a test\n"
    )
}

/// Returns both outputs of a command that succeeds.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let out = command.output()?;
    let text = [out.stdout, out.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    ensure!(out.status.success(), "{command:?}: {text}");
    Ok(text)
}

/// Makes packages of TensorRT's headers and of CUDA's, with the places that NVIDIA's have.
fn header_packages(trt: &FakeTrt, folder: &Path) -> anyhow::Result<[PathBuf; 2]> {
    let [trt_tree, cuda_tree] = ["trt", "cuda"].map(|name| folder.join(name));
    let include = trt_tree.join(format!("usr/include/{ARCH}-linux-gnu"));
    trt.copy_headers(&include)?;
    let cuda = cuda_tree.join(format!("usr/local/cuda-12.6/targets/{ARCH}-linux/include"));
    fs::create_dir_all(&cuda)?;
    let header = "cuda_runtime_api.h";
    fs::rename(include.join(header), cuda.join(header))?;
    Ok([
        package_of(&trt_tree, "libnvinfer-headers-dev")?,
        package_of(&cuda_tree, "cuda-cudart-dev-12-6")?,
    ])
}

fn package_of(tree: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let package = tree.with_extension("deb");
    fs::create_dir_all(tree.join("DEBIAN"))?;
    fs::write(tree.join("DEBIAN/control"), control(name))?;
    let mut command = Command::new("dpkg-deb");
    output(
        command
            .args(["--root-owner-group", "--build"])
            .arg(tree)
            .arg(&package),
    )?;
    Ok(package)
}

#[expect(clippy::print_stderr, reason = "a skip must be loud")]
#[test]
fn package_compiles_the_shim_when_the_headers_come() -> anyhow::Result<()> {
    let what = "the package of TensorRT's shim";
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        eprintln!("SKIPPED: {what} (no dpkg)");
        return Ok(());
    }
    let name = "trt_package::package_compiles_the_shim_when_the_headers_come";
    in_private_mounts(name, || {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let Some(trt) = FakeTrt::get(target, Headers::V10, what)? else {
            return Ok(());
        };
        let folder = tempfile::tempdir()?;
        let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../edge-runtime/trt/package");
        let said = output(Command::new(make).arg("--out").arg(folder.path()))?;
        let package = said.lines().find(|line| line.ends_with("_all.deb"));
        let package = PathBuf::from(package.unwrap_or_default());

        let root = Root::new()?;
        let said = root.dpkg("--install", &package)?;
        ensure!(said.contains("no headers of TensorRT"), "{said}");
        ensure!(!root.shim().exists(), "compiled without headers");
        // The alternatives of NVIDIA's packages make this link.
        fs::create_dir_all(root.0.path().join("usr/local"))?;
        let link = root.0.path().join("usr/local/cuda");
        std::os::unix::fs::symlink("cuda-12.6", link)?;
        let [trt_headers, cuda_headers] = header_packages(&trt, folder.path())?;
        let said = root.dpkg("--install", &trt_headers)?;
        ensure!(
            said.contains("no headers of CUDA") && said.contains("cuda-cudart-dev"),
            "{said}"
        );
        ensure!(!root.shim().exists(), "compiled without headers of CUDA");
        root.dpkg("--install", &cuda_headers)?;
        ensure!(root.shim().is_file(), "no shim after the headers came");
        fs::remove_file(root.shim())?;
        // An upgrade compiles the new source.
        root.dpkg("--install", &package)?;
        ensure!(root.shim().is_file(), "no shim after an upgrade");
        root.dpkg("--remove", Path::new("watchkeeper-trt"))?;
        ensure!(!root.shim().exists(), "left behind");
        Ok(())
    })
}
