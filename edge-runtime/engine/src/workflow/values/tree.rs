//! Nested batches: a value, or lists of values to any depth.
//!
//! - Writing at an index creates the levels above it.
//! - An element that was never written is missing, not null.

use serde_json::Value as Json;

use crate::workflow::values::json::Writer;
use crate::workflow::values::value::Value;

#[derive(Debug, Clone)]
pub(crate) enum Tree<T> {
    /// One element; `None` if missing.
    Leaf(Option<T>),
    /// One level of a batch.
    Node(Vec<Tree<T>>),
}

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Self::Leaf(None)
    }
}

impl<T> Tree<T> {
    pub(crate) fn at(&self, index: &[usize]) -> Option<&Self> {
        index.iter().try_fold(self, |tree, i| match tree {
            Self::Node(children) => children.get(*i),
            Self::Leaf(_) => None,
        })
    }

    pub(crate) fn leaf(&self) -> Option<&T> {
        match self {
            Self::Leaf(value) => value.as_ref(),
            Self::Node(_) => None,
        }
    }

    /// The first element of all, if it is there.
    pub(crate) fn first(&self) -> Option<&T> {
        match self {
            Self::Leaf(value) => value.as_ref(),
            Self::Node(children) => children.first()?.first(),
        }
    }

    /// Returns the number of elements of the batch at `index`.
    pub(crate) fn len_at(&self, index: &[usize]) -> usize {
        match self.at(index) {
            Some(Self::Node(children)) => children.len(),
            _ => 0,
        }
    }

    /// Returns whether any value passes the test.
    pub(crate) fn any(&self, test: &dyn Fn(&T) -> bool) -> bool {
        match self {
            Self::Leaf(value) => value.as_ref().is_some_and(test),
            Self::Node(children) => children.iter().any(|c| c.any(test)),
        }
    }

    fn at_mut(&mut self, index: &[usize]) -> &mut Self {
        let mut tree = self;
        for i in index {
            let children = tree.children_mut();
            if children.len() <= *i {
                children.resize_with(i + 1, Self::default);
            }
            tree = &mut children[*i];
        }
        tree
    }

    fn children_mut(&mut self) -> &mut Vec<Self> {
        if let Self::Leaf(_) = self {
            *self = Self::Node(Vec::new());
        }
        match self {
            Self::Node(children) => children,
            Self::Leaf(_) => unreachable!("made a node above"),
        }
    }

    pub(crate) fn put(&mut self, index: &[usize], value: T) {
        *self.at_mut(index) = Self::Leaf(Some(value));
    }

    pub(crate) fn take(&mut self, index: &[usize]) -> Option<T> {
        let mut tree = self;
        for i in index {
            tree = match tree {
                Self::Node(children) => children.get_mut(*i)?,
                Self::Leaf(_) => return None,
            };
        }
        match tree {
            Self::Leaf(value) => value.take(),
            Self::Node(_) => None,
        }
    }

    /// Makes the element at `index` missing.
    pub(crate) fn clear(&mut self, index: &[usize]) {
        *self.at_mut(index) = Self::Leaf(None);
    }

    pub(crate) fn replace(&mut self, index: &[usize], part: Self) {
        *self.at_mut(index) = part;
    }

    /// Resizes the batch at `index` to `len` elements, keeping existing ones.
    pub(crate) fn resize(&mut self, index: &[usize], len: usize) {
        self.at_mut(index)
            .children_mut()
            .resize_with(len, Self::default);
    }
}

impl Tree<Value> {
    /// Drops elements that are shared with other holders.
    pub(crate) fn forget_shared(&mut self) {
        match self {
            Self::Leaf(value) => {
                if value.as_ref().is_some_and(Value::is_shared) {
                    *value = None;
                }
            }
            Self::Node(children) => children.iter_mut().for_each(Self::forget_shared),
        }
    }

    /// Unpacks `depth` levels of lists; a non-list becomes an empty batch.
    pub(crate) fn nest(value: &Value, depth: usize) -> Self {
        if depth == 0 {
            return Self::Leaf((!value.is_null()).then(|| value.clone()));
        }
        let items = value.as_list().unwrap_or_default();
        Self::Node(items.iter().map(|v| Self::nest(v, depth - 1)).collect())
    }

    /// Packs the tree into lists; missing elements become null or are left out.
    pub(crate) fn group(&self, keep_missing: bool) -> Value {
        match self {
            Self::Leaf(value) => value.clone().unwrap_or_default(),
            Self::Node(children) => Value::list(
                children
                    .iter()
                    .map(|c| c.group(keep_missing))
                    .filter(|v| keep_missing || !v.is_null())
                    .collect(),
            ),
        }
    }

    /// Serialises `depth` levels of lists. As in the peer's results, a list ends with the last part
    /// that has an element, even a missing one. Without any element only the innermost list is
    /// empty.
    pub(crate) fn to_json(&self, depth: usize, write: &Writer) -> Json {
        let Some(below) = depth.checked_sub(1) else {
            return self.leaf().map_or(Json::Null, |value| write.value(value));
        };
        let parts = match self {
            Self::Node(children) => children.as_slice(),
            Self::Leaf(_) => &[],
        };
        match parts.iter().rposition(|part| part.has_elements(below)) {
            Some(last) => parts
                .iter()
                .take(last + 1)
                .map(|part| part.to_json(below, write))
                .collect(),
            None if below == 0 => Json::Array(Vec::new()),
            None => Json::Array(vec![Self::default().to_json(below, write)]),
        }
    }

    /// Like [`Self::to_json`] for each row of a result; no row is left out.
    pub(crate) fn rows_to_json(&self, depth: usize, write: &Writer) -> Json {
        match (self, depth.checked_sub(1)) {
            (Self::Node(rows), Some(below)) => {
                rows.iter().map(|row| row.to_json(below, write)).collect()
            }
            _ => self.to_json(depth, write),
        }
    }

    /// Returns whether there is an element `depth` levels down.
    fn has_elements(&self, depth: usize) -> bool {
        match (self, depth.checked_sub(1)) {
            (_, None) => true,
            (Self::Node(parts), Some(below)) => parts.iter().any(|part| part.has_elements(below)),
            (Self::Leaf(_), Some(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::Tree;
    use crate::workflow::values::json::Writer;
    use crate::workflow::values::value::Value;

    fn told(json: Json, depth: usize) -> Json {
        Tree::nest(&Value::from(json), depth).to_json(depth, &Writer::default())
    }

    #[test]
    fn list_ends_with_the_last_part_with_an_element() {
        assert_eq!(
            told(json!([[], [1, null], [], []]), 2),
            json!([[], [1, null]])
        );
        assert_eq!(
            told(json!([[[]], [[2]], [[], []]]), 3),
            json!([[[]], [[2]]])
        );
    }

    #[test]
    fn empty_batch_has_an_empty_innermost_list() {
        assert_eq!(told(json!([]), 1), json!([]));
        assert_eq!(told(json!([[], []]), 2), json!([[]]));
        assert_eq!(told(json!([]), 3), json!([[[]]]));
        assert_eq!(told(json!(null), 0), json!(null));
    }

    #[test]
    fn rows_to_json_keeps_empty_rows() {
        let rows = Tree::nest(&Value::from(json!([[], [1], []])), 2);
        assert_eq!(
            rows.rows_to_json(2, &Writer::default()),
            json!([[], [1], []])
        );
    }
}
