//! Plurals and their singulars.

/// Makes the likeliest singular of a plural: cars, deliveries, buses, horses, knives.
pub fn singular(word: &str) -> String {
    /// Ends of words in "s", whose plural is "ses"; the others lose the "s": horses, vases.
    const IN_S: [&str; 5] = ["ss", "bus", "gas", "lens", "virus"];
    let stem = |end: &str| word.strip_suffix(end).filter(|stem| stem.len() > 1);
    match word {
        "people" => return "person".to_owned(),
        "children" => return "child".to_owned(),
        _ => {}
    }
    for (plural, one) in [
        ("knives", "knife"),
        ("wolves", "wolf"),
        ("shelves", "shelf"),
    ] {
        if let Some(before) = word.strip_suffix(plural) {
            return format!("{before}{one}");
        }
    }
    if let Some(stem) = stem("ies") {
        return format!("{stem}y");
    }
    if let Some(in_s) = stem("es") {
        let is_whole = IN_S.iter().any(|end| in_s.ends_with(end));
        if is_whole || ["x", "ch", "sh"].iter().any(|end| in_s.ends_with(end)) {
            return in_s.to_owned();
        }
    }
    match stem("s") {
        Some(stem) if !stem.ends_with('s') => stem.to_owned(),
        _ => word.to_owned(),
    }
}

/// A word and all that it may be the plural of, the likeliest first: for a look-up among names.
pub fn singulars(word: &str) -> impl Iterator<Item = String> {
    let stem = |end: &str, with: &str| Some(format!("{}{with}", word.strip_suffix(end)?));
    let derived = [
        Some(singular(word)),
        stem("s", ""),
        stem("es", ""),
        stem("ves", "f"),
        stem("ves", "fe"),
    ];
    let derived = derived.into_iter().flatten();
    std::iter::once(word.to_owned()).chain(derived.filter(|form| form.len() > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plural_has_its_singular() {
        for (plural, single) in [
            ("cars", "car"),
            ("people", "person"),
            ("deliveries", "delivery"),
            ("buses", "bus"),
            ("minibuses", "minibus"),
            ("glasses", "glass"),
            ("horses", "horse"),
            ("vases", "vase"),
            ("houses", "house"),
            ("boxes", "box"),
            ("benches", "bench"),
            ("toothbrushes", "toothbrush"),
            ("knives", "knife"),
            ("gloves", "glove"),
            ("ties", "tie"),
            ("glass", "glass"),
        ] {
            assert_eq!(singular(plural), single);
            assert!(singulars(plural).any(|form| form == single), "{plural}");
        }
        assert!(singulars("scarves").any(|form| form == "scarf"));
        // A name of one letter is itself.
        assert!(singulars("b").eq(["b"]));
        assert!(!singulars("as").any(|form| form == "a"));
    }
}
