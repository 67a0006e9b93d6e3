//! Templates: the nearest one, the list, and a filled one.

use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::Answer;

use crate::support::{PLAIN, ask, proposal, scene};

/// The command line that a refusal names.
fn nearest(text: &str, scene: &Scene) -> String {
    let Answer::Unknown(unknown) = ask(text, scene) else {
        panic!("{text}");
    };
    let command = unknown.text.split('`').nth(1).unwrap_or_default();
    command.to_owned()
}

#[test]
fn refusal_names_the_nearest_template_with_camera_and_class() {
    for (text, command) in [
        (
            "tell me when a purple person stays in the left half on camera gate for 3 minutes",
            r#"loitering --camera "gate" --class "people""#,
        ),
        (
            "alert me about the purple dogs on camera gate",
            r#"arrival --camera "gate" --class "dogs""#,
        ),
        (
            "warn me about people on camera gate between 20:00 and 5:00 in purple",
            r#"intruder --camera "gate" --class "people""#,
        ),
        (
            "tell me when a purple car crosses the vertical line at 40% from right to left",
            r#"line-crossing --camera CAMERA --class "cars""#,
        ),
        (
            "tell me when more than 3 people in purple are on camera gate",
            r#"crowd --camera "gate" --class "people""#,
        ),
        (
            "count the purple people on camera gate",
            r#"occupancy --camera "gate" --class "people""#,
        ),
        (
            "tell me when nobody purple is in the left parking bay for 2 minutes",
            r#"unattended --camera "yard" --zone ZONE"#,
        ),
        (
            "tell me when a purple person enters the left parking bay on camera yard",
            r#"zone-entry --camera "yard" --zone ZONE --class "people""#,
        ),
        ("tell me when it rains on camera gate", "--list"),
    ] {
        assert_eq!(
            nearest(text, &scene()),
            format!("watchkeeper watch {command}"),
            "{text}"
        );
    }
}

#[test]
fn only_camera_of_a_box_is_in_the_command_line() {
    let mut scene = scene();
    scene.cameras.truncate(1);
    let command = nearest("tell me about purple dogs", &scene);
    assert_eq!(
        command,
        r#"watchkeeper watch arrival --camera "dock" --class "dogs""#
    );
}

#[test]
fn number_beside_words_that_were_not_read_is_in_no_command_line() {
    for text in [
        "warn me about people on camera gate at most 3 times a day",
        "tell me when a person is on camera gate for one and a half minutes",
        "tell me when there are between two and four people on camera gate",
    ] {
        let command = nearest(text, &scene());
        assert!(command.starts_with("watchkeeper watch "), "{text}");
        assert!(!command.contains(|c: char| c.is_ascii_digit()), "{command}");
    }
}

#[test]
fn beside_a_word_that_turns_it_round_no_template_is_nearest() {
    for text in [
        "tell me when zero people are on camera gate for an hour",
        "tell me about people on camera gate unless it rains",
        "tell me when somebody falls down on camera gate",
        "tell me when a person and a car are on camera gate at the same time",
        "tell me when someone other than me is at the gate",
        "tell me when all the cars have left camera gate",
        "tell me when not a single person is on camera gate for 10 minutes",
        "tell me when there isn't a car on camera gate for 5 minutes",
    ] {
        let command = nearest(text, &scene());
        assert_eq!(command, "watchkeeper watch --list", "{text}");
    }
}

#[test]
fn templates_are_listed_by_the_command() {
    let Answer::Unknown(unknown) = ask("list templates", &scene()) else {
        panic!("not refused");
    };
    assert!(
        unknown.text.contains("watchkeeper watch --list"),
        "{unknown:?}"
    );
}

#[test]
fn a_crowd_begins_at_the_number_that_is_given() {
    let values = [("camera", "gate"), ("number", "3")];
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let request = PLAIN.templates().iter().find(|t| t.name == "crowd");
    let request = request.unwrap().fill(&values.into()).unwrap();
    let said = proposal(&request).understood;
    assert!(said.contains("at least 3 people"), "{said}");
}
