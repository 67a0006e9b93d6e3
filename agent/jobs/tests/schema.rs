//! The JSON Schema of plans and our own check agree, by a validator that we did not write.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use watchkeeper_jobs::plan::{Fault, FaultKind, check, read, schema};
use watchkeeper_jobs::tools::picture_tools;

/// Reads `{"schema": …, "plans": […]}` and prints for each plan whether it is valid.
const SCRIPT: &str = r"
import json, sys
import jsonschema
given = json.load(sys.stdin)
jsonschema.Draft202012Validator.check_schema(given['schema'])
validator = jsonschema.Draft202012Validator(given['schema'])
print(json.dumps([validator.is_valid(plan) for plan in given['plans']]))
";

/// Whether each plan is valid by Python's `jsonschema`; `None` if that is not installed.
#[expect(clippy::print_stdout, reason = "says what is skipped")]
fn by_schema(plans: &[Value]) -> Option<Vec<bool>> {
    let mut probe = Command::new("python3");
    let probe = probe.args(["-c", "import jsonschema"]).output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        println!("SKIPPED: python3 has no jsonschema (package python3-jsonschema)");
        return None;
    }
    let mut python = Command::new("python3")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let given = json!({"schema": schema(&picture_tools()), "plans": plans});
    let mut stdin = python.stdin.take().unwrap();
    stdin.write_all(given.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Whether a schema, which sees each value by itself, can find such a fault.
fn is_visible(fault: &Fault) -> bool {
    match &fault.kind {
        // The schema does not know which parameter takes an input.
        _ if fault.at.starts_with("inputs.") => false,
        FaultKind::Unknown { what, .. } => ["field", "tool", "parameter"].contains(what),
        FaultKind::Value { found, wanted } => {
            // Kinds of references, inputs, dates and names of files are beyond it.
            let is_text = found.starts_with('"');
            let is_bound = wanted.starts_with("one of") || wanted.starts_with("true or false");
            !is_text || (is_bound && !found.contains("${") && !found.contains("job://"))
        }
        FaultKind::Missing | FaultKind::NoSteps | FaultKind::TooManySteps(_) => true,
        _ => false,
    }
}

fn faults(plan: &Value) -> Vec<Fault> {
    let checked = read(plan).and_then(|plan| check(plan, &picture_tools()));
    checked.err().unwrap_or_default()
}

fn good() -> Value {
    json!({
        "name": "best-of-days",
        "description": "the best",
        "inputs": {"folder": "./photos", "count": 3, "flag": true},
        "rewards": {"success": 0.1, "failure": -0.5},
        "steps": [
            {"name": "list", "tool": "list_pictures",
                "params": {"folder": "${inputs.folder}", "subfolders": "${inputs.flag}"}},
            {"name": "measure", "tool": "measure_quality", "params": {"pictures": "${list.pictures}"}},
            {"name": "some", "tool": "filter", "params": {"pictures": "${measure.pictures}",
                "min_sharpness": 0.3, "since": "2026-03-01", "camera": "gate"}},
            {"name": "days", "tool": "group", "params": {"pictures": "${some.pictures}", "by": "day"}},
            {"name": "best", "tool": "select_best",
                "params": {"from": "${days.groups}", "count": "${inputs.count}"},
                "retry": {"tries": 2, "pauses_s": [1]}, "timeout_s": 60, "reason": "few are enough"},
            {"name": "album", "tool": "album",
                "params": {"from": "${best.groups}", "name": "best of ${list.count}"},
                "depends_on": ["list"],
                "alternatives": [{"tool": "contact_sheet",
                    "params": {"from": "${best.pictures}", "file": "best.jpg"}}]},
        ],
    })
}

#[test]
fn valid_plan_is_valid_for_both() {
    assert_eq!(faults(&good()), []);
    if let Some(valid) = by_schema(&[good()]) {
        assert_eq!(valid, [true]);
    }
}

#[test]
fn each_fault_that_a_schema_can_find_is_found_by_both() {
    let cases = [
        ("/name", json!(3)),
        ("/name", json!("x".repeat(201))),
        ("/nmae", json!("x")),
        ("/inputs", json!([])),
        ("/rewards", json!({"success": 1})),
        ("/steps", json!([])),
        ("/steps", json!({})),
        ("/steps/0", json!(7)),
        ("/steps/0/name", json!("Bad Name")),
        ("/steps/0/name", json!("inputs")),
        ("/steps/0/tool", json!("fly")),
        ("/steps/0/tool", Value::Null),
        ("/steps/0/params", json!({})),
        ("/steps/0/params/x", json!(1)),
        ("/steps/0/params/folder", json!("")),
        ("/steps/0/params/folder", json!(3)),
        ("/steps/0/params/subfolders", json!("yes")),
        ("/steps/1/params/pictures", json!("list.pictures")),
        ("/steps/1/params/pictures", json!(["a.jpg"])),
        ("/steps/2/params/min_sharpness", json!(1.5)),
        ("/steps/2/params/min_sharpness", json!("most")),
        ("/steps/3/params/by", json!("mood")),
        ("/steps/4/params/count", json!(0)),
        ("/steps/4/params/count", json!(2.5)),
        ("/steps/4/retry/tries", json!(11)),
        ("/steps/4/retry/pauses_s", json!([601])),
        ("/steps/4/timeout_s", json!(0)),
        ("/steps/5/depends_on", json!(3)),
        ("/steps/5/depends_on", json!([3])),
        ("/steps/5/alternatives", json!([{"tool": "fly"}])),
        (
            "/steps/5/alternatives",
            json!(vec![json!({"tool": "album"}); 11]),
        ),
    ];
    let plans = changed(&cases);
    let valid = by_schema(&plans).unwrap_or_else(|| vec![false; plans.len()]);
    for (((place, value), plan), valid) in cases.iter().zip(&plans).zip(valid) {
        assert_ne!(faults(plan), [], "{place} {value}: our check accepts it");
        assert!(!valid, "{place} {value}: the schema accepts it");
    }
}

#[test]
fn faults_between_values_are_found_by_our_check_alone() {
    let cases = [
        ("/steps/0/depends_on", json!(["album"])),
        ("/steps/1/name", json!("list")),
        ("/steps/1/params/pictures", json!("${lost.pictures}")),
        ("/steps/1/params/pictures", json!("${list.count}")),
        ("/steps/2/params/since", json!("soon")),
        ("/steps/5/params/name", json!("../x")),
        ("/inputs/count", json!("many")),
    ];
    let plans = changed(&cases);
    let valid = by_schema(&plans).unwrap_or_else(|| vec![true; plans.len()]);
    for (((place, value), plan), valid) in cases.iter().zip(&plans).zip(valid) {
        assert_ne!(faults(plan), [], "{place} {value}: our check accepts it");
        assert!(valid, "{place} {value}: the schema refuses it");
    }
}

/// The good plan with each of these values at its place.
fn changed(cases: &[(&str, Value)]) -> Vec<Value> {
    let changed = cases.iter().map(|(place, value)| {
        let mut plan = good();
        set(&mut plan, place, value.clone());
        plan
    });
    changed.collect()
}

/// Sets the value at a JSON pointer; its last part may be new.
fn set(plan: &mut Value, place: &str, value: Value) {
    let (above, key) = place.rsplit_once('/').unwrap();
    match plan.pointer_mut(above).unwrap() {
        Value::Array(all) => all[key.parse::<usize>().unwrap()] = value,
        map => map[key] = value,
    }
}

/// All places of a value, as JSON pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(all) => all.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(all) => all
            .iter()
            .enumerate()
            .map(|(n, v)| (n.to_string(), v))
            .collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        let at = format!("{at}/{key}");
        places(child, &at, found);
        found.push(at);
    }
}

fn any_value(random: &mut fastrand::Rng) -> Value {
    const TEXTS: [&str; 17] = [
        "",
        "x",
        "list",
        "day",
        "quality",
        "true",
        "3",
        "fly",
        "album",
        "${list.pictures}",
        "${inputs.count}",
        "${x",
        "${Best.x}",
        "job://a/b/c",
        "job://a",
        "2026-03-01",
        "../x",
    ];
    match random.u8(..9) {
        0 => Value::Null,
        1 => Value::from(random.bool()),
        2 => Value::from(random.i64(-2..20_000)),
        3 => json!(random.f64() * 2.0),
        4 => json!([]),
        5 => json!({}),
        6 => json!(["list"]),
        _ => Value::from(random.choice(TEXTS)),
    }
}

#[test]
fn both_agree_on_plans_with_any_value_at_any_place() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut found = Vec::new();
    places(&good(), "", &mut found);
    let cases: Vec<(&str, Value)> = (0..1_000)
        .filter_map(|_| {
            let place = random.choice(&found)?.as_str();
            Some((place, any_value(&mut random)))
        })
        .collect();
    let plans = changed(&cases);
    let Some(valid) = by_schema(&plans) else {
        return;
    };
    for (((place, value), plan), valid) in cases.iter().zip(&plans).zip(valid) {
        let faults = faults(plan);
        let is_visible = faults.iter().any(is_visible);
        assert!(
            valid || !faults.is_empty(),
            "{seed}: {place} {value}: only the schema refuses it"
        );
        assert!(!valid || !is_visible, "{seed}: {place} {value}: {faults:?}");
    }
}
