use std::path::Path;

use rusqlite::Connection;
use watchkeeper_config::LookupValue;

use super::*;

fn config(path: &Path) -> TableLookup {
    TableLookup {
        value: LookupValue::Read,
        path: path.to_owned(),
        table: None,
        key: "plate".to_owned(),
        columns: vec!["owner".to_owned()],
        is_fuzzy: true,
        is_alike: false,
    }
}

fn confidence(answer: &SourceAnswer) -> Option<f64> {
    match answer {
        SourceAnswer::Answered { confidence, .. } => Some(*confidence),
        _ => None,
    }
}

fn csv(text: &str) -> (tempfile::TempDir, Table) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("members.csv");
    std::fs::write(&path, text).unwrap();
    let table = Table::new(config(&path));
    (dir, table)
}

const MEMBERS: &str =
    "\u{feff}plate,owner\nAB 123 CD,Ada\nXY 900 ZW,\"Grace, H.\"\nXY 901 ZW,Mary\n";

#[test]
fn exact_key_ignores_case_and_spaces() {
    let (_dir, mut table) = csv(MEMBERS);
    let found = table.look_up("ab123cd");
    assert_eq!(confidence(&found), Some(0.95), "{found:?}");
    let SourceAnswer::Answered { data, .. } = found else {
        panic!("an answer");
    };
    assert_eq!(data["row"], json!({"owner": "Ada"}));
}

#[test]
fn upc_a_and_its_ean_13_are_one_key() {
    let products = "plate,owner\n0481714833274,Ada\n890444000335,Mary\n123456789010,Joan\n";
    let (_dir, mut table) = csv(products);
    for (read, owner) in [("481714833274", "Ada"), ("0890444000335", "Mary")] {
        let SourceAnswer::Answered { data, .. } = table.look_up(read) else {
            panic!("an answer for {read}");
        };
        assert_eq!(data["match"], "exact", "{read}");
        assert_eq!(data["row"], json!({"owner": owner}));
    }
    // Twelve digits without a check digit are another number.
    let found = table.look_up("0123456789010");
    assert!(!matches!(&found, SourceAnswer::Answered { data, .. } if data["match"] == "exact"));
}

#[test]
fn near_key_lowers_confidence_and_a_tie_is_no_answer() {
    let (_dir, mut table) = csv(MEMBERS);
    let near = confidence(&table.look_up("AB123CE")).unwrap();
    assert!((0.65..=0.85).contains(&near), "{near}");
    let ambiguous = table.look_up("XY902ZW");
    assert_eq!(confidence(&ambiguous), None, "{ambiguous:?}");
    assert!(format!("{ambiguous:?}").contains("2 rows"), "{ambiguous:?}");
    for unknown in ["QQ555QQ", "", "AB1"] {
        let found = table.look_up(unknown);
        assert!(
            matches!(found, SourceAnswer::NoAnswer { .. }),
            "{unknown}: {found:?}"
        );
    }
}

#[test]
fn file_that_is_no_table_is_refused_with_line_and_remedy() {
    for (bytes, expected) in [
        (
            &b""[..],
            "is empty; it needs a header line with the column plate",
        ),
        (
            b"\n\n",
            "is empty; it needs a header line with the column plate",
        ),
        (
            b"plate,owner\nA,Ada\nB,Grace, H.\n",
            "line 3 has 3 fields, and the header has 2",
        ),
        (
            b"plate,owner\nA,Andr\xe9\n",
            "line 2 is not UTF-8; save the file as UTF-8",
        ),
        (
            b"plate,propri\xe9taire\nA,Ada\n",
            "line 1 is not UTF-8; save the file as UTF-8",
        ),
        (
            b"plate;owner\nA;Ada\n",
            "line 1 has semicolons between the names of the columns; save the file with commas",
        ),
    ] {
        let (dir, mut table) = csv("");
        std::fs::write(dir.path().join("members.csv"), bytes).unwrap();
        table.config.columns.clear();
        let error = table.columns().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn exact_table_accepts_no_near_key() {
    let (_dir, mut table) = csv(MEMBERS);
    table.config.is_fuzzy = false;
    assert_eq!(confidence(&table.look_up("AB123CE")), None);
}

#[test]
fn confusable_characters_are_alike_only_if_configured() {
    let (_dir, mut table) = csv("plate,owner\nOI 50 AB,Ada\n");
    table.config.is_fuzzy = false;
    assert_eq!(confidence(&table.look_up("0150AB")), None);
    table.config.is_alike = true;
    table.loaded = None;
    assert_eq!(confidence(&table.look_up("0150AB")), Some(0.85));
}

#[test]
fn two_different_rows_of_one_key_are_no_answer() {
    let (_dir, mut table) = csv("plate,owner\nA1,Ada\na 1,Grace\nB2,Mary\nB2,Mary\n");
    assert_eq!(confidence(&table.look_up("A1")), None);
    assert_eq!(confidence(&table.look_up("B2")), Some(0.95));
}

#[test]
fn changed_file_is_read_again_and_a_missing_one_fails() {
    let (dir, mut table) = csv(MEMBERS);
    assert!(confidence(&table.look_up("AB123CD")).is_some());
    let path = dir.path().join("members.csv");
    std::fs::write(&path, "plate,owner\nNEW 1,Ada\n").unwrap();
    assert!(confidence(&table.look_up("NEW1")).is_some());
    std::fs::remove_file(&path).unwrap();
    let gone = table.look_up("NEW1");
    assert!(matches!(gone, SourceAnswer::Failed { .. }), "{gone:?}");
    std::fs::write(&path, MEMBERS).unwrap();
    assert!(confidence(&table.look_up("AB123CD")).is_some());
}

#[test]
fn errors_name_field_value_and_what_exists() {
    let (_dir, mut table) = csv("number,owner\n1,Ada\n");
    let error = table.columns().unwrap_err().to_string();
    let says = error.contains("key = \"plate\"") && error.contains("number, owner");
    assert!(says, "{error}");
    table.config.key = "number".to_owned();
    table.config.table = Some("members".to_owned());
    let error = table.columns().unwrap_err().to_string();
    assert!(error.contains("is no database"), "{error}");
}

#[test]
fn database_is_read_only_and_follows_its_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("members.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE \"the members\" (plate TEXT, owner TEXT, since INTEGER);
         INSERT INTO \"the members\" VALUES ('AB 123', 'Ada', 2019);",
    )
    .unwrap();
    let mut table = Table::new(TableLookup {
        table: Some("the members".to_owned()),
        columns: Vec::new(),
        ..config(&path)
    });
    let found = table.look_up("ab123");
    let SourceAnswer::Answered { data, .. } = &found else {
        panic!("{found:?}");
    };
    assert_eq!(data["row"]["since"], "2019");
    db.execute(
        "INSERT INTO \"the members\" VALUES ('NEW 777', 'Mary', 2026)",
        [],
    )
    .unwrap();
    assert_eq!(confidence(&table.look_up("NEW777")), Some(0.95));
    table.config.table = Some("other\"; DROP TABLE x".to_owned());
    table.loaded = None;
    let error = table.columns().unwrap_err().to_string();
    assert!(error.contains("the members"), "{error}");
    table.config.table = None;
    assert!(matches!(table.columns(), Err(TableError::NeedsTable(_))));
}

#[test]
fn table_over_the_bound_is_refused() {
    let rows: String = (0..=MAX_ROWS).map(|n| format!("{n},x\n")).collect();
    let (_dir, mut table) = csv(&format!("plate,owner\n{rows}"));
    assert!(matches!(table.columns(), Err(TableError::TooLarge { .. })));
}
