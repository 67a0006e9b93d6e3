//! Parses a blueprint: TOML between `+++` lines, then instructions for the language model.
//!
//! ```text
//! +++
//! job = "question"
//! when = "The user asks about the loading dock."
//! tools = ["look_around", "query_events"]
//! model = "small"           # or "large"; or, with `provider = "claude"`, the id of a model
//! plan_required = false     # true: a proposal is refused before update_plan was called
//! [limits]
//! steps = 4
//! cost_usd = 0.02
//! +++
//! Answer in Polish. The dock is on camera dock; deliveries come before ten.
//! ```

use serde::de::DeserializeOwned;
use watchkeeper_llm::money::Money;

use super::{
    Blueprint, BlueprintError, BlueprintName, Job, MAX_BYTES, MAX_INSTRUCTIONS, MAX_WHEN,
    ModelSize, NamedModel,
};

const FENCE: &str = "+++";
/// Tool that makes a plan.
const PLAN_TOOL: &str = "update_plan";
/// Longest name of a provider or a model, in characters.
const MAX_MODEL_NAME: usize = 100;

/// The front matter as it is written.
#[derive(Debug)]
struct FrontMatter {
    job: Job,
    when: String,
    tools: Option<Vec<String>>,
    provider: Option<String>,
    model: Option<String>,
    plan_required: bool,
    steps: Option<u32>,
    cost_usd: Option<f64>,
}

/// The fields of a table of the front matter that were not read yet, and the errors so far.
struct Fields<'a> {
    /// Begin of the names in messages, such as `limits.`.
    prefix: &'a str,
    table: toml::Table,
    known: Vec<&'static str>,
    flaws: &'a mut Vec<BlueprintError>,
}

impl Fields<'_> {
    /// Removes a field; `None` if it is absent or has another type than `form` says.
    fn take<T: DeserializeOwned>(&mut self, name: &'static str, form: &str) -> Option<T> {
        self.known.push(name);
        let value = self.table.remove(name)?;
        let found = value.to_string();
        let error = match value.try_into() {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let field = format!("{}{name}", self.prefix);
        // serde quotes the name that was written, and those that it knows.
        let mut names = error.message().split('`').skip(1).step_by(2);
        self.flaws
            .push(match (names.next(), is_unknown_name(&error)) {
                (Some(written), true) => {
                    let remedy = "write one of these names";
                    BlueprintError::new(&field, found, error.message(), remedy).near(written, names)
                }
                _ => BlueprintError::new(&field, found, "it has the wrong type", form),
            });
        None
    }

    /// Reports every field that was not taken.
    fn finish(self) {
        for (name, value) in &self.table {
            let remedy = format!("remove it; the fields are {}", self.known.join(", "));
            let field = format!("{}{name}", self.prefix);
            let flaw = BlueprintError::new(&field, value, "unknown field", &remedy);
            self.flaws.push(flaw.near(name, self.known.iter().copied()));
        }
    }
}

fn is_unknown_name(error: &toml::de::Error) -> bool {
    error.message().starts_with("unknown variant")
}

/// Parses the blueprint `name` from the text of its file.
///
/// # Errors
/// All errors of the form, or all errors of the values; of the syntax of TOML the first.
pub fn read(name: &BlueprintName, text: &str) -> Result<Blueprint, Vec<BlueprintError>> {
    let (front, body) = split(text).map_err(|flaw| vec![flaw])?;
    let front = FrontMatter::parse(front)?;
    let instructions = body.trim().replace("\r\n", "\n");
    let mut flaws = front.tool_flaws();
    flaws.extend(front.text_flaws(name, &instructions));
    flaws.extend(front.model_flaw());
    flaws.extend(front.limit_flaws());
    if !flaws.is_empty() {
        return Err(flaws);
    }
    Ok(Blueprint {
        name: name.clone(),
        job: front.job,
        when: front.when.trim().to_owned(),
        instructions,
        tools: front.tools(),
        model: front.size().unwrap_or(ModelSize::Small),
        plan_required: front.plan_required,
        steps: front.steps.unwrap_or(front.job.max_steps()),
        cost: front.cost().unwrap_or(front.job.max_cost()),
        named_model: front
            .provider
            .zip(front.model)
            .map(|(provider, id)| NamedModel { provider, id }),
    })
}

/// Whether the form of a file is valid and names no provider: only its values may be wrong.
pub(super) fn names_no_provider(text: &str) -> bool {
    let front = split(text).ok().map(|(front, _)| FrontMatter::parse(front));
    matches!(front, Some(Ok(front)) if front.provider.is_none())
}

/// The `when` of an invalid file; `None` if it can't be read, or the file serves no user.
pub(super) fn readable_when(text: &str) -> Option<String> {
    let table: toml::Table = toml::from_str(split(text).ok()?.0).ok()?;
    let read = |name: &str| table.get(name).and_then(toml::Value::as_str);
    let job = read("job").and_then(Job::from_name);
    let when = read("when").filter(|_| job.is_none_or(Job::is_user_requestable))?;
    Some(when.trim().chars().take(MAX_WHEN).collect())
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

/// An error of the syntax of TOML, with the key and the value of its line.
fn syntax_flaw(front: &str, error: &toml::de::Error) -> BlueprintError {
    let line = error.span().and_then(|span| {
        let (before, after) = front.split_at_checked(span.start)?;
        let begin = before.rfind('\n').map_or(0, |end| end + 1);
        let length = after.find('\n').unwrap_or(after.len());
        front.get(begin..span.start + length)
    });
    let written = line.and_then(|line| line.split_once('='));
    let (field, found) = written.unwrap_or(("front matter", ""));
    let remedy = "correct it; `watchkeeper blueprints show question` is an example";
    BlueprintError::new(field.trim(), found.trim(), error.message(), remedy)
}

/// Whether a text may be the name of a provider or a model.
fn is_model_name(text: &str) -> bool {
    let is_short = (1..=MAX_MODEL_NAME).contains(&text.chars().count());
    is_short && !text.contains(|c: char| c.is_control() || c.is_whitespace())
}

impl FrontMatter {
    /// # Errors
    /// All errors of the form.
    fn parse(front: &str) -> Result<Self, Vec<BlueprintError>> {
        let table = toml::from_str(front).map_err(|error| vec![syntax_flaw(front, &error)])?;
        let mut flaws = Vec::new();
        let mut fields = Fields {
            prefix: "",
            table,
            known: Vec::new(),
            flaws: &mut flaws,
        };
        let text = "write a text in quotes";
        let (job, when) = (fields.take("job", text), fields.take("when", text));
        let tools = "write a list of names in quotes, such as [\"look_around\"]";
        let tools = fields.take("tools", tools);
        let (provider, model) = (fields.take("provider", text), fields.take("model", text));
        let plan_required = fields.take("plan_required", "write true or false");
        let limits = "write a section [limits] with steps and cost_usd";
        let limits = fields.take("limits", limits);
        fields.finish();
        let mut limits = Fields {
            prefix: "limits.",
            table: limits.unwrap_or_default(),
            known: Vec::new(),
            flaws: &mut flaws,
        };
        let steps = limits.take("steps", "write a whole number: calls of the model");
        let cost_usd = limits.take("cost_usd", "write an amount of US dollars");
        limits.finish();
        for (name, is_missing) in [("job", job.is_none()), ("when", when.is_none())] {
            if is_missing && !flaws.iter().any(|flaw| flaw.field == name) {
                let remedy = "add it; `watchkeeper blueprints show question` is an example";
                flaws.push(BlueprintError::new(name, "", "it is missing", remedy));
            }
        }
        match (job, when) {
            (Some(job), Some(when)) if flaws.is_empty() => Ok(Self {
                job,
                when,
                tools,
                provider,
                model,
                plan_required: plan_required.unwrap_or_default(),
                steps,
                cost_usd,
            }),
            _ => Err(flaws),
        }
    }

    /// The tools, in the order of the job.
    fn tools(&self) -> Vec<&'static str> {
        let all = self.job.tools().iter().copied();
        match &self.tools {
            None => all.collect(),
            Some(wanted) => all
                .filter(|name| wanted.iter().any(|w| w == name))
                .collect(),
        }
    }

    fn size(&self) -> Option<ModelSize> {
        match self.model.as_deref() {
            None | Some("small") => Some(ModelSize::Small),
            Some("large") => Some(ModelSize::Large),
            Some(_) => None,
        }
    }

    /// The limit of the costs, if it is within that of the job.
    fn cost(&self) -> Option<Money> {
        let max_cost = self.job.max_cost();
        match self.cost_usd {
            None => Some(max_cost),
            Some(usd) => {
                Money::from_dollars(usd).filter(|cost| (Money(1)..=max_cost).contains(cost))
            }
        }
    }

    fn text_flaws(&self, name: &BlueprintName, instructions: &str) -> Vec<BlueprintError> {
        let mut flaws = Vec::new();
        let mut flaw = |field, found: String, problem: &str, remedy: &str| {
            flaws.push(BlueprintError::new(field, found, problem, remedy));
        };
        if let Some(own) = Job::from_name(name.as_str()).filter(|own| *own != self.job) {
            let problem = format!("the built-in blueprint {name} has another job");
            let remedy = format!("write job = {:?}, or rename the blueprint", own.name());
            flaw("job", format!("{:?}", self.job.name()), &problem, &remedy);
        }
        let fits = (1..=MAX_WHEN).contains(&self.when.trim().chars().count());
        if !fits || self.when.trim().chars().any(char::is_control) {
            let problem = "it is empty, too long or has control characters";
            let remedy = format!(
                "write one line of at most {MAX_WHEN} characters: when to choose this blueprint; \
                 the model that routes requests reads it"
            );
            flaw("when", format!("{:?}", self.when), problem, &remedy);
        }
        if instructions.len() > MAX_INSTRUCTIONS {
            let found = format!("{} bytes", instructions.len());
            let remedy =
                format!("write at most {MAX_INSTRUCTIONS}: the model reads them at each call");
            flaw("instructions", found, "they are too long", &remedy);
        }
        if instructions.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
            let (problem, remedy) = ("they have control characters", "remove them");
            flaw("instructions", String::new(), problem, remedy);
        }
        flaws
    }

    fn tool_flaws(&self) -> Vec<BlueprintError> {
        let (all, first) = (self.job.tools(), self.job.first_tool());
        let remedy = format!(
            "the tools of the job {} are: {}",
            self.job.name(),
            all.join(", ")
        );
        let wanted = self.tools.iter().flatten().map(String::as_str);
        let unknown = wanted.filter(|name| !all.contains(name));
        let mut flaws: Vec<BlueprintError> = unknown
            .map(|name| {
                let problem = "the job has no such tool; a blueprint can't widen its job";
                let flaw = BlueprintError::new("tools", format!("{name:?}"), problem, &remedy);
                flaw.near(name, all.iter().copied())
            })
            .collect();
        let tools = self.tools();
        if !tools.contains(&first) {
            let problem = format!("{first} is missing: the job starts with it");
            let remedy = format!("add {first:?}");
            flaws.push(BlueprintError::new("tools", "", &problem, &remedy));
        }
        if self.plan_required && !tools.contains(&PLAN_TOOL) {
            let problem = format!("without {PLAN_TOOL} there is no plan");
            let remedy = format!("add {PLAN_TOOL} to tools, or remove plan_required");
            flaws.push(BlueprintError::new(
                "plan_required",
                true,
                &problem,
                &remedy,
            ));
        }
        flaws
    }

    fn model_flaw(&self) -> Option<BlueprintError> {
        let shown = |text: &Option<String>| text.as_ref().map(|text| format!("{text:?}"));
        let provider = shown(&self.provider).unwrap_or_default();
        let model = shown(&self.model).unwrap_or_default();
        let (field, found, problem, remedy) = match &self.provider {
            None if self.size().is_some() => return None,
            None => (
                "model",
                model,
                "there is no such size",
                "write \"small\" (llm.model) or \"large\" (llm.large_model), or name a provider too",
            ),
            Some(name) if !is_model_name(name) => (
                "provider",
                provider,
                "it is not the name of a provider",
                "write that of llm.provider or llm.second.provider, such as \"claude\"",
            ),
            Some(_) if self.size().is_none() && is_model_name(self.model.as_ref()?) => return None,
            Some(_) => (
                "model",
                model,
                "a provider needs the id of one of its models",
                "write the id of a model, or remove provider",
            ),
        };
        Some(BlueprintError::new(field, found, problem, remedy))
    }

    fn limit_flaws(&self) -> Vec<BlueprintError> {
        let mut flaws = Vec::new();
        let mut flaw = |field, found: &dyn std::fmt::Display, remedy: &str| {
            let problem = "it is outside the limits of the job";
            flaws.push(BlueprintError::new(field, found, problem, remedy));
        };
        let max_steps = self.job.max_steps();
        if let Some(steps) = self.steps.filter(|n| !(1..=max_steps).contains(n)) {
            let remedy = format!("write a whole number from 1 to {max_steps}: calls of the model");
            flaw("limits.steps", &steps, &remedy);
        }
        if let Some(usd) = self.cost_usd.filter(|_| self.cost().is_none()) {
            let most = self.job.max_cost().dollars();
            let remedy = format!("write an amount of US dollars above 0 and up to {most:.2}");
            flaw("limits.cost_usd", &usd, &remedy);
        }
        flaws
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
