//! Look-ups for `config check` and `doctor`.
//!
//! Not here: asking one ([`lookup`](super::lookup)).

use watchkeeper_config::Config;
use watchkeeper_evidence::lookup::Lookups;

/// Problems of the look-ups of a configuration: key and problem.
pub(super) fn problems(config: &Config) -> Vec<(String, String)> {
    let errors = Lookups::open(&config.lookups).problems().into_iter();
    errors
        .map(|error| (format!("agent.lookups.{}", error.name), error.problem))
        .collect()
}
