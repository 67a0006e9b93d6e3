//! Findings about files: folders that must be writable, the runtime's socket, free space.
//!
//! - Invariant: nothing is created or changed.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use watchkeeper_board::storage;
use watchkeeper_client::how_to_start;

use super::finding::Finding;
use crate::runtime_program::PROGRAM as RUNTIME;

/// Free bytes below which journal and media are at risk.
const MIN_FREE_BYTES: u64 = 1 << 30;

/// Checks that this user can write a folder or create it in its nearest existing parent.
pub(super) fn folder(what: &str, path: &Path) -> Finding {
    use rustix::fs::{Access, access};
    let shown = path.display();
    if path.is_dir() {
        return match access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => Finding::ok(format!("{what} {shown}: writable")),
            Err(rustix::io::Errno::ROFS) => Finding::problem(
                format!("{what} {shown}: its disk is read-only, so nothing is stored"),
                format!("mount -o remount,rw $(findmnt -n -o TARGET -T {shown})"),
            ),
            Err(_) => unwritable_folder(what, path),
        };
    }
    let above = path
        .ancestors()
        .skip(1)
        .find(|p| p.is_dir())
        .unwrap_or(Path::new("/"));
    match access(above, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok(format!("{what} {shown}: created at the first start")),
        Err(_) => Finding::advice(
            format!("{what} {shown}: missing, and this user can't create it"),
            format!("sudo install -d -o $(id -un) {shown}    (not needed for `watchkeeper run`)"),
        ),
    }
}

fn unwritable_folder(what: &str, path: &Path) -> Finding {
    let shown = path.display();
    match path.metadata().ok().map(|found| found.uid()) {
        // The daemons run as that user; this user only reads.
        Some(other) if other != rustix::process::getuid().as_raw() => {
            let what = format!("{what} {shown}: owned by user {other}, as the daemons must be");
            if how_to_start::is_installed(Path::new("/"), RUNTIME) {
                Finding::ok(what)
            } else {
                let remedy = "start the daemons as that user, or set runtime.state_dir to a folder \
                              of yours    (not needed for `watchkeeper run`)";
                Finding::advice(what, remedy)
            }
        }
        _ => Finding::problem(
            format!("{what} {shown}: not writable, although this user owns it"),
            format!("chmod u+rwx {shown}"),
        ),
    }
}

pub(super) fn socket(path: &Path) -> Finding {
    use rustix::fs::{Access, access};
    let shown = path.display();
    if !path.exists() {
        return Finding::advice(
            format!("socket {shown}: no runtime is running"),
            format!(
                "{}    (not needed for `watchkeeper run`)",
                how_to_start::start(Path::new("/"), RUNTIME)
            ),
        );
    }
    if access(path, Access::READ_OK | Access::WRITE_OK).is_err() {
        return Finding::problem(
            format!("socket {shown}: permission denied"),
            how_to_start::admission(path),
        );
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Finding::ok(format!("socket {shown}: accepts connections")),
        Err(e) => Finding::problem(
            format!("socket {shown}: the runtime does not accept connections: {e}"),
            how_to_start::restart(Path::new("/"), RUNTIME),
        ),
    }
}

pub(super) fn space(state_dir: &Path) -> Finding {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    match storage::space(state_dir) {
        Ok(space) if space.free < MIN_FREE_BYTES => Finding::problem(
            format!(
                "disk: only {} MiB free for the state folder",
                space.free >> 20
            ),
            "free some space, or lower runtime.media_bytes and runtime.recording_bytes",
        ),
        Ok(space) => Finding::ok(format!("disk: {:.1} GiB free", gib(space.free))),
        Err(e) => Finding::problem(
            format!("disk: {e}"),
            "create the state folder, or set runtime.state_dir",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::folder;

    #[test]
    fn missing_folder_is_ok_if_it_can_be_created() {
        let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
        let deep = dir.path().join("a/b");
        assert_eq!(folder("state folder", &deep).level, Level::Ok);
    }
}
