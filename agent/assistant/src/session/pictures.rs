//! Pictures that a user attaches to a request, and those of events that a user asked to see. They
//! are in the folder `pictures` of the user's home.
//!
//! - At most [`MAX_SAVED`] of an answer are saved, the newest; the oldest files are deleted.
//! - A picture that cannot be saved is reported with the command that fetches it.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use watchkeeper_config::bounded;
use watchkeeper_contract::event::{Event, Media};
use watchkeeper_engine::workflow::codec;
use watchkeeper_store::private_folder::make_private;

use super::progress::ProgressEvent;
use super::user_session::{MAX_ATTACHED, Session};
use crate::failure::Error;
use crate::proposal::llm_proposal::words;
use crate::reviews::best_picture;
use crate::setup_agent::tool_context::save_numbered;

/// Name of the folder in a user's home.
const FOLDER: &str = "pictures";
/// Most pictures that are saved for one answer.
const MAX_SAVED: usize = 10;
/// Largest attached picture, in bytes.
const MAX_PICTURE_BYTES: u64 = 16 << 20;

impl Session {
    /// Attaches the picture in a file to the next request.
    ///
    /// # Errors
    /// If it cannot be read, is not a JPEG, PNG or WebP, or there are too many.
    pub fn attach_file(&mut self, file: &Path) -> Result<(), Error> {
        let failed = |why: String| Error::input(format!("cannot read {}: {why}", file.display()));
        let bytes =
            bounded::read_up_to(file, MAX_PICTURE_BYTES).map_err(|e| failed(e.to_string()))?;
        if !codec::is_picture(&bytes) {
            return Err(failed("not a JPEG, PNG or WebP".to_owned()));
        }
        let name = file.file_name().map(|n| n.to_string_lossy().into_owned());
        self.attach(&name.unwrap_or_default(), Bytes::from(bytes))
    }

    /// Attaches a JPEG, PNG or WebP to the next request.
    ///
    /// # Errors
    /// If there are too many.
    pub fn attach(&mut self, name: &str, picture: Bytes) -> Result<(), Error> {
        if self.attached.len() >= MAX_ATTACHED {
            return Err(Error::input(format!(
                "a request can have at most {MAX_ATTACHED} pictures"
            )));
        }
        let name = words(name);
        self.report_note(&format!("{name} is attached to the next request"));
        self.attached.push((name, picture));
        Ok(())
    }

    /// Saves the pictures of these events, oldest first, and reports their files.
    pub(super) async fn show_pictures(&self, events: &[Event]) {
        let Ok(home) = &self.deps.state_dir else {
            return;
        };
        let folder = home.join(FOLDER);
        let newest = events.get(events.len().saturating_sub(MAX_SAVED)..);
        for event in newest.unwrap_or_default() {
            let Some(media) = best_picture(event) else {
                self.report_note(&format!("event {} has no picture", event.seq));
                continue;
            };
            match self.save_picture(&folder, media).await {
                Ok(file) => self.deps.out.report(ProgressEvent::Picture(media, &file)),
                Err(why) => self.report_note(&format!(
                    "{why}; `watchkeeper media get {} -o FILE.jpg` fetches the picture",
                    media.id
                )),
            }
        }
        let others = events.len().saturating_sub(MAX_SAVED);
        if others > 0 {
            self.report_note(&format!(
                "{others} older pictures are not saved; `watchkeeper events --json` has their ids"
            ));
        }
    }

    async fn save_picture(&self, folder: &Path, media: &Media) -> Result<PathBuf, String> {
        let bytes = self.deps.client.media(&media.id).await;
        let bytes = bytes.map_err(|error| error.in_full())?;
        let saved = make_private(folder).and_then(|()| save_numbered(folder, "event.jpg", &bytes));
        saved.map_err(|error| format!("cannot save a picture in {}: {error}", folder.display()))
    }
}
