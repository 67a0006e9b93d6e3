//! Comments and prose wrap at 100 columns.
//!
//! - In sources: lines that are comments, but for tables, fenced code and single long words.
//! - In documents: lines outside tables and fenced code; the target of a link does not count.
//! - Not here: code (rustfmt), generated documents, data.

use std::path::Path;

use crate::findings::{Finding, check};
use crate::workspace::{files, read};

/// Data of the fuzz targets.
const EXEMPT: &str = "tests/fuzz/seeds";

const MAX_COLUMNS: usize = 100;

/// Finds comment lines of a source that are too long: line and width.
fn long_comments(text: &str) -> Vec<(usize, usize)> {
    let comments = text.lines().enumerate().filter_map(|(index, line)| {
        let said = line.trim_start().strip_prefix("//")?;
        let said = said.trim_start_matches(['/', '!']);
        Some((index + 1, line, said))
    });
    long_lines(comments)
}

/// Finds lines of prose in a document that are too long: line and width.
fn long_prose(text: &str) -> Vec<(usize, usize)> {
    long_lines(
        text.lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line, line)),
    )
}

fn long_lines<'a>(lines: impl Iterator<Item = (usize, &'a str, &'a str)>) -> Vec<(usize, usize)> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (number, line, said) in lines {
        let said = said.trim();
        if said.starts_with("```") {
            is_code = !is_code;
        }
        let width = without_targets(line).chars().count();
        let is_one_word = said.split_whitespace().nth(1).is_none();
        if width > MAX_COLUMNS && !is_code && !said.starts_with('|') && !is_one_word {
            found.push((number, width));
        }
    }
    found
}

/// A line without the targets of its links.
fn without_targets(line: &str) -> String {
    let mut parts = line.split("](");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push(']');
        kept.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    kept
}

pub(crate) fn is_generated(text: &str) -> bool {
    let head: Vec<&str> = text.lines().take(6).collect();
    head.iter()
        .any(|line| line.starts_with("<!--") && line.contains("UPDATE_DOCS"))
}

#[test]
fn comments_and_prose_wrap_at_100_columns() -> crate::Outcome {
    let mut findings = Vec::new();
    for file in files(Path::new("")) {
        if file.starts_with(EXEMPT) {
            continue;
        }
        let extension = file.extension().and_then(|e| e.to_str());
        let long = match extension {
            Some("rs") => long_comments(&read(&file)?),
            Some("md") => {
                let text = read(&file)?;
                if is_generated(&text) {
                    Vec::new()
                } else {
                    long_prose(&text)
                }
            }
            _ => continue,
        };
        for (line, width) in long {
            findings.push(Finding {
                file: file.clone(),
                line,
                says: format!("{width} columns; wrap at {MAX_COLUMNS}"),
            });
        }
    }
    check("columns", &findings)
}

#[cfg(test)]
fn wide(width: usize) -> String {
    "word ".repeat(width / 5)
}

#[test]
fn a_comment_beyond_the_margin_is_found() {
    let text = format!(
        "let x; // {0}\n    /// {0}\n// ```\n// {0}\n// ```\n",
        wide(100)
    );
    assert_eq!(long_comments(&text), [(2, 108)]);
}

#[test]
fn prose_beyond_the_margin_is_found_and_a_link_is_not() {
    let target = "x".repeat(100);
    let text = format!(
        "{}\n| {}\n[a link]({target}) of two words\n",
        wide(105),
        wide(200)
    );
    assert_eq!(long_prose(&text), [(1, 105)]);
}
