//! Tests with mounts: a small disk that can be filled, a folder that can't be written.
//!
//! Such a test runs itself again in a private mount namespace, so that its mounts are neither seen
//! outside nor outlive it. Root may do that everywhere, other users where the kernel allows user
//! namespaces. Elsewhere the test says so and is skipped.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::ensure;

/// Environment variable that is set in the second run of the test.
const INSIDE: &str = "WATCHKEEPER_TEST_MOUNTS";

/// Runs `body` in a private mount namespace. `name` is the path of the test, with its modules.
///
/// # Errors
/// If `body` fails.
#[expect(clippy::print_stderr, reason = "a skip must be loud")]
pub fn in_private_mounts(
    name: &str,
    body: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let ways: [&[&str]; 2] = [&["--mount"], &["--map-root-user", "--mount"]];
    let allowed = ways.into_iter().find(|way| {
        let tried = Command::new("unshare")
            .args(*way)
            .args(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        tried.is_ok_and(|status| status.success())
    });
    let Some(way) = allowed else {
        eprintln!("SKIPPED: {name} (neither root nor a user namespace may mount here)");
        return Ok(());
    };
    let out = Command::new("unshare")
        .args(way)
        .arg(std::env::current_exe()?)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .stderr(Stdio::inherit())
        .output()?;
    let said = String::from_utf8_lossy(&out.stdout);
    // A wrong name would pass: no test runs, none fails.
    ensure!(
        out.status.success() && said.contains("1 passed"),
        "{name} failed in its own mounts: {said}"
    );
    Ok(())
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
