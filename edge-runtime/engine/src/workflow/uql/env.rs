//! What a chain may refer to while it is evaluated.

use super::budget::Budget;
use super::grammar::Parametrised;
use crate::workflow::block_api::block::Ids;
use crate::workflow::values::value::Value;

/// What a chain may refer to by name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Env<'a> {
    /// Parameters of the step.
    pub(crate) parameters: &'a Value,
    /// What `_` means: the element at hand.
    pub(crate) element: &'a Value,
    /// What the evaluation may still cost.
    pub(crate) budget: &'a Budget,
    /// By which random numbers are drawn.
    pub(crate) ids: &'a Ids,
}

impl Env<'_> {
    /// The value called `name`.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        if name == "_" && !self.element.is_null() {
            return Some(self.element.clone());
        }
        match self.parameters {
            Value::Dict(map) => map.get(name).cloned(),
            _ => None,
        }
    }

    /// A random number between these.
    pub(super) fn draw(&self, min: f64, max: f64) -> f64 {
        // Wyrand mixes neighbouring seeds well, so that the count itself is a good one.
        let share = fastrand::Rng::with_seed(self.ids.count()).f64();
        min + (max - min) * share
    }
}

impl<T: Clone> Parametrised<T> {
    /// The value, looked up if need be.
    pub(crate) fn resolve(
        &self,
        env: &Env<'_>,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, String> {
        match self {
            Self::Value(value) => Ok(value.clone()),
            Self::Name(name) => {
                let value = env
                    .get(name)
                    .ok_or_else(|| format!("there is no parameter {name}"))?;
                read(&value).ok_or_else(|| format!("parameter {name} can't be {}", value.what()))
            }
        }
    }
}
