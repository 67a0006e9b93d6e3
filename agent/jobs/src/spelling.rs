//! The nearest known name to a misspelt one.

use strsim::damerau_levenshtein;

/// Least number of letters by which the second nearest name must be farther.
const LEAD: usize = 1;

/// Returns the known name that differs by one letter, or by two from eight letters on, if no other
/// name is as near. A name of up to three letters may differ in its case only, and names that
/// differ in a digit are never taken for another.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let letters = lower.chars().count();
    let allowed = match letters {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    };
    // A difference in length is a lower bound of the distance, and much cheaper.
    let has_length = |name: &&str| name.chars().count().abs_diff(letters) <= allowed + LEAD;
    let mut near: Vec<(usize, &str)> = (known.into_iter())
        .filter(has_length)
        .map(|name| (damerau_levenshtein(&lower, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= allowed + LEAD)
        .collect();
    near.sort_unstable();
    near.dedup();
    let (distance, best) = near.first().copied()?;
    let is_clear = near.get(1).is_none_or(|(next, _)| *next >= distance + LEAD);
    (distance <= allowed && is_clear && digits(word) == digits(best)).then_some(best)
}

fn digits(word: &str) -> String {
    word.chars().filter(char::is_ascii_digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_near_and_unique() {
        let known = ["rank", "group", "album", "measure_quality", "list_pictures"];
        let near = |word| nearest(word, known);
        assert_eq!(near("mesure_qualty"), Some("measure_quality"));
        assert_eq!(near("Gruop"), Some("group"));
        for other in ["delete", "copy_pictures", "bank2", "ran"] {
            assert_eq!(near(other), None, "{other}");
        }
    }

    #[test]
    fn short_names_ties_and_numbers_are_not_guessed() {
        assert_eq!(nearest("c", ["a", "b"]), None);
        assert_eq!(nearest("dya", ["day", "hour"]), None);
        assert_eq!(nearest("DAY", ["day", "hour"]), Some("day"));
        assert_eq!(nearest("step3", ["step1", "step30"]), None);
        assert_eq!(nearest("gates", ["gated", "gatee"]), None);
        assert_eq!(nearest("gatse", ["gates", "gate1"]), Some("gates"));
    }
}
