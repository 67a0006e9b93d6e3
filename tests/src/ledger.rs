//! Compares the agent's ledger with the requests that a scripted LLM recorded.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use serde_json::Value;
use watchkeeper_client::clock::wall_now;
use watchkeeper_llm::budget::Limits;
use watchkeeper_llm::catalogue::Catalogue;
use watchkeeper_llm::ledger::{CallOutcome, Ledger, Report};
use watchkeeper_llm::money::Money;
use watchkeeper_llm::usage::Usage;
use watchkeeper_store::{DiskStore, Options};

/// Reads the ledger in the store of this folder. The process that writes it must have ended.
///
/// # Errors
/// If the store can't be read.
pub fn read_report(folder: &Path) -> anyhow::Result<Report> {
    let (store, _) = DiskStore::open(folder, &Options::default())?;
    let ledger = Ledger::open(Arc::new(store), folder, Limits::default())?;
    Ok(ledger.report(Instant::now(), wall_now()))
}

/// Checks that the ledger holds exactly the recorded requests of this provider, in their order. An
/// answered request has the LLM's own usage; one whose answer was lost has at least its prompt.
///
/// # Errors
/// With the entries that differ.
pub fn check(report: &Report, provider: &str, requests: &[Value]) -> anyhow::Result<()> {
    let (booked, made) = (report.calls.len(), requests.len());
    ensure!(
        booked == made,
        "{booked} calls are booked, {made} were made"
    );
    let catalogue = Catalogue::built_in()?;
    let mut sum = Money::ZERO;
    for (call, request) in report.calls.iter().zip(requests) {
        let charged = usage(&request["usage"]);
        let prices = catalogue.model(provider, &call.model)?.prices;
        sum += call.cost;
        let is_fair = match call.outcome {
            CallOutcome::Answered => call.usage == charged && call.cost == prices.cost(&charged),
            CallOutcome::Failed(_) => {
                let prompt = Usage {
                    output: 0,
                    thinking: 0,
                    ..charged
                };
                call.cost >= prices.cost(&prompt)
            }
            CallOutcome::Open => false,
        };
        ensure!(is_fair, "recorded {call:?}, charged {charged:?}");
    }
    ensure!(
        report.day == sum && report.month == sum,
        "{report:?} does not sum up to {sum}"
    );
    Ok(())
}

/// Converts the usage that Claude, or a server with its API, charged.
pub fn usage(charged: &Value) -> Usage {
    let tokens = |at: &str| charged.pointer(at).and_then(Value::as_u64).unwrap_or(0);
    Usage {
        input: tokens("/input_tokens"),
        cache_read: tokens("/cache_read_input_tokens"),
        cache_write: tokens("/cache_creation/ephemeral_5m_input_tokens"),
        cache_write_long: tokens("/cache_creation/ephemeral_1h_input_tokens"),
        output: tokens("/output_tokens"),
        thinking: tokens("/output_tokens_details/thinking_tokens"),
    }
}
