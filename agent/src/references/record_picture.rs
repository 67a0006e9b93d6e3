//! The picture of an event, as a chain compares it.

use watchkeeper_client::{ClientError, JournalRecord, RuntimeClient};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_evidence::picture;

use crate::background::blocking;
use crate::second_opinion::clean_picture;

/// Why there is no picture of a record.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordPictureError {
    #[error("can't ask the runtime: {0}")]
    Runtime(#[from] ClientError),
    #[error("there is no event {0}; `watchkeeper events` lists them")]
    NoRecord(EventSeq),
    /// The record has none, or one that is gone or can't be decoded.
    #[error("{0}")]
    NoPicture(String),
}

/// The clean picture of an event: the object's bounding box where the event has one.
///
/// # Errors
/// [`RecordPictureError`], never [`RecordPictureError::NoRecord`].
pub(super) async fn picture_of(
    runtime: &RuntimeClient,
    event: &Event,
) -> Result<Vec<u8>, RecordPictureError> {
    let none = |why: String| RecordPictureError::NoPicture(why);
    let media = clean_picture(event);
    let media = media.ok_or_else(|| none("the event has no picture".to_owned()))?;
    let file = match runtime.media(&media.id).await {
        Err(error) if error.is_not_found() => {
            return Err(none("the picture of the event was deleted".to_owned()));
        }
        file => file?,
    };
    let bbox = event.body.rule().and_then(|rule| rule.bbox);
    let cut = blocking(move || {
        picture::check(&[&file])?;
        picture::cut(&file, bbox)
    });
    let cut = cut.await.map_err(none)?;
    cut.map_err(|error| none(error.to_string()))
}

/// The picture of record `seq`, as a chain would compare it.
///
/// # Errors
/// [`RecordPictureError`].
pub(crate) async fn picture_of_record(
    runtime: &RuntimeClient,
    seq: EventSeq,
) -> Result<Vec<u8>, RecordPictureError> {
    match runtime.record(seq).await? {
        Some(JournalRecord::Known(event)) => picture_of(runtime, &event).await,
        _ => Err(RecordPictureError::NoRecord(seq)),
    }
}
