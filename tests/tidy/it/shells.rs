//! Only named places hold unsafe code and kernel paths; no place holds a queue without bound.

use std::path::{Path, PathBuf};

use crate::text::find_words;
use crate::workspace::{packages, read, sources};

/// A word of code with the places that may write it.
struct Rule {
    words: &'static [&'static str],
    allowed: &'static [&'static str],
    says: &'static str,
}

const RULES: [Rule; 3] = [
    Rule {
        words: &["unbounded_channel", "mpsc::channel()", "unbounded()"],
        allowed: &[],
        says: "every queue has a size",
    },
    Rule {
        words: &["\"/sys/"],
        allowed: &["board"],
        says: "paths below /sys belong to board",
    },
    Rule {
        words: &["unsafe {", "allow(unsafe_code)"],
        allowed: &[
            "board/src/camera/ioctl.rs",
            "board/src/kernel.rs",
            "edge-runtime/src/main.rs",
            "edge-runtime/trt/src/cuda.rs",
            "edge-runtime/trt/src/ffi.rs",
            "edge-runtime/trt/src/symbols.rs",
            "tests/fake-trt/src/lib.rs",
        ],
        says: "unsafe code outside the named shells",
    },
];

fn broken(file: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for Rule {
        words,
        allowed,
        says,
    } in &RULES
    {
        if allowed.iter().any(|place| file.starts_with(place)) {
            continue;
        }
        for (number, word) in find_words(text, words) {
            found.push(format!("{}:{number}: {word}; {says}", file.display()));
        }
    }
    found
}

#[test]
fn unsafe_code_kernel_paths_and_queues_keep_their_rules() -> crate::Outcome {
    let files: Vec<PathBuf> = packages()?.iter().flat_map(sources).collect();
    let mut found = Vec::new();
    for file in files {
        found.extend(broken(&file, &read(&file)?));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

#[test]
fn each_rule_refuses_what_it_names() {
    let text = "let (a, b) = mpsc::channel();\nread(\"/sys/class\");\nunsafe { x() }\n";
    assert_eq!(broken(Path::new("agent/src/x.rs"), text).len(), 3);
    assert_eq!(broken(Path::new("board/src/kernel.rs"), text).len(), 1);
}
