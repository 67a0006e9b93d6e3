//! The evidence of one event: observations, look-ups, fields, texts, and what was decided.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_client::JournalRecord;
use watchkeeper_contract::event::{Event, EventBody};
use watchkeeper_contract::id::EventSeq;

use super::definition::{FROM_OUTSIDE, Tool, ToolInput, ToolOutcome, schema};
use crate::permissions::Effect;

/// Records after the first one in which later ones of the event are looked for.
const MAX_RECORDS: u32 = 500;

pub(super) const TOOL: Tool = Tool {
    name: "get_evidence",
    description: "The evidence of an event by its number: each source with confidence, weight and \
        what it read or answered (codes, texts, look-ups, fields, reference pictures), the \
        decision, what people said, and its picture.",
    schema: || {
        let number = json!({"type": "integer", "description": "number of the event"});
        schema(&json!({ "number": number }), &["number"])
    },
    effect: Effect::Read,
    max_uses: 6,
    run: |given| async move { evidence(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    number: u64,
}

async fn evidence(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let Arguments { number } = given.arguments()?;
    let client = &given.context.client;
    let after = EventSeq(number.saturating_sub(1));
    let page = match client.events(after, MAX_RECORDS).await {
        Err(error) if error.is_ahead() => Vec::new(),
        page => page.map_err(|error| error.in_full())?,
    };
    let mut records = page.into_iter().filter_map(|record| match record {
        JournalRecord::Known(event) => Some(event),
        JournalRecord::Newer(_) | JournalRecord::Unreadable { .. } => None,
    });
    let unknown = || format!("there is no event with the number {number}");
    let first = records.next().filter(|event| event.seq.0 == number);
    let first = first.ok_or_else(unknown)?;
    let later: Vec<_> = records.filter(|event| event.id == first.id).collect();
    let last = later.last().unwrap_or(&first);
    let mut result = json!({
        "about_this": FROM_OUTSIDE, "number": number, "camera": first.source,
        "pipeline": first.pipeline, "decision": last.decision, "evidence": links(last),
        "said": later.iter().filter_map(|event| event.assessment.as_ref()).collect::<Vec<_>>(),
    });
    if let EventBody::Rule(rule) = &first.body {
        result["rule"] = json!(rule.rule);
        result["class"] = json!(rule.label);
        result["reason"] = json!(rule.reason);
        result["read"] = json!(rule.readings);
    }
    let mut picture = None;
    if let Some(media) = first.media.first()
        && let Ok(file) = client.media(&media.id).await
    {
        picture = given.context.show(file).await?.part;
    }
    Ok(ToolOutcome::json(&result).with_picture(picture))
}

/// The links of an event, without their times.
fn links(event: &Event) -> Vec<Value> {
    let link = |link: &watchkeeper_contract::event::Evidence| {
        json!({
            "source": link.source, "confidence": link.confidence, "weight": link.weight,
            "note": link.note, "failed": link.failed, "data": link.data,
        })
    };
    event.evidence.iter().map(link).collect()
}
