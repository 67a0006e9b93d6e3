//! Checks that each source in the chain of a rule can answer.

use watchkeeper_config::{Config, ConfigError, LookupKind, LookupValue, SkippedSections};
use watchkeeper_contract::rule::{DecideSpec, reference_sets};
use watchkeeper_evidence::reference::store::{FOLDER, read_sets};

use super::finding::error;

/// Sources of chains that are not look-ups.
const OWN_SOURCES: [&str; 5] = ["box", "code", "text", "model", "person"];

pub(super) fn check(config: &Config, skipped: &SkippedSections) -> Vec<ConfigError> {
    let good = config.pipelines.iter().map(|spec| (spec, None));
    let drafts = skipped.pipelines.iter();
    let drafts = drafts.map(|draft| (&draft.spec, Some(draft.rules.as_slice())));
    let mut errors = Vec::new();
    for (spec, positions) in good.chain(drafts) {
        for (nth, rule) in spec.rules.iter().flatten().enumerate() {
            let Some(decide) = &rule.decide else {
                continue;
            };
            let nth = positions
                .and_then(|written| written.get(nth))
                .copied()
                .unwrap_or(nth);
            for (place, name) in decide.chain.iter().enumerate() {
                if let Some(problem) = problem(config, skipped, decide, place) {
                    let key = format!("pipelines.{}.rules[{nth}].decide.chain[{place}]", spec.id);
                    errors.push(error(key, Some(name.clone()), problem));
                }
            }
        }
    }
    errors
}

/// Returns the reference sets that a chain names and the box does not have (yet): what is wrong and
/// the command that corrects it.
///
/// # Errors
/// A sentence if the sets can't be read.
pub(crate) fn missing_references(config: &Config) -> Result<Vec<(String, String)>, String> {
    let rules = config.pipelines.iter().flat_map(|spec| {
        let rules = spec.rules.iter().flatten();
        rules.map(move |rule| (&spec.id, rule))
    });
    let named = rules.flat_map(|(pipeline, rule)| {
        let chain = rule.decide.iter().flat_map(|decide| &decide.chain);
        let sets = chain.filter_map(|source| reference_sets(source)).flatten();
        sets.map(move |set| (pipeline, &rule.name, set))
    });
    let mut named = named.peekable();
    if named.peek().is_none() {
        return Ok(Vec::new());
    }
    let folder = config.state_dir.join(FOLDER);
    let sets = read_sets(&folder).map_err(|error| {
        let folder = folder.display();
        format!("reference sets were not checked: {folder}: {error}")
    })?;
    let missing = named.filter(|(_, _, set)| !sets.contains_key(*set));
    let missing = missing.map(|(pipeline, rule, set)| {
        let what = format!(
            "the chain of {pipeline}/{rule} compares with the reference set {set}, which has no \
             pictures"
        );
        (what, format!("watchkeeper reference add {set} FILE"))
    });
    Ok(missing.collect())
}

/// Notes on the [missing reference sets](missing_references), each with its remedy.
pub(super) fn reference_notes(config: &Config) -> Vec<String> {
    match missing_references(config) {
        Ok(missing) => missing
            .into_iter()
            .map(|(what, command)| format!("{what}; run: {command}"))
            .collect(),
        Err(unread) => vec![unread],
    }
}

/// Describes why the source at `place` can never answer.
fn problem(
    config: &Config,
    skipped: &SkippedSections,
    decide: &DecideSpec,
    place: usize,
) -> Option<String> {
    let name = decide.chain.get(place)?;
    let lookup = config.lookups.iter().find(|lookup| lookup.name == *name);
    let kind = match lookup {
        Some(lookup) => &lookup.kind,
        None if name == "model" => return no_model(config),
        None if reference_sets(name).is_some() => return None,
        None if OWN_SOURCES.contains(&name.as_str()) || skipped.lookups.contains(name) => {
            return None;
        }
        None => {
            return Some(format!(
                "is not a source; add a section [agent.lookups.{name}]"
            ));
        }
    };
    match kind {
        LookupKind::Fields(_) => no_model(config),
        LookupKind::Http(_) | LookupKind::Table(_) => {
            let mut values = kind.values().into_iter();
            values.find_map(|value| no_value(config, decide, place, value))
        }
    }
}

fn no_model(config: &Config) -> Option<String> {
    let is_on = config.llm.as_ref().is_some_and(|llm| llm.second_opinion);
    let problem = "asks a language model; configure [llm] with second_opinion = true";
    (!is_on).then(|| problem.to_owned())
}

/// Describes why the value that a look-up at `place` looks up is never there.
fn no_value(
    config: &Config,
    decide: &DecideSpec,
    place: usize,
    value: &LookupValue,
) -> Option<String> {
    let needs = |problem: &str| Some(problem.to_owned());
    match value {
        LookupValue::Read if decide.code.is_none() && decide.text.is_none() => {
            needs("looks up a reading, and the rule has none; set decide.code or decide.text")
        }
        LookupValue::Code if decide.code.is_none() => {
            needs("looks up the code, and none is read; set decide.code")
        }
        LookupValue::Text if decide.text.is_none() => {
            needs("looks up the text, and none is read; set decide.text")
        }
        LookupValue::Field(field) => {
            let before = decide.chain.iter().take(place);
            let mut lookups =
                before.filter_map(|name| config.lookups.iter().find(|l| l.name == *name));
            let is_read = lookups.any(|l| l.kind.field_names().any(|name| name == field));
            (!is_read)
                .then(|| format!("looks up fields.{field}, and no source before it reads that"))
        }
        LookupValue::Column { lookup, .. } => {
            let is_before = decide.chain.iter().take(place).any(|name| name == lookup);
            (!is_before).then(|| format!("looks up {value}, and {lookup} is not before it"))
        }
        LookupValue::Read | LookupValue::Code | LookupValue::Text | LookupValue::Label => None,
    }
}
