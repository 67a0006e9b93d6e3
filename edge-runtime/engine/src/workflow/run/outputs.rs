//! Reads the outputs of the last run, as values and as JSON.
//!
//! - Reading changes nothing; pixels are computed only if they are written out.

use std::sync::Arc;

use serde_json::{Map, Value as Json};
use watchkeeper_vision::detections::Detections;

use super::execution::Execution;
use crate::workflow::block_api::manifest::Role;
use crate::workflow::language::kinds::{Kind, KindSet};
use crate::workflow::plan::compiled::{OutputOf, SlotId};
use crate::workflow::values::image::Pixels;
use crate::workflow::values::json::{self, Pictures};
use crate::workflow::values::tree::Tree;
use crate::workflow::values::value::Value;

impl Execution {
    /// Returns the value of a slot after the last run; of a batch the first element.
    pub fn value(&self, slot: SlotId) -> Option<&Value> {
        self.memory.slots.get(slot.0)?.first()
    }

    /// Returns the output of a step after the last run; of a batch the first element.
    #[cfg(test)]
    pub(crate) fn output_of(&self, step: &str, output: &str) -> Option<&Value> {
        let step = self.plan.steps.iter().find(|s| *s.name == *step)?;
        self.value(step.slot(output)?)
    }

    pub fn detections(&self, slot: SlotId) -> Option<&Detections> {
        match self.value(slot)? {
            Value::Detections(all) => Some(all),
            _ => None,
        }
    }

    pub fn number(&self, slot: SlotId) -> Option<f64> {
        match self.value(slot)? {
            v @ (Value::Int(_) | Value::Float(_)) => v.as_f64(),
            _ => None,
        }
    }

    pub fn text(&self, slot: SlotId) -> Option<&str> {
        self.value(slot)?.as_str()
    }

    pub fn boolean(&self, slot: SlotId) -> Option<bool> {
        match self.value(slot)? {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// Serialises the outputs of the first element, pictures by size.
    pub fn outputs_json(&self) -> Json {
        self.row(0, Pictures::Size)
    }

    /// Serialises the outputs of every element of the batch.
    pub fn rows_json(&self, pictures: Pictures) -> Vec<Json> {
        (0..self.memory.batch)
            .map(|i| self.row(i, pictures))
            .collect()
    }

    fn row(&self, element: usize, pictures: Pictures) -> Json {
        let mut row = Map::new();
        for output in &self.plan.outputs {
            let write = json::Writer {
                pictures,
                in_root: output.in_root,
            };
            let one = |slot: usize| self.cell(slot, element, &write);
            let value = match &output.what {
                OutputOf::One(slot) => one(*slot),
                OutputOf::All(slots) => {
                    let depth = slots
                        .first()
                        .map_or(0, |(_, slot)| self.depth_in_row(*slot));
                    let all = slots.iter().map(|(name, slot)| (&**name, one(*slot)));
                    combine_outputs(all.collect(), depth)
                }
            };
            row.insert(output.name.clone(), value);
        }
        Json::Object(row)
    }

    /// Number of list levels of a slot's value within a row.
    fn depth_in_row(&self, slot: usize) -> usize {
        let info = self.plan.slots.get(slot);
        info.map_or(0, |info| info.depth - usize::from(info.by_row))
    }

    /// Serialises a slot for one element of the batch; a value without batch is the same for all.
    fn cell(&self, slot: usize, element: usize, write: &json::Writer) -> Json {
        let (Some(info), Some(tree)) = (self.plan.slots.get(slot), self.memory.slots.get(slot))
        else {
            return Json::Null;
        };
        if info.kinds == KindSet::of(&[Kind::Secret])
            && !matches!(tree.first(), None | Some(Value::Null))
        {
            return Json::from(json::HIDDEN);
        }
        if info.by_row {
            let row = tree.at(&[element]).unwrap_or(&Tree::Leaf(None));
            row.to_json(info.depth - 1, write)
        } else {
            tree.rows_to_json(info.depth, write)
        }
    }

    /// The picture of the last visualization step that ran, not rendered yet.
    pub fn output_image(&self) -> Option<Arc<dyn Pixels>> {
        self.plan
            .steps
            .iter()
            .rev()
            .filter(|s| s.manifest.role == Role::Visualization)
            .find_map(|s| match self.value(SlotId(s.first_slot))? {
                Value::Image(image) => Some(Arc::clone(&image.pixels)),
                _ => None,
            })
    }
}

/// Combines the outputs of a step: a dictionary by name, or lists of such dictionaries. A missing
/// element is null in each.
fn combine_outputs(outputs: Vec<(&str, Json)>, depth: usize) -> Json {
    if depth == 0 {
        let members = outputs.into_iter();
        return Json::Object(members.map(|(name, v)| (name.to_owned(), v)).collect());
    }
    let mut lists: Vec<(&str, std::vec::IntoIter<Json>)> = outputs
        .into_iter()
        .map(|(name, v)| match v {
            Json::Array(items) => (name, items.into_iter()),
            _ => (name, Vec::new().into_iter()),
        })
        .collect();
    let count = lists.iter().map(|(_, items)| items.len()).max();
    (0..count.unwrap_or(0))
        .map(|_| {
            let each = lists.iter_mut();
            let element = each.map(|(name, items)| (*name, items.next().unwrap_or_default()));
            combine_outputs(element.collect(), depth - 1)
        })
        .collect()
}
