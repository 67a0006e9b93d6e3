//! Joins detected letters to lines of text.

use watchkeeper_vision::numbers::{mean, quantile};

use crate::workflow::block_api::prelude::*;

const PREDICTIONS: Property = Property::data("predictions", &[Kind::ObjectDetection])
    .about("the letters or words, by the classes of boxes");
const READING_DIRECTION: Property =
    Property::literal("reading_direction", Shape::Choice(&names_of(&DIRECTIONS)))
        .about("reading direction; auto depends on the shape of the letters");
const TOLERANCE: Property =
    Property::count("tolerance", 10).about("tolerance in pixels across a line");
const DELIMITER: Property = Property::text("delimiter", "").about("text between two letters");
const V1: Manifest = Manifest {
    name: "roboflow_core/stitch_ocr_detections@v1",
    summary: "Joins letters or words to text, line by line.",
    properties: &[PREDICTIONS, READING_DIRECTION, TOLERANCE, DELIMITER],
    outputs: &[Output::new("ocr_text", &[Kind::Text])],
    batch: &["predictions"],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("transformation")
};
pub(super) const BLOCKS: &[Manifest] = &[
    V1,
    Manifest {
        name: "roboflow_core/stitch_ocr_detections@v2",
        summary: "Joins letters or words to text, line by line; optionally separates words by the \
                  gaps between letters.",
        properties: &[
            Property::literal("stitching_algorithm", Shape::Choice(&names_of(&ALGORITHMS))).about(
        "how lines are formed: by rows of equal height, by the gaps between letters, or letter by \
         letter",
    ),
            PREDICTIONS,
            READING_DIRECTION,
            TOLERANCE,
            DELIMITER,
            Property::number("otsu_threshold_multiplier", 1.0)
    .about("factor of the gap threshold that separates words"),
            Property::integer("collimate_tolerance", 10)
    .about("maximum distance in pixels from the letter before"),
        ],
        ..V1
    },
];

/// How lines are formed.
#[derive(Debug, Clone, Copy)]
enum Algorithm {
    Rows,
    Gaps,
    LetterByLetter,
}

const ALGORITHMS: [(&str, Algorithm); 3] = [
    ("tolerance", Algorithm::Rows),
    ("otsu", Algorithm::Gaps),
    ("collimate", Algorithm::LetterByLetter),
];

/// Reading direction: along an axis, forwards or backwards.
#[derive(Debug, Clone, Copy)]
struct ReadingDirection {
    vertical: bool,
    backwards: bool,
}

/// `None` depends on the letters.
const DIRECTIONS: [(&str, Option<ReadingDirection>); 5] = [
    ("left_to_right", Some(ReadingDirection::new(false, false))),
    ("right_to_left", Some(ReadingDirection::new(false, true))),
    (
        "vertical_top_to_bottom",
        Some(ReadingDirection::new(true, false)),
    ),
    (
        "vertical_bottom_to_top",
        Some(ReadingDirection::new(true, true)),
    ),
    ("auto", None),
];

impl ReadingDirection {
    const fn new(vertical: bool, backwards: bool) -> Self {
        Self {
            vertical,
            backwards,
        }
    }

    /// The direction of letters by their shape: down if they are not wider than high.
    fn from_letters(all: &Detections) -> Self {
        let sum = |f: fn(&BBox) -> f64| all.boxes.iter().map(|d| f(&d.bbox)).sum::<f64>();
        let flat = sum(BBox::width) > sum(BBox::height);
        Self::new(!flat && !all.boxes.is_empty(), false)
    }

    /// Separator of two lines.
    const fn line_break(self) -> &'static str {
        if self.vertical { " " } else { "\n" }
    }
}

/// A letter with its extent along and across the text.
#[derive(Debug, Clone)]
struct Letter {
    text: Arc<str>,
    along: f64,
    across: f64,
    length: f64,
    breadth: f64,
    /// Nearer edges of the letter in whole pixels.
    begin: f64,
    side: f64,
}

impl Letter {
    fn from_detection(d: &Detection, direction: ReadingDirection) -> Self {
        let (b, c) = (&d.bbox, d.bbox.center());
        let (x, y) = (b.x1.round_ties_even(), b.y1.round_ties_even());
        let text = Arc::clone(&d.class);
        if direction.vertical {
            Self {
                text,
                along: c.y,
                across: c.x,
                length: b.height(),
                breadth: b.width(),
                begin: y,
                side: x,
            }
        } else {
            Self {
                text,
                along: c.x,
                across: c.y,
                length: b.width(),
                breadth: b.height(),
                begin: x,
                side: y,
            }
        }
    }
}

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let all = call.detections(call.named("predictions"))?;
    let direction = call.choice(call.named("reading_direction"), &DIRECTIONS)?;
    let direction = direction.unwrap_or_else(|| ReadingDirection::from_letters(all));
    let tolerance = call.number(call.named("tolerance"))?;
    let delimiter = call.text(call.named("delimiter"))?;
    let letters: Vec<Letter> = all
        .boxes
        .iter()
        .map(|d| Letter::from_detection(d, direction))
        .collect();
    // The first version has no choice of algorithms.
    let algorithm = call.named("stitching_algorithm");
    let algorithm = if call.has(algorithm) {
        call.choice(algorithm, &ALGORITHMS)?
    } else {
        Algorithm::Rows
    };
    let text = match algorithm {
        _ if letters.is_empty() => String::new(),
        Algorithm::Gaps => by_gaps(
            letters,
            direction,
            delimiter,
            call.number(arg!("otsu_threshold_multiplier"))?,
        ),
        Algorithm::LetterByLetter => letter_by_letter(
            letters,
            direction,
            delimiter,
            call.number(arg!("collimate_tolerance"))?,
        ),
        Algorithm::Rows if tolerance > 0.0 => by_rows(letters, direction, delimiter, tolerance),
        Algorithm::Rows => {
            return Err(format!("tolerance is {tolerance} and has to be above 0"));
        }
    };
    call.finish(text)
}

/// Sorts by a number, descending for backward text; equal ones keep their order.
fn sort(list: &mut [Letter], backwards: bool, by: impl Fn(&Letter) -> f64) {
    list.sort_by(|a, b| {
        let order = by(a).total_cmp(&by(b));
        if backwards { order.reverse() } else { order }
    });
}

fn join(letters: &[Letter], delimiter: &str) -> String {
    let texts: Vec<&str> = letters.iter().map(|l| &*l.text).collect();
    texts.join(delimiter)
}

/// Groups letters to lines by rows of `tolerance` pixels.
fn by_rows(
    letters: Vec<Letter>,
    direction: ReadingDirection,
    delimiter: &str,
    tolerance: f64,
) -> String {
    let mut rows: Vec<(f64, Vec<Letter>)> = Vec::new();
    for letter in letters {
        let row = (letter.side / tolerance).round_ties_even() * tolerance;
        match rows.iter_mut().find(|(r, _)| *r == row) {
            Some((_, line)) => line.push(letter),
            None => rows.push((row, vec![letter])),
        }
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    if direction.vertical && direction.backwards {
        rows.reverse();
    }
    let mut parts: Vec<&str> = Vec::new();
    for (_, line) in &mut rows {
        sort(line, direction.backwards, |l| l.begin);
    }
    for (i, (_, line)) in rows.iter().enumerate() {
        if i > 0 {
            parts.push(direction.line_break());
        }
        parts.extend(line.iter().map(|l| &*l.text));
    }
    parts.join(delimiter)
}

/// Groups lines by height, and words by large gaps.
fn by_gaps(
    mut letters: Vec<Letter>,
    direction: ReadingDirection,
    delimiter: &str,
    multiplier: f64,
) -> String {
    let mut breadths: Vec<f64> = letters.iter().map(|l| l.breadth).collect();
    breadths.sort_by(f64::total_cmp);
    let median = quantile(&breadths, 0.5);
    sort(&mut letters, false, |l| l.across);
    let mut lines: Vec<Vec<Letter>> = Vec::new();
    let height = |line: &[Letter]| mean(line.iter().map(|l| l.across));
    for letter in letters {
        match lines.last_mut() {
            Some(line) if (letter.across - height(line)).abs() <= median * 0.5 => line.push(letter),
            _ => lines.push(vec![letter]),
        }
    }
    lines.sort_by(|a, b| height(a).total_cmp(&height(b)));
    if direction.vertical && direction.backwards {
        lines.reverse();
    }
    let mut gaps: Vec<Vec<f64>> = Vec::new();
    for line in &mut lines {
        sort(line, direction.backwards, |l| l.along);
        let of_pair = |pair: &[Letter]| match pair {
            [a, b] => {
                let scale = f64::midpoint(a.length, b.length);
                let gap =
                    (b.along - a.along) * if direction.backwards { -1.0 } else { 1.0 } - scale;
                if scale > 0.0 { gap / scale } else { 0.0 }
            }
            _ => 0.0,
        };
        gaps.push(line.windows(2).map(of_pair).collect());
    }
    let limit = limit(&gaps.concat()).map(|limit| limit * multiplier);
    let between = if delimiter.is_empty() { " " } else { delimiter };
    let texts: Vec<String> = lines
        .iter()
        .zip(&gaps)
        .map(|(line, gaps)| {
            let mut words: Vec<String> = Vec::new();
            let mut from = 0;
            for (i, gap) in gaps.iter().enumerate() {
                if limit.is_some_and(|limit| *gap > limit) {
                    words.push(join(line.get(from..=i).unwrap_or_default(), delimiter));
                    from = i + 1;
                }
            }
            words.push(join(line.get(from..).unwrap_or_default(), delimiter));
            words.join(between)
        })
        .collect();
    texts.join(direction.line_break())
}

/// Threshold between small and large gaps, in shares of a letter (Otsu, "A threshold selection
/// method from gray-level histograms", 1979). `None` if the large ones do not separate words.
fn limit(gaps: &[f64]) -> Option<f64> {
    if gaps.len() < 2 {
        return None;
    }
    let least = gaps.iter().copied().fold(f64::INFINITY, f64::min);
    let most = gaps.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // As a histogram of equal numbers is drawn around them.
    let (least, most) = if least == most {
        (least - 0.5, most + 0.5)
    } else {
        (least, most)
    };
    let bins = u32::try_from(gaps.len().min(50)).unwrap_or(50);
    let step = (most - least) / f64::from(bins);
    let (mut best, mut spread, mut means) = (0.0, 0.0, (0.0, 0.0));
    for bin in 0..bins {
        let limit = least + (f64::from(bin) + 0.5) * step;
        let (below, above): (Vec<f64>, Vec<f64>) = gaps.iter().partition(|g| **g <= limit);
        if below.is_empty() || above.is_empty() {
            continue;
        }
        let (low, high) = (mean(below.iter().copied()), mean(above.iter().copied()));
        let variance = below.len() as f64 * above.len() as f64 * (low - high).powi(2);
        if variance > spread {
            (best, spread, means) = (limit, variance, (low, high));
        }
    }
    // A gap between words is at least a third of a letter.
    (means.1 > 0.3 && (means.1 - means.0).abs() > 0.3).then_some(best)
}

/// Appends each letter to the line whose last letter it follows.
fn letter_by_letter(
    mut letters: Vec<Letter>,
    direction: ReadingDirection,
    delimiter: &str,
    tolerance: f64,
) -> String {
    sort(&mut letters, direction.backwards, |l| l.along);
    let follows = |a: &Letter, b: &Letter| {
        let beside = (a.across - b.across).abs() < a.breadth.max(b.breadth) / 2.0 + tolerance;
        beside
            && if direction.backwards {
                a.along >= b.along
            } else {
                a.along <= b.along
            }
    };
    let mut lines: Vec<Vec<Letter>> = Vec::new();
    let mut rest = letters;
    while !rest.is_empty() {
        let before = rest.len();
        for line in &mut lines {
            let mut left = Vec::new();
            for letter in rest {
                match line.last() {
                    Some(last) if follows(last, &letter) => line.push(letter),
                    _ => left.push(letter),
                }
            }
            rest = left;
        }
        if rest.len() == before {
            lines.push(vec![rest.remove(0)]);
        }
    }
    let place = |line: &[Letter]| mean(line.iter().map(|l| l.across));
    lines.sort_by(|a, b| {
        let order = place(a).total_cmp(&place(b));
        if direction.vertical && direction.backwards {
            order.reverse()
        } else {
            order
        }
    });
    let texts: Vec<String> = lines.iter().map(|line| join(line, delimiter)).collect();
    texts.join(direction.line_break())
}
