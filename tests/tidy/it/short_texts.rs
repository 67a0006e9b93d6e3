//! Sentences of comments and documents, and names of tests, are short.
//!
//! - A semicolon does not end a sentence; a line of a table, a heading or a list does.
//! - Not here: generated documents.

use std::path::Path;

use crate::columns::is_generated;
use crate::findings::{Finding, check};
use crate::workspace::{files, read};

/// Returns the line and size of each sentence or name of a text.
type Measure = fn(&str) -> Vec<(usize, usize)>;

/// Rules with their limit.
const RULES: [(&str, Measure, usize); 2] = [
    ("words in a sentence", measure_sentences, 25),
    ("characters in a test's name", measure_names, 60),
];

fn measure_sentences(text: &str) -> Vec<(usize, usize)> {
    let (mut found, mut count, mut is_code) = (Vec::new(), 0, false);
    for (index, line) in text.lines().chain([""]).enumerate() {
        let comment = line.trim_start().strip_prefix("//").unwrap_or_default();
        let said = comment.trim_start_matches(['/', '!']);
        let first = said.split_whitespace().next().unwrap_or("#");
        is_code = !comment.is_empty() && (is_code ^ first.starts_with("```"));
        let is_text = !first.starts_with(['#', '|']) && !first.ends_with("]:");
        let is_prose = !is_code && !said.starts_with("     ") && is_text;
        let is_border = !is_prose || ["-", "*"].contains(&first);
        let words = said.split_whitespace().filter(|_| is_prose);
        for word in is_border.then_some(".").into_iter().chain(words) {
            count += usize::from(word.contains(char::is_alphanumeric));
            let end = word.trim_end_matches(['`', ')', '"', '”', '*']);
            if end.ends_with(['.', '!', '?']) {
                found.push((index + 1, std::mem::take(&mut count)));
            }
        }
    }
    found
}

fn measure_names(text: &str) -> Vec<(usize, usize)> {
    let (mut found, mut is_test) = (Vec::new(), false);
    for (index, line) in text.lines().map(str::trim).enumerate() {
        is_test |= line.starts_with("#[") && (line.contains("test]") || line.contains("test("));
        if let Some((_, name)) = line.split_once("fn ").filter(|_| is_test) {
            is_test = false;
            found.push((index + 1, name.find(['(', '<']).unwrap_or_default()));
        }
    }
    found
}

/// Writes a document as one comment with its front matter as code; a generated one is empty.
fn as_comment(document: &str) -> String {
    let document = if is_generated(document) { "" } else { document };
    let lines = document.lines().map(|line| line.replace("+++", "```"));
    lines.fold(String::new(), |text, line| text + "// " + &line + "\n")
}

#[test]
fn sentences_and_names_of_tests_are_short() -> crate::Outcome {
    for (rule, measure, limit) in RULES {
        let mut findings = Vec::new();
        for file in files(Path::new("")) {
            let text = match file.extension().and_then(|extension| extension.to_str()) {
                Some("rs") => read(&file)?,
                Some("md") => as_comment(&read(&file)?),
                _ => continue,
            };
            let sizes = measure(&text);
            let long = sizes.into_iter().filter(|(_, size)| *size > limit);
            findings.extend(long.map(|(line, size)| Finding {
                file: file.clone(),
                line,
                says: format!("{size} {rule}, {limit} are allowed"),
            }));
        }
        check(rule, &findings)?;
    }
    Ok(())
}

#[test]
fn sentences_end_at_borders_and_names_belong_to_tests() {
    let found = measure_sentences("/// A b. `C\n/// d.` e\n// - f; g\n// ```\n// i\n");
    assert_eq!(found, [(1, 2), (2, 2), (3, 1), (4, 2), (5, 0), (6, 0)]);
    let found = measure_sentences(&as_comment("+++\na\n+++\nA b\n- c *d.*\n\n    e\n[x]: y\n"));
    let sizes: Vec<usize> = found.iter().map(|(_, size)| *size).collect();
    assert_eq!(sizes, [0, 0, 2, 2, 0, 0, 0, 0]);
    let found = measure_names("#[test]\nfn a() {}\nfn b() {}\n#[x::test]\nasync fn cd<T>() {}\n");
    assert_eq!(found, [(2, 1), (5, 2)]);
}
