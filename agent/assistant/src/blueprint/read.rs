//! Parses the text of a blueprint; reports all errors at once.
//!
//! ```text
//! +++
//! job = "question"
//! when = "The user asks about the loading dock."
//! tools = ["look_around", "query_events"]
//! model = "small"           # or "large"; or, with `provider = "claude"`, the id of a model
//! plan_required = false     # true: a proposal is refused before update_plan was called
//!
//! [limits]
//! steps = 4
//! cost_usd = 0.02
//! +++
//! Answer in Polish. The dock is on camera dock; deliveries come before ten.
//! ```
//!
//! TOML stands between the `+++` lines; further instructions for the language model follow.

use toml::{Table, Value};
use watchkeeper_llm::money::Money;

use super::{
    Blueprint, BlueprintError, BlueprintName, Job, MAX_BYTES, MAX_INSTRUCTIONS, MAX_WHEN,
    ModelSize, NamedModel,
};

const FENCE: &str = "+++";
const KEYS: [&str; 7] = [
    "job",
    "when",
    "tools",
    "provider",
    "model",
    "plan_required",
    "limits",
];
/// Tool that makes a plan.
const PLAN_TOOL: &str = "update_plan";
/// Longest name of a provider or a model, in characters.
const MAX_MODEL_NAME: usize = 100;
const LIMITS: [&str; 2] = ["steps", "cost_usd"];

/// Parses the blueprint `name` from the text of its file.
///
/// # Errors
/// All errors, at least one.
pub fn read(name: &BlueprintName, text: &str) -> Result<Blueprint, Vec<BlueprintError>> {
    let (front, body) = split(text).map_err(|flaw| vec![flaw])?;
    let table: Table = front.parse().map_err(|e: toml::de::Error| {
        // The message of the TOML parser, without the quoted line.
        let remedy = "correct that line, or start from `watchkeeper blueprints show NAME`";
        vec![BlueprintError::new("front matter", "", e.message(), remedy)]
    })?;
    let mut reader = BlueprintParser { flaws: Vec::new() };
    let read = reader.blueprint(name, &table, body);
    match read {
        Some(blueprint) if reader.flaws.is_empty() => Ok(blueprint),
        _ => Err(reader.flaws),
    }
}

/// Splits a text into front matter and instructions.
fn split(text: &str) -> Result<(&str, &str), BlueprintError> {
    if text.len() > MAX_BYTES {
        let (found, most) = (
            format!("{} bytes", text.len()),
            format!("write at most {MAX_BYTES} bytes"),
        );
        return Err(BlueprintError::new("file", found, "it is too large", &most));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let fenced = || {
        let rest = text.trim_start().strip_prefix(FENCE)?;
        let rest = rest.strip_prefix('\r').unwrap_or(rest).strip_prefix('\n')?;
        let mut at = 0;
        for line in rest.split_inclusive('\n') {
            if line.trim_end() == FENCE {
                return Some((rest.get(..at)?, rest.get(at + line.len()..)?));
            }
            at += line.len();
        }
        None
    };
    fenced().ok_or_else(|| {
        BlueprintError::new(
            "front matter",
            "",
            "the file must start with a line +++, the fields, and another line +++",
            "see `watchkeeper blueprints show question` for an example",
        )
    })
}

struct BlueprintParser {
    flaws: Vec<BlueprintError>,
}

impl BlueprintParser {
    fn flaw(&mut self, flaw: BlueprintError) {
        self.flaws.push(flaw);
    }

    /// `None` if the job is unknown: the other fields depend on it.
    fn blueprint(&mut self, name: &BlueprintName, table: &Table, body: &str) -> Option<Blueprint> {
        self.known(table, "", &KEYS);
        let job = self.job(name, table.get("job"))?;
        let empty = Table::new();
        let limits = match table.get("limits") {
            None => &empty,
            Some(Value::Table(limits)) => limits,
            Some(other) => {
                self.flaw(BlueprintError::new(
                    "limits",
                    other,
                    "it is not a table",
                    "write a section [limits]",
                ));
                &empty
            }
        };
        self.known(limits, "limits.", &LIMITS);
        let tools = self.tools(job, table.get("tools"));
        let named_model = self.named_model(table.get("provider"), table.get("model"));
        Some(Blueprint {
            name: name.clone(),
            job,
            when: self.when(table.get("when")),
            instructions: self.instructions(body),
            model: match &named_model {
                Some(_) => ModelSize::Small,
                None => self.model(table.get("model")),
            },
            named_model,
            plan_required: self.plan_required(table.get("plan_required"), &tools),
            tools,
            steps: self.steps(job, limits.get("steps")),
            cost: self.cost(job, limits.get("cost_usd")),
        })
    }

    fn known(&mut self, table: &Table, before: &str, known: &[&'static str]) {
        for (key, value) in table {
            if !known.contains(&key.as_str()) {
                let remedy = format!("remove it; the fields are: {}", known.join(", "));
                let flaw = BlueprintError::new(
                    &format!("{before}{key}"),
                    value,
                    "there is no such field",
                    &remedy,
                );
                self.flaw(flaw.near(key, known.iter().copied()));
            }
        }
    }

    fn job(&mut self, name: &BlueprintName, value: Option<&Value>) -> Option<Job> {
        let names = Job::ALL.map(Job::name);
        let remedy = format!("write one of {}", names.join(", "));
        let Some(value) = value else {
            self.flaw(BlueprintError::new("job", "", "it is missing", &remedy));
            return None;
        };
        let Some(job) = value.as_str().and_then(Job::from_name) else {
            let flaw = BlueprintError::new("job", value, "there is no such job", &remedy);
            let written = value.as_str().unwrap_or_default();
            self.flaw(flaw.near(written, names));
            return None;
        };
        if let Some(own) = Job::from_name(name.as_str())
            && own != job
        {
            let remedy = format!("write job = {:?}, or rename the blueprint", own.name());
            let problem = format!("the built-in blueprint {name} has another job");
            self.flaw(BlueprintError::new("job", value, &problem, &remedy));
        }
        Some(job)
    }

    fn when(&mut self, value: Option<&Value>) -> String {
        let remedy = format!(
            "write one line of at most {MAX_WHEN} characters: when to choose this blueprint; the \
             model that routes requests reads it"
        );
        let Some(value) = value else {
            self.flaw(BlueprintError::new("when", "", "it is missing", &remedy));
            return String::new();
        };
        let text = value.as_str().map(str::trim).unwrap_or_default();
        let fits = (1..=MAX_WHEN).contains(&text.chars().count());
        if !fits || text.chars().any(char::is_control) {
            self.flaw(BlueprintError::new(
                "when",
                value,
                "it is empty, too long or has control characters",
                &remedy,
            ));
        }
        text.to_owned()
    }

    fn instructions(&mut self, body: &str) -> String {
        let text = body.trim().replace("\r\n", "\n");
        if text.len() > MAX_INSTRUCTIONS {
            let found = format!("{} bytes", text.len());
            let remedy =
                format!("write at most {MAX_INSTRUCTIONS}: the model reads them at each call");
            self.flaw(BlueprintError::new(
                "instructions",
                found,
                "they are too long",
                &remedy,
            ));
        }
        let hidden = |c: char| c.is_control() && c != '\n' && c != '\t';
        if text.contains(hidden) {
            let remedy = "remove the control characters";
            self.flaw(BlueprintError::new(
                "instructions",
                "",
                "they have control characters",
                remedy,
            ));
        }
        text
    }

    fn tools(&mut self, job: Job, value: Option<&Value>) -> Vec<&'static str> {
        let all = job.tools();
        let Some(value) = value else {
            return all.to_vec();
        };
        let there = format!(
            "the tools of the job {} are: {}",
            job.name(),
            all.join(", ")
        );
        let Some(wanted) = value.as_array() else {
            self.flaw(BlueprintError::new(
                "tools",
                value,
                "it is not a list of names",
                &there,
            ));
            return Vec::new();
        };
        for wanted in wanted {
            let name = wanted.as_str().unwrap_or_default();
            if !all.contains(&name) {
                let flaw = BlueprintError::new(
                    "tools",
                    wanted,
                    "the job has no such tool; a blueprint can't widen its job",
                    &there,
                );
                self.flaw(flaw.near(name, all.iter().copied()));
            }
        }
        let is_wanted = |name: &str| wanted.iter().any(|w| w.as_str() == Some(name));
        if !is_wanted(job.first_tool()) {
            let remedy = format!("add {:?}", job.first_tool());
            self.flaw(BlueprintError::new(
                "tools",
                "",
                &format!("{} is missing: the job starts with it", job.first_tool()),
                &remedy,
            ));
        }
        all.iter().copied().filter(|name| is_wanted(name)).collect()
    }

    /// The model that the blueprint names by `provider` and `model`; `None` without a provider.
    fn named_model(
        &mut self,
        provider: Option<&Value>,
        model: Option<&Value>,
    ) -> Option<NamedModel> {
        let provider = provider?;
        let is_name = |text: &&str| {
            let is_short = (1..=MAX_MODEL_NAME).contains(&text.chars().count());
            is_short && !text.contains(|c: char| c.is_control() || c.is_whitespace())
        };
        let name = |value: &Value| value.as_str().filter(is_name).map(str::to_owned);
        let named = name(provider);
        if named.is_none() {
            let problem = "it is no name of a provider";
            let remedy = "write that of llm.provider or llm.second.provider, such as \"claude\"";
            self.flaw(BlueprintError::new("provider", provider, problem, remedy));
        }
        let id = model.and_then(name);
        let id = id.filter(|id| !["small", "large"].contains(&id.as_str()));
        if id.is_none() {
            let found = model.map(ToString::to_string).unwrap_or_default();
            let remedy = "write the id of a model, or remove provider";
            let problem = "a provider needs the id of one of its models";
            self.flaw(BlueprintError::new("model", found, problem, remedy));
        }
        Some(NamedModel {
            provider: named?,
            id: id?,
        })
    }

    fn plan_required(&mut self, value: Option<&Value>, tools: &[&str]) -> bool {
        let Some(value) = value else {
            return false;
        };
        let Some(required) = value.as_bool() else {
            let remedy = "write true or false";
            let problem = "it is neither true nor false";
            self.flaw(BlueprintError::new("plan_required", value, problem, remedy));
            return false;
        };
        if required && !tools.contains(&PLAN_TOOL) {
            let problem = format!("without {PLAN_TOOL} there is no plan");
            let remedy = format!("add {PLAN_TOOL} to tools, or remove plan_required");
            self.flaw(BlueprintError::new(
                "plan_required",
                value,
                &problem,
                &remedy,
            ));
        }
        required
    }

    fn model(&mut self, value: Option<&Value>) -> ModelSize {
        match value.map(Value::as_str) {
            None | Some(Some("small")) => ModelSize::Small,
            Some(Some("large")) => ModelSize::Large,
            Some(other) => {
                let remedy = "write \"small\" (llm.model) or \"large\" (llm.large_model), or \
                    name a provider too";
                let found = other.unwrap_or("no text");
                let flaw = BlueprintError::new(
                    "model",
                    format!("{found:?}"),
                    "there is no such size",
                    remedy,
                );
                self.flaw(flaw.near(found, ["small", "large"]));
                ModelSize::Small
            }
        }
    }

    fn steps(&mut self, job: Job, value: Option<&Value>) -> u32 {
        let most = job.max_steps();
        let Some(value) = value else {
            return most;
        };
        let steps = value.as_integer().and_then(|n| u32::try_from(n).ok());
        match steps {
            Some(steps) if (1..=most).contains(&steps) => steps,
            _ => {
                let remedy = format!("write a whole number from 1 to {most}: calls of the model");
                self.flaw(BlueprintError::new(
                    "limits.steps",
                    value,
                    "it is outside the limits of the job",
                    &remedy,
                ));
                most
            }
        }
    }

    fn cost(&mut self, job: Job, value: Option<&Value>) -> Money {
        let most = job.max_cost();
        let Some(value) = value else {
            return most;
        };
        let dollars = value
            .as_float()
            .or_else(|| value.as_integer().map(|n| n as f64));
        match dollars.and_then(Money::from_dollars) {
            Some(cost) if cost > Money::ZERO && cost <= most => cost,
            _ => {
                let remedy = format!(
                    "write an amount of US dollars above 0 and up to {:.2}",
                    most.dollars()
                );
                self.flaw(BlueprintError::new(
                    "limits.cost_usd",
                    value,
                    "it is outside the limits of the job",
                    &remedy,
                ));
                most
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::blueprint::built_in;

    fn name(name: &str) -> BlueprintName {
        BlueprintName::new(name).unwrap()
    }

    fn flaws(front: &str, body: &str) -> Vec<String> {
        let text = format!("+++\n{front}\n+++\n{body}");
        let flaws = read(&name("dock"), &text).unwrap_err();
        flaws.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn missing_fields_default_to_the_job() {
        let text =
            "+++\njob = \"question\"\nwhen = \"About the dock.\"\n+++\n\nAnswer in Polish.\n";
        let read = read(&name("dock"), text).unwrap();
        assert_eq!(read.tools, Job::Question.tools());
        assert_eq!((read.steps, read.cost), (12, Job::Question.max_cost()));
        assert_eq!(
            (read.model, read.instructions.as_str()),
            (ModelSize::Small, "Answer in Polish.")
        );
    }

    #[test]
    fn blueprint_may_name_a_model_and_require_a_plan() {
        let text = "+++\njob = \"set-up\"\nwhen = \"x\"\nprovider = \"claude\"\nmodel = \
            \"claude-opus-5\"\nplan_required = true\n+++";
        let read = read(&name("dock"), text).unwrap();
        assert_eq!(read.model_name(), "claude/claude-opus-5");
        assert!(read.plan_required);
        let planless = flaws("job = \"question\"\nwhen = \"x\"\nplan_required = true", "");
        assert!(
            planless[0].contains("add update_plan to tools"),
            "{planless:?}"
        );
        let vague = flaws(
            "job = \"question\"\nwhen = \"x\"\nprovider = \"claude\"",
            "",
        );
        assert!(
            vague[0].starts_with("model: a provider needs the id"),
            "{vague:?}"
        );
        let sized = "job = \"question\"\nwhen = \"x\"\nprovider = \"claude\"\nmodel = \"small\"";
        assert!(flaws(sized, "")[0].contains("id of a model"));
    }

    #[test]
    fn tools_keep_the_order_of_the_job() {
        let text = "+++\njob = \"question\"\nwhen = \"x\"\ntools = [\"query_events\", \
            \"look_around\"]\n+++";
        let read = read(&name("dock"), text).unwrap();
        assert_eq!(read.tools, ["look_around", "query_events"]);
    }

    #[test]
    fn blueprint_can_only_narrow_its_job() {
        let wider = flaws(
            "job = \"question\"\nwhen = \"x\"\ntools = [\"look_around\", \"propose_deployment\", \
                \"query_event\"]\n[limits]\nsteps = 13\ncost_usd = 1.5",
            "",
        );
        assert_eq!(wider.len(), 4, "{wider:#?}");
        assert!(wider[0].contains("propose_deployment") && wider[0].contains("can't widen"));
        assert!(wider[1].contains("did you mean query_events?"));
        assert!(wider[2].contains("limits.steps = 13") && wider[2].contains("1 to 12"));
        assert!(wider[3].contains("limits.cost_usd = 1.5") && wider[3].contains("up to 1.00"));
        let blind = flaws("job = \"notes\"\nwhen = \"x\"\ntools = []", "");
        assert!(blind[0].contains("look_around is missing"), "{blind:?}");
    }

    #[test]
    fn every_error_names_field_value_and_remedy() {
        let all = flaws(
            "job = \"question\"\nwhen = \"\"\nmodle = \"small\"\nmodel = \"huge\"\nlimits = 3",
            &"x".repeat(MAX_INSTRUCTIONS + 1),
        );
        for (field, remedy) in [
            ("modle", "did you mean model?"),
            ("limits = 3", "[limits]"),
            ("when = \"\"", "one line"),
            ("instructions = 2001 bytes", "at most 2000"),
            ("model = \"huge\"", "llm.large_model"),
        ] {
            let found = all.iter().find(|flaw| flaw.starts_with(field));
            assert!(
                found.is_some_and(|flaw| flaw.contains(remedy)),
                "{field}: {all:#?}"
            );
        }
        assert!(flaws("job = \"qestion\"\nwhen = \"x\"", "")[0].contains("did you mean question?"));
        assert!(flaws("when = \"x\"", "")[0].contains("job: it is missing"));
        assert!(flaws("job = ", "")[0].starts_with("front matter"));
        for text in ["", "job", "+++\njob = \"question\"\n", "+++"] {
            let flaws = read(&name("dock"), text).unwrap_err();
            assert!(flaws[0].to_string().contains("another line +++"), "{text}");
        }
        let long = format!("+++\n+++\n{}", "x".repeat(MAX_BYTES));
        assert!(
            read(&name("dock"), &long).unwrap_err()[0]
                .to_string()
                .contains("too large")
        );
    }

    #[test]
    fn file_replacing_a_built_in_one_keeps_its_job() {
        let text = built_in::text(Job::Question);
        let flaws = read(&name("triage"), text).unwrap_err();
        assert!(
            flaws
                .iter()
                .any(|f| f.to_string().contains("job = \"triage\"")),
            "{flaws:?}"
        );
        assert!(read(&name("other"), text).is_ok());
    }

    proptest! {
        #[test]
        fn valid_blueprint_stays_within_the_limits_of_its_job(text in "(?s).{0,200}",
        steps in any::<i64>(), cost in any::<f64>(),
        tools in prop::collection::vec("[a-z_]{1,20}", 0..4)) {
            let _whatever = read(&name("dock"), &text);
            let front = format!("+++\njob = \"notes\"\nwhen = \"x\"\ntools = \
                {tools:?}\n[limits]\nsteps = {steps}\ncost_usd = {cost:?}\n+++\n{text}");
            if let Ok(read) = read(&name("dock"), &front) {
                prop_assert!(read.tools.iter().all(|tool| Job::Notes.tools().contains(tool)));
                prop_assert!(read.steps >= 1 && read.steps <= Job::Notes.max_steps());
                prop_assert!(read.cost <= Job::Notes.max_cost());
                prop_assert!(read.instructions.len() <= MAX_INSTRUCTIONS);
            }
        }
    }
}
