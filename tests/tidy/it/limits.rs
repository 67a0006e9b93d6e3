//! `docs/ref/limits.md` has the values of the constants, and each row has a test.

use std::path::Path;

use crate::workspace::{files, read};

/// A row of a table of limits.
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    bound: &'a str,
    file: &'a str,
    constant: &'a str,
    test: &'a str,
}

/// The rows that name a constant.
fn rows(document: &str) -> Vec<Row<'_>> {
    let lines = document.lines().filter(|line| line.starts_with("| "));
    lines
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, _, bound, place, _, test, _] = cells[..] else {
                return None;
            };
            let (file, constant) = place.split_once("` `")?;
            Some(Row {
                bound,
                file: file.trim_start_matches('`'),
                constant: constant.trim_end_matches('`'),
                test: test.trim_matches('`'),
            })
        })
        .collect()
}

/// The value of a constant: a number, `A << B` or a product; also within `NonZero…::new(…)`.
fn value(source: &str, constant: &str) -> Option<u64> {
    let declared = source.split_once(&format!("const {constant}:"))?.1;
    let (_, value) = declared.split_once(';')?.0.split_once('=')?;
    let value = value.split_once("new(").map_or(value, |(_, inner)| inner);
    let value = value.split(')').next()?.trim().replace('_', "");
    let binary = |sign, apply: fn(u64, u64) -> u64| {
        let (a, b) = value.split_once(sign)?;
        Some(apply(a.trim().parse().ok()?, b.trim().parse().ok()?))
    };
    let plain = value.parse().ok();
    plain
        .or_else(|| binary("<<", |a, b| a << b))
        .or_else(|| binary("*", |a, b| a * b))
}

/// The value of a bound, such as `64 MiB` or `50,000,000 pixels`.
fn bound(text: &str) -> Option<u64> {
    let mut words = text.split(' ');
    let number: u64 = words.next()?.replace(',', "").parse().ok()?;
    Some(match words.next() {
        Some("KiB") => number << 10,
        Some("MiB") => number << 20,
        _ => number,
    })
}

#[test]
fn each_limit_has_its_constant_and_its_test() -> crate::Outcome {
    let document = read(Path::new("docs/ref/limits.md"))?;
    let rows = rows(&document);
    assert!(rows.len() > 15, "{}", rows.len());
    let sources: Vec<String> = files(Path::new(""))
        .into_iter()
        .filter(|file| file.extension().is_some_and(|e| e == "rs"))
        .filter_map(|file| read(&file).ok())
        .collect();
    for row in rows {
        let source = read(Path::new(row.file))?;
        let value = value(&source, row.constant);
        assert!(value.is_some(), "{row:?}: no such constant");
        assert_eq!(bound(row.bound), value, "{row:?}");
        let test = format!("fn {}(", row.test);
        let is_there = sources.iter().any(|source| source.contains(&test));
        assert!(is_there, "{row:?}: no such test");
    }
    Ok(())
}

#[test]
fn a_row_is_read_with_its_value() {
    let row = "| a file | 64 MiB | `a/b.rs` `MAX` | too large | `it_is_refused` |";
    let read = rows(row);
    let wanted = Row {
        bound: "64 MiB",
        file: "a/b.rs",
        constant: "MAX",
        test: "it_is_refused",
    };
    assert_eq!(read, [wanted]);
    for source in [
        "pub const MAX: u64 = 64 << 20;",
        "const MAX: usize = 67_108_864;",
        "const MAX: usize = 65_536 * 1024;",
        "const MAX: NonZeroU64 = NonZeroU64::new(64 << 20).unwrap();",
    ] {
        assert_eq!(value(source, "MAX"), bound("64 MiB"), "{source}");
    }
    assert_eq!(value("const MAX: u8 = OTHER;", "MAX"), None);
}
