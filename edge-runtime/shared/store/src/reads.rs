//! Reads of an open database, shared by the store that writes and the one that does not.

use std::ops::Bound;

use redb::ReadableDatabase;

use crate::batch::Keyspace;
use crate::error::StoreError;
use crate::guard::{self, StoreFault};
use crate::table::{RECORDS, full_key, split_key};
use crate::{CorruptRecord, Entry, Page, record};

/// Returns the payload at `key`. `unread` converts a fault of the database.
pub(crate) fn get(
    db: &dyn ReadableDatabase,
    keyspace: Keyspace,
    key: &[u8],
    unread: impl FnOnce(StoreFault) -> StoreError,
) -> Result<Option<Vec<u8>>, StoreError> {
    let full = full_key(keyspace.name(), key);
    let found = guard::call(|| {
        let records = db.begin_read()?.open_table(RECORDS)?;
        let raw = records.get(full.as_slice())?;
        Ok(raw.map(|raw| record::decode(&full, raw.value()).map(<[u8]>::to_vec)))
    });
    found
        .map_err(unread)?
        .transpose()
        .map_err(|bad| StoreError::Corrupt {
            keyspace: keyspace.name(),
            key: key.escape_ascii().to_string(),
            why: bad.to_string(),
        })
}

/// Returns at most `limit` records of `keyspace` from `from` on, smallest key first.
pub(crate) fn scan(
    db: &dyn ReadableDatabase,
    keyspace: Keyspace,
    from: Bound<&[u8]>,
    limit: usize,
) -> Result<Page, StoreFault> {
    let from = match from {
        Bound::Included(k) => Bound::Included(full_key(keyspace.name(), k)),
        Bound::Excluded(k) => Bound::Excluded(full_key(keyspace.name(), k)),
        Bound::Unbounded => Bound::Included(full_key(keyspace.name(), &[])),
    };
    let end = end_of(keyspace);
    let range = (
        from.as_ref().map(Vec::as_slice),
        Bound::Excluded(end.as_slice()),
    );
    guard::call(|| {
        let records = db.begin_read()?.open_table(RECORDS)?;
        let mut page = Page::default();
        for item in records.range::<&[u8]>(range)?.take(limit) {
            let (full, raw) = item?;
            let (_, key) = split_key(full.value());
            match record::decode(full.value(), raw.value()) {
                Ok(payload) => page.entries.push(Entry {
                    key,
                    value: payload.to_vec(),
                }),
                Err(bad) => page.corrupt.push(CorruptRecord {
                    keyspace: keyspace.name().to_owned(),
                    key,
                    why: bad.to_string(),
                }),
            }
        }
        Ok(page)
    })
}

/// Returns the first key after every key of `keyspace`.
fn end_of(keyspace: Keyspace) -> Vec<u8> {
    let mut end = keyspace.name().as_bytes().to_vec();
    end.push(1);
    end
}
