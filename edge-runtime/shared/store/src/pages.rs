//! All of a keyspace, page by page.
//!
//! Each record that exists from the first page to the last comes once, in the order of keys,
//! damaged ones too. At most one page is in memory. Records written meanwhile are seen if they are
//! beyond the current page.

use std::ops::Bound;

use crate::{Keyspace, Page, Store, StoreError};

/// Returns the pages of `keyspace`, of `size` records each but the last; no page is empty.
pub fn pages<S: Store + ?Sized>(store: &S, keyspace: Keyspace, size: usize) -> Pages<'_, S> {
    Pages {
        store,
        keyspace,
        size: size.max(1),
        from: None,
        is_over: false,
    }
}

/// Iterator of [`pages`]; it ends after an error.
#[derive(Debug)]
pub struct Pages<'s, S: ?Sized> {
    store: &'s S,
    keyspace: Keyspace,
    size: usize,
    /// The last key that was seen.
    from: Option<Vec<u8>>,
    is_over: bool,
}

impl<S: Store + ?Sized> Iterator for Pages<'_, S> {
    type Item = Result<Page, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let bound = self.from.as_deref();
        let bound = bound.map_or(Bound::Unbounded, Bound::Excluded);
        let page = match self.store.scan(self.keyspace, bound, self.size) {
            Ok(page) => page,
            Err(error) => {
                self.is_over = true;
                return Some(Err(error));
            }
        };
        let sound = page.entries.last().map(|entry| &entry.key);
        let corrupt = page.corrupt.last().map(|record| &record.key);
        self.from = sound.max(corrupt).cloned();
        self.is_over = page.entries.len() + page.corrupt.len() < self.size;
        self.from.is_some().then_some(Ok(page))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;
    use crate::{Batch, MemoryStore};

    const ROWS: Keyspace = Keyspace::new("rows");
    const OTHERS: Keyspace = Keyspace::new("others");

    fn keys(count: u8, size: usize) -> Vec<Vec<u8>> {
        let store = MemoryStore::default();
        let mut batch = Batch::new().put(OTHERS, &[0], &[]);
        for key in 0..count {
            batch = batch.put(ROWS, &[key], &[key]);
        }
        store.commit(batch).unwrap();
        let pages = pages(&store, ROWS, size).map(Result::unwrap);
        pages
            .inspect(|page| assert!((1..=size).contains(&page.entries.len())))
            .flat_map(|page| page.entries)
            .map(|entry| entry.key)
            .collect()
    }

    #[test]
    fn every_record_comes_once_in_order() {
        for (count, size) in [(0, 3), (1, 3), (2, 3), (3, 3), (4, 3), (6, 3), (7, 1)] {
            let wanted: Vec<Vec<u8>> = (0..count).map(|key| vec![key]).collect();
            assert_eq!(keys(count, size), wanted, "{count} in pages of {size}");
        }
    }
}
