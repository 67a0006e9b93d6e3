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
        let positions: Vec<_> = r.positions_of(&name).collect();
        for Range { start, end } in positions {
            let is_before = start > 0 && r.is_free(start - 1, "#|channel");
            let is_after = r.is_free(end, "channel");
            let is_recipient = r.match_before("@before_recipient", start).is_some();
            if is_before || is_after || is_recipient {
                let (before, after) = (usize::from(is_before), usize::from(is_after));
                take(r, start - before, end + after);
                meant.push(channel.clone());
            }
        }
    }
    meant.dedup();
    meant
}

/// Takes names after a `#` that no channel has, and notes them.
fn take_unknown(r: &mut Reader<'_>, meant: &[ChannelId]) -> bool {
    let mut any = false;
    for i in r.positions() {
        if r.free_word(i) == "#" && !r.is_taken(i + 1) {
            any = true;
            let written = r.written(i + 1..i + 2);
            take(r, i, i + 2);
            note_no_channel(
                r,
                meant,
                &format!("There is no channel #{written}"),
                &written,
            );
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
    let front = r.match_before("@before_channel", start);
    r.mark(front.map_or(start, |front| front.at.start)..end);
}
