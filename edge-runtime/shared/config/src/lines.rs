//! The line of each key in the file.
//!
//! Figment knows the file of a value, not the line; the spans of the TOML parser do. A path that is
//! not in the file gets the line of the nearest section around it.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

/// Line numbers by path, such as `pipelines.gate.rules[0].when`; the first line is 1.
#[derive(Debug, Default)]
pub(crate) struct Lines(BTreeMap<String, usize>);

impl Lines {
    /// Reads a file that is known to be TOML.
    pub(crate) fn from_toml(text: &str) -> Self {
        let mut lines = BTreeMap::new();
        if let Ok(table) = DeTable::parse(text) {
            walk(text, "", table.get_ref(), &mut lines);
        }
        Self(lines)
    }

    /// Finds the line of `path`, else of what it is part of.
    pub(crate) fn find(&self, path: &str) -> Option<usize> {
        let mut path = path;
        loop {
            if let Some(line) = self.0.get(path) {
                return Some(*line);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }
}

fn walk(text: &str, prefix: &str, table: &DeTable<'_>, lines: &mut BTreeMap<String, usize>) {
    for (key, value) in table {
        let path = match prefix {
            "" => key.get_ref().to_string(),
            _ => format!("{prefix}.{}", key.get_ref()),
        };
        lines.insert(path.clone(), line(text, key.span().start));
        inside(text, &path, value.get_ref(), lines);
    }
}

fn inside(text: &str, path: &str, value: &DeValue<'_>, lines: &mut BTreeMap<String, usize>) {
    match value {
        DeValue::Table(table) => walk(text, path, table, lines),
        DeValue::Array(items) => {
            for (nth, item) in items.iter().enumerate() {
                let path = format!("{path}[{nth}]");
                lines.insert(path.clone(), line(text, item.span().start));
                inside(text, &path, item.get_ref(), lines);
            }
        }
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => {}
    }
}

/// Returns the line of a byte.
pub(crate) fn line(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before.filter(|b| **b == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_tables_inline_tables_and_lists_of_tables() {
        let lines = Lines::from_toml(
            "[box]\nsite = \"s\"\n\n[[pipelines.p.rules]]\nname = \"a\"\n\n[[pipelines.p.rules]]\nname = \"b\"\nwhen = { kind = \"enters\", zone = \"z\" }\n",
        );
        for (path, line) in [
            ("box.site", Some(2)),
            ("pipelines.p.rules[0].name", Some(5)),
            ("pipelines.p.rules[1].when.zone", Some(9)),
            ("nothing.here", None),
        ] {
            assert_eq!(lines.find(path), line, "{path}");
        }
    }

    #[test]
    fn missing_key_is_found_at_its_section() {
        let lines = Lines::from_toml("\n\n[sources.gate]\npace = \"fast\"\n");
        assert_eq!(lines.find("sources.gate.uri"), Some(3));
    }
}
