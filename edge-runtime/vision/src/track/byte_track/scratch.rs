//! Memory of one frame that the next one reuses: indices of boxes and tracks by round.
//!
//! - Invariant: nothing in it outlives a frame; it is not a part of the saved state.
//! - Lists are in the order of the reference (`set_order`).
//! - Not here: which boxes and tracks a round matches.

use watchkeeper_contract::id::TrackId;

use super::track::{Outcome, Sight, Track};
use crate::geometry::BBox;
use crate::set_order::SetOrder;
use crate::track::assign::{Assignment, Matcher};

/// Memory reused in each frame; boxes and tracks are indices.
#[derive(Debug, Clone, Default)]
pub(super) struct Scratch {
    /// Boxes with a good and with a poor score.
    pub(super) good: Vec<usize>,
    pub(super) poor: Vec<usize>,
    /// Unpaired rows and columns of a round, in the reference's order.
    pub(super) rows_left: Vec<usize>,
    pub(super) cols_left: Vec<usize>,
    pub(super) order: SetOrder,
    /// Good boxes that no confirmed track took.
    pub(super) free: Vec<usize>,
    /// Good boxes that no track took.
    pub(super) unmatched: Vec<usize>,
    pub(super) outcome: Vec<Outcome>,
    /// Tracks of each round.
    pub(super) confirmed: Vec<usize>,
    pub(super) unconfirmed: Vec<usize>,
    pub(super) just_seen: Vec<usize>,
    /// Tracks without a box in this frame.
    pub(super) newly_lost: Vec<usize>,
    /// Number of matched tracks that were not lost before.
    pub(super) still_tracked: usize,
    pub(super) predicted: Vec<BBox>,
    pub(super) ids: Vec<TrackId>,
    pub(super) matcher: Matcher,
    pub(super) tracks: Vec<Track>,
    pub(super) duplicates: Vec<bool>,
}

/// Collects the remaining tracks into `scratch.tracks`, in the order of the reference.
pub(super) fn rebuild(tracks: &[Track], scratch: &mut Scratch) {
    let Scratch {
        outcome,
        newly_lost,
        still_tracked,
        tracks: rebuilt,
        ..
    } = scratch;
    rebuilt.clear();
    for kept in [Outcome::Matched, Outcome::FoundAgain, Outcome::StillLost] {
        let those = tracks
            .iter()
            .zip(&*outcome)
            .filter(|(_, outcome)| **outcome == kept);
        rebuilt.extend(those.map(|(track, _)| *track));
    }
    *still_tracked = outcome
        .iter()
        .filter(|outcome| **outcome == Outcome::Matched)
        .count();
    rebuilt.extend(newly_lost.iter().map(|&t| Track {
        sight: Sight::Lost { expired: false },
        ..tracks[t]
    }));
}

/// Replaces the contents of a list, reusing its memory.
pub(super) fn replace<T>(list: &mut Vec<T>, with: impl Iterator<Item = T>) {
    list.clear();
    list.extend(with);
}

/// The unpaired rows and columns of an assignment in the reference's order: that of a set, or
/// ascending where there was nothing to match.
pub(super) fn unpaired(
    found: &Assignment,
    order: &mut SetOrder,
    rows: &mut Vec<usize>,
    cols: &mut Vec<usize>,
) {
    replace(rows, found.free_rows.iter().copied());
    replace(cols, found.free_cols.iter().copied());
    let paired = found.pairs.len();
    let (of_rows, of_cols) = (paired + rows.len(), paired + cols.len());
    if of_rows > 0 && of_cols > 0 {
        order.arrange(of_rows, rows);
        order.arrange(of_cols, cols);
    }
}
