//! Plans on disk that serve later requests: those that a user keeps, and a cache.
//!
//! - `templates.json` holds kept plans by name. When it is full, keeping another one is refused.
//! - `cache.json` holds plans of language models whose jobs ended done. When it is full, the entry
//!   that was not used for the longest time is removed. A plan is used with the same tools only.
//! - Both are replaced whole and durably; a lock keeps two processes from losing a change.
//! - A damaged cache is replaced, damaged templates are reported.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use watchkeeper_store::chain::Hash;
use watchkeeper_store::durable;
use watchkeeper_store::file_lock::{LOCK_TIMEOUT, lock};
use watchkeeper_store::private_folder::make_private;

use crate::plan::{Plan, schema};
use crate::planner::PlanTemplate;
use crate::tool::Toolbox;

/// Most entries of the cache.
pub const MAX_CACHED: usize = 200;
/// Most templates that a user keeps.
pub const MAX_TEMPLATES: usize = 100;
/// Largest file of the cache or of the templates, in bytes.
pub const MAX_FILE_BYTES: usize = 4 << 20;
/// Longest name of a template.
const MAX_NAME: usize = 40;

const CACHE: &str = "cache.json";
const TEMPLATES: &str = "templates.json";
const LOCK: &str = "lock";

/// A plan that a user keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptTemplate {
    pub name: String,
    pub template: PlanTemplate,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct CachedPlan {
    /// SHA-256 of the schema of the tools.
    tools: String,
    /// Milliseconds since 1970.
    used_ms: i64,
    template: PlanTemplate,
}

/// A plan for a request, and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundPlan {
    pub plan: Plan,
    /// Request of which the plan was made.
    pub request: String,
    /// Name of the template; none for the cache.
    pub name: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum TemplateStoreError {
    #[error("{}: {source}; check the space and permissions of its disk", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is damaged: {why}; move it away", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("a template {0} exists; choose another name with --as, or forget it")]
    Taken(String),
    #[error(
        "{0:?} is not a valid name of a template: use 2 to {MAX_NAME} of a-z, 0-9 and '-', beginning \
         with a letter, and no number or article"
    )]
    Name(String),
    /// A template that is called by its name with other values than it takes.
    #[error("template {name} takes {takes}; for example: {example}")]
    Values {
        name: String,
        takes: String,
        example: String,
    },
    #[error("no template {name:?}; {}", describe_known(known))]
    Unknown { name: String, known: Vec<String> },
    #[error(
        "{MAX_TEMPLATES} templates of {MAX_FILE_BYTES} bytes together are the most; forget one"
    )]
    Full,
}

fn describe_known(known: &[String]) -> String {
    match known.is_empty() {
        true => "none is kept yet".to_owned(),
        false => format!("there are {}", known.join(", ")),
    }
}

/// The plans of a user, in one folder.
#[derive(Debug, Clone)]
pub struct TemplateStore {
    folder: PathBuf,
}

impl TemplateStore {
    /// Plans in `folder`, which the first write creates.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Finds the kept template for a request, by its name or its words.
    ///
    /// # Errors
    /// If the templates can't be read, or one is named with other values than it takes.
    pub fn find_template(&self, text: &str) -> Result<Option<FoundPlan>, TemplateStoreError> {
        let mut misused = None;
        for kept in self.templates()? {
            let named = || kept.template.fill_named(&kept.name, text);
            if let Some(plan) = kept.template.fill(text).or_else(named) {
                return Ok(Some(FoundPlan {
                    plan,
                    request: kept.template.request().to_owned(),
                    name: Some(kept.name),
                }));
            }
            if kept.template.is_named(&kept.name, text) {
                misused = Some(kept);
            }
        }
        let Some(KeptTemplate { name, template }) = misused else {
            return Ok(None);
        };
        let (takes, example) = template.describe_values(&name);
        Err(TemplateStoreError::Values {
            name,
            takes,
            example,
        })
    }

    /// Returns the kept templates, by name.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn templates(&self) -> Result<Vec<KeptTemplate>, TemplateStoreError> {
        self.read(TEMPLATES)
    }

    /// Keeps a template; durable on return.
    ///
    /// # Errors
    /// If the name is none or taken, the store is full, or the disk refuses.
    pub fn keep(&self, name: &str, template: PlanTemplate) -> Result<(), TemplateStoreError> {
        // A word that a request reads as a value or leaves out would never call the template.
        if !is_template_name(name) || !template.is_named(name, name) {
            return Err(TemplateStoreError::Name(name.to_owned()));
        }
        let _lock = self.lock()?;
        let mut all = self.templates()?;
        if all.iter().any(|kept| kept.name == name) {
            return Err(TemplateStoreError::Taken(name.to_owned()));
        }
        let name = name.to_owned();
        all.push(KeptTemplate { name, template });
        all.sort_by(|a, b| a.name.cmp(&b.name));
        let text = self.written(TEMPLATES, &all)?;
        if all.len() > MAX_TEMPLATES || text.len() > MAX_FILE_BYTES {
            return Err(TemplateStoreError::Full);
        }
        self.replace(TEMPLATES, &text)
    }

    /// Removes a kept template.
    ///
    /// # Errors
    /// If there is none of this name, or the disk refuses.
    pub fn forget(&self, name: &str) -> Result<(), TemplateStoreError> {
        let _lock = self.lock()?;
        let mut all = self.templates()?;
        let Some(place) = all.iter().position(|kept| kept.name == name) else {
            return Err(TemplateStoreError::Unknown {
                name: name.to_owned(),
                known: all.into_iter().map(|kept| kept.name).collect(),
            });
        };
        all.remove(place);
        let text = self.written(TEMPLATES, &all)?;
        self.replace(TEMPLATES, &text)
    }

    /// Finds the plan of a request in the cache and notes that it was used at `now_ms`.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn find_cached(
        &self,
        text: &str,
        tools: &Toolbox,
        now_ms: i64,
    ) -> Result<Option<FoundPlan>, TemplateStoreError> {
        if !self.folder.join(CACHE).exists() {
            return Ok(None);
        }
        let _lock = self.lock()?;
        let (mut all, hash) = (self.cached()?, hash_tools(tools));
        let mut usable = all.iter_mut().filter(|cached| cached.tools == hash);
        let found = usable.find_map(|cached| {
            let plan = cached.template.fill(text)?;
            cached.used_ms = now_ms;
            Some(FoundPlan {
                plan,
                request: cached.template.request().to_owned(),
                name: None,
            })
        });
        if found.is_some() {
            let text = self.written(CACHE, &all)?;
            self.replace(CACHE, &text)?;
        }
        Ok(found)
    }

    /// Returns whether [`Self::find_cached`] has a plan for a request. Changes nothing and does not
    /// wait for other processes.
    ///
    /// # Errors
    /// If the cache can't be read.
    pub fn is_cached(&self, text: &str, tools: &Toolbox) -> Result<bool, TemplateStoreError> {
        let (all, hash) = (self.cached()?, hash_tools(tools));
        let mut usable = all.iter().filter(|cached| cached.tools == hash);
        Ok(usable.any(|cached| cached.template.fill(text).is_some()))
    }

    /// Puts a plan into the cache in place of those that serve its request; durable on return.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn cache(
        &self,
        template: PlanTemplate,
        tools: &Toolbox,
        now_ms: i64,
    ) -> Result<(), TemplateStoreError> {
        let _lock = self.lock()?;
        let (mut all, hash) = (self.cached()?, hash_tools(tools));
        let serves = |cached: &CachedPlan| cached.template.fill(template.request()).is_some();
        all.retain(|cached| cached.tools != hash || !serves(cached));
        all.push(CachedPlan {
            tools: hash,
            used_ms: now_ms,
            template,
        });
        all.sort_by_key(|cached| std::cmp::Reverse(cached.used_ms));
        all.truncate(MAX_CACHED);
        let mut text = self.written(CACHE, &all)?;
        while text.len() > MAX_FILE_BYTES && all.pop().is_some() {
            text = self.written(CACHE, &all)?;
        }
        self.replace(CACHE, &text)
    }

    fn cached(&self) -> Result<Vec<CachedPlan>, TemplateStoreError> {
        match self.read(CACHE) {
            Err(TemplateStoreError::Damaged { .. }) => Ok(Vec::new()),
            read => read,
        }
    }

    fn read<T: for<'a> Deserialize<'a>>(&self, name: &str) -> Result<Vec<T>, TemplateStoreError> {
        let path = self.folder.join(name);
        let mut bytes = Vec::new();
        let read = match File::open(&path) {
            Ok(file) => file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => Err(error),
        };
        read.map_err(io_error(&path))?;
        let damaged = |why: String| TemplateStoreError::Damaged { path, why };
        if bytes.len() > MAX_FILE_BYTES {
            return Err(damaged(format!("it has more than {MAX_FILE_BYTES} bytes")));
        }
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))
    }

    fn written(&self, name: &str, all: &impl Serialize) -> Result<Vec<u8>, TemplateStoreError> {
        serde_json::to_vec(all).map_err(|error| TemplateStoreError::Damaged {
            path: self.folder.join(name),
            why: error.to_string(),
        })
    }

    fn replace(&self, name: &str, text: &[u8]) -> Result<(), TemplateStoreError> {
        let path = self.folder.join(name);
        durable::replace(&path, text).map_err(io_error(&path))
    }

    /// Creates the folder and waits until no other process changes its files.
    fn lock(&self) -> Result<File, TemplateStoreError> {
        make_private(&self.folder).map_err(io_error(&self.folder))?;
        let path = self.folder.join(LOCK);
        lock(&path, LOCK_TIMEOUT).map_err(io_error(&path))
    }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> TemplateStoreError {
    let path = path.to_owned();
    move |source| TemplateStoreError::Io { path, source }
}

fn is_template_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    begins && (2..=MAX_NAME).contains(&name.len()) && name.chars().all(is_letter)
}

/// SHA-256 of all that a plan can say with these tools, in hexadecimal.
fn hash_tools(tools: &Toolbox) -> String {
    Hash::of(schema(tools).to_string().as_bytes()).to_string()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::fs;

    use super::*;
    use crate::KnownNames;
    use crate::planner;
    use crate::tools::picture_tools;

    const REQUEST: &str = "organise /srv/a by day and keep the 3 best of each";

    fn template(request: &str) -> PlanTemplate {
        let now = "2026-11-28T15:00:00".parse().unwrap();
        let plan = planner::plan(REQUEST, now, &KnownNames::default()).unwrap();
        PlanTemplate::new(request, &plan, &picture_tools()).unwrap()
    }

    fn store() -> (tempfile::TempDir, TemplateStore) {
        let dir = tempfile::tempdir().unwrap();
        let store = TemplateStore::new(dir.path().join("plans"));
        (dir, store)
    }

    #[test]
    fn kept_template_is_found_by_name_and_by_words() {
        let (_dir, store) = store();
        assert_eq!(store.find_template("weekly").unwrap(), None);
        store
            .keep("weekly", template("my usual 3 of /srv/a"))
            .unwrap();
        for (text, count) in [("usual 5 /srv/b", 5), ("weekly 7 ./b", 7), ("weekly", 3)] {
            let found = store.find_template(text).unwrap().unwrap();
            let step = found.plan.steps.iter().find(|step| step.name == "best");
            assert_eq!(step.unwrap().call.params["count"], count, "{text}");
            assert_eq!(found.name.as_deref(), Some("weekly"));
        }
        let taken = store.keep("weekly", template("another")).unwrap_err();
        assert!(matches!(taken, TemplateStoreError::Taken(_)), "{taken}");
        for name in ["../x", "two", "the"] {
            let refused = store.keep(name, template("another")).unwrap_err();
            assert!(matches!(refused, TemplateStoreError::Name(_)), "{refused}");
        }
        store.forget("weekly").unwrap();
        assert_eq!(store.templates().unwrap(), []);
        assert!(store.forget("weekly").is_err());
    }

    #[test]
    fn templates_over_the_bound_are_refused() {
        let (_dir, store) = store();
        for n in 0..MAX_TEMPLATES {
            store
                .keep(&format!("t{n}"), template("usual 3 of /srv/a"))
                .unwrap();
        }
        let full = store
            .keep("one-more", template("usual 3 of /srv/a"))
            .unwrap_err();
        assert!(matches!(full, TemplateStoreError::Full), "{full}");
        assert_eq!(store.templates().unwrap().len(), MAX_TEMPLATES);
    }

    #[test]
    fn cache_loses_the_plan_that_was_not_used_for_the_longest_time() {
        let (_dir, store) = store();
        let tools = picture_tools();
        let request = |n: usize| format!("usual{n}x of /srv/a");
        for n in 0..MAX_CACHED {
            store
                .cache(template(&request(n)), &tools, n as i64)
                .unwrap();
        }
        let find = |n: usize, at: i64| store.find_cached(&request(n), &tools, at).unwrap();
        assert!(find(0, 1_000).is_some());
        store
            .cache(template(&request(MAX_CACHED)), &tools, 1_001)
            .unwrap();
        assert!(find(0, 1_002).is_some());
        assert_eq!(find(1, 1_003), None);
        assert!(find(2, 1_004).is_some());
    }

    #[test]
    fn later_plan_for_a_request_replaces_all_that_serve_it() {
        let (_dir, store) = store();
        let tools = picture_tools();
        for request in ["usual 3 of /srv/a", "usual 5 of /srv/b"] {
            store.cache(template(request), &tools, 1).unwrap();
        }
        let cached = store.cached().unwrap();
        assert_eq!(cached.len(), 1);
        assert_eq!(cached[0].template.request(), "usual 5 of /srv/b");
    }

    #[test]
    fn query_of_cached_plan_changes_nothing_and_never_waits() {
        let (dir, store) = store();
        let tools = picture_tools();
        assert!(!store.is_cached("usual of /srv/a", &tools).unwrap());
        assert!(!dir.path().join("plans").exists());
        store.cache(template("usual of /srv/a"), &tools, 1).unwrap();
        let cache = || fs::read(dir.path().join("plans").join(CACHE)).unwrap();
        let before = cache();
        let _held = store.lock().unwrap();
        assert!(store.is_cached("usual of /srv/b", &tools).unwrap());
        assert!(!store.is_cached("unusual of /srv/b", &tools).unwrap());
        assert_eq!(cache(), before);
    }

    #[test]
    fn plan_is_cached_for_its_tools_only() {
        let (_dir, store) = store();
        store
            .cache(template("usual of /srv/a"), &picture_tools(), 1)
            .unwrap();
        let other = Toolbox::new(
            picture_tools()
                .specs()
                .take(3)
                .filter_map(|spec| picture_tools().get(spec.name).cloned())
                .collect(),
        );
        assert!(
            store
                .find_cached("usual of /srv/a", &picture_tools(), 2)
                .unwrap()
                .is_some()
        );
        assert_eq!(
            store.find_cached("usual of /srv/a", &other, 3).unwrap(),
            None
        );
    }

    #[test]
    fn damaged_cache_is_replaced_and_damaged_templates_are_reported() {
        let (dir, store) = store();
        store.keep("weekly", template("usual 3 of /srv/a")).unwrap();
        let folder = dir.path().join("plans");
        fs::write(folder.join(CACHE), "{").unwrap();
        fs::write(folder.join(TEMPLATES), "{").unwrap();
        store
            .cache(template("usual of /srv/a"), &picture_tools(), 1)
            .unwrap();
        assert!(
            store
                .find_cached("usual of /srv/a", &picture_tools(), 2)
                .unwrap()
                .is_some()
        );
        let error = store.find_template("weekly").unwrap_err().to_string();
        assert!(error.contains("templates.json is damaged"), "{error}");
        fs::write(folder.join(TEMPLATES), vec![b' '; MAX_FILE_BYTES + 1]).unwrap();
        let error = store.templates().unwrap_err().to_string();
        assert!(error.contains("more than"), "{error}");
    }
}
