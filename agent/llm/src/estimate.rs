//! Estimates the tokens of a request before it is sent.
//!
//! - The estimate lies above the truth. Text counts by the model's bytes per token, pictures by the
//!   server's own rule; a fixed part covers what the provider adds. Base64 does not count as text.

use crate::catalogue::{ImageTier, Model};
use crate::conversation::{AssistantPart, AssistantTurn, Conversation, Turn, UserPart};
use crate::picture::size;

/// Maximum tokens of a provider's own text about tools (Claude: up to 589).
const TOOLS: u64 = 600;
/// Tokens around a turn or a block.
const FRAME: u64 = 8;

/// Estimates the tokens of the prompt for `model`.
pub fn prompt(conversation: &Conversation, model: &Model) -> u64 {
    let text = |bytes: usize| text_tokens(bytes, model);
    let system: u64 = conversation
        .system()
        .iter()
        .map(|block| text(block.len()) + FRAME)
        .sum();
    let mut tools: u64 = conversation
        .tools()
        .iter()
        .map(|tool| {
            let bytes = tool.name().len() + tool.description().len() + tool.schema().text().len();
            text(bytes) + FRAME
        })
        .sum();
    if tools > 0 {
        tools += TOOLS;
    }
    let turns: u64 = conversation
        .turns()
        .iter()
        .map(|turn| FRAME + turn_tokens(turn, model))
        .sum();
    system + tools + turns
}

fn turn_tokens(turn: &Turn, model: &Model) -> u64 {
    match turn {
        Turn::User(parts) => parts.iter().map(|part| part_tokens(part, model)).sum(),
        Turn::Results(results) => {
            let parts = results.iter().flat_map(|result| &result.parts);
            let parts: u64 = parts.map(|part| part_tokens(part, model)).sum();
            parts + FRAME * results.len() as u64
        }
        Turn::Assistant(turn) => text_tokens(assistant_bytes(turn), model),
    }
}

fn assistant_bytes(turn: &AssistantTurn) -> usize {
    let raw: usize = turn
        .raw
        .iter()
        .flat_map(|raw| &raw.items)
        .map(|item| item.text().len())
        .sum();
    let plain: usize = turn
        .parts
        .iter()
        .map(|part| match part {
            AssistantPart::Thinking(text) | AssistantPart::Text(text) => text.len(),
            AssistantPart::Call(call) => call.name.len() + call.arguments.text().len(),
        })
        .sum();
    raw.max(plain)
}

fn part_tokens(part: &UserPart, model: &Model) -> u64 {
    match part {
        UserPart::Text(text) => text_tokens(text.len(), model) + FRAME,
        UserPart::Picture(picture) => {
            let tier = model.image_tier.unwrap_or(ImageTier::High);
            size::tokens(tier, picture.width, picture.height) + FRAME
        }
    }
}

/// Estimates the tokens of so many bytes of text, rounded up.
pub(crate) fn text_tokens(bytes: usize, model: &Model) -> u64 {
    // The catalogue rejects fewer than half a byte a token.
    (bytes as f64 / model.bytes_per_token.max(0.5)).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use crate::conversation::{MediaType, Picture};

    #[test]
    fn picture_counts_by_its_size_not_its_bytes() {
        let catalogue = Catalogue::built_in().expect("built in");
        let model = catalogue
            .model("claude", "claude-haiku-5-5")
            .expect("model");
        let with = |bytes: usize| {
            let mut talk = Conversation::new(Vec::new(), Vec::new()).expect("new");
            let picture = Picture {
                media: MediaType::Jpeg,
                width: 896,
                height: 504,
                bytes: vec![0; bytes].into(),
            };
            talk.push_user(vec![UserPart::Picture(picture)])
                .expect("user");
            prompt(&talk, &model)
        };
        assert_eq!(with(10), with(500_000));
        assert_eq!(with(10), 576 + 2 * FRAME);
    }
}
