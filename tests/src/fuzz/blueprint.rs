//! Target `blueprint`: a blueprint file that a user writes for a job of an LLM.
//!
//! - An accepted blueprint stays below the ceiling of its job in tools and budget.
//! - A refused one has errors of one line each, with a field and a remedy.

use watchkeeper_assistant::blueprint::{
    BlueprintName, MAX_BYTES, MAX_INSTRUCTIONS, MAX_WHEN, read,
};

pub(super) fn blueprint(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(name) = BlueprintName::new(text.trim()) {
        assert!(!name.as_str().contains(['/', '.', '\0']));
    }
    for name in ["mine", "triage"] {
        let name = BlueprintName::new(name).expect("a name");
        match read(&name, &text) {
            Ok(read) => {
                assert!(text.len() <= MAX_BYTES);
                assert!(name.as_str() != "triage" || read.job.name() == "triage");
                assert!(
                    read.tools
                        .iter()
                        .all(|tool| read.job.tools().contains(tool))
                );
                assert!(read.tools.contains(&read.job.first_tool()));
                assert!((1..=read.job.max_steps()).contains(&read.steps));
                assert!(read.cost.0 > 0 && read.cost <= read.job.max_cost());
                assert!(read.instructions.len() <= MAX_INSTRUCTIONS);
                assert!((1..=MAX_WHEN).contains(&read.when.chars().count()));
            }
            Err(flaws) => {
                assert!(!flaws.is_empty());
                for flaw in flaws {
                    assert!(!flaw.field.is_empty() && !flaw.remedy.is_empty());
                    let line = flaw.to_string();
                    assert!(
                        !line.contains('\n') && line.chars().count() < 2_000,
                        "{line}"
                    );
                }
            }
        }
    }
}
