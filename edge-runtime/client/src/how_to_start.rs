//! How a person starts one of the daemons on this machine, for messages that say what to do.
//!
//! Invariant: a unit is named only where its file is installed and systemd runs.

use std::path::Path;

/// Folders that systemd reads units from, by falling precedence (systemd.unit(5), "Unit File Load Path").
const UNIT_FOLDERS: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// Whether `daemon` is a service of the machine whose file system begins at `root`.
#[must_use]
pub fn is_installed(root: &Path, daemon: &str) -> bool {
    // How sd_booted(3) finds out.
    let is_booted = root.join("run/systemd/system").is_dir();
    let unit = format!("{daemon}.service");
    let has_unit = |folder: &&str| root.join(folder).join(&unit).is_file();
    is_booted && UNIT_FOLDERS.iter().any(has_unit)
}

/// The command that starts `daemon`.
#[must_use]
pub fn start(root: &Path, daemon: &str) -> String {
    if is_installed(root, daemon) {
        format!("sudo systemctl start {daemon}")
    } else {
        format!("{daemon} --config FILE")
    }
}

/// The command that starts `daemon` anew where it hangs or has died.
#[must_use]
pub fn restart(root: &Path, daemon: &str) -> String {
    start(root, daemon).replace("systemctl start", "systemctl restart")
}

/// Where the log of `daemon` is.
#[must_use]
pub fn log(root: &Path, daemon: &str) -> String {
    if is_installed(root, daemon) {
        format!("`journalctl -u {daemon}`")
    } else {
        format!("what {daemon} wrote to its standard error")
    }
}

/// What lets this user open the socket of the runtime.
#[must_use]
pub fn admission(socket: &Path) -> String {
    match group_of(socket).as_str() {
        // Whoever is in that group may do far more than look at a camera.
        "root" | "0" => "use sudo, or run the daemons as a user of their own".to_owned(),
        group => format!(
            "use sudo, or join the group that owns it (`sudo usermod -aG {group} $(id -un)`, then log in again)"
        ),
    }
}

/// Name of the group that owns the socket, as `/etc/group` has it; else its number, else the one of an installation.
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
    fn nobody_is_told_to_join_the_group_of_root() {
        let socket = tempfile::NamedTempFile::new().unwrap();
        let group = group_of(socket.path());
        let said = admission(socket.path());
        assert_eq!(said.contains("usermod"), group != "root", "{group}: {said}");
        let absent = admission(Path::new("/no/such.sock"));
        assert!(absent.contains("usermod -aG watchkeeper"), "{absent}");
    }

    #[test]
    fn a_unit_is_named_only_where_it_is_installed_and_systemd_runs() {
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
