//! Video devices of the machine.

use std::path::Path;

/// Lists the video devices, such as `/dev/video0`, by number.
pub fn devices(root: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(root.join("dev")) else {
        return Vec::new();
    };
    let mut found: Vec<(u32, std::path::PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let number = path
                .file_name()?
                .to_str()?
                .strip_prefix("video")?
                .parse()
                .ok()?;
            Some((number, path))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::board;

    #[test]
    fn video_devices_are_listed_by_number() {
        let root = board(&[
            ("dev/video10", ""),
            ("dev/video2", ""),
            ("dev/videocodec", ""),
            ("dev/null", ""),
        ]);
        let names: Vec<String> = devices(root.path())
            .iter()
            .filter_map(|p| Some(p.file_name()?.to_str()?.to_owned()))
            .collect();
        assert_eq!(names, ["video2", "video10"]);
    }
}
