//! The names that a chain may refer to while it is evaluated.
//!
//! - Random numbers depend only on the counter of the running workflow: a replay draws the same.

use super::budget::Budget;
use super::grammar::Parametrised;
use crate::workflow::block_api::call::IdCounter;
use crate::workflow::values::value::Value;

/// The names that a chain may refer to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Env<'a> {
    pub(crate) parameters: &'a Value,
    /// The current element, called `_`.
    pub(crate) element: &'a Value,
    /// Remaining cost of the evaluation.
    pub(crate) budget: &'a Budget,
    /// Source of random numbers.
    pub(crate) ids: &'a IdCounter,
}

impl Env<'_> {
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        if name == "_" && !self.element.is_null() {
            return Some(self.element.clone());
        }
        match self.parameters {
            Value::Dict(map) => map.get(name).cloned(),
            _ => None,
        }
    }

    /// Draws a random number from this range.
    pub(super) fn draw(&self, min: f64, max: f64) -> f64 {
        // Wyrand mixes neighbouring seeds well, so the counter is a good seed.
        let share = fastrand::Rng::with_seed(self.ids.count()).f64();
        min + (max - min) * share
    }
}

impl<T: Clone> Parametrised<T> {
    /// Returns the value, looked up by name if necessary.
    pub(crate) fn resolve(
        &self,
        env: &Env<'_>,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, String> {
        match self {
            Self::Value(value) => Ok(value.clone()),
            Self::Name(name) => {
                let value = env.get(name).ok_or_else(|| {
                    format!("there is no parameter {name}; add it to the parameters of the step")
                })?;
                read(&value).ok_or_else(|| format!("parameter {name} can't be {}", value.what()))
            }
        }
    }
}
