//! Nouns in sentences, singular or plural, in the words of the user.
//!
//! Invariant: a word that is not known to be singular stays as it was written.

use crate::one_of;

/// Singulars and indefinite pronouns, each with its plural.
const SEVERAL: &str = "person people,man men,woman women,child children,somebody people,someone people,anybody people,anyone people,everybody people,everyone people,nobody people,anything things,something things,everything things,nothing things,movement moving things,sheep sheep";
const ALREADY: &str = "people|men|women|children|cattle|traffic|wildlife";
/// Words that stand without an article: for nobody in particular, for an amount of something, and
/// for what is missing.
const WITHOUT_ARTICLE: &str = "somebody|someone|anybody|anyone|everybody|everyone|nobody|noone|no|anything|something|everything|nothing|movement|motion|any|staff|luggage|baggage|folk";

/// Several of what was said: `person or bus` is `people or buses`.
pub fn several(said: &str) -> String {
    each(said, plural)
}

/// One of what was said, as a sentence has it: `person or bus` is `a person or a bus`.
pub fn one(said: &str) -> String {
    each(said, |one| {
        let first = one.split(' ').next().unwrap_or(one);
        let last = one.rsplit(' ').next().unwrap_or(one);
        let has_none = one_of(WITHOUT_ARTICLE, first)
            || one_of(WITHOUT_ARTICLE, last)
            || one_of(ALREADY, last)
            || is_plural(last);
        match (has_none, one.starts_with(['a', 'e', 'i', 'o', 'u'])) {
            (true, _) => one.to_owned(),
            (false, true) => format!("an {one}"),
            (false, false) => format!("a {one}"),
        }
    })
}

/// Puts each of what is wanted in another form, and not what is left out.
fn each(said: &str, form: impl Fn(&str) -> String) -> String {
    let end = said.find(" but not ").unwrap_or(said.len());
    let (wanted, but) = said.split_at(end);
    let all: Vec<String> = wanted.split(" or ").map(form).collect();
    format!("{}{but}", all.join(" or "))
}

/// Whether what was said is of several by its words.
pub fn is_several(said: &str) -> bool {
    let wanted = said.split(" but not ").next().unwrap_or(said);
    let last = wanted.rsplit(' ').next().unwrap_or(wanted);
    one_of(ALREADY, last) || is_plural(last)
}

fn is_plural(word: &str) -> bool {
    word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us")
}

fn plural(said: &str) -> String {
    let (before, word) = match said.rsplit_once(' ') {
        Some((before, word)) => (format!("{before} "), word),
        None => (String::new(), said),
    };
    let mut pairs = SEVERAL.split(',').filter_map(|pair| pair.split_once(' '));
    if let Some((_, more)) = pairs.find(|(one, _)| *one == word) {
        return format!("{before}{more}");
    }
    if one_of(ALREADY, word) || is_plural(word) {
        return said.to_owned();
    }
    let more = if ["s", "x", "ch", "sh"].iter().any(|end| word.ends_with(end)) {
        format!("{word}es")
    } else {
        match word.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
            _ => format!("{word}s"),
        }
    };
    format!("{before}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_becomes_several_and_several_stay() {
        for (said, wanted) in [
            ("person or bus", "people or buses"),
            ("somebody", "people"),
            ("cars", "cars"),
            ("puppy", "puppies"),
            ("vehicle but not bus", "vehicles but not bus"),
            ("cell phone", "cell phones"),
        ] {
            assert_eq!(several(said), wanted, "{said}");
        }
        for (said, wanted) in [
            ("person or car", "a person or a car"),
            ("elephant", "an elephant"),
            ("somebody or dogs", "somebody or dogs"),
            ("anything but not cat", "anything but not cat"),
            ("no helmet", "no helmet"),
        ] {
            assert_eq!(one(said), wanted, "{said}");
        }
        assert!(is_several("dogs or cats") && is_several("people"));
        assert!(!is_several("bus") && !is_several("dogs or a cat"));
    }
}
