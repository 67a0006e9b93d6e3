//! Alerts of a session: events of the journal, shown as they come.
//!
//! - An alert is an event's first record with the verdict `act`, or a new event about the box that
//!   is a warning. Most verdicts rise to `act` in an update, once the evidence is stronger.
//! - At most [`MAX_SHOWN`] alerts are shown within [`WINDOW`]; the others are counted.
//! - Events before the start are not shown.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use watchkeeper_client::{EventFeed, FeedItem, JournalRecord, RuntimeClient};
use watchkeeper_contract::event::{Event, EventBody, Phase, Verdict};
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::rule::Severity;

use crate::proposal::llm_proposal::words;

/// Most alerts shown within [`WINDOW`].
pub const MAX_SHOWN: usize = 5;
pub const WINDOW: Duration = Duration::from_secs(10);
/// Most events that may be open at once and still give one alert each.
const MAX_REMEMBERED: usize = 1_024;
/// Pause before the runtime is asked again.
const RETRY: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy)]
pub enum Alert<'a> {
    Event(&'a Event),
    /// This many alerts were left out.
    LeftOut(u64),
}

impl Alert<'_> {
    /// The alert as an object. Its text may hold what a camera read: it is data.
    pub fn to_json(&self) -> Value {
        match self {
            Self::LeftOut(count) => json!({"type": "alert", "left_out": count}),
            Self::Event(event) => json!({
                "type": "alert", "event": event.id, "record": event.seq, "at": event.at,
                "severity": event.severity, "camera": event.source, "pipeline": event.pipeline,
                "text": words(event.body.text()),
            }),
        }
    }
}

/// Chooses the records to show: at most one of an event.
#[derive(Debug, Default)]
struct Chooser {
    /// The latest events that were chosen, at most [`MAX_REMEMBERED`].
    told: VecDeque<EventId>,
}

impl Chooser {
    fn is_alert(&mut self, event: &Event) -> bool {
        let is_rule = matches!(event.body, EventBody::Rule(_));
        match event.phase {
            Phase::New if !is_rule => return event.severity >= Severity::Warning,
            Phase::New | Phase::Update | Phase::End if is_rule => {}
            Phase::New | Phase::Update | Phase::End | Phase::Clip | Phase::Assessed => {
                return false;
            }
        }
        if event.decision.verdict != Verdict::Act || self.told.contains(&event.id) {
            return false;
        }
        if self.told.len() == MAX_REMEMBERED {
            self.told.pop_front();
        }
        self.told.push_back(event.id);
        true
    }
}

/// Bounds the alerts within a window.
#[derive(Debug, Default)]
struct Limiter {
    began: Option<Instant>,
    shown: usize,
    left_out: u64,
}

impl Limiter {
    /// Returns whether the alert at `now` is shown; counts it otherwise.
    fn admit(&mut self, now: Instant) -> bool {
        if self
            .began
            .is_none_or(|began| now.duration_since(began) >= WINDOW)
        {
            self.began = Some(now);
            self.shown = 0;
        }
        let is_shown = self.shown < MAX_SHOWN;
        self.shown += usize::from(is_shown);
        self.left_out += u64::from(!is_shown);
        is_shown
    }

    /// Returns and forgets the number of alerts left out, once the window is over.
    fn take_left_out(&mut self, now: Instant) -> Option<u64> {
        let is_over = self
            .began
            .is_none_or(|began| now.duration_since(began) >= WINDOW);
        let left_out = (is_over && self.left_out > 0).then_some(self.left_out)?;
        self.left_out = 0;
        Some(left_out)
    }
}

/// Hands each alert from now on to `show`. Never ends; drop it to stop.
pub async fn follow(client: RuntimeClient, mut show: impl FnMut(Alert<'_>)) {
    let (mut chooser, mut limiter) = (Chooser::default(), Limiter::default());
    let mut feed = from_the_end(&client).await;
    loop {
        let item = tokio::time::timeout(WINDOW, feed.next()).await;
        if let Some(count) = limiter.take_left_out(Instant::now()) {
            show(Alert::LeftOut(count));
        }
        match item {
            Ok(Some(FeedItem::Record(record))) => {
                if let JournalRecord::Known(event) = &record
                    && chooser.is_alert(event)
                    && limiter.admit(Instant::now())
                {
                    show(Alert::Event(event));
                }
            }
            // A runtime that lost its journal counts from zero, and refuses the cursor.
            Ok(Some(FeedItem::Lost { error, .. })) if error.is_ahead() => {
                feed = from_the_end(&client).await;
            }
            Ok(Some(FeedItem::Connected { .. } | FeedItem::Lost { .. })) | Err(_) => {}
            Ok(None) => return,
        }
    }
}

/// Returns a feed after the last record, once the runtime answers.
async fn from_the_end(client: &RuntimeClient) -> EventFeed {
    loop {
        if let Ok(health) = client.health().await {
            return client.follow_events(health.last_seq);
        }
        tokio::time::sleep(RETRY).await;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn alerts_are_bounded_and_none_is_forgotten(pauses in prop::collection::vec(0_u64..4_000, 0..300)) {
            let (mut limiter, start) = (Limiter::default(), Instant::now());
            let (mut now, mut shown, mut told) = (start, Vec::new(), 0);
            let total = pauses.len() as u64;
            for pause in pauses {
                now += Duration::from_millis(pause);
                told += limiter.take_left_out(now).unwrap_or(0);
                if limiter.admit(now) {
                    shown.push(now);
                }
            }
            told += limiter.take_left_out(now + WINDOW).unwrap_or(0);
            prop_assert_eq!(shown.len() as u64 + told, total);
            // Two windows that follow each other show twice as many at most.
            for burst in shown.windows(2 * MAX_SHOWN + 1) {
                prop_assert!(burst[2 * MAX_SHOWN] - burst[0] >= WINDOW);
            }
        }
    }
}
