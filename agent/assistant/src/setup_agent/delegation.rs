//! How one turn hands an instruction to another blueprint.
//!
//! - Only the agents of [`AGENTS`] are reached, and none of them delegates: the depth is one.
//! - The delegations of a turn are bounded in number, and their cost counts as the turn's own.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use watchkeeper_llm::money::Money;
use watchkeeper_llm::usage::Usage;

use super::turn_record::TurnHead;
use crate::operations::proposed_action::ProposedAction;

/// Names of the blueprints that a coordinator reaches.
pub const AGENTS: [&str; 4] = ["ingestor", "retriever", "organiser", "identifier"];
/// Most delegations of one request.
pub const MAX_DELEGATIONS: u32 = 4;
/// Longest instruction, in characters.
pub const MAX_INSTRUCTION: usize = 1_000;
/// Longest summary of a result, in characters.
pub const MAX_SUMMARY: usize = 1_500;

/// Instruction that is handed to an agent.
#[derive(Debug, Clone, Copy)]
pub struct DelegationRequest<'a> {
    pub agent: &'a str,
    pub instruction: &'a str,
    /// The turn that delegates; its cost limit is that of its delegations too.
    pub head: &'a TurnHead,
    /// Cost of the turn and its delegations so far.
    pub spent: Money,
}

#[derive(Debug)]
pub struct Delegated {
    /// A short text, or why there is none.
    pub summary: Result<String, String>,
    /// Actions that wait for a yes.
    pub actions: Vec<ProposedAction>,
    pub cost: Money,
    pub usage: Usage,
}

/// Runs instructions by other blueprints.
pub trait Delegation: Sync + Debug {
    /// Lets an agent work on an instruction.
    fn run<'a>(&'a self, wanted: DelegationRequest<'a>) -> BoxFuture<'a, Delegated>;
}
