//! Checks that tables of look-ups can be read, and that the hosts of services are reachable.

use url::Url;
use watchkeeper_config::{Config, LookupKind};
use watchkeeper_evidence::http::fill_url;

use super::finding::Finding;
use super::tcp_probe::probe_tcp;
use crate::inspect::missing_references;
use crate::lookup_check;

/// Value in an address while its host is checked; nothing is sent.
const ANY_VALUE: &str = "x";

pub(super) fn check(config: &Config) -> Vec<Finding> {
    let problems = lookup_check::problems(config);
    let found = config.lookups.iter().map(|of| {
        let name = &of.name;
        let key = format!("agent.lookups.{name}");
        if let Some((_, problem)) = problems.iter().find(|(found, _)| *found == key) {
            let remedy = format!("correct [{key}]; `watchkeeper lookup {name} VALUE` tries it");
            return Finding::problem(format!("look-up {name}: {problem}"), remedy);
        }
        match &of.kind {
            LookupKind::Http(http) => check_host(name, fill_url(&http.url, |_| Some(ANY_VALUE))),
            LookupKind::Table(table) => Finding::ok(format!(
                "look-up {name}: {} can be read by the user of this command",
                table.path.display()
            )),
            LookupKind::Fields(_) => check_model(name, config),
        }
    });
    let mut found: Vec<Finding> = found.collect();
    match missing_references(config) {
        Ok(missing) => {
            let missing = missing.into_iter();
            found.extend(missing.map(|(what, command)| Finding::problem(what, command)));
        }
        Err(unread) => {
            let remedy = "run the command as the user of the agent";
            found.push(Finding::advice(unread, remedy));
        }
    }
    found
}

fn check_host(name: &str, url: Result<Url, String>) -> Finding {
    match url.and_then(|url| probe_tcp(&url)) {
        Ok(place) => Finding::ok(format!("look-up {name}: {place} is reachable")),
        Err(why) => Finding::problem(
            format!("look-up {name}: {why}"),
            format!(
                "check the network and agent.lookups.{name}.url; chains fall through until then"
            ),
        ),
    }
}

fn check_model(name: &str, config: &Config) -> Finding {
    match config.llm.as_ref().is_some_and(|llm| llm.second_opinion) {
        true => Finding::ok(format!(
            "look-up {name}: the language model reads its fields"
        )),
        false => Finding::problem(
            format!("look-up {name}: no language model may see pictures"),
            "set [llm] provider, and llm.second_opinion = true",
        ),
    }
}
