//! One call of a small LLM that rewords a request for the rules, and otherwise chooses its
//! blueprint.
//!
//! It comes before the tool loop ([`super::setup_runner`]): a request in another language or in
//! unusual words costs one call of the smallest model. The loop needs four or more of a larger one,
//! each with instructions and pictures.

use std::time::Duration;

use serde_json::json;
use watchkeeper_llm::budget::CallClass;
use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::client::LlmError;
use watchkeeper_llm::money::Money;
use watchkeeper_llm::picture::Detail;
use watchkeeper_llm::{Client, JobSpec};
use watchkeeper_plain::Scene;

use crate::llm::ask_traced;
use crate::proposal::reword::{self, JobChoice, RewordError, Rewording};
use crate::trace::Trace;

/// Timeout of one rewording; a user waits for it.
const REWORD_TIMEOUT: Duration = Duration::from_secs(30);

/// A rewording with its costs.
#[derive(Debug)]
pub struct RewordResult {
    pub reworded: Rewording,
    /// Model that answered.
    pub model: String,
    pub cost: Money,
}

/// Why a rewording failed.
#[derive(Debug, thiserror::Error)]
pub enum RewordFailure {
    /// The LLM failed or the budget is spent.
    #[error(transparent)]
    Model(#[from] LlmError),
    /// The answer is invalid.
    #[error(transparent)]
    Nothing(#[from] RewordError),
    /// The conversation is invalid: a defect of this program.
    #[error("{0}")]
    Talk(#[from] watchkeeper_llm::conversation::ConversationError),
}

/// Asks the LLM to reword `text` and to choose one of `jobs`. The call is audited in `trace`.
///
/// # Errors
/// If the call fails or the answer is invalid.
pub async fn reword(
    client: &Client,
    trace: Option<&Trace>,
    text: &str,
    scene: &Scene,
    jobs: &[JobChoice],
) -> Result<RewordResult, RewordFailure> {
    let talk = reword::build_conversation(text, scene, jobs)?;
    let mut job = client.start_job(JobSpec {
        name: "reword".to_owned(),
        class: CallClass::Person,
        rule: None,
        tier: Tier::Small,
        detail: Detail::Low,
        time: REWORD_TIMEOUT,
    });
    let (options, details) = (reword::call_options(), json!({"question": "reword"}));
    let reply = ask_traced(trace, &mut job, &talk, &options, details).await?;
    let reworded = reword::parse_reply(&reply.text())?;
    Ok(RewordResult {
        reworded,
        model: reply.model,
        cost: job.spent().1,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::sync::Arc;

    use watchkeeper_config::{AuditConfig, LlmConfig};
    use watchkeeper_scripted_model::{Script, Server, Step};
    use watchkeeper_store::MemoryStore;

    use super::*;
    use crate::audit::AuditLog;
    use crate::llm::LazyLlmClient;
    use crate::proposal::snapshot::testing::situation;

    #[tokio::test]
    async fn call_is_audited_with_its_price_though_its_reply_is_invalid() {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(None, Script::default()).await.unwrap();
        server.add([Step::text("Certainly! The gate.")]);
        let config = LlmConfig {
            base_url: Some(server.base_url()),
            key: Some("sk-scripted-0123456789".to_owned().into()),
            ..LlmConfig::new("claude")
        };
        let open = || Ok(Arc::new(MemoryStore::new()) as _);
        let client = LazyLlmClient::new(config).client(dir.path(), open).unwrap();
        let trace = Trace::new(dir.path(), "chat");
        let here = situation();
        let scene = here.scene(&here.now);
        let said = reword(&client, Some(&trace), "Zähle Leute", &scene, &[]).await;
        assert!(matches!(said, Err(RewordFailure::Nothing(_))), "{said:?}");
        let log = AuditLog::of_activity(dir.path(), AuditConfig::default());
        let audited = log.latest(9).unwrap();
        let [call] = audited.as_slice() else {
            panic!("{audited:?}");
        };
        assert_eq!(call["what"], "model");
        assert!(call["of"]["usd"].as_f64() > Some(0.0), "{call}");
    }
}
