//! Selects one of several branches by a value.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/switch_case@v1",
    summary: "Runs the step whose key equals the value, otherwise the default ones.",
    role: Role::Flow,
    properties: &[
        Property::value("value", Shape::Scalar).about("what to compare with the keys"),
        Property::literal("cases", Shape::StepCases)
            .about("the step for each key")
            .or(Or::EmptyDict),
        Property::switch("case_insensitive", false).about("whether to ignore case"),
        Property::literal("default_next_steps", Shape::Steps)
            .about("the steps that run when no key equals the value")
            .or(Or::EmptyList),
    ],
    outputs: &[],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("flow_control")
}];

/// Buffer for the digits of an integer.
#[derive(Default)]
struct Digits {
    bytes: [u8; 20],
    used: usize,
}

impl fmt::Write for Digits {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let end = self.used + part.len();
        let place = self.bytes.get_mut(self.used..end).ok_or(fmt::Error)?;
        place.copy_from_slice(part.as_bytes());
        self.used = end;
        Ok(())
    }
}

impl Digits {
    fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes.get(..self.used)?).ok()
    }
}

/// Text of a value for the comparison. Texts and integers, the usual cases, allocate nothing.
fn text_of<'a>(value: &'a Value, digits: &'a mut Digits) -> Cow<'a, str> {
    match value {
        Value::Text(text) => Cow::Borrowed(text),
        Value::Null => Cow::Borrowed("None"),
        Value::Bool(true) => Cow::Borrowed("True"),
        Value::Bool(false) => Cow::Borrowed("False"),
        Value::Int(number) if write!(digits, "{number}").is_ok() => digits
            .text()
            .map_or_else(|| Cow::Owned(number.to_string()), Cow::Borrowed),
        other => Cow::Owned(other.python_str()),
    }
}

fn same_but_for_capitals(a: &str, b: &str) -> bool {
    if a.is_ascii() && b.is_ascii() {
        a.eq_ignore_ascii_case(b)
    } else {
        // Some letters have another form at the end of a word.
        a.to_lowercase() == b.to_lowercase()
    }
}

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let insensitive = call.boolean(arg!("case_insensitive"))?;
    let mut digits = Digits::default();
    let text = text_of(call.arg(arg!("value")), &mut digits);
    let chosen = call.cases.iter().position(|key| {
        if insensitive {
            same_but_for_capitals(key, &text)
        } else {
            **key == *text
        }
    });
    // The default branch follows those of the keys.
    call.take_branch(chosen.unwrap_or(call.cases.len()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Digits, Value, same_but_for_capitals, text_of};

    #[test]
    fn value_is_compared_by_its_python_text() {
        for value in [
            Value::Null,
            true.into(),
            false.into(),
            Value::Int(0),
            Value::Int(i64::MIN),
            Value::Int(i64::MAX),
            Value::Float(2.0),
            "Truck".into(),
            Value::list(vec![Value::Int(1), "a".into()]),
        ] {
            let mut digits = Digits::default();
            assert_eq!(
                text_of(&value, &mut digits),
                value.python_str(),
                "{value:?}"
            );
        }
    }

    #[test]
    fn case_is_ignored_in_any_script() {
        for (a, b) in [("TRUCK", "truck"), ("Öl", "öL"), ("ΟΔΟΣ", "οδος")] {
            assert!(same_but_for_capitals(a, b), "{a} {b}");
        }
        assert!(!same_but_for_capitals("truck", "trucks"));
    }
}
