//! One call of a small model that puts what was not understood into words that are, and says who is to work on it otherwise.
//!
//! It comes before the loop with tools ([`super::setup_runner`]): a request in another language or in unusual words is then one call of the smallest
//! model, where the loop takes four and more of a larger one, with the instructions and pictures in each.

use std::time::Duration;

use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::client::LlmError;
use watchkeeper_llm::money::Money;
use watchkeeper_llm::picture::Detail;
use watchkeeper_llm::{Client, JobSpec};
use watchkeeper_plain::Scene;

use crate::proposal::reword::{self, JobChoice, RewordError, Rewording};

/// Time for one rewording: a person waits for it.
const TIME: Duration = Duration::from_secs(30);

/// What came of it.
#[derive(Debug)]
pub struct RewordResult {
    /// The other words.
    pub reworded: Rewording,
    /// Which model said it.
    pub model: String,
    /// What it cost.
    pub cost: Money,
}

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub enum RewordFailure {
    /// The model is away or can't be afforded.
    #[error(transparent)]
    Model(#[from] LlmError),
    /// It made nothing of it.
    #[error(transparent)]
    Nothing(#[from] RewordError),
    /// A fault of this program.
    #[error("{0}")]
    Talk(#[from] watchkeeper_llm::conversation::ConversationError),
}

/// Asks the model to put `text` into other words, and to choose one of `jobs`.
///
/// # Errors
/// When nothing came of it.
pub async fn reword(
    client: &Client,
    text: &str,
    scene: &Scene,
    jobs: &[JobChoice],
) -> Result<RewordResult, RewordFailure> {
    let talk = reword::talk(text, scene, jobs)?;
    let mut job = client.start_job(JobSpec {
        name: "reword".to_owned(),
        tier: Tier::Small,
        detail: Detail::Low,
        time: TIME,
    });
    let reply = job.ask(&talk, &reword::ask(), &mut |_| {}).await?;
    let reworded = reword::read(&reply.text())?;
    Ok(RewordResult {
        reworded,
        model: reply.model,
        cost: job.spent().1,
    })
}
