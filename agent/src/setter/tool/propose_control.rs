//! Puts the end, the pause or the going on of pipelines up for the person's yes.

use futures_util::FutureExt as _;
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
    says: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Stop,
    Pause,
    Resume,
}

async fn propose(given: Given<'_>) -> Result<Outcome, String> {
    let arguments: Arguments = given.arguments()?;
    if arguments.pipelines.is_empty() {
        return Err("name at least one pipeline".to_owned());
    }
    let here = given.hands.situation().await?;
    let mut all = given.facts.changes();
    let mut facts = Vec::new();
    for name in &arguments.pipelines {
        let pipeline = Hands::pipeline(name, &here)?;
        let change = match arguments.action {
            Action::Stop => MadeChange::Stop { pipeline },
            Action::Pause => MadeChange::Pause { pipeline },
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
