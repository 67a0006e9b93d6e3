//! One call of a small LLM that rewords a request for the rules, and otherwise chooses its
//! blueprint.
//!
//! It comes before the tool loop ([`super::setup_runner`]): a request in another language or in
//! unusual words costs one call of the smallest model. The loop needs four or more of a larger one,
//! each with instructions and pictures.

use std::time::Duration;

use watchkeeper_llm::budget::CallClass;
use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::client::LlmError;
use watchkeeper_llm::money::Money;
use watchkeeper_llm::picture::Detail;
use watchkeeper_llm::{Client, JobSpec};
use watchkeeper_plain::Scene;

use crate::proposal::reword::{self, JobChoice, RewordError, Rewording};

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

/// Asks the LLM to reword `text` and to choose one of `jobs`.
///
/// # Errors
/// If the call fails or the answer is invalid.
pub async fn reword(
    client: &Client,
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
    let reply = job
        .ask(&talk, &reword::call_options(), &mut |_, _| {})
        .await?;
    let reworded = reword::parse_reply(&reply.text())?;
    Ok(RewordResult {
        reworded,
        model: reply.model,
        cost: job.spent().1,
    })
}
