//! The sans-IO parts read no clock, open nothing and draw no randomness.

use std::path::{Path, PathBuf};

use crate::text::code_lines;
use crate::workspace::{packages, read, root, sources};

const FORBIDDEN: [&str; 9] = [
    "Instant::now",
    "SystemTime::now",
    "Timestamp::now",
    "Zoned::now",
    "std::fs",
    "std::net",
    "std::thread",
    "fastrand::",
    "HashMap",
];

/// Crates and folders without IO.
const BRAINS: [&str; 9] = [
    "edge-runtime/demo/src",
    "edge-runtime/engine/src",
    "edge-runtime/vision/src",
    "agent/llm/src",
    "agent/memory/src",
    "agent/plain/src",
    "agent/assistant/src/proposal",
    "agent/src/second_opinion",
    "agent/src/connectors/queue.rs",
];

/// The shells within them: files and folders that do the IO for the rest.
const SHELLS: [&str; 6] = [
    "agent/llm/src/client",
    "agent/llm/src/key.rs",
    "agent/memory/src/folder",
    "agent/memory/src/neural/folder.rs",
    "agent/assistant/src/proposal/pending.rs",
    "agent/src/second_opinion/asker.rs",
];

fn find_io(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (number, line) in code_lines(text) {
        for word in FORBIDDEN {
            // A seeded generator is data; the global one is not.
            let is_seeded = word == "fastrand::" && line.contains("fastrand::Rng");
            if line.contains(word) && !is_seeded {
                found.push((number, word));
            }
        }
    }
    found
}

fn is_in(file: &Path, parts: &[&str]) -> bool {
    parts.iter().any(|part| file.starts_with(part))
}

#[test]
fn sans_io_parts_do_no_io() -> crate::Outcome {
    for part in BRAINS.iter().chain(&SHELLS) {
        assert!(
            root().join(part).exists(),
            "{part} has moved: say so in tests/tidy/it/sans_io.rs"
        );
    }
    let files: Vec<PathBuf> = packages()?.iter().flat_map(sources).collect();
    let mut found = Vec::new();
    for file in files {
        if is_in(&file, &BRAINS) && !is_in(&file, &SHELLS) {
            for (number, word) in find_io(&read(&file)?) {
                found.push(format!(
                    "{}:{number}: {word} in a sans-IO part",
                    file.display()
                ));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

#[test]
fn a_clock_is_found_and_a_seeded_generator_is_not() {
    let text = "let t = Instant::now();\nlet r = fastrand::Rng::with_seed(1);\nfastrand::u8(..);\n";
    assert_eq!(find_io(text), [(1, "Instant::now"), (3, "fastrand::")]);
}
