//! Words that mean much the same on a site under watch.
//!
//! Invariant: data, not code: `concepts.txt`, one concept a line, its name and then its words. A word may belong to several.

use std::collections::BTreeMap;

use crate::search::terms::stem;

/// Which concepts a word belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Concepts {
    by_stem: BTreeMap<String, Vec<String>>,
}

impl Concepts {
    /// The table that this crate brings along: English, about people, vehicles, places and what happens at a site.
    #[must_use]
    pub fn of_a_site() -> Self {
        Self::parse(include_str!("concepts.txt"))
    }

    /// Reads a table: `name: word word …`, one a line; `#` begins a comment. Any text is one; a line without `:` says nothing.
    #[must_use]
    pub fn parse(text: &str) -> Self {
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

    /// Names of the concepts of a word's stem.
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
