//! What the model of language has cost, and what it may, as people and programs are told.
//!
//! Invariant: pure; the figures are the ledger's own, money as it was booked.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use watchkeeper_llm::ledger::{CallOutcome, CallRecord, Report, Totals};

use crate::wording::counted;

/// Days that the costs are told of one by one.
const DAYS: usize = 31;
/// Calls that are told one by one.
const CALLS: usize = 50;
/// Days and calls of them that a person is shown.
const SHOWN: usize = 7;

/// What the model of language has cost, and what it may.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Cost)]
pub struct CostReport {
    /// Who serves it; absent: no model is configured, and nothing can be spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Why nothing is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Spent, and the limit; absent where nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The last 31 days of UTC on which something was spent, the oldest first.
    pub days: Vec<DaysCost>,
    /// The last 50 calls, the oldest first.
    pub calls: Vec<Call>,
}

/// Spent, and the limit. Calls that are not over count with the most that they can cost.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Budget {
    /// Calls within the last sixty minutes.
    pub calls_in_hour: u32,
    /// Most calls within sixty minutes.
    pub calls_per_hour: u32,
    /// Spent this day of UTC, in US dollars.
    pub day_usd: f64,
    /// Most a day.
    pub day_limit_usd: f64,
    /// Spent this month of UTC, in US dollars.
    pub month_usd: f64,
    /// Most a month.
    pub month_limit_usd: f64,
    /// Most tokens of one call.
    pub tokens_per_call: u64,
}

/// A day.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct DaysCost {
    /// Which, such as `2026-11-22`.
    pub day: String,
    /// Calls.
    pub calls: u64,
    /// Tokens.
    pub tokens: u64,
    /// Money, in US dollars.
    pub usd: f64,
}

/// A call.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Call {
    /// When.
    #[schema(value_type = String)]
    pub at: Timestamp,
    /// What for, such as `set-up/01J…`, `reword` or `triage/01J…`.
    pub job: String,
    /// The model.
    pub model: String,
    /// How it ended: `answered`, or what went wrong.
    pub outcome: String,
    /// Tokens.
    pub tokens: u64,
    /// Money, in US dollars.
    pub usd: f64,
}

impl CostReport {
    /// What the books say. `None`: no model is configured; the error is why they can't be read.
    #[must_use]
    pub fn of(provider: Option<String>, books: Option<Result<Report, String>>) -> Self {
        let unknown = |why| Self {
            provider: provider.clone(),
            why,
            budget: None,
            days: Vec::new(),
            calls: Vec::new(),
        };
        match books {
            None => unknown(None),
            Some(Err(why)) => unknown(Some(why)),
            Some(Ok(report)) => Self {
                provider: provider.clone(),
                ..of_books(&report)
            },
        }
    }

    /// All of it for a person.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let Some(budget) = &self.budget else {
            let why = self.why.as_deref().unwrap_or(
                "No model of language is configured ([llm] of the configuration), so nothing is spent.",
            );
            return vec![why.to_owned()];
        };
        let provider = self.provider.as_deref().unwrap_or("the model");
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
        let newest = |all: usize| all.saturating_sub(SHOWN);
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
                "  {at}  {}  {}, {}, {} tokens, ${:.4}",
                call.job, call.model, call.outcome, call.tokens, call.usd
            ));
        }
        lines
    }
}

fn of_books(report: &Report) -> CostReport {
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
            model: call.model.clone(),
            outcome: match &call.outcome {
                CallOutcome::Failed(kind) => named(kind),
                other => named(other),
            },
            tokens: call.usage.total(),
            usd: call.cost.dollars(),
        })
    };
    let limits = &report.limits;
    let spare = report.days.len().saturating_sub(DAYS);
    let old = report.calls.len().saturating_sub(CALLS);
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
        }),
        days: report.days.iter().skip(spare).filter_map(day).collect(),
        calls: report.calls.iter().skip(old).filter_map(call).collect(),
    }
}

/// The word that something is stored as.
#[must_use]
pub fn named(what: &impl Serialize) -> String {
    let word = serde_json::to_value(what).unwrap_or_default();
    word.as_str().unwrap_or("unknown").replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_no_model_or_no_books_is_told_why_in_one_line() {
        let none = CostReport::of(None, None).lines();
        assert!(none.len() == 1 && none[0].contains("nothing is spent"));
        let away = CostReport::of(Some("claude".to_owned()), Some(Err("no key".to_owned())));
        assert_eq!(away.lines(), ["no key"]);
    }

    #[test]
    fn a_person_sees_what_was_spent_of_what_and_the_latest_days_and_calls() {
        let call = |n: usize| Call {
            at: Timestamp::UNIX_EPOCH,
            job: format!("set-up/{n}"),
            model: "m".to_owned(),
            outcome: "answered".to_owned(),
            tokens: 47_000,
            usd: 0.029,
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
            }),
            days: vec![DaysCost {
                day: "2026-11-22".to_owned(),
                calls: 1,
                tokens: 47_000,
                usd: 0.029,
            }],
            calls: (0..CALLS).map(call).collect(),
        };
        let lines = cost.lines();
        assert!(
            lines[0].starts_with("claude: 3 of 60 calls"),
            "{}",
            lines[0]
        );
        assert!(lines[0].contains("$0.0290 of $1.00 today"), "{}", lines[0]);
        assert_eq!(lines[1], "  2026-11-22  1 call, 47000 tokens, $0.0290");
        assert_eq!(lines.len(), 2 + SHOWN);
        assert!(lines[8].contains("set-up/49"), "{}", lines[8]);
    }
}
