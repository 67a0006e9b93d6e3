//! The graph of a crate: its file modules, and which file names what another defines.
//!
//! - Product code only: items after `#[cfg(test)]` are left out.
//! - An edge leads to the file that defines the name: re-exports are followed.
//! - `mod x;` and `pub use x::Y;` edge nothing by themselves: a re-export is no use.
//! - Names are read, not types: a method or field used without its type's name edges nothing.

mod attributes;
mod read;
mod resolve;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

pub(crate) use read::{Disk, Source, read_target};

/// Index of a file in [`Graph::files`].
pub(crate) type File = usize;

/// Edge from a file to another: the first place that names something of it.
#[derive(Debug, Clone)]
pub(crate) struct Tie {
    pub(crate) line: usize,
    pub(crate) names: BTreeSet<String>,
}

/// The files of one library or program and the edges between them.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) edges: BTreeMap<File, BTreeMap<File, Tie>>,
}

impl Graph {
    pub(crate) fn add(&mut self, from: File, to: File, line: usize, name: &str) {
        let edge = self
            .edges
            .entry(from)
            .or_default()
            .entry(to)
            .or_insert(Tie {
                line,
                names: BTreeSet::new(),
            });
        edge.line = edge.line.min(line);
        edge.names.insert(name.to_owned());
    }

    pub(crate) fn remove(&mut self, from: File, to: File) -> Option<Tie> {
        self.edges.get_mut(&from)?.remove(&to)
    }

    fn targets(&self, from: File) -> impl Iterator<Item = File> {
        self.edges
            .get(&from)
            .into_iter()
            .flat_map(|edges| edges.keys().copied())
    }

    /// Finds the shortest way from `from` to itself: its files, `from` first and last.
    fn circle_through(&self, from: File) -> Option<Vec<File>> {
        let mut before: BTreeMap<File, File> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for next in self.targets(at) {
                if next == from {
                    let mut way = vec![from, at];
                    while let Some(previous) = way.last().and_then(|file| before.get(file)) {
                        way.push(*previous);
                    }
                    way.reverse();
                    // A circle of one step would name `from` three times.
                    way.dedup();
                    return Some(way);
                }
                if let std::collections::btree_map::Entry::Vacant(free) = before.entry(next) {
                    free.insert(at);
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// Finds the shortest circle of all.
    pub(crate) fn shortest_circle(&self) -> Option<Vec<File>> {
        let circles = self
            .edges
            .keys()
            .filter_map(|from| self.circle_through(*from));
        circles.min_by_key(Vec::len)
    }

    /// Groups the files that form circles, the largest group first.
    pub(crate) fn cyclic_parts(&self) -> Vec<BTreeSet<File>> {
        let reach: BTreeMap<File, BTreeSet<File>> = self
            .edges
            .keys()
            .map(|from| (*from, self.reachable(*from)))
            .collect();
        let mut cyclic_parts: BTreeSet<BTreeSet<File>> = BTreeSet::new();
        for (from, reached) in &reach {
            if reached.contains(from) {
                let back = |to: &&File| reach.get(to).is_some_and(|there| there.contains(from));
                cyclic_parts.insert(reached.iter().filter(back).copied().collect());
            }
        }
        let mut cyclic_parts: Vec<_> = cyclic_parts.into_iter().collect();
        cyclic_parts.sort_by_key(|members| std::cmp::Reverse(members.len()));
        cyclic_parts
    }

    fn reachable(&self, from: File) -> BTreeSet<File> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            open.extend(self.targets(at).filter(|next| reached.insert(*next)));
        }
        reached
    }

    /// Formats an edge: `agent/src/a.rs:12 names Thing of agent/src/b.rs`.
    pub(crate) fn describe(&self, from: File, to: File) -> String {
        let name = |file: File| self.files.get(file).map(|f| f.display().to_string());
        let edge = self.edges.get(&from).and_then(|edges| edges.get(&to));
        let names: Vec<&str> = edge
            .into_iter()
            .flat_map(|edge| edge.names.iter().map(String::as_str))
            .collect();
        format!(
            "{}:{} names {} of {}",
            name(from).unwrap_or_default(),
            edge.map_or(0, |edge| edge.line),
            names.join(", "),
            name(to).unwrap_or_default(),
        )
    }
}
