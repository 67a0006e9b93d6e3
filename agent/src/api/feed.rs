//! Events of one conversation, numbered, for present and returning followers.
//!
//! A follower has a cursor and no queue: it reads at its own pace.
//!
//! Invariants:
//! - Numbers rise by one.
//! - At most [`MAX_EVENTS`] events and [`MAX_BYTES`] bytes are kept. The oldest are evicted; a
//!   follower sees a jump.
//! - One event has at most [`MAX_EVENT`] bytes.
//! - At most [`MAX_ALERTS`] alerts are kept, so that they do not evict the conversation.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use watchkeeper_assistant::session::progress::{ProgressEvent, ProgressSink, ProgressStep};
use watchkeeper_assistant::wording::cut;

/// Limit of kept events per conversation.
pub const MAX_EVENTS: usize = 512;
/// Limit of kept bytes per conversation.
pub const MAX_BYTES: usize = 2 << 20;
/// Limit of one event, in bytes. A model's largest proposal has 128 KiB and is in its event twice:
/// as changes and as a difference.
pub const MAX_EVENT: usize = 512 << 10;
/// Limit of a text in a tool's arguments, in characters.
const MAX_ARGUMENT: usize = 200;
/// Limit of kept alerts per conversation.
pub(crate) const MAX_ALERTS: usize = 64;
const ALERT: &str = "alert";
/// Type of the last event of a turn.
pub const END: &str = "end";

/// An event of a conversation, as followers receive it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Number of the event, from 1.
    pub seq: u64,
    pub turn: u64,
    /// Whether it is the last event of its turn.
    pub is_end: bool,
    is_alert: bool,
    /// The event as a JSON object.
    pub json: Arc<str>,
}

#[derive(Debug, Default)]
struct Buffer {
    turn: u64,
    last: u64,
    /// The model's plan for this turn.
    plan: Vec<Value>,
    bytes: usize,
    entries: VecDeque<Entry>,
}

impl Buffer {
    /// Evicts the oldest alert where as many are kept as may be.
    fn make_room_for_alert(&mut self) {
        let mut alerts = self.entries.iter().enumerate();
        let oldest = alerts.find(|(_, entry)| entry.is_alert).map(|(at, _)| at);
        let number = self.entries.iter().filter(|entry| entry.is_alert).count();
        if number >= MAX_ALERTS
            && let Some(evicted) = oldest.and_then(|at| self.entries.remove(at))
        {
            self.bytes -= evicted.json.len();
        }
    }
}

/// The events of one conversation.
#[derive(Debug)]
pub struct Feed {
    buffer: Mutex<Buffer>,
    /// Number of the last event; the channel closes with the conversation.
    advances: watch::Sender<u64>,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            buffer: Mutex::default(),
            advances: watch::Sender::new(0),
        }
    }
}

impl Feed {
    /// Starts turn `turn`; returns the number of the last event before it.
    pub fn begin(&self, turn: u64) -> u64 {
        let mut kept = self.buffer.lock();
        kept.turn = turn;
        kept.plan.clear();
        kept.last
    }

    /// Adds an event to the turn.
    pub fn push(&self, mut event: Value) {
        let last = {
            let mut kept = self.buffer.lock();
            kept.last += 1;
            let kind = event.get("type").and_then(Value::as_str);
            let (is_end, is_alert) = (kind == Some(END), kind == Some(ALERT));
            if is_alert {
                kept.make_room_for_alert();
            }
            event["seq"] = Value::from(kept.last);
            event["turn"] = Value::from(kept.turn);
            let mut json = event.to_string();
            if json.len() > MAX_EVENT {
                json = serde_json::json!({
                    "type": event["type"], "seq": kept.last, "turn": kept.turn, "left_out_bytes": json.len(),
                })
                .to_string();
            }
            kept.bytes += json.len();
            let entry = Entry {
                seq: kept.last,
                turn: kept.turn,
                is_end,
                is_alert,
                json: json.into(),
            };
            kept.entries.push_back(entry);
            while kept.entries.len() > MAX_EVENTS || kept.bytes > MAX_BYTES {
                let Some(oldest) = kept.entries.pop_front() else {
                    break;
                };
                kept.bytes -= oldest.json.len();
            }
            kept.last
        };
        self.advances.send_replace(last);
    }

    /// At most `limit` events after `seq`, the oldest first.
    pub fn after(&self, seq: u64, limit: usize) -> Vec<Entry> {
        let kept = self.buffer.lock();
        let later = kept.entries.iter().filter(|entry| entry.seq > seq);
        later.take(limit).cloned().collect()
    }

    /// Every event of a turn that is still kept.
    pub(crate) fn of_turn(&self, turn: u64) -> Vec<Entry> {
        let kept = self.buffer.lock();
        let of_it = kept.entries.iter().filter(|entry| entry.turn == turn);
        of_it.cloned().collect()
    }

    /// The model's latest plan for this turn.
    pub fn plan(&self) -> Vec<Value> {
        self.buffer.lock().plan.clone()
    }

    /// The number of the last event.
    pub fn last(&self) -> u64 {
        self.buffer.lock().last
    }

    /// Notifies of every new event.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.advances.subscribe()
    }
}

impl ProgressSink for Feed {
    fn report(&self, progress: ProgressEvent<'_>) {
        match progress {
            ProgressEvent::Idle => {}
            ProgressEvent::Step(step, line, _) => {
                let mut event = progress.to_json();
                bound(&mut event);
                if step == ProgressStep::Plan {
                    let steps = event.get("steps").and_then(Value::as_array);
                    self.buffer.lock().plan = steps.cloned().unwrap_or_default();
                }
                event["text"] = Value::from(line);
                self.push(event);
            }
            progress => self.push(progress.to_json()),
        }
    }
}

/// Cuts the texts in a value: followers need no whole workflow definition.
fn bound(value: &mut Value) {
    match value {
        Value::String(text) => *text = cut(std::mem::take(text), MAX_ARGUMENT),
        Value::Array(items) => items.iter_mut().for_each(bound),
        Value::Object(fields) => fields.values_mut().for_each(bound),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::*;

    fn numbers(entries: &[Entry]) -> Vec<u64> {
        entries.iter().map(|entry| entry.seq).collect()
    }

    #[test]
    fn returning_follower_resumes_behind_its_cursor() {
        let feed = Feed::default();
        feed.begin(1);
        for _ in 0..3 {
            feed.report(ProgressEvent::Note("x"));
        }
        assert_eq!(feed.begin(2), 3);
        feed.push(json!({"type": END}));
        assert_eq!(numbers(&feed.after(1, 2)), [2, 3]);
        assert_eq!(numbers(&feed.of_turn(2)), [4]);
        let end: Value = serde_json::from_str(&feed.after(3, 9)[0].json).unwrap();
        assert_eq!(end, json!({"type": "end", "seq": 4, "turn": 2}));
    }

    #[test]
    fn feed_keeps_its_newest_events_within_both_bounds() {
        let feed = Feed::default();
        for _ in 0..2 * MAX_EVENTS {
            feed.report(ProgressEvent::Note("x"));
        }
        assert_eq!(feed.after(0, usize::MAX).len(), MAX_EVENTS);
        for _ in 0..MAX_EVENTS {
            feed.report(ProgressEvent::Note(&"x".repeat(MAX_BYTES / 100)));
        }
        let kept = feed.after(0, usize::MAX);
        assert!(kept.iter().map(|entry| entry.json.len()).sum::<usize>() <= MAX_BYTES);
        assert_eq!(kept.last().unwrap().seq, feed.last());
        assert!(kept.windows(2).all(|pair| pair[0].seq + 1 == pair[1].seq));
    }

    #[test]
    fn flood_of_alerts_does_not_evict_the_conversation() {
        let feed = Feed::default();
        feed.report(ProgressEvent::Note("said before"));
        for _ in 0..2 * MAX_EVENTS {
            feed.push(json!({"type": ALERT, "text": "a person at the door"}));
        }
        feed.report(ProgressEvent::Note("said after"));
        let kept = feed.after(0, usize::MAX);
        assert_eq!(kept.len(), MAX_ALERTS + 2);
        assert!(kept[0].json.contains("said before"));
        assert!(kept[MAX_ALERTS + 1].json.contains("said after"));
        assert!(kept.is_sorted_by(|a, b| a.seq < b.seq));
    }

    #[test]
    fn oversized_event_is_replaced_by_a_placeholder() {
        let feed = Feed::default();
        feed.report(ProgressEvent::Note(&"x".repeat(MAX_EVENT)));
        let entry: Value = serde_json::from_str(&feed.after(0, 1)[0].json).unwrap();
        assert_eq!((&entry["type"], &entry["seq"]), (&json!("note"), &json!(1)));
        assert!(entry["left_out_bytes"].as_u64().unwrap() > MAX_EVENT as u64);
    }

    #[test]
    fn tool_arguments_are_cut_and_proposals_are_not() {
        let feed = Feed::default();
        let of = json!({"tool": "validate_workflow", "arguments": {"workflow": "w".repeat(5_000)}});
        feed.report(ProgressEvent::Step(
            ProgressStep::Action,
            "validate_workflow",
            of,
        ));
        let step: Value = serde_json::from_str(&feed.after(0, 1)[0].json).unwrap();
        let shown = step["arguments"]["workflow"].as_str().unwrap();
        assert_eq!(shown.chars().count(), MAX_ARGUMENT + 1);
        assert_eq!(step["text"], "validate_workflow");
        let long = "p".repeat(5_000);
        feed.report(ProgressEvent::Done("x", json!({"pipeline": long})));
        assert!(feed.after(1, 1)[0].json.contains(&long));
    }
}
