//! Places for connections.
//!
//! - At most [`PlaceLimits::all`] connections hold a place; the next one waits to be accepted.
//! - A connection that has to show a token first waits in a pool of its own of
//!   [`PlaceLimits::unproven`]. When that is full, the oldest of it is closed: connections without
//!   the token never keep out one with it.
//!
//! Not here: sockets, what a token is, and the timeouts that end idle connections.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How many connections may be open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaceLimits {
    pub(crate) all: usize,
    /// Without a token yet, where one is needed.
    pub(crate) unproven: usize,
}

impl Default for PlaceLimits {
    /// More than all requests, streams and file transfers at work, and few enough to leave
    /// descriptors for cameras and files.
    fn default() -> Self {
        Self {
            all: 256,
            unproven: 32,
        }
    }
}

/// A place; dropping it frees it.
pub(crate) type Place = OwnedSemaphorePermit;

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    max_unproven: usize,
    /// Closes connections without a token, the oldest first.
    unproven: Mutex<VecDeque<Arc<Notify>>>,
}

impl Places {
    pub(crate) fn new(limits: PlaceLimits) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(limits.all)),
            max_unproven: limits.unproven,
            unproven: Mutex::default(),
        })
    }

    /// Waits for a free place and takes it.
    pub(crate) async fn take(&self) -> Place {
        let taken = Arc::clone(&self.free).acquire_owned().await;
        taken.expect("the semaphore is never closed")
    }

    /// Takes a place in the pool of connections without a token; closes its oldest if it is full.
    pub(crate) fn take_unproven(self: &Arc<Self>) -> Unproven {
        let close = Arc::new(Notify::new());
        let mut unproven = self.unproven();
        if unproven.len() >= self.max_unproven
            && let Some(oldest) = unproven.pop_front()
        {
            oldest.notify_one();
        }
        unproven.push_back(Arc::clone(&close));
        drop(unproven);
        Unproven {
            places: Arc::clone(self),
            close,
        }
    }

    fn unproven(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        let unproven = self.unproven.lock();
        unproven.unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the pool of connections without a token; dropping it frees it.
#[derive(Debug)]
pub(crate) struct Unproven {
    places: Arc<Places>,
    close: Arc<Notify>,
}

impl Unproven {
    fn leave(&self) {
        let mut unproven = self.places.unproven();
        unproven.retain(|close| !Arc::ptr_eq(close, &self.close));
    }
}

impl Drop for Unproven {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The place of the connection that a request came by.
#[derive(Debug, Clone)]
pub struct ConnectionPlace(Arc<Held>);

#[derive(Debug)]
struct Held {
    unproven: Option<Unproven>,
    place: Mutex<Option<Place>>,
}

impl ConnectionPlace {
    /// Of a connection that needs no token.
    pub(crate) fn taken(place: Place) -> Self {
        Self(Arc::new(Held {
            unproven: None,
            place: Mutex::new(Some(place)),
        }))
    }

    /// Of a connection that has to show a token.
    pub(crate) fn unproven(unproven: Unproven) -> Self {
        Self(Arc::new(Held {
            unproven: Some(unproven),
            place: Mutex::new(None),
        }))
    }

    /// Moves a connection that showed its token out of the pool of those without. False when the
    /// server is full: refuse the request.
    pub fn prove(&self) -> bool {
        let Some(unproven) = &self.0.unproven else {
            return true;
        };
        let mut place = self.0.place.lock().unwrap_or_else(PoisonError::into_inner);
        if place.is_none() {
            *place = Arc::clone(&unproven.places.free).try_acquire_owned().ok();
            if place.is_none() {
                return false;
            }
            unproven.leave();
        }
        true
    }

    /// Waits until the connection has to go for a newer one; pending forever where it has a place.
    pub(crate) async fn closed(&self) {
        match &self.0.unproven {
            Some(unproven) => unproven.close.notified().await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMITS: PlaceLimits = PlaceLimits {
        all: 1,
        unproven: 2,
    };

    #[tokio::test]
    async fn full_pool_without_tokens_closes_its_oldest() {
        let places = Places::new(LIMITS);
        let [oldest, second] = [(); 2].map(|()| ConnectionPlace::unproven(places.take_unproven()));
        assert!(second.prove());
        let newer = [(); 2].map(|()| ConnectionPlace::unproven(places.take_unproven()));
        oldest.closed().await;
        for kept in [&second, &newer[0], &newer[1]] {
            let closed = tokio::time::timeout(Duration::ZERO, kept.closed());
            assert!(closed.await.is_err());
        }
        assert!(!newer[0].prove(), "the only place is taken");
        drop(second);
        assert!(newer[0].prove());
    }
}
