//! Bundles: a `tar` archive (POSIX 1003.1, `ustar`) compressed by `gzip`, written on the box.
//!
//! Invariants:
//! - The archive gets its name after all of it is on stable storage. So a job that collects such
//!   files by name never takes half an archive.
//! - Its name follows from the effect, so a retry replaces the archive by an identical one.
//! - Nothing is opened outside the configured folders, as in [`file`](super::file).

use std::fs::File;
use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::fs::{Mode, OFlags, openat, renameat};
use watchkeeper_config::sinks::Place;
use watchkeeper_contract::effect::FileBundle;
use watchkeeper_contract::spool::SpooledEffect;

use super::fault::Fault;
use super::file::{check_free_space, open_folder, path_fault};

/// Bytes that bundles leave free on their disk. Nothing deletes old bundles, so they must stop
/// before recordings and media do, which stop at 512 MiB and have a retention.
const MIN_FREE_BYTES: u64 = 1 << 30;

#[derive(Debug)]
pub struct Job {
    /// Modification time of all members, in seconds since the Unix epoch.
    at_s: u64,
    place: Place,
    bundle: FileBundle,
}

impl Job {
    /// Job that writes `bundle` of the effect `spooled` to `place`.
    pub fn new(spooled: &SpooledEffect, bundle: &FileBundle, place: Place) -> Self {
        Self {
            at_s: u64::try_from(spooled.at.unix_ms / 1000).unwrap_or(0),
            place,
            bundle: bundle.clone(),
        }
    }

    /// Writes the archive. Blocks until it is on stable storage.
    ///
    /// # Errors
    /// [`Fault`] of the disk, of the folder or of a member's path.
    pub fn write(&self) -> Result<(), Fault> {
        let packed = self.packed().map_err(Fault::permanent)?;
        check_free_space(&self.place, packed.len(), MIN_FREE_BYTES)?;
        let folder = open_folder(&self.place)?;
        let name = &self.bundle.name;
        let shown = self.place.folder.display();
        let io_fault = |error: io::Error| Fault::transient(format!("a file in {shown}: {error}"));
        // TRUNC restarts what a crash left of an earlier attempt.
        let part = format!(".{name}.part");
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&folder, &*part, flags, Mode::from_raw_mode(0o640));
        let mut file = File::from(opened.map_err(|errno| path_fault(&self.place, &part, errno))?);
        file.write_all(&packed)
            .and_then(|()| file.sync_all())
            .map_err(io_fault)?;
        renameat(&folder, &*part, &folder, &**name)
            .map_err(|errno| path_fault(&self.place, name, errno))?;
        File::from(folder).sync_all().map_err(io_fault)
    }

    fn packed(&self) -> Result<Vec<u8>, String> {
        let packed = GzEncoder::new(Vec::new(), Compression::fast());
        let mut archive = tar::Builder::new(packed);
        let failed = |error: io::Error| format!("the archive can't be compressed: {error}");
        for member in &self.bundle.members {
            let header = header(&member.name, member.bytes.len() as u64, self.at_s)?;
            archive.append(&header, &*member.bytes).map_err(failed)?;
        }
        let packed = archive.into_inner().map_err(failed)?;
        packed.finish().map_err(failed)
    }
}

/// `ustar` header of one member.
fn header(path: &str, bytes: u64, at_s: u64) -> Result<tar::Header, String> {
    let is_inside =
        !path.starts_with('/') && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    let mut header = tar::Header::new_ustar();
    if !is_inside || header.set_path(path).is_err() {
        return Err(format!(
            "path {path:?} is invalid in an archive: use a relative path without `..`, of at most \
             100 bytes or split at a `/` into at most 155 and 100 bytes"
        ));
    }
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(0o640);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(bytes);
    header.set_mtime(at_s);
    header.set_cksum();
    Ok(header)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use watchkeeper_contract::effect::Attachment;

    use super::super::fault::Retry;
    use super::*;

    fn job(dir: &Path, members: &[(&str, &[u8])]) -> Job {
        let member = |(name, bytes): &(&str, &[u8])| Attachment {
            name: (*name).to_owned(),
            bytes: bytes.to_vec(),
        };
        Job {
            at_s: 1_798_761_600,
            place: Place {
                folder: dir.to_owned(),
                below: vec!["events".to_owned()],
            },
            bundle: FileBundle {
                directory: "events".to_owned(),
                name: "event_1.tar.gz".to_owned(),
                members: members.iter().map(member).collect(),
            },
        }
    }

    #[test]
    fn tar_extracts_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let large = vec![7; 70_000];
        let members: [(&str, &[u8]); 3] = [
            ("payload.json", b"{}"),
            ("images/a.jpg", &large),
            ("images/empty", b""),
        ];
        job(dir.path(), &members).write().unwrap();
        let folder = dir.path().join("events");
        let archive = folder.join("event_1.tar.gz");
        // A retry after a crash replaces the archive and leaves no other file.
        let first = fs::read(&archive).unwrap();
        fs::write(folder.join(".event_1.tar.gz.part"), "half").unwrap();
        job(dir.path(), &members).write().unwrap();
        assert_eq!(fs::read(&archive).unwrap(), first);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        let out = tempfile::tempdir().unwrap();
        let mut tar = Command::new("tar");
        tar.arg("xzf").arg(&archive).arg("-C").arg(out.path());
        assert!(tar.status().unwrap().success());
        for (name, bytes) in members {
            assert_eq!(fs::read(out.path().join(name)).unwrap(), bytes, "{name}");
        }
    }

    #[test]
    fn escaping_path_and_symlinked_folder_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let name = |bytes| "x".repeat(bytes);
        let [longest, long] = [155, 156].map(|bytes| format!("{}/{}", name(bytes), name(100)));
        for path in [&name(100), &longest] {
            header(path, 0, 0).unwrap();
        }
        for path in ["../x", "/x", "a//b", "", "a/../b", &name(101), &long] {
            let fault = job(dir.path(), &[(path, b"")]).write().unwrap_err();
            assert_eq!(fault.retry, Retry::Never, "{path}: {fault}");
        }
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("events")).unwrap();
        let fault = job(dir.path(), &[("a", b"")]).write().unwrap_err();
        assert_eq!(fault.retry, Retry::Never, "{fault}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
