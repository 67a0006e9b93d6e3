//! Checks the chain of a rule, and finds the needs of its readings.

use std::collections::BTreeSet;

use watchkeeper_contract::rule::{
    DecideSpec, MAX_CHAIN, MAX_REFERENCE_SETS, MAX_SOURCE_NAME, RuleSpec, is_set_name,
    reference_sets,
};

use super::Compiler;
use crate::rules::plan::ReadingNeeds;

const MAX_WEIGHT: f64 = 10.0;

impl Compiler<'_> {
    pub(super) fn chain(&mut self, spec: &RuleSpec) -> ReadingNeeds {
        let Some(decide) = &spec.decide else {
            return ReadingNeeds::default();
        };
        if spec.second_opinion_may_lower {
            let message = "has no effect with a chain; name the source model in decide.chain";
            self.error("second_opinion_may_lower", true, message);
        }
        self.check_chain(decide);
        self.check_weights(decide);
        ReadingNeeds {
            code: self.chain_reading("code", decide.code.as_deref(), decide),
            text: self.chain_reading("text", decide.text.as_deref(), decide),
        }
    }

    fn check_chain(&mut self, decide: &DecideSpec) {
        let chain = &decide.chain;
        if !(1..=MAX_CHAIN).contains(&chain.len()) {
            let message = format!("must name 1 to {MAX_CHAIN} sources");
            self.error("decide.chain", chain.len(), message);
        }
        let can_decide = |name: &String| name != "box" && name != "person";
        if !chain.is_empty() && !chain.iter().any(can_decide) {
            let message = "names no source that can decide; add code, text, model, a look-up or \
                           reference pictures";
            self.error("decide.chain", chain.join(", "), message);
        }
        let mut seen = BTreeSet::new();
        for (nth, name) in chain.iter().enumerate() {
            let field = format!("decide.chain[{nth}]");
            let is_word =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
            let is_name = !name.is_empty() && name.chars().all(is_word);
            let sets = reference_sets(name);
            let is_source = sets.as_deref().map_or(is_name, are_sets) && name != "reference";
            if !is_source {
                let message = "is not the name of a source; write box, code, text, model, person, \
                               the name of a look-up, or `reference NAME` with 1 to 8 sets of \
                               pictures";
                self.error(&field, name, message);
            } else if name.len() > MAX_SOURCE_NAME {
                let message = format!(
                    "has {} characters, more than {MAX_SOURCE_NAME}; use shorter names, or fewer \
                     sets in one source",
                    name.len()
                );
                self.error(&field, name, message);
            }
            if !seen.insert(name) {
                self.error(
                    &field,
                    name,
                    "is in the chain already; name each source once",
                );
            }
            if name == "person" && nth + 1 < chain.len() {
                let message = "must be the last source: a person decides alone";
                self.error(&field, name, message);
            }
        }
    }

    fn check_weights(&mut self, decide: &DecideSpec) {
        for (name, weight) in &decide.weights {
            let field = format!("decide.weights.{name}");
            if !decide.chain.contains(name) {
                self.error(
                    &field,
                    name,
                    "is not a source of decide.chain; add it or remove its weight",
                );
            }
            if !(*weight > 0.0 && *weight <= MAX_WEIGHT) {
                let message = format!("must be more than 0 and at most {MAX_WEIGHT}");
                self.error(&field, weight, message);
            }
        }
    }

    /// Returns the need of the source `code` or `text`: in the chain with a selector, or neither.
    fn chain_reading(
        &mut self,
        name: &str,
        selector: Option<&str>,
        decide: &DecideSpec,
    ) -> Option<usize> {
        let field = format!("decide.{name}");
        let is_named = decide.chain.iter().any(|source| source == name);
        match (is_named, selector) {
            (_, Some(selector)) => self.reading(&field, selector),
            (true, None) => {
                let message = format!(
                    "is required with the source {name}; write a selector such as \
                     $steps.reader.predictions"
                );
                self.error(&field, "", message);
                None
            }
            (false, None) => None,
        }
    }
}

/// Whether these are different names of sets of reference pictures, not too many.
fn are_sets(names: &[&str]) -> bool {
    let different: BTreeSet<&&str> = names.iter().collect();
    let is_bounded = names.len() <= MAX_REFERENCE_SETS && different.len() == names.len();
    is_bounded && names.iter().all(|name| is_set_name(name))
}
