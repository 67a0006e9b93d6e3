//! What the tools have left in a turn: drafts, what was found out about them, what is put up for a yes.
//!
//! Invariants: facts are only added, in the order in which they came; they are part of the records of a turn, so a turn that goes on after a crash has
//! exactly those that it had; a draft never changes, so what was found out about it stays true.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use watchkeeper_contract::id::{PipelineId, SourceId};

use crate::proposal::llm_proposal::{
    LlmProposal, MAX_CHANGES, MAX_SENTENCES, ProposedChange, words,
};

/// Most drafts of one turn.
pub const MAX_DRAFTS: usize = 12;
/// Most steps of a plan.
pub const MAX_PLAN: usize = 12;

/// One thing that a tool left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum ToolFact {
    /// A workflow that compiles.
    Draft {
        /// The definition.
        workflow: Value,
    },
    /// A draft was drawn on the picture of a camera.
    Previewed {
        /// Name of the draft.
        draft: String,
        /// Which camera.
        camera: SourceId,
        /// What is wrong with its places; empty: nothing.
        wrong: Vec<String>,
        /// File of the picture, where it was kept.
        picture: Option<String>,
    },
    /// A draft was tried on moving pictures.
    Tried {
        /// Name of the draft.
        draft: String,
        /// What came of it, as one sentence of the box.
        sentence: String,
    },
    /// Something is put up for a yes.
    Proposed {
        /// The change.
        change: Box<ProposedChange>,
        /// The draft that it is made of.
        draft: Option<String>,
        /// The model's words about it.
        words: ModelWords,
    },
    /// What was put up about a pipeline is not any more.
    Withdrawn {
        /// Its name.
        pipeline: PipelineId,
    },
    /// The plan is this now.
    Plan {
        /// Its steps.
        steps: Vec<PlanStep>,
    },
}

/// What a model says about its proposal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelWords {
    /// What it does.
    pub says: String,
    /// What it took for granted.
    pub assumed: Vec<String>,
    /// What can't be done.
    pub not_possible: Vec<String>,
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanStep {
    /// What is to be done.
    pub step: String,
    /// Whether it is done.
    pub done: bool,
}

/// All facts of a turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TurnFacts(Vec<ToolFact>);

impl TurnFacts {
    /// Adds one.
    pub fn add(&mut self, fact: ToolFact) {
        self.0.push(fact);
    }

    /// The definition of a draft, by its name.
    #[must_use]
    pub fn draft(&self, name: &str) -> Option<&Value> {
        let number: usize = name.strip_prefix('d')?.parse().ok()?;
        self.drafts().nth(number.checked_sub(1)?)
    }

    /// Number of drafts.
    #[must_use]
    pub fn draft_count(&self) -> usize {
        self.drafts().count()
    }

    fn drafts(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().filter_map(|fact| match fact {
            ToolFact::Draft { workflow } => Some(workflow),
            _ => None,
        })
    }

    /// What was wrong when this draft was last drawn on the picture of this camera; `None`: it was not.
    #[must_use]
    pub fn wrong_on(&self, name: &str, on: &SourceId) -> Option<&[String]> {
        self.0.iter().rev().find_map(|fact| match fact {
            ToolFact::Previewed {
                draft,
                camera,
                wrong,
                ..
            } if draft == name && camera == on => Some(wrong.as_slice()),
            _ => None,
        })
    }

    /// The plan as it is now.
    #[must_use]
    pub fn plan(&self) -> &[PlanStep] {
        let plan = self.0.iter().rev().find_map(|fact| match fact {
            ToolFact::Plan { steps } => Some(steps.as_slice()),
            _ => None,
        });
        plan.unwrap_or_default()
    }

    /// What is put up for a yes, the latest word about each pipeline.
    #[must_use]
    pub fn changes(&self) -> Vec<ProposedChange> {
        self.proposed().map(|(change, ..)| change.clone()).collect()
    }

    /// The latest word about each pipeline, in the order in which these came.
    fn proposed(&self) -> impl Iterator<Item = (&ProposedChange, Option<&str>, &ModelWords)> {
        let all = self.0.iter().enumerate();
        all.filter_map(|(at, fact)| match fact {
            ToolFact::Proposed {
                change,
                draft,
                words,
            } => {
                let later = self.0.get(at + 1..).unwrap_or_default();
                let is_last = !later.iter().any(|later| match later {
                    ToolFact::Proposed { change: other, .. } => {
                        other.pipeline() == change.pipeline()
                    }
                    ToolFact::Withdrawn { pipeline } => pipeline == change.pipeline(),
                    _ => false,
                });
                is_last.then_some((&**change, draft.as_deref(), words))
            }
            _ => None,
        })
    }

    /// The proposal that all of it comes to; `None`: nothing is put up.
    #[must_use]
    pub fn made(&self, model: &str) -> Option<LlmProposal> {
        let mut made = LlmProposal {
            model: words(model),
            says: String::new(),
            assumed: Vec::new(),
            not_possible: Vec::new(),
            evidence: Vec::new(),
            changes: Vec::new(),
        };
        for (change, draft, said) in self.proposed().take(MAX_CHANGES) {
            let space = if made.says.is_empty() { "" } else { " " };
            made.says = words(&format!("{}{space}{}", made.says, said.says));
            made.assumed.extend(said.assumed.iter().map(|w| words(w)));
            made.not_possible
                .extend(said.not_possible.iter().map(|w| words(w)));
            made.evidence
                .extend(draft.into_iter().flat_map(|draft| self.evidence(draft)));
            made.changes.push(change.clone());
        }
        for all in [
            &mut made.assumed,
            &mut made.not_possible,
            &mut made.evidence,
        ] {
            all.dedup();
            all.truncate(MAX_SENTENCES);
        }
        (!made.changes.is_empty()).then_some(made)
    }

    /// What was found out about a draft.
    fn evidence(&self, name: &str) -> Vec<String> {
        let found = self.0.iter().filter_map(|fact| match fact {
            ToolFact::Previewed {
                draft,
                camera,
                picture,
                ..
            } if draft == name => Some(match picture {
                Some(file) => format!("drawn on the picture of {camera}: {file}"),
                None => format!("drawn on the picture of {camera}"),
            }),
            ToolFact::Tried { draft, sentence } if draft == name => Some(sentence.clone()),
            _ => None,
        });
        found.collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::*;

    fn stop(id: &str) -> ToolFact {
        ToolFact::Proposed {
            change: Box::new(ProposedChange::Stop {
                pipeline: PipelineId::new(id).unwrap(),
            }),
            draft: None,
            words: ModelWords {
                says: format!("Stops {id}."),
                ..ModelWords::default()
            },
        }
    }

    fn pause(id: &str) -> ToolFact {
        ToolFact::Proposed {
            change: Box::new(ProposedChange::Pause {
                pipeline: PipelineId::new(id).unwrap(),
                until: None,
            }),
            draft: None,
            words: ModelWords::default(),
        }
    }

    #[test]
    fn the_last_word_about_a_pipeline_is_the_one_that_is_put_up() {
        let mut facts = TurnFacts::default();
        assert_eq!(facts.made("m"), None);
        for fact in [stop("a"), stop("b"), pause("a")] {
            facts.add(fact);
        }
        let made = facts.made("m").unwrap();
        let ids: Vec<&str> = made.changes.iter().map(|c| c.pipeline().as_str()).collect();
        assert_eq!(ids, ["b", "a"]);
        assert!(matches!(made.changes[1], ProposedChange::Pause { .. }));
        assert_eq!(made.says, "Stops b.");
        let pipeline = PipelineId::new("b").unwrap();
        facts.add(ToolFact::Withdrawn { pipeline });
        assert_eq!(facts.made("m").unwrap().changes.len(), 1);
        facts.add(stop("b"));
        assert_eq!(facts.made("m").unwrap().changes.len(), 2);
    }

    #[test]
    fn drafts_are_named_in_the_order_in_which_they_came_and_a_preview_is_of_one_camera() {
        let mut facts = TurnFacts::default();
        for n in 1..=2 {
            facts.add(ToolFact::Draft {
                workflow: json!({"n": n}),
            });
        }
        assert_eq!(facts.draft("d2"), Some(&json!({"n": 2})));
        for wrong in ["d0", "d3", "2", "", "d-1"] {
            assert_eq!(facts.draft(wrong), None, "{wrong}");
        }
        let gate = SourceId::new("gate").unwrap();
        let previewed = |wrong: &[&str]| ToolFact::Previewed {
            draft: "d1".to_owned(),
            camera: gate.clone(),
            wrong: wrong.iter().map(|w| (*w).to_owned()).collect(),
            picture: None,
        };
        facts.add(previewed(&["outside"]));
        assert_eq!(facts.wrong_on("d1", &gate).map(<[_]>::len), Some(1));
        facts.add(previewed(&[]));
        assert_eq!(facts.wrong_on("d1", &gate).map(<[_]>::len), Some(0));
        assert_eq!(facts.wrong_on("d2", &gate), None);
        assert_eq!(facts.wrong_on("d1", &SourceId::new("dock").unwrap()), None);
    }
}
