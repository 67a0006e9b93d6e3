//! The list of templates.

use watchkeeper_plain::answer::Answer;

use crate::support::{ask, scene};

#[test]
fn the_list_shows_what_each_says_and_how_one_is_used() {
    let Answer::Look(looked) = ask("list templates", &scene()) else {
        panic!("not a look-up");
    };
    for part in ["watchkeeper watch", "Alert me when a person stays", "crowd"] {
        assert!(looked.text.contains(part), "{}", looked.text);
    }
}
