//! Sets of time, as rising intervals that do not touch.

/// A set of times, in milliseconds since 1970: rising intervals, start included, end excluded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Intervals(Vec<(i64, i64)>);

impl Intervals {
    /// One interval; empty if it ends before it starts.
    pub fn one(from: i64, to: i64) -> Self {
        [(from, to)].into_iter().collect()
    }

    /// The intervals, rising.
    pub fn as_slice(&self) -> &[(i64, i64)] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, moment: i64) -> bool {
        self.0
            .iter()
            .any(|(from, to)| (*from..*to).contains(&moment))
    }

    /// The sum of their lengths, in milliseconds.
    pub fn length(&self) -> i64 {
        self.0.iter().map(|(from, to)| to - from).sum()
    }

    /// First and last moment of all intervals; `None` if there are no intervals.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        Some((self.0.first()?.0, self.0.last()?.1))
    }

    /// The times in either set.
    pub fn union(&self, other: &Self) -> Self {
        self.0.iter().chain(&other.0).copied().collect()
    }

    /// The times in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Vec::new();
        let (mut one, mut two) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(a), Some(b)) = (one.peek(), two.peek()) {
            let (from, to) = (a.0.max(b.0), a.1.min(b.1));
            if from < to {
                both.push((from, to));
            }
            if a.1 < b.1 {
                one.next();
            } else {
                two.next();
            }
        }
        Self(both)
    }

    /// The times of this set that are not in `other`.
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = Vec::new();
        for &(mut from, to) in &self.0 {
            for &(start, end) in &other.0 {
                if end <= from || start >= to {
                    continue;
                }
                if from < start {
                    rest.push((from, start));
                }
                from = from.max(end);
            }
            if from < to {
                rest.push((from, to));
            }
        }
        Self(rest)
    }
}

impl FromIterator<(i64, i64)> for Intervals {
    fn from_iter<I: IntoIterator<Item = (i64, i64)>>(all: I) -> Self {
        let mut all: Vec<(i64, i64)> = all.into_iter().filter(|(from, to)| from < to).collect();
        all.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::with_capacity(all.len());
        for (from, to) in all {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Self(merged)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set() -> impl Strategy<Value = Vec<(i64, i64)>> {
        proptest::collection::vec((0_i64..40, 0_i64..40), 0..6)
    }

    proptest! {
        #[test]
        fn operations_agree_with_membership(one in set(), two in set()) {
            let has = |set: &[(i64, i64)], at| set.iter().any(|(from, to)| (*from..*to).contains(&at));
            let (a, b): (Intervals, Intervals) = (one.iter().copied().collect(), two.iter().copied().collect());
            for at in 0..40 {
                let (in_a, in_b) = (has(&one, at), has(&two, at));
                prop_assert_eq!(has(a.as_slice(), at), in_a);
                prop_assert_eq!(has(a.union(&b).as_slice(), at), in_a || in_b);
                prop_assert_eq!(has(a.intersection(&b).as_slice(), at), in_a && in_b);
                prop_assert_eq!(has(a.without(&b).as_slice(), at), in_a && !in_b);
            }
            for set in [&a, &a.union(&b), &a.intersection(&b), &a.without(&b)] {
                prop_assert!(set.as_slice().windows(2).all(|w| w[0].1 <= w[1].0));
                prop_assert!(set.as_slice().iter().all(|(from, to)| from < to));
            }
        }
    }
}
