//! Reads the modules of a library or program: what each defines, imports, hands on and names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::Graph;
use super::attributes::{is_for_tests, item_attributes};
use super::resolve::resolve_all;

/// Where the files of a crate come from: the disk, or a fixture.
pub(crate) trait Source {
    fn read(&self, path: &Path) -> Result<String, String>;
    /// Lists the sources beside a file.
    fn beside(&self, path: &Path) -> Vec<PathBuf>;
}

/// The files of the workspace.
#[derive(Debug)]
pub(crate) struct Disk;

impl Source for Disk {
    fn read(&self, path: &Path) -> Result<String, String> {
        crate::workspace::read(path)
    }

    fn beside(&self, path: &Path) -> Vec<PathBuf> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut files = crate::workspace::files(folder);
        files.retain(|file| file.parent() == Some(folder) && file != path);
        files
    }
}

/// Index of a module.
pub(super) type Id = usize;

/// Definitions, imports and re-exports of a module. Imports of function bodies count as the
/// module's.
#[derive(Debug, Default)]
pub(super) struct Module {
    pub(super) file: super::File,
    pub(super) parent: Option<Id>,
    pub(super) children: BTreeMap<String, Id>,
    pub(super) items: BTreeSet<String>,
    pub(super) aliases: BTreeMap<String, Vec<Vec<String>>>,
    pub(super) globs: Vec<Vec<String>>,
}

/// A path as written in the code of a module.
#[derive(Debug)]
pub(super) struct Naming {
    pub(super) module: Id,
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// Everything read of one target.
#[derive(Debug, Default)]
pub(super) struct Target {
    pub(super) files: Vec<PathBuf>,
    pub(super) modules: Vec<Module>,
    pub(super) namings: Vec<Naming>,
}

/// Reads the graph of the target whose root is `path`.
pub(crate) fn read_target(source: &dyn Source, path: &Path) -> Result<Graph, String> {
    let mut target = Target::default();
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    read_file(source, &mut target, None, path, folder)?;
    Ok(resolve_all(&target))
}

/// Reads a file as a module; files of its child modules are looked for in `folder`.
fn read_file(
    source: &dyn Source,
    target: &mut Target,
    parent: Option<Id>,
    path: &Path,
    folder: PathBuf,
) -> Result<Id, String> {
    let text = source.read(path)?;
    let syntax = syn::parse_file(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let file = target.files.len();
    target.files.push(path.to_path_buf());
    let module = target.modules.len();
    target.modules.push(Module {
        file,
        parent,
        ..Module::default()
    });
    let mut reader = Reader {
        target,
        module,
        folder,
        children: Vec::new(),
    };
    reader.visit_file(&syntax);
    let mut children = std::mem::take(&mut reader.children);
    // A build script lists the children of such a file: they are the sources beside it.
    if text.contains("include!(concat!(env!(\"OUT_DIR\")") {
        children.extend(source.beside(path).into_iter().filter_map(|path| {
            let name = path.file_stem()?.to_str()?.to_owned();
            Some(Child {
                module,
                name,
                candidates: vec![path],
            })
        }));
    }
    for child in children {
        let found = child
            .candidates
            .iter()
            .find(|path| source.read(path).is_ok());
        let path = found.ok_or_else(|| format!("{}: mod {}", path.display(), child.name))?;
        let id = read_file(source, target, Some(child.module), path, folder_of(path))?;
        if let Some(module) = target.modules.get_mut(child.module) {
            module.children.insert(child.name, id);
        }
    }
    Ok(module)
}

/// The folder of the children of a file.
fn folder_of(path: &Path) -> PathBuf {
    if path.ends_with("mod.rs") {
        path.parent().map(Path::to_path_buf).unwrap_or_default()
    } else {
        path.with_extension("")
    }
}

/// A child module in its own file.
struct Child {
    module: Id,
    name: String,
    candidates: Vec<PathBuf>,
}

struct Reader<'a> {
    target: &'a mut Target,
    module: Id,
    folder: PathBuf,
    children: Vec<Child>,
}

impl Reader<'_> {
    fn define(&mut self, name: &syn::Ident) {
        if let Some(module) = self.target.modules.get_mut(self.module) {
            module.items.insert(name.to_string());
        }
    }

    fn name(&mut self, path: Vec<String>, line: usize) {
        self.target.namings.push(Naming {
            module: self.module,
            path,
            line,
        });
    }

    fn read_mod(&mut self, item: &syn::ItemMod) {
        let name = item.ident.to_string();
        let Some((_, items)) = &item.content else {
            let candidates = vec![
                self.folder.join(format!("{name}.rs")),
                self.folder.join(&name).join("mod.rs"),
            ];
            self.children.push(Child {
                module: self.module,
                name,
                candidates,
            });
            return;
        };
        let outer = self.module;
        let inner = self.target.modules.len();
        let file = self
            .target
            .modules
            .get(outer)
            .map_or(0, |module| module.file);
        self.target.modules.push(Module {
            file,
            parent: Some(outer),
            ..Module::default()
        });
        if let Some(module) = self.target.modules.get_mut(outer) {
            module.children.insert(name.clone(), inner);
        }
        self.module = inner;
        self.folder.push(name);
        for item in items {
            self.visit_item(item);
        }
        self.folder.pop();
        self.module = outer;
    }

    fn read_use(&mut self, tree: &syn::UseTree, prefix: &mut Vec<String>, is_public: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.read_use(&path.tree, prefix, is_public);
                prefix.pop();
            }
            syn::UseTree::Name(name) => {
                self.import(prefix, &name.ident, Some(&name.ident), is_public);
            }
            syn::UseTree::Rename(rename) => {
                let alias = Some(&rename.rename).filter(|alias| *alias != "_");
                self.import(prefix, &rename.ident, alias, is_public);
            }
            syn::UseTree::Glob(_) => {
                if let Some(module) = self.target.modules.get_mut(self.module) {
                    module.globs.push(prefix.clone());
                }
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.read_use(tree, prefix, is_public);
                }
            }
        }
    }

    fn import(
        &mut self,
        prefix: &[String],
        name: &syn::Ident,
        alias: Option<&syn::Ident>,
        is_public: bool,
    ) {
        let mut path = prefix.to_vec();
        let line = name.span().start().line;
        // `use a::{self}` imports `a`.
        let (path, alias) = if name == "self" {
            let last = path.last().cloned();
            let renamed = alias.filter(|alias| *alias != "self");
            (path, renamed.map(ToString::to_string).or(last))
        } else {
            path.push(name.to_string());
            (path, alias.map(ToString::to_string))
        };
        if !is_public {
            self.name(path.clone(), line);
        }
        if let (Some(alias), Some(module)) = (alias, self.target.modules.get_mut(self.module)) {
            module.aliases.entry(alias).or_default().push(path);
        }
    }

    /// Reads paths from the tokens of a macro, whose syntax is its own.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut line = 0;
        // How much of a `::` was read after the path.
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 && !path.is_empty() {
                        self.name(std::mem::take(&mut path), line);
                    }
                    if path.is_empty() {
                        line = ident.span().start().line;
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                token => {
                    if !path.is_empty() {
                        self.name(std::mem::take(&mut path), line);
                    }
                    colons = 0;
                    if let TokenTree::Group(group) = token {
                        self.read_tokens(group.stream());
                    }
                }
            }
        }
        if !path.is_empty() {
            self.name(path, line);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_for_tests(item_attributes(item)) {
            return;
        }
        match item {
            syn::Item::Const(item) => self.define(&item.ident),
            syn::Item::Enum(item) => self.define(&item.ident),
            syn::Item::Fn(item) => self.define(&item.sig.ident),
            syn::Item::Static(item) => self.define(&item.ident),
            syn::Item::Struct(item) => self.define(&item.ident),
            syn::Item::Trait(item) => self.define(&item.ident),
            syn::Item::Type(item) => self.define(&item.ident),
            syn::Item::Union(item) => self.define(&item.ident),
            syn::Item::Macro(item) => {
                if let Some(name) = &item.ident {
                    self.define(name);
                }
            }
            syn::Item::Mod(item) => return self.read_mod(item),
            syn::Item::Use(item) => {
                let is_public = !matches!(item.vis, syn::Visibility::Inherited);
                return self.read_use(&item.tree, &mut Vec::new(), is_public);
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes = match item {
            syn::ImplItem::Const(item) => &item.attrs[..],
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Type(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if !is_for_tests(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !is_for_tests(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_for_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let first = path
            .segments
            .first()
            .filter(|_| path.leading_colon.is_none());
        if let Some(first) = first {
            self.name(segments, first.ident.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.visit_path(&invocation.path);
        self.read_tokens(invocation.tokens.clone());
    }

    /// Attributes name functions in texts: `#[serde(with = "crate::seconds")]`.
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let syn::Meta::List(list) = &attribute.meta else {
            return;
        };
        for token in list.tokens.clone() {
            let line = token.span().start().line;
            let said = token.to_string();
            let text = said.trim_matches('"');
            let is_path = said.starts_with('"') && syn::parse_str::<syn::Path>(text).is_ok();
            if is_path {
                self.name(text.split("::").map(str::to_owned).collect(), line);
            }
        }
    }
}
