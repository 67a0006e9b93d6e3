//! Places of requests that a language model plans.
//!
//! Invariant: [`MAX_PLANNING`] are with it at a time and [`MAX_WAITING`] wait, each for at most
//! [`MAX_WAIT`]. A further one is refused.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Most requests that a language model plans at a time.
pub const MAX_PLANNING: usize = 2;
/// Most requests that wait for a place.
pub const MAX_WAITING: usize = 8;
/// Longest time to wait for a place: as long as the calls of one request may take.
pub const MAX_WAIT: Duration = Duration::from_secs(180);

#[derive(Debug)]
pub struct ModelPlaces {
    planning: Semaphore,
    waiting: Semaphore,
}

impl Default for ModelPlaces {
    fn default() -> Self {
        Self {
            planning: Semaphore::new(MAX_PLANNING),
            waiting: Semaphore::new(MAX_WAITING),
        }
    }
}

impl ModelPlaces {
    /// Takes a place until it is dropped.
    ///
    /// # Errors
    /// A sentence, if too many requests wait already or none of the places becomes free.
    pub async fn take(&self) -> Result<SemaphorePermit<'_>, String> {
        self.take_within(MAX_WAIT).await
    }

    async fn take_within(&self, longest: Duration) -> Result<SemaphorePermit<'_>, String> {
        if let Ok(place) = self.planning.try_acquire() {
            return Ok(place);
        }
        let waiting = self.waiting.try_acquire();
        let _waits = waiting.map_err(|_| {
            format!("{MAX_WAITING} requests wait for it already; send the request again later")
        })?;
        let place = tokio::time::timeout(longest, self.planning.acquire()).await;
        let place = place.map_err(|_| {
            let seconds = longest.as_secs();
            format!("it was busy for {seconds} s; send the request again later")
        })?;
        place.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use futures_util::future::{join_all, poll_immediate};

    use super::*;

    #[tokio::test]
    async fn requests_wait_up_to_a_number_and_a_time() {
        let places = ModelPlaces::default();
        let short = Duration::from_millis(20);
        let first = places.take().await.unwrap();
        let _second = places.take().await.unwrap();
        let mut waiting: Vec<_> = (0..MAX_WAITING)
            .map(|_| Box::pin(places.take_within(short)))
            .collect();
        for one in &mut waiting {
            assert!(poll_immediate(one).await.is_none(), "it waits");
        }
        let refused = places.take().await.unwrap_err();
        assert!(refused.contains("requests wait"), "{refused}");
        let results = join_all(waiting).await;
        assert!(results.iter().all(Result::is_err), "{results:?}");
        drop(first);
        assert!(places.take().await.is_ok());
    }
}
