//! Checks the contents: the form of each part.

use serde_json::{Value, json};

use super::models::signs;
use super::refusal::{bad, check_members};
use crate::json::{list, text};
use crate::picture::{self, PictureError};
use crate::provider::Refusal;

const MAX_PICTURES: usize = 3_600;
/// Kinds of data, of which a part has one.
const DATA: [&str; 5] = [
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
];
/// Accepted media types of pictures.
const MEDIA: [&str; 5] = [
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/heic",
    "image/heif",
];

/// Checks each content for itself.
pub(super) fn check(model: &str, contents: &[Value]) -> Result<(), Refusal> {
    if contents.is_empty() {
        return Err(bad(
            "* GenerateContentRequest.contents: contents is not specified",
        ));
    }
    let mut pictures = 0;
    for (at, content) in contents.iter().enumerate() {
        let place = format!("contents[{at}]");
        check_members(content, &place, &["role", "parts"])?;
        if !["user", "model"].contains(&text(content, "role")) {
            return Err(bad("Please use a valid role: user, model."));
        }
        let parts = list(content, "parts");
        if parts.is_empty() {
            return Err(bad(format!(
                "* GenerateContentRequest.{place}.parts: contents.parts must not be empty."
            )));
        }
        for (n, part) in parts.iter().enumerate() {
            check_part(model, part, &format!("{place}.parts[{n}]"), &mut pictures)?;
        }
    }
    if pictures > MAX_PICTURES {
        let message = format!("Please use fewer than {MAX_PICTURES} images in your request.");
        return Err(bad(message));
    }
    Ok(())
}

fn check_part(model: &str, part: &Value, at: &str, pictures: &mut usize) -> Result<(), Refusal> {
    // A part of `UnknownEvents` comes back.
    if part.get("futurePart").is_some() {
        return Ok(());
    }
    let names = [
        &DATA[..],
        &["thought", "thoughtSignature", "mediaResolution"],
    ]
    .concat();
    check_members(part, at, &names)?;
    let held: Vec<&str> = DATA
        .iter()
        .copied()
        .filter(|name| part.get(*name).is_some())
        .collect();
    let [kind] = held[..] else {
        return Err(bad(format!(
            "* GenerateContentRequest.{at}.data: required oneof field 'data' must have one initialized field"
        )));
    };
    let data = part.get(kind).unwrap_or(&Value::Null);
    match kind {
        "text" if !data.is_string() => Err(bad(format!(
            "Invalid value at '{at}.text' (TYPE_STRING), {data}"
        ))),
        "inlineData" => {
            *pictures += 1;
            check_blob(data)
        }
        "functionCall" => {
            check_members(
                data,
                &format!("{at}.function_call"),
                &["id", "name", "args"],
            )?;
            let is_struct = data.get("args").is_none_or(Value::is_object);
            if text(data, "name").is_empty() {
                Err(bad(format!(
                    "* GenerateContentRequest.{at}.function_call.name: Name cannot be empty."
                )))
            } else if is_struct {
                Ok(())
            } else {
                Err(bad(format!(
                    "Invalid value at '{at}.function_call.args' (type.googleapis.com/google.protobuf.Struct)"
                )))
            }
        }
        "functionResponse" => check_response(model, data, at, pictures),
        _ => Ok(()),
    }
}

fn check_response(
    model: &str,
    data: &Value,
    at: &str,
    pictures: &mut usize,
) -> Result<(), Refusal> {
    let place = format!("{at}.function_response");
    let names = [
        "id",
        "name",
        "response",
        "parts",
        "willContinue",
        "scheduling",
    ];
    check_members(data, &place, &names)?;
    if text(data, "name").is_empty() {
        return Err(bad(format!(
            "* GenerateContentRequest.{place}.name: Name cannot be empty."
        )));
    }
    if !data.get("response").is_some_and(Value::is_object) {
        return Err(bad(format!(
            "Invalid value at '{place}.response' (type.googleapis.com/google.protobuf.Struct)"
        )));
    }
    let parts = list(data, "parts");
    if !parts.is_empty() && !signs(model) {
        return Err(bad(
            "Multimodal function responses are not supported for this model.",
        ));
    }
    for (n, part) in parts.iter().enumerate() {
        check_members(part, &format!("{place}.parts[{n}]"), &["inlineData"])?;
        *pictures += 1;
        check_blob(part.get("inlineData").unwrap_or(&Value::Null))?;
    }
    Ok(())
}

fn check_blob(data: &Value) -> Result<(), Refusal> {
    let media_type = text(data, "mimeType");
    if !MEDIA.contains(&media_type) {
        return Err(bad(format!("Unsupported MIME type: {media_type}")));
    }
    picture::size(Some(media_type), text(data, "data")).map(drop).map_err(|wrong| {
        bad(match wrong {
            PictureError::Base64 => "Invalid value at 'inline_data.data' (TYPE_BYTES), Base64 decoding failed.",
            PictureError::Type | PictureError::Unreadable => "Unable to process input image. Please retry or report in https://developers.generativeai.google/guide/troubleshooting",
        })
    })
}

/// Gives the role `user` to contents without a role.
pub(super) fn with_roles(mut body: Value) -> Value {
    let contents = body.get_mut("contents").and_then(Value::as_array_mut);
    let contents = contents.into_iter().flatten();
    for content in contents.filter_map(Value::as_object_mut) {
        content.entry("role").or_insert_with(|| json!("user"));
    }
    body
}
