//! Commands for messages: how a user starts a daemon, finds its log or gets access to the socket.
//!
//! Invariant: a systemd unit is named only if its file is installed and systemd runs.

use std::path::Path;

/// Unit folders of systemd by falling precedence (systemd.unit(5), "Unit File Load Path").
const UNIT_FOLDERS: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// Returns whether `daemon` is a systemd service; `root` is the root of the file system.
pub fn is_installed(root: &Path, daemon: &str) -> bool {
    // The test of sd_booted(3).
    let is_booted = root.join("run/systemd/system").is_dir();
    let unit = format!("{daemon}.service");
    let has_unit = |folder: &&str| root.join(folder).join(&unit).is_file();
    is_booted && UNIT_FOLDERS.iter().any(has_unit)
}

/// Returns the command that starts `daemon`.
#[must_use]
pub fn start(root: &Path, daemon: &str) -> String {
    if is_installed(root, daemon) {
        format!("sudo systemctl start {daemon}")
    } else {
        format!("{daemon} --config FILE")
    }
}

/// Returns the command that restarts a hanging or dead `daemon`.
pub fn restart(root: &Path, daemon: &str) -> String {
    start(root, daemon).replace("systemctl start", "systemctl restart")
}

/// Returns the place of the log of `daemon`.
pub fn log(root: &Path, daemon: &str) -> String {
    if is_installed(root, daemon) {
        format!("`journalctl -u {daemon}`")
    } else {
        format!("standard error of {daemon}")
    }
}

/// Returns how this user gets access to the socket of the runtime.
pub fn admission(socket: &Path) -> String {
    match group_of(socket).as_str() {
        // The group root has far more rights than access to a camera.
        "root" | "0" => "use sudo, or run the daemons as their own user".to_owned(),
        group => format!(
            "use sudo, or join the group of the socket (`sudo usermod -aG {group} $(id -un)`, then log in again)"
        ),
    }
}

/// Returns the socket's group by its name in `/etc/group`, else its number; `watchkeeper` without a
/// socket.
fn group_of(socket: &Path) -> String {
    use std::os::unix::fs::MetadataExt;
    let Ok(found) = socket.metadata() else {
        return "watchkeeper".to_owned();
    };
    let gid = found.gid().to_string();
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let name = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == gid).then(|| name.to_owned())
    });
    name.unwrap_or(gid)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use super::*;

    #[test]
    fn group_of_root_is_never_recommended() {
        let socket = tempfile::NamedTempFile::new().unwrap();
        let group = group_of(socket.path());
        let advice = admission(socket.path());
        assert_eq!(
            advice.contains("usermod"),
            group != "root",
            "{group}: {advice}"
        );
        let absent = admission(Path::new("/no/such.sock"));
        assert!(absent.contains("usermod -aG watchkeeper"), "{absent}");
    }

    #[test]
    fn unit_is_named_only_if_installed_under_systemd() {
        let root = tempfile::tempdir().unwrap();
        let daemon = "watchkeeper-runtime";
        let by_hand = "watchkeeper-runtime --config FILE";
        assert_eq!(start(root.path(), daemon), by_hand);
        std::fs::create_dir_all(root.path().join("run/systemd/system")).unwrap();
        assert_eq!(start(root.path(), daemon), by_hand);
        let units = root.path().join("usr/lib/systemd/system");
        std::fs::create_dir_all(&units).unwrap();
        std::fs::write(units.join("watchkeeper-runtime.service"), "").unwrap();
        assert_eq!(
            start(root.path(), daemon),
            "sudo systemctl start watchkeeper-runtime"
        );
        assert_eq!(
            restart(root.path(), daemon),
            "sudo systemctl restart watchkeeper-runtime"
        );
        assert_eq!(
            log(root.path(), daemon),
            "`journalctl -u watchkeeper-runtime`"
        );
    }
}
