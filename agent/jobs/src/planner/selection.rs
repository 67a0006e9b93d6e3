//! Which tools a request may need, so that a language model reads no more than those.

use super::words::{singular, tokens};
use crate::tool::{ToolSpec, Toolbox};

/// Begins of words that speak for a tool. A tool that is not here is always needed.
const WORDS: [(&str, &[&str]); 6] = [
    (
        "find_duplicates",
        &["dupl", "cop", "burst", "twice", "same", "similar", "alike"],
    ),
    (
        "group",
        &[
            "by", "each", "per", "every", "group", "sort", "organi", "album", "folder",
        ],
    ),
    ("rank", &["rank", "order", "sort", "first", "sequence"]),
    (
        "select_best",
        &[
            "best", "top", "sharp", "new", "late", "old", "first", "large", "big", "nice", "few",
        ],
    ),
    (
        "filter",
        &[
            "since", "before", "after", "blur", "sharp", "camera", "only", "without",
        ],
    ),
    (
        "contact_sheet",
        &["sheet", "overview", "glance", "print", "grid"],
    ),
];

/// Tools without which others can't work.
const ALWAYS: [&str; 4] = [
    "list_pictures",
    "measure_quality",
    "album",
    "event_pictures",
];

/// Returns the tools that the words of a request speak for, with those that every plan may need;
/// all tools if the words speak for none.
pub fn select_tools(text: &str, tools: &Toolbox) -> Vec<&'static ToolSpec> {
    let words: Vec<String> = tokens(text).iter().map(|word| singular(word)).collect();
    let is_named = |begins: &[&str]| {
        let begins_so = |word: &String| begins.iter().any(|begin| word.starts_with(begin));
        words.iter().any(begins_so)
    };
    let named: Vec<&str> = (WORDS.iter())
        .filter(|(_, begins)| is_named(begins))
        .map(|(tool, _)| *tool)
        .collect();
    let is_known = |name: &str| WORDS.iter().any(|(tool, _)| *tool == name);
    let is_needed = |name: &str| {
        ALWAYS.contains(&name) || named.is_empty() || named.contains(&name) || !is_known(name)
    };
    tools.specs().filter(|spec| is_needed(spec.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::picture_tools;

    fn names(text: &str) -> String {
        let tools = select_tools(text, &picture_tools());
        let names: Vec<&str> = tools.iter().map(|spec| spec.name).collect();
        names.join(" ")
    }

    #[test]
    fn words_choose_tools_and_unclear_words_choose_all() {
        assert_eq!(
            names("throw out the copies in ./a"),
            "list_pictures measure_quality find_duplicates album"
        );
        assert_eq!(
            names("the 3 sharpest for each weekday"),
            "list_pictures measure_quality group select_best filter album"
        );
        assert_eq!(
            names("surprise me"),
            names(
                "arrange ./a nicely, in order, by day, top, \
            without copies, on a sheet"
            )
        );
    }
}
