//! Events of a run as lines for people. Pure: records and the time go in, lines come out.
//!
//! A record is a line. Where a run was given neither line, zone nor rule, every object that appears is an event, and on a busy street
//! they would chase each other over the screen: then one appearance is told at once, those of the next [`GATHER_S`] seconds together, and
//! their ends not at all. Invariant: the number in the last line of a rule is how many events it had.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use watchkeeper_contract::event::{Event, EventBody, Phase, RuleEvent};

use crate::events::{self, Clock};

/// Seconds for which appearances are gathered after one was told: of the source, and where that goes slower than the clock, of the clock.
const GATHER_S: f64 = 5.0;

/// What a run tells about its events.
#[derive(Debug)]
pub(super) struct Teller {
    gathers: bool,
    rules: BTreeMap<String, Appearances>,
}

/// What is known about the appearances of one rule.
#[derive(Debug)]
struct Appearances {
    so_far: u64,
    /// When the last line was told, in seconds of the source and by the clock.
    told_s: f64,
    told_at: Instant,
    /// Those that were not told yet.
    waiting: Waiting,
}

#[derive(Debug, Default)]
struct Waiting {
    /// How many of each class.
    classes: BTreeMap<String, u64>,
    /// When the last one came, in seconds of the source.
    last_s: f64,
}

impl Teller {
    /// A teller that gathers appearances, or tells each.
    pub(super) fn new(gathers: bool) -> Self {
        Self {
            gathers,
            rules: BTreeMap::new(),
        }
    }

    /// What a record brings to tell.
    pub(super) fn record(&mut self, event: &Event, now: Instant) -> Vec<String> {
        match (&event.body, event.phase) {
            (EventBody::Rule(rule), phase) if self.gathers && rule.condition == "appears" => {
                match phase {
                    Phase::New => self.appeared(event, rule, now),
                    Phase::Update | Phase::End | Phase::Clip => Vec::new(),
                }
            }
            _ => events::line(event, Clock::Source).into_iter().collect(),
        }
    }

    /// What has waited for long enough by the clock.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<String> {
        let patience = Duration::from_secs_f64(GATHER_S);
        let due = |seen: &Appearances| now.duration_since(seen.told_at) >= patience;
        self.gathered(now, due)
    }

    /// Everything that still waits.
    pub(super) fn rest(&mut self, now: Instant) -> Vec<String> {
        self.gathered(now, |_| true)
    }

    fn appeared(&mut self, event: &Event, rule: &RuleEvent, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        let seen = self.rules.entry(rule.rule.clone()).or_insert(Appearances {
            so_far: 0,
            told_s: f64::NEG_INFINITY,
            told_at: now,
            waiting: Waiting::default(),
        });
        if rule.pts_s - seen.told_s < GATHER_S {
            let class = rule.label.clone().unwrap_or_else(|| "object".to_owned());
            *seen.waiting.classes.entry(class).or_default() += 1;
            seen.waiting.last_s = rule.pts_s;
            seen.so_far += 1;
            return lines;
        }
        lines.extend(seen.gathered(&rule.rule, now));
        seen.so_far += 1;
        seen.told_s = rule.pts_s;
        seen.told_at = now;
        let line = events::line(event, Clock::Source);
        lines.extend(line.map(|line| format!("{line}  {} so far", seen.so_far)));
        lines
    }

    fn gathered(&mut self, now: Instant, due: impl Fn(&Appearances) -> bool) -> Vec<String> {
        let rules = self.rules.iter_mut().filter(|(_, seen)| due(seen));
        rules
            .filter_map(|(rule, seen)| seen.gathered(rule, now))
            .collect()
    }
}

impl Appearances {
    /// The line about those that wait, if any do.
    fn gathered(&mut self, rule: &str, now: Instant) -> Option<String> {
        let Waiting { classes, last_s } = std::mem::take(&mut self.waiting);
        if classes.is_empty() {
            return None;
        }
        self.told_s = last_s;
        self.told_at = now;
        let count: u64 = classes.values().sum();
        let each: Vec<String> = classes
            .iter()
            .map(|(class, count)| format!("{count} {class}"))
            .collect();
        let who = match classes.first_key_value() {
            Some((class, _)) if classes.len() == 1 => class.clone(),
            Some(_) | None => each.join(", "),
        };
        Some(format!(
            "{last_s:8.1} s   {rule}: {count} more ({who})  {} so far",
            self.so_far
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

    fn told(teller: &mut Teller, events: &[Event]) -> Vec<String> {
        let now = Instant::now();
        let mut lines: Vec<String> = events.iter().flat_map(|e| teller.record(e, now)).collect();
        lines.extend(teller.rest(now));
        lines
    }

    #[test]
    fn of_a_crowd_the_first_is_told_at_once_the_next_together_and_every_one_is_counted() {
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
            told(&mut Teller::new(true), &events),
            [
                "     1.0 s   appears: it came  [record 0.87]  1 so far",
                "     5.9 s   appears: 3 more (1 car, 2 person)  4 so far",
                "    12.0 s   appears: it came  [record 0.87]  5 so far",
                "    13.0 s   appears: 1 more (car)  6 so far",
            ]
        );
    }

    #[test]
    fn those_who_wait_are_told_by_the_clock_when_nobody_comes_after_them() {
        let mut teller = Teller::new(true);
        let began = Instant::now();
        for at in [1.0, 2.0] {
            teller.record(&event("appears", "new", "person", at), began);
        }
        let after = |seconds| began + Duration::from_secs_f64(seconds);
        assert_eq!(teller.tick(after(GATHER_S - 0.1)), Vec::<String>::new());
        assert_eq!(teller.tick(after(GATHER_S)).len(), 1);
        assert_eq!(teller.tick(after(2.0 * GATHER_S)), Vec::<String>::new());
    }

    #[test]
    fn that_somebody_is_gone_is_no_line_of_its_own() {
        let end = event("appears", "end", "person", 3.0);
        assert_eq!(
            told(&mut Teller::new(true), std::slice::from_ref(&end)),
            Vec::<String>::new()
        );
        assert_eq!(told(&mut Teller::new(false), &[end]).len(), 1);
    }

    #[test]
    fn what_a_person_asked_for_is_told_one_by_one() {
        let crossings = [1.0, 1.1, 1.2].map(|at| event("crosses", "new", "person", at));
        assert_eq!(told(&mut Teller::new(true), &crossings).len(), 3);
        let appearances = [1.0, 1.1, 1.2].map(|at| event("appears", "new", "person", at));
        assert_eq!(told(&mut Teller::new(false), &appearances).len(), 3);
    }
}
