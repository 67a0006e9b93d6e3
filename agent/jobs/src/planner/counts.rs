//! How many pictures a request keeps: in all, of each group, or as a share.

use super::self_standing::COMPARISONS;
use super::unread_words::Words;
use super::words::{Choice, EACH, IN_TOTAL, is_picture_noun, number};

/// Most words of a limit, such as "no more than".
const MAX_LIMIT_WORDS: usize = 3;

impl Words {
    /// Uses up `in total` beside a choice with a number; returns whether it was there.
    pub(super) fn takes_all(&mut self, choice: Option<Choice>) -> bool {
        let has_number = choice.is_some_and(|choice| choice.count.is_some());
        has_number && self.take_one(IN_TOTAL).is_some()
    }

    /// `20 in all`, `at most 20 photos in total` or `no more than 20 overall`. The number beside a
    /// word for the best is another one: "the best 20 in total".
    pub(super) fn total(&mut self) -> Option<u64> {
        let (begin, count, end) = (0..self.len()).find_map(|at| {
            let count = self.get(at).and_then(number)?;
            let noun = at + 1 + usize::from(self.get(at + 1).is_some_and(is_picture_noun));
            let (_, end) = self.meaning(noun, IN_TOTAL)?;
            let begin = self.with_lead(at - self.limit_before(at).unwrap_or(0), &["but"]);
            (!self.is_behind_order(at)).then_some((begin, count, end))
        })?;
        self.use_up(begin, end - begin);
        Some(count)
    }

    /// `the best 10, at most 2 of each day`: what is kept of each, and of all.
    pub(super) fn limited(
        &mut self,
        choice: Option<Choice>,
        total: Option<u64>,
    ) -> (Option<Choice>, Option<u64>) {
        let numbered = choice.filter(|choice| choice.count.is_some() && total.is_none());
        let limit = numbered.and_then(|_| self.limit_of_each());
        let total = total.or(limit.and(choice).and_then(|choice| choice.count));
        let choice = choice.map(|choice| Choice {
            count: limit.or(choice.count),
            ..choice
        });
        (choice, total)
    }

    /// `at most 2 of each day`: the number.
    pub(super) fn limit_of_each(&mut self) -> Option<u64> {
        let limit = |place: usize| {
            let lead = self.limit_before(place)?;
            let noun = place + 1 + usize::from(self.get(place + 1).is_some_and(is_picture_noun));
            let is_of = self.is_one(noun, &["of", "from", "for", "in"]);
            let is_each = self.is_one(noun + usize::from(is_of), &EACH);
            Some((place - lead, place, number(self.get(place)?)?)).filter(|_| is_each)
        };
        let (begin, place, count) = (0..self.len()).find_map(limit)?;
        self.use_up(begin, place + 1 - begin);
        Some(count)
    }

    /// `20 percent`, perhaps with "of": the share that is kept.
    pub(super) fn percent(&mut self) -> Option<u64> {
        let is_share = |at: &usize| self.stands(at + 1, &["percent"]);
        let place = (0..self.len()).find(is_share)?;
        let percent = number(self.get(place)?).filter(|percent| *percent <= 100)?;
        self.use_up(place, 2);
        Some(percent)
    }

    /// The number of words of `at most` or the like before a number.
    pub(super) fn limit_before(&self, place: usize) -> Option<usize> {
        (1..=MAX_LIMIT_WORDS).rev().find_map(|count| {
            let (comparison, end) = self.meaning(place.checked_sub(count)?, COMPARISONS)?;
            (comparison == "<=" && end == place).then_some(count)
        })
    }
}
