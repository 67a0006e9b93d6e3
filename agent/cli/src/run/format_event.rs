//! Events of a run as lines of text. Pure: records and the time go in, lines come out.
//!
//! - A record is a line.
//! - Without line, zone and rule, every new object is an event, which floods the terminal on a busy
//!   street. Then one appearance is a line at once, those of the next [`BATCH_S`] seconds are one
//!   line, and their ends are omitted.
//! - Invariant: the number in the last line of a rule is its number of events.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use watchkeeper_contract::event::{Event, EventBody, Phase, RuleEvent};

use crate::events::{self, Clock};

/// Seconds after a line in which appearances are batched: of source time, or of the clock if that
/// is faster.
const BATCH_S: f64 = 5.0;

#[derive(Debug)]
pub(super) struct EventFormatter {
    is_batching: bool,
    rules: BTreeMap<String, Appearances>,
}

#[derive(Debug)]
struct Appearances {
    count: u64,
    /// Time of the last line, in seconds of source time.
    printed_s: f64,
    printed_at: Instant,
    batch: Batch,
}

/// Appearances without a line.
#[derive(Debug, Default)]
struct Batch {
    count_by_class: BTreeMap<String, u64>,
    /// Source time of the last one, in seconds.
    last_s: f64,
}

impl EventFormatter {
    /// Creates a formatter that batches appearances, or prints each.
    pub(super) fn new(is_batching: bool) -> Self {
        Self {
            is_batching,
            rules: BTreeMap::new(),
        }
    }

    /// Adds a record and returns the lines that are due.
    pub(super) fn record(&mut self, event: &Event, now: Instant) -> Vec<String> {
        match (&event.body, event.phase) {
            (EventBody::Rule(rule), phase) if self.is_batching && rule.condition == "appears" => {
                match phase {
                    Phase::New => self.appeared(event, rule, now),
                    Phase::Update | Phase::End | Phase::Clip | Phase::Assessed => Vec::new(),
                }
            }
            _ => events::line(event, Clock::Source).into_iter().collect(),
        }
    }

    /// Returns the batches that are due by the clock.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<String> {
        let interval = Duration::from_secs_f64(BATCH_S);
        self.flush_if(now, |rule| now.duration_since(rule.printed_at) >= interval)
    }

    pub(super) fn flush(&mut self, now: Instant) -> Vec<String> {
        self.flush_if(now, |_| true)
    }

    fn appeared(&mut self, event: &Event, rule: &RuleEvent, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        let seen = self.rules.entry(rule.rule.clone()).or_insert(Appearances {
            count: 0,
            printed_s: f64::NEG_INFINITY,
            printed_at: now,
            batch: Batch::default(),
        });
        if rule.pts_s - seen.printed_s < BATCH_S {
            let class = rule.label.clone().unwrap_or_else(|| "object".to_owned());
            *seen.batch.count_by_class.entry(class).or_default() += 1;
            seen.batch.last_s = rule.pts_s;
            seen.count += 1;
            return lines;
        }
        lines.extend(seen.flush(&rule.rule, now));
        seen.count += 1;
        seen.printed_s = rule.pts_s;
        seen.printed_at = now;
        let line = events::line(event, Clock::Source);
        lines.extend(line.map(|line| format!("{line}  {} so far", seen.count)));
        lines
    }

    fn flush_if(&mut self, now: Instant, is_due: impl Fn(&Appearances) -> bool) -> Vec<String> {
        let rules = self.rules.iter_mut().filter(|(_, seen)| is_due(seen));
        rules
            .filter_map(|(rule, seen)| seen.flush(rule, now))
            .collect()
    }
}

impl Appearances {
    /// Formats and clears the batch; `None` if it is empty.
    fn flush(&mut self, rule: &str, now: Instant) -> Option<String> {
        let Batch {
            count_by_class,
            last_s,
        } = std::mem::take(&mut self.batch);
        if count_by_class.is_empty() {
            return None;
        }
        self.printed_s = last_s;
        self.printed_at = now;
        let count: u64 = count_by_class.values().sum();
        let each: Vec<String> = count_by_class
            .iter()
            .map(|(class, count)| format!("{count} {class}"))
            .collect();
        let classes = match count_by_class.first_key_value() {
            Some((class, _)) if count_by_class.len() == 1 => class.clone(),
            Some(_) | None => each.join(", "),
        };
        Some(format!(
            "{last_s:8.1} s   {rule}: {count} more ({classes})  {} so far",
            self.count
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use serde_json::json;

    use super::*;

    fn event(condition: &str, phase: &str, label: &str, pts_s: f64) -> Event {
        serde_json::from_value(json!({
            "schema": 1, "id": "01JABCDEFGHJKMNPQRSTVWXYZ0", "seq": 7, "boot_id": "b", "mono_ms": 0,
            "at": {"unix_ms": 0, "quality": "synced"}, "phase": phase, "source": "gate", "severity": "info",
            "body": {
                "kind": "rule", "rule": condition, "condition": condition, "reason": "it came", "label": label,
                "tracks": [4], "frame": 120, "pts_s": pts_s,
            },
            "decision": {"verdict": "record", "confidence": 0.874, "reason": "r"},
            "evidence": [], "hash": "",
        }))
        .unwrap()
    }

    fn lines(formatter: &mut EventFormatter, events: &[Event]) -> Vec<String> {
        let now = Instant::now();
        let mut lines: Vec<String> = events
            .iter()
            .flat_map(|event| formatter.record(event, now))
            .collect();
        lines.extend(formatter.flush(now));
        lines
    }

    #[test]
    fn first_of_a_crowd_has_a_line_and_the_next_share_one() {
        let came = [
            ("person", 1.0),
            ("person", 1.2),
            ("car", 3.0),
            ("person", 5.9),
            ("person", 12.0),
            ("car", 13.0),
        ];
        let events = came.map(|(label, at)| event("appears", "new", label, at));
        assert_eq!(
            lines(&mut EventFormatter::new(true), &events),
            [
                "     1.0 s   appears: it came  (record, 87 %)  1 so far",
                "     5.9 s   appears: 3 more (1 car, 2 person)  4 so far",
                "    12.0 s   appears: it came  (record, 87 %)  5 so far",
                "    13.0 s   appears: 1 more (car)  6 so far",
            ]
        );
    }

    #[test]
    fn batch_is_flushed_by_the_clock() {
        let mut formatter = EventFormatter::new(true);
        let start = Instant::now();
        for at in [1.0, 2.0] {
            formatter.record(&event("appears", "new", "person", at), start);
        }
        let after = |seconds| start + Duration::from_secs_f64(seconds);
        assert_eq!(formatter.tick(after(BATCH_S - 0.1)), Vec::<String>::new());
        assert_eq!(formatter.tick(after(BATCH_S)).len(), 1);
        assert_eq!(formatter.tick(after(2.0 * BATCH_S)), Vec::<String>::new());
    }

    #[test]
    fn end_of_a_batched_appearance_has_no_line() {
        let end = event("appears", "end", "person", 3.0);
        assert_eq!(
            lines(&mut EventFormatter::new(true), std::slice::from_ref(&end)),
            Vec::<String>::new()
        );
        assert_eq!(lines(&mut EventFormatter::new(false), &[end]).len(), 1);
    }

    #[test]
    fn requested_events_have_a_line_each() {
        let crossings = [1.0, 1.1, 1.2].map(|at| event("crosses", "new", "person", at));
        assert_eq!(lines(&mut EventFormatter::new(true), &crossings).len(), 3);
        let appearances = [1.0, 1.1, 1.2].map(|at| event("appears", "new", "person", at));
        assert_eq!(
            lines(&mut EventFormatter::new(false), &appearances).len(),
            3
        );
    }
}
