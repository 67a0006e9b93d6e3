//! The call of a block for one element: values of its properties, outputs, time and host.
//!
//! - A reader such as [`Call::number`] returns the declared default where a value is null. It
//!   returns an error that names the property where the value is something else.
//! - A block reads a property by [`Arg`]; never selectors or other steps.

use std::cell::Cell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use watchkeeper_vision::detections::{DetectionId, Detections};
use watchkeeper_vision::geometry::Anchor;

use crate::workflow::block_api::arg::Arg;
use crate::workflow::block_api::host::Host;
use crate::workflow::block_api::property::{Default, Property};
use crate::workflow::block_api::shape::Shape;
use crate::workflow::block_api::shared_state::SharedState;
use crate::workflow::values::image::{ImageValue, VideoMeta};
use crate::workflow::values::value::Value;

/// The declared properties of a step, and the workflow inputs that they read.
pub(crate) trait Declarations {
    fn property(&self, index: usize) -> Option<&'static Property>;

    /// Name of the workflow input that property `index` reads.
    fn input(&self, index: usize) -> Option<&str>;
}

pub(crate) struct Call<'a> {
    pub(crate) step: &'a str,
    /// Defaults of the properties, and names for error messages.
    pub(crate) declared: &'a dyn Declarations,
    pub(crate) now: Duration,
    /// Values of the properties, in the order of the manifest.
    pub(crate) args: &'a [Value],
    /// Outputs, in the order of the manifest; all null at first.
    pub(crate) out: &'a mut [Value],
    /// Outputs of the last frame, whose memory is reused; see [`Call::blank`].
    pub(crate) spare: &'a mut [Value],
    /// For each output, in the order of the manifest, whether anything reads it.
    pub(crate) read: &'a [bool],
    /// For each branch, in the definition's order, whether it continues; all false at first.
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

pub(crate) fn anchor(name: &str) -> Result<Anchor, String> {
    let name_only: StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
    Anchor::deserialize(name_only)
        .map_err(|_| format!("{name:?} is not an anchor; use one such as CENTER or BOTTOM_CENTER"))
}

impl<'a> Call<'a> {
    /// Value of a property; null if the version lacks it.
    pub(crate) fn arg(&self, arg: Arg) -> &'a Value {
        const NULL: &Value = &Value::Null;
        let here = self.declared.property(arg.index);
        debug_assert!(
            here.is_none_or(|property| arg.fits(property.name)),
            "{arg:?} is {here:?}"
        );
        self.args.get(arg.index).unwrap_or(NULL)
    }

    /// The property of this name, for blocks whose versions have it at different places.
    pub(crate) fn named(&self, name: &str) -> Arg {
        let has_name = |p: &Property| p.name == name;
        let is_it = |index: &usize| self.declared.property(*index).is_some_and(has_name);
        Arg::at((0..self.args.len()).find(is_it).unwrap_or(usize::MAX), &[])
    }

    /// Returns whether this version has the property.
    pub(crate) fn has(&self, arg: Arg) -> bool {
        self.declared.property(arg.index).is_some()
    }

    /// Name of a property, for messages.
    pub(crate) fn name(&self, arg: Arg) -> &'static str {
        self.declared
            .property(arg.index)
            .map_or("a property", |property| property.name)
    }

    /// The error that property `arg` is not what is `expected`, with the remedy if a workflow
    /// input supplies it.
    pub(crate) fn unfit(&self, arg: Arg, expected: &str) -> String {
        let what = self.arg(arg).what();
        self.invalid(arg, &format!("{expected} expected, got {what}"))
    }

    /// Like [`unfit`](Self::unfit) for a list; names the first item that does not fit.
    fn unfit_list(&self, arg: Arg, expected: &str, fits: fn(&Value) -> bool) -> String {
        let mut items = self.arg(arg).as_list().unwrap_or_default().iter();
        match items.find(|item| !fits(item)) {
            Some(item) => {
                let what = item.what();
                self.invalid(arg, &format!("{expected} expected, but it contains {what}"))
            }
            None => self.unfit(arg, expected),
        }
    }

    fn invalid(&self, arg: Arg, problem: &str) -> String {
        let found = self.arg(arg);
        let message = format!("{}: {problem}", self.name(arg));
        match self.declared.input(arg.index) {
            Some(input) if found.is_null() => format!(
                "{message}; give input {input} a value, or a default_value in the definition"
            ),
            Some(input) => format!("{message}; the value is from input {input}"),
            None => message,
        }
    }

    /// Property `arg` as `read` takes it; where it is null, its declared default.
    fn or_default<T>(
        &self,
        arg: Arg,
        expected: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, String> {
        let read_value = match self.arg(arg) {
            Value::Null => {
                let declared = self.declared.property(arg.index);
                let default = declared.map(|property| property.default);
                debug_assert!(
                    !matches!(default, None | Some(Default::Null)),
                    "{arg:?} of step {} has no default; read it by `optional`",
                    self.step
                );
                let default = default.and_then(Default::to_json);
                default.map(Value::from).as_ref().and_then(read)
            }
            value => read(value),
        };
        read_value.ok_or_else(|| self.unfit(arg, expected))
    }

    /// Property `arg` by one of the readers below; `None` if it is null, whatever its default.
    pub(crate) fn optional<T>(
        &self,
        arg: Arg,
        read: impl FnOnce(&Self, Arg) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        if self.arg(arg).is_null() {
            return Ok(None);
        }
        read(self, arg).map(Some)
    }

    /// Property `arg` as detections.
    pub(crate) fn detections(&self, arg: Arg) -> Result<&'a Arc<Detections>, String> {
        match self.arg(arg) {
            Value::Detections(d) => Ok(d),
            _ => Err(self.unfit(arg, "detections")),
        }
    }

    /// Property `arg` as detections that all have track ids.
    pub(crate) fn tracked(&self, arg: Arg) -> Result<&'a Arc<Detections>, String> {
        let all = self.detections(arg)?;
        if all.boxes.iter().all(|d| d.track.is_some()) {
            return Ok(all);
        }
        let why = "the detections have no track ids; put a byte_tracker step in front of this one";
        Err(why.to_owned())
    }

    /// Property `arg` as an image.
    pub(crate) fn image(&self, arg: Arg) -> Result<&'a Arc<ImageValue>, String> {
        match self.arg(arg) {
            Value::Image(image) => Ok(image),
            _ => Err(self.unfit(arg, "an image")),
        }
    }

    /// Position in its video of the frame that property `arg` is, or the position itself.
    pub(crate) fn video(&self, arg: Arg) -> Result<&'a Arc<VideoMeta>, String> {
        match self.arg(arg) {
            Value::Image(image) => Ok(&image.meta),
            Value::Meta(meta) => Ok(meta),
            _ => Err(self.unfit(arg, "an image")),
        }
    }

    /// Property `arg` as a number, or its default if it is null.
    pub(crate) fn number(&self, arg: Arg) -> Result<f64, String> {
        self.or_default(arg, "a number", Value::as_f64)
    }

    /// Like [`number`](Self::number), also from text: parameters may be given as text.
    pub(crate) fn number_or_text(&self, arg: Arg) -> Result<f64, String> {
        match self.arg(arg).as_str().map(|text| text.trim().parse()) {
            Some(Ok(number)) => Ok(number),
            _ => self.number(arg),
        }
    }

    /// Like [`number`](Self::number), within the bounds of its shape also where another step
    /// supplies it. Between the bounds of an integer, a fraction is accepted.
    pub(crate) fn bounded(&self, arg: Arg) -> Result<f64, String> {
        let bounds = match self.declared.property(arg.index).map(|p| p.shape) {
            Some(Shape::Integer(least, most)) => least as f64..=most as f64,
            Some(Shape::Number(least, most)) => least..=most,
            _ => return Err(format!("{} is declared without bounds", self.name(arg))),
        };
        let is_open = *bounds.end() >= i64::MAX as f64;
        self.in_range(arg, self.number(arg)?, &bounds, is_open)
    }

    /// Like [`integer`](Self::integer), within the bounds of its shape also where another step
    /// supplies it.
    pub(crate) fn bounded_integer<T: TryFrom<i64>>(&self, arg: Arg) -> Result<T, String> {
        match self.declared.property(arg.index).map(|p| p.shape) {
            Some(Shape::Integer(least, most)) => self.integer_in(arg, least..=most),
            _ => Err(format!("{} is not declared as an integer", self.name(arg))),
        }
    }

    /// Property `arg` as an integer, or its default if it is null.
    pub(crate) fn integer(&self, arg: Arg) -> Result<i64, String> {
        self.or_default(arg, "a whole number", Value::as_i64)
    }

    /// Like [`integer`](Self::integer), within bounds that are narrower than those of its shape.
    pub(crate) fn integer_in<T: TryFrom<i64>>(
        &self,
        arg: Arg,
        bounds: RangeInclusive<i64>,
    ) -> Result<T, String> {
        let is_open = *bounds.end() == i64::MAX;
        let integer = self.in_range(arg, self.integer(arg)?, &bounds, is_open)?;
        self.sized(arg, integer)
    }

    /// Like [`integer`](Self::integer), with the nearer bound instead of a number beyond it.
    pub(crate) fn clamped<T: TryFrom<i64>>(
        &self,
        arg: Arg,
        bounds: RangeInclusive<i64>,
    ) -> Result<T, String> {
        let integer = self.integer(arg)?.clamp(*bounds.start(), *bounds.end());
        self.sized(arg, integer)
    }

    /// The integer as a type of another size; its bounds should be those of this type.
    fn sized<T: TryFrom<i64>>(&self, arg: Arg, integer: i64) -> Result<T, String> {
        T::try_from(integer).map_err(|_| format!("{}: {integer} is out of range", self.name(arg)))
    }

    fn in_range<T: PartialOrd + Display>(
        &self,
        arg: Arg,
        number: T,
        bounds: &RangeInclusive<T>,
        is_open: bool,
    ) -> Result<T, String> {
        if bounds.contains(&number) {
            return Ok(number);
        }
        let (name, least, most) = (self.name(arg), bounds.start(), bounds.end());
        let range = match is_open {
            true => format!("{least} or more"),
            false => format!("from {least} to {most}"),
        };
        Err(format!("{name} is {number} and has to be {range}"))
    }

    /// Property `arg` as a boolean, or its default if it is null.
    pub(crate) fn boolean(&self, arg: Arg) -> Result<bool, String> {
        let as_bool = |value: &Value| match value {
            Value::Bool(b) => Some(*b),
            _ => None,
        };
        self.or_default(arg, "a boolean", as_bool)
    }

    /// Property `arg` as text, or its default if it is null.
    pub(crate) fn text(&self, arg: Arg) -> Result<&'a str, String> {
        let default = self.declared.property(arg.index).map(|p| p.default);
        let text = match (self.arg(arg), default) {
            (Value::Null, Some(Default::Text(default))) => Some(default),
            (value, _) => value.as_str(),
        };
        text.ok_or_else(|| self.unfit(arg, "a string"))
    }

    /// Property `arg` as the numbers of a list or array.
    pub(crate) fn numbers(&self, arg: Arg) -> Result<Vec<f64>, String> {
        let numbers = self.arg(arg).as_numbers();
        let is_number = |item: &Value| item.as_f64().is_some();
        numbers.ok_or_else(|| self.unfit_list(arg, "a list of numbers", is_number))
    }

    /// Property `arg` as a list of texts.
    pub(crate) fn texts(&self, arg: Arg) -> Result<Vec<&'a Arc<str>>, String> {
        let texts = self.arg(arg).as_list().and_then(|items| {
            let text = |item: &'a Value| match item {
                Value::Text(text) => Some(text),
                _ => None,
            };
            items.iter().map(text).collect()
        });
        let is_text = |item: &Value| item.as_str().is_some();
        texts.ok_or_else(|| self.unfit_list(arg, "a list of texts", is_text))
    }

    /// Value in `table` of the name in property `arg`, or of its default if it is null.
    /// [`names_of`](crate::workflow::block_api::shape::names_of) makes the property's shape from
    /// the same table.
    pub(crate) fn choice<T: Copy>(&self, arg: Arg, table: &[(&str, T)]) -> Result<T, String> {
        let given = self.text(arg)?;
        let found = table.iter().find(|(name, _)| *name == given);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
            let (property, names) = (self.name(arg), names.join(", "));
            format!("{property}: {given:?} is not one of {names}")
        })
    }

    /// Property `arg` as the name of an anchor, or its default if it is null.
    pub(crate) fn anchor(&self, arg: Arg) -> Result<Anchor, String> {
        self.or_default(arg, "a string", |value| value.as_str().map(anchor))?
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

    pub(crate) fn put(&mut self, index: usize, value: impl Into<Value>) {
        if let Some(slot) = self.out.get_mut(index) {
            *slot = value.into();
        }
    }

    /// Sets the first output: the last line of a block.
    pub(crate) fn finish(&mut self, value: impl Into<Value>) -> Result<(), String> {
        self.put(0, value);
        Ok(())
    }

    /// Sets the first outputs, in the order of the manifest: the last line of a block.
    pub(crate) fn finish_all(&mut self, values: impl Outputs) -> Result<(), String> {
        values.put(self);
        Ok(())
    }

    /// Lets branch `index` continue.
    pub(crate) fn take_branch(&mut self, index: usize) {
        if let Some(branch) = self.branches.get_mut(index) {
            *branch = true;
        }
    }
}

/// Values of several outputs, as a tuple.
pub(crate) trait Outputs {
    fn put(self, call: &mut Call<'_>);
}

macro_rules! outputs {
    ($($index:tt $value:ident),+) => {
        impl<$($value: Into<Value>),+> Outputs for ($($value,)+) {
            fn put(self, call: &mut Call<'_>) {
                $(call.put($index, self.$index);)+
            }
        }
    };
}
outputs!(0 A, 1 B);
outputs!(0 A, 1 B, 2 C);
outputs!(0 A, 1 B, 2 C, 3 D);
outputs!(0 A, 1 B, 2 C, 3 D, 4 E);
outputs!(0 A, 1 B, 2 C, 3 D, 4 E, 5 F);
