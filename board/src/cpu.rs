//! Which processor the box has.

use std::path::Path;

use super::read_text;

/// Keys of `/proc/cpuinfo` that name a processor; the second one is that of Arm.
const KEYS: [&str; 2] = ["model name", "CPU part"];

/// Returns the name of the first processor below `root`, where the kernel names it.
pub fn model(root: &Path) -> Option<String> {
    let text = read_text(root, "proc/cpuinfo")?;
    KEYS.iter()
        .find_map(|key| Some(value(&text, key)?.to_owned()))
}

/// The first value of a key in the text of `/proc/cpuinfo`.
pub(crate) fn value<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn processor_is_named_on_both_architectures() {
        let x86 = "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n";
        assert_eq!(value(x86, "model name"), Some("Some CPU @ 2.0GHz"));
        let arm = "processor\t: 0\nCPU part\t: 0xd42\n";
        assert_eq!(value(arm, "CPU part"), Some("0xd42"));
        assert_eq!(value(arm, "model name"), None);
    }
}
