//! Reads a plan from YAML or JSON, field by field, so that all faults are found in one pass.
//!
//! - A field that is not known, or has a value of another kind, is a fault; nothing is dropped.
//! - Bounds of bytes, steps, tries and times are checked here, before anything is built on them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fault::{Fault, FaultKind};
use super::{
    Call, MAX_DEPENDENCIES, MAX_PAUSE_S, MAX_PLAN_BYTES, MAX_STEPS, MAX_TIMEOUT_S, MAX_TRIES, Plan,
    Retry, Rewards, Step, TIMEOUT_S,
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
/// Fields of other plans and pipelines, and the field that stands for each.
const OTHER_WORDS: [(&str, &str); 4] = [
    ("agent_role", "tool"),
    ("tool_name", "tool"),
    ("inputs", "params"),
    ("dependencies", "depends_on"),
];
/// Words of the parser about its own functions, and what a person can do.
const REMEDIES: [(&str, &str); 3] = [
    (
        ", set DuplicateKeyPolicy in Options if acceptable",
        "; keep one",
    ),
    (
        "use from_str_multiple or from_str_multiple_with_options",
        "keep one plan in a file",
    ),
    ("budget breached: ", "it is too deep or too large: "),
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
        return Err(Fault::new("", FaultKind::TooLarge(text.len())));
    }
    // "y" is a class or a name, and not "true".
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let why = error.to_string();
        let line = why.lines().next().unwrap_or_default().to_owned();
        let in_words = |line: String, (own, remedy): &(&str, &str)| line.replace(own, remedy);
        let line = REMEDIES.iter().fold(line, in_words);
        Fault::new("", FaultKind::Syntax(line))
    })
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
        for name in map.keys().filter(|name| !fields.contains(&name.as_str())) {
            let mut other_words = OTHER_WORDS.iter();
            let meant = other_words.find(|(word, field)| word == name && fields.contains(field));
            let nearest = nearest(name, fields.iter().copied());
            let kind = FaultKind::Unknown {
                what: "field",
                name: name.clone(),
                nearest: nearest
                    .or(meant.map(|(_, field)| *field))
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
        let listed = self.list(at, map, "depends_on");
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
        if let Some(value) = map.get("tries") {
            retry.tries = self.whole(&join(&at, "tries"), value, 1, MAX_TRIES)?;
        }
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
