//! A plan that serves all requests which differ in slots only.
//!
//! - A slot is free if its value is in the plan, at one place if it is a number. The others are
//!   fixed: another request must have the same value there. A number of a condition is fixed.
//! - A plan with a time that its request does not spell out is not a template: "yesterday" would
//!   stay the same day.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pattern::{Pattern, SlotValue};
use crate::plan::reference::{INPUTS, Text, parse};
use crate::plan::{Plan, read};
use crate::tool::{Kind, Toolbox};

/// A request with its plan, and where the plan has the values of the request's slots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanTemplate {
    request: String,
    plan: Value,
    /// For each slot of the request the JSON pointers of its value; none: it is fixed.
    places: Vec<Vec<String>>,
}

/// Why a plan can't serve another request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReusable {
    #[error(
        "the plan has the time {0}, which the request does not spell out; it would be the same \
         time again. Say the request again: it is planned again each time; or repeat it by a \
         schedule, `request` of [agent.jobs.NAME]"
    )]
    Time(String),
    #[error("the plan can't be stored: {0}")]
    Plan(String),
}

impl PlanTemplate {
    /// Makes a template of a request and its plan. Folders of the request may be relative where
    /// those of the plan are absolute.
    ///
    /// # Errors
    /// If the plan serves this request only.
    pub fn new(request: &str, plan: &Plan, tools: &Toolbox) -> Result<Self, NotReusable> {
        let written = serde_json::to_value(plan).map_err(|e| NotReusable::Plan(e.to_string()))?;
        let mut leaves = Vec::new();
        leaves_of(&written, String::new(), &mut leaves);
        leaves.retain(|(place, _)| is_value(place));
        let values = Pattern::read(request).values;
        let places: Vec<Vec<String>> = (values.iter())
            .map(|value| {
                let is_alone = values.iter().filter(|other| *other == value).count() == 1;
                let found = leaves.iter().filter(|(_, leaf)| stands_for(value, leaf));
                let found: Vec<String> = found.map(|(place, _)| place.clone()).collect();
                let is_clear = match value {
                    SlotValue::Number(number) => {
                        found.len() == 1 && !stands_in_condition(*number, &leaves)
                    }
                    _ => true,
                };
                match is_alone && is_clear {
                    true => found,
                    false => Vec::new(),
                }
            })
            .collect();
        let is_free = |place: &String| places.iter().flatten().any(|known| known == place);
        for (place, leaf) in times(plan, tools, &leaves) {
            if !is_free(&place) {
                return Err(NotReusable::Time(leaf.to_string()));
            }
        }
        Ok(Self {
            request: request.to_owned(),
            plan: written,
            places,
        })
    }

    /// Returns the request that it was made of.
    pub fn request(&self) -> &str {
        &self.request
    }

    /// Returns its plan, with the values of its own request.
    pub const fn plan(&self) -> &Value {
        &self.plan
    }

    /// Returns the plan for a request that differs in free slots only.
    pub fn fill(&self, text: &str) -> Option<Plan> {
        let (own, given) = (Pattern::read(&self.request), Pattern::read(text));
        if own.words != given.words || own.values.len() != self.places.len() {
            return None;
        }
        let slots = own.values.iter().zip(&given.values).zip(&self.places);
        let is_fixed_same = |((own, given), places): ((&SlotValue, &SlotValue), &Vec<String>)| {
            !places.is_empty() || is_same(own, given)
        };
        if !slots.clone().all(is_fixed_same) {
            return None;
        }
        self.with(slots.map(|((_, given), places)| (given, places)))
    }

    /// Returns whether a text is `NAME` or `NAME VALUE…`, whatever the values are.
    pub(crate) fn is_named(&self, name: &str, text: &str) -> bool {
        let given = Pattern::read(text);
        given.plain_words().eq([name]) && given.words.first().is_some_and(|word| word == name)
    }

    /// Returns the values that the template takes by its name, and an example.
    pub(crate) fn describe_values(&self, name: &str) -> (String, String) {
        let own = Pattern::read(&self.request).values;
        let free = own.iter().zip(&self.places).filter(|(_, p)| !p.is_empty());
        let (mut kinds, mut example) = (Vec::new(), name.to_owned());
        for (value, _) in free {
            let (kind, written) = match value {
                SlotValue::Number(number) => ("a number", number.to_string()),
                SlotValue::Date(date) => ("a date", date.clone()),
                SlotValue::Text(text) if text.contains('/') && !text.contains(' ') => {
                    ("a folder", text.clone())
                }
                SlotValue::Text(text) => ("a text in quotation marks", format!("{text:?}")),
            };
            kinds.push(kind);
            example = format!("{example} {written}");
        }
        let takes = match kinds.as_slice() {
            [] => "no values".to_owned(),
            [one] => format!("{one}, or no value"),
            all => format!("these values in this order, or none: {}", all.join(", ")),
        };
        (takes, example)
    }

    /// Returns the plan for the words `NAME` or `NAME VALUE…`, with a value for each free slot.
    pub fn fill_named(&self, name: &str, text: &str) -> Option<Plan> {
        if !self.is_named(name, text) {
            return None;
        }
        let given = Pattern::read(text);
        let own = Pattern::read(&self.request).values;
        let free = own.iter().zip(&self.places).filter(|(_, p)| !p.is_empty());
        let is_kind = |(own, given): (&SlotValue, &SlotValue)| {
            std::mem::discriminant(own) == std::mem::discriminant(given)
        };
        let own: Vec<&SlotValue> = free.clone().map(|(own, _)| own).collect();
        if given.values.is_empty() {
            return self.with(std::iter::empty());
        }
        if own.len() != given.values.len() || !own.into_iter().zip(&given.values).all(is_kind) {
            return None;
        }
        self.with(given.values.iter().zip(free.map(|(_, places)| places)))
    }

    fn with<'v>(
        &self,
        values: impl Iterator<Item = (&'v SlotValue, &'v Vec<String>)>,
    ) -> Option<Plan> {
        let mut plan = self.plan.clone();
        for (value, places) in values {
            for place in places {
                *plan.pointer_mut(place)? = match value {
                    SlotValue::Number(number) => Value::from(*number),
                    SlotValue::Text(text) | SlotValue::Date(text) => Value::from(text.as_str()),
                };
            }
        }
        read(&plan).ok()
    }
}

/// Returns a name for the template of a request, made of its first words.
pub fn template_name(request: &str) -> String {
    let pattern = Pattern::read(request);
    let words = pattern.plain_words().map(|word| {
        let letters = word.chars().filter(char::is_ascii_alphanumeric);
        letters.collect::<String>()
    });
    let words: Vec<String> = words.filter(|word| !word.is_empty()).take(4).collect();
    words.join("-").chars().take(40).collect()
}

/// Whether a place in a plan is the value of an input or a parameter.
fn is_value(place: &str) -> bool {
    place.starts_with("/inputs/") || place.contains("/params/")
}

/// All values of a plan that are not lists or maps, with their JSON pointers.
fn leaves_of(value: &Value, place: String, leaves: &mut Vec<(String, Value)>) {
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(all) => {
            for (key, value) in all {
                leaves_of(value, format!("{place}/{}", escaped(key)), leaves);
            }
        }
        Value::Array(all) => {
            for (n, value) in all.iter().enumerate() {
                leaves_of(value, format!("{place}/{n}"), leaves);
            }
        }
        leaf => leaves.push((place, leaf.clone())),
    }
}

fn stands_for(value: &SlotValue, leaf: &Value) -> bool {
    match value {
        SlotValue::Number(number) => leaf.as_u64() == Some(*number),
        SlotValue::Date(date) => leaf.as_str() == Some(date),
        SlotValue::Text(text) => leaf.as_str().is_some_and(|leaf| is_same_text(text, leaf)),
    }
}

/// Returns whether a text of `where` has the number: there no slot can be filled.
fn stands_in_condition(number: u64, leaves: &[(String, Value)]) -> bool {
    let conditions = leaves
        .iter()
        .filter(|(place, _)| place.contains("/params/where/"));
    let mut texts = conditions.filter_map(|(_, leaf)| leaf.as_str());
    texts.any(|text| {
        let mut parts = text.split(|c: char| !c.is_ascii_digit());
        parts.any(|part| part.parse() == Ok(number))
    })
}

fn is_same(one: &SlotValue, other: &SlotValue) -> bool {
    match (one, other) {
        (SlotValue::Text(one), SlotValue::Text(other)) => is_same_text(one, other),
        _ => one == other,
    }
}

/// Whether two texts are equal, or the same path seen from the current folder.
fn is_same_text(one: &str, other: &str) -> bool {
    let absolute = |text: &str| std::path::absolute(Path::new(text)).ok();
    one == other || (absolute(one).is_some() && absolute(one) == absolute(other))
}

/// The places and values of times in a plan.
fn times(plan: &Plan, tools: &Toolbox, leaves: &[(String, Value)]) -> Vec<(String, Value)> {
    let mut times = Vec::new();
    for (n, step) in plan.steps.iter().enumerate() {
        for (m, call) in step.calls().enumerate() {
            let place = match m {
                0 => format!("/steps/{n}"),
                m => format!("/steps/{n}/alternatives/{}", m - 1),
            };
            let params = tools.spec(&call.tool).map_or(&[][..], |spec| spec.params);
            for param in params.iter().filter(|param| param.kind == Kind::Time) {
                let Some(value) = call.params.get(param.name) else {
                    continue;
                };
                times.push(match value.as_str().map(parse) {
                    Some(Text::Reference(input)) if input.owner == INPUTS => {
                        format!("/inputs/{}", input.key)
                    }
                    _ => format!("{place}/params/{}", param.name),
                });
            }
        }
    }
    // Of a condition on the time no slot is free.
    let is_time = |leaf: &Value| {
        let text = leaf.as_str().unwrap_or_default();
        text.starts_with("time is") && text.contains(" to ")
    };
    let is_condition = |place: &str| place.contains("/params/where/");
    let found = leaves
        .iter()
        .filter(|(place, leaf)| times.contains(place) || is_condition(place) && is_time(leaf));
    found.cloned().collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::picture_tools;

    fn plan(count: u64, more: Value) -> Plan {
        let mut filter = json!({"pictures": "${list.pictures}"});
        if let (Some(filter), Some(more)) = (filter.as_object_mut(), more.as_object()) {
            filter.extend(more.clone());
        }
        read(&json!({
            "name": "x",
            "inputs": {"folder": "/srv/a"},
            "steps": [
                {"name": "list", "tool": "list_pictures", "params": {"folder": "${inputs.folder}"}},
                {"name": "some", "tool": "filter", "params": filter},
                {"name": "best", "tool": "select_best",
                    "params": {"from": "${some.pictures}", "by": "newest", "count": count}},
            ],
        }))
        .unwrap()
    }

    fn template(request: &str, plan: &Plan) -> PlanTemplate {
        PlanTemplate::new(request, plan, &picture_tools()).unwrap()
    }

    #[test]
    fn free_slots_are_filled_and_everything_else_stays() {
        let template = template("bring 3 of /srv/a", &plan(3, json!({})));
        let filled = template.fill("please bring five of ./b").unwrap();
        let mut expected = plan(5, json!({}));
        expected.inputs.insert("folder".to_owned(), json!("./b"));
        assert_eq!(filled, expected);
        assert_eq!(template.fill("bring 3 pictures of /srv/a"), None);
    }

    #[test]
    fn slot_that_the_plan_does_not_show_clearly_is_fixed() {
        // The plan has 3 twice, so which of them the request means is not known.
        let twice = template("bring 3 of /srv/a", &plan(3, json!({"min_sharpness": 3})));
        assert!(twice.fill("bring 3 of /srv/b").is_some());
        assert_eq!(twice.fill("bring 4 of /srv/a"), None);
        let unused = template("bring 3 of /srv/a in 7 rows", &plan(3, json!({})));
        assert!(unused.fill("bring 4 of /srv/a in 7 rows").is_some());
        assert_eq!(unused.fill("bring 3 of /srv/a in 8 rows"), None);
    }

    #[test]
    fn number_that_a_condition_has_is_fixed() {
        let objects = plan(3, json!({"where": ["objects >= 3", "hour is 22-6"]}));
        let template = template("bring 3 of /srv/a with at least 3 people", &objects);
        assert_eq!(
            template.fill("bring 5 of /srv/a with at least 5 people"),
            None
        );
        assert_eq!(
            template.fill("bring 5 of /srv/a with at least 3 people"),
            None
        );
        let once = plan(3, json!({"where": ["objects >= 3"]}));
        let template = self::template("bring 3 of /srv/a", &once);
        assert_eq!(template.fill("bring 4 of /srv/a"), None);
        assert!(template.fill("bring 3 of /srv/b").is_some());
    }

    #[test]
    fn spelt_out_time_is_a_slot_and_another_form_refuses() {
        let since = |time: &str| plan(3, json!({"since": time}));
        let spelled = template("bring 3 of /srv/a since 2026-03-01", &since("2026-03-01"));
        let filled = spelled.fill("bring 3 of /srv/a since 2026-04-01").unwrap();
        assert_eq!(filled.steps[1].call.params["since"], json!("2026-04-01"));
        let meant = PlanTemplate::new(
            "bring 3 of yesterday from /srv/a",
            &since("2026-11-27"),
            &picture_tools(),
        );
        assert!(matches!(meant, Err(NotReusable::Time(_))), "{meant:?}");
        let outside = plan(
            3,
            json!({"where": ["time is not 2026-11-16 to 2026-11-23"]}),
        );
        let meant = PlanTemplate::new("3 not of last week", &outside, &picture_tools());
        assert!(matches!(meant, Err(NotReusable::Time(_))), "{meant:?}");
        let mut in_parts = since("${inputs.month}${inputs.day}");
        for (key, part) in [("month", "2026-11-"), ("day", "27")] {
            in_parts.inputs.insert(key.to_owned(), json!(part));
        }
        let meant = PlanTemplate::new("3 of yesterday", &in_parts, &picture_tools());
        assert!(matches!(meant, Err(NotReusable::Time(_))), "{meant:?}");
    }

    #[test]
    fn name_stands_for_the_request() {
        let template = template("bring 3 of /srv/a", &plan(3, json!({})));
        let count = |text| {
            let plan = template.fill_named("trio", text)?;
            plan.steps[2].call.params["count"].as_u64()
        };
        assert_eq!(count("trio"), Some(3));
        assert_eq!(count("trio 5 ./b"), Some(5));
        for other in [
            "trio ./b 5",
            "trio 5",
            "trios",
            "trio for 5 ./b",
            "5 trio ./b",
        ] {
            assert_eq!(count(other), None, "{other}");
        }
    }
}
