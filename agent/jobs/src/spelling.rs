//! The nearest known name to a misspelt one.

use strsim::damerau_levenshtein;

/// Returns the known name that differs by the fewest letters, if these are at most a third of
/// `word`'s and no other name is as near.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let allowed = (lower.chars().count() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    let mut is_tie = false;
    for name in known {
        let distance = damerau_levenshtein(&lower, &name.to_lowercase());
        match best {
            Some((least, _)) if distance > least => {}
            Some((least, other)) if distance == least => is_tie |= other != name,
            _ => {
                best = Some((distance, name));
                is_tie = false;
            }
        }
    }
    best.filter(|(distance, _)| *distance <= allowed && !is_tie)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_near_and_unique() {
        let known = ["rank", "group", "album", "measure_quality"];
        let near = |word| nearest(word, known);
        assert_eq!(near("mesure_qualty"), Some("measure_quality"));
        assert_eq!(near("Gruop"), Some("group"));
        assert_eq!(near("delete"), None);
        assert_eq!(nearest("ab", ["ac", "ad"]), None);
    }
}
