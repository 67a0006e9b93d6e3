//! The dependencies of a plan's steps.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use serde_json::Value;

use super::reference::{INPUTS, each};
use super::{Plan, Step};

/// For each step, the steps it waits for, as places in the plan. Unknown names are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Graph {
    pub(crate) waits_for: Vec<BTreeSet<usize>>,
}

impl Graph {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self::with(plan, |step| step.depends_on.as_slice())
    }

    /// The dependencies that references name, without `depends_on`.
    pub(super) fn of_references(plan: &Plan) -> Self {
        Self::with(plan, |_| &[])
    }

    fn with(plan: &Plan, others: impl Fn(&Step) -> &[String]) -> Self {
        let places: HashMap<&str, usize> = (plan.steps.iter().enumerate().rev())
            .map(|(place, step)| (step.name.as_str(), place))
            .collect();
        let waits_for = plan.steps.iter().map(|step| {
            let named = others(step).iter();
            let named = named.filter_map(|name| places.get(name.as_str()));
            let mut all: BTreeSet<usize> = named.copied().collect();
            for name in referenced(step) {
                all.extend(places.get(name.as_str()));
            }
            all
        });
        Self {
            waits_for: waits_for.collect(),
        }
    }

    pub(crate) fn remove(&mut self, from: usize, to: usize) {
        if let Some(needed) = self.waits_for.get_mut(from) {
            needed.remove(&to);
        }
    }

    /// The order in which every step follows those it waits for, the nearest to the plan's own
    /// order; `None` if there is a cycle.
    pub(crate) fn order(&self) -> Option<Vec<usize>> {
        let mut open: Vec<usize> = self.waits_for.iter().map(BTreeSet::len).collect();
        let dependants = self.dependants();
        let mut ready: BinaryHeap<Reverse<usize>> = (0..open.len())
            .filter(|place| open.get(*place) == Some(&0))
            .map(Reverse)
            .collect();
        let mut order = Vec::with_capacity(open.len());
        while let Some(Reverse(place)) = ready.pop() {
            order.push(place);
            for dependant in dependants.get(place).into_iter().flatten() {
                if let Some(left) = open.get_mut(*dependant) {
                    *left -= 1;
                    if *left == 0 {
                        ready.push(Reverse(*dependant));
                    }
                }
            }
        }
        (order.len() == open.len()).then_some(order)
    }

    /// For each step, the steps that wait for it.
    pub(crate) fn dependants(&self) -> Vec<Vec<usize>> {
        let mut dependants = vec![Vec::new(); self.waits_for.len()];
        for (place, all) in self.waits_for.iter().enumerate() {
            for needed in all {
                if let Some(list) = dependants.get_mut(*needed) {
                    list.push(place);
                }
            }
        }
        dependants
    }

    /// Cycles of two steps or more that have no step in common.
    pub(super) fn separate_cycles(mut self) -> Vec<Vec<usize>> {
        for (place, needed) in self.waits_for.iter_mut().enumerate() {
            needed.remove(&place);
        }
        let mut cycles = Vec::new();
        while let Some(cycle) = self.cycle() {
            self.release(&cycle);
            cycles.push(cycle);
        }
        cycles
    }

    /// Removes what these steps wait for.
    pub(super) fn release(&mut self, places: &[usize]) {
        for place in places {
            if let Some(needed) = self.waits_for.get_mut(*place) {
                needed.clear();
            }
        }
    }

    /// One cycle, each step waiting for the next and the last for the first.
    pub(crate) fn cycle(&self) -> Option<Vec<usize>> {
        // 0: not visited, 1: on the path, 2: without a cycle.
        let mut state = vec![0_u8; self.waits_for.len()];
        for start in 0..state.len() {
            let mut path: Vec<(usize, Vec<usize>)> = Vec::new();
            let mut next = Some(start);
            while let Some(place) = next.take() {
                match state.get_mut(place) {
                    Some(mark @ 0) => {
                        *mark = 1;
                        let needed = self.waits_for.get(place).into_iter().flatten();
                        path.push((place, needed.copied().collect()));
                    }
                    Some(1) => {
                        let from = path.iter().position(|(on_path, _)| *on_path == place);
                        let cycle = path.get(from.unwrap_or(0)..).unwrap_or_default();
                        return Some(cycle.iter().map(|(place, _)| *place).collect());
                    }
                    _ => {}
                }
                while let Some((place, left)) = path.last_mut() {
                    if let Some(needed) = left.pop() {
                        next = Some(needed);
                        break;
                    }
                    if let Some(mark) = state.get_mut(*place) {
                        *mark = 2;
                    }
                    path.pop();
                }
            }
        }
        None
    }
}

/// Names of the steps whose results a step uses.
pub(crate) fn referenced(step: &Step) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for value in step.calls().flat_map(|call| call.params.values()) {
        owners(value, &mut names);
    }
    names
}

fn owners(value: &Value, names: &mut BTreeSet<String>) {
    each(value, &mut |reference| {
        if reference.owner != INPUTS {
            names.insert(reference.owner.clone());
        }
    });
}
