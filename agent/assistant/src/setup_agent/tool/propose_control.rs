//! Proposes to stop, pause or resume pipelines.

use futures_util::FutureExt as _;
use jiff::{Timestamp, Zoned};
use serde::Deserialize;
use serde_json::json;

use super::super::facts::{ModelWords, ToolFact};
use super::super::tool_context::ToolContext;
use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use super::propose_deployment::add_change;
use crate::moment::{FORMS, parse_moment};
use crate::permissions::Effect;
use crate::proposal::difference::{DiffKind, difference};
use crate::proposal::llm_proposal::ProposedChange;
use crate::proposal::snapshot::SystemSnapshot;

pub(super) const TOOL: Tool = Tool {
    name: "propose_control",
    description: "Proposes to stop (end and remove), pause or resume pipelines, for the user's \
        yes; or withdraws what you proposed about them.",
    schema: || {
        let properties = json!({
            "action": {"type": "string", "enum": ["stop", "pause", "resume", "withdraw"]},
            "pipelines": {"type": "array", "items": {"type": "string"}, "description": "their \
                names"},
            "until": text("pause only: when they resume by themselves, local time of the box, \
                such as 2026-05-04T08:00, or RFC 3339 with an offset; leave out: until the user \
                resumes them"),
            "says": text("one sentence for the user"),
        });
        schema(&properties, &["action", "pipelines", "says"])
    },
    effect: Effect::ProposeLoss,
    max_uses: 6,
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
    Withdraw,
}

/// Parses the end of a pause; without an offset it is local time of the box.
fn end_of_pause(written: &str, now: &Zoned) -> Result<Timestamp, String> {
    let at = parse_moment(written, now.time_zone())
        .ok_or_else(|| format!("until {written:?} is not a time such as {FORMS}"))?;
    if at <= now.timestamp() {
        return Err(format!(
            "until {written:?} is past; it is {} now",
            now.strftime("%Y-%m-%dT%H:%M:%S%:z")
        ));
    }
    Ok(at)
}

/// Repeats the action to the model, with the end of a pause in local time.
fn describe_action(action: Action, until: Option<Timestamp>, now: &Zoned) -> String {
    match (action, until) {
        (Action::Stop, _) => "ends and is removed".to_owned(),
        (Action::Resume, _) => "resumes".to_owned(),
        (Action::Withdraw, _) => "is withdrawn".to_owned(),
        (Action::Pause, None) => "pauses until the user resumes it".to_owned(),
        (Action::Pause, Some(until)) => {
            let local = until.to_zoned(now.time_zone().clone());
            let local = local.strftime("%Y-%m-%d %H:%M local time (%:z)");
            format!("pauses until {local}")
        }
    }
}

/// Withdraws the proposed change of a pipeline, which need not exist yet.
fn withdraw(name: &str, proposed: &[ProposedChange]) -> Result<ToolFact, String> {
    let change = proposed.iter().find(|c| c.pipeline().as_str() == name);
    match change {
        Some(change) => Ok(ToolFact::Withdrawn {
            pipeline: change.pipeline().clone(),
        }),
        None => {
            let names: Vec<&str> = proposed.iter().map(|c| c.pipeline().as_str()).collect();
            Err(match names.as_slice() {
                [] => "nothing is proposed in this request".to_owned(),
                names => format!(
                    "nothing is proposed about {name:?}; there are proposals about: {}",
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
    let here = given.context.snapshot().await?;
    let action = arguments.action;
    let until = match (&arguments.until, action) {
        (None, _) => None,
        (Some(until), Action::Pause) => Some(end_of_pause(until, &here.now)?),
        (Some(_), Action::Stop | Action::Resume | Action::Withdraw) => {
            return Err("until is only for a pause; leave it out".to_owned());
        }
    };
    let mut all = given.facts.changes();
    let mut facts = Vec::new();
    for name in &arguments.pipelines {
        if matches!(action, Action::Withdraw) {
            facts.push(withdraw(name, &all)?);
            continue;
        }
        let change = change(name, action, until, &here)?;
        add_change(&mut all, &change)?;
        // The first change carries the sentence, so that it is shown once.
        let says = match facts.is_empty() {
            true => arguments.says.clone(),
            false => String::new(),
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
    let done = match action {
        Action::Withdraw => "withdrawn",
        Action::Stop | Action::Pause | Action::Resume => "put_up",
    };
    let result = json!({
        done: arguments.pipelines,
        "understood": describe_action(action, until, &here.now),
        "next": "Nothing has changed. The user sees all proposed changes and says yes or no. If \
            the request has another part, propose that first; then end with one short sentence.",
    });
    Ok(ToolOutcome {
        facts,
        ..ToolOutcome::json(&result)
    })
}

/// The change of one pipeline, unless it has that state already.
fn change(
    name: &str,
    action: Action,
    until: Option<Timestamp>,
    here: &SystemSnapshot,
) -> Result<ProposedChange, String> {
    let pipeline = ToolContext::pipeline(name, here)?;
    let change = match action {
        Action::Stop | Action::Withdraw => ProposedChange::Stop { pipeline },
        Action::Pause => ProposedChange::Pause { pipeline, until },
        Action::Resume => ProposedChange::Resume { pipeline },
    };
    if difference(&change.change(), here).becomes == DiffKind::Same {
        return Err(format!(
            "{name} is in that state already, so there is nothing to propose"
        ));
    }
    Ok(change)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn time_without_an_offset_is_local() {
        let zone = jiff::tz::TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let now: jiff::civil::DateTime = "2026-10-24T20:00".parse().unwrap();
        let now = now.to_zoned(zone).unwrap();
        let answer = |written: &str| {
            let until = end_of_pause(written, &now).unwrap();
            describe_action(Action::Pause, Some(until), &now)
        };
        // The clocks change in between.
        let eight = "pauses until 2026-10-25 08:00 local time (+01:00)";
        assert_eq!(answer("2026-10-25T08:00"), eight);
        assert_eq!(answer("2026-10-25 08:00:00"), eight);
        assert_eq!(answer("2026-10-25T08:00:00+01:00"), eight);
        assert_eq!(answer("2026-10-25T07:00:00Z"), eight);
        let wrong = end_of_pause("tomorrow", &now).unwrap_err();
        assert!(wrong.contains("local time of the box"), "{wrong}");
        let past = end_of_pause("2026-10-24T19:00", &now).unwrap_err();
        assert!(past.contains("is past"), "{past}");
    }
}
