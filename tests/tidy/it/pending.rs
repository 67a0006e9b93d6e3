//! Folders that do not keep a rule yet: `pending.toml`.
//!
//! - The longest listed folder that holds a file decides about it; `.` holds every file.
//! - An entry without a finding is stale and fails the test, so the list only shrinks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::workspace::root;

/// A place where a rule is broken.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    pub(crate) says: String,
}

/// Reads the folders listed for `rule`.
fn folders(list: &str, rule: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let table: toml::Table = list.parse()?;
    let entries = table.get(rule).and_then(toml::Value::as_array);
    Ok(entries
        .into_iter()
        .flatten()
        .filter_map(toml::Value::as_str)
        .map(str::to_owned)
        .collect())
}

fn holds(folder: &str, file: &Path) -> bool {
    folder == "." || file.starts_with(folder)
}

/// Returns the findings outside the listed folders, and the folders without any.
fn judge<'a>(
    findings: &'a [Finding],
    folders: &'a [String],
) -> (Vec<&'a Finding>, Vec<&'a String>) {
    let mut used = BTreeSet::new();
    let mut open = Vec::new();
    for finding in findings {
        let holding = folders.iter().filter(|folder| holds(folder, &finding.file));
        match holding.max_by_key(|folder| folder.len()) {
            Some(folder) => {
                used.insert(folder);
            }
            None => open.push(finding),
        }
    }
    let stale = folders.iter().filter(|folder| !used.contains(folder));
    (open, stale.collect())
}

/// Fails on findings outside the folders listed for `rule`, and on stale entries.
#[expect(clippy::print_stderr, reason = "shows what is pending")]
pub(crate) fn check(rule: &str, findings: &[Finding]) -> crate::Outcome {
    const SHOWN: usize = 60;
    let mut folders = folders(include_str!("pending.toml"), rule)?;
    // Crates that are about to be cut out of others.
    folders.retain(|folder| root().join(folder).exists());
    let (open, stale) = judge(findings, &folders);
    let pending = findings.len() - open.len();
    eprintln!(
        "{rule}: {pending} findings in {} pending folders",
        folders.len()
    );
    for finding in findings {
        eprintln!("{}", line(finding));
    }
    let shown: Vec<String> = open.iter().take(SHOWN).map(|f| line(f)).collect();
    assert!(
        open.is_empty(),
        "{rule}: {} findings\n{}",
        open.len(),
        shown.join("\n")
    );
    assert!(
        stale.is_empty(),
        "tests/tidy/it/pending.toml: `{rule}` holds in {stale:?}; remove the entry"
    );
    Ok(())
}

fn line(finding: &Finding) -> String {
    format!(
        "{}:{}: {}",
        finding.file.display(),
        finding.line,
        finding.says
    )
}

#[cfg(test)]
fn finding(file: &str) -> Finding {
    Finding {
        file: file.into(),
        line: 1,
        says: String::new(),
    }
}

#[test]
fn a_finding_outside_the_listed_folders_is_open() {
    let findings = [finding("a/b.rs"), finding("c.rs")];
    let folders = ["a".to_owned()];
    let (open, stale) = judge(&findings, &folders);
    assert_eq!(open.len(), 1);
    assert!(stale.is_empty());
}

#[test]
fn a_listed_folder_without_findings_is_stale() {
    let findings = [finding("a/b/c.rs")];
    let folders = ["a".to_owned(), "a/b".to_owned()];
    let (open, stale) = judge(&findings, &folders);
    assert!(open.is_empty());
    assert_eq!(stale, ["a"]);
}
