//! What counts against the limit of a day or a month, by class.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::class::{CallClass, rule_money};
use super::clock::Moved;
use super::refusal::{CallBound, Period, Refusal};
use crate::money::Money;

/// Maximum rules of a day with their own account; further ones share [`OTHER_RULES`].
const MAX_RULES: usize = 256;
/// Account of the rules above [`MAX_RULES`].
const OTHER_RULES: &str = "other rules";

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
    /// Of the day: the part of second opinions and chains, by pipeline and rule.
    #[serde(default)]
    by_rule: BTreeMap<String, Money>,
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
            self.by_rule.clear();
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

    pub(crate) fn account<'a>(&self, rule: &'a str) -> &'a str {
        match self.by_rule.len() < MAX_RULES || self.by_rule.contains_key(rule) {
            true => rule,
            false => OTHER_RULES,
        }
    }

    pub(crate) fn add_to_rule(&mut self, account: &str, cost: Money) {
        *self.by_rule.entry(account.to_owned()).or_default() += cost;
    }

    /// Replaces a reserved cost of a rule by the true one.
    pub(crate) fn correct_rule(&mut self, account: &str, reserved: Money, cost: Money) {
        if let Some(of_rule) = self.by_rule.get_mut(account) {
            *of_rule = of_rule.less(reserved) + cost;
        }
    }

    pub(crate) fn by_rule(&self) -> &BTreeMap<String, Money> {
        &self.by_rule
    }

    /// Checks a call of `class` for `rule` against the rule's share of a day. The first call of a
    /// rule is not bound by it, so one call a day fits whatever it may cost.
    ///
    /// # Errors
    /// The refusal by the share. `ends_in` is the rest of the day.
    pub(crate) fn check_rule(
        &self,
        class: CallClass,
        rule: &str,
        needed: Money,
        limit: Money,
        ends_in: Duration,
    ) -> Result<(), Refusal> {
        let account = self.account(rule);
        let spent = self.by_rule.get(account).copied().unwrap_or_default();
        let allowed = rule_money(limit);
        if needed == Money::ZERO || spent == Money::ZERO || spent + needed <= allowed {
            return Ok(());
        }
        Err(Refusal::Money {
            class,
            bound: CallBound::Rule(account.to_owned()),
            period: Period::Day,
            spent,
            limit,
            allowed,
            needed,
            free_in: Some(ends_in),
        })
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
                    bound: CallBound::Class(bound),
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
