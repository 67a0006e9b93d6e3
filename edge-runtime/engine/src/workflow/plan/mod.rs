//! From a definition to a plan: names, kinds, lineage, then numbered slots in topological order.

pub(crate) mod check;
pub(crate) mod compiled;
pub(crate) mod empty_zones;
pub(crate) mod facts;
pub(crate) mod fingerprint;
pub(crate) mod lineage;
pub(crate) mod literal;
pub(crate) mod numbering;
pub(crate) mod step;
