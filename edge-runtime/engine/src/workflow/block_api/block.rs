//! Blocks at run time: one instance per step, called once per element.
//!
//! Invariant: a block sees its properties as values in the order of its manifest and never a selector, a name or another
//! step; it reads no clock, the time is in the [`Call`]. A [`Block`] remembers nothing: one that does is
//! [`Stateful`](crate::workflow::block_api::stateful::Stateful).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use serde_json::{Map, Value as Json};
use watchkeeper_vision::detections::{DetectionId, Detections};
use watchkeeper_vision::geometry::Anchor;

use crate::workflow::block_api::host::Host;
use crate::workflow::values::image::ImageValue;
use crate::workflow::values::value::Value;

/// What a block is made from.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    /// Properties as the definition has them, by canonical name.
    pub(crate) literals: &'a Map<String, Json>,
}

impl Setup<'_> {
    /// Reads a property with a grammar of its own.
    ///
    /// # Errors
    /// Where it doesn't fit, which the check of the definition has excluded.
    pub(crate) fn parse<T: serde::de::DeserializeOwned>(
        &self,
        property: &str,
    ) -> Result<T, String> {
        let json = self.literals.get(property).cloned().unwrap_or(Json::Null);
        serde_json::from_value(json).map_err(|e| format!("{property}: {e}"))
    }
}

/// Where the values of a step's properties come from, for error messages.
pub(crate) trait ArgNames {
    /// Name of property `index`.
    fn property(&self, index: usize) -> Option<&str>;

    /// Name of the workflow input that property `index` reads.
    fn input(&self, index: usize) -> Option<&str>;
}

/// One call of a block.
pub(crate) struct Call<'a> {
    /// Name of the step.
    pub(crate) step: &'a str,
    /// Where the values of the properties come from, for error messages.
    pub(crate) arg_names: &'a dyn ArgNames,
    /// Monotonic time.
    pub(crate) now: Duration,
    /// Values of the properties, in the order of the manifest.
    pub(crate) args: &'a [Value],
    /// Where the outputs go, in the order of the manifest; all null at first.
    pub(crate) out: &'a mut [Value],
    /// What the outputs were in the last frame, for its memory; see [`Call::blank`].
    pub(crate) spare: &'a mut [Value],
    /// Which branches go on, in the order in which the definition declares them; all false at first.
    pub(crate) branches: &'a mut [bool],
    /// Keys of the branches of a dictionary property, in the same order.
    pub(crate) cases: &'a [Arc<str>],
    /// The program around the workflow.
    pub(crate) host: &'a mut dyn Host,
    /// Where new identities and random numbers come from.
    pub(crate) ids: &'a Ids,
    /// What all steps of this running workflow remember together.
    pub(crate) shared: &'a mut Shared,
    /// How many elements are still to come in this run; known only where the manifest says `whole_batch`.
    pub(crate) left: usize,
}

/// The count of a running workflow, by which identities are made for what blocks make anew, and random numbers are drawn.
/// It is saved with what the blocks remember, so that both go on over a restart.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// Tells this running workflow from others.
    pub(crate) stream: u64,
    /// The last number given.
    pub(crate) last: Cell<u64>,
}

impl Ids {
    /// The next number of the count.
    pub(crate) fn count(&self) -> u64 {
        let number = self.last.get().wrapping_add(1);
        self.last.set(number);
        number
    }
}

/// What all steps of a running workflow remember together: values by place and key. Bounded: of too many keys, that which
/// comes first in the alphabet is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Shared(BTreeMap<(Arc<str>, Arc<str>), Value>);

impl Shared {
    /// Most values remembered.
    const MOST: usize = 4096;

    /// The value of `key` at `place`.
    pub(crate) fn get(&self, place: &Arc<str>, key: &Arc<str>) -> Option<&Value> {
        self.0.get(&(Arc::clone(place), Arc::clone(key)))
    }

    /// Remembers a value.
    pub(crate) fn set(&mut self, place: &Arc<str>, key: &Arc<str>, value: Value) {
        self.0.insert((Arc::clone(place), Arc::clone(key)), value);
        if self.0.len() > Self::MOST {
            self.0.pop_first();
        }
    }

    /// Everything that is remembered, by place and key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&(Arc<str>, Arc<str>), &Value)> {
        self.0.iter()
    }
}

impl std::fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("step", &self.step)
            .field("now", &self.now)
            .field("args", &self.args)
            .finish_non_exhaustive()
    }
}

/// One step's instance of a block that remembers nothing: what it does follows from the call alone.
pub(crate) trait Block: Send + Sync {
    /// Works on one element.
    ///
    /// # Errors
    /// As [`Instance::run`].
    fn run(&self, call: &mut Call<'_>) -> Result<(), String>;
}

/// What one step remembers, as bytes.
pub(crate) trait Memory {
    /// Number of the form in which it is written.
    fn form(&self) -> u32;

    /// Writes it, in at most so many bytes.
    ///
    /// # Errors
    /// Why it can't be saved, in one sentence.
    fn write(&self, most: usize) -> Result<Vec<u8>, String>;

    /// Puts what was written in this form in its place.
    ///
    /// # Errors
    /// Why it can't be read; nothing has changed then.
    fn read(&mut self, bytes: &[u8]) -> Result<(), String>;
}

/// One step of a running workflow: a block, with its state where it has one.
pub(crate) trait Instance: Send {
    /// Works on one element.
    ///
    /// # Errors
    /// One sentence; the step fails for this element and the steps that need it are skipped.
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String>;

    /// What it remembers, to be saved.
    fn memory(&self) -> Option<&dyn Memory> {
        None
    }

    /// The same, to be restored.
    fn memory_mut(&mut self) -> Option<&mut dyn Memory> {
        None
    }
}

impl<B: Block> Instance for B {
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String> {
        Block::run(self, call)
    }
}

impl<'a> Call<'a> {
    /// Property `index`.
    #[must_use]
    pub(crate) fn arg(&self, index: usize) -> &'a Value {
        const NULL: &Value = &Value::Null;
        self.args.get(index).unwrap_or(NULL)
    }

    /// That property `index` is not what is `expected`: which one it is, and what can be done where an input of the workflow is meant to bring it.
    fn unfit(&self, index: usize, expected: &str) -> String {
        let found = self.arg(index);
        let what = found.what();
        let name = self.arg_names.property(index).unwrap_or("a property");
        let message = format!("{name}: {expected} expected, got {what}");
        match self.arg_names.input(index) {
            Some(input) if found.is_null() => format!(
                "{message}; give input {input} a value, or a default_value in the definition"
            ),
            Some(input) => format!("{message}; input {input} brings it"),
            None => message,
        }
    }

    /// Property `index` as detections.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn detections(&self, index: usize) -> Result<&'a Arc<Detections>, String> {
        match self.arg(index) {
            Value::Detections(d) => Ok(d),
            _ => Err(self.unfit(index, "detections")),
        }
    }

    /// Property `index` as an image.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn image(&self, index: usize) -> Result<&'a Arc<ImageValue>, String> {
        match self.arg(index) {
            Value::Image(image) => Ok(image),
            _ => Err(self.unfit(index, "an image")),
        }
    }

    /// Property `index` as a number, or `default` where it is null.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn number(&self, index: usize, default: f64) -> Result<f64, String> {
        match self.arg(index) {
            Value::Null => Ok(default),
            v => v.as_f64().ok_or_else(|| self.unfit(index, "a number")),
        }
    }

    /// [`number`](Self::number), also where it is a text that says one: what a model is asked may come so from a parameter.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn number_or_text(&self, index: usize, default: f64) -> Result<f64, String> {
        match self.arg(index).as_str().map(|text| text.trim().parse()) {
            Some(Ok(number)) => Ok(number),
            _ => self.number(index, default),
        }
    }

    /// Property `index` as a whole number, or `default` where it is null.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn integer(&self, index: usize, default: i64) -> Result<i64, String> {
        match self.arg(index) {
            Value::Null => Ok(default),
            v => v
                .as_i64()
                .ok_or_else(|| self.unfit(index, "a whole number")),
        }
    }

    /// Property `index` as a boolean, or `default` where it is null.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn boolean(&self, index: usize, default: bool) -> Result<bool, String> {
        match self.arg(index) {
            Value::Null => Ok(default),
            Value::Bool(b) => Ok(*b),
            _ => Err(self.unfit(index, "a boolean")),
        }
    }

    /// Property `index` as text.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn text(&self, index: usize) -> Result<&'a str, String> {
        let text = self.arg(index).as_str();
        text.ok_or_else(|| self.unfit(index, "a string"))
    }

    /// Property `index` as the name of an anchor; `None` where it is null.
    ///
    /// # Errors
    /// Where it is no such name.
    pub(crate) fn anchor(&self, index: usize) -> Result<Option<Anchor>, String> {
        if self.arg(index).is_null() {
            return Ok(None);
        }
        let name = self.text(index)?;
        let name_only: StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
        Anchor::deserialize(name_only)
            .map(Some)
            .map_err(|_| format!("{name:?} is no anchor; use CENTER, BOTTOM_CENTER and so on"))
    }

    /// An identity that no other box of this running workflow has.
    pub(crate) fn new_id(&self) -> DetectionId {
        DetectionId::Local {
            stream: self.ids.stream,
            number: self.ids.count(),
        }
    }

    /// An empty list of detections for output `index`, which nobody else holds: in the memory of the one that it had in the
    /// last frame, unless someone keeps that.
    pub(crate) fn blank(&mut self, index: usize) -> Arc<Detections> {
        let before = self.spare.get_mut(index).map(std::mem::take);
        let mut blank = match before {
            Some(Value::Detections(all)) => all,
            _ => return Arc::default(),
        };
        match Arc::get_mut(&mut blank) {
            Some(all) => {
                all.boxes.clear();
                blank
            }
            None => Arc::default(),
        }
    }

    /// Puts `value` into output `index`.
    pub(crate) fn put(&mut self, index: usize, value: impl Into<Value>) {
        if let Some(slot) = self.out.get_mut(index) {
            *slot = value.into();
        }
    }

    /// Lets branch `index` go on.
    pub(crate) fn go_on(&mut self, index: usize) {
        if let Some(branch) = self.branches.get_mut(index) {
            *branch = true;
        }
    }
}
