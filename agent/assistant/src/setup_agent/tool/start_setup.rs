//! Hands a request over from a question to the set-up.

use futures_util::FutureExt as _;
use serde_json::json;

use super::super::facts::ToolFact;
use super::definition::{Tool, ToolOutcome, schema};
use crate::permissions::Effect;

pub(super) const TOOL: Tool = Tool {
    name: "start_setup",
    description: "Hands the request over to the set-up, which can propose changes: if the user \
        wants something watched, told, counted from now on, changed or stopped. It gets the \
        user's own words; you end.",
    schema: || schema(&json!({}), &[]),
    effect: Effect::Read,
    max_uses: 1,
    run: |_| async move { ToolOutcome::text("handed over").with_fact(ToolFact::HandOver) }.boxed(),
};
