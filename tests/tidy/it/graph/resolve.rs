//! Follows a path from the module that writes it to the file that defines the name.

use super::read::{Id, Target};
use super::{File, Graph};

/// More re-exports than any name has; a path that refers to itself ends here.
const MAX_STEPS: usize = 24;

/// Target of a path.
enum Found<'a> {
    Module(Id),
    Item(File, &'a str),
}

/// Ties each file to the files that define what it names.
pub(super) fn resolve_all(target: &Target) -> Graph {
    let mut graph = Graph {
        files: target.files.clone(),
        ..Graph::default()
    };
    for naming in &target.namings {
        let Some(from) = target.modules.get(naming.module).map(|module| module.file) else {
            continue;
        };
        let found = target.resolve(naming.module, &naming.path, MAX_STEPS);
        if let Some(Found::Item(to, name)) = found
            && to != from
        {
            graph.add(from, to, naming.line, name);
        }
    }
    graph
}

impl Target {
    fn resolve(&self, from: Id, path: &[String], steps: usize) -> Option<Found<'_>> {
        let steps = steps.checked_sub(1)?;
        let mut at = from;
        let mut rest = path;
        while let Some((name, after)) = rest.split_first() {
            at = match name.as_str() {
                "crate" => 0,
                "self" => at,
                "super" => self.modules.get(at)?.parent?,
                _ => break,
            };
            rest = after;
        }
        match rest.split_first() {
            Some((name, after)) => self.look_up(at, name, after, steps),
            None => Some(Found::Module(at)),
        }
    }

    /// Finds `name`, and then `rest` within it, in a module.
    fn look_up(&self, at: Id, name: &str, rest: &[String], steps: usize) -> Option<Found<'_>> {
        let module = self.modules.get(at)?;
        // A module and a function may share a name: what follows decides.
        if let Some(child) = module.children.get(name)
            && (!rest.is_empty() || !module.items.contains(name))
        {
            let below = match rest.split_first() {
                Some((name, after)) => self.look_up(*child, name, after, steps),
                None => Some(Found::Module(*child)),
            };
            if below.is_some() && !(rest.is_empty() && module.aliases.contains_key(name)) {
                return below;
            }
        }
        if let Some(item) = module.items.get(name) {
            return Some(Found::Item(module.file, item));
        }
        for alias in module.aliases.get(name).into_iter().flatten() {
            let path: Vec<String> = alias.iter().chain(rest).cloned().collect();
            let own = alias.first().is_some_and(|first| first == name);
            let found = if own && alias.len() == 1 {
                None
            } else {
                self.resolve(at, &path, steps)
            };
            if found.is_some() {
                return found;
            }
        }
        let globs = module.globs.iter();
        let mut within = globs.filter_map(|glob| match self.resolve(at, glob, steps)? {
            Found::Module(id) if id != at => self.look_up(id, name, rest, steps.checked_sub(1)?),
            _ => None,
        });
        within.next()
    }
}
