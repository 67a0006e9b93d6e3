//! Where a change is reported.

use crate::backend_in_use::ChangeReport;

/// Receiver of a change's result.
pub trait ChangeReporter: Sync {
    /// Takes the begin of a change, or its result. Progress is not reported.
    fn report(&self, report: &ChangeReport);

    /// Whether the program stops. What is built then is cancelled, and its failure is no result.
    fn is_stopping(&self) -> bool;

    /// Lowers the priority of the calling thread.
    fn lower_priority(&self);
}
