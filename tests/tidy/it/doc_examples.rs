//! Examples in the documentation are run, and no crate without examples is searched for them.
//!
//! - Rustdoc takes seconds for each crate, so `doctest = false` stands in the manifests of crates
//!   without examples.

use crate::workspace::{packages, read, sources};

/// Languages of blocks that are no examples.
const OTHER: [&str; 5] = ["text", "json", "toml", "console", "sh"];

/// Whether a file's documentation has an example that rustdoc would compile.
fn has_example(text: &str) -> bool {
    let mut is_inside = false;
    for line in text.lines() {
        let line = line.trim_start();
        let doc = line
            .strip_prefix("//!")
            .or_else(|| line.strip_prefix("///"));
        let Some(language) = doc.and_then(|doc| doc.trim_start().strip_prefix("```")) else {
            continue;
        };
        if !is_inside && !OTHER.contains(&language.trim()) {
            return true;
        }
        is_inside = !is_inside;
    }
    false
}

#[test]
fn crates_with_examples_run_them_and_others_are_not_searched() -> crate::Outcome {
    let mut wrong = Vec::new();
    for package in packages()? {
        let mut has = false;
        for file in sources(&package) {
            has |= has_example(&read(&file)?);
        }
        if has != package.runs_examples {
            wrong.push(format!(
                "{}: `doctest` in Cargo.toml must be {has}",
                package.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

#[test]
fn example_is_a_block_without_another_language() {
    assert!(has_example("//! ```\n//! let a = 1;\n//! ```\n"));
    assert!(has_example("/// ```no_run\n/// f();\n/// ```\n"));
    assert!(!has_example("//! ```text\n//! a → b\n//! ```\n"));
    assert!(!has_example("let text = \"```\";\n"));
}
