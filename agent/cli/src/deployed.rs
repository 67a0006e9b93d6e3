//! Pipelines that a running runtime has besides those of the file, for checks of the file.

use std::time::Duration;

use watchkeeper_client::RuntimeClient;
use watchkeeper_config::Config;
use watchkeeper_contract::pipeline::PipelineSpec;

use super::event_loop;

/// Timeout of the answer: a hanging runtime does not keep the file from being checked.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Asks the runtime for the pipelines that were deployed by hand; `None` if it does not answer.
pub(super) fn besides(config: &Config) -> Option<Vec<PipelineSpec>> {
    if !config.runtime_socket.exists() {
        return None;
    }
    let runtime = event_loop::new().ok()?;
    let client = RuntimeClient::new(&config.runtime_socket).ok()?;
    let asked = async { tokio::time::timeout(TIMEOUT, client.pipelines()).await };
    let all = runtime.block_on(asked).ok()?.ok()?;
    let declared = config.declared.as_ref();
    let is_besides = |spec: &PipelineSpec| {
        !declared.is_some_and(|declared| declared.pipelines.contains(spec.id.as_str()))
    };
    let specs = all.into_iter().map(|pipeline| pipeline.spec);
    Some(specs.filter(is_besides).collect())
}
