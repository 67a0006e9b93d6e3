//! Notes of a user: saved on request and searched.
//!
//! Invariant: nothing else depends on a note that cannot be saved; the user is informed.

use jiff::{Timestamp, Zoned};
use serde_json::json;
use watchkeeper_client::ClientError;
use watchkeeper_memory::note::{Entry, Kind, Origin, Words};
use watchkeeper_memory::{Found, Memory, Query};
use watchkeeper_plain::answer::Look;

use super::apply::new_pipeline;
use super::progress::ProgressEvent;
use super::user_session::Session;
use crate::failure::Error;
use crate::lesson::recall;
use crate::notes::Notes;
use crate::proposal::conversation::Reply;
use crate::proposal::snapshot::SystemSnapshot;

impl Session {
    /// Handles a text about notes, which need no runtime; `away` is the error of any other text,
    /// and of one with pictures.
    pub(super) async fn handle_without_runtime(
        &mut self,
        text: &str,
        away: ClientError,
    ) -> Result<(Reply, SystemSnapshot), Error> {
        let here = SystemSnapshot::unknown(Zoned::now());
        let before = self.conversation.clone();
        let reply = self.conversation.handle(text, &self.plain, &here);
        let is_about_notes = match &reply {
            Reply::Remember(..) => true,
            Reply::Look(looked) => matches!(looked.look, Look::Notes(_)),
            _ => false,
        };
        if !is_about_notes || !self.attached.is_empty() {
            self.conversation = before;
            return Err(away.into());
        }
        self.trace_event("request", || json!({"text": text}));
        self.is_llm_reply = false;
        self.finish_reply(text, reply, before, here).await
    }

    /// Saves a note of the user.
    ///
    /// # Errors
    /// If the text is not a valid note or cannot be stored.
    pub async fn save_note(&self, kind: Kind, words: &str) -> Result<(), Error> {
        let words = Words::new(words).map_err(|e| Error::input(e.to_string()))?;
        let entry = Entry::new(kind, Origin::Person, words);
        let at = self.save_entry(entry).await?;
        self.deps.out.report(ProgressEvent::NoteSaved(kind, &at));
        Ok(())
    }

    pub(super) async fn save_entry(&self, entry: Entry) -> Result<String, Error> {
        let notes = self.notes().map_err(Error::failed)?;
        let file = notes.remember(entry).await.map_err(Error::failed)?;
        Ok(file.display().to_string())
    }

    /// Searches the notes for these words.
    ///
    /// # Errors
    /// If the notes cannot be read.
    pub(crate) async fn search_memory(&self, words: &str) -> Result<Vec<Found>, Error> {
        let query = Query {
            now: Some(Timestamp::now()),
            ..Query::new(words)
        };
        let search = |memory: &mut Memory| memory.search(query).map_err(|e| e.to_string());
        let found = self.notes().map_err(Error::failed)?.with(search).await;
        found.map_err(Error::failed)
    }

    /// Reports the lesson of a similar request that the user corrected, before a proposal of the
    /// rules is shown.
    pub(super) async fn report_correction(&self, text: &str, reply: &Reply) {
        // One conversation's words are not another's.
        if self.deps.entrypoint.is_api() {
            return;
        }
        let Reply::Proposal(offer) = reply else {
            return;
        };
        let notes = self.notes().ok().filter(|notes| notes.exist());
        let (Some(notes), true, None) = (notes, offer.corrections.is_empty(), &offer.llm_proposal)
        else {
            return;
        };
        let request = text.to_owned();
        let camera = new_pipeline(offer).map(|spec| spec.source.clone());
        let search =
            move |memory: &mut Memory| recall::correction(memory, &request, camera.as_ref());
        match notes.with(search).await {
            Ok(Some(lesson)) => self.report_note(&format!(
                "a similar request was corrected before, to: {}",
                lesson.worked.unwrap_or(lesson.why)
            )),
            Ok(None) => {}
            Err(why) => tracing::debug!(why, "cannot search the lessons"),
        }
    }

    /// Returns the notes. The error is a sentence for the user.
    pub(super) fn notes(&self) -> Result<&Notes, String> {
        let home = self.deps.state_dir.as_ref();
        home.map_err(Clone::clone)?;
        let nowhere = || "notes have no folder here".to_owned();
        self.deps.notes.as_ref().ok_or_else(nowhere)
    }
}
