//! Time and randomness, as arguments of the shell.

use std::fmt;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use watchkeeper_contract::time::Wall;

/// Clocks and randomness of the shell.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the monotonic time.
    fn now(&self) -> Instant;
    /// Returns the wall clock with its quality.
    fn wall(&self) -> Wall;
    /// Completes after `pause`.
    fn sleep(&self, pause: Duration) -> BoxFuture<'_, ()>;
    /// Returns a number, uniform in 0..1.
    fn random(&self) -> f64;
}

/// The clocks of this machine. The caller provides the wall clock, with its quality.
pub struct SystemClock(Box<dyn Fn() -> Wall + Send + Sync>);

impl SystemClock {
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
