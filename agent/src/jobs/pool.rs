//! Which job runs and which waits. Sans-IO.
//!
//! - At most [`MAX_RUNNING`] jobs run and [`MAX_WAITING`] wait, in the order of their arrival; a
//!   further one is refused before it is created.
//! - Jobs that a start finds accepted wait beyond that bound.
//! - Not here: threads (`service`), what a job does (crate `jobs`).

use std::collections::VecDeque;

use watchkeeper_jobs::run::JobId;

/// Most jobs that run at a time: a short one does not wait behind one of thousands of pictures.
pub(crate) const MAX_RUNNING: usize = 2;
/// Most jobs that wait; a further one is refused.
pub const MAX_WAITING: usize = 16;

/// As many jobs wait as may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_WAITING} jobs wait already; wait for one to end, or cancel one")]
pub struct PoolFull;

/// Jobs that run and wait, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Pool {
    running: Vec<JobId>,
    waiting: VecDeque<JobId>,
    /// Places of jobs that are being created.
    reserved: usize,
}

impl Pool {
    /// Reserves a place for a job that [`Self::push`] or [`Self::release`] follows.
    pub(super) fn reserve(&mut self) -> Result<(), PoolFull> {
        if self.waiting.len() + self.reserved >= MAX_WAITING {
            return Err(PoolFull);
        }
        self.reserved += 1;
        Ok(())
    }

    pub(super) fn release(&mut self) {
        self.reserved = self.reserved.saturating_sub(1);
    }

    /// Queues a job in its reserved place.
    pub(super) fn push(&mut self, id: JobId) {
        self.release();
        self.restore(id);
    }

    /// Queues a job that was accepted before, without a bound.
    pub(super) fn restore(&mut self, id: JobId) {
        if !self.is_active(&id) {
            self.waiting.push_back(id);
        }
    }

    /// The next job to run, if a place is free.
    pub(super) fn take(&mut self) -> Option<JobId> {
        if self.running.len() >= MAX_RUNNING {
            return None;
        }
        let id = self.waiting.pop_front()?;
        self.running.push(id.clone());
        Some(id)
    }

    pub(super) fn finish(&mut self, id: &str) {
        self.running.retain(|running| running != id);
    }

    /// Removes a job that waits; false if it does not.
    pub(super) fn remove_waiting(&mut self, id: &str) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting != id);
        self.waiting.len() < before
    }

    pub(super) fn is_waiting(&self, id: &str) -> bool {
        self.waiting.iter().any(|waiting| waiting == id)
    }

    /// Whether a job runs or waits.
    pub(super) fn is_active(&self, id: &str) -> bool {
        self.is_waiting(id) || self.running.iter().any(|running| running == id)
    }

    /// Whether a job runs or waits, or may be the one that is being created.
    pub(super) fn may_be_active(&self, id: &str) -> bool {
        self.reserved > 0 || self.is_active(id)
    }

    /// Number of jobs that run, and that wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.running.len(), self.waiting.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pool_keeps_its_bounds_and_runs_each_job_once(
            acts in prop::collection::vec(0..4_u8, 0..200)
        ) {
            let mut pool = Pool::default();
            let (mut next, mut started, mut removed) = (0, Vec::new(), 0);
            for act in acts {
                match act {
                    0 | 1 => if pool.reserve().is_ok() {
                        pool.push(format!("{next}"));
                        next += 1;
                    },
                    2 => started.extend(pool.take()),
                    _ => match started.last() {
                        Some(id) => pool.finish(id),
                        None => removed += usize::from(pool.remove_waiting("0")),
                    },
                }
                let (running, waiting) = pool.counts();
                prop_assert!(running <= MAX_RUNNING && waiting <= MAX_WAITING);
            }
            let numbers: Vec<usize> = started.iter().filter_map(|id| id.parse().ok()).collect();
            let first = removed.min(1);
            prop_assert_eq!(numbers, (first..first + started.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn full_pool_refuses_until_a_place_is_free() {
        let mut pool = Pool::default();
        for n in 0..MAX_WAITING {
            assert_eq!(pool.reserve(), Ok(()));
            if n > 0 {
                pool.push(format!("{n}"));
            }
        }
        assert_eq!(pool.reserve(), Err(PoolFull));
        assert!(pool.may_be_active("one that is being created"));
        pool.release();
        assert!(!pool.may_be_active("one that is not there"));
        assert_eq!(pool.reserve(), Ok(()));
        assert!(pool.take().is_some());
        assert_eq!(pool.reserve(), Ok(()));
    }
}
