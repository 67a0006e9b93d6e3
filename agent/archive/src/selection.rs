//! The verbs that take an entry or a whole collection: prune, destroy, protect, unprotect.

use std::sync::Arc;

use jiff::Timestamp;

use crate::ContentHash;
use crate::archive::Archive;
use crate::durable::Durable;
use crate::entry::Retention;
use crate::error::ArchiveError;
use crate::name::{EntryName, check_collection};
use crate::slot::Slot;
use crate::verb::{Destroyed, Pruned, Selection};

impl Archive {
    async fn select(&self, selection: Selection) -> Result<Vec<Arc<Slot>>, ArchiveError> {
        let shown = match &selection {
            Selection::Entry(name) => name.to_string(),
            Selection::Collection(name) => {
                check_collection(name)?;
                format!("of the collection {name}")
            }
        };
        let select = move |durable: &Durable| {
            let index = durable.index();
            Ok(match &selection {
                Selection::Entry(name) => index.slot(name).into_iter().cloned().collect(),
                Selection::Collection(name) => {
                    index.in_collection(name).cloned().collect::<Vec<_>>()
                }
            })
        };
        let found = self.blocking(select).await?;
        match found.is_empty() {
            true => Err(ArchiveError::NotFound(shown)),
            false => Ok(found),
        }
    }

    /// Returns the references of a selection; none where nothing is selected.
    ///
    /// # Errors
    /// If the collection is invalid.
    pub async fn references(&self, selection: Selection) -> Result<Vec<EntryName>, ArchiveError> {
        let selected = match self.select(selection).await {
            Err(ArchiveError::NotFound(_)) => Vec::new(),
            selected => selected?,
        };
        let references = selected.iter().filter(|slot| !slot.is_stored);
        Ok(references.map(|slot| slot.name().clone()).collect())
    }

    /// Removes the copies of a selection from the fast tiers. Its entries stay.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`] if nothing is selected.
    pub async fn prune(&self, selection: Selection) -> Result<Pruned, ArchiveError> {
        let selected = self.select(selection).await?;
        let stored = selected.iter().filter(|slot| slot.is_stored);
        let contents: Vec<ContentHash> = stored.map(|slot| slot.hash).collect();
        let copies = self.copies().remove(&contents).await;
        Ok(Pruned {
            entries: selected.len() as u64,
            removed: copies.removed,
            unreachable: copies.unreachable.into_iter().collect(),
        })
    }

    /// Removes a selection from all tiers, for good when this returns; from the object tier soon.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`] if nothing is selected, [`ArchiveError::Protected`] if one of it
    /// is protected. Nothing is removed then.
    pub async fn destroy(&self, selection: Selection) -> Result<Destroyed, ArchiveError> {
        let selected = self.select(selection).await?;
        let references = selected.iter().filter(|slot| !slot.is_stored).count();
        let names = names_of(&selected);
        let removed = self
            .blocking(move |durable| durable.destroy(&names))
            .await?;
        let unreachable = self.drop_copies(&removed).await;
        Ok(Destroyed {
            entries: removed.names.len() as u64,
            contents: removed.contents.len() as u64,
            references: references as u64,
            unreachable,
        })
    }

    /// Changes how long a selection is kept.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`] if nothing is selected, [`ArchiveError::Reference`] when a
    /// reference is to be protected.
    pub async fn set_retention(
        &self,
        selection: Selection,
        retention: Retention,
    ) -> Result<usize, ArchiveError> {
        let selected = self.select(selection).await?;
        let names = names_of(&selected);
        let set =
            move |durable: &Durable| durable.set_retention(&names, retention, Timestamp::now());
        self.blocking(set).await
    }
}

fn names_of(selected: &[Arc<Slot>]) -> Vec<EntryName> {
    selected.iter().map(|slot| slot.name().clone()).collect()
}
