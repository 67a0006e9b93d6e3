//! The blueprints that a coordinator's turn reaches.
//!
//! - A sub-agent has the tools of its own blueprint, and knows nothing but its instruction.
//! - Its cost is in the ledger under the name of the coordinator's turn, and within its limit.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use watchkeeper_llm::money::Money;

use super::setup_runner::{SetupRequest, SetupRunner};
use crate::blueprint::{Blueprint, BlueprintStore, Job};
use crate::permissions::ToolPermissions;
use crate::proposal::llm_proposal::words;
use crate::router::{ChosenBy, Route};
use crate::setup_agent::delegation::{Delegated, Delegation, DelegationRequest, MAX_SUMMARY};
use crate::setup_agent::turn_record::TurnEnd;
use crate::trace;
use crate::wording::cut;

/// Runs instructions for one turn of a coordinator.
#[derive(Debug)]
pub(super) struct SubAgents<'s> {
    pub(super) runner: &'s SetupRunner<'s>,
    pub(super) permissions: ToolPermissions,
}

impl SubAgents<'_> {
    /// The blueprint of an agent, within what is left of the coordinator's limit.
    fn blueprint(&self, wanted: &DelegationRequest<'_>) -> Result<Blueprint, String> {
        let job = Job::from_name(wanted.agent).filter(|job| *job != Job::Coordinator);
        let job = job.ok_or_else(|| format!("there is no agent {}", wanted.agent))?;
        let store = BlueprintStore::new(&self.runner.folder);
        let (blueprint, _) = store.serving(job)?;
        let limit = wanted.head.cost.unwrap_or(blueprint.cost);
        let left = Money(limit.0.saturating_sub(wanted.spent.0));
        if left == Money::ZERO {
            return Err("the limit of the request is spent; raise limits.cost_usd".to_owned());
        }
        Ok(Blueprint {
            cost: blueprint.cost.min(left),
            ..blueprint
        })
    }

    async fn run_agent(&self, wanted: DelegationRequest<'_>) -> Delegated {
        let blueprint = match self.blueprint(&wanted) {
            Ok(blueprint) => blueprint,
            Err(why) => return failed(why),
        };
        let DelegationRequest {
            agent,
            instruction,
            head,
            ..
        } = wanted;
        trace::note(self.runner.trace, "delegated", || {
            json!({
                "turn": head.id, "agent": agent, "text": instruction,
                "sentence": format!("{agent} gets an instruction"),
            })
        });
        let request = SetupRequest {
            text: instruction,
            routed: Route {
                blueprint,
                by: ChosenBy::Coordinator,
            },
            permissions: self.permissions.clone(),
            attached: Vec::new(),
            earlier: Value::Null,
        };
        let ledger = format!("{}/{}", head.blueprint, head.id);
        let ran = self.runner.run_turn(request, Some(ledger), None);
        let ran = match ran.await {
            Ok(ran) => ran,
            Err(why) => return failed(why),
        };
        let (mut summary, mut actions) = (Err(String::new()), Vec::new());
        match ran.end {
            Ok(TurnEnd::Answer { text }) => summary = Ok(text),
            Ok(TurnEnd::Actions { actions: all, text }) => {
                (summary, actions) = (Ok(text), all);
            }
            Ok(TurnEnd::NoResult { why }) | Err(why) => summary = Err(why),
            // No agent has a tool for these.
            Ok(TurnEnd::Proposal { .. } | TurnEnd::HandOver) => {}
        }
        // Its result is in the coordinator's turn now.
        ran.log.remove();
        let short = |text: String| cut(words(&text), MAX_SUMMARY);
        Delegated {
            summary: summary.map(short).map_err(short),
            actions,
            cost: ran.spent.cost,
            usage: ran.spent.usage,
        }
    }
}

fn failed(why: String) -> Delegated {
    Delegated {
        summary: Err(why),
        actions: Vec::new(),
        cost: Money::ZERO,
        usage: Default::default(),
    }
}

impl Delegation for SubAgents<'_> {
    fn run<'a>(&'a self, wanted: DelegationRequest<'a>) -> BoxFuture<'a, Delegated> {
        self.run_agent(wanted).boxed()
    }
}
