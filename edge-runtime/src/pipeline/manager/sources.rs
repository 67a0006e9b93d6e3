//! The table of sources and its changes.
//!
//! - A source that a pipeline needs can't be deleted.
//! - Pipelines of a replaced source continue with the new one.
//! - A source's thread is never waited for under a lock, because a camera can hang.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use watchkeeper_contract::canonical::canonical;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::privacy::PrivacyMask;
use watchkeeper_contract::problem::Problem;
use watchkeeper_contract::source::{MAX_FPS, STALL_S, SourceSpec, SourceStatus};

use super::deployed::{Deployed, Idle};
use super::{MAX_SOURCES, Manager, limit, storage};
use crate::capture::controls;
use crate::capture::mailbox::FrameReceiver;
use crate::capture::source::{Deps, Source, SourceHandle};
use crate::clock;
use crate::journal::UserIntent;
use crate::pipeline::worker::Subscribe;

/// Identity of a source's view: its address, and the mask. Earlier pictures are not shown under
/// another mask.
fn describe_view(spec: &SourceSpec, privacy: Option<&PrivacyMask>) -> String {
    let address = crate::capture::redact::uri(&spec.uri);
    match privacy {
        Some(PrivacyMask {
            regions,
            fill,
            classes,
            source: _,
            uri: _,
        }) => canonical(&json!({
            "uri": address, "regions": regions, "fill": fill, "classes": classes,
        })),
        None => address,
    }
}

impl Manager {
    /// Subscribes to a source for a limited time; the source stays open while the receiver is held.
    ///
    /// # Errors
    /// [`Problem`] when there is no such source.
    pub fn watch(&self, source: &SourceId) -> Result<FrameReceiver, Problem> {
        let receiver = self.sources.subscribe(source);
        receiver.ok_or_else(|| self.no_source(source))
    }

    pub fn sources(&self) -> Vec<SourceStatus> {
        let all: Vec<SourceStatus> = {
            let table = self.sources.table.read();
            table.values().map(SourceHandle::status).collect()
        };
        all.into_iter()
            .map(|status| self.annotate_source(status))
            .collect()
    }

    /// The status of one source.
    ///
    /// # Errors
    /// [`Problem`] when there is no such source.
    pub fn source(&self, id: &SourceId) -> Result<SourceStatus, Problem> {
        // A block: the error path locks the table again.
        let status = { self.sources.table.read().get(id).map(SourceHandle::status) };
        match status {
            Some(status) => Ok(self.annotate_source(status)),
            None => Err(self.no_source(id)),
        }
    }

    /// Adds the origin of the specification.
    fn annotate_source(&self, mut status: SourceStatus) -> SourceStatus {
        let origin = self.source_sections.lock().note(&status.spec.id);
        let notes = origin.map(str::to_owned).into_iter().chain(status.note);
        status.note = notes.reduce(|origin, left_out| format!("{origin}; {left_out}"));
        status
    }

    /// Adds or replaces a source; its pipelines continue with the new one, and failed ones restart.
    /// The deployment overrides a section of the configuration file until that section is edited.
    ///
    /// # Errors
    /// [`Problem`] for an invalid address, too many sources, or a store that refuses.
    pub fn put_source(&self, spec: SourceSpec) -> Result<SourceStatus, Problem> {
        check_source(&spec)?;
        self.privacy_mask(&spec)?;
        let change = self.changes.lock();
        self.check_storable()?;
        {
            let table = self.sources.table.read();
            if !table.contains_key(&spec.id) && table.len() >= MAX_SOURCES {
                return Err(limit("sources", MAX_SOURCES));
            }
        }
        let id = spec.id.clone();
        let over = self.source_sections.lock().fingerprint(&id);
        let specs = self.parts.journal.specs();
        specs.put(&spec, over.as_deref()).map_err(storage)?;
        self.source_sections.lock().replace(&id, true);
        let old = self.open_source(spec)?;
        drop(change);
        // Waits for its thread, which may hang.
        drop(old);
        for pipeline in self.watchers_of(&id) {
            self.restart_if_failed(&pipeline);
        }
        self.source(&id)
    }

    /// Removes a source; one that the configuration file names stays away until its section is
    /// edited.
    ///
    /// # Errors
    /// [`Problem`] when there is none, a pipeline still needs it, or the store refuses.
    pub fn delete_source(&self, id: &SourceId) -> Result<(), Problem> {
        let change = self.changes.lock();
        if !self.sources.table.read().contains_key(id) {
            return Err(self.no_source(id));
        }
        self.check_storable()?;
        let users = self.users_of(id)?;
        if !users.is_empty() {
            return Err(Problem::conflict(format!(
                "source {:?} is used by {}; delete {} first",
                id.as_str(),
                users.join(", "),
                if users.len() == 1 { "it" } else { "them" }
            ))
            .at("id", id.as_str()));
        }
        let intent = {
            let sections = self.source_sections.lock();
            sections.intent(id, UserIntent::Stop, clock::wall().unix_ms)
        };
        let specs = self.parts.journal.specs();
        specs
            .delete::<SourceSpec>(id, intent.as_ref())
            .map_err(storage)?;
        self.source_sections.lock().replace(id, false);
        let gone = self.replace_source(id, None);
        drop(change);
        // Waits for its thread, which may hang.
        drop(gone);
        self.parts.views.remove(id);
        Ok(())
    }

    /// Pipelines that watch `source`, or will: a replacement is stored before it runs.
    fn users_of(&self, source: &SourceId) -> Result<Vec<String>, Problem> {
        let specs = self.parts.journal.specs();
        let stored = specs.all::<PipelineSpec>().map_err(storage)?.entries;
        let stored = stored.into_iter().map(|stored| stored.spec);
        // A stopped pipeline is listed only because the file names it, and can't be deleted.
        let is_stopped = |id: &PipelineId| {
            matches!(
                self.handle(id),
                Ok(Deployed::Idle {
                    why: Idle::Stopped(_),
                    ..
                })
            )
        };
        let users: BTreeSet<PipelineId> = stored
            .filter(|spec| spec.source == *source)
            .map(|spec| spec.id)
            .chain(
                self.watchers_of(source)
                    .into_iter()
                    .filter(|id| !is_stopped(id)),
            )
            .collect();
        Ok(users.iter().map(ToString::to_string).collect())
    }

    /// Pipelines in the table with this source.
    pub(super) fn watchers_of(&self, source: &SourceId) -> Vec<PipelineId> {
        let table = self.pipelines.lock();
        let watchers = table.iter().filter(|(_, d)| d.spec().source == *source);
        watchers.map(|(id, _)| id.clone()).collect()
    }

    /// Opens a source in place of the old one, which is closed and returned; dropping it waits for
    /// its thread.
    ///
    /// # Errors
    /// [`Problem`] when the source is another way to a camera with a privacy mask.
    pub(super) fn open_source(&self, spec: SourceSpec) -> Result<Option<SourceHandle>, Problem> {
        let id = spec.id.clone();
        let privacy = self.privacy_mask(&spec)?;
        let shows = describe_view(&spec, privacy.as_deref());
        self.parts.history.set_view(&id, &shows);
        let deps = Deps {
            wall: Arc::new(clock::wall),
            notices: Some(self.notices.clone()),
            privacy,
            known_view: self.parts.views.load(&id, &shows),
            run: self.next_source_number(),
            seed: fastrand::u64(..),
            ..Deps::default()
        };
        Ok(self.replace_source(&id, Some(Source::spawn(spec, deps))))
    }

    /// Keeps the usual views of cameras for the next process; called regularly.
    pub fn save_views(&self) {
        let known =
            |source: &SourceHandle| Some((source.full_spec().clone(), source.known_view()?));
        let known: Vec<_> = {
            let table = self.sources.table.read();
            table.values().filter_map(known).collect()
        };
        for (spec, view) in known {
            if let Ok(privacy) = self.privacy_mask(&spec) {
                let shows = describe_view(&spec, privacy.as_deref());
                self.parts.views.save(&spec.id, &shows, &view);
            }
        }
    }

    /// The privacy mask of a source, if it has one.
    ///
    /// # Errors
    /// [`Problem`] when the source is another way to a camera with a privacy mask.
    fn privacy_mask(&self, spec: &SourceSpec) -> Result<Option<Arc<PrivacyMask>>, Problem> {
        self.parts.privacy.of(spec).map_err(|why| {
            let uri = crate::capture::redact::uri(&spec.uri);
            Problem::invalid_value(why).at("uri", uri)
        })
    }

    /// The privacy mask of a source with masked classes.
    pub(crate) fn class_mask(&self, source: &SourceId) -> Option<&Arc<PrivacyMask>> {
        let mask = self.parts.privacy.by_name(source);
        mask.filter(|mask| !mask.classes.is_empty())
    }

    /// Refuses a frame that no pipeline has masked by class.
    pub(super) fn refuse_class_mask(&self, source: &SourceId) -> Result<(), Problem> {
        let Some(mask) = self.class_mask(source) else {
            return Ok(());
        };
        let remedy = match self.watchers_of(source).first() {
            Some(pipeline) => format!("watchkeeper frame save --pipeline {pipeline} -o FILE"),
            None => "deploy a pipeline on it, and save that one's frame".to_owned(),
        };
        Err(Problem::conflict(format!(
            "camera {source} has a privacy mask of classes ({}), which only a pipeline applies: \
             {remedy}",
            mask.classes.join(", ")
        ))
        .at("id", source.as_str()))
    }

    pub(super) fn no_source(&self, id: &SourceId) -> Problem {
        let mut problem = Problem::not_found(format!("there is no camera {:?}", id.as_str()))
            .at("id", id.as_str());
        problem.allowed = self
            .sources
            .table
            .read()
            .keys()
            .map(ToString::to_string)
            .collect();
        problem
    }
}

fn check_source(spec: &SourceSpec) -> Result<(), Problem> {
    let address = crate::capture::address::Address::parse(&spec.uri).map_err(|error| {
        Problem::invalid_value(error.to_string()).at("uri", crate::capture::redact::uri(&spec.uri))
    })?;
    controls::check(&address, &spec.controls)
        .map_err(|error| Problem::invalid_value(error.message).at("controls", error.found))?;
    crate::capture::check_decoder(spec.decoder)
        .map_err(|why| Problem::invalid_value(why).at("decoder", spec.decoder.name()))?;
    for (key, value, bounds, unit) in [
        ("stall_s", spec.stall_s, STALL_S, "seconds"),
        ("max_fps", spec.max_fps, MAX_FPS, "frames a second"),
    ] {
        if let Some(value) = value.filter(|value| !bounds.contains(value)) {
            let (min, max) = bounds.into_inner();
            return Err(Problem::invalid_value(format!(
                "{key} is {value}; use {min} to {max} {unit}, or leave it out"
            ))
            .at(key, value.to_string()));
        }
    }
    Ok(())
}
