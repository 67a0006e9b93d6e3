//! Every file of product code opens with what it owns.

use crate::workspace::{packages, read, sources};

fn has_module_doc(text: &str) -> bool {
    text.starts_with("//!")
}

#[test]
fn every_file_opens_with_what_it_owns() -> crate::Outcome {
    let mut without = Vec::new();
    for package in packages()? {
        for file in sources(&package) {
            if !has_module_doc(&read(&file)?) {
                without.push(file);
            }
        }
    }
    assert!(without.is_empty(), "no module doc: {without:?}");
    Ok(())
}

#[test]
fn a_file_that_opens_with_code_is_refused() {
    assert!(!has_module_doc("use std::fs;\n"));
    assert!(has_module_doc("//! Owns nothing.\n"));
}
