//! Nested batches: a value, or a list of such, to any depth.
//!
//! Invariant: writing at an index makes the levels above it; what was never written is missing, not null.

use serde_json::Value as Json;

use super::json::Writer;
use super::value::Value;

/// A value or a batch of them.
#[derive(Debug, Clone)]
pub(crate) enum Tree<T> {
    /// One element; `None` is missing.
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
    /// The part at `index`.
    pub(crate) fn at(&self, index: &[usize]) -> Option<&Self> {
        index.iter().try_fold(self, |tree, i| match tree {
            Self::Node(children) => children.get(*i),
            Self::Leaf(_) => None,
        })
    }

    /// The value of a single element.
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

    /// How many elements the batch at `index` has.
    pub(crate) fn len_at(&self, index: &[usize]) -> usize {
        match self.at(index) {
            Some(Self::Node(children)) => children.len(),
            _ => 0,
        }
    }

    /// Whether a value in it passes the test.
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

    /// Puts one value at `index`.
    pub(crate) fn put(&mut self, index: &[usize], value: T) {
        *self.at_mut(index) = Self::Leaf(Some(value));
    }

    /// Takes one value away from `index`, where there is one.
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

    /// Puts a part at `index`.
    pub(crate) fn replace(&mut self, index: &[usize], part: Self) {
        *self.at_mut(index) = part;
    }

    /// Makes the part at `index` a batch of `len` elements, keeping those that are there.
    pub(crate) fn resize(&mut self, index: &[usize], len: usize) {
        self.at_mut(index)
            .children_mut()
            .resize_with(len, Self::default);
    }
}

impl Tree<Value> {
    /// Makes elements missing that somebody else holds too.
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

    /// Unpacks `depth` levels of lists; what is no list there becomes a batch of none.
    pub(crate) fn nest(value: &Value, depth: usize) -> Self {
        if depth == 0 {
            return Self::Leaf((!value.is_null()).then(|| value.clone()));
        }
        let items = value.as_list().unwrap_or_default();
        Self::Node(items.iter().map(|v| Self::nest(v, depth - 1)).collect())
    }

    /// Packs it into lists; missing elements are left out, or null where the block takes them.
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

    /// Serialised; a level that was never made is an empty list.
    pub(crate) fn to_json(&self, depth: usize, write: &Writer) -> Json {
        match self {
            Self::Leaf(Some(value)) => write.value(value),
            Self::Leaf(None) if depth == 0 => Json::Null,
            Self::Leaf(None) => Json::Array(Vec::new()),
            Self::Node(children) => Json::Array(
                children
                    .iter()
                    .map(|c| c.to_json(depth.saturating_sub(1), write))
                    .collect(),
            ),
        }
    }
}
