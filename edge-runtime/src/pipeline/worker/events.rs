//! Events of a pipeline on their way to the recorder.
//!
//! - A new event has its pictures and, where its rule wants one, a clip; later phases have neither.
//! - The recorder gets the beginning of an event before a clip can report to the journal.
//! - An event that the recorder refuses is logged, and is not added to its clip.

use watchkeeper_contract::event::{Event, EventBody, Phase};
use watchkeeper_engine::rules::Change;

use super::thread::{FrameMoment, WorkerThread};
use crate::journal::Stamp;
use crate::pipeline::box_event::{BoxRecord, box_event};
use crate::pipeline::recorder::Pictures;

impl WorkerThread {
    /// Sends changed events to the recorder, and begins the clips of new ones.
    pub(super) fn send_changes(&mut self, changes: Vec<Change>, moment: Option<FrameMoment>) {
        for change in changes {
            if change.phase == Phase::New {
                self.services.metrics.count_event(&change.decision);
            }
            let moment = moment.filter(|_| change.phase == Phase::New);
            self.send_change(change, moment);
        }
    }

    fn send_change(&mut self, mut change: Change, moment: Option<FrameMoment>) {
        let phase = change.phase;
        let pictures = self.pictures_of(&mut change);
        let may_clip = self.shared.grant.lock().may_clip;
        let clip = moment.zip(change.clip).and_then(|(moment, wanted)| {
            let clips = self.clips.as_mut().filter(|_| may_clip)?;
            Some(clips.begin(wanted, moment.at, moment.is_live))
        });
        let stamp = Stamp {
            id: change.id,
            ..self.services.boot.stamp()
        };
        let body = EventBody::Rule(Box::new(change.event));
        let draft = Event {
            evidence: change.evidence,
            clip,
            ..self.of_pipeline(stamp.event(phase, change.severity, body, change.decision))
        };
        // The clip reports to the journal, which must have the beginning of the event first.
        let with_clip = draft.clip.is_some().then(|| draft.clone());
        if !self.services.recorder.record(draft, pictures) {
            tracing::error!(pipeline = %self.spec.id, "the recorder has stopped; an event is lost");
            return;
        }
        if let (Some(event), Some(moment), Some(clips)) = (with_clip, moment, &mut self.clips) {
            clips.add_event(event, moment.at);
        }
        if phase == Phase::New {
            self.shared.status.lock().events += 1;
        }
    }

    /// Names this pipeline in an event.
    fn of_pipeline(&self, event: Event) -> Event {
        Event {
            source: Some(self.spec.source.clone()),
            pipeline: Some(self.spec.id.clone()),
            definition: self.services.definition.clone(),
            ..event
        }
    }

    /// The pictures of a new event: of the frame that shows its object best, or of the latest one.
    fn pictures_of(&mut self, change: &mut Change) -> Option<Pictures> {
        let is_new = change.phase == Phase::New;
        self.shown_frames.drop_missing(&mut change.event, is_new);
        is_new.then(|| self.shown_frames.kept(change.event.shown_frame))?
    }

    /// Ends the events of failing steps, when no more frames are taken for now.
    pub(super) fn end_step_failures(&mut self) {
        let records = self.failures.end_all();
        self.send_box_records(records);
    }

    /// Sends what the runtime observed in this pipeline to the recorder.
    pub(super) fn send_box_records(&self, records: Vec<BoxRecord>) {
        for record in records {
            let services = &self.services;
            let event = self.of_pipeline(box_event(record, &services.boot));
            if !services.recorder.report(event) {
                tracing::error!(pipeline = %self.spec.id, "the recorder has stopped; an event is lost");
            }
        }
    }
}
