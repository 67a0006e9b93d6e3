//! What counts against the limit of a day or a month, by class.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::class::CallClass;
use super::clock::Moved;
use super::refusal::{Period, Refusal};
use crate::money::Money;

/// Money of the current day or month. Kept apart from the sums of a date: a date may be corrected,
/// and what was spent must not vanish.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spending {
    /// Days or months since 1970.
    pub(crate) date: u64,
    pub(crate) spent: Money,
    /// The classified part of `spent`. The rest is of an older ledger and counts as that of
    /// persons.
    #[serde(default)]
    by_class: BTreeMap<CallClass, Money>,
    /// Number of periods since the start of the program.
    #[serde(skip)]
    pub(crate) epoch: u64,
}

impl Spending {
    /// Returns a period that begins with unclassified costs.
    pub(crate) fn new(date: u64, spent: Money) -> Self {
        Self {
            date,
            spent,
            ..Self::default()
        }
    }

    /// Changes to `date`; only time that passed starts a new period. Returns whether it did.
    pub(crate) fn set_date(&mut self, date: u64, moved: Moved) -> bool {
        let is_new = date != self.date && moved == Moved::Passed;
        self.date = date;
        if is_new {
            self.spent = Money::ZERO;
            self.by_class.clear();
            self.epoch += 1;
        }
        is_new
    }

    pub(crate) fn add(&mut self, class: CallClass, cost: Money) {
        self.spent += cost;
        *self.by_class.entry(class).or_default() += cost;
    }

    /// Replaces a reserved cost of `class` by the true one.
    pub(crate) fn correct(&mut self, class: CallClass, reserved: Money, cost: Money) {
        self.spent = self.spent.less(reserved) + cost;
        let of_class = self.by_class.entry(class).or_default();
        *of_class = of_class.less(reserved) + cost;
    }

    pub(crate) fn by_class(&self) -> &BTreeMap<CallClass, Money> {
        &self.by_class
    }

    /// Checks a call of `class` against every ceiling. A free call always fits.
    ///
    /// # Errors
    /// The refusal by the lowest ceiling. `ends_in` is the rest of this period.
    pub(crate) fn check(
        &self,
        period: Period,
        class: CallClass,
        needed: Money,
        limit: Money,
        ends_in: Duration,
    ) -> Result<(), Refusal> {
        if needed == Money::ZERO {
            return Ok(());
        }
        for bound in class.bounds() {
            let spent = self.spent_up_to(bound);
            let allowed = Money(bound.ceiling(limit.0));
            if spent + needed > allowed {
                return Err(Refusal::Money {
                    class,
                    bound,
                    period,
                    spent,
                    limit,
                    allowed,
                    needed,
                    // No wait helps where the call alone is above the ceiling.
                    free_in: (needed <= allowed).then_some(ends_in),
                });
            }
        }
        Ok(())
    }

    /// Returns what `class` and all lower ones spent.
    pub(crate) fn spent_up_to(&self, class: CallClass) -> Money {
        match class {
            CallClass::Person => self.spent,
            _ => self.by_class.range(..=class).map(|(_, cost)| *cost).sum(),
        }
    }
}
