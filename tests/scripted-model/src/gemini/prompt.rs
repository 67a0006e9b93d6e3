//! Cuts a request into the pieces that count as tokens.

use serde_json::Value;

use crate::json::{list, text};
use crate::picture;
use crate::prefix::{self, Piece};

/// Tokens of a picture tile, and its side in pixels.
const TILE: (u64, u32) = (258, 768);

/// Returns the pieces of a prompt in order: instructions, tools, contents.
pub(super) fn pieces(asked: &Value) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for fixed in ["systemInstruction", "tools", "toolConfig"] {
        let fixed = asked.get(fixed).map(Value::to_string).unwrap_or_default();
        pieces.extend(prefix::text(&fixed));
    }
    for content in list(asked, "contents") {
        for part in list(content, "parts") {
            add_part(part, &mut pieces);
        }
    }
    pieces
}

fn add_part(part: &Value, pieces: &mut Vec<Piece>) {
    if let Some(blob) = part.get("inlineData") {
        let data = text(blob, "data");
        let size = picture::size(None, data).unwrap_or_default();
        let (tokens, side) = TILE;
        pieces.push(prefix::picture(data, tokens * picture::squares(size, side)));
        return;
    }
    let within = part
        .get("functionResponse")
        .map_or(&[][..], |r| list(r, "parts"));
    let mut bare = part.clone();
    if let Some(response) = bare
        .get_mut("functionResponse")
        .and_then(Value::as_object_mut)
    {
        response.remove("parts");
    }
    pieces.extend(prefix::text(&bare.to_string()));
    for part in within {
        add_part(part, pieces);
    }
}
