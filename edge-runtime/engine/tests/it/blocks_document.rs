//! Generates `docs/ref/blocks.md` from the engine's catalogue; `UPDATE_DOCS=1` rewrites it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use watchkeeper_engine::workflow::{
    AcceptedForm, FamilyState, accepted_forms, catalogue, details, families, missing,
    unsupported_families,
};

const HEAD: &str = "# Blocks

<!-- Generated from the engine's catalogue; UPDATE_DOCS=1 cargo nextest run -p watchkeeper-engine blocks_document rewrites it. -->

The blocks that a workflow's steps can use. The same list is at `GET /v1/blocks` and in `watchkeeper blocks`;
`watchkeeper blocks TYPE` shows the properties of one block, and with `--json` the JSON Schema of a step.
Versions of a block are listed together, with the properties of the latest one.
**Bold** properties are required. A kind in italics is what a selector must carry there; `*` is any kind.
";

/// Splits `roboflow_core/byte_tracker@v3` into family and version.
fn family(r#type: &str) -> (&str, &str) {
    r#type.split_once('@').unwrap_or((r#type, ""))
}

fn document() -> String {
    let blocks = catalogue();
    let mut out = HEAD.to_owned();
    write(&mut out, &overview());
    let categories: BTreeSet<&str> = blocks.iter().map(|b| b.category.as_str()).collect();
    for category in categories {
        let title = category.replace('_', " ");
        write(&mut out, &format!("\n## {title}\n"));
        let mut done = BTreeSet::new();
        for block in blocks.iter().filter(|b| b.category == category) {
            let (name, _) = family(&block.r#type);
            if done.insert(name) {
                let versions: Vec<&str> = blocks
                    .iter()
                    .map(|b| b.r#type.as_str())
                    .filter(|t| family(t).0 == name)
                    .collect();
                write(&mut out, &section(name, &versions));
            }
        }
    }
    write(&mut out, &not_yet());
    write(&mut out, &unsupported());
    out
}

/// All families with their state.
fn overview() -> String {
    let families = families();
    let here = families
        .values()
        .filter(|s| matches!(s, FamilyState::Supported(_) | FamilyState::Inlined));
    let mut out = format!(
        "\n## All families\n\n{} families, {} of them supported.\n\n| Family | State |\n|---|---|\n",
        families.len(),
        here.count()
    );
    for (name, state) in &families {
        let state = match state {
            FamilyState::Supported(versions) => versions.join(", "),
            FamilyState::Inlined => "replaced by the steps of the inner definition".to_owned(),
            FamilyState::Unsupported(why) => format!("not supported: {}", why.reason),
            FamilyState::Missing => "not yet".to_owned(),
        };
        write(&mut out, &format!("| `{name}` | {state} |\n"));
    }
    out
}

/// Types without a block yet.
fn not_yet() -> String {
    let missing = missing();
    if missing.is_empty() {
        return String::new();
    }
    let mut families: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in missing {
        let (name, version) = family(name);
        families.entry(name).or_default().push(version);
    }
    let rows: Vec<String> = families
        .iter()
        .map(|(name, versions)| format!("| `{name}` | {} |\n", versions.join(", ")))
        .collect();
    format!(
        "\n## Not yet\n\nA definition with one of these is refused.\n\n| Block | Versions |\n|---|---|\n{}",
        rows.concat()
    )
}

/// Families that are not supported.
fn unsupported() -> String {
    let mut out = "\n## Not supported\n\nA definition with one of these is refused with the reason. So is one with embedded Python blocks; use\n`property_definition`, `expression` and the query language instead.\n\n| Block | Why: it | Nearest supported |\n|---|---|---|\n".to_owned();
    for block in unsupported_families() {
        let nearest = block.nearest.map(|n| format!("`{n}`")).unwrap_or_default();
        let row = format!("| `{}` | {} | {nearest} |\n", block.family, block.reason);
        write(&mut out, &row.replace("|  |", "| |"));
    }
    out
}

fn section(name: &str, versions: &[&str]) -> String {
    let latest = versions
        .last()
        .and_then(|latest| details(latest))
        .expect("every type of the catalogue has details");
    let mut out = format!("\n### {name}\n\n{}\n\n", latest.summary.summary);
    let types: Vec<String> = versions.iter().map(|t| format!("`{t}`")).collect();
    write(&mut out, &format!("Types: {}", types.join(", ")));
    if !latest.summary.aliases.is_empty() {
        let aliases: Vec<String> = latest
            .summary
            .aliases
            .iter()
            .map(|a| format!("`{a}`"))
            .collect();
        write(&mut out, &format!(", also {}", aliases.join(", ")));
    }
    out.push_str("\n\n| Property | Value | Default | Meaning |\n|---|---|---|---|\n");
    let empty = serde_json::Map::new();
    let required: Vec<&str> = latest.schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = latest.schema["properties"].as_object().unwrap_or(&empty);
    for (property, schema) in properties {
        if property == "type" || property == "name" {
            continue;
        }
        let shown = if required.contains(&property.as_str()) {
            format!("**`{property}`**")
        } else {
            format!("`{property}`")
        };
        let default = match schema.get("default") {
            Some(default) => format!("`{default}`"),
            None => String::new(),
        };
        let about = schema["description"].as_str().unwrap_or_default();
        let row = format!("| {shown} | {} | {default} | {about} |\n", value(schema));
        write(&mut out, &row.replace("|  |", "| |"));
    }
    if !latest.outputs.is_empty() {
        let outputs: Vec<String> = latest
            .outputs
            .iter()
            .map(|(name, kinds)| format!("`{name}` (*{}*)", escaped(&kinds.join(", "))))
            .collect();
        write(&mut out, &format!("\nOutputs: {}\n", outputs.join(", ")));
    }
    out
}

/// The values of a property, from its schema.
fn value(schema: &Value) -> String {
    let word = |way| match way {
        AcceptedForm::Selector(kinds) => format!("*{}*", escaped(&kinds.join(", "))),
        AcceptedForm::OneOf(choices) => {
            let choices: Vec<String> = choices.iter().map(|c| format!("`{c}`")).collect();
            choices.join(", ")
        }
        AcceptedForm::Literal(said) => said,
    };
    let words: Vec<String> = accepted_forms(schema).into_iter().map(word).collect();
    words.join(" or ")
}

/// A single asterisk would end the italics.
fn escaped(kinds: &str) -> String {
    kinds.replace('*', "\\*").replace('|', "\\|")
}

fn write(out: &mut String, text: &str) {
    out.write_str(text).expect("a String takes everything");
}

#[test]
fn every_block_is_in_the_document_once() {
    let document = document();
    for block in catalogue() {
        let (name, _) = family(&block.r#type);
        let heading = format!("\n### {name}\n");
        assert_eq!(document.matches(&heading).count(), 1, "{name}");
        assert!(document.contains(&format!("`{}`", block.r#type)), "{name}");
    }
}

#[test]
fn every_family_of_the_language_has_a_state() {
    let families = families();
    assert_eq!(
        families["roboflow_core/inner_workflow"],
        FamilyState::Inlined
    );
    assert!(matches!(
        families["roboflow_core/byte_tracker"],
        FamilyState::Supported(_)
    ));
    assert!(matches!(
        families["roboflow_core/google_gemini"],
        FamilyState::Unsupported(_)
    ));
    for block in catalogue() {
        let (name, version) = family(&block.r#type);
        assert!(
            matches!(&families[name], FamilyState::Supported(versions) if versions.contains(&version))
        );
    }
}

#[test]
fn document_of_the_blocks_is_current() -> anyhow::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ref/blocks.md");
    let want = document();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &want)?;
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        have == want,
        "docs/ref/blocks.md is out of date; UPDATE_DOCS=1 cargo nextest run -p watchkeeper-engine blocks_document rewrites it"
    );
    Ok(())
}
