//! Properties of blocks that hold parts of the query language.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::grammar::{Chain, StatementGroup};
use crate::workflow::block_api::property::{Default as Or, Property};
use crate::workflow::block_api::shape::{Grammar, Shape};

fn fits<T: serde::de::DeserializeOwned>(json: &Json) -> Result<(), String> {
    let text = json.to_string();
    serde_json::from_str::<T>(&text).map(drop).map_err(|e| {
        let message = e.to_string();
        let end = message.rfind(" at line ").unwrap_or(message.len());
        message.get(..end).unwrap_or(&message).to_owned()
    })
}

pub(crate) const OPERATIONS: Shape = Shape::Grammar(Grammar {
    what: "a list of operations {\"type\": …}",
    json: "array",
    check: fits::<Chain>,
});

pub(crate) const CONDITION: Shape = Shape::Grammar(Grammar {
    what: "a StatementGroup",
    json: "object",
    check: fits::<StatementGroup>,
});

/// A property that holds named chains of operations; empty by default.
pub(crate) const fn named_operations(name: &'static str, about: &'static str) -> Property {
    const SHAPE: Shape = Shape::Grammar(Grammar {
        what: "a dictionary of lists of operations",
        json: "object",
        check: fits::<BTreeMap<String, Chain>>,
    });
    Property::literal(name, SHAPE)
        .about(about)
        .or(Or::EmptyDict)
}

/// The operations of blocks whose input is called `data`.
pub(crate) const DATA_OPERATIONS: Property =
    named_operations("data_operations", "operations to apply to the values first");
