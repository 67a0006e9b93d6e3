//! The start: what was stored comes back, and what the configuration file names comes with it.
//!
//! Invariants: the file wins where both name the same; what a person said about a configured pipeline holds until its section is edited; what
//! can't be brought back is told, one sentence each, and never forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::source::SourceSpec;

use super::pipelines::stopped;
use super::{Deployed, Idle, Manager};
use crate::guard::fingerprint;
use crate::journal::{LastWord, Unreadable, Word};

impl Manager {
    /// Brings back what was stored, then adds what the configuration file names; the file wins where both name the same.
    ///
    /// Returns one sentence for each thing that could not be brought back.
    pub fn restore(&self, sources: &[SourceSpec], pipelines: &[PipelineSpec]) -> Vec<String> {
        let mut troubles = Vec::new();
        let specs = self.parts.journal.specs();
        match specs.sources() {
            Ok(stored) => {
                troubles.extend(stored.unreadable.iter().map(unreadable));
                for spec in stored.specs {
                    drop(self.open_source(spec));
                }
            }
            Err(error) => troubles.push(format!("stored sources can't be read: {error}")),
        }
        for spec in sources {
            drop(self.open_source(spec.clone()));
        }
        let mut wanted: BTreeMap<PipelineId, PipelineSpec> = BTreeMap::new();
        match specs.pipelines() {
            Ok(stored) => {
                troubles.extend(stored.unreadable.iter().map(unreadable));
                wanted.extend(stored.specs.into_iter().map(|s| (s.id.clone(), s)));
            }
            Err(error) => troubles.push(format!("stored pipelines can't be read: {error}")),
        }
        wanted.extend(pipelines.iter().map(|s| (s.id.clone(), s.clone())));
        *self.configured.lock() = pipelines
            .iter()
            .map(|s| (s.id.clone(), s.clone()))
            .collect();
        let words = self.last_words(&mut troubles);
        self.judge(&wanted);
        for (id, mut spec) in wanted {
            let word = words.get(&id);
            match word.map(|w| w.word) {
                Some(Word::Pause) => spec.paused = true,
                Some(Word::Run) => spec.paused = false,
                Some(Word::Stop) | None => {}
            }
            let deployed = match word.filter(|w| w.word == Word::Stop) {
                Some(word) => Deployed::idle(spec, Idle::Stopped(stopped(word.at_ms))),
                None => match self.parts.guard.held(&id) {
                    Some(held) => Deployed::idle(spec, Idle::Held(held.why)),
                    None => self.built(spec),
                },
            };
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

    /// What was said about pipelines that the file still describes in the same way; the rest is forgotten.
    fn last_words(&self, troubles: &mut Vec<String>) -> BTreeMap<PipelineId, LastWord> {
        let specs = self.parts.journal.specs();
        let words = match specs.words() {
            Ok(words) => words,
            Err(error) => {
                troubles.push(format!("stored pauses and stops can't be read: {error}"));
                return BTreeMap::new();
            }
        };
        troubles.extend(words.unreadable.iter().map(unreadable));
        let configured = self.configured.lock();
        let (hold, stale): (Vec<_>, Vec<_>) = words.specs.into_iter().partition(|word| {
            let spec = configured.get(&word.id);
            // A section that can't be read just now was not edited on purpose.
            spec.is_none_or(|spec| fingerprint(spec) == word.fingerprint)
        });
        for word in stale {
            tracing::info!(pipeline = %word.id, word = ?word.word, "edited since, so what was said about it no longer holds");
            if let Err(error) = specs.delete_word(&word.id) {
                tracing::warn!(%error, "an old word is not forgotten");
            }
        }
        let known = hold.into_iter().filter(|w| configured.contains_key(&w.id));
        known.map(|w| (w.id.clone(), w)).collect()
    }

    /// A pipeline at the start: running, or broken with the reason.
    fn built(&self, spec: PipelineSpec) -> Deployed {
        match self.build(&spec) {
            Ok(worker) => Deployed::Running(Arc::new(worker)),
            Err(problem) => Deployed::idle(spec, Idle::Broken(problem.to_string())),
        }
    }
}

fn unreadable(spec: &Unreadable) -> String {
    format!("the stored {:?} can't be read: {}", spec.name, spec.why)
}
