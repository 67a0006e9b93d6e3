//! Which processor the box has.

use std::path::Path;

use super::read_text;

/// Keys of `/proc/cpuinfo` that name a processor; the second one is that of Arm.
const KEYS: [&str; 2] = ["model name", "CPU part"];

/// Returns the name of the first processor below `root`, where the kernel names it.
#[must_use]
pub fn model(root: &Path) -> Option<String> {
    let text = read_text(root, "proc/cpuinfo")?;
    KEYS.iter().find_map(|key| value(&text, key))
}

fn value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn processor_is_named_on_both_architectures() {
        let x86 = "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n";
        assert_eq!(
            value(x86, "model name").as_deref(),
            Some("Some CPU @ 2.0GHz")
        );
        let arm = "processor\t: 0\nCPU part\t: 0xd42\n";
        assert_eq!(value(arm, "CPU part").as_deref(), Some("0xd42"));
        assert_eq!(value(arm, "model name"), None);
    }
}
