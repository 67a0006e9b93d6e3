//! Tests with mounts: a small disk that can be filled, a folder that can't be written.
//!
//! Such a test runs itself again in a private mount [`namespace`](super::namespace).

use std::fs::{self, File};
use std::io::Write as _;
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

    /// Fills the disk until `left` bytes are free; 0 fills it to the last byte.
    ///
    /// # Errors
    /// If a write fails, but for a full disk.
    pub fn fill(&self, left: u64) -> anyhow::Result<()> {
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(self.ballast())?;
        let mut piece = vec![0x55; 64 << 10];
        loop {
            let free = self.free()?.saturating_sub(left);
            if free == 0 {
                return Ok(());
            }
            piece.truncate(usize::try_from(free).unwrap_or(usize::MAX).max(1));
            match file.write(&piece) {
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
                Err(e) => return Err(e.into()),
            }
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
