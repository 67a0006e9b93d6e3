//! Checks `[llm]`: the key, the budget and the connection to the provider.
//!
//! Invariants: no request is sent, so nothing is spent; the key is never shown.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use url::Url;
use watchkeeper_config::{Config, LlmConfig};
use watchkeeper_llm::ledger::Report;
use watchkeeper_store::{DiskStore, MemoryStore, Options, Store};

use super::finding::Finding;
use super::tcp_probe::probe_tcp;
use crate::user_llm;
use watchkeeper_assistant::llm::{LazyLlmClient, catalogue};

/// Text for a configuration without `[llm]`.
const NONE: &str = "language model: none configured (optional)";

/// Checks the section `[llm]`.
pub(super) fn check(config: &Config) -> Vec<Finding> {
    let Some(llm) = &config.llm else {
        return vec![Finding::ok(NONE)];
    };
    let sections = ["llm", "llm.second"];
    let servers = llm.providers().zip(sections);
    let servers = servers.map(|(provider, section)| check_server(provider, section));
    std::iter::once(check_client(llm, user_llm::ledger_folder()))
        .chain(servers)
        .collect()
}

/// Opens the client, which needs the key, and checks the budget. A ledger that does not exist yet
/// is not created.
fn check_client(llm: &LlmConfig, folder: Result<PathBuf, String>) -> Finding {
    let folder = match folder {
        Ok(folder) => folder,
        Err(why) => return unusable(&why),
    };
    if let Some(error) = watchkeeper_store::in_use(&folder) {
        return Finding::advice(
            format!("language model: {error}"),
            "wait until that command has its answer, or end it; then check again",
        );
    }
    let opened = LazyLlmClient::new(llm.clone()).client(&folder, || {
        Ok(match folder.exists() {
            true => Arc::new(DiskStore::open(&folder, &Options::default())?.0) as Arc<dyn Store>,
            false => Arc::new(MemoryStore::new()),
        })
    });
    match opened {
        Ok(client) => check_budget(&client.report()),
        Err(why) => unusable(&why),
    }
}

fn unusable(why: &str) -> Finding {
    Finding::problem(
        format!("language model: {why}"),
        "see [llm] in docs/ref/configuration.md; the rules work without it",
    )
}

fn check_budget(report: &Report) -> Finding {
    let limits = &report.limits;
    let mut what = format!(
        "language model: key found; your use: {} of {} calls this hour, {} of {} today, {} of {} this month",
        report.calls_in_hour,
        limits.calls_per_hour,
        report.day,
        limits.day,
        report.month,
        limits.month,
    );
    if report.refused_today() > 0 {
        what.push_str(&format!("; {} refused today", report.refused_today()));
    }
    let used_up = [
        (
            report.calls_in_hour >= limits.calls_per_hour,
            "calls_per_hour",
        ),
        (report.day >= limits.day, "day_usd"),
        (report.month >= limits.month, "month_usd"),
    ];
    match used_up.into_iter().find(|(is_used_up, _)| *is_used_up) {
        Some((_, key)) => {
            Finding::problem(what, format!("calls are refused: raise llm.{key}, or wait"))
        }
        None => Finding::ok(what),
    }
}

/// Checks the connection to the provider of `section`, or its program.
fn check_server(llm: &LlmConfig, section: &str) -> Finding {
    let provider = &llm.provider;
    if let Some(program) = program_of(llm) {
        return check_program(&program, section);
    }
    let address = match &llm.base_url {
        Some(text) => Url::parse(text).map_err(|e| e.to_string()),
        None => catalogue(llm).and_then(|catalogue| {
            let provider = catalogue.provider(&llm.provider);
            provider
                .map(|p| p.base_url.clone())
                .map_err(|e| e.to_string())
        }),
    };
    match address.and_then(|url| probe_tcp(&url)) {
        Ok(name) => Finding::ok(format!("language model {provider}: {name} is reachable")),
        Err(why) => Finding::problem(
            format!("language model {provider}: {why}"),
            format!(
                "check the network, the firewall and {section}.base_url; the rules work without it"
            ),
        ),
    }
}

/// The program of a provider that is one.
fn program_of(llm: &LlmConfig) -> Option<PathBuf> {
    let catalogue = catalogue(llm).ok()?;
    let program = catalogue.provider(&llm.provider).ok()?.program.clone()?;
    Some(llm.program.clone().unwrap_or(program))
}

fn check_program(program: &Path, section: &str) -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A path with a folder replaces the one that it is joined to.
    let is_there = std::env::split_paths(&path)
        .chain([PathBuf::from("/")])
        .any(|folder| folder.join(program).is_file());
    let program = program.display();
    match is_there {
        true => Finding::ok(format!(
            "language model: the program {program} is installed"
        )),
        false => Finding::problem(
            format!("language model: the program {program} is not installed"),
            format!(
                "install Claude Code and log in as the user of the agent, or set {section}.program"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::TcpListener;

    use watchkeeper_llm::budget::{CallClass, Limits, RefusalCause};
    use watchkeeper_llm::money::Money;

    use super::super::finding::Level;
    use super::*;

    fn report(calls: u32, day: u64) -> Report {
        Report {
            calls_in_hour: calls,
            hour: Vec::new(),
            day: Money(day),
            day_by_class: BTreeMap::new(),
            day_by_rule: BTreeMap::new(),
            rule_day: Money::ZERO,
            refused: BTreeMap::new(),
            refusal: None,
            month: Money(day),
            limits: Limits::default(),
            days: BTreeMap::new(),
            months: BTreeMap::new(),
            jobs: BTreeMap::new(),
            calls: Vec::new(),
        }
    }

    #[test]
    fn exhausted_budget_is_a_problem_with_the_key_to_raise() {
        let mut refused = report(0, 0);
        let causes = BTreeMap::from([(RefusalCause::Tokens, 2)]);
        refused.refused.insert(CallClass::Person, causes);
        let finding = check_budget(&refused);
        assert_eq!(finding.level, Level::Ok);
        assert!(finding.what.ends_with("; 2 refused today"));
        for (report, key) in [
            (report(60, 0), "llm.calls_per_hour"),
            (report(0, Limits::default().day.0), "llm.day_usd"),
        ] {
            let finding = check_budget(&report);
            assert_eq!(finding.level, Level::Problem);
            assert!(finding.remedy.is_some_and(|remedy| remedy.contains(key)));
        }
    }

    #[test]
    fn ledger_in_use_is_no_problem_and_an_absent_one_stays_absent() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("llm");
        let check = || check_client(&LlmConfig::new("local"), Ok(folder.clone()));
        assert_eq!(check().level, Level::Ok);
        assert!(!folder.exists());
        let chat = DiskStore::open(&folder, &Options::default()).expect("a store");
        assert_eq!(check().level, Level::Advice);
        drop(chat);
        assert_eq!(check().level, Level::Ok);
    }

    #[test]
    fn reachable_server_is_ok_and_closed_port_is_a_problem() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let llm = |port: u16| LlmConfig {
            base_url: Some(format!("http://127.0.0.1:{port}")),
            ..LlmConfig::new("local")
        };
        assert_eq!(check_server(&llm(port), "llm").level, Level::Ok);
        drop(listener);
        let finding = check_server(&llm(port), "llm.second");
        assert_eq!(finding.level, Level::Problem);
        let what = format!("language model local: 127.0.0.1:{port} is not reachable");
        assert!(finding.what.contains(&what), "{}", finding.what);
        assert!(
            finding
                .remedy
                .is_some_and(|remedy| remedy.contains("llm.second.base_url"))
        );
    }
}
