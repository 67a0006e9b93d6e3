//! A scripted LLM and the configuration for it.

use watchkeeper_config::LlmConfig;
use watchkeeper_scripted_model::{Script, Server, Step};

use super::broker::WAIT_TIMEOUT;

/// API key that the scripted LLM requires.
pub(crate) const KEY: &str = "sk-scripted-0123456789abcdefghij";

/// Starts a scripted LLM with these answers.
pub(crate) async fn model(steps: Vec<Step>) -> Server {
    let script = Script { steps };
    Server::start(Some(KEY), script).await.expect("the model")
}

/// Configuration for `model` with second opinions.
pub(crate) fn llm(model: &Server) -> LlmConfig {
    LlmConfig {
        base_url: Some(model.base_url()),
        key: Some(KEY.to_owned().into()),
        second_opinion: true,
        calls_per_hour: 100,
        tokens_per_call: 20_000,
        idle_timeout: WAIT_TIMEOUT,
        ..LlmConfig::new("claude")
    }
}
