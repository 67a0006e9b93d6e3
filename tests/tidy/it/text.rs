//! Cuts sources as text: product code without unit tests, code without comments.

/// Returns the part of a file before its unit tests: before `mod tests` and its attributes.
///
/// Other items for tests may be anywhere and end nothing.
pub(crate) fn production(text: &str) -> &str {
    let mut at = 0;
    let mut attributes = None;
    for line in text.split_inclusive('\n') {
        let code = line.trim();
        if code.starts_with("#[cfg(test)]") {
            attributes = Some(at);
        } else if let Some(start) = attributes
            && (code.starts_with("mod tests") || code.starts_with("pub(crate) mod testing"))
        {
            return text.get(..start).unwrap_or(text);
        } else if !code.starts_with("#[") && !code.ends_with(")]") {
            attributes = None;
        }
        at += line.len();
    }
    text
}

/// Numbered lines of the product code that are not comments.
pub(crate) fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    production(text)
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Finds the first of `words` on each line of product code: line number and word.
pub(crate) fn find_words<'a>(text: &str, words: &[&'a str]) -> Vec<(usize, &'a str)> {
    code_lines(text)
        .filter_map(|(number, line)| {
            let word = words.iter().find(|word| line.contains(**word))?;
            Some((number, *word))
        })
        .collect()
}

#[test]
fn production_ends_at_the_module_of_unit_tests() {
    let text = "a\n#[cfg(test)]\nmod sim;\nb\n#[cfg(test)]\n#[allow(x)]\nmod tests {\nc\n}\n";
    assert_eq!(production(text), "a\n#[cfg(test)]\nmod sim;\nb\n");
}

#[test]
fn find_words_skips_comments_and_unit_tests() {
    let text = "// x\nx\n#[cfg(test)]\nmod tests {\nx\n}\n";
    assert_eq!(find_words(text, &["x"]), [(2, "x")]);
}
