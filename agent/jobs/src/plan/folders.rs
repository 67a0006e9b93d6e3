//! The folders that a plan names.

use super::reference::{INPUTS, Text, parse};
use super::{Plan, Step};
use crate::tool::{Kind, Toolbox};

/// A folder that a call reads.
#[derive(Debug)]
pub struct NamedFolder<'p> {
    pub step: &'p Step,
    pub param: &'static str,
    /// Key of the input that the parameter takes whole.
    pub input: Option<String>,
    /// Value of that input, else what the parameter says: also a reference to a result.
    pub text: &'p str,
}

impl Plan {
    /// Returns the folders that calls read, in the order of the steps.
    pub fn folders(&self, tools: &Toolbox) -> impl Iterator<Item = NamedFolder<'_>> {
        let steps = self.steps.iter();
        let calls = steps.flat_map(|step| step.calls().map(move |call| (step, call)));
        calls.flat_map(move |(step, call)| {
            let params = tools.spec(&call.tool).map_or(&[][..], |spec| spec.params);
            let folders = params.iter().filter(|param| param.kind == Kind::Folder);
            folders.filter_map(move |param| {
                let written = call.params.get(param.name)?.as_str()?;
                let given = self.whole_input(written);
                let (input, text) = given.map_or((None, written), |(key, text)| (Some(key), text));
                Some(NamedFolder {
                    step,
                    param: param.name,
                    input,
                    text,
                })
            })
        })
    }

    /// The input that a text takes whole, if that is a text too.
    fn whole_input(&self, written: &str) -> Option<(String, &str)> {
        match parse(written) {
            Text::Reference(input) if input.owner == INPUTS => {
                let text = self.inputs.get(&input.key)?.as_str()?;
                Some((input.key, text))
            }
            _ => None,
        }
    }
}
