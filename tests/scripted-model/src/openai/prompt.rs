//! Cuts a request into the pieces that count as tokens.

use serde_json::Value;

use crate::json::{list, text};
use crate::picture;
use crate::prefix::{self, Piece};

/// Maximum number of squares that a picture is cut into.
const MAX_SQUARES: u64 = 1_536;

/// Returns the pieces of a prompt in order: tools, answer format, instructions, input.
pub(super) fn pieces(asked: &Value) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for fixed in [
        asked.get("tools"),
        asked.get("text"),
        asked.get("instructions"),
    ] {
        pieces.extend(
            fixed
                .into_iter()
                .flat_map(|f| prefix::text(&f.to_string()).collect::<Vec<_>>()),
        );
    }
    match asked.get("input") {
        Some(Value::String(said)) => pieces.extend(prefix::text(said)),
        _ => {
            for item in list(asked, "input") {
                add_item(item, &mut pieces);
            }
        }
    }
    pieces
}

fn add_item(item: &Value, pieces: &mut Vec<Piece>) {
    let parts = ["content", "output"]
        .into_iter()
        .flat_map(|name| list(item, name));
    let mut has_parts = false;
    for part in parts {
        has_parts = true;
        if text(part, "type") == "input_image" {
            let (media_type, data) =
                picture::of_data_url(text(part, "image_url")).unwrap_or_default();
            let size = picture::size(Some(media_type), data).unwrap_or_default();
            let tokens = picture::squares(size, 32).min(MAX_SQUARES);
            pieces.push(prefix::picture(data, tokens));
        } else {
            pieces.extend(prefix::text(&part.to_string()));
        }
    }
    if !has_parts {
        pieces.extend(prefix::text(&item.to_string()));
    }
}
