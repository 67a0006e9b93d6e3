//! The clean picture of an event, checked before a model is asked about it.

use bytes::Bytes;
use watchkeeper_contract::event::Event;
use watchkeeper_evidence::picture;

use crate::model_access::blocking;
use crate::second_opinion::{Asker, Case};

/// Fetches the picture and checks its format, size and pixels.
///
/// # Errors
/// A sentence: it has none, the runtime does not answer, or no model may see such a file.
pub(super) async fn checked_picture(asker: &Asker, event: &Event) -> Result<Bytes, String> {
    let case = Case::of(event);
    let media = case.picture().ok_or("the event has no picture")?;
    let file = asker.runtime.media(&media.id).await;
    let file = file.map_err(|e| format!("cannot fetch its picture: {e}"))?;
    let checked = file.clone();
    blocking(move || picture::check(&[&checked]).map_err(|e| e.to_string())).await?;
    Ok(file)
}
