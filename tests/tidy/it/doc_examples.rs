//! Doc comments have no examples, because no test step compiles them: a unit test shows the use.
//!
//! `cargo test --doc` took two and a half minutes on two cores for three examples.

use crate::findings::{Finding, check};
use crate::workspace::{packages, read, sources};

/// Finds code blocks that rustdoc would compile: the line of each opening fence.
fn find_examples(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or(line.strip_prefix("//!"));
        let Some(fence) = doc.and_then(|doc| doc.trim().strip_prefix("```")) else {
            continue;
        };
        // Blocks with another tag, such as `text` or `json`, are not compiled.
        let is_rust = fence.is_empty() || fence.starts_with("rust") || fence.contains("no_run");
        if !is_inside && is_rust {
            found.push(index + 1);
        }
        is_inside = !is_inside;
    }
    found
}

#[test]
fn doc_comments_have_no_untested_examples() -> crate::Outcome {
    let mut findings = Vec::new();
    for package in packages()? {
        for file in sources(&package) {
            for line in find_examples(&read(&file)?) {
                findings.push(Finding {
                    file: file.clone(),
                    line,
                    says: "an example that no test runs: make it a unit test, or tag it `text`"
                        .to_owned(),
                });
            }
        }
    }
    check("doc_examples", &findings)
}

#[test]
fn only_opening_fences_of_rust_are_found() {
    let text = "/// ```\n/// f();\n/// ```\n//! ```text\n//! a\n//! ```\n//! ```no_run\n//! ```\n";
    assert_eq!(find_examples(text), [1, 7]);
}
