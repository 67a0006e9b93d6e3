//! Puts the end, the pause or the going on of pipelines up for the person's yes.

use futures_util::FutureExt as _;
use jiff::{Timestamp, Zoned};
use serde::Deserialize;
use serde_json::json;

use super::super::facts::{ModelWords, ToolFact};
use super::super::tool_context::ToolContext;
use super::propose_deployment::fits;
use super::{Effect, Tool, ToolInput, ToolOutcome, ToolScope, schema, text};
use crate::moment::{FORMS, moment};
use crate::proposal::difference::{DiffKind, difference};
use crate::proposal::llm_proposal::ProposedChange;

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "propose_control",
    about: "Puts the stop (it ends and is gone), pause or resume of pipelines up for the person's yes; or withdraws what you put up about them in this request. It changes nothing.",
    schema: || {
        let properties = json!({
            "action": {"type": "string", "enum": ["stop", "pause", "resume", "withdraw"]},
            "pipelines": {"type": "array", "items": {"type": "string"}, "description": "their names"},
            "until": text("pause only: when they go on by themselves, local time of the box, such as 2026-05-04T08:00, or RFC 3339 with an offset; leave out: when somebody resumes them"),
            "says": text("one sentence for the person"),
        });
        schema(&properties, &["action", "pipelines", "says"])
    },
    effect: Effect::ProposeLoss,
    scope: ToolScope::Pipelines,
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
    /// What was put up about it is not any more.
    Withdraw,
}

/// The moment that a model wrote: without an offset it is what the clocks of the box show.
fn end_of_pause(written: &str, now: &Zoned) -> Result<Timestamp, String> {
    let at = moment(written, now.time_zone())
        .ok_or_else(|| format!("until {written:?} is no time such as {FORMS}"))?;
    if at <= now.timestamp() {
        return Err(format!(
            "until {written:?} is past; it is {} now",
            now.strftime("%Y-%m-%dT%H:%M:%S%:z")
        ));
    }
    Ok(at)
}

/// What was understood, with the moment as the clocks of the box will show it.
fn understood(action: Action, until: Option<Timestamp>, now: &Zoned) -> String {
    match (action, until) {
        (Action::Stop, _) => "ends and is gone".to_owned(),
        (Action::Resume, _) => "goes on".to_owned(),
        (Action::Withdraw, _) => "is not put up any more".to_owned(),
        (Action::Pause, None) => "pauses until somebody resumes it".to_owned(),
        (Action::Pause, Some(until)) => {
            let local = until.to_zoned(now.time_zone().clone());
            let local = local.strftime("%Y-%m-%d %H:%M local time (%:z)");
            format!("pauses until {local}")
        }
    }
}

/// Takes back what is put up about a pipeline, which need not be there yet.
fn withdrawn(name: &str, put_up: &[ProposedChange]) -> Result<ToolFact, String> {
    let change = put_up.iter().find(|c| c.pipeline().as_str() == name);
    match change {
        Some(change) => Ok(ToolFact::Withdrawn {
            pipeline: change.pipeline().clone(),
        }),
        None => {
            let names: Vec<&str> = put_up.iter().map(|c| c.pipeline().as_str()).collect();
            Err(match names.as_slice() {
                [] => "nothing is put up in this request".to_owned(),
                names => format!(
                    "nothing is put up about {name:?}; there is: {}",
                    names.join(", ")
                ),
            })
        }
    }
}

async fn propose(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let arguments: Arguments = given.arguments()?;
    if arguments.pipelines.is_empty() {
        return Err("name at least one pipeline".to_owned());
    }
    let here = given.hands.situation().await?;
    let until = match (&arguments.until, arguments.action) {
        (None, _) => None,
        (Some(until), Action::Pause) => Some(end_of_pause(until, &here.now)?),
        (Some(_), Action::Stop | Action::Resume | Action::Withdraw) => {
            return Err("until is for a pause; leave it out".to_owned());
        }
    };
    let mut all = given.facts.changes();
    let mut facts = Vec::new();
    for name in &arguments.pipelines {
        if matches!(arguments.action, Action::Withdraw) {
            facts.push(withdrawn(name, &all)?);
            continue;
        }
        let pipeline = ToolContext::pipeline(name, &here)?;
        let change = match arguments.action {
            Action::Stop | Action::Withdraw => ProposedChange::Stop { pipeline },
            Action::Pause => ProposedChange::Pause { pipeline, until },
            Action::Resume => ProposedChange::Resume { pipeline },
        };
        if difference(&change.change(), &here).becomes == DiffKind::Same {
            return Err(format!(
                "{name} is so already, so there is nothing to put up"
            ));
        }
        all.retain(|other| other.pipeline() != change.pipeline());
        all.push(change.clone());
        // Said once, with the first of them.
        let says = if facts.is_empty() {
            arguments.says.clone()
        } else {
            String::new()
        };
        facts.push(ToolFact::Proposed {
            change: Box::new(change),
            draft: None,
            words: ModelWords {
                says,
                ..ModelWords::default()
            },
        });
    }
    fits(&all)?;
    let told = if matches!(arguments.action, Action::Withdraw) {
        "withdrawn"
    } else {
        "put_up"
    };
    let told = json!({
        told: arguments.pipelines,
        "understood": understood(arguments.action, until, &here.now),
        "next": "Nothing has changed. The person is shown all that was put up and says yes or no. Where the request has another part, put that up first; then end with one short sentence.",
    });
    Ok(ToolOutcome {
        facts,
        ..ToolOutcome::json(&told)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_an_offset_is_what_the_clocks_of_the_box_will_show() {
        let zone = jiff::tz::TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let now: jiff::civil::DateTime = "2026-10-24T20:00".parse().unwrap();
        let now = now.to_zoned(zone).unwrap();
        let told = |written: &str| {
            let until = end_of_pause(written, &now).unwrap();
            understood(Action::Pause, Some(until), &now)
        };
        // The clocks are changed in between.
        let eight = "pauses until 2026-10-25 08:00 local time (+01:00)";
        assert_eq!(told("2026-10-25T08:00"), eight);
        assert_eq!(told("2026-10-25 08:00:00"), eight);
        assert_eq!(told("2026-10-25T08:00:00+01:00"), eight);
        assert_eq!(told("2026-10-25T07:00:00Z"), eight);
        let wrong = end_of_pause("tomorrow", &now).unwrap_err();
        assert!(wrong.contains("local time of the box"), "{wrong}");
        let past = end_of_pause("2026-10-24T19:00", &now).unwrap_err();
        assert!(past.contains("is past"), "{past}");
    }
}
