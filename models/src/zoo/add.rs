//! How files get into a models folder: by a pull, or given by the user.
//!
//! - No file of another model is replaced.
//! - A failure half way leaves nothing under a name or checksum that is not its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::digest;
use crate::download::{self, PullPlan, Trust};
use crate::manifest::{Manifest, Part};
use crate::raw;
use crate::replace::{Leftover, replace, temporary};

use super::error::ZooError;
use super::resolved::{Resolved, beside, recorded_sum, sum_of, sum_of_part, unreadable};
use super::{BUILTIN, MOTION, Zoo, manifests_in, read_text};

/// Checks that a file is the network that a manifest, given as TOML, describes; the error is one
/// sentence.
pub type NetworkProbe<'o> = &'o dyn Fn(&Path, &str) -> Result<(), String>;

/// Description of a file that is added.
struct Described {
    manifest: Arc<Manifest>,
    name: String,
    /// The manifest to write; absent if the zoo has it.
    text: Option<String>,
}

impl Zoo {
    /// Plans what to fetch for this model, its network last; a file with a known checksum before
    /// one without.
    ///
    /// `mirror` is the address of a folder with `NAME.onnx` and the other files under their names.
    /// It replaces every published address, and its files must have the published checksums. A
    /// checksum that the user has from elsewhere is the network's, and none but the published one
    /// if there is one.
    ///
    /// An unpublished file may be here already; it is kept if it is the one the manifest means.
    ///
    /// # Errors
    /// [`ZooError`]: no such model, no folder, no published file, or another checksum than its.
    pub fn pull_plan(
        &self,
        name: &str,
        trust: Trust,
        mirror: Option<&str>,
    ) -> Result<Vec<PullPlan>, ZooError> {
        if name == MOTION {
            return Err(ZooError::BuiltIn);
        }
        let manifest = self.entries.get(name).ok_or_else(|| self.unknown(name))?;
        // Into our own folder, even if another has it: that one need not be what was asked for.
        let folder = self.dirs.first().ok_or(ZooError::NoFolder)?;
        let mirrored =
            |file: &str| mirror.map(|mirror| format!("{}/{file}", mirror.trim_end_matches('/')));
        // A published network needs no conversion, and a mirror has it converted.
        let is_published = mirror.is_some() || manifest.files.iter().any(|f| f.url.is_some());
        let package = manifest.packages.first().filter(|_| !is_published);
        let file = manifest
            .files
            .iter()
            .filter(|f| f.url.is_some() || mirror.is_some() || package.is_some())
            .min_by_key(|f| f.sha256.is_none());
        let network = format!("{name}.onnx");
        let url = mirrored(&network)
            .or_else(|| package.map(|p| format!("{}#{}", p.url(), p.member)))
            .or_else(|| file.and_then(|f| f.url.clone()));
        let Some(url) = url else {
            return Err(ZooError::NotPublished {
                name: name.to_owned(),
            });
        };
        let known = file.and_then(|f| f.sha256);
        if let (Trust::Sum(given), Some(published)) = (trust, known)
            && given != published
        {
            let name = name.to_owned();
            return Err(ZooError::OtherSum {
                name,
                given,
                published,
            });
        }
        self.apart(manifest, name)?;
        let mut plans = self.part_plans(manifest, folder, trust, &mirrored)?;
        plans.push(PullPlan {
            name: name.to_owned(),
            url,
            sha256: known,
            bytes: file.and_then(|f| f.bytes),
            // What comes out of a package has its own checksums.
            trust: match trust {
                Trust::KnownOnly if package.is_some() => Trust::FirstUse,
                trust => trust,
            },
            target: folder.join(network),
            package: package.cloned(),
        });
        Ok(plans)
    }

    /// Plans what to fetch besides the network. An unpublished file must be here.
    fn part_plans(
        &self,
        manifest: &Manifest,
        folder: &Path,
        trust: Trust,
        mirrored: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<PullPlan>, ZooError> {
        let mut plans = Vec::new();
        for part in manifest.parts() {
            let target = folder.join(&part.file);
            let Some(url) = mirrored(&part.file).or_else(|| part.url.clone()) else {
                if !target.is_file() {
                    return Err(ZooError::PartNotPublished {
                        name: manifest.name.clone(),
                        path: target,
                    });
                }
                sum_of_part(manifest, part, &target)?;
                continue;
            };
            self.may_replace(manifest, part, &target)?;
            plans.push(PullPlan {
                name: manifest.name.clone(),
                url,
                sha256: part.sha256,
                bytes: part.bytes,
                trust: match trust {
                    Trust::Sum(_) => Trust::KnownOnly,
                    trust => trust,
                },
                target,
                package: None,
            });
        }
        Ok(plans)
    }

    /// Refuses files of a model with the name of a network, and a network with the name of another
    /// model's file.
    fn apart(&self, manifest: &Manifest, name: &str) -> Result<(), ZooError> {
        let collides = |name: &str, file: &str, other: &str| ZooError::PartIsNetwork {
            name: name.to_owned(),
            file: file.to_owned(),
            other: other.to_owned(),
        };
        for part in manifest.parts() {
            let network = part.file.strip_suffix(".onnx");
            if let Some(other) =
                network.filter(|other| *other == name || self.entries.contains_key(*other))
            {
                return Err(collides(name, &part.file, other));
            }
        }
        let network = format!("{name}.onnx");
        for (other, manifest) in &self.entries {
            if manifest.parts().any(|part| part.file == network) {
                return Err(collides(other, &network, name));
            }
        }
        Ok(())
    }

    /// Refuses to replace a file of another model. Only the same file, or one placed for this model
    /// alone, is replaced.
    fn may_replace(&self, manifest: &Manifest, part: &Part, target: &Path) -> Result<(), ZooError> {
        if !target.exists() {
            return Ok(());
        }
        if part.sha256 == Some(sum_of(target)?) {
            return Ok(());
        }
        let others = self.entries.values().filter(|m| m.name != manifest.name);
        let mut others = others.flat_map(|other| other.parts());
        let is_others = others.any(|other| {
            other.file == part.file && (other.sha256.is_none() || other.sha256 != part.sha256)
        });
        if recorded_sum(target)?.is_some() && !is_others {
            return Ok(());
        }
        let (name, path) = (manifest.name.clone(), target.to_owned());
        Err(match part.sha256 {
            Some(_) => ZooError::PartTaken { name, path },
            None => ZooError::PartUnknown { name, path },
        })
    }

    /// Copies a local file into the first models folder and returns its name there.
    ///
    /// The first of these is the manifest: the given one, that of the model `like`, the one beside
    /// the file, that of a known export. A manifest from outside the zoo is copied too.
    ///
    /// The name is `name`, else that of the manifest. But a file that only has a model's layout,
    /// and is not one of its known files, is another model. It is named after the file and gets its
    /// own manifest.
    ///
    /// `opens` checks that the file is the network that its manifest describes, before anything is
    /// written.
    ///
    /// # Errors
    /// [`ZooError`]; nothing is left behind under a final name.
    pub fn add(
        &mut self,
        path: &Path,
        manifest: Option<&Path>,
        like: Option<&str>,
        name: Option<&str>,
        opens: NetworkProbe<'_>,
    ) -> Result<Resolved, ZooError> {
        let dir = self.dirs.first().cloned().ok_or(ZooError::NoFolder)?;
        let Described {
            manifest,
            name,
            text,
        } = self.describe(path, manifest, like, name, &dir)?;
        let describing = match &text {
            Some(text) => text.clone(),
            None => self.text_of(&manifest.name)?,
        };
        opens(path, &describing).map_err(|why| ZooError::NotOpened {
            path: path.to_owned(),
            why,
        })?;
        let write = |path: &Path| {
            let path = path.to_owned();
            move |source| ZooError::Write { path, source }
        };
        fs::create_dir_all(&dir).map_err(write(&dir))?;
        self.apart(&manifest, &name)?;
        let target = dir.join(format!("{name}.onnx"));
        for part in manifest.parts() {
            add_part(&manifest, part, path, &dir)?;
        }
        let file = Leftover(temporary(&target));
        let mut weights = fs::File::open(path).map_err(|source| unreadable(path, source))?;
        fs::File::create(&file.0)
            .and_then(|mut copy| io::copy(&mut weights, &mut copy))
            .map_err(write(&target))?;
        let (sum, _) = digest::of_file(&file.0).map_err(write(&file.0))?;
        let own = dir.join(format!("{name}.toml"));
        let earlier = own.exists().then(|| read_text(&own)).transpose()?;
        if let Some(text) = &text {
            // Before its network, which without a manifest could be taken for something else.
            replace(&own, &[text.as_bytes()]).map_err(write(&own))?;
        }
        if let Err(source) = download::put_in_place(&file.0, &target, sum) {
            // Under its temporary name, the network has not replaced the earlier one.
            if text.is_some() && file.0.exists() {
                match earlier {
                    Some(earlier) => {
                        replace(&own, &[earlier.as_bytes()]).map_err(write(&own))?;
                    }
                    None => drop(Leftover(own)),
                }
            }
            return Err(write(&target)(source));
        }
        if text.is_some() {
            self.entries.insert(name, manifest.clone());
        }
        Ok(Resolved {
            manifest,
            path: target,
        })
    }

    /// Chooses manifest and name of a file to add, and writes the manifest for that name.
    fn describe(
        &self,
        path: &Path,
        manifest: Option<&Path>,
        like: Option<&str>,
        name: Option<&str>,
        dir: &Path,
    ) -> Result<Described, ZooError> {
        let described = match (manifest, like) {
            (Some(file), _) => Arc::new(Manifest::read(file)?),
            (None, Some(like)) => {
                let known = self.entries.get(like).cloned();
                known.ok_or_else(|| self.unknown(like))?
            }
            (None, None) => self.resolve_path(path)?.manifest,
        };
        let name = match name {
            Some(name) => name.to_owned(),
            None if like.is_some() => self.name_for(path, &described)?,
            None => described.name.clone(),
        };
        if !raw::is_name(&name) || name == MOTION {
            return Err(ZooError::BadName { name });
        }
        let beside = path.with_extension("toml");
        let text = match (manifest, like) {
            (Some(file), _) => Some(read_text(file)?),
            (None, None) if beside.is_file() => Some(read_text(&beside)?),
            _ if name != described.name => Some(self.text_of(&described.name)?),
            _ => None,
        };
        let (manifest, text) = match text {
            Some(text) if name != described.name => {
                let own = dir.join(format!("{name}.toml"));
                let text = renamed(&text, &described.name, &name);
                (Arc::new(Manifest::parse(&own, &text)?), Some(text))
            }
            text => (described, text),
        };
        Ok(Described {
            manifest,
            name,
            text,
        })
    }

    /// Returns the name of a file with the layout of `like`.
    fn name_for(&self, path: &Path, like: &Manifest) -> Result<String, ZooError> {
        let sum = sum_of(path)?;
        if like.known_file(sum).is_some() {
            return Ok(like.name.clone());
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = name.to_ascii_lowercase();
        let other = self.entries.get(&name);
        if other.is_some_and(|other| other.files.iter().any(|file| file.sha256.is_some())) {
            let path = path.to_owned();
            return Err(ZooError::Taken { name, path });
        }
        Ok(name)
    }

    /// Returns the manifest of this name as it was written.
    fn text_of(&self, name: &str) -> Result<String, ZooError> {
        let is_it = |path: &PathBuf| Manifest::read(path).is_ok_and(|own| own.name == name);
        let mut own = self.dirs.iter().flat_map(|dir| manifests_in(dir));
        if let Some(path) = own.find(is_it) {
            return read_text(&path);
        }
        let is_it = |(file, text): &&(&str, &str)| {
            Manifest::parse(Path::new(file), text).is_ok_and(|own| own.name == name)
        };
        let builtin = BUILTIN.iter().find(is_it);
        builtin
            .map(|(_, text)| (*text).to_owned())
            .ok_or_else(|| self.unknown(name))
    }
}

/// Rewrites the manifest `text` for another file of the same layout, without files, origin and
/// licence, which are not that file's.
fn renamed(text: &str, from: &str, to: &str) -> String {
    let mut table: toml::Table = text.parse().unwrap_or_default();
    for key in ["file", "package", "origin", "licence"] {
        table.remove(key);
    }
    table.insert("name".to_owned(), to.into());
    table.insert("summary".to_owned(), format!("Laid out like {from}").into());
    table.to_string()
}

/// Copies a file that belongs to a model from beside its network into a models folder, where
/// several models may share it.
fn add_part(manifest: &Manifest, part: &Part, network: &Path, dir: &Path) -> Result<(), ZooError> {
    let (from, target) = (beside(network, part), dir.join(&part.file));
    let is_here = target.is_file();
    if !from.is_file() {
        let name = manifest.name.clone();
        return if is_here {
            sum_of_part(manifest, part, &target).map(drop)
        } else {
            Err(ZooError::PartAbsent { name, path: from })
        };
    }
    let sum = sum_of_part(manifest, part, &from)?;
    if is_here {
        return if sum_of(&target)? == sum {
            Ok(())
        } else {
            Err(ZooError::PartTaken {
                name: manifest.name.clone(),
                path: target,
            })
        };
    }
    let copy = Leftover(temporary(&target));
    let write = |source| ZooError::Write {
        path: target.clone(),
        source,
    };
    fs::copy(&from, &copy.0).map_err(write)?;
    download::put_in_place(&copy.0, &target, sum).map_err(write)
}
