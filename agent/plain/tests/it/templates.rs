//! The list of templates.

use watchkeeper_plain::answer::Answer;

use crate::support::{PLAIN, ask, proposal, scene};

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
