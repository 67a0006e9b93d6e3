//! Families of metrics with a bound on their series.
//!
//! - At most [`MAX_SERIES`] label sets are kept; more are counted together under `other`.

use std::hash::Hash;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus_client::metrics::family::Family;

/// Max label sets of one family.
pub const MAX_SERIES: usize = 512;

/// A family of at most [`MAX_SERIES`] label sets; the rest is counted under `other`.
pub(super) struct Bounded<L, M> {
    family: Family<L, M, fn() -> M>,
    series: AtomicUsize,
}

impl<L, M> Bounded<L, M>
where
    L: Clone + Hash + Eq,
    M: Clone,
{
    pub(super) fn new(make: fn() -> M) -> Self {
        Self {
            family: Family::new_with_constructor(make),
            series: AtomicUsize::new(0),
        }
    }

    /// Returns a handle for the registry.
    pub(super) fn family(&self) -> Family<L, M, fn() -> M> {
        self.family.clone()
    }

    /// Returns the metric of `label`, or that of `other` if the family is full.
    pub(super) fn metric(&self, label: L, other: impl FnOnce() -> L) -> impl Deref<Target = M> {
        if let Some(known) = self.family.get(&label) {
            return known;
        }
        // Two threads with one new label may count it twice: the bound is reached a little early.
        if self.series.fetch_add(1, Ordering::Relaxed) < MAX_SERIES {
            return self.family.get_or_create(&label);
        }
        self.series.store(MAX_SERIES, Ordering::Relaxed);
        self.family.get_or_create(&other())
    }
}
