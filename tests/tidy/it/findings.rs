//! Places where a rule is broken, and the report of them.

use std::path::PathBuf;

/// A place where a rule is broken.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    pub(crate) says: String,
}

/// Fails on findings and lists the first of them.
pub(crate) fn check(rule: &str, findings: &[Finding]) -> crate::Outcome {
    const SHOWN: usize = 60;
    if findings.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = findings.iter().take(SHOWN).map(describe).collect();
    let count = findings.len();
    let findings = if count == 1 { "finding" } else { "findings" };
    Err(format!("{rule}: {count} {findings}\n{}", shown.join("\n")).into())
}

fn describe(finding: &Finding) -> String {
    let file = finding.file.display();
    format!("{file}:{}: {}", finding.line, finding.says)
}

#[test]
fn a_finding_fails_with_its_place() {
    let finding = Finding {
        file: "a/b.rs".into(),
        line: 3,
        says: "`x`".to_owned(),
    };
    let error = check("words", &[finding]).expect_err("one finding");
    assert_eq!(error.to_string(), "words: 1 finding\na/b.rs:3: `x`");
    assert!(check("words", &[]).is_ok());
}
