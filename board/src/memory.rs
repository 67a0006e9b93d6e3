//! How much memory a process of this box can use, and the return of what it has freed.
//!
//! Sources: `MemTotal` of `/proc/meminfo`, and the limits of the process's control group and of
//! every group above it, in version 2 (`memory.max`) and 1 (`memory.limit_in_bytes`).

use std::path::{Path, PathBuf};

use super::{kernel, read_text};
use crate::units::Bytes;

/// Returns the bytes of memory that this process can use: those of the machine, or the limit of a
/// control group if that is less.
pub fn limit(root: &Path) -> Option<u64> {
    let groups = read_text(root, "proc/self/cgroup").unwrap_or_default();
    let groups = groups.lines().filter_map(|line| group_limit(root, line));
    total(root).into_iter().chain(groups).min()
}

/// Returns freed memory to the kernel. The allocator keeps most of what many threads have freed. 60
/// pipelines took 308 MB, and 233 MB of it stayed without this call, 62 MB with it.
pub fn release_freed() {
    kernel::trim_heap();
}

/// Bytes of memory of the machine.
fn total(root: &Path) -> Option<u64> {
    let text = read_text(root, "proc/meminfo")?;
    Some(kibibytes(&text, "MemTotal:")?.0)
}

/// The value of a key with its colon in the text of `/proc/meminfo`.
pub(crate) fn kibibytes(meminfo: &str, key: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024).map(Bytes)
}

/// The lowest limit of a group, given as a line of `/proc/self/cgroup`, and of those above it.
fn group_limit(root: &Path, line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, group) = (fields.next()?, fields.next()?);
    let (folder, file) = if controllers.is_empty() {
        ("sys/fs/cgroup", "memory.max")
    } else if controllers.split(',').any(|name| name == "memory") {
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        return None;
    };
    let limit_of = |group: &Path| {
        let path: PathBuf = [Path::new(folder), group, Path::new(file)].iter().collect();
        // `max` means no limit.
        read_text(root, path.to_str()?)?.parse::<u64>().ok()
    };
    let group = Path::new(group.trim_start_matches('/'));
    group.ancestors().filter_map(limit_of).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::board;

    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:        2048000 kB\nMemFree:          100000 kB\n",
    );

    #[test]
    fn machine_without_groups_has_its_whole_memory() {
        assert_eq!(limit(board(&[MEMINFO]).path()), Some(2_048_000 * 1024));
        assert_eq!(limit(board(&[]).path()), None);
    }

    #[test]
    fn lowest_limit_of_the_groups_above_applies() {
        let root = board(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/system.slice/w.service\n"),
            ("sys/fs/cgroup/system.slice/w.service/memory.max", "max\n"),
            ("sys/fs/cgroup/system.slice/memory.max", "500000\n"),
        ]);
        assert_eq!(limit(root.path()), Some(500_000));
        let root = board(&[
            MEMINFO,
            ("proc/self/cgroup", "5:cpu:/a\n4:memory,x:/a\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "700000\n"),
            ("sys/fs/cgroup/cpu/a/memory.limit_in_bytes", "1\n"),
        ]);
        assert_eq!(limit(root.path()), Some(700_000));
    }

    #[test]
    fn this_machine_has_a_limit() {
        assert!(limit(Path::new("/")).is_some_and(|bytes| bytes > 64 << 20));
    }
}
