//! When a call is tried again, and when a provider is left alone. Sans-IO: time and randomness are arguments.

mod breaker;
mod retry;

pub use breaker::{Breaker, BreakerRules, Resting};
pub use retry::{Next, Retry, RetryRules};
