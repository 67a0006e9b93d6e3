//! The steps between the archive of a registry's package and the files in it.

use std::fs::File;

use super::{Checked, Download, DownloadError, PullPlan, Start, Trust};

impl PullPlan {
    /// Returns the plan of the archive that the file comes out of; `None` if the file itself is
    /// fetched.
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
    /// Takes the files of `plans` out of this archive, and removes the archive.
    ///
    /// # Errors
    /// [`DownloadError`]: the archive does not hold a file, or it can't be written. The archive is
    /// removed anyway: the next attempt would find the same bytes in it.
    pub fn unpack(self, plans: Vec<PullPlan>) -> Result<Vec<Self>, DownloadError> {
        let mut taken = Vec::with_capacity(plans.len());
        let refused = plans.into_iter().find_map(|plan| match self.take(plan) {
            Ok(file) => {
                taken.push(file);
                None
            }
            Err(error) => Some(error),
        });
        self.download.remove_part()?;
        let Some(error) = refused else {
            return Ok(taken);
        };
        for file in taken {
            file.download.remove_part()?;
        }
        Err(error)
    }

    fn take(&self, plan: PullPlan) -> Result<Self, DownloadError> {
        let failed = |source| self.download.failed(source);
        let archive = File::open(&self.download.part).map_err(failed)?;
        let file = match &plan.package {
            Some(package) => package.file(archive),
            None => return Download::open(plan)?.check(),
        };
        let file = file.map_err(|why| DownloadError::Package {
            url: self.download.plan.url.clone(),
            why,
        })?;
        let mut download = Download::open(plan)?;
        let start = Start::Whole {
            length: Some(file.len() as u64),
            validator: None,
        };
        let written = download.start(start).and_then(|()| download.accept(&file));
        if let Err(error) = written {
            // The archive is removed too, so nothing continues this part.
            download.remove_part()?;
            return Err(error);
        }
        download.check()
    }
}
