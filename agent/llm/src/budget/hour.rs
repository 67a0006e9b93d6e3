//! Calls of the last sixty minutes, by minute, class and rule.
//!
//! - A call counts for 60 to 61 minutes.
//! - Calls of an older ledger have no class and count as those of persons: they use the limit, and
//!   no ceiling below it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::class::{CallClass, ClassCalls, rule_ceiling, to_calls};
use super::refusal::{CallBound, Refusal};

const MINUTE_MS: i64 = 60_000;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredMinute")]
struct Minute(Vec<ClassCalls>);

#[derive(Deserialize)]
#[serde(untagged)]
enum StoredMinute {
    /// Written before there were classes.
    Unclassified(u32),
    Classified(Vec<ClassCalls>),
}

impl From<StoredMinute> for Minute {
    fn from(stored: StoredMinute) -> Self {
        Self(match stored {
            StoredMinute::Unclassified(calls) => vec![ClassCalls {
                class: CallClass::Person,
                rule: None,
                calls,
            }],
            StoredMinute::Classified(calls) => calls,
        })
    }
}

/// Calls by minute since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct HourlyCalls(BTreeMap<i64, Minute>);

impl HourlyCalls {
    /// Advances from `before_ms` to `now_ms`: drops what is over an hour old. After a correction of
    /// the clock the calls keep their distance to it.
    pub(crate) fn advance(&mut self, before_ms: i64, now_ms: i64, is_corrected: bool) {
        let now = now_ms.div_euclid(MINUTE_MS);
        if is_corrected {
            let shift = now - before_ms.div_euclid(MINUTE_MS);
            let minutes = std::mem::take(&mut self.0);
            self.0 = minutes.into_iter().map(|(m, n)| (m + shift, n)).collect();
        }
        self.0.retain(|minute, _| *minute >= now - 60);
    }

    pub(crate) fn add(&mut self, now_ms: i64, class: CallClass, rule: Option<&str>) {
        let minute = self.0.entry(now_ms.div_euclid(MINUTE_MS)).or_default();
        add_to(&mut minute.0, class, rule, 1);
    }

    /// Removes the latest call of `class` and `rule`, which was not made.
    pub(crate) fn remove(&mut self, class: CallClass, rule: Option<&str>) {
        let is_it =
            |sum: &ClassCalls| sum.class == class && sum.rule.as_deref() == rule && sum.calls > 0;
        let mut minutes = self.0.values_mut().rev();
        let found = minutes.find(|minute| minute.0.iter().any(is_it));
        if let Some(Minute(sums)) = found {
            sums.iter_mut()
                .filter(|sum| is_it(sum))
                .for_each(|sum| sum.calls -= 1);
            sums.retain(|sum| sum.calls > 0);
        }
    }

    pub(crate) fn total(&self) -> u32 {
        self.iter().map(|(_, calls)| calls.calls).sum()
    }

    /// Returns the calls of the hour by class and rule, the most first.
    pub(crate) fn by_class(&self) -> Vec<ClassCalls> {
        let mut sums = Vec::new();
        for (_, calls) in self.iter() {
            add_to(&mut sums, calls.class, calls.rule.as_deref(), calls.calls);
        }
        sums.sort_by(|a, b| (b.calls, b.class, &b.rule).cmp(&(a.calls, a.class, &a.rule)));
        sums
    }

    /// Checks a call of `class`, of a `rule` where it is a second opinion, against every ceiling.
    ///
    /// # Errors
    /// The refusal by the ceiling that stays reached for longest.
    pub(crate) fn check(
        &self,
        now_ms: i64,
        class: CallClass,
        rule: Option<&str>,
        limit: u32,
    ) -> Result<(), Refusal> {
        let rule = rule.map(|rule| (CallBound::Rule(rule.to_owned()), rule_ceiling(limit)));
        let classes = class.bounds().map(|bound| {
            let allowed = to_calls(bound.ceiling(limit.into()));
            (CallBound::Class(bound), allowed)
        });
        let reached = rule
            .into_iter()
            .chain(classes)
            .filter_map(|(bound, allowed)| {
                let wait = self.wait(now_ms, &bound, allowed)?;
                Some((wait, bound, allowed))
            });
        let longest = reached.max_by_key(|(wait, ..)| *wait);
        let Some((wait, bound, allowed)) = longest else {
            return Ok(());
        };
        let free_in = (wait < Duration::MAX).then_some(wait);
        let most = self.by_class();
        let most = most.into_iter().find(|calls| bound.counts(calls));
        Err(Refusal::Calls {
            class,
            bound,
            limit,
            allowed,
            most,
            free_in,
        })
    }

    /// Returns how long until a call fits below `allowed`: `None` if one fits now, the longest
    /// duration if none ever does.
    fn wait(&self, now_ms: i64, bound: &CallBound, allowed: u32) -> Option<Duration> {
        let counted = || self.iter().filter(|(_, calls)| bound.counts(calls));
        let used: u32 = counted().map(|(_, calls)| calls.calls).sum();
        let mut surplus = (used + 1)
            .checked_sub(allowed)
            .filter(|surplus| *surplus > 0)?;
        for (minute, calls) in counted() {
            surplus = surplus.saturating_sub(calls.calls);
            if surplus == 0 {
                let free = (minute + 61) * MINUTE_MS - now_ms;
                return Some(Duration::from_millis(free.max(0).unsigned_abs()));
            }
        }
        Some(Duration::MAX)
    }

    fn iter(&self) -> impl Iterator<Item = (i64, &ClassCalls)> {
        let minutes = self.0.iter();
        minutes.flat_map(|(minute, calls)| calls.0.iter().map(|calls| (*minute, calls)))
    }
}

fn add_to(sums: &mut Vec<ClassCalls>, class: CallClass, rule: Option<&str>, calls: u32) {
    let mut same = sums.iter_mut();
    match same.find(|sum| sum.class == class && sum.rule.as_deref() == rule) {
        Some(sum) => sum.calls += calls,
        None => sums.push(ClassCalls {
            class,
            rule: rule.map(str::to_owned),
            calls,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(hour: &HourlyCalls, class: CallClass, rule: Option<&str>) -> String {
        let refused = hour.check(5 * MINUTE_MS, class, rule, 10);
        refused.expect_err("refused").to_string()
    }

    #[test]
    fn refusal_names_what_used_the_calls_and_the_wait() {
        let mut hour = HourlyCalls::default();
        for minute in 0..5 {
            let rule = if minute < 2 {
                "gate/door"
            } else {
                "yard/fence"
            };
            hour.add(minute * MINUTE_MS, CallClass::Escalation, Some(rule));
        }
        assert_eq!(
            cause(&hour, CallClass::Escalation, Some("hall/lift")),
            "no LLM call for a second opinion: second opinions, heartbeats and looks at \
             frames may use 5 of the 10 calls an hour, 3 went to second opinions of yard/fence; wait 56 min or raise \
             `calls_per_hour` of [llm] (pipelines keep running)"
        );
        let fence = cause(&hour, CallClass::Escalation, Some("yard/fence"));
        assert!(fence.contains("one rule may use 2 of the 10"), "{fence}");
        // Three calls of the rule: the second has to become free too.
        assert!(fence.contains("wait 59 min"), "{fence}");
        for _ in 0..5 {
            hour.check(0, CallClass::Person, None, 10)
                .expect("a person");
            hour.add(0, CallClass::Person, None);
        }
        let person = cause(&hour, CallClass::Person, None);
        assert!(
            person.starts_with(
                "no LLM call for a request: all 10 calls of the hour are used, 5 went to requests; \
                 wait 56 min"
            ),
            "{person}"
        );
    }

    #[test]
    fn ceiling_of_zero_offers_no_wait() {
        let refused = HourlyCalls::default().check(0, CallClass::Heartbeat, None, 2);
        let said = refused.expect_err("refused").to_string();
        assert!(said.contains("0 of the 2 calls an hour; raise"), "{said}");
    }

    #[test]
    fn calls_of_an_older_ledger_count_as_those_of_persons() {
        let hour: HourlyCalls = serde_json::from_str(r#"{"0":2,"1":1}"#).expect("read");
        assert_eq!(hour.total(), 3);
        assert_eq!(hour.by_class()[0].class, CallClass::Person);
        let mut later = hour.clone();
        later.add(MINUTE_MS, CallClass::Heartbeat, None);
        let stored = serde_json::to_string(&later).expect("write");
        assert_eq!(
            serde_json::from_str::<HourlyCalls>(&stored).expect("read"),
            later
        );
        assert_eq!(later.total(), 4);
        assert!(later.check(MINUTE_MS, CallClass::Person, None, 4).is_err());
    }
}
