//! Hints for texts that were not understood: a command without its slash, the archive's verbs, a
//! change of the last job.

use jiff::Zoned;
use watchkeeper_jobs::KnownNames;
use watchkeeper_jobs::planner::Refinement;

use crate::proposal::chat_command;

const ARCHIVE: &str = "For the archive: `list archive` and `query WORDS`, `destroy COLLECTION`; \
     `watchkeeper archive --help` shows protect and the other verbs.";

/// Words of requests on the archive.
const NOUNS: [&str; 3] = ["archive", "collection", "collections"];

/// Suggestion of a command that a text, which was not understood, may have meant. `takes_commands`:
/// slash commands are read where it came from. `last_job`: its ID, if there are jobs.
pub(super) fn hint(text: &str, takes_commands: bool, last_job: Option<&str>) -> Option<String> {
    let command = takes_commands.then(|| chat_command::without_slash(text));
    let command = command
        .flatten()
        .map(|(name, about)| format!("Did you mean {name} ({about})?"));
    let lower = text.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    let is_verb = matches!(words.clone().next(), Some("protect" | "unprotect"));
    let is_archive = is_verb || words.any(|word| NOUNS.contains(&word));
    let archive = is_archive.then(|| ARCHIVE.to_owned());
    let (now, names) = (Zoned::now().datetime(), KnownNames::default());
    let job = last_job.filter(|_| Refinement::read(text, now, &names).is_ok());
    let job = job.map(|id| format!("`watchkeeper job refine` changes job {id} by these words."));
    let hints: Vec<String> = command.into_iter().chain(archive).chain(job).collect();
    (!hints.is_empty()).then(|| hints.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_names_the_command_or_the_verbs_of_the_archive() {
        let history = hint("history", true, None).unwrap_or_default();
        assert!(
            history.starts_with("Did you mean /history (the steps"),
            "{history}"
        );
        assert_eq!(hint("history", false, None), None);
        for text in [
            "what is in the archive?",
            "Which collections are there",
            "protect alpha.txt from research",
        ] {
            assert_eq!(hint(text, false, None).as_deref(), Some(ARCHIVE), "{text}");
        }
        let job = Some("20261130-101500-abc");
        assert_eq!(hint("tell me when a dog comes", true, job), None);
        let change = hint("only 5", true, job).unwrap_or_default();
        assert!(change.contains("job refine` changes job 2026"), "{change}");
        assert_eq!(hint("only 5", true, None), None);
    }
}
