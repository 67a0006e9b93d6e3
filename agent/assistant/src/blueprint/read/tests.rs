//! Files of blueprints: what is read, and how errors are named.

use proptest::prelude::*;

use super::*;
use crate::blueprint::built_in;

fn name(name: &str) -> BlueprintName {
    BlueprintName::new(name).unwrap()
}

fn flaws(front: &str, body: &str) -> Vec<String> {
    let text = format!("+++\n{front}\n+++\n{body}");
    let flaws = read(&name("dock"), &text).unwrap_err();
    flaws.iter().map(ToString::to_string).collect()
}

#[test]
fn missing_fields_default_to_the_job() {
    let text = "+++\njob = \"question\"\nwhen = \"About the dock.\"\n+++\n\nAnswer in Polish.\n";
    let read = read(&name("dock"), text).unwrap();
    assert_eq!(read.tools, Job::Question.tools());
    assert_eq!((read.steps, read.cost), (12, Job::Question.max_cost()));
    assert_eq!(
        (read.model, read.instructions.as_str()),
        (ModelSize::Small, "Answer in Polish.")
    );
}

#[test]
fn blueprint_may_name_a_model_and_require_a_plan() {
    let text = "+++\njob = \"set-up\"\nwhen = \"x\"\nprovider = \"claude\"\nmodel = \
            \"claude-opus-5\"\nplan_required = true\n+++";
    let read = read(&name("dock"), text).unwrap();
    assert_eq!(read.model_name(), "claude/claude-opus-5");
    assert!(read.plan_required);
    let planless = flaws("job = \"question\"\nwhen = \"x\"\nplan_required = true", "");
    assert!(
        planless[0].contains("add update_plan to tools"),
        "{planless:?}"
    );
    let vague = flaws(
        "job = \"question\"\nwhen = \"x\"\nprovider = \"claude\"",
        "",
    );
    assert!(
        vague[0].starts_with("model: a provider needs the id"),
        "{vague:?}"
    );
    let sized = "job = \"question\"\nwhen = \"x\"\nprovider = \"claude\"\nmodel = \"small\"";
    assert!(flaws(sized, "")[0].contains("id of a model"));
}

#[test]
fn tools_keep_the_order_of_the_job() {
    let text = "+++\njob = \"question\"\nwhen = \"x\"\ntools = [\"query_events\", \
            \"look_around\"]\n+++";
    let read = read(&name("dock"), text).unwrap();
    assert_eq!(read.tools, ["look_around", "query_events"]);
}

#[test]
fn blueprint_can_only_narrow_its_job() {
    let wider = flaws(
        "job = \"question\"\nwhen = \"x\"\ntools = [\"look_around\", \"propose_deployment\", \
                \"query_event\"]\n[limits]\nsteps = 13\ncost_usd = 1.5",
        "",
    );
    assert_eq!(wider.len(), 4, "{wider:#?}");
    assert!(wider[0].contains("propose_deployment") && wider[0].contains("can't widen"));
    assert!(wider[1].contains("did you mean query_events?"));
    assert!(wider[2].contains("limits.steps = 13") && wider[2].contains("1 to 12"));
    assert!(wider[3].contains("limits.cost_usd = 1.5") && wider[3].contains("up to 1.00"));
    let blind = flaws("job = \"notes\"\nwhen = \"x\"\ntools = []", "");
    assert!(blind[0].contains("look_around is missing"), "{blind:?}");
}

#[test]
fn value_of_another_type_is_named_with_the_wanted_one() {
    for (line, form) in [
        ("model = 3", "write a text in quotes"),
        ("plan_required = 1", "write true or false"),
        ("limits.steps = -1", "write a whole number"),
        ("limits.cost_usd = \"1\"", "write an amount"),
    ] {
        let front = format!("job = \"question\"\nwhen = \"x\"\n{line}");
        let flaws = flaws(&front, "");
        let told = format!("{line}: it has the wrong type; {form}");
        assert!(flaws[0].starts_with(&told), "{flaws:?}");
    }
}

#[test]
fn all_errors_of_the_form_are_reported_at_once() {
    let front = "jobb = \"question\"\nwhen = 3\nmodle = \"small\"\ntools = 1\n\
            [limits]\nsteps = -1\ncosts = 2";
    let flaws = flaws(front, "");
    let fields = [
        "when",
        "tools",
        "jobb",
        "modle",
        "limits.steps",
        "limits.costs",
        "job",
    ];
    assert_eq!(flaws.len(), fields.len(), "{flaws:#?}");
    for (flaw, field) in flaws.iter().zip(fields) {
        let begins = flaw.split([' ', ':']).next();
        assert_eq!(begins, Some(field), "{flaws:#?}");
    }
}

#[test]
fn only_a_valid_form_shows_that_no_provider_is_named() {
    let of = |line: &str| {
        names_no_provider(&format!(
            "+++\njob = \"notes\"\nwhen = \"x\"\n{line}\n+++\n"
        ))
    };
    assert!(of("limits.steps = 99") && of("model = \"huge\""));
    for line in [
        "provider = \"local\"",
        "provder = \"local\"",
        "x =",
        "tools = 1",
    ] {
        assert!(!of(line), "{line}");
    }
}

#[test]
fn every_error_names_field_value_and_remedy() {
    let all = flaws(
        "job = \"question\"\nwhen = \"\"\nmodel = \"huge\"",
        &"x".repeat(MAX_INSTRUCTIONS + 1),
    );
    for (field, remedy) in [
        ("when = \"\"", "one line"),
        ("instructions = 2001 bytes", "at most 2000"),
        ("model = \"huge\"", "llm.large_model"),
    ] {
        let found = all.iter().find(|flaw| flaw.starts_with(field));
        assert!(
            found.is_some_and(|flaw| flaw.contains(remedy)),
            "{field}: {all:#?}"
        );
    }
    for (line, begin, within) in [
        (
            "modle = \"small\"",
            "modle = \"small\": unknown field",
            "did you mean model?",
        ),
        (
            "limits = 3",
            "limits = 3: it has the wrong type",
            "[limits]",
        ),
        (
            "job = \"qestion\"",
            "job = \"qestion\": unknown variant",
            "did you mean question?",
        ),
        ("limits.steps = -1", "limits.steps = -1: ", "-1"),
        (
            "tools = 1",
            "tools = 1: it has the wrong type",
            "a list of names",
        ),
    ] {
        let job = if line.starts_with("job") {
            ""
        } else {
            "job = \"question\"\n"
        };
        let found = flaws(&format!("{job}{line}\nwhen = \"x\""), "");
        assert!(
            found[0].starts_with(begin) && found[0].contains(within),
            "{found:?}"
        );
    }
    let missing = flaws("when = \"x\"", "");
    assert!(missing[0].starts_with("job: it is missing"), "{missing:?}");
    assert!(flaws("job = ", "")[0].starts_with("job"));
    for text in ["", "job", "+++\njob = \"question\"\n", "+++"] {
        let flaws = read(&name("dock"), text).unwrap_err();
        assert!(flaws[0].to_string().contains("another line +++"), "{text}");
    }
    let long = format!("+++\n+++\n{}", "x".repeat(MAX_BYTES));
    assert!(
        read(&name("dock"), &long).unwrap_err()[0]
            .to_string()
            .contains("too large")
    );
}

#[test]
fn file_replacing_a_built_in_one_keeps_its_job() {
    let text = built_in::text(Job::Question);
    let flaws = read(&name("triage"), text).unwrap_err();
    assert!(
        flaws
            .iter()
            .any(|f| f.to_string().contains("job = \"triage\"")),
        "{flaws:?}"
    );
    assert!(read(&name("other"), text).is_ok());
}

proptest! {
    #[test]
    fn valid_blueprint_stays_within_the_limits_of_its_job(text in "(?s).{0,200}",
    steps in any::<i64>(), cost in any::<f64>(),
    tools in prop::collection::vec("[a-z_]{1,20}", 0..4)) {
        let _whatever = read(&name("dock"), &text);
        let front = format!("+++\njob = \"notes\"\nwhen = \"x\"\ntools = \
            {tools:?}\n[limits]\nsteps = {steps}\ncost_usd = {cost:?}\n+++\n{text}");
        if let Ok(read) = read(&name("dock"), &front) {
            prop_assert!(read.tools.iter().all(|tool| Job::Notes.tools().contains(tool)));
            prop_assert!(read.steps >= 1 && read.steps <= Job::Notes.max_steps());
            prop_assert!(read.cost <= Job::Notes.max_cost());
            prop_assert!(read.instructions.len() <= MAX_INSTRUCTIONS);
        }
    }
}
