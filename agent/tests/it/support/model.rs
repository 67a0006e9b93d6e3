//! A scripted model and the configuration that leads to it.

use watchkeeper_config::LlmConfig;
use watchkeeper_scripted_model::{Script, Server, Step};

use super::broker::PATIENCE;

/// Key that the model asks for.
pub(crate) const KEY: &str = "sk-scripted-0123456789abcdefghij";

/// A model that plays these steps.
pub(crate) async fn model(steps: Vec<Step>) -> Server {
    let script = Script { steps };
    Server::start(Some(KEY), script).await.expect("the model")
}

/// The way to it, second opinions allowed.
pub(crate) fn llm(model: &Server) -> LlmConfig {
    LlmConfig {
        provider: "claude".to_owned(),
        base_url: Some(model.base_url()),
        key: Some(KEY.to_owned().into()),
        key_file: None,
        model: None,
        large_model: None,
        models_file: None,
        second_opinion: true,
        calls_per_hour: 100,
        tokens_per_call: 20_000,
        idle_timeout: PATIENCE,
        timeout_factor: 1,
        day_usd: 1.0,
        month_usd: 20.0,
    }
}
