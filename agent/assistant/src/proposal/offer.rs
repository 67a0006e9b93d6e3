//! A proposal as a person is shown it: what was understood, what of it is doubtful, what the engine says, what would be different.
//!
//! Invariant: two offers have the same [`CheckedProposal::mark`] only where they would do the same to the same pipelines and say the same about it.

use jiff::Zoned;
use serde::Serialize;
use serde_json::{Value, json};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_plain::{Change, Proposal};
use xxhash_rust::xxh3::xxh3_128;

use super::checks::{Check, check};
use super::describe::describe_change;
use super::difference::{ProposalDiff, difference};
use super::llm_proposal::LlmProposal;
use super::snapshot::SystemSnapshot;
use super::trial::TrialResult;
use crate::redact;
use crate::wording::quoted;

/// An offer.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedProposal {
    /// The person's words.
    pub request: String,
    /// What was said to the proposal of them, such as `make it 30 seconds`.
    pub corrections: Vec<String>,
    /// When they were said.
    pub at: Zoned,
    /// What was made of them.
    pub proposal: Proposal,
    /// What the engine says to each pipeline that would be new or another.
    pub checks: Vec<Check>,
    /// What would be different, in the order of the changes.
    pub difference: Vec<ProposalDiff>,
    /// The model's proposal that this is; none where a person's own words were understood.
    pub made: Option<LlmProposal>,
    /// What was seen when it was tried. It is not what the offer is recognised by: another day shows another scene.
    pub tried: Vec<TrialResult>,
    /// What the pipelines that it is about are now.
    before: Vec<PipelineSpec>,
}

/// A request and what was said to its proposal, in one line.
pub(super) fn said(request: &str, corrections: &[String]) -> String {
    let mut all = request.to_owned();
    for correction in corrections {
        all.push_str(" – ");
        all.push_str(correction);
    }
    all
}

impl CheckedProposal {
    /// The offer that a proposal is in this situation.
    #[must_use]
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
                .map(|spec| check(spec, situation))
                .collect(),
            before: before.collect(),
            difference,
            proposal,
            made: None,
            tried: Vec::new(),
        }
    }

    /// The offer that a model's proposal is in this situation. `request` are the person's words that it was made for.
    #[must_use]
    pub fn of_model(
        request: &str,
        at: &Zoned,
        made: LlmProposal,
        situation: &SystemSnapshot,
    ) -> Self {
        let offer = Self::new(request, at, made.proposal(), situation);
        Self {
            made: Some(made),
            ..offer
        }
    }

    /// All that was said of it, in one line.
    #[must_use]
    pub fn words(&self) -> String {
        said(&self.request, &self.corrections)
    }

    /// Why it can't be confirmed; `None`: it can.
    #[must_use]
    pub fn unsound(&self) -> Option<String> {
        let mut errors = self.checks.iter().flat_map(|c| &c.errors);
        if let Some(error) = errors.next() {
            return Some(format!("it can't be deployed: {error}"));
        }
        if !self.difference.iter().any(ProposalDiff::acts) {
            return Some("it would change nothing".to_owned());
        }
        None
    }

    /// Whether everything that was said is in it.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.proposal.not_understood.is_empty() && self.doubts().next().is_none()
    }

    /// What was understood and will not be as it was said, one sentence each.
    pub fn doubts(&self) -> impl Iterator<Item = String> {
        self.proposal.not_possible.iter().cloned()
    }

    /// What it is recognised by: made of all that it would do and say, and of what the pipelines that it is about are now. The way back from text is not
    /// meant; XXH3 is for recognising, not against somebody who writes into the person's own folder.
    #[must_use]
    pub fn mark(&self) -> String {
        let specs: Vec<&PipelineSpec> = specs(&self.proposal).collect();
        let whole = json!({"offer": self.whole(), "specs": specs, "before": self.before});
        format!("{:032x}", xxh3_128(whole.to_string().as_bytes()))
    }

    /// All of it for programs, without the secrets in it.
    #[must_use]
    pub fn view(&self) -> Value {
        let mut view = self.whole();
        if !self.tried.is_empty() {
            view["tried"] = json!(self.tried);
        }
        view
    }

    /// All that it would do and says.
    fn whole(&self) -> Value {
        let changes: Vec<ChangeView<'_>> =
            self.proposal.changes.iter().map(ChangeView::of).collect();
        let mut view = json!({
            "request": self.words(),
            "understood": self.proposal.understood,
            "assumed": self.proposal.assumed,
            "not_possible": self.doubts().collect::<Vec<_>>(),
            "not_understood": self.proposal.not_understood,
            "changes": changes,
            "checks": self.checks,
            "difference": self.difference,
        });
        if let Some(made) = &self.made {
            view["by_model"] =
                json!({"model": made.model, "really": described(made), "evidence": made.evidence});
        }
        view
    }

    /// All of it for a person.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![match &self.made {
            Some(made) => format!("{} proposes: {}", made.model, self.proposal.understood),
            None => format!("I understood: {}", self.proposal.understood),
        }];
        let mut told = |head: &str, all: Vec<String>| {
            lines.extend(all.into_iter().map(|one| format!("{head}{one}")));
        };
        if let Some(made) = &self.made {
            told("  what it is: ", described(made));
            told("  tried: ", made.evidence.clone());
        }
        told("  taken for granted: ", self.proposal.assumed.clone());
        told("  not possible: ", self.doubts().collect());
        if !self.proposal.not_understood.is_empty() {
            let words = quoted(&self.proposal.not_understood);
            told("  not understood, and left out: ", vec![words]);
        }
        for check in &self.checks {
            if check.errors.is_empty() {
                let rules = match check.rules.as_slice() {
                    [] => "no rules".to_owned(),
                    rules => format!("rules: {}", rules.join(", ")),
                };
                told(
                    "  checked: ",
                    vec![format!(
                        "{} compiles, {} steps, {rules}",
                        check.pipeline, check.steps
                    )],
                );
            }
            told("  wrong: ", check.errors.clone());
            told("  mind: ", check.warnings.clone());
        }
        told(
            "  ",
            self.tried.iter().flat_map(TrialResult::lines).collect(),
        );
        lines.push("What would be different:".to_owned());
        let difference = self.difference.iter().flat_map(ProposalDiff::lines);
        lines.extend(difference.map(|line| format!("  {line}")));
        lines
    }
}

/// Describes every change by its specification.
fn described(made: &LlmProposal) -> Vec<String> {
    made.changes.iter().flat_map(describe_change).collect()
}

fn specs(proposal: &Proposal) -> impl Iterator<Item = &PipelineSpec> {
    proposal.changes.iter().filter_map(|change| match change {
        Change::Deploy(spec) | Change::Replace(spec) => Some(&**spec),
        Change::Stop(_) | Change::Pause { .. } | Change::Resume(_) => None,
    })
}

/// A change as programs read it.
#[derive(Debug, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
enum ChangeView<'a> {
    Deploy {
        spec: Value,
    },
    Replace {
        spec: Value,
    },
    Stop {
        pipeline: &'a str,
    },
    Pause {
        pipeline: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<String>,
    },
    Resume {
        pipeline: &'a str,
    },
}

impl<'a> ChangeView<'a> {
    fn of(change: &'a Change) -> Self {
        match change {
            Change::Deploy(spec) => Self::Deploy {
                spec: redact::spec(spec),
            },
            Change::Replace(spec) => Self::Replace {
                spec: redact::spec(spec),
            },
            Change::Stop(id) => Self::Stop {
                pipeline: id.as_str(),
            },
            Change::Resume(id) => Self::Resume {
                pipeline: id.as_str(),
            },
            Change::Pause { pipeline, until } => Self::Pause {
                pipeline: pipeline.as_str(),
                until: until.as_ref().map(|u| u.timestamp().to_string()),
            },
        }
    }
}
