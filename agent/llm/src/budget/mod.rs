//! How much may be spent: limits, what a refused call says, and the clock by which days and months are told apart.

mod clock;
mod limits;

pub use clock::{BudgetClock, Moved};
pub use limits::{Economy, Limits, Period, Refusal};
