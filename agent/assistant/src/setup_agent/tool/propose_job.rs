//! Proposes a job on pictures, in words that the rules of the planner understand.

use futures_util::FutureExt as _;
use jiff::Zoned;
use serde::Deserialize;
use serde_json::json;
use watchkeeper_jobs::planner;

use super::super::facts::ToolFact;
use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use crate::jobs::known_names;
use crate::operations::proposed_action::ProposedAction;
use crate::permissions::Effect;

pub(super) const TOOL: Tool = Tool {
    name: "propose_job",
    description: "Proposes a job on pictures. The user sees it, and only their yes runs it. The \
        request is one English sentence such as \"organise last week's deliveries by bay and keep \
        the three best of each\" or \"group the pictures in /photos by day\"; rules read it, and \
        say which words they do not understand.",
    schema: || {
        let properties = json!({"request": text("one sentence, with the folder that was named")});
        schema(&properties, &["request"])
    },
    effect: Effect::Propose,
    max_uses: 1,
    run: |given| async move { propose(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    request: String,
}

async fn propose(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let Arguments { request } = given.arguments()?;
    let now = Zoned::now().datetime();
    let here = given.context.snapshot().await?;
    let names = known_names(&here.sources, &here.models, &here.pipelines);
    let plan = planner::plan(&request, now, &names).map_err(|error| error.to_string())?;
    if !planner::understands(&request, now, &names) {
        return Err(
            "say also what to do with the pictures, such as group, rank or keep".to_owned(),
        );
    }
    let steps: Vec<&str> = plan
        .steps
        .iter()
        .map(|step| step.call.tool.as_str())
        .collect();
    let result = json!({"waits_for_the_yes_of_the_user": request, "steps": steps});
    let action = ProposedAction::Job { request };
    Ok(ToolOutcome::json(&result).with_fact(ToolFact::Action { action }))
}
