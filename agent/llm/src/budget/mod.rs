//! The budget: limits with the ceilings of classes, refusals, and the clock for days and months.
//! Pure: the ledger stores its state.

mod class;
mod clock;
mod hour;
mod limits;
mod refusal;
mod spending;

pub(crate) use class::rule_money;
pub use class::{CallClass, ClassCalls};
pub use clock::{BudgetClock, Moved};
pub(crate) use hour::HourlyCalls;
pub use limits::{Economy, Limits};
pub use refusal::{CallBound, Period, Refusal, RefusalCause};
pub(crate) use spending::Spending;
