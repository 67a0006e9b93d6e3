//! Hints for texts that were not understood: a command without its slash, the archive's verbs.

use crate::proposal::chat_command;

const ARCHIVE: &str = "For the archive: `list archive` and `query WORDS`, `destroy COLLECTION`; \
     `watchkeeper archive --help` shows protect and the other verbs.";

/// Words of requests on the archive.
const NOUNS: [&str; 3] = ["archive", "collection", "collections"];

/// Suggestion of a command that a text, which was not understood, may have meant. `takes_commands`:
/// slash commands are read where it came from.
pub(super) fn hint(text: &str, takes_commands: bool) -> Option<String> {
    let command = takes_commands.then(|| chat_command::without_slash(text));
    let command = command
        .flatten()
        .map(|(name, about)| format!("Did you mean {name} ({about})?"));
    let lower = text.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    let is_verb = matches!(words.clone().next(), Some("protect" | "unprotect"));
    let is_archive = is_verb || words.any(|word| NOUNS.contains(&word));
    let archive = is_archive.then(|| ARCHIVE.to_owned());
    let hints: Vec<String> = command.into_iter().chain(archive).collect();
    (!hints.is_empty()).then(|| hints.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_names_the_command_or_the_verbs_of_the_archive() {
        let history = hint("history", true).unwrap_or_default();
        assert!(
            history.starts_with("Did you mean /history (the steps"),
            "{history}"
        );
        assert_eq!(hint("history", false), None);
        for text in [
            "what is in the archive?",
            "Which collections are there",
            "protect alpha.txt from research",
        ] {
            assert_eq!(hint(text, false).as_deref(), Some(ARCHIVE), "{text}");
        }
        assert_eq!(hint("tell me when a dog comes", true), None);
    }
}
