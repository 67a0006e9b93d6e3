//! Results of the tools of a turn: drafts, findings about them, proposed changes, the plan.
//!
//! - Facts are only added, in order. They are part of the turn's records, so a resumed turn has the
//!   same facts.
//! - A draft never changes, so findings about it stay true.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_llm::money::Money;
use watchkeeper_llm::usage::Usage;

use crate::operations::proposed_action::ProposedAction;
use crate::proposal::llm_proposal::{
    LlmProposal, MAX_CHANGES, MAX_SENTENCES, ProposedChange, words,
};

/// Maximum drafts of one turn.
pub const MAX_DRAFTS: usize = 12;
/// Maximum steps of a plan.
pub const MAX_PLAN: usize = 12;

/// One fact of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum ToolFact {
    /// A workflow that compiled.
    Draft {
        workflow: Value,
        /// Text of the draft as the model wrote it; absent if the model gave an object.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Warnings of its check.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
    /// A draft was drawn on a camera's picture.
    Previewed {
        /// Name of the draft.
        draft: String,
        camera: SourceId,
        /// Errors of its lines and zones.
        wrong: Vec<String>,
        /// Path of the saved picture.
        picture: Option<String>,
    },
    /// A draft was tried on video.
    Tried {
        /// Name of the draft.
        draft: String,
        /// The result, one sentence.
        sentence: String,
        /// One sentence for each step that failed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        failures: Vec<String>,
    },
    /// A change was proposed.
    Proposed {
        change: Box<ProposedChange>,
        /// Name of its draft.
        draft: Option<String>,
        words: ModelWords,
    },
    /// The proposed change of a pipeline was withdrawn.
    Withdrawn { pipeline: PipelineId },
    /// The model's words about a call that it fixed.
    LessonWords {
        /// Name of the tool.
        tool: String,
        /// Cause and remedy, one line.
        said: String,
    },
    /// The plan was replaced.
    Plan { steps: Vec<PlanStep> },
    /// The journal was searched.
    Past {
        /// The rules' answer, with what could have been known.
        sentence: String,
    },
    /// The request goes to the set-up.
    HandOver,
    /// An action that waits for a yes.
    Action { action: ProposedAction },
    /// Another blueprint worked on an instruction.
    Delegated {
        agent: String,
        cost: Money,
        usage: Usage,
    },
}

/// A language model's words about its proposal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelWords {
    /// Effect of the change.
    pub says: String,
    /// Assumptions, which the user did not state.
    pub assumed: Vec<String>,
    /// Parts of the request that the change can't do.
    pub not_possible: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanStep {
    pub step: String,
    pub done: bool,
}

/// All facts of a turn, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TurnFacts {
    all: Vec<ToolFact>,
    /// How many of them came before the last answer of the language model.
    answered: usize,
}

/// The last preview of a draft on a camera.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preview<'f> {
    /// Errors of its lines and zones.
    pub wrong: &'f [String],
    /// Whether the language model has answered since.
    pub is_answered: bool,
}

impl TurnFacts {
    pub fn add(&mut self, fact: ToolFact) {
        self.all.push(fact);
    }

    /// Marks that the language model answered with these facts before it.
    pub fn mark_answered(&mut self) {
        self.answered = self.all.len();
    }

    /// The workflow of the draft `name`, such as `d1`.
    pub fn draft(&self, name: &str) -> Option<&Value> {
        self.find_draft(name).map(|(workflow, _)| workflow)
    }

    /// The text of the draft `name`, as edits of it see it.
    pub fn draft_text(&self, name: &str) -> Option<String> {
        let (workflow, text) = self.find_draft(name)?;
        Some(text.map_or_else(|| workflow.to_string(), str::to_owned))
    }

    fn find_draft(&self, name: &str) -> Option<(&Value, Option<&str>)> {
        let number: usize = name.strip_prefix('d')?.parse().ok()?;
        self.drafts().nth(number.checked_sub(1)?)
    }

    /// The model's latest words about the fixed call of `tool`.
    pub fn lesson_words(&self, tool: &str) -> Option<&str> {
        self.all.iter().rev().find_map(|fact| match fact {
            ToolFact::LessonWords { tool: of, said } if of == tool => Some(said.as_str()),
            _ => None,
        })
    }

    pub fn draft_count(&self) -> usize {
        self.drafts().count()
    }

    fn drafts(&self) -> impl Iterator<Item = (&Value, Option<&str>)> {
        self.all.iter().filter_map(|fact| match fact {
            ToolFact::Draft { workflow, text, .. } => Some((workflow, text.as_deref())),
            _ => None,
        })
    }

    /// Warnings about the draft `name`: those of its check, and the steps that failed in its last
    /// trial.
    pub fn warnings(&self, name: &str) -> Vec<String> {
        let (mut drafts, mut warnings, mut failed) = (0, &[][..], &[][..]);
        for fact in &self.all {
            match fact {
                ToolFact::Draft { warnings: of, .. } => {
                    drafts += 1;
                    if name == format!("d{drafts}") {
                        warnings = of;
                    }
                }
                ToolFact::Tried {
                    draft, failures, ..
                } if draft == name => failed = failures,
                _ => {}
            }
        }
        [warnings, failed].concat()
    }

    /// The last preview of a draft on a camera; `None`: it was not previewed there.
    pub fn preview(&self, name: &str, on: &SourceId) -> Option<Preview<'_>> {
        self.all
            .iter()
            .enumerate()
            .rev()
            .find_map(|(at, fact)| match fact {
                ToolFact::Previewed {
                    draft,
                    camera,
                    wrong,
                    ..
                } if draft == name && camera == on => Some(Preview {
                    wrong,
                    is_answered: at < self.answered,
                }),
                _ => None,
            })
    }

    /// The rules' answers to the searches of the journal.
    pub fn past(&self) -> impl Iterator<Item = &str> {
        self.all.iter().filter_map(|fact| match fact {
            ToolFact::Past { sentence } => Some(sentence.as_str()),
            _ => None,
        })
    }

    /// Whether the request goes to the set-up.
    pub fn is_handed_over(&self) -> bool {
        self.all.contains(&ToolFact::HandOver)
    }

    /// The proposed actions on archive and jobs, without repetitions.
    pub fn actions(&self) -> Vec<ProposedAction> {
        let mut actions: Vec<ProposedAction> = Vec::new();
        for fact in &self.all {
            if let ToolFact::Action { action } = fact
                && !actions.contains(action)
            {
                actions.push(action.clone());
            }
        }
        actions
    }

    /// The current plan.
    pub fn plan(&self) -> &[PlanStep] {
        let plan = self.all.iter().rev().find_map(|fact| match fact {
            ToolFact::Plan { steps } => Some(steps.as_slice()),
            _ => None,
        });
        plan.unwrap_or_default()
    }

    /// The proposed changes, the latest for each pipeline.
    pub fn changes(&self) -> Vec<ProposedChange> {
        self.proposed().map(|(change, ..)| change.clone()).collect()
    }

    /// The latest proposed change for each pipeline, in order.
    fn proposed(&self) -> impl Iterator<Item = (&ProposedChange, Option<&str>, &ModelWords)> {
        let all = self.all.iter().enumerate();
        all.filter_map(|(at, fact)| match fact {
            ToolFact::Proposed {
                change,
                draft,
                words,
            } => {
                let later = self.all.get(at + 1..).unwrap_or_default();
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

    /// Builds the proposal of all changes; `None` without a change.
    pub fn to_proposal(&self, model: &str) -> Option<LlmProposal> {
        let cleaned = |said: &[String]| -> Vec<String> { said.iter().map(|w| words(w)).collect() };
        let mut proposal = LlmProposal {
            model: words(model),
            ..LlmProposal::default()
        };
        for (change, draft, said) in self.proposed().take(MAX_CHANGES) {
            let space = if proposal.says.is_empty() { "" } else { " " };
            proposal.says = words(&format!("{}{space}{}", proposal.says, said.says));
            let evidence = draft.into_iter().flat_map(|draft| self.evidence(draft));
            proposal.assumed.extend(cleaned(&said.assumed));
            proposal.not_possible.extend(cleaned(&said.not_possible));
            proposal.evidence.extend(evidence);
            proposal.changes.push(change.clone());
        }
        for all in [
            &mut proposal.assumed,
            &mut proposal.not_possible,
            &mut proposal.evidence,
        ] {
            let mut seen = BTreeSet::new();
            all.retain(|sentence| seen.insert(sentence.clone()));
            all.truncate(MAX_SENTENCES);
        }
        (!proposal.changes.is_empty()).then_some(proposal)
    }

    /// Findings about a draft, one sentence each.
    fn evidence(&self, name: &str) -> Vec<String> {
        let found = self.all.iter().filter_map(|fact| match fact {
            ToolFact::Previewed {
                draft,
                camera,
                picture,
                ..
            } if draft == name => Some(match picture {
                Some(file) => format!("drawn on the picture of {camera}: {file}"),
                None => format!("drawn on the picture of {camera}"),
            }),
            ToolFact::Tried {
                draft, sentence, ..
            } if draft == name => Some(sentence.clone()),
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
    fn sentence_of_two_changes_is_listed_once() {
        let mut facts = TurnFacts::default();
        for id in ["a", "b"] {
            let ToolFact::Proposed { change, draft, .. } = stop(id) else {
                panic!("a proposal");
            };
            let assumed = ["all day", &format!("camera {id}")]
                .map(str::to_owned)
                .into();
            let words = ModelWords {
                assumed,
                ..ModelWords::default()
            };
            facts.add(ToolFact::Proposed {
                change,
                draft,
                words,
            });
        }
        let assumed = facts.to_proposal("m").unwrap().assumed;
        assert_eq!(assumed, ["all day", "camera a", "camera b"]);
    }

    #[test]
    fn last_change_of_a_pipeline_is_proposed() {
        let mut facts = TurnFacts::default();
        assert_eq!(facts.to_proposal("m"), None);
        for fact in [stop("a"), stop("b"), pause("a")] {
            facts.add(fact);
        }
        let made = facts.to_proposal("m").unwrap();
        let ids: Vec<&str> = made.changes.iter().map(|c| c.pipeline().as_str()).collect();
        assert_eq!(ids, ["b", "a"]);
        assert!(matches!(made.changes[1], ProposedChange::Pause { .. }));
        assert_eq!(made.says, "Stops b.");
        let pipeline = PipelineId::new("b").unwrap();
        facts.add(ToolFact::Withdrawn { pipeline });
        assert_eq!(facts.to_proposal("m").unwrap().changes.len(), 1);
        facts.add(stop("b"));
        assert_eq!(facts.to_proposal("m").unwrap().changes.len(), 2);
    }

    #[test]
    fn drafts_are_numbered_and_previews_are_per_camera() {
        let mut facts = TurnFacts::default();
        for n in 1..=2 {
            facts.add(ToolFact::Draft {
                workflow: json!({"n": n}),
                text: (n == 1).then(|| "{ \"n\": 1 }".to_owned()),
                warnings: vec![format!("warning {n}")],
            });
        }
        assert_eq!(facts.draft("d2"), Some(&json!({"n": 2})));
        assert_eq!(facts.draft_text("d1").as_deref(), Some("{ \"n\": 1 }"));
        assert_eq!(facts.draft_text("d2").as_deref(), Some("{\"n\":2}"));
        for wrong in ["d0", "d3", "2", "", "d-1"] {
            assert_eq!(facts.draft(wrong), None, "{wrong}");
        }
        let tried = |failures: &[&str]| ToolFact::Tried {
            draft: "d2".to_owned(),
            sentence: "tried".to_owned(),
            failures: failures.iter().map(|f| (*f).to_owned()).collect(),
        };
        facts.add(tried(&["old"]));
        facts.add(tried(&["step a failed"]));
        assert_eq!(facts.warnings("d1"), ["warning 1"]);
        assert_eq!(facts.warnings("d2"), ["warning 2", "step a failed"]);
        let gate = SourceId::new("gate").unwrap();
        let previewed = |wrong: &[&str]| ToolFact::Previewed {
            draft: "d1".to_owned(),
            camera: gate.clone(),
            wrong: wrong.iter().map(|w| (*w).to_owned()).collect(),
            picture: None,
        };
        let seen = |facts: &TurnFacts, name: &str, on: &SourceId| {
            let preview = facts.preview(name, on)?;
            Some((preview.wrong.len(), preview.is_answered))
        };
        facts.add(previewed(&["outside"]));
        assert_eq!(seen(&facts, "d1", &gate), Some((1, false)));
        facts.mark_answered();
        assert_eq!(seen(&facts, "d1", &gate), Some((1, true)));
        facts.add(previewed(&[]));
        assert_eq!(seen(&facts, "d1", &gate), Some((0, false)));
        assert_eq!(seen(&facts, "d2", &gate), None);
        let dock = SourceId::new("dock").unwrap();
        assert_eq!(seen(&facts, "d1", &dock), None);
    }
}
