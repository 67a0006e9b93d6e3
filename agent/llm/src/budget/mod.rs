//! The budget: limits, refusals, and the clock that tells days and months apart.

mod clock;
mod limits;

pub use clock::{BudgetClock, Moved};
pub use limits::{Economy, Limits, Period, Refusal};
