//! Checks pictures: format, size and number.

use serde_json::Value;

use super::refusal::Refusal;
use crate::json::text;
use crate::picture::{self, PictureError};

const MAX_BASE64: usize = 10 << 20;
const MAX_SIDE: u32 = 8_000;
/// Above this number of pictures each has the smaller limit.
const MANY: usize = 20;
const MAX_SIDE_OF_MANY: u32 = 2_000;

/// Maximum number of pictures, for a context of 200,000 tokens and of a million.
const MAX_IMAGES: [usize; 2] = [100, 600];

/// Checks every picture of a request.
pub(super) fn check(body: &Value) -> Result<(), Refusal> {
    let mut sizes = Vec::new();
    find(body, &mut sizes)?;
    let [small, large] = MAX_IMAGES;
    let is_small = text(body, "model").contains("-4-5");
    let most = if is_small { small } else { large };
    if sizes.len() > most {
        let message = format!(
            "messages: at most {most} images are allowed, found {}",
            sizes.len()
        );
        return Err(Refusal::bad(message));
    }
    let side = sizes.iter().map(|(w, h)| *w.max(h)).max().unwrap_or(0);
    if side > MAX_SIDE {
        return Err(Refusal::bad(
            "At least one of the image dimensions exceed max allowed size: 8000 pixels",
        ));
    }
    if sizes.len() > MANY && side > MAX_SIDE_OF_MANY {
        let message = "At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels";
        return Err(Refusal::bad(message));
    }
    Ok(())
}

fn find(value: &Value, sizes: &mut Vec<(u32, u32)>) -> Result<(), Refusal> {
    match value {
        Value::Object(_) if text(value, "type") == "image" => {
            sizes.push(size(value.get("source").unwrap_or(&Value::Null))?);
            Ok(())
        }
        Value::Object(members) => members.values().try_for_each(|value| find(value, sizes)),
        Value::Array(items) => items.iter().try_for_each(|item| find(item, sizes)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Returns width and height of a valid picture.
pub(super) fn size(source: &Value) -> Result<(u32, u32), Refusal> {
    let data = text(source, "data");
    if text(source, "type") != "base64" || data.len() > MAX_BASE64 {
        return Err(Refusal::bad(
            "image.source: must be base64 of at most 10 MB",
        ));
    }
    picture::size(Some(text(source, "media_type")), data).map_err(|wrong| {
        Refusal::bad(match wrong {
            PictureError::Base64 => "image.source.base64: invalid base64 data",
            PictureError::Type => "image.source: the media type does not match the data",
            PictureError::Unreadable => "Could not process image",
        })
    })
}
