//! Relative links of documents lead to a file, and anchors to a heading of it.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::workspace::{files, read, root};

/// The relative links of a document: line, path and anchor.
fn links(text: &str) -> Vec<(usize, &str, &str)> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        // Text in backticks is code.
        let inline = line.split('`').step_by(2).flat_map(link_targets);
        for target in inline.chain(definition_target(line)) {
            if !target.contains("://") && !target.starts_with("mailto:") {
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                found.push((index + 1, path, anchor));
            }
        }
    }
    found
}

/// The target of a reference definition, `[label]: target`.
fn definition_target(line: &str) -> Option<&str> {
    let (_, target) = line.strip_prefix('[')?.split_once("]: ")?;
    target.split_whitespace().next()
}

fn link_targets(piece: &str) -> impl Iterator<Item = &str> {
    piece
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split_whitespace().next().unwrap_or_default())
}

/// The anchors of the headings of a document, as web front ends of git make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let title = line.trim_start_matches('#');
        if is_code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let slug: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let mut anchor = slug.clone();
        let mut again = 1;
        while !found.insert(anchor) {
            anchor = format!("{slug}-{again}");
            again += 1;
        }
    }
    found
}

/// Joins a link to the folder of its document, without `..`.
fn join(folder: &Path, link: &str) -> PathBuf {
    let mut joined = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => {
                joined.pop();
            }
            Component::CurDir => {}
            part => joined.push(part),
        }
    }
    joined
}

fn complaint(file: &Path, text: &str, path: &str, anchor: &str) -> Option<String> {
    let target = if path.is_empty() {
        file.to_path_buf()
    } else {
        join(file.parent().unwrap_or(Path::new("")), path)
    };
    if !root().join(&target).exists() {
        return Some(format!("{} is not there", target.display()));
    }
    if anchor.is_empty() || target.extension().is_none_or(|e| e != "md") {
        return None;
    }
    let has = if path.is_empty() {
        anchors(text)
    } else {
        anchors(&read(&target).unwrap_or_default())
    };
    (!has.contains(anchor)).then(|| format!("{} has no heading #{anchor}", target.display()))
}

#[test]
fn relative_links_of_documents_lead_somewhere() -> crate::Outcome {
    let mut wrong = Vec::new();
    for file in files(Path::new("")) {
        if file.extension().is_none_or(|e| e != "md") {
            continue;
        }
        let text = read(&file)?;
        for (line, path, anchor) in links(&text) {
            if let Some(says) = complaint(&file, &text, path, anchor) {
                wrong.push(format!("{}:{line}: {says}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn a_link_to_nothing_is_a_complaint() {
    let text = "# One `thing`, two\n[a](nowhere.md) `[b](code.md)` [`c`](#one-thing-two) [d](#three)\n\
         [e]: absent.md\n";
    let said: Vec<String> = links(text)
        .iter()
        .filter_map(|(_, path, anchor)| complaint(Path::new("README.md"), text, path, anchor))
        .collect();
    assert_eq!(
        said,
        [
            "nowhere.md is not there",
            "README.md has no heading #three",
            "absent.md is not there"
        ]
    );
}
