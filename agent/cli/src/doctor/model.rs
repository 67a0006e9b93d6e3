//! What `doctor` says about the model of language: the key, the way to the server, what the budget has left.
//!
//! Invariant: nothing is asked of the model, so nothing is spent; the key is shown nowhere.

use url::Url;
use watchkeeper_config::{Config, LlmConfig};
use watchkeeper_llm::ledger::Report;

use super::Finding;
use super::tcp_probe::knock;
use crate::user_llm;
use watchkeeper_assistant::llm::catalogue;

/// Looks at the section `[llm]`.
pub(super) fn look(config: &Config) -> Vec<Finding> {
    let Some(llm) = &config.llm else {
        return vec![Finding::ok(
            "model of language: none is configured, and none is needed",
        )];
    };
    vec![books(config), server(llm)]
}

/// The key and what the budget has left: what keeps the client from being made is the key in nearly every case.
fn books(config: &Config) -> Finding {
    let opened = user_llm::opener(config).map(|open| open());
    match opened {
        Some(Ok(client)) => spent(&client.report()),
        Some(Err(why)) => Finding::problem(
            format!("model of language: {why}"),
            "see [llm] in docs/ref/configuration.md; what needs no model works without",
        ),
        None => Finding::ok("model of language: none is configured, and none is needed"),
    }
}

/// What the budget has left.
fn spent(report: &Report) -> Finding {
    let limits = &report.limits;
    let told = format!(
        "model of language: the key is there; {} of {} calls this hour, {} of {} this day and {} of {} this month are spent by this user",
        report.calls_in_hour,
        limits.calls_per_hour,
        report.day,
        limits.day,
        report.month,
        limits.month,
    );
    let used_up = [
        (
            report.calls_in_hour >= limits.calls_per_hour,
            "calls_per_hour",
        ),
        (report.day >= limits.day, "day_usd"),
        (report.month >= limits.month, "month_usd"),
    ];
    match used_up.into_iter().find(|(is_used_up, _)| *is_used_up) {
        Some((_, key)) => Finding::problem(
            told,
            format!("the model is not asked any more: raise llm.{key}, or wait"),
        ),
        None => Finding::ok(told),
    }
}

/// Whether somebody answers at the address.
fn server(llm: &LlmConfig) -> Finding {
    let address = match &llm.base_url {
        Some(text) => Url::parse(text).map_err(|e| e.to_string()),
        None => catalogue(llm).and_then(|catalogue| {
            let provider = catalogue.provider(&llm.provider);
            provider
                .map(|p| p.base_url.clone())
                .map_err(|e| e.to_string())
        }),
    };
    let knocked = address.and_then(|url| knock(&url));
    match knocked {
        Ok(name) => Finding::ok(format!("model of language: {name} can be reached")),
        Err(why) => Finding::problem(
            format!("model of language: {why}"),
            "see to the network, a firewall or llm.base_url; what needs no model works without",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::TcpListener;
    use std::time::Duration;

    use watchkeeper_llm::budget::Limits;
    use watchkeeper_llm::money::Money;

    use super::super::Level;
    use super::*;

    fn report(calls: u32, day: u64) -> Report {
        Report {
            calls_in_hour: calls,
            day: Money(day),
            month: Money(day),
            limits: Limits::default(),
            days: BTreeMap::new(),
            months: BTreeMap::new(),
            jobs: BTreeMap::new(),
            calls: Vec::new(),
        }
    }

    #[test]
    fn a_budget_that_is_used_up_is_a_problem_with_the_key_to_raise() {
        assert_eq!(spent(&report(0, 0)).level, Level::Ok);
        for (report, key) in [
            (report(60, 0), "llm.calls_per_hour"),
            (report(0, Limits::default().day.0), "llm.day_usd"),
        ] {
            let finding = spent(&report);
            assert_eq!(finding.level, Level::Problem);
            assert!(finding.remedy.is_some_and(|remedy| remedy.contains(key)));
        }
    }

    #[test]
    fn a_server_that_listens_is_reached_and_one_that_does_not_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let llm = |port: u16| LlmConfig {
            provider: "local".to_owned(),
            base_url: Some(format!("http://127.0.0.1:{port}")),
            idle_timeout: Duration::from_secs(1),
            timeout_factor: 1,
            key: None,
            key_file: None,
            model: None,
            large_model: None,
            models_file: None,
            second_opinion: false,
            calls_per_hour: 1,
            tokens_per_call: 1,
            day_usd: 1.0,
            month_usd: 1.0,
        };
        assert_eq!(server(&llm(port)).level, Level::Ok);
        drop(listener);
        let finding = server(&llm(port));
        assert_eq!(finding.level, Level::Problem);
        assert!(
            finding
                .what
                .contains(&format!("127.0.0.1:{port} can't be reached"))
        );
    }
}
