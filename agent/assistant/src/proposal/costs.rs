//! Costs and budget of the LLM, for users and programs.
//!
//! Invariant: pure; figures and money are those of the ledger.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use watchkeeper_llm::budget::{CallClass, RefusalCause};
use watchkeeper_llm::ledger::{CallOutcome, CallRecord, Report, Totals};
use watchkeeper_llm::money::Money;

use crate::wording::counted;

/// Most days in a report.
const MAX_DAYS: usize = 31;
/// Most calls in a report.
const MAX_CALLS: usize = 50;
/// Most rules in a report.
const MAX_RULES: usize = 20;
/// Most days and calls in the text for users.
const MAX_SHOWN: usize = 7;

/// Costs and budget of the LLM.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Cost)]
pub struct CostReport {
    /// Provider of the LLM that serves whatever names no other; absent if no LLM is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Why the costs are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Spent amounts and limits; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The last 31 UTC days with costs, oldest first.
    pub days: Vec<DaysCost>,
    /// The last 50 calls, oldest first.
    pub calls: Vec<Call>,
}

/// Spent amounts and limits. A call in progress counts with its highest possible cost.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Budget {
    /// Calls within the last 60 minutes.
    pub calls_in_hour: u32,
    /// Most calls within 60 minutes.
    pub calls_per_hour: u32,
    /// Spent this UTC day, in US dollars.
    pub day_usd: f64,
    /// Limit per UTC day, in US dollars.
    pub day_limit_usd: f64,
    /// Spent this UTC month, in US dollars.
    pub month_usd: f64,
    /// Limit per UTC month, in US dollars.
    pub month_limit_usd: f64,
    /// Most tokens of one call.
    pub tokens_per_call: u64,
    /// Use by class of calls, the highest class first.
    pub classes: Vec<ClassUse>,
    /// Most that second opinions and chains of one rule may use of a UTC day, in US dollars. It
    /// does not bound the first call of a rule in a day.
    pub rule_day_ceiling_usd: f64,
    /// The 20 rules whose second opinions and chains cost most this UTC day.
    pub rules: Vec<RuleUse>,
}

/// Cost of second opinions and chains of one rule.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct RuleUse {
    /// Pipeline and rule, such as `gate/door`.
    pub rule: String,
    /// Spent this UTC day, in US dollars.
    pub day_usd: f64,
}

/// Use of one class of calls. A ceiling bounds a class together with all lower classes.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ClassUse {
    /// `person`, `set_up`, `escalation` (second opinions and chains), `heartbeat` or `look`.
    #[schema(value_type = String)]
    pub class: CallClass,
    /// Its calls within the last 60 minutes.
    pub calls_in_hour: u32,
    /// Ceiling of the calls within 60 minutes.
    pub calls_ceiling: u64,
    /// Spent by it this UTC day, in US dollars.
    pub day_usd: f64,
    /// Ceiling of the UTC day, in US dollars.
    pub day_ceiling_usd: f64,
    /// Calls that were refused this UTC day, by cause: `hour`, `rule`, `tokens`, `day`, `month`,
    /// `rule_day`.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub refused: BTreeMap<RefusalCause, u64>,
}

impl ClassUse {
    fn new(class: CallClass, report: &Report) -> Self {
        let limits = &report.limits;
        let hour = report.hour.iter().filter(|calls| calls.class == class);
        let day = report.day_by_class.get(&class).copied();
        Self {
            class,
            calls_in_hour: hour.map(|calls| calls.calls).sum(),
            calls_ceiling: class.ceiling(limits.calls_per_hour.into()),
            day_usd: day.unwrap_or_default().dollars(),
            day_ceiling_usd: Money(class.ceiling(limits.day.0)).dollars(),
            refused: report.refused.get(&class).cloned().unwrap_or_default(),
        }
    }

    /// Returns a line of text for the user; `None` without calls, costs and refusals.
    fn line(&self) -> Option<String> {
        if self.calls_in_hour == 0 && self.day_usd == 0.0 && self.refused.is_empty() {
            return None;
        }
        let mut line = format!(
            "  {}: {} in the last hour (ceiling {}), ${:.4} today (ceiling ${:.2})",
            self.class,
            counted(self.calls_in_hour, "call"),
            self.calls_ceiling,
            self.day_usd,
            self.day_ceiling_usd
        );
        if !self.refused.is_empty() {
            let causes = self.refused.iter();
            let causes: Vec<String> = causes
                .map(|(cause, n)| format!("{n} by the limit of {cause}"))
                .collect();
            line.push_str(&format!("; refused today: {}", causes.join(", ")));
        }
        Some(line)
    }
}

/// Costs of one UTC day.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct DaysCost {
    /// Date, such as `2026-11-22`.
    pub day: String,
    /// Number of calls.
    pub calls: u64,
    /// Number of tokens.
    pub tokens: u64,
    /// Costs in US dollars.
    pub usd: f64,
}

/// One call of the LLM.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Call {
    /// Start of the call.
    #[schema(value_type = String)]
    pub at: Timestamp,
    /// Purpose, such as `set-up/01J…`, `reword` or `triage/01J…`.
    pub job: String,
    /// Provider of the model; empty if an older version called it.
    pub provider: String,
    /// Model that answered.
    pub model: String,
    /// Outcome: `answered`, or the kind of failure.
    pub outcome: String,
    /// Number of tokens.
    pub tokens: u64,
    /// Costs in US dollars.
    pub usd: f64,
}

impl CostReport {
    /// Builds the report from the ledger. `None`: no LLM is configured; `Err`: why the ledger
    /// cannot be read.
    pub fn new(provider: Option<String>, ledger: Option<Result<Report, String>>) -> Self {
        let unknown = |why| Self {
            provider: provider.clone(),
            why,
            budget: None,
            days: Vec::new(),
            calls: Vec::new(),
        };
        match ledger {
            None => unknown(None),
            Some(Err(why)) => unknown(Some(why)),
            Some(Ok(report)) => Self {
                provider: provider.clone(),
                ..summarize_ledger(&report)
            },
        }
    }

    /// Returns lines of text for the user.
    pub fn lines(&self) -> Vec<String> {
        let Some(budget) = &self.budget else {
            let why = self.why.as_deref().unwrap_or(
                "No LLM is configured ([llm] in the configuration), so nothing is spent.",
            );
            return vec![why.to_owned()];
        };
        let provider = self.provider.as_deref().unwrap_or("LLM");
        let mut lines = vec![format!(
            "{provider}: {} of {} calls in the last hour; ${:.4} of ${:.2} today and ${:.4} of ${:.2} this month, by UTC; at most {} tokens a call",
            budget.calls_in_hour,
            budget.calls_per_hour,
            budget.day_usd,
            budget.day_limit_usd,
            budget.month_usd,
            budget.month_limit_usd,
            budget.tokens_per_call,
        )];
        lines.extend(budget.classes.iter().filter_map(ClassUse::line));
        lines.extend(budget.rules.iter().take(MAX_SHOWN).map(|used| {
            format!(
                "  rule {}: ${:.4} today (ceiling ${:.2})",
                used.rule, used.day_usd, budget.rule_day_ceiling_usd
            )
        }));
        let newest = |all: usize| all.saturating_sub(MAX_SHOWN);
        for day in self.days.iter().skip(newest(self.days.len())) {
            let calls = counted(day.calls, "call");
            lines.push(format!(
                "  {}  {calls}, {} tokens, ${:.4}",
                day.day, day.tokens, day.usd
            ));
        }
        for call in self.calls.iter().skip(newest(self.calls.len())) {
            let at = call.at.strftime("%F %TZ");
            lines.push(format!(
                "  {at}  {}  {} {}, {}, {} tokens, ${:.4}",
                call.job, call.provider, call.model, call.outcome, call.tokens, call.usd
            ));
        }
        lines
    }
}

fn summarize_ledger(report: &Report) -> CostReport {
    let day = |(day, totals): (&u64, &Totals)| {
        let seconds = i64::try_from(*day).ok()?.checked_mul(86_400)?;
        let at = Timestamp::from_second(seconds)
            .ok()?
            .to_zoned(TimeZone::UTC);
        Some(DaysCost {
            day: at.date().to_string(),
            calls: totals.calls,
            tokens: totals.usage.total(),
            usd: totals.cost.dollars(),
        })
    };
    let call = |call: &CallRecord| {
        Some(Call {
            at: Timestamp::from_millisecond(call.at_ms).ok()?,
            job: call.job.clone(),
            provider: call.provider.clone(),
            model: call.model.clone(),
            outcome: match &call.outcome {
                CallOutcome::Failed(kind) => serialized_name(kind),
                other => serialized_name(other),
            },
            tokens: call.usage.total(),
            usd: call.cost.dollars(),
        })
    };
    let mut rules: Vec<RuleUse> = (report.day_by_rule.iter())
        .filter(|(_, cost)| **cost > Money::ZERO)
        .map(|(rule, cost)| RuleUse {
            rule: rule.clone(),
            day_usd: cost.dollars(),
        })
        .collect();
    rules.sort_by(|a, b| b.day_usd.total_cmp(&a.day_usd));
    rules.truncate(MAX_RULES);
    let limits = &report.limits;
    let spare = report.days.len().saturating_sub(MAX_DAYS);
    let old = report.calls.len().saturating_sub(MAX_CALLS);
    CostReport {
        provider: None,
        why: None,
        budget: Some(Budget {
            calls_in_hour: report.calls_in_hour,
            calls_per_hour: limits.calls_per_hour,
            day_usd: report.day.dollars(),
            day_limit_usd: limits.day.dollars(),
            month_usd: report.month.dollars(),
            month_limit_usd: limits.month.dollars(),
            tokens_per_call: limits.tokens_per_call,
            classes: CallClass::ALL
                .map(|class| ClassUse::new(class, report))
                .into(),
            rule_day_ceiling_usd: report.rule_day.dollars(),
            rules,
        }),
        days: report.days.iter().skip(spare).filter_map(day).collect(),
        calls: report.calls.iter().skip(old).filter_map(call).collect(),
    }
}

/// Returns the serialised name of a unit variant, with spaces.
pub fn serialized_name(what: &impl Serialize) -> String {
    let word = serde_json::to_value(what).unwrap_or_default();
    word.as_str().unwrap_or("unknown").replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_without_llm_or_ledger_is_one_line() {
        let none = CostReport::new(None, None).lines();
        assert!(none.len() == 1 && none[0].contains("nothing is spent"));
        let away = CostReport::new(Some("claude".to_owned()), Some(Err("no key".to_owned())));
        assert_eq!(away.lines(), ["no key"]);
    }

    #[test]
    fn report_lines_show_budget_latest_days_and_calls() {
        let call = |n: usize| Call {
            at: Timestamp::UNIX_EPOCH,
            job: format!("set-up/{n}"),
            provider: "claude".to_owned(),
            model: "m".to_owned(),
            outcome: "answered".to_owned(),
            tokens: 47_000,
            usd: 0.029,
        };
        let class_use = |class| ClassUse {
            class,
            calls_in_hour: u32::from(class == CallClass::Escalation) * 3,
            calls_ceiling: 30,
            day_usd: 0.0,
            day_ceiling_usd: 0.5,
            refused: match class {
                CallClass::Escalation => {
                    BTreeMap::from([(RefusalCause::Hour, 2), (RefusalCause::Rule, 9)])
                }
                _ => BTreeMap::new(),
            },
        };
        let cost = CostReport {
            provider: Some("claude".to_owned()),
            why: None,
            budget: Some(Budget {
                calls_in_hour: 3,
                calls_per_hour: 60,
                day_usd: 0.029,
                day_limit_usd: 1.0,
                month_usd: 0.5,
                month_limit_usd: 20.0,
                tokens_per_call: 40_000,
                classes: CallClass::ALL.map(class_use).into(),
                rule_day_ceiling_usd: 0.2,
                rules: vec![RuleUse {
                    rule: "gate/door".to_owned(),
                    day_usd: 0.02,
                }],
            }),
            days: vec![DaysCost {
                day: "2026-11-22".to_owned(),
                calls: 1,
                tokens: 47_000,
                usd: 0.029,
            }],
            calls: (0..MAX_CALLS).map(call).collect(),
        };
        let lines = cost.lines();
        assert!(
            lines[0].starts_with("claude: 3 of 60 calls"),
            "{}",
            lines[0]
        );
        assert!(lines[0].contains("$0.0290 of $1.00 today"), "{}", lines[0]);
        assert_eq!(
            lines[1],
            "  second opinions: 3 calls in the last hour (ceiling 30), $0.0000 today (ceiling \
             $0.50); refused today: 2 by the limit of calls an hour, 9 by the limit of \
             calls of a rule an hour"
        );
        assert_eq!(lines[2], "  rule gate/door: $0.0200 today (ceiling $0.20)");
        assert_eq!(lines[3], "  2026-11-22  1 call, 47000 tokens, $0.0290");
        assert_eq!(lines.len(), 4 + MAX_SHOWN);
        assert!(lines[10].contains("set-up/49  claude m"), "{}", lines[10]);
    }
}
