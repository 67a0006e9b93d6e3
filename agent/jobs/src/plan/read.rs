//! Reads a plan from YAML or JSON, field by field, so that all faults are found in one pass.
//!
//! - A field that is not known, or has a value of another kind, is a fault; nothing is dropped.
//! - Bounds of bytes, steps, tries and times are checked here, before anything is built on them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use serde_saphyr::Error;
use serde_saphyr::budget::BudgetBreach;

use super::fault::{Fault, FaultKind};
use super::{
    Call, MAX_DEPENDENCIES, MAX_NAME, MAX_PAUSE_S, MAX_PLAN_BYTES, MAX_STEPS, MAX_TIMEOUT_S,
    MAX_TRIES, Plan, Retry, Rewards, Step, TIMEOUT_S,
};
use crate::spelling::nearest;

const PLAN_FIELDS: [&str; 5] = ["name", "description", "inputs", "steps", "rewards"];
const STEP_FIELDS: [&str; 8] = [
    "name",
    "tool",
    "params",
    "depends_on",
    "reason",
    "retry",
    "timeout_s",
    "alternatives",
];
const CALL_FIELDS: [&str; 2] = ["tool", "params"];
/// Names that other systems have for a field of a plan.
const OTHER_WORDS: [(&str, &str); 5] = [
    ("agent_role", "tool"),
    ("tool_name", "tool"),
    ("inputs", "params"),
    ("dependencies", "depends_on"),
    ("retries", "retry"),
];
/// Roles of agents, and the tool that does the work of each.
const ROLES: [(&str, &str); 2] = [
    ("ingestor", "tool: archive_ingest"),
    ("retriever", "tool: archive_query"),
];

/// Reads a plan from text: YAML, of which JSON is a part.
///
/// # Errors
/// All faults of form that were found.
pub fn read_text(text: &str) -> Result<Plan, Vec<Fault>> {
    whole(read_parts(text))
}

/// Reads a plan from text as far as it can be read, with the faults of form.
pub fn read_parts(text: &str) -> (Option<Plan>, Vec<Fault>) {
    match parse(text) {
        Ok(value) => parts(&value),
        Err(fault) => (None, vec![fault]),
    }
}

fn parse(text: &str) -> Result<Value, Fault> {
    if text.len() > MAX_PLAN_BYTES {
        return Err(Fault::new("", FaultKind::TooLarge));
    }
    // "y" is a class or a name, and not "true".
    let options = serde_saphyr::options! { strict_booleans: true };
    let syntax = |why: String| Fault::new("", FaultKind::Syntax(why));
    match serde_saphyr::from_str_with_options(text, options) {
        Ok(Value::Null) => Err(syntax("it is empty".to_owned())),
        Ok(value) => Ok(value),
        Err(error) => Err(syntax(reason(&error))),
    }
}

/// Why a text is refused, without the names of the parser's functions.
fn reason(error: &Error) -> String {
    match error.without_snippet() {
        Error::MultipleDocuments { .. } => {
            "it has several YAML documents; a file holds one plan".to_owned()
        }
        Error::Budget {
            breach: BudgetBreach::Depth { depth },
            ..
        } => format!("{depth} levels of nesting are too many"),
        Error::Budget { .. } => "it has too many values, aliases or anchors".to_owned(),
        _ => {
            let why = error.to_string();
            let line = why.lines().next().unwrap_or_default();
            let line = line.strip_prefix("error: ").unwrap_or(line);
            // The parser names an option of its own.
            line.replace(
                ", set DuplicateKeyPolicy in Options if acceptable",
                "; keep one",
            )
        }
    }
}

/// Reads a plan from a value.
///
/// # Errors
/// All faults of form that were found.
pub fn read(value: &Value) -> Result<Plan, Vec<Fault>> {
    whole(parts(value))
}

fn parts(value: &Value) -> (Option<Plan>, Vec<Fault>) {
    let mut reader = Reader(Vec::new());
    let plan = reader.plan(value);
    (plan, reader.0)
}

fn whole((plan, faults): (Option<Plan>, Vec<Fault>)) -> Result<Plan, Vec<Fault>> {
    plan.filter(|_| faults.is_empty()).ok_or(faults)
}

struct Reader(Vec<Fault>);

impl Reader {
    fn wrong(&mut self, at: &str, found: &Value, wanted: &str) {
        self.0.push(Fault::value(at, found, wanted));
    }

    fn map<'a>(
        &mut self,
        at: &str,
        value: &'a Value,
        fields: &[&str],
    ) -> Option<&'a Map<String, Value>> {
        let Some(map) = value.as_object() else {
            self.wrong(at, value, "a map of fields");
            return None;
        };
        for (name, value) in map {
            if fields.contains(&name.as_str()) {
                continue;
            }
            let nearest = nearest(name, fields.iter().copied());
            let kind = FaultKind::Unknown {
                what: "field",
                name: name.clone(),
                nearest: nearest
                    .or_else(|| other_word(name, value, fields))
                    .map(str::to_owned),
                known: fields.iter().map(|&field| field.to_owned()).collect(),
                others: 0,
            };
            self.0.push(Fault::new(at, kind));
        }
        Some(map)
    }

    fn text(&mut self, at: &str, map: &Map<String, Value>, key: &str) -> Option<String> {
        match map.get(key)? {
            Value::String(text) => Some(text.trim().to_owned()),
            other => {
                self.wrong(&join(at, key), other, "a text");
                None
            }
        }
    }

    fn required(&mut self, at: &str, map: &Map<String, Value>, key: &str) -> Option<String> {
        if map.get(key).is_none_or(Value::is_null) {
            self.0.push(Fault::new(join(at, key), FaultKind::Missing));
            return None;
        }
        self.text(at, map, key)
    }

    fn list<'a>(&mut self, at: &str, map: &'a Map<String, Value>, key: &str) -> &'a [Value] {
        match map.get(key) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(all)) => all,
            Some(other) => {
                self.wrong(&join(at, key), other, "a list");
                &[]
            }
        }
    }

    fn object(&mut self, at: &str, map: &Map<String, Value>, key: &str) -> Map<String, Value> {
        match map.get(key) {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(all)) => all.clone(),
            Some(other) => {
                self.wrong(&join(at, key), other, "a map of values");
                Map::new()
            }
        }
    }

    fn whole(&mut self, at: &str, value: &Value, min: u64, max: u64) -> Option<u64> {
        let number = value.as_u64().filter(|n| (min..=max).contains(n));
        if number.is_none() {
            self.wrong(at, value, &format!("an integer from {min} to {max}"));
        }
        number
    }

    fn plan(&mut self, value: &Value) -> Option<Plan> {
        let map = self.map("", value, &PLAN_FIELDS)?;
        let name = self.required("", map, "name");
        if let Some(name) = name.as_ref().filter(|name| name.chars().count() > MAX_NAME) {
            let wanted = format!("a text of at most {MAX_NAME} characters");
            self.wrong("name", &Value::from(name.as_str()), &wanted);
        }
        let description = self.text("", map, "description").unwrap_or_default();
        let inputs: BTreeMap<_, _> = self.object("", map, "inputs").into_iter().collect();
        let mut steps = Vec::new();
        let listed = self.list("", map, "steps");
        if listed.len() > MAX_STEPS {
            let kind = FaultKind::TooManySteps(listed.len());
            self.0.push(Fault::new("steps", kind));
            return None;
        }
        for (place, value) in listed.iter().enumerate() {
            steps.extend(self.step(place, value));
        }
        let rewards = map.get("rewards").and_then(|value| self.rewards(value));
        let is_list = matches!(map.get("steps"), None | Some(Value::Null | Value::Array(_)));
        if !is_list || steps.len() < listed.len() {
            // Without a step, references to it would be faults that the plan does not have.
            return None;
        }
        Some(Plan {
            // A missing name is a fault already.
            name: name.unwrap_or_default(),
            description,
            inputs,
            steps,
            rewards,
        })
    }

    fn step(&mut self, place: usize, value: &Value) -> Option<Step> {
        // A step is named by its name where it has one, else by its place.
        let name = value.get("name").and_then(Value::as_str);
        let name = name.filter(|name| !name.trim().is_empty());
        let at = format!(
            "steps.{}",
            name.map_or_else(|| place.to_string(), str::to_owned)
        );
        let map = self.map(&at, value, &STEP_FIELDS)?;
        let name = self.required(&at, map, "name");
        let tool = self.required(&at, map, "tool");
        let params = self.object(&at, map, "params");
        let depends_on = self.names(&at, map);
        let reason = self.text(&at, map, "reason").unwrap_or_default();
        let retry = map.get("retry").and_then(|value| self.retry(&at, value));
        let timeout_s = map.get("timeout_s").map(|value| {
            let at = join(&at, "timeout_s");
            self.whole(&at, value, 1, MAX_TIMEOUT_S)
        });
        let mut alternatives = Vec::new();
        for (place, value) in self.list(&at, map, "alternatives").iter().enumerate() {
            alternatives.extend(self.call(&format!("{at}.alternatives.{place}"), value));
        }
        if alternatives.len() as u64 > MAX_TRIES {
            let found = Value::from(alternatives.len());
            let wanted = format!("at most {MAX_TRIES} alternatives");
            self.wrong(&at, &found, &wanted);
        }
        Some(Step {
            name: name?,
            call: Call {
                tool: tool?,
                params,
            },
            depends_on,
            reason,
            retry: retry.unwrap_or_default(),
            timeout_s: timeout_s.flatten().unwrap_or(TIMEOUT_S),
            alternatives,
        })
    }

    fn names(&mut self, at: &str, map: &Map<String, Value>) -> Vec<String> {
        let mut names = Vec::new();
        // A single name needs no list.
        let listed = match map.get("depends_on") {
            Some(one @ Value::String(_)) => std::slice::from_ref(one),
            _ => self.list(at, map, "depends_on"),
        };
        if listed.len() > MAX_DEPENDENCIES {
            let wanted = format!("at most {MAX_DEPENDENCIES} names");
            self.wrong(&join(at, "depends_on"), &Value::from(listed.len()), &wanted);
            return names;
        }
        for value in listed {
            match value.as_str() {
                Some(name) => names.push(name.to_owned()),
                None => self.wrong(&join(at, "depends_on"), value, "the name of a step"),
            }
        }
        names
    }

    fn call(&mut self, at: &str, value: &Value) -> Option<Call> {
        let map = self.map(at, value, &CALL_FIELDS)?;
        let tool = self.required(at, map, "tool");
        let params = self.object(at, map, "params");
        Some(Call {
            tool: tool?,
            params,
        })
    }

    fn retry(&mut self, at: &str, value: &Value) -> Option<Retry> {
        let at = join(at, "retry");
        let map = self.map(&at, value, &["tries", "pauses_s"])?;
        let mut retry = Retry::default();
        let tries = map.get("tries");
        let tries = tries.and_then(|value| self.whole(&join(&at, "tries"), value, 1, MAX_TRIES));
        retry.tries = tries.unwrap_or(retry.tries);
        if map.contains_key("pauses_s") {
            let pauses = self.list(&at, map, "pauses_s").iter();
            let at = join(&at, "pauses_s");
            let pauses = pauses.take(MAX_TRIES as usize);
            retry.pauses_s = pauses
                .filter_map(|value| self.whole(&at, value, 0, MAX_PAUSE_S))
                .collect();
        }
        Some(retry)
    }

    fn rewards(&mut self, value: &Value) -> Option<Rewards> {
        let map = self.map("rewards", value, &["success", "failure"])?;
        let mut number = |key: &str| {
            let found = map.get(key).unwrap_or(&Value::Null);
            let number = found.as_f64();
            if number.is_none() {
                self.0
                    .push(Fault::value(join("rewards", key), found, "a number"));
            }
            number
        };
        let (success, failure) = (number("success"), number("failure"));
        Some(Rewards {
            success: success?,
            failure: failure?,
        })
    }
}

/// The field that another system's name stands for, with the tool of a role.
fn other_word(name: &str, value: &Value, fields: &[&str]) -> Option<&'static str> {
    let mut words = OTHER_WORDS.iter();
    let (_, field) = words.find(|(word, field)| *word == name && fields.contains(field))?;
    let mut roles = ROLES.iter();
    let role = roles.find(|(role, _)| name == "agent_role" && value == role);
    Some(role.map_or(field, |(_, tool)| tool))
}

fn join(at: &str, key: &str) -> String {
    match at.is_empty() {
        true => key.to_owned(),
        false => format!("{at}.{key}"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;
    use crate::plan::repair;
    use crate::tools::picture_tools;

    const PLAN: &str = "name: a\nsteps:\n  - {name: list, tool: list_pictures, depends_on: [b]}\n";

    fn faults(text: &str) -> Vec<String> {
        let faults = read_text(text).unwrap_err();
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn name_of_another_system_is_refused_with_that_of_a_plan() {
        let found = faults(
            "name: x\nsteps:\n  - {name: a, tool: album, tool_name: b, dependencies: [c], retries: 3}\n  \
             - {name: b, agent_role: retriever}",
        );
        let expected = [
            "steps.a: no field \"dependencies\"; did you mean depends_on?",
            "steps.a: no field \"retries\"; did you mean retry?",
            "steps.a: no field \"tool_name\"; did you mean tool?",
            "steps.b: no field \"agent_role\"; did you mean tool: archive_query?",
            "steps.b.tool: is missing",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn text_that_is_no_plan_is_refused_in_own_words() {
        for (text, expected) in [
            ("", "it is empty"),
            ("# a comment\n", "it is empty"),
            (
                "name: a\n---\nname: b\n",
                "it has several YAML documents; a file holds one plan",
            ),
            (
                &format!("{}{}", "[".repeat(100), "]".repeat(100)),
                "levels of nesting are too many",
            ),
        ] {
            let found = faults(text);
            assert!(
                found.len() == 1 && found[0].ends_with(expected),
                "{found:?}"
            );
        }
        let long = faults(&format!("name: {}\nsteps: [1]", "x".repeat(201)));
        assert!(
            long[0].ends_with("is not a text of at most 200 characters"),
            "{long:?}"
        );
    }

    #[test]
    fn one_dependency_may_stand_without_a_list() {
        let one = PLAN.replace("depends_on: [b]", "depends_on: b");
        assert_eq!(read_text(&one).unwrap(), read_text(PLAN).unwrap());
    }

    #[test]
    fn agent_role_is_refused_and_names_the_field_for_it() {
        let found = faults("name: x\nsteps: [{name: a, agent_role: ingestor, inputs: {dst: b}}]");
        let expected = [
            "steps.a: no field \"agent_role\"; did you mean tool: archive_ingest?",
            "steps.a: no field \"inputs\"; did you mean params?",
            "steps.a.tool: is missing",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn key_that_stands_twice_is_named_in_plain_words() {
        let found = faults("name: x\nname: y\nsteps: []\n");
        assert!(
            found[0].ends_with("duplicate mapping key: name; keep one"),
            "{found:?}"
        );
    }

    #[test]
    fn text_beyond_the_bound_is_no_plan() {
        let long = format!("{PLAN}# {}", "x".repeat(MAX_PLAN_BYTES));
        let found = faults(&long);
        assert_eq!(found, ["a plan has at most 1048576 bytes; this is longer"]);
    }

    #[test]
    fn step_that_could_not_be_read_brings_no_second_fault() {
        for steps in ["[list]", "{a: b}", "[{name: list}]"] {
            let (plan, faults) = read_parts(&format!("name: a\nsteps: {steps}"));
            assert_eq!((plan, faults.len()), (None, 1), "{steps}");
        }
    }

    #[test]
    fn yes_and_no_are_texts_unless_a_flag_is_wanted() {
        let text = "name: a\ninputs: {event_class: y, folder: /a}\nsteps:\n  \
                    - {name: list, tool: list_pictures, \
                    params: {folder: \"${inputs.folder}\", subfolders: no}}\n";
        let plan = read_text(text).unwrap();
        assert_eq!(plan.inputs["event_class"], "y");
        let repaired = repair(plan, &picture_tools()).unwrap();
        let flag = &repaired.plan.plan().steps[0].call.params["subfolders"];
        assert_eq!((flag, repaired.changes.len()), (&Value::Bool(false), 1));
    }
}
