//! Files of product code have at most 500 lines before their unit tests.
//!
//! - [`EXCEPTIONS`] are named with their reason.
//! - Not here: unit tests and the programs of `tests`; the length of functions (`functions`).

use std::path::Path;

use crate::findings::{Finding, check};
use crate::text::production;
use crate::workspace::{packages, read, sources};

const MAX_LINES: usize = 500;

/// Files and folders that may be longer, with the reason.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "agent/src/fleet/outbox/sim.rs",
    "a simulation for unit tests, declared with `#[cfg(test)]`",
)];

fn is_exception(file: &Path) -> bool {
    EXCEPTIONS.iter().any(|(path, _)| file.starts_with(path))
}

/// Lines of product code, if they are too many.
fn too_many_lines(text: &str) -> Option<usize> {
    let count = production(text).lines().count();
    (count > MAX_LINES).then_some(count)
}

#[test]
fn files_have_at_most_500_lines_of_product_code() -> crate::Outcome {
    let mut findings = Vec::new();
    for package in packages()?
        .iter()
        .filter(|package| !package.folder.starts_with("tests"))
    {
        for file in sources(package).into_iter().filter(|f| !is_exception(f)) {
            let Some(count) = too_many_lines(&read(&file)?) else {
                continue;
            };
            findings.push(Finding {
                file,
                line: MAX_LINES + 1,
                says: format!("{count} lines, {MAX_LINES} are allowed; split it by concern"),
            });
        }
    }
    check("file_lengths", &findings)
}

#[test]
fn only_lines_before_the_unit_tests_count() {
    let code = "step();\n".repeat(MAX_LINES);
    let tests = format!("{code}#[cfg(test)]\nmod tests {{\n{code}}}\n");
    assert_eq!(too_many_lines(&tests), None);
    assert_eq!(too_many_lines(&format!("{code}\n")), Some(MAX_LINES + 1));
}
