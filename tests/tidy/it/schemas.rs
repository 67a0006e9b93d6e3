//! Names of schemas in the OpenAPI documents. `utoipa` names a schema after its type, and of two
//! with one name the document keeps one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use syn::visit::Visit;

use crate::findings::{Finding, check};
use crate::workspace::{packages, read, sources};

/// Finds the types of a file that become schemas: line and name of each.
fn find_schemas(text: &str) -> syn::Result<Vec<(usize, String)>> {
    let mut schemas = Schemas::default();
    schemas.visit_file(&syn::parse_file(text)?);
    Ok(schemas.0)
}

#[derive(Default)]
struct Schemas(Vec<(usize, String)>);

impl Schemas {
    fn add(&mut self, attributes: &[syn::Attribute], ident: &syn::Ident) {
        if attributes.iter().any(derives_schema) {
            let name = attributes.iter().find_map(other_name);
            let name = name.unwrap_or_else(|| ident.to_string());
            self.0.push((ident.span().start().line, name));
        }
    }
}

impl Visit<'_> for Schemas {
    fn visit_item_struct(&mut self, item: &syn::ItemStruct) {
        self.add(&item.attrs, &item.ident);
    }

    fn visit_item_enum(&mut self, item: &syn::ItemEnum) {
        self.add(&item.attrs, &item.ident);
    }
}

fn derives_schema(attribute: &syn::Attribute) -> bool {
    let mut is_derived = false;
    if attribute.path().is_ident("derive") {
        // Another syntax than a list of paths derives nothing.
        attribute
            .parse_nested_meta(|derived| {
                let last = derived.path.segments.last();
                is_derived |= last.is_some_and(|segment| segment.ident == "ToSchema");
                Ok(())
            })
            .ok();
    }
    is_derived
}

/// The name of `#[schema(as = NAME)]`.
fn other_name(attribute: &syn::Attribute) -> Option<String> {
    let list = attribute.meta.require_list().ok()?;
    let rest = list.tokens.to_string();
    let name = rest
        .strip_prefix("as = ")
        .filter(|_| list.path.is_ident("schema"))?;
    Some(name.split([',', ' ']).next()?.to_owned())
}

#[test]
fn schemas_of_both_apis_have_names_of_their_own() -> crate::Outcome {
    let mut seen = BTreeMap::<String, (PathBuf, usize)>::new();
    let mut findings = Vec::new();
    for package in packages()? {
        for file in sources(&package) {
            let text = read(&file)?;
            // Most files have none, and need no parser.
            let schemas = match text.contains("ToSchema") {
                true => find_schemas(&text)?,
                false => Vec::new(),
            };
            for (line, name) in schemas {
                if let Some((other, _)) = seen.insert(name.clone(), (file.clone(), line)) {
                    let other = other.display();
                    let says = format!("the schema `{name}` is in {other} too: rename one");
                    findings.push(Finding {
                        file: file.clone(),
                        line,
                        says,
                    });
                }
            }
        }
    }
    assert!(!seen.is_empty(), "no schema was found");
    check("schemas", &findings)
}

#[test]
fn a_schema_is_found_under_its_name() -> crate::Outcome {
    let text = "#[derive(Debug, utoipa::ToSchema)]\nstruct Body;\n\
                #[derive(ToSchema)]\n#[schema(as = Sums)]\nenum Counts {}\n\
                #[derive(Debug)]\nstruct Inner;\n";
    let found = find_schemas(text)?;
    assert_eq!(found, [(2, "Body".to_owned()), (5, "Sums".to_owned())]);
    Ok(())
}
