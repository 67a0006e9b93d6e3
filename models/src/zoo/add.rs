//! How files come into a models folder: as part of a pull, or given by the user.
//!
//! Invariants: nothing is put in the place of a file that is not of the same model; what fails half way leaves nothing under a name or
//! checksum that is not its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::digest;
use crate::download::{self, PullPlan, Trust};
use crate::manifest::{Manifest, Part};
use crate::raw;

use super::verify::meant;
use super::{
    BUILTIN, MOTION, Resolved, Zoo, ZooError, beside, manifests_in, read_text, unreadable,
};

/// Whether a file is the network that a manifest, given as TOML, describes; else one sentence.
pub type Opens<'o> = &'o dyn Fn(&Path, &str) -> Result<(), String>;

impl Zoo {
    /// What to fetch for this model, its network last: of that a file with a known checksum before one without. `mirror` is the address of a folder
    /// that holds `NAME.onnx`, and the other files under their names, for every model an integrator offers; it takes the place of every published
    /// address, and what comes from it has to be the file that would have been fetched from there. A checksum that the user has from elsewhere is that
    /// of the network.
    ///
    /// A file that nobody publishes may be here already; it is left as it is where it is the one that is meant.
    ///
    /// # Errors
    /// [`ZooError`]: no such model, no folder, or no published file.
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
        // Into our own folder, also where another one has it: what is there need not be what was asked for.
        let folder = self.dirs.first().ok_or(ZooError::NoFolder)?;
        let mirrored =
            |file: &str| mirror.map(|mirror| format!("{}/{file}", mirror.trim_end_matches('/')));
        let file = manifest
            .files
            .iter()
            .filter(|f| f.url.is_some() || mirror.is_some())
            .min_by_key(|f| f.sha256.is_none());
        let network = format!("{name}.onnx");
        let url = mirrored(&network).or_else(|| file.and_then(|f| f.url.clone()));
        let Some(url) = url else {
            return Err(ZooError::NotPublished {
                name: name.to_owned(),
            });
        };
        self.apart(manifest, name)?;
        let mut plans = Vec::new();
        for part in manifest.parts() {
            let target = folder.join(&part.file);
            let Some(url) = mirrored(&part.file).or_else(|| part.url.clone()) else {
                if !target.is_file() {
                    return Err(ZooError::PartNotPublished {
                        name: name.to_owned(),
                        path: target,
                    });
                }
                let (found, _) =
                    digest::of_file(&target).map_err(|source| unreadable(&target, source))?;
                meant(manifest, part, &target, found)?;
                continue;
            };
            self.may_replace(manifest, part, &target)?;
            plans.push(PullPlan {
                name: name.to_owned(),
                url,
                sha256: part.sha256,
                bytes: part.bytes,
                trust: match trust {
                    Trust::Sum(_) => Trust::KnownOnly,
                    trust => trust,
                },
                target,
            });
        }
        plans.push(PullPlan {
            name: name.to_owned(),
            url,
            sha256: file.and_then(|f| f.sha256),
            bytes: file.and_then(|f| f.bytes),
            trust,
            target: folder.join(network),
        });
        Ok(plans)
    }

    /// Refuses files of a model that would take the place of a network, and a network that would take that of another model's file.
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

    /// Refuses to fetch a file of a model into the place of another one: only what is the same, or was put here for this model alone, gives way.
    fn may_replace(&self, manifest: &Manifest, part: &Part, target: &Path) -> Result<(), ZooError> {
        if !target.exists() {
            return Ok(());
        }
        let (found, _) = digest::of_file(target).map_err(|source| unreadable(target, source))?;
        if part.sha256 == Some(found) {
            return Ok(());
        }
        let others = self.entries.values().filter(|m| m.name != manifest.name);
        let mut others = others.flat_map(|other| other.parts());
        let is_others = others.any(|other| {
            other.file == part.file && (other.sha256.is_none() || other.sha256 != part.sha256)
        });
        if download::recorded_sum(target).is_some() && !is_others {
            return Ok(());
        }
        let (name, path) = (manifest.name.clone(), target.to_owned());
        Err(match part.sha256 {
            Some(_) => ZooError::PartTaken { name, path },
            None => ZooError::PartUnknown { name, path },
        })
    }

    /// Copies a local file into the first models folder and answers the name it has there. The manifest is, in this order: the
    /// one given, that of the model named by `like`, the one beside the file, that of a known export. A manifest from
    /// outside the zoo is copied too.
    ///
    /// The name is `name`, else that of the manifest; but a file that is only laid out like a model, and is none of that model's known files, is
    /// another model: it is named after the file, and gets a manifest of its own.
    ///
    /// `opens` says whether the file is the network that its manifest describes, before anything is written.
    ///
    /// # Errors
    /// [`ZooError`]; nothing is left behind under a final name.
    pub fn add(
        &mut self,
        path: &Path,
        manifest: Option<&Path>,
        like: Option<&str>,
        name: Option<&str>,
        opens: Opens<'_>,
    ) -> Result<Resolved, ZooError> {
        let dir = self.dirs.first().cloned().ok_or(ZooError::NoFolder)?;
        let described = match (manifest, like) {
            (Some(file), _) => Arc::new(Manifest::read(file)?),
            (None, Some(like)) => self
                .entries
                .get(like)
                .cloned()
                .ok_or_else(|| self.unknown(like))?,
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
        let (described, text) = match text {
            Some(text) if name != described.name => {
                let own = dir.join(format!("{name}.toml"));
                let text = renamed(&text, &described.name, &name);
                (Arc::new(Manifest::parse(&own, &text)?), Some(text))
            }
            text => (described, text),
        };
        let describing = match &text {
            Some(text) => text.clone(),
            None => self.text_of(&described.name)?,
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
        self.apart(&described, &name)?;
        let target = dir.join(format!("{name}.onnx"));
        for part in described.parts() {
            add_part(&described, part, path, &dir)?;
        }
        let part = adding;
        let file = Leftover(part(&target));
        let mut weights = fs::File::open(path).map_err(|source| unreadable(path, source))?;
        fs::File::create(&file.0)
            .and_then(|mut copy| io::copy(&mut weights, &mut copy))
            .map_err(write(&target))?;
        let (sum, _) = digest::of_file(&file.0).map_err(write(&file.0))?;
        if let Some(text) = text {
            // Before the file: a manifest without a file is absent, a file without its manifest would be taken for something else.
            let own = dir.join(format!("{name}.toml"));
            let part = Leftover(part(&own));
            fs::write(&part.0, text).map_err(write(&part.0))?;
            fs::rename(&part.0, &own).map_err(write(&own))?;
            self.entries.insert(name, described.clone());
        }
        download::put_in_place(&file.0, &target, sum).map_err(write(&target))?;
        Ok(Resolved {
            manifest: described,
            path: target,
        })
    }

    /// The name of a file that is laid out as `like` says.
    fn name_for(&self, path: &Path, like: &Manifest) -> Result<String, ZooError> {
        let (sum, _) = digest::of_file(path).map_err(|source| unreadable(path, source))?;
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

    /// The manifest of this name as it was written.
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

/// The manifest `text` for another file of the same layout: what it says of the files, their origin and their licence is not true of that one.
fn renamed(text: &str, from: &str, to: &str) -> String {
    let mut table: toml::Table = text.parse().unwrap_or_default();
    for key in ["file", "origin", "licence"] {
        table.remove(key);
    }
    table.insert("name".to_owned(), to.into());
    table.insert("summary".to_owned(), format!("Laid out like {from}").into());
    table.to_string()
}

/// Where a file is written before it gets its name; a name of our own, as a pull of the same model may be writing its part.
fn adding(of: &Path) -> PathBuf {
    of.with_added_extension(format!("{}.adding", std::process::id()))
}

/// Copies a file that belongs to a model from beside its network into a models folder, where several models may share it.
fn add_part(manifest: &Manifest, part: &Part, network: &Path, dir: &Path) -> Result<(), ZooError> {
    let (from, target) = (beside(network, part), dir.join(&part.file));
    let is_here = target.is_file();
    if !from.is_file() {
        let name = manifest.name.clone();
        return if is_here {
            let (sum, _) =
                digest::of_file(&target).map_err(|source| unreadable(&target, source))?;
            meant(manifest, part, &target, sum)
        } else {
            Err(ZooError::PartAbsent { name, path: from })
        };
    }
    let (sum, _) = digest::of_file(&from).map_err(|source| unreadable(&from, source))?;
    meant(manifest, part, &from, sum)?;
    if is_here {
        let (there, _) = digest::of_file(&target).map_err(|source| unreadable(&target, source))?;
        return if there == sum {
            Ok(())
        } else {
            Err(ZooError::PartTaken {
                name: manifest.name.clone(),
                path: target,
            })
        };
    }
    let copy = Leftover(adding(&target));
    let write = |source| ZooError::Write {
        path: target.clone(),
        source,
    };
    fs::copy(&from, &copy.0).map_err(write)?;
    download::put_in_place(&copy.0, &target, sum).map_err(write)
}

/// A file that is removed unless it was renamed.
struct Leftover(PathBuf);

impl Drop for Leftover {
    fn drop(&mut self) {
        // Not there is as it should be, and nobody looks at what can't be removed.
        fs::remove_file(&self.0).ok();
    }
}
