//! Stand-ins for NVIDIA's GStreamer elements of a Jetson, compiled from `tests/tools/nvmm/nvmm.c`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use tempfile::TempDir;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/nvmm/nvmm.c");

/// Plugin in its own folder, for processes that are started with [`NvmmPlugin::variables`].
#[derive(Debug)]
pub struct NvmmPlugin {
    folder: TempDir,
}

impl NvmmPlugin {
    /// Compiles the plugin with these flags, such as `-DSILENT`. Without a compiler or GStreamer's
    /// headers, prints that `what` is skipped.
    ///
    /// # Errors
    /// If the source does not compile.
    pub fn compile(what: &str, flags: &[&str]) -> anyhow::Result<Option<Self>> {
        let Some(libraries) = libraries() else {
            skip(what);
            return Ok(None);
        };
        let folder = tempfile::Builder::new().prefix("nvmm").tempdir()?;
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror"])
            .args(flags)
            .arg("-o")
            .arg(folder.path().join("libgstnvmm.so"))
            .arg(SOURCE)
            .args(libraries)
            .output()
            .context("the compiler does not start")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{SOURCE} does not compile: {errors}"
        );
        Ok(Some(Self { folder }))
    }

    /// Environment in which GStreamer finds the plugin; the system's registry stays unchanged.
    pub fn variables(&self) -> [(&'static str, PathBuf); 2] {
        [
            ("GST_PLUGIN_PATH", self.folder.path().to_owned()),
            ("GST_REGISTRY", self.folder.path().join("registry.bin")),
        ]
    }
}

/// Flags that compile and link a plugin, if there are a compiler and the headers.
fn libraries() -> Option<Vec<String>> {
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    };
    run("cc", &["--version"])?;
    let packages = ["gstreamer-1.0", "gstreamer-base-1.0"];
    let flags = run(
        "pkg-config",
        &[&["--cflags", "--libs"][..], &packages].concat(),
    )?;
    Path::new(SOURCE).exists().then_some(())?;
    Some(flags.split_whitespace().map(str::to_owned).collect())
}

#[expect(clippy::print_stderr, reason = "a skip must be loud")]
fn skip(what: &str) {
    eprintln!("SKIPPED: {what} (it needs cc, pkg-config and libgstreamer1.0-dev)");
}
