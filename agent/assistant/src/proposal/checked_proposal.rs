//! A proposal as a user sees it: what was understood, its checks, its trial and its difference to
//! what runs.
//!
//! Invariant: two proposals have the same [`CheckedProposal::fingerprint`] only if they change the
//! same pipelines in the same way and say the same about it.

use jiff::Zoned;
use serde_json::{Value, json};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_plain::{Change, Proposal};
use xxhash_rust::xxh3::xxh3_128;

use super::checks::{Check, check_spec};
use super::describe::describe_change;
use super::difference::{ProposalDiff, difference};
use super::llm_proposal::LlmProposal;
use super::snapshot::SystemSnapshot;
use super::trial::TrialResult;
use crate::redact;

/// A proposal with everything that a user needs to confirm it.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedProposal {
    pub request: String,
    /// The user's corrections, such as `make it 30 seconds`.
    pub corrections: Vec<String>,
    /// Time of the request.
    pub at: Zoned,
    /// The parsed request.
    pub proposal: Proposal,
    /// One check for each pipeline that is deployed or replaced.
    pub checks: Vec<Check>,
    /// Difference to what runs, in the order of the changes.
    pub difference: Vec<ProposalDiff>,
    /// The LLM's proposal; `None` if the rules parsed the request.
    pub llm_proposal: Option<LlmProposal>,
    /// Results of the trial. Not part of the fingerprint: the scene differs at every trial.
    pub trials: Vec<TrialResult>,
    /// Current specifications of the pipelines to change.
    pub(super) before: Vec<PipelineSpec>,
}

/// Joins a request and its corrections in one line.
pub(super) fn join_corrections(request: &str, corrections: &[String]) -> String {
    let mut all = request.to_owned();
    for correction in corrections {
        all.push_str(" – ");
        all.push_str(correction);
    }
    all
}

impl CheckedProposal {
    /// Checks a proposal against the current state.
    pub fn new(request: &str, at: &Zoned, proposal: Proposal, situation: &SystemSnapshot) -> Self {
        let difference: Vec<ProposalDiff> = proposal
            .changes
            .iter()
            .map(|change| difference(change, situation))
            .collect();
        let before = difference
            .iter()
            .filter_map(|d| situation.pipeline(d.pipeline.as_str()))
            .map(|status| status.spec.clone());
        Self {
            request: request.to_owned(),
            corrections: Vec::new(),
            at: at.clone(),
            checks: specs(&proposal)
                .map(|spec| check_spec(spec, situation))
                .collect(),
            before: before.collect(),
            difference,
            proposal,
            llm_proposal: None,
            trials: Vec::new(),
        }
    }

    /// Checks an LLM's proposal, made for the user's `request`, against the current state.
    pub fn from_llm(
        request: &str,
        at: &Zoned,
        llm_proposal: LlmProposal,
        situation: &SystemSnapshot,
    ) -> Self {
        let offer = Self::new(request, at, llm_proposal.proposal(), situation);
        Self {
            llm_proposal: Some(llm_proposal),
            ..offer
        }
    }

    /// Returns the request with its corrections, in one line.
    pub fn full_request(&self) -> String {
        join_corrections(&self.request, &self.corrections)
    }

    /// Returns why the proposal cannot be confirmed; `None` if it can.
    pub fn invalid_reason(&self) -> Option<String> {
        let mut errors = self.checks.iter().flat_map(|c| &c.errors);
        if let Some(error) = errors.next() {
            return Some(format!("it cannot be deployed: {error}"));
        }
        if !self.difference.iter().any(ProposalDiff::has_effect) {
            let resumed = |change: &Change| match change {
                Change::Resume(id) => Some(id.to_string()),
                _ => None,
            };
            let resumed: Option<Vec<String>> = self.proposal.changes.iter().map(resumed).collect();
            return Some(match resumed.filter(|ids| !ids.is_empty()) {
                Some(running) => format!("{} runs already", running.join(", ")),
                None => "it would change nothing".to_owned(),
            });
        }
        None
    }

    /// Whether every part of the request is possible.
    pub fn is_complete(&self) -> bool {
        self.proposal.not_possible.is_empty()
    }

    /// Identifies the proposal: a hash of all its changes and texts, and of the current
    /// specifications. XXH3 recognises; it does not protect against a user who edits the files.
    pub fn fingerprint(&self) -> String {
        let specs: Vec<&PipelineSpec> = specs(&self.proposal).collect();
        let whole = json!({"offer": self.content_json(), "specs": specs, "before": self.before});
        format!("{:032x}", xxh3_128(whole.to_string().as_bytes()))
    }

    /// Returns the proposal as JSON for programs, without secrets.
    pub fn to_json(&self) -> Value {
        let mut view = self.content_json();
        if !self.trials.is_empty() {
            view["tried"] = json!(self.trials);
        }
        view
    }

    /// Returns the hashed content of the proposal as JSON.
    fn content_json(&self) -> Value {
        let changes: Vec<Value> = self.proposal.changes.iter().map(change_json).collect();
        let mut view = json!({
            "request": self.full_request(),
            "understood": self.proposal.understood,
            "assumed": self.proposal.assumed,
            "not_possible": self.proposal.not_possible,
            "changes": changes,
            "checks": self.checks,
            "difference": self.difference,
        });
        if let Some(llm_proposal) = &self.llm_proposal {
            view["by_model"] = json!({"model": llm_proposal.model, "really": describe_changes(llm_proposal), "evidence": llm_proposal.evidence});
        }
        view
    }

    /// Returns the proposal as lines of text for the user.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![match &self.llm_proposal {
            Some(llm_proposal) => format!(
                "{} proposes: {}",
                llm_proposal.model, self.proposal.understood
            ),
            None => format!("I understood: {}", self.proposal.understood),
        }];
        let mut add = |label: &str, texts: &[String]| {
            lines.extend(texts.iter().map(|text| format!("{label}{text}")));
        };
        if let Some(llm_proposal) = &self.llm_proposal {
            add("  details: ", &describe_changes(llm_proposal));
            add("  tested: ", &llm_proposal.evidence);
        }
        add("  assumed: ", &self.proposal.assumed);
        add("  not possible: ", &self.proposal.not_possible);
        for check in &self.checks {
            if check.errors.is_empty() {
                let rules = match check.rules.as_slice() {
                    [] => "no rules".to_owned(),
                    rules => format!("rules: {}", rules.join(", ")),
                };
                let (pipeline, steps) = (&check.pipeline, check.steps);
                let sentence = format!("{pipeline} compiles, {steps} steps, {rules}");
                add("  checked: ", &[sentence]);
            }
            add("  error: ", &check.errors);
            add("  note: ", &check.warnings);
        }
        let trials: Vec<String> = self.trials.iter().flat_map(TrialResult::lines).collect();
        add("  ", &trials);
        lines.push("Changes:".to_owned());
        let difference = self.difference.iter().flat_map(ProposalDiff::lines);
        lines.extend(difference.map(|line| format!("  {line}")));
        lines
    }
}

/// Describes every change by its specification.
fn describe_changes(llm_proposal: &LlmProposal) -> Vec<String> {
    llm_proposal
        .changes
        .iter()
        .flat_map(describe_change)
        .collect()
}

fn specs(proposal: &Proposal) -> impl Iterator<Item = &PipelineSpec> {
    proposal.changes.iter().filter_map(|change| match change {
        Change::Deploy(spec) | Change::Replace(spec) => Some(&**spec),
        Change::Delete(_) | Change::Pause { .. } | Change::Resume(_) => None,
    })
}

/// A change as JSON for programs, without secrets.
fn change_json(change: &Change) -> Value {
    match change {
        Change::Deploy(spec) => json!({"change": "deploy", "spec": redact::spec(spec)}),
        Change::Replace(spec) => json!({"change": "replace", "spec": redact::spec(spec)}),
        Change::Delete(pipeline) => json!({"change": "stop", "pipeline": pipeline}),
        Change::Resume(pipeline) => json!({"change": "resume", "pipeline": pipeline}),
        Change::Pause { pipeline, until } => {
            let mut json = json!({"change": "pause", "pipeline": pipeline});
            if let Some(until) = until {
                json["until"] = json!(until.timestamp());
            }
            json
        }
    }
}
