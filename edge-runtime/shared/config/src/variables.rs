//! Notes about environment variables that look misspelt.
//!
//! - A variable with this program's prefix that is not a key and that no program reads.
//! - A section that only variables name, like a name of the file.
//! - Not here: an unknown key with two underscores, which is an error like one of the file.

use std::collections::{BTreeMap, BTreeSet};

use watchkeeper_contract::problem::nearest;

use crate::error::Origin;
use crate::keys::KEYS;
use crate::layers::{ENV_PREFIX, FILE_VARIABLE, LoadRequest};
use crate::raw::Read;

pub(crate) fn notes(request: &LoadRequest, read: &Read) -> Vec<String> {
    let written = |name: &str| read.values.values().any(|found| found.value == *name);
    // One that the file names holds a secret.
    let others = request.env.keys().filter(|name| !written(name));
    let unread = others.filter_map(|name| unread(name));
    unread.chain(new_sections(read)).collect()
}

/// Returns the note about a variable that is read by no program, where it resembles one that is.
fn unread(name: &str) -> Option<String> {
    if name == FILE_VARIABLE || name.contains("__") {
        return None;
    }
    let paths = KEYS.iter().map(|key| key.path.replace('.', "__"));
    let paths: Vec<String> = paths.map(|path| path.to_ascii_uppercase()).collect();
    let file = FILE_VARIABLE.strip_prefix(ENV_PREFIX);
    let known = paths.iter().map(String::as_str).chain(file);
    let meant = nearest(name.strip_prefix(ENV_PREFIX)?, known)?;
    Some(format!(
        "environment variable {name} is not read; did you mean {ENV_PREFIX}{meant}?"
    ))
}

/// Notes the sections that only variables name, where the file has a section of a similar name.
fn new_sections(read: &Read) -> Vec<String> {
    let mut of_file: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut of_variables: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for (key, found) in &read.values {
        let Some((section, name)) = read.named.iter().find_map(|named| {
            let is_in = key.strip_prefix(named.as_str())?.starts_with('.');
            is_in.then(|| named.rsplit_once('.')).flatten()
        }) else {
            continue;
        };
        match &found.origin {
            Origin::Variable(variable) => {
                of_variables.insert((section, name), variable);
            }
            _ => {
                of_file.insert((section, name));
            }
        }
    }
    let new = of_variables.iter().filter(|(at, _)| !of_file.contains(at));
    let notes = new.filter_map(|((section, name), variable)| {
        let known = of_file.iter().filter(|(of, _)| of == section);
        let meant = nearest(name, known.map(|(_, name)| *name))?;
        Some(format!(
            "environment variable {variable} adds [{section}.{name}], which the file does not have; \
             did you mean {meant}?"
        ))
    });
    notes.collect()
}
