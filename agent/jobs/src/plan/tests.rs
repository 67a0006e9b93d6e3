//! Reading, check and repair of plans.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use proptest::prelude::*;
use serde_json::json;

use super::check::unknown_among;
use super::*;
use crate::tool::local_time;
use crate::tools::picture_tools;

const GOOD: &str = r#"
name: best-of-days
inputs: {folder: ./photos, count: 3}
steps:
  - name: list
    tool: list_pictures
    params: {folder: "${inputs.folder}"}
  - {name: measure, tool: measure_quality, params: {pictures: "${list.pictures}"}}
  - {name: days, tool: group, params: {pictures: "${measure.pictures}", by: day}}
  - name: best
    tool: select_best
    params: {from: "${days.groups}", count: "${inputs.count}"}
    retry: {tries: 2, pauses_s: [1]}
    timeout_s: 60
  - name: album
    tool: album
    params: {from: "${best.groups}", name: "best of ${list.count}"}
    depends_on: [list]
    alternatives:
      - {tool: contact_sheet, params: {from: "${best.pictures}", file: best.jpg}}
"#;

fn faults(text: &str) -> Vec<String> {
    let checked = read_text(text).and_then(|plan| check(plan, &picture_tools()));
    checked
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn repaired(text: &str) -> (Plan, Vec<String>) {
    let repaired = repair(read_text(text).unwrap(), &picture_tools());
    let repaired = repaired.unwrap_or_else(|faults| panic!("{faults:?}"));
    let changes = repaired.changes.iter().map(ToString::to_string).collect();
    (repaired.plan.plan().clone(), changes)
}

/// The faults that a repair leaves.
fn left(text: &str) -> Vec<String> {
    let left = repair(read_text(text).unwrap(), &picture_tools()).unwrap_err();
    left.faults.iter().map(ToString::to_string).collect()
}

#[test]
fn valid_plan_has_no_faults_and_needs_no_repair() {
    let plan = read_text(GOOD).unwrap();
    check(plan.clone(), &picture_tools()).unwrap();
    assert_eq!(repaired(GOOD), (plan, Vec::new()));
}

#[test]
fn plan_is_the_same_after_writing_and_reading() {
    let plan = read_text(GOOD).unwrap();
    let written = serde_json::to_value(&plan).unwrap();
    assert_eq!(read(&written).unwrap(), plan);
}

#[test]
fn all_faults_of_form_are_found_at_once() {
    let found =
        faults("nmae: x\nsteps: [{tool: 3, timeout_s: 0, retry: {tries: 99, pauses_s: [-1]}}, 7]");
    let expected = [
        "no field \"nmae\"; did you mean name?",
        "name: is missing",
        "steps.0.name: is missing",
        "steps.0.tool: 3 is not a text",
        "steps.0.retry.tries: 99 is not an integer from 1 to 10",
        "steps.0.retry.pauses_s: -1 is not an integer from 0 to 600",
        "steps.0.timeout_s: 0 is not an integer from 1 to 86400",
        "steps.1: 7 is not a map of fields",
    ];
    assert_eq!(found, expected);
    assert!(faults("steps: [")[0].starts_with("not a plan in YAML or JSON"));
}

#[test]
fn each_fault_of_a_step_is_found_once() {
    let twice = faults(
        "name: a\nsteps:\n  - {name: list, tool: list_pictures, params: {folder: /a}}\n  \
         - {name: list, tool: rank, params: {pictures: \"${list.pictures}\", by: name}}\n  \
         - {name: c, tool: rank, params: {pictures: null, by: name}}\n  \
         - {name: \"\", tool: rank, params: {pictures: \"${list.pictures}\", by: name}}",
    );
    let expected = [
        "steps.list: another step has this name; rename one",
        "steps.c.params.pictures: is missing",
    ];
    assert_eq!(twice[..2], expected);
    assert!(
        twice[2].starts_with("steps.3.name: \"\" is not a name"),
        "{twice:?}"
    );
    assert_eq!(twice.len(), 3);
}

#[test]
fn misspelt_field_of_a_condition_is_refused_with_the_nearest() {
    let text = "name: x\nsteps:\n  \
        - {name: list, tool: list_pictures, params: {folder: /a}}\n  \
        - {name: big, tool: filter, params: {pictures: \"${list.pictures}\", \
        where: [\"widht >= 100\"]}}";
    let found = faults(text);
    assert!(found[0].ends_with("; did you mean width?"), "{found:?}");
}

#[test]
fn all_faults_of_meaning_are_found_at_once() {
    let found = faults(
        r#"
name: x
steps:
  - {name: a, tool: fly}
  - {name: b, tool: rank, params: {by: mood, pictures: "${c.pictures}", x: 1}, depends_on: [z, b]}
  - {name: c, tool: select_best, params: {from: "${b.pictures}", count: 0}}
  - {name: c, tool: group, params: {pictures: "${list}", by: day}}
  - {name: d, tool: group, params: {pictures: "${e.file}", by: "${inputs.by}"}}
  - {name: e, tool: album, params: {from: "${d.sums}", name: ../x}}
  - {name: Bad, tool: list_pictures, params: {folder: /a}}
"#,
    );
    let expected = [
        "steps.a.tool: no tool \"fly\"; there are album, combine, contact_sheet, filter, find_duplicates, \
         group, list_pictures, measure_quality, rank, read_codes, select_best",
        "steps.b.depends_on: no step \"z\"; there are Bad, a, b, c, d, e",
        "steps.b.depends_on: the step waits for itself",
        "steps.b.params.by: \"mood\" is not one of quality, sharpness, exposure, contrast, noise, \
         newest, oldest, largest, smallest, widest, tallest, most_bytes, fewest_bytes, ends, name, worst, blurriest, flattest, noisiest, brightest, darkest",
        "steps.b.params.x: no parameter \"x\"; there are by, pictures",
        "steps.c.params.count: 0 is not an integer from 1 to 10000",
        "steps.c: another step has this name; rename one",
        "steps.c.params.pictures: \"${list}\" is not a reference such as ${step.key}, \
         ${inputs.key} or job://id/step/key",
        "steps.d.params.by: no input \"by\"",
        "steps.d.params.pictures: \"${e.file}\" is not pictures or groups of another \
         step; it is a file name without folders",
        "steps.e.params.from: no result \"sums\"; there are count, groups, pictures",
        "steps.e.params.name: \"../x\" is not a file name without folders",
        "steps.Bad.name: \"Bad\" is not a name of 1 to 64 of a-z, 0-9, '-' and '_' that begins \
         with a letter and is not inputs",
        "steps: these steps wait for each other: b → c; remove one of the references",
        "steps: these steps wait for each other: d → e; remove one of the references",
    ];
    assert_eq!(found, expected);
}

#[test]
fn input_must_fit_the_parameter_that_uses_it() {
    let text = GOOD.replace("count: 3}", "count: many}");
    assert_eq!(
        faults(&text),
        ["inputs.count: \"many\" is not an integer from 1 to 10000"]
    );
}

#[test]
fn input_written_as_text_is_repaired_if_all_take_numbers() {
    let written = GOOD.replace("count: 3", "count: \"3\"");
    let (plan, changes) = repaired(&written);
    assert_eq!(plan.inputs["count"], json!(3));
    assert_eq!(changes, ["input count: \"3\" is 3"]);
    // As the name of a folder it is a text.
    let both = written
        .replace("folder: ./photos, ", "")
        .replace("inputs.folder", "inputs.count");
    let plan = read_text(&both).unwrap();
    assert!(repair(plan, &picture_tools()).is_err());
}

#[test]
fn folder_is_written_out_or_one_whole_input() {
    for written in [
        "${inputs.folder}${inputs.count}",
        "${inputs.folder}/x",
        "/x${list.count}",
    ] {
        let text = GOOD.replace("\"${inputs.folder}\"", &format!("\"{written}\""));
        assert_ne!(text, GOOD);
        let found = faults(&text);
        let is_folder = |fault: &String| fault.contains("the path of a folder, or one reference");
        assert!(found.iter().any(is_folder), "{written}: {found:?}");
    }
}

#[test]
fn misspelt_names_are_repaired_and_reported() {
    let text = GOOD
        .replace("tool: measure_quality", "tool: mesure_quality")
        .replace(
            "pictures: \"${measure.pictures}\", by: day",
            "picturs: \"${measure.picturse}\", by: hourr",
        )
        .replace("${days.groups}", "${dayz.grups}")
        .replace("timeout_s: 60", "depends_on: [measre]");
    let (plan, changes) = repaired(&text);
    let expected = [
        "step measure: tool \"mesure_quality\" is measure_quality",
        "step days: parameter \"picturs\" is pictures",
        "step days: parameter by: \"hourr\" is \"hour\"",
        "step days: ${measure.picturse} is ${measure.pictures}",
        "step best: ${dayz.grups} is ${days.groups}",
        "step best: dependency \"measre\" is measure",
    ];
    assert_eq!(changes, expected);
    assert_eq!(plan.steps[3].call.params["from"], json!("${days.groups}"));
}

#[test]
fn unknown_parameter_and_result_are_the_only_ones_that_fit() {
    let steps = r#"
name: a
steps:
  - {name: list, tool: list_pictures, params: {path: ./a}}
  - {name: best, tool: select_best, params: {from: "${list.images}", n: 3}}
  - {name: album, tool: album, params: {from: "${best.pictures}", name: a}}
"#;
    let (plan, changes) = repaired(steps);
    let expected = [
        "step list: parameter \"path\" is folder",
        "step best: parameter \"n\" is count",
        "step best: ${list.images} is ${list.pictures}",
    ];
    assert_eq!(changes, expected);
    assert_eq!(plan.steps[0].call.params["folder"], "./a");
    let sheet = steps.replace("tool: album", "tool: contact_sheet");
    let (_, changes) = repaired(&sheet);
    assert!(changes.contains(&"step album: parameter \"name\" is file".to_owned()));
    let (_, changes) = repaired(&steps.replace("from: \"${best", "pictures: \"${best"));
    assert!(changes.contains(&"step album: parameter \"pictures\" is from".to_owned()));
    let named = left(&steps.replace("name: a}", "folder: a}"));
    assert!(named[0].contains("name: is missing"), "{named:?}");
    // Two results of "best" fit.
    let unclear = left(&steps.replace("${best.pictures}", "${best.chosen}"));
    assert!(unclear[0].contains("no result \"chosen\""), "{unclear:?}");
}

#[test]
fn order_copies_texts_and_lost_dependencies_are_repaired() {
    let text = r#"
name: x
steps:
  - {name: best, tool: select_best, params: {from: "${list.pictures}", count: "3", by: newest}}
  - {name: list, tool: list_pictures, params: {folder: /a, subfolders: "true"}, depends_on: [nowhere]}
  - {name: list, tool: list_pictures, params: {folder: /a, subfolders: "true"}, depends_on: [nowhere]}
"#;
    let (plan, changes) = repaired(text);
    let expected = [
        "step list: listed twice; one is dropped",
        "step best: parameter count: \"3\" is 3",
        "step list: parameter subfolders: \"true\" is true",
        "step list: dependency \"nowhere\" is dropped: there is no such step",
        "the order is list, best",
    ];
    assert_eq!(changes, expected);
    assert_eq!(plan.steps[1].name, "best");
}

#[test]
fn cycle_is_broken_at_a_wish_and_never_at_a_reference() {
    let text = GOOD.replace(
        "    params: {folder: \"${inputs.folder}\"}",
        "    params: {folder: /a}\n    depends_on: [album]",
    );
    let (plan, changes) = repaired(&text);
    assert_eq!(
        changes,
        ["step list: no longer waits for album, which waits for it"]
    );
    assert_eq!(plan.steps[0].depends_on, [""; 0]);
    let text = r#"
name: x
steps:
  - {name: a, tool: rank, params: {pictures: "${b.pictures}"}}
  - {name: b, tool: rank, params: {pictures: "${a.pictures}"}}
"#;
    let faults = repair(read_text(text).unwrap(), &picture_tools())
        .unwrap_err()
        .faults;
    assert!(
        faults[0].to_string().contains("wait for each other"),
        "{faults:?}"
    );
}

#[test]
fn fault_that_stays_is_named_beside_a_cycle_that_is_repaired() {
    let text = r#"
name: x
steps:
  - {name: list, tool: list_pictures, params: {folder: /a}}
  - {name: a, tool: rank, params: {pictures: "${list.count}"}, depends_on: [b]}
  - {name: b, tool: rank, params: {pictures: "${list.pictures}", by: name}, depends_on: [a]}
"#;
    let cycle = "steps: these steps wait for each other: a → b; remove one of the references";
    let [kind] = left(text).try_into().unwrap();
    assert!(kind.starts_with("steps.a.params.pictures:"), "{kind}");
    assert_eq!(faults(text), [&kind, cycle]);
    let strong = r#"
  - {name: c, tool: rank, params: {pictures: "${d.pictures}", by: quality}}
  - {name: d, tool: rank, params: {pictures: "${c.pictures}"}}
"#;
    let text = format!("{}{}", text.trim_end(), strong);
    let stays = "steps: these steps wait for each other: c → d; remove one of the references";
    assert_eq!(faults(&text), [&kind, stays, cycle]);
    assert_eq!(left(&text), [&kind, stays]);
}

#[test]
fn list_in_a_text_and_a_wrong_time_are_found_before_the_run() {
    let text = GOOD
        .replace("best of ${list.count}", "best of ${list.pictures}")
        .replace(
            "tool: group, params: {pictures: \"${measure.pictures}\", by: day}",
            "tool: filter, params: {pictures: \"${measure.pictures}\", since: soon}",
        )
        .replace("${days.groups}", "${days.pictures}");
    let expected = [
        "steps.days.params.since: \"soon\" is not a local time such as 2026-03-01 or \
         2026-03-01T08:00, or a span before now such as 1d or 90m",
        "steps.album.params.name: \"best of ${list.pictures}\" is not a file name without folders",
    ];
    assert_eq!(faults(&text), expected);
}

#[test]
fn reference_inside_a_list_is_a_fault() {
    let with = |condition: &str| {
        format!(
            "{{name: x, steps: [{{name: list, tool: list_pictures, params: {{folder: /a}}}}, \
             {{name: some, tool: filter, params: {{pictures: \"${{list.pictures}}\", \
             where: [width > 1, {condition:?}]}}}}]}}"
        )
    };
    for condition in [
        "camera is ${some.count}",
        "${nosuch.x}",
        "camera is ${list.count}",
        "camera is ${",
        "job://a/b/c",
    ] {
        let [found] = left(&with(condition)).try_into().unwrap();
        assert_eq!(
            found,
            format!(
                "steps.some.params.where: {condition:?} is not a text without references; write \
                 the list out, or one reference in place of the whole list"
            )
        );
    }
    check(read_text(&with("width < 9")).unwrap(), &picture_tools()).unwrap();
}

#[test]
fn end_before_the_start_is_a_fault() {
    let with = |times: &str| {
        format!(
            "{{name: x, inputs: {{end: 2020-01-01}}, steps: [{{name: list, tool: list_pictures, \
             params: {{folder: /a}}}}, {{name: some, tool: filter, \
             params: {{pictures: \"${{list.pictures}}\", {times}}}}}]}}"
        )
    };
    for until in ["2020-01-01", "\"${inputs.end}\""] {
        let expected =
            "steps.some.params.until: \"2020-01-01T00:00:00\" is not a time behind since";
        let text = with(&format!("since: 2023-01-01, until: {until}"));
        assert_eq!(faults(&text), [expected]);
    }
    let plan = read_text(&with("since: 2019-01-01, until: 2020-01-01")).unwrap();
    check(plan, &picture_tools()).unwrap();
}

#[test]
fn relative_folders_are_made_absolute() {
    let mut plan = read_text(GOOD).unwrap();
    anchor(&mut plan, &picture_tools()).unwrap();
    let folder = plan.inputs["folder"].as_str().unwrap().to_owned();
    assert!(
        folder.starts_with('/') && folder.ends_with("/photos"),
        "{folder}"
    );
    assert_eq!(plan.inputs["count"], json!(3));
    assert_eq!(
        plan.steps[0].call.params["folder"],
        json!("${inputs.folder}")
    );
}

#[test]
fn two_steps_do_not_write_one_file() {
    let text = r#"
name: x
steps:
  - {name: list, tool: list_pictures, params: {folder: /a}}
  - {name: a, tool: contact_sheet, params: {from: "${list.pictures}", file: x.jpg}}
  - {name: b, tool: contact_sheet, params: {from: "${list.pictures}", file: x.jpg}}
"#;
    assert_eq!(
        faults(text),
        ["steps.b: step a writes \"x.jpg\" too; choose another name"]
    );
}

#[test]
fn thousand_steps_are_the_most() {
    let step =
        |n| json!({"name": format!("s{n}"), "tool": "list_pictures", "params": {"folder": "/a"}});
    let plan = |steps: usize| {
        let steps: Vec<Value> = (0..steps).map(step).collect();
        read(&json!({"name": "x", "steps": steps})).unwrap()
    };
    check(plan(MAX_STEPS), &picture_tools()).unwrap();
    let steps: Vec<Value> = (0..=MAX_STEPS).map(step).collect();
    let faults = read(&json!({"name": "x", "steps": steps})).unwrap_err();
    assert_eq!(faults[0].kind, FaultKind::TooManySteps(MAX_STEPS + 1));
}

#[test]
fn plan_of_more_cycles_than_are_repaired_is_refused() {
    let step = |n: usize| {
        let others = (1..=MAX_DEPENDENCIES).map(|m| format!("s{}", (n + m) % MAX_STEPS));
        json!({"name": format!("s{n}"), "tool": "list_pictures", "params": {"folder": "/a"},
            "depends_on": others.collect::<Vec<_>>()})
    };
    let steps: Vec<Value> = (0..MAX_STEPS).map(step).collect();
    let plan = read(&json!({"name": "x", "steps": steps})).unwrap();
    let left = repair(plan, &picture_tools()).unwrap_err();
    assert_eq!(left.changes.len(), 100);
    let is_cycle = |fault: &Fault| matches!(fault.kind, FaultKind::Cycle(_));
    assert!(
        left.faults.iter().all(is_cycle),
        "{:?}",
        left.faults.first()
    );
    assert!(!left.faults.is_empty());
}

/// Plans of `rank` and `filter` steps with any references, dependencies and spelling.
fn any_plan() -> impl Strategy<Value = Plan> {
    let step = (
        0_usize..9,
        0_usize..9,
        prop::collection::vec(0_usize..9, 0..3),
        0_u8..6,
    );
    prop::collection::vec(step, 1..9).prop_map(|steps| {
        let steps = steps.into_iter().map(|(name, from, needs, spelling)| {
            let tool = ["rnak", "rank", "filter"][usize::from(spelling.min(2))];
            let owner = if spelling == 1 {
                format!("stpe{from}")
            } else {
                format!("step{from}")
            };
            let mut params = json!({"pictures": format!("${{{owner}.pictures}}")});
            if tool == "filter" {
                let item = ["width > 1", "camera is ${step1.count}"][usize::from(spelling > 3)];
                params["where"] = json!([item]);
            }
            json!({
                "name": format!("step{name}"),
                "tool": tool,
                "params": params,
                "depends_on": needs.iter().map(|n| format!("step{n}")).collect::<Vec<_>>(),
            })
        });
        read(&json!({"name": "x", "steps": steps.collect::<Vec<_>>()})).unwrap()
    })
}

proptest! {
    #[test]
    fn any_plan_is_repaired_or_refused(plan in any_plan()) {
        let tools = picture_tools();
        match repair(plan.clone(), &tools) {
            Ok(repaired) => {
                let plan = repaired.plan.plan().clone();
                let again = repair(plan.clone(), &tools).unwrap();
                prop_assert_eq!(again.changes, Vec::new());
                prop_assert_eq!(again.plan.plan(), &plan);
            }
            Err(left) => prop_assert!(!left.faults.is_empty()),
        }
    }

    #[test]
    fn repair_keeps_references_of_known_steps(plan in any_plan()) {
        let names: Vec<String> = plan.steps.iter().map(|step| step.name.clone()).collect();
        if let Ok(repaired) = repair(plan.clone(), &picture_tools()) {
            for step in &repaired.plan.plan().steps {
                let before = plan.steps.iter().find(|old| old.name == step.name).unwrap();
                for owner in graph::referenced(before).into_iter().filter(|o| names.contains(o)) {
                    prop_assert!(graph::referenced(step).contains(&owner));
                }
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        if let Ok(plan) = read_text(&text) {
            prop_assert!(repair(plan, &picture_tools()).is_err());
        }
    }
}

#[test]
fn near_name_is_found_among_those_that_a_fault_does_not_list() {
    let known = ["20261129-dock", "20261128-gate", "20261127-roof"];
    let fault = |name| Fault::new("a", unknown_among("job", name, &known, 1)).to_string();
    assert_eq!(
        fault("20261127-rooof"),
        "a: no job \"20261127-rooof\"; did you mean 20261127-roof?"
    );
    assert_eq!(
        fault("x"),
        "a: no job \"x\"; there are 20261129-dock and 2 more"
    );
}

#[test]
fn span_before_now_becomes_the_time_of_the_job() {
    let text = |since: &str| {
        let filter = format!("{{pictures: \"${{list.pictures}}\", since: \"{since}\"}}");
        let list = "{name: list, tool: list_pictures, params: {folder: /a}}";
        format!("name: x\nsteps:\n  - {list}\n  - {{name: new, tool: filter, params: {filter}}}\n")
    };
    for since in ["1d", "90m", "2h 30m"] {
        let (plan, changes) = repaired(&text(since));
        let time = plan.steps[1].call.params["since"].as_str().unwrap();
        assert!(local_time(time).is_some(), "{time}");
        assert_eq!(changes.len(), 1, "{changes:?}");
    }
    for since in ["-1d", "1", "yesterday"] {
        assert!(left(&text(since))[0].contains("since"), "{since}");
    }
}
