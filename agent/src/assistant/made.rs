//! Changes that a model of language has written out, and what they really are.
//!
//! A person's words are kept as words, because the rules understand them again on the yes. A model would not say the same twice: what it proposed is
//! kept as it was proposed, with every field of every pipeline.
//!
//! Invariants: what a person is shown of the changes is made of the specifications ([`really`]) and of the difference; the model's own sentence
//! stands beside it, marked as the model's, so one that says another thing than it does is seen through.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{Condition, RuleSpec};
use watchkeeper_engine::workflow::{Overlay, compile};
use watchkeeper_plain::{Change, Proposal};

/// Longest text of a model that is shown, in characters.
pub const MAX_WORDS: usize = 600;
/// Most sentences of one kind.
pub const MAX_SENTENCES: usize = 8;
/// Most changes of one proposal.
pub const MAX_CHANGES: usize = 16;
/// Largest changes of one proposal together, in bytes of JSON.
pub const MAX_BYTES: usize = 128 * 1024;
/// Most steps that are named.
const MAX_STEPS: usize = 12;

/// One change, in the form in which it is kept and in which programs read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum MadeChange {
    /// A new pipeline.
    Deploy {
        /// All of it.
        spec: Box<PipelineSpec>,
    },
    /// Another specification for a pipeline that runs.
    Replace {
        /// All of it.
        spec: Box<PipelineSpec>,
    },
    /// A pipeline ends and is gone.
    Stop {
        /// Which.
        pipeline: PipelineId,
    },
    /// A pipeline pauses.
    Pause {
        /// Which.
        pipeline: PipelineId,
        /// When it goes on by itself; absent: when somebody resumes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// A pipeline goes on.
    Resume {
        /// Which.
        pipeline: PipelineId,
    },
}

impl MadeChange {
    /// The pipeline that it is about.
    #[must_use]
    pub fn pipeline(&self) -> &PipelineId {
        match self {
            Self::Deploy { spec } | Self::Replace { spec } => &spec.id,
            Self::Stop { pipeline } | Self::Pause { pipeline, .. } | Self::Resume { pipeline } => {
                pipeline
            }
        }
    }

    fn change(&self) -> Change {
        match self {
            Self::Deploy { spec } => Change::Deploy(spec.clone()),
            Self::Replace { spec } => Change::Replace(spec.clone()),
            Self::Stop { pipeline } => Change::Stop(pipeline.clone()),
            Self::Pause { pipeline, until } => Change::Pause {
                pipeline: pipeline.clone(),
                until: until.map(|until| until.to_zoned(TimeZone::system())),
            },
            Self::Resume { pipeline } => Change::Resume(pipeline.clone()),
        }
    }
}

/// What a model proposed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Which model.
    pub model: String,
    /// What it says that it does, in its own words.
    pub says: String,
    /// What it took for granted, in its own words.
    pub assumed: Vec<String>,
    /// What it says that can't be done, in its own words.
    pub not_possible: Vec<String>,
    /// What the box found out about it beforehand: where the preview lies, what the dry run gave.
    pub evidence: Vec<String>,
    /// What would change, in order.
    pub changes: Vec<MadeChange>,
}

impl Made {
    /// The proposal that it is.
    #[must_use]
    pub fn proposal(&self) -> Proposal {
        Proposal {
            intent: None,
            changes: self.changes.iter().map(MadeChange::change).collect(),
            understood: self.says.clone(),
            assumed: self.assumed.clone(),
            not_possible: self.not_possible.clone(),
            not_understood: Vec::new(),
        }
    }

    /// What each change really is, one sentence each.
    #[must_use]
    pub fn really(&self) -> Vec<String> {
        self.changes.iter().map(really).collect()
    }
}

/// A model's words as they are shown: one line without control characters, cut.
#[must_use]
pub fn words(text: &str) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_WORDS)
        .collect();
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn really(change: &MadeChange) -> String {
    match change {
        MadeChange::Deploy { spec } | MadeChange::Replace { spec } => pipeline(spec),
        MadeChange::Stop { pipeline } => format!("{pipeline} ends and is gone"),
        MadeChange::Pause { pipeline, until } => match until {
            Some(until) => format!(
                "{pipeline} pauses until {}",
                until
                    .to_zoned(TimeZone::system())
                    .strftime("%Y-%m-%d %H:%M %:z")
            ),
            None => format!("{pipeline} pauses until somebody resumes it"),
        },
        MadeChange::Resume { pipeline } => format!("{pipeline} goes on"),
    }
}

/// A pipeline in one sentence, made of its specification.
fn pipeline(spec: &PipelineSpec) -> String {
    let mut parts = vec![format!("{} on camera {}", spec.id, spec.source)];
    let steps = spec.workflow.get("steps").and_then(|s| s.as_array());
    let steps = steps.map(Vec::as_slice).unwrap_or_default();
    let names: Vec<String> = steps.iter().take(MAX_STEPS).map(step).collect();
    let more = match steps.len().saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    parts.push(format!("steps {}{more}", names.join(", ")));
    if let Ok(compiled) = compile(&spec.workflow, &spec.parameters) {
        parts.extend(compiled.overlays().iter().map(overlay));
    }
    parts.push(match &spec.rules {
        None => "rules as they follow from the workflow".to_owned(),
        Some(rules) if rules.is_empty() => "no rules, so no events".to_owned(),
        Some(rules) => {
            let rules: Vec<String> = rules.iter().map(rule).collect();
            format!("events: {}", rules.join(" / "))
        }
    });
    if spec.record {
        parts.push("records video".to_owned());
    }
    if let Some(seconds) = spec.stop_after_s {
        parts.push(format!("ends after {seconds} s"));
    }
    parts.join("; ")
}

/// A step by its name and what is worth knowing of it.
fn step(step: &serde_json::Value) -> String {
    let text = |name: &str| step.get(name).and_then(|v| v.as_str()).unwrap_or("?");
    let kind = text("type");
    let kind = kind.rsplit('/').next().unwrap_or(kind);
    let kind = kind.split('@').next().unwrap_or(kind);
    let mut told = format!("{} ({kind}", text("name"));
    if let Some(model) = step.get("model_id").and_then(|m| m.as_str()) {
        told.push_str(&format!(", model {model}"));
    }
    let classes = step.get("class_filter").and_then(|c| c.as_array());
    let classes: Vec<&str> = classes
        .into_iter()
        .flatten()
        .filter_map(|c| c.as_str())
        .collect();
    if !classes.is_empty() {
        told.push_str(&format!(", only {}", classes.join(" and ")));
    }
    told.push(')');
    told
}

fn overlay(overlay: &Overlay) -> String {
    match overlay {
        Overlay::Line { name, start, end } => {
            format!(
                "line {name} from {},{} to {},{}",
                start.x, start.y, end.x, end.y
            )
        }
        Overlay::Zone { name, polygon } => {
            let corners: Vec<String> = polygon.iter().map(|p| format!("{},{}", p.x, p.y)).collect();
            format!("zone {name} {}", corners.join(" "))
        }
    }
}

/// A rule by what has to happen.
fn rule(rule: &RuleSpec) -> String {
    let what = match &rule.when {
        Condition::Appears { .. } => "appears".to_owned(),
        Condition::Enters { zone } => format!("enters {zone}"),
        Condition::Leaves { zone } => format!("leaves {zone}"),
        Condition::Stays { zone, for_s } => format!("stays in {zone} for {for_s} s"),
        Condition::Crosses { line, .. } => format!("crosses {line}"),
        Condition::Count { bound, for_s, .. } => format!("count {bound:?} for {for_s} s"),
        Condition::Value { value, .. } => format!("value of {value}"),
    };
    let who = match rule.classes.as_slice() {
        [] => "anything".to_owned(),
        classes => classes.join(" or "),
    };
    let mut told = format!("{}: {who} {what}", rule.name);
    if let Some(hours) = &rule.schedule {
        told.push_str(&format!(", {} to {}", hours.from, hours.to));
    }
    if let Some(clip) = rule.clip {
        told.push_str(&format!(
            ", with a clip from {} s before to {} s after",
            clip.before_s, clip.after_s
        ));
    }
    if !rule.notify.is_empty() {
        let channels: Vec<String> = rule.notify.iter().map(|c| format!("#{c}")).collect();
        told.push_str(&format!(", told to {}", channels.join(" and ")));
    }
    if rule.cooldown_s > 0.0 {
        told.push_str(&format!(", then quiet for {} s", rule.cooldown_s));
    }
    told
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::*;

    pub(super) fn spec() -> PipelineSpec {
        let watch = watchkeeper_plain::watch::Watch {
            classes: vec!["person".to_owned()],
            lines: vec!["door:320,0,320,360".parse().unwrap()],
            ..Default::default()
        };
        let workflow = watchkeeper_plain::watch::workflow(&watch, "yolox-nano");
        serde_json::from_value(json!({
            "id": "gate-door", "source": "gate", "workflow": workflow,
            "rules": [{"name": "in", "when": {"kind": "crosses", "line": "door"}, "classes": ["person"], "cooldown_s": 30.0}],
        }))
        .unwrap()
    }

    fn made(changes: Vec<MadeChange>) -> Made {
        Made {
            model: "m".to_owned(),
            says: "Counts people.".to_owned(),
            assumed: Vec::new(),
            not_possible: Vec::new(),
            evidence: Vec::new(),
            changes,
        }
    }

    #[test]
    fn what_a_change_really_is_comes_from_its_specification_and_not_from_the_models_words() {
        let spec = Box::new(spec());
        let pipeline = spec.id.clone();
        let made = made(vec![
            MadeChange::Deploy { spec },
            MadeChange::Stop { pipeline },
        ]);
        let [watch, stop] = made.really().try_into().unwrap();
        for part in [
            "gate-door on camera gate",
            "detect (roboflow_object_detection_model, model yolox-nano, only person)",
            "line door from 320,0 to 320,360",
            "in: person crosses door, then quiet for 30 s",
        ] {
            assert!(watch.contains(part), "{part}: {watch}");
        }
        assert_eq!(stop, "gate-door ends and is gone");
        assert!(!made.really().join(" ").contains("Counts people"));
    }

    #[test]
    fn what_is_kept_comes_back_as_it_was() {
        let spec = Box::new(spec());
        let made = made(vec![MadeChange::Replace { spec }]);
        let kept = serde_json::to_string(&made).unwrap();
        assert_eq!(serde_json::from_str::<Made>(&kept).unwrap(), made);
    }

    #[test]
    fn a_models_words_are_one_line_and_bounded() {
        let shown = words(&format!(
            "a\u{1b}[31m\nb\u{7}  {}",
            "x".repeat(2 * MAX_WORDS)
        ));
        assert!(shown.starts_with("a [31m b x") && shown.chars().count() <= MAX_WORDS);
    }
}
