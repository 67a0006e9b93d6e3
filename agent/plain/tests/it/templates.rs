//! The list of templates.

use watchkeeper_plain::answer::Answer;

use watchkeeper_plain::Scene;

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
fn refusal_names_the_nearest_template_with_what_was_understood() {
    for (text, command) in [
        (
            "tell me when a purple person stays in the left half on camera gate for 3 minutes",
            r#"loitering --camera "gate" --class "a person" --for "3 minutes" --zone "left half of the picture""#,
        ),
        (
            "alert me about the purple dogs on camera gate",
            r#"arrival --camera "gate" --class "dogs""#,
        ),
        (
            "warn me about people on camera gate between 20:00 and 5:00 unless it rains",
            r#"intruder --camera "gate" --class "people" --hours "between 20:00 and 05:00""#,
        ),
        (
            "tell me when a purple car crosses the vertical line at 40% from right to left",
            r#"line-crossing --camera CAMERA --class "a car" --direction "from right to left" --line "vertical line at 40 % of the picture""#,
        ),
        (
            "tell me when more than 3 people in purple are on camera gate",
            r#"crowd --camera "gate" --class "people" --number "4""#,
        ),
        (
            "count the purple people on camera gate",
            r#"occupancy --camera "gate" --class "people""#,
        ),
        (
            "tell me when nobody purple is in the left parking bay for 2 minutes",
            r#"unattended --camera CAMERA --zone "left parking bay" --for "2 minutes""#,
        ),
        (
            "tell me when a purple person enters the left parking bay on camera yard",
            r#"zone-entry --camera "yard" --zone "left parking bay" --class "a person""#,
        ),
        ("tell me when it rains on camera gate", "--help"),
    ] {
        assert_eq!(
            nearest(text, &scene()),
            format!("watchkeeper watch {command}"),
            "{text}"
        );
    }
}

#[test]
fn name_of_a_place_is_in_a_command_line_only_where_a_shell_takes_it_as_it_is() {
    let mut scene = scene();
    scene.cameras[2].places[0].name = "bay $(reboot)".to_owned();
    let text = "tell me when a purple person enters bay $(reboot) on camera yard";
    let command = nearest(text, &scene);
    assert!(
        command.contains("zone-entry") && !command.contains('$'),
        "{command}"
    );
}

#[test]
fn the_list_shows_what_each_says_and_how_one_is_used() {
    let Answer::Look(looked) = ask("list templates", &scene()) else {
        panic!("not a look-up");
    };
    for part in ["watchkeeper watch", "Alert me when a person stays", "crowd"] {
        assert!(looked.text.contains(part), "{}", looked.text);
    }
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
