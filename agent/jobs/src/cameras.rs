//! The names that requests may use: those of a box's cameras, rules and zones, and the classes of
//! its detectors.
//!
//! - Case and the characters between the words of a name do not matter.
//! - A name that two cameras have means neither.

use std::collections::BTreeSet;

use strsim::damerau_levenshtein;
use watchkeeper_english::singular;

/// Class of the events of the motion detector.
const MOTION: &str = "motion";

/// Most words of the name of a camera.
pub const MAX_NAME_WORDS: usize = 8;

/// Names that requests may use, as far as they are known now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownNames {
    pub cameras: CameraNames,
    /// Classes that installed detectors find; none while the runtime is away.
    pub classes: Vec<String>,
    /// Rules in force; none while the runtime is away.
    pub rules: Vec<String>,
    /// Zones and lines of pipelines; none while the runtime is away.
    pub zones: Vec<String>,
}

impl KnownNames {
    /// Returns whether the runtime has answered: it has cameras, rules or detectors then.
    pub(crate) fn are_of_runtime(&self) -> bool {
        !(self.cameras.0.is_empty() && self.classes.is_empty() && self.rules.is_empty())
    }

    /// The class that a noun names, unchanged or as a plural: "scissors" names one unchanged.
    pub(crate) fn class_of(&self, noun: &str) -> String {
        match self.has_class(noun) {
            true => noun.to_lowercase(),
            false => singular(&noun.to_lowercase()),
        }
    }

    /// Returns whether an installed detector finds objects of this class.
    pub(crate) fn has_class(&self, name: &str) -> bool {
        self.classes
            .iter()
            .any(|class| class.eq_ignore_ascii_case(name))
    }

    /// Returns the rule or class of events that a noun names. While neither is known, the run will
    /// say whether there are any.
    pub(crate) fn of_events(&self, noun: &str) -> Option<String> {
        let mut rules = self.rules.iter();
        let rule = rules.find(|rule| is_same_noun(rule, noun)).cloned();
        let class = self.class_of(noun);
        let is_nothing_known = self.classes.is_empty() && self.rules.is_empty();
        let is_class = is_nothing_known || class == MOTION || self.has_class(&class);
        rule.or_else(|| is_class.then_some(class))
    }

    /// Returns the zone or line that these words name.
    pub(crate) fn zone(&self, words: &str) -> Option<&String> {
        let words = folded(words);
        self.zones.iter().find(|zone| folded(zone) == words)
    }

    /// Returns whether a noun, in the singular or plural, is of a known rule or class.
    pub(crate) fn names_events(&self, noun: &str) -> bool {
        let is_rule = self.rules.iter().any(|rule| is_same_noun(rule, noun));
        is_rule || self.has_class(&self.class_of(noun))
    }
}

/// Names of cameras, with the ID of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CameraNames(Vec<(String, String)>);

impl CameraNames {
    /// Adds a camera by its ID and by the name that users gave it.
    pub fn add(&mut self, id: &str, name: Option<&str>) {
        for name in [Some(id), name].into_iter().flatten() {
            self.0.push((folded(name), id.to_owned()));
        }
    }

    /// Returns the ID of the one camera that these words name.
    pub fn id(&self, words: &str) -> Option<&str> {
        let words = folded(words);
        let mut ids = self.0.iter().filter(|(name, _)| *name == words);
        let (_, id) = ids.next()?;
        ids.all(|(_, other)| other == id).then_some(id)
    }

    /// Returns the IDs of all cameras.
    pub(crate) fn ids(&self) -> Vec<String> {
        let ids: BTreeSet<&String> = self.0.iter().map(|(_, id)| id).collect();
        ids.into_iter().cloned().collect()
    }

    /// Returns the name that differs from these words by one letter, or by two from eight letters
    /// on. It is only asked for, so short names count too.
    pub(crate) fn nearest(&self, words: &str) -> Option<&str> {
        let words = folded(words);
        let allowed = match words.chars().count() {
            0..=2 => return None,
            3..=7 => 1,
            _ => 2,
        };
        let names = self.0.iter().map(|(name, _)| name.as_str());
        let names = names.map(|name| (damerau_levenshtein(&words, name), name));
        let near = names
            .filter(|(distance, _)| (1..=allowed).contains(distance))
            .min();
        near.map(|(_, name)| name)
    }
}

/// Returns whether two names differ in case or number only. A plan that was made while no rule was
/// known says `delivery` for the rule `deliveries`.
pub fn is_same_noun(name: &str, other: &str) -> bool {
    let [name, other] = [name, other].map(str::to_lowercase);
    name == other || singular(&name) == other || name == singular(&other)
}

fn folded(name: &str) -> String {
    let name = name.replace('’', "'").replace("'s", "");
    let words = name.split(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_that_ends_in_s_is_named_as_it_stands() {
        let names = KnownNames {
            classes: ["skis", "dog"].map(str::to_owned).to_vec(),
            ..KnownNames::default()
        };
        for (noun, class) in [("Skis", "skis"), ("dogs", "dog"), ("cars", "car")] {
            assert_eq!(names.class_of(noun), class, "{noun}");
        }
    }

    #[test]
    fn noun_names_the_rule_in_the_plural_and_in_the_singular() {
        for (rule, noun) in [
            ("deliveries", "delivery"),
            ("delivery", "Deliveries"),
            ("Person", "person"),
        ] {
            assert!(is_same_noun(rule, noun), "{rule} {noun}");
        }
        assert!(!is_same_noun("deliveries", "driver"));
    }
}
