//! Templates by their names, in a person's words.

use watchkeeper_contract::rule::{Condition, CountBound};
use watchkeeper_plain::answer::{Answer, Missing};

use crate::support::{ask, deployed, proposal_in, question, question_in, scene, specs};

#[test]
fn a_template_is_used_by_its_name_with_its_defaults() {
    for text in [
        "use template loitering on gate",
        "Use the loitering template on the gate camera",
        "apply the loitering template with camera=gate",
        "template loitering on camera gate",
        "loitering on gate",
    ] {
        let spec = deployed(text);
        assert_eq!(spec.source.as_str(), "gate", "{text}");
        assert!(
            matches!(spec.rules.unwrap()[0].when, Condition::Stays { for_s, .. } if (for_s - 120.0).abs() < 1e-9),
            "{text}"
        );
    }
}

#[test]
fn values_are_given_by_name() {
    let text = "use template crowd on gate, number=7, time=20 seconds and place=rectangle 10%,20% to 50%,60%";
    let spec = deployed(text);
    assert!(
        matches!(spec.rules.as_ref().unwrap()[0].when, Condition::Count { bound: CountBound::Over(7), for_s, .. } if (for_s - 20.0).abs() < 1e-9),
        "{:?}",
        spec.rules
    );
    assert_eq!(
        spec.workflow["steps"][2]["zone"],
        serde_json::json!([[128, 144], [640, 144], [640, 432], [128, 432]])
    );
}

#[test]
fn what_a_template_needs_is_asked_for_and_the_answer_completes_it() {
    let scene = scene();
    let first = question_in("use template zone-entry", &scene);
    assert_eq!(first.about, Missing::Camera);
    let second = question_in(&first.answered("gate"), &scene);
    assert_eq!(second.about, Missing::Place, "{}", second.text);
    let spec = specs(&proposal_in(&second.answered("the left half"), &scene)).remove(0);
    assert_eq!(spec.source.as_str(), "gate");
    assert!(matches!(
        spec.rules.unwrap()[0].when,
        Condition::Enters { .. }
    ));
}

#[test]
fn a_template_a_parameter_or_a_value_that_is_none_is_told_with_what_there_is() {
    for (text, part) in [
        ("use template lottery on gate", "loitering"),
        ("use template crowd on gate, size=7", "it has camera"),
        ("use template crowd on gate, number=many", "\"many\""),
        ("use template crowd on gate on sundays", "sundays"),
    ] {
        let asked = question(text, Missing::Meaning);
        assert!(asked.text.contains(part), "{text}: {}", asked.text);
    }
}

#[test]
fn the_list_shows_what_each_says_and_how_one_is_used() {
    let Answer::Look(looked) = ask("list templates", &scene()) else {
        panic!("not a look-up");
    };
    for part in ["use template", "Alert me when a person stays", "crowd"] {
        assert!(looked.text.contains(part), "{}", looked.text);
    }
}
