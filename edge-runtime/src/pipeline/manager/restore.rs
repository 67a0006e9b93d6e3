//! The start: what was stored comes back, and what the configuration file names comes with it.
//!
//! Invariants: what holds where both name the same is [`settle`]'s to say; what can't be brought back is told, one sentence each, and never
//! forgotten; a start that is told to stop begins nothing more.

use std::collections::BTreeMap;
use std::sync::Arc;

use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::source::SourceSpec;
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::sections::{Settled, Wanted, settle};
use super::{Deployed, Idle, Manager};
use crate::clock;
use crate::guard::Held;
use crate::journal::{JournalError, Kind, Loaded, Unreadable, Word};

impl Manager {
    /// Brings back what was stored and what the configuration file names. `goes_on` is asked before each pipeline, whose model may take long
    /// to load; once it says no, the rest is left.
    ///
    /// Returns one sentence for each thing that could not be brought back.
    pub fn restore(
        &self,
        sources: &[SourceSpec],
        pipelines: &[PipelineSpec],
        goes_on: &dyn Fn() -> bool,
    ) -> Vec<String> {
        let mut troubles = Vec::new();
        let settled = self.settled(sources, &mut troubles);
        *self.source_sections.lock() = settled.sections;
        for (_, Wanted { spec, word }) in settled.wanted {
            if word.is_none_or(|(word, _)| word != Word::Stop) {
                drop(self.open_source(spec));
            }
        }
        let settled = self.settled(pipelines, &mut troubles);
        *self.sections.lock() = settled.sections;
        for id in settled.stale_words.iter().chain(&settled.stale_specs) {
            // Whether an edited section is paused is said by it alone, and for good.
            self.forget_pause(id);
        }
        let specs: BTreeMap<_, _> = settled
            .wanted
            .iter()
            .map(|(id, wanted)| (id.clone(), wanted.spec.clone()))
            .collect();
        self.judge(&specs);
        self.parts.checkpoints.retain_only(&specs.keys().collect());
        for (id, wanted) in settled.wanted {
            if !goes_on() {
                break;
            }
            let deployed = self.wanted(wanted);
            if let Deployed::Idle {
                why: Idle::Broken(why) | Idle::Held(why),
                ..
            } = &deployed
            {
                troubles.push(format!("pipeline {:?}: {why}", id.as_str()));
            }
            self.pipelines.lock().insert(id.clone(), deployed);
            self.watched_now(&id);
        }
        troubles
    }

    /// What shall be there of one sort. What no longer holds is forgotten.
    fn settled<S: Kind>(&self, file: &[S], troubles: &mut Vec<String>) -> Settled<S> {
        let specs = self.parts.journal.specs();
        let stored = read(specs.all::<S>(), troubles);
        let words = read(specs.words::<S>(), troubles);
        let settled = settle(file, stored, words);
        for id in &settled.stale_specs {
            tracing::warn!(name = %id, "the configuration file has a section of this name that is new or was edited since: it holds now, and what was deployed before is forgotten");
        }
        for id in &settled.stale_words {
            tracing::info!(name = %id, "its section was edited since: the last pause, resume or stop no longer holds");
        }
        if !(settled.stale_specs.is_empty() && settled.stale_words.is_empty())
            && let Err(error) = specs.forget::<S>(&settled.stale_specs, &settled.stale_words)
        {
            tracing::warn!(%error, "what no longer holds is not forgotten");
        }
        let (renewed_specs, renewed_words) = (&settled.renewed_specs, &settled.renewed_words);
        if !(renewed_specs.is_empty() && renewed_words.is_empty())
            && let Err(error) = specs.renew::<S>(renewed_specs, renewed_words)
        {
            tracing::warn!(%error, "what an older version stored is not stored anew; the next start tries again");
        }
        settled
    }

    /// A pipeline at the start: running, or not with the reason.
    fn wanted(&self, Wanted { mut spec, word }: Wanted<PipelineSpec>) -> Deployed {
        match word {
            Some((Word::Stop, at_ms)) => {
                // How good the clock was then is not kept.
                let quality = TimeQuality::Estimated;
                let unix_ms = at_ms;
                return Deployed::stopped(spec, Wall { unix_ms, quality });
            }
            Some((Word::Pause, _)) => spec.paused = true,
            Some((Word::Run, _)) => spec.paused = false,
            None => {}
        }
        if let Some(since) = self.parts.checkpoints.finished_at(&spec) {
            return Deployed::over(spec, since);
        }
        match self.parts.guard.held(&spec.id) {
            Some(held) => held_back(spec, held),
            None => match self.build(&spec) {
                Ok(worker) => Deployed::Running(Arc::new(worker)),
                Err(problem) => Deployed::broken(spec, &problem),
            },
        }
    }
}

fn held_back(spec: PipelineSpec, held: Held) -> Deployed {
    // The event that told of it was made when it was held.
    let unix_ms = i64::try_from(held.event.0.timestamp_ms()).unwrap_or(i64::MAX);
    let since = Wall {
        unix_ms,
        quality: clock::wall().quality,
    };
    Deployed::idle(spec, Idle::Held(held.why), since)
}

/// What could be read of one sort; the rest is a trouble.
fn read<T>(loaded: Result<Loaded<T>, JournalError>, troubles: &mut Vec<String>) -> Vec<T> {
    match loaded {
        Ok(loaded) => {
            let unreadable = loaded.unreadable.iter();
            troubles.extend(unreadable.map(|Unreadable { name, why }| {
                format!("the stored {name:?} can't be read: {why}")
            }));
            loaded.entries
        }
        Err(error) => {
            troubles.push(format!("what was deployed can't be read: {error}"));
            Vec::new()
        }
    }
}
