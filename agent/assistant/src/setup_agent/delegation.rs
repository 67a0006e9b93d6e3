//! How one turn hands an instruction to another blueprint.
//!
//! - Only the agents of [`AGENTS`] are reached, and none of them delegates: the depth is one.
//! - The delegations of a turn are bounded in number, and their cost counts as the turn's own.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use watchkeeper_llm::money::Money;
use watchkeeper_llm::usage::Usage;

use crate::operations::proposed_action::ProposedAction;

/// Names of the blueprints that a coordinator reaches.
pub const AGENTS: [&str; 4] = ["ingestor", "retriever", "organiser", "identifier"];
/// Most delegations of one request.
pub const MAX_DELEGATIONS: u32 = 4;
/// Longest instruction, in characters.
pub const MAX_INSTRUCTION: usize = 1_000;
/// Longest summary of a result, in characters.
pub const MAX_SUMMARY: usize = 1_500;

/// The result of a delegation.
#[derive(Debug)]
pub struct Delegated {
    /// A short text, or why there is none.
    pub summary: Result<String, String>,
    /// What waits for a yes.
    pub actions: Vec<ProposedAction>,
    pub cost: Money,
    pub usage: Usage,
}

/// Runs instructions by other blueprints.
pub trait Delegation: Sync + Debug {
    /// Lets `agent` work on an instruction. `delegated`: cost of the delegations before.
    fn run<'a>(
        &'a self,
        agent: &'a str,
        instruction: &'a str,
        delegated: Money,
    ) -> BoxFuture<'a, Delegated>;
}
