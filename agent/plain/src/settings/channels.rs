//! The channels that a request names.
//!
//! - A channel is named after a `#`, next to the word `channel`, or as the recipient.
//! - A kind of channel, such as `by email`, names the only channel of the box, and none where the
//!   box has several.
//! - A channel that the box lacks is noted, with how to configure it.

use std::ops::Range;

use watchkeeper_contract::id::ChannelId;

use crate::lexicon::folded;
use crate::reader::Reader;
use crate::scene::quoted;

/// Words before a channel that only say that a message is sent there.
const IN_FRONT: &str = "send|post|report|forward|push|write|tell|notify|alert|warn|inform|message|ping|text|email|e-mail|mail|call|phone|page|ring|sms|buzz? it|this|that|both|them|these|all|everything|word|message|messages|notification|notifications? to|in|into|on|over|via|through|by? the|our|my?";

/// Words before which only a recipient can be: `notify the boss`, `send it to security`.
const TOLD: [&str; 2] = [
    "tell|notify|alert|warn|inform|message|ping|text|email|e-mail|page|sms the|our|my?",
    "send|forward|report it|this|that|them|these to the|our|my?",
];

/// Takes the named channels, and whether the request wants any, known or not.
pub(crate) fn channels(r: &mut Reader<'_>) -> (Vec<ChannelId>, bool) {
    let mut meant = take_known(r);
    let has_unknown = take_unknown(r, &meant);
    let by_name = take_by_name(r, &mut meant);
    let is_wanted = has_unknown || by_name || !meant.is_empty();
    (meant, is_wanted)
}

/// Takes the channels that the box has.
fn take_known(r: &mut Reader<'_>) -> Vec<ChannelId> {
    let mut meant = Vec::new();
    for channel in &r.scene.channels {
        let name = folded(channel.as_str());
        let spots: Vec<_> = r.spots_of(&name).collect();
        for Range { start, end } in spots {
            let before = start.checked_sub(1).map_or("", |i| r.word(i));
            let (start, end) = match (before, r.word(end)) {
                ("#" | "channel", "channel") => (start - 1, end + 1),
                ("#" | "channel", _) => (start - 1, end),
                (_, "channel") => (start, end + 1),
                _ if TOLD.iter().any(|told| r.ending(told, start).is_some()) => (start, end),
                _ => continue,
            };
            take(r, start, end);
            if !meant.contains(channel) {
                meant.push(channel.clone());
            }
        }
    }
    meant
}

/// Takes names after a `#` that no channel has, and notes them.
fn take_unknown(r: &mut Reader<'_>, meant: &[ChannelId]) -> bool {
    let mut any = false;
    for i in 0..r.tokens.len() {
        if r.word(i) == "#" && !r.word(i + 1).is_empty() {
            any = true;
            let written = r.written(i + 1..i + 2);
            take(r, i, i + 2);
            let what = format!("There is no channel #{written}");
            note_no_channel(r, meant, &what, &written);
        }
    }
    any
}

/// Takes kinds of channels, such as `by email`: the only channel of the box, where it has one.
fn take_by_name(r: &mut Reader<'_>, meant: &mut Vec<ChannelId>) -> bool {
    let mut any = false;
    while let Some(found) = r.take(&["@kind_of_channel"]) {
        any = true;
        let written = quoted(&r.written(found.at.clone()));
        take(r, found.at.start, found.at.end);
        match r.scene.channels.as_slice() {
            [_] if !meant.is_empty() => {}
            [only] => {
                r.assume(format!(
                    "{written} means the channel #{only}, the only one here."
                ));
                meant.push(only.clone());
            }
            _ => note_no_channel(r, meant, &format!("{written} names no channel"), "NAME"),
        }
    }
    any
}

/// Notes names that are not channels, the channels that still notify, and the remedy.
fn note_no_channel(r: &mut Reader<'_>, meant: &[ChannelId], what: &str, name: &str) {
    let names = names_of(&r.scene.channels).join(", ");
    let rest = match meant {
        [] => "no channel notifies".to_owned(),
        meant => format!("only {} notifies", names_of(meant).join(" and ")),
    };
    r.notes.not_possible.push(match names.is_empty() {
        true => format!(
            "{what}: a section [channels.{name}] of the configuration makes one. Events are published over MQTT and kept in the journal."
        ),
        false => format!("{what}, so {rest}; there are {names}."),
    });
}

/// The channels as a sentence shows them.
pub(super) fn names_of(channels: &[ChannelId]) -> Vec<String> {
    channels.iter().map(|c| format!("#{c}")).collect()
}

/// Marks a channel and the words before it.
fn take(r: &mut Reader<'_>, start: usize, end: usize) {
    let front = r.ending(IN_FRONT, start);
    r.mark(front.map_or(start, |front| front.at.start)..end);
}
