//! A doc comment of one or two words says nothing that the name does not.

use crate::findings::{Finding, check};
use crate::workspace::{packages, read, sources};

const MIN_WORDS: usize = 3;

/// Finds doc comments that are too short: line of the comment and its text.
fn find_short(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut block: Option<(usize, String)> = None;
    for (index, line) in text.lines().chain([""]).enumerate() {
        let line = line.trim_start();
        let doc = line
            .strip_prefix("///")
            .filter(|rest| !rest.starts_with('/'));
        if let Some(doc) = doc {
            let (_, said) = block.get_or_insert_with(|| (index + 1, String::new()));
            said.push_str(doc);
        } else if let Some((line, said)) = block.take() {
            let words = said
                .split_whitespace()
                .filter(|w| w.contains(char::is_alphanumeric));
            if words.count() < MIN_WORDS {
                found.push((line, said.trim().to_owned()));
            }
        }
    }
    found
}

#[test]
fn doc_comments_say_more_than_two_words() -> crate::Outcome {
    let mut findings = Vec::new();
    for package in packages()? {
        for file in sources(&package) {
            for (line, said) in find_short(&read(&file)?) {
                findings.push(Finding {
                    file: file.clone(),
                    line,
                    says: format!("`/// {said}`: say more, or leave it to the name"),
                });
            }
        }
    }
    check("short_docs", &findings)
}

#[test]
fn a_doc_comment_of_two_words_is_found() {
    let text = "/// Its name.\nname: u8,\n/// Of the two\n/// lines.\nline: u8,\n//// no doc\n";
    assert_eq!(find_short(text), [(1, "Its name.".to_owned())]);
}
