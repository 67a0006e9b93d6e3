//! Tests with mounts: a small disk that can be filled, a folder that can't be written.
//!
//! Such a test runs itself again in a private mount [`namespace`](super::namespace).

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;

use super::namespace::Namespace;

const MOUNTS: Namespace = Namespace {
    inside: "WATCHKEEPER_TEST_MOUNTS",
    ways: [&["--mount"], &["--map-root-user", "--mount"]],
    set_up: &[],
    trial: &["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"],
    missing: "neither root nor a user namespace may mount here",
};

/// Runs `body` in a private mount namespace. `name` is the path of the test, with its modules.
///
/// # Errors
/// If `body` fails.
pub fn in_private_mounts(
    name: &str,
    body: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    MOUNTS.run(name, body)
}

/// Disk of its own in memory.
#[derive(Debug)]
pub struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk of `mebibytes` at `folder`, which is created if missing.
    ///
    /// # Errors
    /// If mounting fails.
    pub fn mount(folder: &Path, mebibytes: u32) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let options = format!("size={mebibytes}m,mode=0755");
        mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], folder)?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Takes all free bytes but `left`; 0 fills the disk to the last byte.
    ///
    /// # Errors
    /// If a write fails, but for a full disk.
    pub fn fill(&self, left: u64) -> anyhow::Result<()> {
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(self.ballast())?;
        // Measured once: what a process deletes meanwhile to make room stays free.
        let bytes = self.free()?.saturating_sub(left);
        match io::copy(&mut io::repeat(0x55).take(bytes), &mut file) {
            Err(e) if e.kind() != io::ErrorKind::StorageFull => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// Frees the space that [`Self::fill`] took.
    ///
    /// # Errors
    /// If the disk was not filled.
    pub fn make_room(&self) -> anyhow::Result<()> {
        Ok(fs::remove_file(self.ballast())?)
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }

    fn free(&self) -> anyhow::Result<u64> {
        let stat = rustix::fs::statvfs(&self.folder)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// Makes the contents of `folder` read-only, for root too.
///
/// # Errors
/// If mounting fails.
pub fn make_read_only(folder: &Path) -> anyhow::Result<()> {
    let itself = folder.display().to_string();
    mount(&["--bind", &itself], folder)?;
    mount(&["-o", "remount,bind,ro"], folder)
}

/// Makes the contents of `folder` writable again after [`make_read_only`], under running processes.
///
/// # Errors
/// If mounting fails.
pub fn make_writable(folder: &Path) -> anyhow::Result<()> {
    mount(&["-o", "remount,bind,rw"], folder)
}

fn mount(arguments: &[&str], folder: &Path) -> anyhow::Result<()> {
    let status = Command::new("mount").args(arguments).arg(folder).status()?;
    ensure!(status.success(), "mount {arguments:?}: {status}");
    Ok(())
}
