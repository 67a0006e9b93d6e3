//! How many objects a request says there have to be.
//!
//! - A number is one of objects only before a class, or where a comparison says so.
//! - A number that no rule can tell stays unread.

use watchkeeper_contract::rule::CountBound;

use crate::names;
use crate::reader::{Reader, Slot, one_of};

/// A number that nothing compares is the least.
const BARE: &str = "<n>";

/// How many of them there have to be. `None`: nothing was said about that, or nothing that a rule
/// can tell, whose words stay unread.
pub(super) fn bound(r: &mut Reader<'_>) -> Option<CountBound> {
    const GOES_ON: &str = "are|is|at|in|on|there|stand|wait|.|,";
    let bounds = r.lexicon.phrases.bounds.iter();
    let bounds = bounds.flat_map(|of| of.words.iter().map(|pattern| (pattern.as_str(), of.is)));
    for (pattern, (shift, over)) in bounds.chain([(BARE, (-1, true))]) {
        let is_bare = pattern == BARE;
        let found = (0..r.tokens.len()).find_map(|at| {
            let found = r.fits(pattern, at)?;
            let (before, next) = (r.before(at), found.at.end);
            let is_part = one_of("-|–|/|#|only|just|exactly|than|least|most", before);
            let counted = names::class_begins(r, next);
            let ends = r.tokens.len() == next && one_of("are|is", before);
            // `stays for more than 3` is a time without its unit.
            let is_time = r.word(found.at.start.wrapping_sub(1)) == "for";
            let compares = !is_bare && !is_time && (ends || one_of(GOES_ON, r.any_word(next)));
            (!is_part && (counted || compares)).then_some(found)
        });
        let Some(found) = found else {
            continue;
        };
        let bound = limit(found.value(0), shift, over)?;
        if is_bare && r.word(found.at.start) == "one" {
            return None;
        }
        r.slot = Slot::Bound;
        r.mark(found.at);
        r.take_all(&["all? at the same time", "all? at once", "simultaneously"]);
        return Some(bound);
    }
    None
}

/// The bound that a number makes; none where it is no number of objects, or one that is never so.
fn limit(number: f64, shift: i64, over: bool) -> Option<CountBound> {
    if number.fract() != 0.0 || !(0.0..=1e6).contains(&number) {
        return None;
    }
    let limit = u32::try_from(number as i64 + shift).ok()?;
    match (over, limit) {
        (true, limit) => Some(CountBound::Over(limit)),
        (false, 0) => None,
        (false, limit) => Some(CountBound::Under(limit)),
    }
}
