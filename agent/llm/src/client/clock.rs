//! Time and chance, as arguments of the shell.

use std::fmt;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use watchkeeper_contract::time::Wall;

/// What the shell knows about time, and its dice.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The monotonic clock.
    fn now(&self) -> Instant;
    /// The wall clock with what it is worth.
    fn wall(&self) -> Wall;
    /// Ends after `pause`.
    fn sleep(&self, pause: Duration) -> BoxFuture<'_, ()>;
    /// Uniform in 0..1.
    fn random(&self) -> f64;
}

/// The clocks of this machine. The wall clock comes from the caller, who knows what it is worth.
pub struct SystemClock(Box<dyn Fn() -> Wall + Send + Sync>);

impl SystemClock {
    /// With this wall clock.
    pub fn new(wall: impl Fn() -> Wall + Send + Sync + 'static) -> Self {
        Self(Box::new(wall))
    }
}

impl fmt::Debug for SystemClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SystemClock")
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall(&self) -> Wall {
        (self.0)()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'_, ()> {
        tokio::time::sleep(pause).boxed()
    }

    fn random(&self) -> f64 {
        fastrand::f64()
    }
}
