//! Places for connections, so that no peer holds all of them.
//!
//! - At most [`PlaceLimits::all`] connections hold a place.
//! - One process holds at most [`PlaceLimits::process`].
//! - Processes of root and of the server's own user may use every place. All others leave
//!   [`PlaceLimits::reserved`] of them free, and one user holds at most [`PlaceLimits::user`].
//! - A connection that has to show a token first waits in its own pool of
//!   [`PlaceLimits::unproven`]. When that is full, the oldest of it is closed: connections without
//!   the token never keep out one with it.
//!
//! Not here: sockets, and what a token is.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::peer::Peer;

/// How many connections may be open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaceLimits {
    /// Of all peers together.
    pub(crate) all: usize,
    /// Kept free for root and the server's own user.
    pub(crate) reserved: usize,
    /// Of one user that is neither.
    pub(crate) user: usize,
    /// Of one process.
    pub(crate) process: usize,
    /// Without a token yet, where one is needed.
    pub(crate) unproven: usize,
}

impl Default for PlaceLimits {
    /// More than all requests, streams and file transfers at work, and few enough to leave
    /// descriptors for cameras and files.
    fn default() -> Self {
        Self {
            all: 256,
            reserved: 64,
            user: 128,
            process: 128,
            unproven: 32,
        }
    }
}

/// Why a connection gets no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoPlace {
    #[error("the server has no free connection; close idle ones and try again")]
    Full,
    #[error("this user has {0} connections open, the most that are served; close some")]
    User(usize),
    #[error("this process has {0} connections open, the most that are served; close some")]
    Process(usize),
}

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Places {
    limits: PlaceLimits,
    /// User of the server.
    own_uid: u32,
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Connections by user.
    users: BTreeMap<u32, usize>,
    /// Connections by process.
    processes: BTreeMap<i32, usize>,
    /// Connections without a token, the oldest first.
    unproven: VecDeque<(u64, Arc<Notify>)>,
    next_unproven: u64,
}

impl Places {
    pub(crate) fn new(limits: PlaceLimits, own_uid: u32) -> Arc<Self> {
        Arc::new(Self {
            limits,
            own_uid,
            taken: Mutex::default(),
            freed: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock()
    }

    /// Waits until any place is free.
    pub(crate) async fn wait_for_room(&self) {
        loop {
            let freed = self.freed.notified();
            if self.lock().all < self.limits.all {
                return;
            }
            freed.await;
        }
    }

    /// Takes a place for a connection of `peer`.
    ///
    /// # Errors
    /// Returns [`NoPlace`] at a limit.
    pub(crate) fn take(self: &Arc<Self>, peer: Peer) -> Result<Place, NoPlace> {
        self.lock().add(peer, &self.limits, self.own_uid)?;
        Ok(Place {
            places: Arc::clone(self),
            peer,
        })
    }

    /// Takes a place in the pool of connections without a token; closes its oldest if it is full.
    pub(crate) fn take_unproven(self: &Arc<Self>) -> Unproven {
        let close = Arc::new(Notify::new());
        let mut taken = self.lock();
        if taken.unproven.len() >= self.limits.unproven
            && let Some((_, oldest)) = taken.unproven.pop_front()
        {
            oldest.notify_one();
        }
        let number = taken.next_unproven;
        taken.next_unproven += 1;
        taken.unproven.push_back((number, Arc::clone(&close)));
        drop(taken);
        Unproven {
            places: Arc::clone(self),
            number,
            close,
        }
    }
}

impl Taken {
    fn add(&mut self, peer: Peer, limits: &PlaceLimits, own_uid: u32) -> Result<(), NoPlace> {
        if self.all >= limits.all {
            return Err(NoPlace::Full);
        }
        if let Peer::Process { uid, pid } = peer {
            let is_owner = uid == 0 || uid == own_uid;
            let of_process = pid.map_or(0, |pid| count(&self.processes, pid));
            if of_process >= limits.process {
                return Err(NoPlace::Process(limits.process));
            }
            if !is_owner {
                if self.all >= limits.all - limits.reserved.min(limits.all) {
                    return Err(NoPlace::Full);
                }
                if count(&self.users, uid) >= limits.user {
                    return Err(NoPlace::User(limits.user));
                }
            }
            if let Some(pid) = pid {
                *self.processes.entry(pid).or_default() += 1;
            }
            *self.users.entry(uid).or_default() += 1;
        }
        self.all += 1;
        Ok(())
    }

    fn remove(&mut self, peer: Peer) {
        self.all = self.all.saturating_sub(1);
        if let Peer::Process { uid, pid } = peer {
            subtract(&mut self.users, uid);
            if let Some(pid) = pid {
                subtract(&mut self.processes, pid);
            }
        }
    }
}

fn count<K: Ord>(counts: &BTreeMap<K, usize>, key: K) -> usize {
    counts.get(&key).copied().unwrap_or_default()
}

/// Subtracts one and forgets a key at zero.
fn subtract<K: Ord + Copy>(counts: &mut BTreeMap<K, usize>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

/// A place; dropping it frees it.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    peer: Peer,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().remove(self.peer);
        self.places.freed.notify_one();
    }
}

/// A place in the pool of connections without a token; dropping it frees it.
#[derive(Debug)]
pub(crate) struct Unproven {
    places: Arc<Places>,
    number: u64,
    close: Arc<Notify>,
}

impl Unproven {
    /// Waits until a newer connection needs the place.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }

    fn leave(&self) {
        let mut taken = self.places.lock();
        taken.unproven.retain(|(number, _)| *number != self.number);
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
    peer: Peer,
    unproven: Option<Unproven>,
    place: Mutex<Option<Place>>,
}

impl ConnectionPlace {
    /// Of a connection that needs no token.
    pub(crate) fn taken(place: Place) -> Self {
        Self(Arc::new(Held {
            peer: place.peer,
            unproven: None,
            place: Mutex::new(Some(place)),
        }))
    }

    /// Of a connection that has to show a token.
    pub(crate) fn unproven(unproven: Unproven, peer: Peer) -> Self {
        Self(Arc::new(Held {
            peer,
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
        let mut place = self.0.place.lock();
        if place.is_none() {
            let Ok(taken) = unproven.places.take(self.0.peer) else {
                return false;
            };
            *place = Some(taken);
            unproven.leave();
        }
        true
    }

    /// Waits until the connection must end for a newer one; never ready while it has a place.
    pub(crate) async fn closed(&self) {
        match &self.0.unproven {
            Some(unproven) => unproven.closed().await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: u32 = 990;
    const LIMITS: PlaceLimits = PlaceLimits {
        all: 10,
        reserved: 4,
        user: 3,
        process: 2,
        unproven: 2,
    };

    fn process(uid: u32, pid: i32) -> Peer {
        Peer::Process {
            uid,
            pid: Some(pid),
        }
    }

    #[test]
    fn other_users_leave_the_reserved_places_to_the_owner() {
        let places = Places::new(LIMITS, OWN);
        let others: Vec<_> = (0..9)
            .map(|n| places.take(process(1000 + n, n.cast_signed())))
            .collect();
        assert_eq!(others.iter().filter(|place| place.is_ok()).count(), 6);
        for (uid, pid) in [(OWN, 50), (0, 51)] {
            let place = places.take(process(uid, pid));
            assert!(place.is_ok());
            std::mem::forget(place);
        }
    }

    #[test]
    fn one_process_and_one_user_have_a_limit() {
        let places = Places::new(LIMITS, OWN);
        let held: Vec<_> = (0..2).map(|_| places.take(process(OWN, 7))).collect();
        assert!(held.iter().all(Result::is_ok));
        let of_process = places.take(process(OWN, 7)).err();
        assert_eq!(of_process, Some(NoPlace::Process(2)));
        let held: Vec<_> = (20..23).map(|pid| places.take(process(1, pid))).collect();
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(places.take(process(1, 23)).err(), Some(NoPlace::User(3)));
        drop(held);
        assert!(places.take(process(1, 23)).is_ok());
    }

    #[tokio::test]
    async fn full_pool_without_tokens_closes_its_oldest() {
        let places = Places::new(LIMITS, OWN);
        let oldest = places.take_unproven();
        let second = places.take_unproven();
        let proven = ConnectionPlace::unproven(second, Peer::Unknown);
        assert!(proven.prove());
        let third = places.take_unproven();
        let fourth = places.take_unproven();
        oldest.closed().await;
        for kept in [third, fourth] {
            let closed = tokio::time::timeout(std::time::Duration::ZERO, kept.closed());
            assert!(closed.await.is_err());
        }
    }

    #[tokio::test]
    async fn freed_place_wakes_the_listener() {
        let places = Places::new(PlaceLimits { all: 1, ..LIMITS }, OWN);
        let place = places.take(Peer::Unknown).unwrap();
        let waiting = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.wait_for_room().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(place);
        waiting.await.unwrap();
    }

    proptest! {
        /// Random takes and drops: no limit is exceeded, and each count returns to zero.
        #[test]
        fn counts_follow_the_open_connections(
            steps in prop::collection::vec((any::<bool>(), 0_u32..4, 0_i32..5), 0..200),
        ) {
            let places = Places::new(LIMITS, 0);
            let mut open: Vec<Place> = Vec::new();
            for (takes, uid, pid) in steps {
                if takes {
                    open.extend(places.take(process(uid, pid)));
                } else if !open.is_empty() {
                    open.remove(usize::try_from(pid).unwrap() % open.len());
                }
                let of = |wanted: u32| open.iter().filter(|place| {
                    matches!(place.peer, Peer::Process { uid, .. } if uid == wanted)
                }).count();
                prop_assert!(open.len() <= LIMITS.all);
                prop_assert!((1..4).all(|uid| of(uid) <= LIMITS.user));
                prop_assert_eq!(places.lock().all, open.len());
            }
            drop(open);
            let taken = places.lock();
            prop_assert!(taken.all == 0 && taken.users.is_empty() && taken.processes.is_empty());
        }
    }
}
