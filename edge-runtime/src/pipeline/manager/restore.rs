//! Restores sources and pipelines at the start, from the store and the configuration file.
//!
//! - [`plan_start`] decides which one applies if both name the same.
//! - Everything that can't be restored is reported in one sentence, and stays listed or stored.
//! - An absent pipeline keeps its checkpoint, its hold and the guard's trust, because it may only
//!   be unreadable. It loses them only if every stored record was read and the store was found
//!   whole.
//! - A start that is asked to stop starts no further pipeline.
//! - A pipeline whose model has to be checked delays neither the others nor the API: it is listed,
//!   and [`Manager::start_unchecked`] starts it later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use watchkeeper_config::DeclaredSections;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::source::SourceSpec;
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::Manager;
use super::deployed::{Deployed, Idle};
use super::sections::{StartPlan, WantedSpec, plan_start};
use crate::clock;
use crate::guard::Held;
use crate::journal::{JournalError, Kind, Loaded, Unreadable, UserIntent};
use crate::pipeline::inference::detectors::models_of;
use crate::pipeline::plan;

impl Manager {
    /// Restores stored sources and pipelines and those of the configuration file. `continues` is
    /// checked before each pipeline, because loading a model may take long.
    ///
    /// Returns one sentence for each thing that could not be restored.
    pub fn restore(
        &self,
        sources: &[SourceSpec],
        pipelines: &[PipelineSpec],
        continues: &dyn Fn() -> bool,
    ) -> Vec<String> {
        // Before the records are read: the disk may accept writes meanwhile.
        let is_waiting = self.parts.journal.waiting().is_some();
        let (mut unread, mut troubles) = (Vec::new(), Vec::new());
        let start_plan = self.start_plan(sources, |declared| &declared.sources, &mut unread);
        *self.source_sections.lock() = start_plan.sections;
        for (_, WantedSpec { spec, intent }) in start_plan.wanted {
            let id = spec.id.clone();
            if intent.is_none_or(|(intent, _)| intent != UserIntent::Stop)
                && let Err(problem) = self.open_source(spec)
            {
                troubles.push(format!("source {:?}: {}", id.as_str(), problem.detail));
            }
        }
        let start_plan = self.start_plan(pipelines, |declared| &declared.pipelines, &mut unread);
        *self.sections.lock() = start_plan.sections;
        for id in start_plan
            .stale_intents
            .iter()
            .chain(&start_plan.stale_specs)
        {
            // Only the edited section decides whether the pipeline is paused.
            self.clear_pause_end(id);
        }
        let specs: BTreeMap<_, _> = start_plan
            .wanted
            .iter()
            .map(|(id, wanted)| (id.clone(), wanted.spec.clone()))
            .collect();
        let is_complete = unread.is_empty() && !is_waiting && !self.parts.journal.may_lack_specs;
        self.check_holds(&specs, is_complete);
        if is_complete {
            self.parts.checkpoints.retain_only(&specs.keys().collect());
        }
        for (id, wanted) in start_plan.wanted {
            if !continues() {
                break;
            }
            let deployed = self.start_wanted(wanted);
            if let Deployed::Idle {
                why: Idle::Broken(why) | Idle::Held(why),
                ..
            } = &deployed
            {
                troubles.push(format!("pipeline {:?}: {why}", id.as_str()));
            }
            self.pipelines.lock().insert(id.clone(), deployed);
            self.begin_watching(&id);
        }
        unread.extend(troubles);
        unread
    }

    /// Starts the pipelines whose models had to be checked, one after the other; returns when
    /// `continues` is false. Takes minutes for each model that is slow to load.
    pub fn start_unchecked(&self, continues: &dyn Fn() -> bool) {
        let ids: Vec<PipelineId> = {
            let table = self.pipelines.lock();
            let unchecked = table.iter().filter(|(_, deployed)| {
                matches!(
                    deployed,
                    Deployed::Idle {
                        why: Idle::Unchecked(_),
                        ..
                    }
                )
            });
            unchecked.map(|(id, _)| id.clone()).collect()
        };
        for id in ids {
            if !continues() {
                return;
            }
            self.restart_if_failed(&id);
        }
    }

    /// Whether a model of the pipeline has to be checked. A pipeline that can't run has none.
    fn has_unchecked_model(&self, spec: &PipelineSpec) -> bool {
        plan::plan(spec).is_ok_and(|plan| {
            models_of(spec, &plan).any(|model| self.parts.models.is_unchecked(model))
        })
    }

    /// Objects of one kind that should exist. Outdated entries are removed from the store.
    fn start_plan<S: Kind>(
        &self,
        file: &[S],
        names: fn(&DeclaredSections) -> &BTreeSet<String>,
        unread: &mut Vec<String>,
    ) -> StartPlan<S> {
        // Without a file, no section was removed.
        let declared = self.parts.declared.as_ref().map(names);
        let is_gone =
            |id: &S::Id| declared.is_some_and(|declared| !declared.contains(&id.to_string()));
        let specs = self.parts.journal.specs();
        let kind = S::SPECS.name();
        let stored = read(specs.all::<S>(), kind, unread);
        let about = format!("intents about {kind}");
        let intents = read(specs.intents::<S>(), &about, unread);
        let start_plan = plan_start(file, &is_gone, stored, intents);
        for id in &start_plan.stale_specs {
            tracing::warn!(name = %id, "the section of this name in the configuration file is new, or was edited or removed; the earlier deployment no longer applies");
        }
        for id in &start_plan.stale_intents {
            tracing::info!(name = %id, "the section in the configuration file was edited or removed; the last pause, resume or stop no longer applies");
        }
        if !(start_plan.stale_specs.is_empty() && start_plan.stale_intents.is_empty())
            && let Err(error) =
                specs.forget::<S>(&start_plan.stale_specs, &start_plan.stale_intents)
        {
            tracing::warn!(%error, "can't remove outdated deployments");
        }
        start_plan
    }

    /// Starts a pipeline, or lists it with the reason why it does not run.
    fn start_wanted(&self, WantedSpec { mut spec, intent }: WantedSpec<PipelineSpec>) -> Deployed {
        match intent {
            Some((UserIntent::Stop, at_ms)) => {
                // The quality of the clock was not stored.
                let quality = TimeQuality::Estimated;
                let unix_ms = at_ms;
                return Deployed::stopped(spec, Wall { unix_ms, quality });
            }
            Some((UserIntent::Pause, _)) => spec.paused = true,
            Some((UserIntent::Run, _)) => spec.paused = false,
            None => {}
        }
        if let Some(since) = self.parts.checkpoints.finished_at(&spec) {
            return Deployed::finished(spec, since);
        }
        match self.parts.guard.held(&spec.id) {
            Some(held) => held_back(spec, held),
            None if self.has_unchecked_model(&spec) => Deployed::unchecked(spec),
            None => match self.build(&spec) {
                Ok(worker) => Deployed::Running(Arc::new(worker)),
                Err(problem) => Deployed::broken(spec, &problem),
            },
        }
    }
}

fn held_back(spec: PipelineSpec, held: Held) -> Deployed {
    // The event of the hold was created with the hold.
    let unix_ms = i64::try_from(held.event.0.timestamp_ms()).unwrap_or(i64::MAX);
    let since = Wall {
        unix_ms,
        quality: clock::wall().quality,
    };
    Deployed::idle(spec, Idle::Held(held.why), since)
}

/// The readable entries of one kind; the others become sentences.
fn read<T>(
    loaded: Result<Loaded<T>, JournalError>,
    kind: &str,
    troubles: &mut Vec<String>,
) -> Vec<T> {
    match loaded {
        Ok(loaded) => {
            let unreadable = loaded.unreadable.iter();
            troubles.extend(unreadable.map(|Unreadable { name, why, .. }| {
                format!("{name:?} of the stored {kind} can't be read: {why}; deploy it again")
            }));
            loaded.entries
        }
        Err(error) => {
            troubles.push(format!("deployments can't be read: {error}"));
            Vec::new()
        }
    }
}
