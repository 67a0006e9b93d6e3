//! Functions of product code have at most 60 lines of code.
//!
//! - Blank lines and lines of comments do not count, as in `clippy::too_many_lines`.
//! - A longer one says why: `#[expect(clippy::too_many_lines, reason = "…")]`. Clippy has the same
//!   limit in `.clippy.toml` and refuses an `expect` that is no longer needed.
//! - Not here: unit tests and the programs of `tests`.

use syn::visit::{self, Visit};

use crate::findings::{Finding, check};
use crate::workspace::{packages, read, sources};

const MAX_LINES: usize = 60;

/// Functions that are too long: line, name and lines of code.
struct LongFunctions<'a> {
    lines: Vec<&'a str>,
    found: Vec<(usize, String, usize)>,
}

impl LongFunctions<'_> {
    fn measure(&mut self, attributes: &[syn::Attribute], name: &syn::Ident, body: &syn::Block) {
        let braces = body.brace_token.span;
        let (first, last) = (braces.open().start().line, braces.close().start().line);
        // The lines between the braces.
        let inner = self
            .lines
            .get(first..last.saturating_sub(1).max(first))
            .unwrap_or_default();
        let code = inner
            .iter()
            .map(|line| line.trim())
            .filter(|line| is_code(line));
        let count = code.count();
        if count > MAX_LINES && !attributes.iter().any(is_explained) {
            self.found
                .push((name.span().start().line, name.to_string(), count));
        }
    }
}

fn is_code(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("//")
}

/// Whether an attribute expects the lint of clippy.
fn is_explained(attribute: &syn::Attribute) -> bool {
    let mut explained = false;
    if attribute.path().is_ident("expect") {
        // The reason stops the parser; the lints before it were seen by then.
        attribute
            .parse_nested_meta(|meta| {
                explained |= meta
                    .path
                    .segments
                    .last()
                    .is_some_and(|s| s.ident == "too_many_lines");
                Ok(())
            })
            .ok();
    }
    explained
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute
            .path()
            .segments
            .last()
            .is_some_and(|s| s.ident == "test")
            || (attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<syn::Ident>()
                    .is_ok_and(|cfg| cfg == "test"))
    })
}

impl<'ast> Visit<'ast> for LongFunctions<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.measure(&item.attrs, &item.sig.ident, &item.block);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.measure(&item.attrs, &item.sig.ident, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.measure(&item.attrs, &item.sig.ident, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

fn find_long(text: &str) -> syn::Result<Vec<(usize, String, usize)>> {
    let file = syn::parse_file(text)?;
    let mut functions = LongFunctions {
        lines: text.lines().collect(),
        found: Vec::new(),
    };
    // A file that `#[cfg(test)] mod` declares may carry the attribute itself.
    if !is_test(&file.attrs) {
        functions.visit_file(&file);
    }
    Ok(functions.found)
}

#[test]
fn functions_have_at_most_60_lines_of_code() -> crate::Outcome {
    let mut findings = Vec::new();
    for package in packages()?
        .iter()
        .filter(|package| !package.folder.starts_with("tests"))
    {
        for file in sources(package) {
            for (line, name, count) in find_long(&read(&file)?)? {
                findings.push(Finding {
                    file: file.clone(),
                    line,
                    says: format!("`{name}` has {count} lines of code, {MAX_LINES} are allowed"),
                });
            }
        }
    }
    check("functions", &findings)
}

#[test]
fn a_long_function_is_found_and_an_explained_one_is_not() -> crate::Outcome {
    let body = "    step();\n".repeat(MAX_LINES + 1);
    let comments = "    // why\n\n".repeat(MAX_LINES);
    let few = "    step();\n".repeat(MAX_LINES);
    let text = format!(
        "fn long() {{\n{body}}}\n\
         #[expect(clippy::too_many_lines, reason = \"a table\")]\nfn table() {{\n{body}}}\n\
         fn short() {{\n{few}{comments}}}\n\
         impl T {{\nfn of_type(&self) {{\n{body}}}\n}}\n\
         #[cfg(test)]\nmod tests {{\nfn case() {{\n{body}}}\n}}\n"
    );
    let found = find_long(&text)?;
    let found: Vec<(&str, usize)> = found.iter().map(|(_, n, c)| (n.as_str(), *c)).collect();
    assert_eq!(found, [("long", MAX_LINES + 1), ("of_type", MAX_LINES + 1)]);
    Ok(())
}
