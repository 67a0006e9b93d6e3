//! Families of metrics with a bound on their series.
//!
//! - At most [`MAX_SERIES`] label sets are kept. Further ones are counted together: a name from
//!   outside becomes [`OTHER`], which is logged once.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus_client::metrics::family::Family;

/// Max label sets of one family.
pub const MAX_SERIES: usize = 512;

/// Value of names from outside in the series that counts what exceeds the bound.
const OTHER: &str = "other";

/// Names and values of labels. An owned value is a name from outside.
pub(super) type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// A family of at most [`MAX_SERIES`] label sets; the rest is counted under [`OTHER`].
pub(super) struct Bounded<const N: usize, M> {
    family: Family<Labels<N>, M, fn() -> M>,
    series: AtomicUsize,
}

impl<const N: usize, M: Clone> Bounded<N, M> {
    pub(super) fn new(make: fn() -> M) -> Self {
        Self {
            family: Family::new_with_constructor(make),
            series: AtomicUsize::new(0),
        }
    }

    /// Returns a handle for the registry.
    pub(super) fn family(&self) -> Family<Labels<N>, M, fn() -> M> {
        self.family.clone()
    }

    /// Returns the metric of `labels`, or that of [`OTHER`] if the family is full.
    pub(super) fn metric(&self, labels: Labels<N>) -> impl Deref<Target = M> {
        if let Some(known) = self.family.get(&labels) {
            return known;
        }
        // Two threads with one new label may count it twice: the bound is reached a little early.
        let before = self.series.fetch_add(1, Ordering::Relaxed);
        if before < MAX_SERIES {
            return self.family.get_or_create(&labels);
        }
        if before == MAX_SERIES {
            tracing::warn!(
                ?labels,
                "a metric has {MAX_SERIES} series; further names are counted as {OTHER:?}"
            );
        }
        self.series.store(MAX_SERIES + 1, Ordering::Relaxed);
        let others = labels.map(|(name, value)| match value {
            Cow::Owned(_) => (name, Cow::Borrowed(OTHER)),
            fixed => (name, fixed),
        });
        self.family.get_or_create(&others)
    }
}
