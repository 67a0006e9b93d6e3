//! Proposes to narrow the rules of a pipeline by the answers of people about their events.
//!
//! - The proposal is shown with what it removes of the answered events, and with its backtest; it
//!   waits for a person's yes. No auto-approval confirms it; `reviews narrow --apply` gives the yes
//!   with the command.
//! - Rules in a workflow's event sinks stay unchanged.

use jiff::Timestamp;
use serde_json::json;
use watchkeeper_contract::backtest::{Backtest, MAX_BACKTEST_HOURS};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::review::{PipelineAnswers, RuleAnswer};
use watchkeeper_contract::rule::{Condition, RuleSpec};
use watchkeeper_engine::rules::derive;
use watchkeeper_engine::workflow::compile;

use super::progress::ProgressEvent;
use super::user_session::Session;
use crate::failure::Error;
use crate::narrowing::{NotNarrowed, narrow};
use crate::proposal::backtest::BacktestSummary;
use crate::proposal::conversation::Reply;
use crate::proposal::llm_proposal::{LlmProposal, ProposedBy, ProposedChange};
use crate::proposal::snapshot::SystemSnapshot;
use crate::wording::counted;

const HOUR_MS: f64 = 3_600_000.0;
/// Largest difference between the starts of two backtests that are compared.
const MAX_DIFFERENCE_MS: i64 = 60_000;

impl Session {
    /// Proposes to narrow the rules of a pipeline; an answer says why if none is narrowed.
    ///
    /// # Errors
    /// If there is no such pipeline, its rules are part of its workflow, or the runtime does not
    /// answer.
    pub async fn propose_narrowing(
        &mut self,
        pipeline: &str,
    ) -> Result<(Reply, SystemSnapshot), Error> {
        self.drop_actions().await;
        let here = self.fetch_snapshot().await?;
        let Some(status) = here.pipeline(pipeline) else {
            let known: Vec<String> = here
                .pipelines
                .iter()
                .map(|p| p.spec.id.to_string())
                .collect();
            let sentence = format!("there is no pipeline {pipeline:?}");
            return Err(Error::input(sentence).with([format!("pipelines: {}", known.join(", "))]));
        };
        let current = status.spec.clone();
        let request = format!("/narrow {pipeline}");
        self.trace_event("request", || json!({"text": request}));
        let answers = self.deps.client.answers(&current.id).await?;
        let rules = narrowable_rules(&current)?;
        let before = self.conversation.clone();
        let reply = match narrowed(&current, rules, &answers) {
            Ok((spec, mut evidence)) => {
                evidence.extend(self.compared(&current, &spec).await);
                let proposal = LlmProposal {
                    model: "watchkeeper".to_owned(),
                    by: ProposedBy::Box,
                    says: format!("narrow {pipeline} by the answers of people about its events"),
                    evidence,
                    changes: vec![ProposedChange::Replace {
                        spec: Box::new(spec),
                    }],
                    ..LlmProposal::default()
                };
                self.conversation.propose_by_llm(&request, proposal, &here)
            }
            Err(why) => self.conversation.answer(why, false),
        };
        self.is_llm_reply = false;
        self.finish_reply(&request, reply, before, here).await
    }

    /// Backtests of the pipeline without and with the change, over one span.
    async fn compared(&self, current: &PipelineSpec, changed: &PipelineSpec) -> Option<String> {
        let with = self.replayed(changed, MAX_BACKTEST_HOURS).await?;
        // The runtime may replay less than it is asked for.
        let since = Timestamp::now().as_millisecond() - with.from_ms;
        let without = self.replayed(current, since as f64 / HOUR_MS).await?;
        let is_one_span = (without.from_ms - with.from_ms).abs() < MAX_DIFFERENCE_MS;
        is_one_span.then(|| {
            let events = counted(with.events, "event");
            format!(
                "without the change, {}; with it {events}",
                without.sentence()
            )
        })
    }

    async fn replayed(&self, spec: &PipelineSpec, hours: f64) -> Option<BacktestSummary> {
        let wanted = Backtest {
            pipeline: spec.clone(),
            hours: hours.min(MAX_BACKTEST_HOURS),
            pictures: false,
        };
        let out = &self.deps.out;
        out.report(ProgressEvent::Busy("replaying the detection history"));
        let report = self.deps.client.backtest(&wanted).await;
        out.report(ProgressEvent::Idle);
        BacktestSummary::from_report(&report.ok()?, spec).ok()
    }
}

/// The rules of a pipeline, those that follow from its workflow included.
fn narrowable_rules(spec: &PipelineSpec) -> Result<Vec<RuleSpec>, Error> {
    if let Some(rules) = &spec.rules {
        return Ok(rules.clone());
    }
    let compiled = compile(&spec.workflow, &spec.parameters)
        .map_err(|_| Error::input(format!("the workflow of {} does not compile", spec.id)))?;
    if !compiled.sink_rules().is_empty() {
        return Err(Error::input(format!(
            "the rules of {} are in the event sinks of its workflow; change them there",
            spec.id
        )));
    }
    let (lines, zones) = (compiled.line_steps(), compiled.zone_steps());
    Ok(derive(&lines, &zones, &compiled.tracker_steps()))
}

/// The narrowed pipeline and what it removes of the answered events, one sentence each; or why no
/// rule is narrowed.
fn narrowed(
    spec: &PipelineSpec,
    mut rules: Vec<RuleSpec>,
    answers: &PipelineAnswers,
) -> Result<(PipelineSpec, Vec<String>), String> {
    let (mut evidence, mut reasons) = (Vec::new(), Vec::new());
    for rule in &mut rules {
        let given = answers.rules.iter().find(|of| of.rule == rule.name);
        let given: &[RuleAnswer] = given.map_or(&[], |of| &of.answers);
        match narrow(rule, given) {
            Ok(found) => {
                found.apply(rule);
                let name = &rule.name;
                evidence.extend(found.sentences().map(|s| format!("{name}: {s}")));
                let is_crossing = matches!(rule.when, Condition::Crosses { .. });
                if !found.ignore.is_empty() && !is_crossing {
                    evidence.push(format!(
                        "{name}: an object that leaves an ignored area is reported then; the \
                         replay counts it"
                    ));
                }
            }
            Err(why) => reasons.push((rule.name.clone(), why)),
        }
    }
    if evidence.is_empty() {
        return Err(why_none(spec, &reasons));
    }
    let spec = PipelineSpec {
        rules: Some(rules),
        ..spec.clone()
    };
    Ok((spec, evidence))
}

fn why_none(spec: &PipelineSpec, reasons: &[(String, NotNarrowed)]) -> String {
    let reasons = reasons.iter().map(|(rule, why)| format!("{rule}: {why}"));
    let reasons: Vec<String> = reasons.collect();
    match reasons.as_slice() {
        [] => format!("{} has no rules to narrow.", spec.id),
        _ => format!(
            "No rule of {} is narrowed. {}.",
            spec.id,
            reasons.join("; ")
        ),
    }
}
