//! Synonyms on a site under watch, from `concepts.txt`: one concept a line, its name and its words.

use std::collections::BTreeMap;

use crate::search::terms::stem;

/// Concepts by the stems of their words; a word may belong to several.
#[derive(Debug, Clone)]
pub(super) struct Concepts {
    by_stem: BTreeMap<String, Vec<String>>,
}

impl Concepts {
    /// Returns the built-in English table about people, vehicles, places and events at a site.
    pub(super) fn of_a_site() -> Self {
        Self::parse(include_str!("concepts.txt"))
    }

    /// Parses a table of lines `name: word word …`; `#` begins a comment, other lines are ignored.
    fn parse(text: &str) -> Self {
        let mut by_stem: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in text.lines() {
            let line = line.split_once('#').map_or(line, |(before, _)| before);
            let Some((name, words)) = line.split_once(':') else {
                continue;
            };
            for word in words.split_whitespace() {
                let concepts = by_stem.entry(stem(&word.to_lowercase())).or_default();
                let name = name.trim().to_owned();
                if !concepts.contains(&name) {
                    concepts.push(name);
                }
            }
        }
        Self { by_stem }
    }

    pub(super) fn of(&self, stem: &str) -> &[String] {
        self.by_stem.get(stem).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inflections_share_the_concepts_of_their_stem() {
        let table = Concepts::parse("# a comment\nlorry: truck vans # more\nmove: drive\n");
        assert_eq!(table.of(&stem("trucks")), ["lorry"]);
        assert_eq!(table.of(&stem("van")), ["lorry"]);
        assert_eq!(table.of(&stem("driving")), ["move"]);
        assert!(table.of("comment").is_empty());
    }
}
