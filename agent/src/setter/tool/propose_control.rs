//! Puts the end, the pause or the going on of pipelines up for the person's yes.

use futures_util::FutureExt as _;
use jiff::{Timestamp, Zoned};
use serde::Deserialize;
use serde_json::json;

use super::super::facts::{Fact, ModelWords};
use super::super::hands::Hands;
use super::propose_deployment::fits;
use super::{Effect, Given, Outcome, Scope, Tool, schema, text};
use crate::assistant::made::MadeChange;

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "propose_control",
    about: "Puts the stop (it ends and is gone), pause or resume of pipelines up for the person's yes. It changes nothing.",
    schema: || {
        let properties = json!({
            "action": {"type": "string", "enum": ["stop", "pause", "resume"]},
            "pipelines": {"type": "array", "items": {"type": "string"}, "description": "their names"},
            "until": text("pause only: when they go on by themselves, RFC 3339 with the offset of that moment (2026-03-29T08:00:00+02:00); leave out: when somebody resumes them"),
            "says": text("one sentence for the person"),
        });
        schema(&properties, &["action", "pipelines", "says"])
    },
    effect: Effect::ProposeLoss,
    scope: Scope::Pipelines,
    per_turn: 6,
    run: |given| async move { propose(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    action: Action,
    pipelines: Vec<String>,
    #[serde(default)]
    until: Option<String>,
    says: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Stop,
    Pause,
    Resume,
}

/// The moment that a model wrote.
fn moment(written: &str, now: &Zoned) -> Result<Timestamp, String> {
    let at: Timestamp = written.parse().map_err(|e| {
        format!("until {written:?} is no moment of RFC 3339 such as 2026-03-29T08:00:00+02:00: {e}")
    })?;
    if at <= now.timestamp() {
        return Err(format!(
            "until {written:?} is past; it is {} now",
            now.strftime("%Y-%m-%dT%H:%M:%S%:z")
        ));
    }
    Ok(at)
}

async fn propose(given: Given<'_>) -> Result<Outcome, String> {
    let arguments: Arguments = given.arguments()?;
    if arguments.pipelines.is_empty() {
        return Err("name at least one pipeline".to_owned());
    }
    let here = given.hands.situation().await?;
    let until = match (&arguments.until, arguments.action) {
        (None, _) => None,
        (Some(until), Action::Pause) => Some(moment(until, &here.now)?),
        (Some(_), Action::Stop | Action::Resume) => {
            return Err("until is for a pause; leave it out".to_owned());
        }
    };
    let mut all = given.facts.changes();
    let mut facts = Vec::new();
    for name in &arguments.pipelines {
        let pipeline = Hands::pipeline(name, &here)?;
        let change = match arguments.action {
            Action::Stop => MadeChange::Stop { pipeline },
            Action::Pause => MadeChange::Pause { pipeline, until },
            Action::Resume => MadeChange::Resume { pipeline },
        };
        all.retain(|other| other.pipeline() != change.pipeline());
        all.push(change.clone());
        // Said once, with the first of them.
        let says = if facts.is_empty() {
            arguments.says.clone()
        } else {
            String::new()
        };
        facts.push(Fact::Proposed {
            change: Box::new(change),
            draft: None,
            words: ModelWords {
                says,
                ..ModelWords::default()
            },
        });
    }
    fits(&all)?;
    let told = json!({
        "put_up": arguments.pipelines,
        "next": "Nothing has changed. The person is shown this and says yes or no. End with one short sentence.",
    });
    Ok(Outcome {
        facts,
        ..Outcome::json(&told)
    })
}
