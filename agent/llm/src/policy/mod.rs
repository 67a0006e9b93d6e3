//! When a call is retried, and when a provider is suspended. Sans-IO.

mod breaker;
mod retry;

pub use breaker::{Breaker, BreakerOpen, BreakerRules};
pub use retry::{Retry, RetryDecision, RetryRules};
