//! Lists the block files, so that a block is added by adding a file to `src/workflow/blocks`.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("src/workflow/blocks");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut families = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|s| s.to_str()).map(str::to_owned);
        let is_block = path.extension().is_some_and(|e| e == "rs");
        families.extend(
            name.filter(|name| is_block && name != "mod")
                .map(|n| (n, path)),
        );
    }
    families.sort();
    let mut text = String::new();
    for (name, path) in &families {
        writeln!(text, "#[path = {path:?}]\nmod {name};")?;
    }
    writeln!(
        text,
        "/// Manifests of every family, in alphabetical order of the files."
    )?;
    writeln!(text, "const FAMILIES: &[&[Manifest]] = &[")?;
    for (name, _) in &families {
        writeln!(text, "    {name}::BLOCKS,")?;
    }
    writeln!(text, "];")?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("families.rs"), text)?;
    Ok(())
}
