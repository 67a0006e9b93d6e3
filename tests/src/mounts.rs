//! Tests that mount: a small disk that can be filled, a folder that can't be written.
//!
//! Such a test runs itself again in a mount namespace of its own, so that nothing it mounts is seen outside or outlives it. Root may do
//! that everywhere, others where the kernel gives them user namespaces; where nobody may, the test says so and is skipped.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::ensure;

/// Set in the second run of the test.
const INSIDE: &str = "WATCHKEEPER_TEST_MOUNTS";

/// Runs `body` in a private mount namespace. `name` is the test's own, with its modules.
///
/// # Errors
/// When `body` fails.
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
    // A name that no test has would pass: no test ran, none failed.
    ensure!(
        out.status.success() && said.contains("1 passed"),
        "{name} failed in its own mounts: {said}"
    );
    Ok(())
}

/// A disk of its own in memory.
#[derive(Debug)]
pub struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts one of `mebibytes` at `folder`, which is made where it is missing.
    ///
    /// # Errors
    /// When it can't be mounted.
    pub fn mount(folder: &Path, mebibytes: u32) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let options = format!("size={mebibytes}m,mode=0755");
        mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], folder)?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Fills it until `left` bytes are free, or to the last byte with 0.
    ///
    /// # Errors
    /// When it can't be written for another reason than being full.
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

    /// Gives the room back.
    ///
    /// # Errors
    /// When it was not filled.
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

/// Makes what is in `folder` unwritable, for root too.
///
/// # Errors
/// When it can't be mounted.
pub fn make_read_only(folder: &Path) -> anyhow::Result<()> {
    let itself = folder.display().to_string();
    mount(&["--bind", &itself], folder)?;
    mount(&["-o", "remount,bind,ro"], folder)
}

fn mount(arguments: &[&str], folder: &Path) -> anyhow::Result<()> {
    let status = Command::new("mount").args(arguments).arg(folder).status()?;
    ensure!(status.success(), "mount {arguments:?}: {status}");
    Ok(())
}
