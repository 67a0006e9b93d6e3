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
        provider: "claude".to_owned(),
        base_url: Some(model.base_url()),
        key: Some(KEY.to_owned().into()),
        key_file: None,
        program: None,
        model: None,
        large_model: None,
        models_file: None,
        second: None,
        second_opinion: true,
        calls_per_hour: 100,
        tokens_per_call: 20_000,
        idle_timeout: WAIT_TIMEOUT,
        timeout_factor: 1,
        day_usd: 1.0,
        month_usd: 20.0,
    }
}
