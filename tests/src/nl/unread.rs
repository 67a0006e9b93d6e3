//! Fields of a task file that nothing reads.

use std::collections::BTreeMap;

use serde_json::Value;

/// Fields that a struct does not read, by name.
pub(super) type Rest = BTreeMap<String, Value>;
