//! Numbers as words.

/// Reads a number from zero to a hundred: `seven`, `twenty-five`.
pub fn number_word(text: &str) -> Option<u8> {
    const SMALL: &str = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen";
    const TENS: &str = "twenty thirty forty fifty sixty seventy eighty ninety";
    let find = |list: &'static str, word: &str| {
        let mut named = list.split(' ').zip(0_u8..);
        named.find_map(|(name, value)| (name == word).then_some(value))
    };
    let ten = |word| find(TENS, word).map(|tens| (tens + 2) * 10);
    match text.split_once('-') {
        Some((tens, unit)) => {
            Some(ten(tens)? + find(SMALL, unit).filter(|unit| (1..10).contains(unit))?)
        }
        None if text == "hundred" => Some(100),
        None => find(SMALL, text).or_else(|| ten(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_up_to_a_hundred_is_read() {
        for (text, number) in [
            ("two", Some(2)),
            ("nineteen", Some(19)),
            ("twenty-five", Some(25)),
            ("hundred", Some(100)),
            ("twenty-ten", None),
            ("dog", None),
        ] {
            assert_eq!(number_word(text), number, "{text}");
        }
    }
}
