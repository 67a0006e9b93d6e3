//! Pictures that may show damage which their decoder reported.
//!
//! - Pictures refer to earlier ones, so damage lasts until a key frame that the decoder took after
//!   the error, at most [`MAX_DAMAGED_NS`].
//! - A decoder holds several pictures and does not say which one an error is of: all that it gives
//!   after the error count.
//! - Times are presentation times in ns. A jump back by more than [`MAX_DAMAGED_NS`] ends damage.

/// Maximum length of damage. A camera that refreshes its picture part by part sends no key frame.
const MAX_DAMAGED_NS: u64 = 10_000_000_000;

/// Follows the errors of one decoder.
#[derive(Debug, Default)]
pub(super) struct Damage {
    /// Time of the newest picture that the decoder took.
    newest: u64,
    span: Option<Span>,
}

#[derive(Debug)]
struct Span {
    /// Time of the newest picture that the decoder had taken at the latest error.
    newest: u64,
    /// Time of the first picture without damage.
    end: u64,
}

impl Damage {
    /// Notes an error of the decoder.
    pub(super) fn begin(&mut self) {
        let newest = self.newest;
        let end = newest.saturating_add(MAX_DAMAGED_NS);
        self.span = Some(Span { newest, end });
    }

    /// Notes a picture that the decoder takes.
    pub(super) fn take(&mut self, pts: u64, is_key: bool) {
        if pts.saturating_add(MAX_DAMAGED_NS) < self.newest {
            *self = Self::default();
        }
        self.newest = self.newest.max(pts);
        if let Some(span) = self
            .span
            .as_mut()
            .filter(|span| is_key && pts > span.newest)
        {
            span.end = span.end.min(pts);
        }
    }

    /// Whether a picture that the decoder gives may be damaged.
    pub(super) fn reaches(&mut self, pts: u64) -> bool {
        self.span = self.span.take().filter(|span| pts < span.end);
        self.span.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn damage_lasts_until_a_key_frame_taken_after_the_error() {
        let mut damage = Damage::default();
        (0..=4).for_each(|pts| damage.take(pts, pts == 0 || pts == 3));
        assert!(!damage.reaches(0));
        damage.begin();
        // The key frame 3 was taken before the error, and may be the damaged picture.
        assert!((1..=6).all(|pts| damage.reaches(pts)));
        damage.take(9, true);
        assert_eq!(
            [8, 9, 10].map(|pts| damage.reaches(pts)),
            [true, false, false]
        );
    }

    #[test]
    fn damage_ends_where_times_jump_back() {
        let mut damage = Damage::default();
        damage.take(3_600 * SECOND, true);
        damage.begin();
        damage.take(0, true);
        assert!(!damage.reaches(0));
    }

    #[test]
    fn damage_ends_without_a_key_frame() {
        let mut damage = Damage::default();
        damage.take(SECOND, true);
        damage.begin();
        assert!(damage.reaches(10 * SECOND));
        assert!(!damage.reaches(11 * SECOND));
    }
}
