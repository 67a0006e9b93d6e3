//! Which row a value means.
//!
//! | match | confidence |
//! |---|---|
//! | exact, but for case and spaces | 0.95 |
//! | alike: characters that readers confuse | 0.85 |
//! | near: similarity by edits of [`MIN_SIMILARITY`] and more | 0.65 to 0.85 |

use std::collections::BTreeMap;

use super::rows::{Row, Rows};

/// Least similarity of a near key, as 1 − edits / length.
const MIN_SIMILARITY: f64 = 0.75;
const EXACT: f64 = 0.95;
const ALIKE: f64 = 0.85;
/// Confidences at [`MIN_SIMILARITY`] and at similarity 1.
const NEAR: [f64; 2] = [0.65, 0.85];
/// Shortest value that is compared with near keys: of shorter ones too many are near.
const MIN_NEAR_CHARS: usize = 4;

/// Result of a comparison.
#[derive(Debug, PartialEq)]
pub(super) enum Match<'a> {
    None,
    Ambiguous {
        count: usize,
    },
    One {
        row: &'a Row,
        confidence: f64,
        how: &'static str,
    },
}

/// Rows by their normalised keys.
#[derive(Debug)]
pub(super) struct Index {
    columns: Vec<String>,
    rows: Vec<Row>,
    exact: BTreeMap<String, Vec<usize>>,
    /// By the key after confusable characters are replaced; absent if they differ.
    alike: Option<BTreeMap<String, Vec<usize>>>,
}

impl Index {
    pub(super) fn new(rows: Rows, is_alike: bool) -> Self {
        let by = |normalise: &dyn Fn(&str) -> String| {
            let mut index: BTreeMap<String, Vec<usize>> = BTreeMap::new();
            for (nth, row) in rows.rows.iter().enumerate() {
                let key = normalise(&row.key);
                if !key.is_empty() {
                    index.entry(key).or_default().push(nth);
                }
            }
            index
        };
        Self {
            exact: by(&normalise),
            alike: is_alike.then(|| by(&|key| replace_alike(&normalise(key)))),
            columns: rows.columns,
            rows: rows.rows,
        }
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Finds the row of a value.
    pub(super) fn find(&self, value: &str, is_fuzzy: bool) -> Match<'_> {
        let value = normalise(value);
        if value.is_empty() {
            return Match::None;
        }
        let same = || self.exact.get(&same_symbol(&value)?);
        if let Some(rows) = self.exact.get(&value).or_else(same) {
            return self.only_row(rows, EXACT, "exact");
        }
        let compared = match &self.alike {
            Some(alike) => {
                let value = replace_alike(&value);
                if let Some(rows) = alike.get(&value) {
                    return self.only_row(rows, ALIKE, "alike");
                }
                is_fuzzy.then_some((alike, value))
            }
            None => is_fuzzy.then_some((&self.exact, value)),
        };
        match compared {
            Some((index, value)) => self.nearest(index, &value),
            None => Match::None,
        }
    }

    fn nearest(&self, index: &BTreeMap<String, Vec<usize>>, value: &str) -> Match<'_> {
        let length = value.chars().count();
        if length < MIN_NEAR_CHARS {
            return Match::None;
        }
        let mut best = MIN_SIMILARITY;
        let mut rows: Vec<usize> = Vec::new();
        for (key, of_key) in index {
            let longest = key.chars().count().max(length);
            let shortest = key.chars().count().min(length);
            // The difference of the lengths alone makes it less similar.
            if (shortest as f64) < best * longest as f64 {
                continue;
            }
            let similarity = strsim::normalized_damerau_levenshtein(key, value);
            if similarity > best || (similarity >= best && rows.is_empty()) {
                best = similarity;
                rows.clone_from(of_key);
            } else if similarity >= best {
                rows.extend(of_key);
            }
        }
        let share = (best - MIN_SIMILARITY) / (1.0 - MIN_SIMILARITY);
        self.only_row(&rows, NEAR[0] + (NEAR[1] - NEAR[0]) * share, "near")
    }

    /// The row of these, if they are one; rows with equal contents count once.
    fn only_row(&self, rows: &[usize], confidence: f64, how: &'static str) -> Match<'_> {
        let mut found = rows.iter().filter_map(|nth| self.rows.get(*nth));
        match found.next() {
            None => Match::None,
            Some(row) if found.all(|other| other == row) => Match::One {
                row,
                confidence,
                how,
            },
            Some(_) => Match::Ambiguous { count: rows.len() },
        }
    }
}

/// Removes white space, and folds case.
fn normalise(text: &str) -> String {
    let plain = text
        .chars()
        .filter(|c| !c.is_whitespace() && !c.is_control());
    plain.flat_map(char::to_uppercase).collect()
}

/// UPC-A for an EAN-13 code that begins with 0, and that EAN-13 for UPC-A: they are one symbol.
fn same_symbol(value: &str) -> Option<String> {
    let upc = value.strip_prefix('0').filter(|upc| upc.len() == 12);
    let digits = upc.unwrap_or(value).chars().map(|c| c.to_digit(10));
    let digits: Vec<u32> = digits.collect::<Option<_>>()?;
    let weights = [3, 1].into_iter().cycle();
    let sum: u32 = digits.iter().zip(weights).map(|(n, w)| n * w).sum();
    let is_upc = digits.len() == 12 && sum.is_multiple_of(10);
    is_upc.then(|| upc.map_or_else(|| format!("0{value}"), str::to_owned))
}

/// Replaces letters by the digits that readers confuse with them.
fn replace_alike(normalised: &str) -> String {
    let digit = |c: char| match c {
        'O' => '0',
        'I' | 'L' => '1',
        'S' => '5',
        'B' => '8',
        'Z' => '2',
        other => other,
    };
    normalised.chars().map(digit).collect()
}
