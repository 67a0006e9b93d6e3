//! Blocks at run time: one instance per step, called once per element.
//!
//! - A block sees its properties as values, by [`Arg`]; never selectors or other steps.
//! - It reads no clock: the time is in the [`Call`].
//! - A [`Block`] has no state; without settings it is a function. One with state is
//!   [`Stateful`](crate::workflow::block_api::stateful::Stateful).

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

use crate::workflow::block_api::arg::Arg;
use crate::workflow::block_api::host::Host;
use crate::workflow::values::image::ImageValue;
use crate::workflow::values::value::Value;

/// What a block is built from.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    /// Properties as written in the definition, by canonical name.
    pub(crate) literals: &'a Map<String, Json>,
}

impl Setup<'_> {
    /// Parses a property with a grammar of its own.
    ///
    /// # Errors
    /// If it does not parse; the check of the definition excludes that.
    pub(crate) fn parse<T: serde::de::DeserializeOwned>(
        &self,
        property: &str,
    ) -> Result<T, String> {
        let json = self.literals.get(property).cloned().unwrap_or(Json::Null);
        serde_json::from_value(json).map_err(|e| format!("{property}: {e}"))
    }
}

/// Names behind the values of a step's properties, for error messages.
pub(crate) trait ArgNames {
    fn property(&self, index: usize) -> Option<&str>;

    /// Name of the workflow input that property `index` reads.
    fn input(&self, index: usize) -> Option<&str>;
}

pub(crate) struct Call<'a> {
    pub(crate) step: &'a str,
    /// Names behind the property values, for error messages.
    pub(crate) arg_names: &'a dyn ArgNames,
    pub(crate) now: Duration,
    /// Values of the properties, in the order of the manifest.
    pub(crate) args: &'a [Value],
    /// Outputs, in the order of the manifest; all null at first.
    pub(crate) out: &'a mut [Value],
    /// Outputs of the last frame, whose memory is reused; see [`Call::blank`].
    pub(crate) spare: &'a mut [Value],
    /// Which outputs anything reads, in the order of the manifest.
    pub(crate) read: &'a [bool],
    /// Which branches continue, in the definition's order; all false at first.
    pub(crate) branches: &'a mut [bool],
    /// Keys of the branches of a dictionary property, in the same order.
    pub(crate) cases: &'a [Arc<str>],
    pub(crate) host: &'a mut dyn Host,
    /// Source of identities and random numbers.
    pub(crate) ids: &'a IdCounter,
    /// State shared by all steps of this running workflow.
    pub(crate) shared: &'a mut SharedState,
    /// Number of elements to come in this run; known only if the manifest sets `whole_batch`.
    pub(crate) left: usize,
    /// Whether the source has ended. The block has seen this element before, and decides what it
    /// left undecided. Only lines are called then.
    pub(crate) is_end: bool,
}

/// The counter of a running workflow, from which identities and random numbers are derived. It is
/// saved with the state of the blocks.
#[derive(Debug, Default)]
pub(crate) struct IdCounter {
    /// Distinguishes this running workflow from others.
    pub(crate) stream: u64,
    pub(crate) last: Cell<u64>,
}

impl IdCounter {
    /// Returns the next number.
    pub(crate) fn count(&self) -> u64 {
        let number = self.last.get().wrapping_add(1);
        self.last.set(number);
        number
    }
}

/// State shared by all steps of a running workflow: values by place and key. Beyond
/// [`Self::MAX_ENTRIES`] the alphabetically first key is evicted.
#[derive(Debug, Default)]
pub(crate) struct SharedState(BTreeMap<(Arc<str>, Arc<str>), Value>);

impl SharedState {
    const MAX_ENTRIES: usize = 4096;

    pub(crate) fn get(&self, place: &Arc<str>, key: &Arc<str>) -> Option<&Value> {
        self.0.get(&(Arc::clone(place), Arc::clone(key)))
    }

    pub(crate) fn set(&mut self, place: &Arc<str>, key: &Arc<str>, value: Value) {
        self.0.insert((Arc::clone(place), Arc::clone(key)), value);
        if self.0.len() > Self::MAX_ENTRIES {
            self.0.pop_first();
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&(Arc<str>, Arc<str>), &Value)> {
        self.0.iter()
    }
}

/// One step's block without state: its result depends on the call alone.
pub(crate) trait Block: Send + Sync {
    /// Processes one element.
    ///
    /// # Errors
    /// See [`Instance::run`].
    fn run(&self, call: &mut Call<'_>) -> Result<(), String>;
}

/// The state of one step, as bytes.
pub(crate) trait Memory {
    /// Version of the format.
    fn form(&self) -> u32;

    /// Serialises the state in at most `max_bytes` bytes.
    ///
    /// # Errors
    /// If it can't be saved.
    fn write(&self, max_bytes: usize) -> Result<Vec<u8>, String>;

    /// Restores state saved in this format version.
    ///
    /// # Errors
    /// If it can't be read; the state is unchanged then.
    fn read(&mut self, bytes: &[u8]) -> Result<(), String>;
}

/// One step of a running workflow: a block, with its state if it has one.
pub(crate) trait Instance: Send {
    /// Processes one element.
    ///
    /// # Errors
    /// The step fails for this element; steps that need it are skipped.
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String>;

    /// The state to save.
    fn memory(&self) -> Option<&dyn Memory> {
        None
    }

    /// The state to restore.
    fn memory_mut(&mut self) -> Option<&mut dyn Memory> {
        None
    }
}

/// A block without settings is a function.
impl<F: Fn(&mut Call<'_>) -> Result<(), String> + Send + Sync> Block for F {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        self(call)
    }
}

impl<B: Block> Instance for B {
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String> {
        Block::run(self, call)
    }
}

impl<'a> Call<'a> {
    /// Value of a property; null if the version lacks it.
    pub(crate) fn arg(&self, arg: Arg) -> &'a Value {
        const NULL: &Value = &Value::Null;
        let here = self.arg_names.property(arg.index);
        debug_assert!(
            here.is_none_or(|name| arg.fits(name)),
            "{arg:?} is {here:?}"
        );
        self.args.get(arg.index).unwrap_or(NULL)
    }

    /// The property of this name, for blocks whose versions have it at different places.
    pub(crate) fn named(&self, name: &str) -> Arg {
        let is_it = |index: &usize| self.arg_names.property(*index) == Some(name);
        Arg::at((0..self.args.len()).find(is_it).unwrap_or(usize::MAX), &[])
    }

    /// The error that property `arg` is not what is `expected`, with the remedy if a workflow
    /// input supplies it.
    fn unfit(&self, arg: Arg, expected: &str) -> String {
        let found = self.arg(arg);
        let what = found.what();
        let name = self.arg_names.property(arg.index).unwrap_or("a property");
        let message = format!("{name}: {expected} expected, got {what}");
        match self.arg_names.input(arg.index) {
            Some(input) if found.is_null() => format!(
                "{message}; give input {input} a value, or a default_value in the definition"
            ),
            Some(input) => format!("{message}; the value is from input {input}"),
            None => message,
        }
    }

    /// Property `arg` as detections.
    ///
    /// # Errors
    /// If it is something else.
    pub(crate) fn detections(&self, arg: Arg) -> Result<&'a Arc<Detections>, String> {
        match self.arg(arg) {
            Value::Detections(d) => Ok(d),
            _ => Err(self.unfit(arg, "detections")),
        }
    }

    /// Property `arg` as an image.
    ///
    /// # Errors
    /// If it is something else.
    pub(crate) fn image(&self, arg: Arg) -> Result<&'a Arc<ImageValue>, String> {
        match self.arg(arg) {
            Value::Image(image) => Ok(image),
            _ => Err(self.unfit(arg, "an image")),
        }
    }

    /// Property `arg` as a number, or `default` if it is null.
    ///
    /// # Errors
    /// If it is something else.
    pub(crate) fn number(&self, arg: Arg, default: f64) -> Result<f64, String> {
        match self.arg(arg) {
            Value::Null => Ok(default),
            v => v.as_f64().ok_or_else(|| self.unfit(arg, "a number")),
        }
    }

    /// Like [`number`](Self::number), also from text: parameters may be given as text.
    ///
    /// # Errors
    /// If it is something else.
    pub(crate) fn number_or_text(&self, arg: Arg, default: f64) -> Result<f64, String> {
        match self.arg(arg).as_str().map(|text| text.trim().parse()) {
            Some(Ok(number)) => Ok(number),
            _ => self.number(arg, default),
        }
    }

    /// Property `arg` as an integer, or `default` if it is null.
    ///
    /// # Errors
    /// If it is something else.
    pub(crate) fn integer(&self, arg: Arg, default: i64) -> Result<i64, String> {
        match self.arg(arg) {
            Value::Null => Ok(default),
            v => v.as_i64().ok_or_else(|| self.unfit(arg, "a whole number")),
        }
    }

    /// Property `arg` as a boolean, or `default` if it is null.
    ///
    /// # Errors
    /// If it is something else.
    pub(crate) fn boolean(&self, arg: Arg, default: bool) -> Result<bool, String> {
        match self.arg(arg) {
            Value::Null => Ok(default),
            Value::Bool(b) => Ok(*b),
            _ => Err(self.unfit(arg, "a boolean")),
        }
    }

    /// Property `arg` as text.
    ///
    /// # Errors
    /// If it is something else.
    pub(crate) fn text(&self, arg: Arg) -> Result<&'a str, String> {
        let text = self.arg(arg).as_str();
        text.ok_or_else(|| self.unfit(arg, "a string"))
    }

    /// Property `arg` as the name of an anchor; `None` if it is null.
    ///
    /// # Errors
    /// If it is no anchor.
    pub(crate) fn anchor(&self, arg: Arg) -> Result<Option<Anchor>, String> {
        if self.arg(arg).is_null() {
            return Ok(None);
        }
        let name = self.text(arg)?;
        let name_only: StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
        Anchor::deserialize(name_only).map(Some).map_err(|_| {
            format!("{name:?} is not an anchor; use one such as CENTER or BOTTOM_CENTER")
        })
    }

    /// Returns an identity that is unique in this running workflow.
    pub(crate) fn new_id(&self) -> DetectionId {
        DetectionId::Local {
            stream: self.ids.stream,
            number: self.ids.count(),
        }
    }

    /// Returns an empty list of detections for output `index`, reusing the memory of the last
    /// frame's unless it has another holder.
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

    /// Returns whether a step or an output of the workflow reads output `index`.
    pub(crate) fn is_read(&self, index: usize) -> bool {
        self.read.get(index).is_none_or(|is_read| *is_read)
    }

    /// Sets output `index`.
    pub(crate) fn put(&mut self, index: usize, value: impl Into<Value>) {
        if let Some(slot) = self.out.get_mut(index) {
            *slot = value.into();
        }
    }

    /// Lets branch `index` continue.
    pub(crate) fn take_branch(&mut self, index: usize) {
        if let Some(branch) = self.branches.get_mut(index) {
            *branch = true;
        }
    }
}
