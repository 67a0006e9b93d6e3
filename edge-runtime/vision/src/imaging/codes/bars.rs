//! Reads bar codes: decodes scan lines, and believes what several lines agree on.
//!
//! - A text counts once a line. Formats that check what they hold need [`MIN_LINES`] lines, those
//!   with a weak check or none [`MIN_LINES_UNCHECKED`].
//! - Of texts read at one place, only one that has twice the lines of every other is believed.
//! - Codes that the rows and columns do not settle are looked for in the [`parts`] of the picture.
//! - EAN-8 and UPC-E need quiet zones of five modules: half an EAN-13 looks like one of them.

use std::collections::HashSet;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4};

use image::{GrayImage, imageops};
use rxing::common::BitArray;
use rxing::oned::{MultiFormatOneDReader, OneDReader};
use rxing::{BarcodeFormat, DecodeHints};

use super::extent;
use super::parts::{self, Part};
use super::reading::{Code, guarded};
use super::scan::{self, Line};
use crate::geometry::{BBox, Point};
use crate::outline;

/// Lines that must agree on a text with a checksum over all of it.
const MIN_LINES: usize = 2;

/// Lines that must agree on a text of a format with one check digit, or none.
const MIN_LINES_UNCHECKED: usize = 3;

/// Least number of characters of a text without a check digit, and without start and stop.
const MIN_CHARACTERS: usize = 4;

/// Characters of Codabar. With start and stop, the library returns places in this list.
const CODABAR: &[u8; 20] = b"0123456789-$:/.+ABCD";

/// Modules of a quiet zone where one is asked for.
const QUIET_MODULES: f64 = 5.0;

/// Scan lines of a part of a picture.
const PART_LINES: u32 = 24;

/// Blocks of samples along a part, each with a threshold: three modules of EAN-13. With fewer,
/// thresholds come from what is lighter than the paper, such as a table.
const PART_BLOCKS: f64 = 32.0;

/// Pictures with a longer side may hold bars too wide for the finest scale, and for a cell.
const LARGE: u32 = 640;

const FORMATS: [BarcodeFormat; 12] = [
    BarcodeFormat::EAN_13,
    BarcodeFormat::UPC_A,
    BarcodeFormat::EAN_8,
    BarcodeFormat::UPC_E,
    BarcodeFormat::CODE_39,
    BarcodeFormat::CODE_93,
    BarcodeFormat::CODE_128,
    BarcodeFormat::ITF,
    BarcodeFormat::CODABAR,
    BarcodeFormat::RSS_14,
    BarcodeFormat::RSS_EXPANDED,
    BarcodeFormat::TELEPEN,
];

/// Reads the bar codes of a picture.
pub(super) fn codes(grey: &GrayImage) -> Vec<Code> {
    let coarse = scan::FINE * 4.0;
    let is_large = grey.width().max(grey.height()) > LARGE;
    let of_large = |count: u32| if is_large { count } else { 0 };
    let straight = [0.0, FRAC_PI_2];
    let diagonal = [FRAC_PI_4, 3.0 * FRAC_PI_4];
    let passes = [
        (straight, scan::MAX_LINES, scan::FINE),
        (straight, of_large(scan::MAX_LINES), coarse),
        (diagonal, of_large(scan::MAX_DIAGONALS), coarse),
    ];
    let mut decoder = Decoder::new();
    let mut votes = Votes::default();
    for (angles, count, pace) in passes {
        for angle in angles {
            for line in scan::lines(grey, angle, count, pace) {
                votes.count(read(grey, &line, scan::BLOCK, &mut decoder));
            }
        }
        // What is still in doubt may be settled by other samples.
        if votes.are_settled() {
            return votes.codes(grey);
        }
    }
    let mut codes = votes.codes(grey);
    for part in parts::find(grey) {
        let found = read_part(grey, &part, &mut decoder);
        let is_new = |code: &Code| !codes.iter().any(|known| is_same(known, code));
        let new: Vec<Code> = found.into_iter().filter(is_new).collect();
        codes.extend(new);
    }
    codes
}

/// Reads a part of a picture like a picture of its own, along its code, with thresholds from closer
/// surroundings.
fn read_part(grey: &GrayImage, part: &Part, decoder: &mut Decoder) -> Vec<Code> {
    let [x1, y1, x2, y2] =
        [part.bbox.x1, part.bbox.y1, part.bbox.x2, part.bbox.y2].map(|side| side.max(0.0) as u32);
    let size = [x2.min(grey.width()), y2.min(grey.height())];
    let size = [size[0].saturating_sub(x1), size[1].saturating_sub(y1)];
    let picture = imageops::crop_imm(grey, x1, y1, size[0], size[1]).to_image();
    let mut votes = Votes::default();
    for line in scan::lines(&picture, part.angle, PART_LINES, scan::FINE) {
        let close = (part.length / line.pace() / PART_BLOCKS) as usize;
        let blocks = [close.max(scan::MIN_BLOCK), scan::BLOCK];
        let readings = blocks.map(|block| read(&picture, &line, block, decoder));
        votes.count(readings.concat());
    }
    let mut codes = votes.codes(&picture);
    for code in &mut codes {
        code.bbox = code.bbox.moved(x1.into(), y1.into());
    }
    codes
}

/// Whether two readings are of one code: at one place, or of one text beside each other, because
/// glare may hide the bars between them. Two labels may touch.
fn is_same(one: &Code, other: &Code) -> bool {
    let holds = |bbox: &BBox, at: Point| {
        (bbox.x1..=bbox.x2).contains(&at.x) && (bbox.y1..=bbox.y2).contains(&at.y)
    };
    let (a, b) = (one.bbox.center(), other.bbox.center());
    let reach = one.bbox.width().max(one.bbox.height());
    let is_near = (a.x - b.x).hypot(a.y - b.y) < reach;
    holds(&one.bbox, b) || holds(&other.bbox, a) || is_near && one.text == other.text
}

#[derive(Debug, Clone)]
struct Reading {
    format: BarcodeFormat,
    text: String,
    ends: [Point; 2],
}

fn read(grey: &GrayImage, line: &Line, block: usize, decoder: &mut Decoder) -> Vec<Reading> {
    let dark = scan::dark_samples(grey, line, block);
    let mut found = Vec::new();
    for stretch in scan::stretches(&dark) {
        let start = stretch.start;
        let Some(samples) = dark.get(stretch) else {
            continue;
        };
        let mut row = BitArray::with_capacity(samples.len());
        samples.iter().for_each(|dark| row.appendBit(*dark));
        for is_backward in [false, true] {
            if is_backward {
                row.reverse();
            }
            let Some((format, text, [from, to])) = guarded(|| decoder.decode(&row)) else {
                continue;
            };
            let place = |x: f64| {
                let x = if is_backward {
                    samples.len() as f64 - 1.0 - x
                } else {
                    x
                };
                line.at(start as f64 + x)
            };
            found.push(Reading {
                format,
                text,
                ends: [place(from), place(to)],
            });
        }
    }
    found
}

/// The library's readers of rows.
struct Decoder {
    reader: MultiFormatOneDReader,
    hints: DecodeHints,
}

impl Decoder {
    fn new() -> Self {
        let hints = DecodeHints {
            TryHarder: Some(true),
            PossibleFormats: Some(HashSet::from(FORMATS)),
            ReturnCodabarStartEnd: Some(true),
            ..DecodeHints::default()
        };
        let reader = MultiFormatOneDReader::new(&hints);
        Self { reader, hints }
    }

    /// Decodes samples: the format, the text, and the middles of its first and last bars.
    fn decode(&mut self, row: &BitArray) -> Option<(BarcodeFormat, String, [f64; 2])> {
        let found = self.reader.decode_row(0, row, &self.hints).ok()?;
        let [from, to, ..] = found.getPoints() else {
            return None;
        };
        let format = *found.getBarcodeFormat();
        let ends = [f64::from(from.x), f64::from(to.x)];
        let (text, marks) = match format {
            BarcodeFormat::CODABAR => (codabar(found.getText()), 2),
            _ => (found.getText().to_owned(), 0),
        };
        let is_long = has_checksum(format) || text.chars().count() >= MIN_CHARACTERS + marks;
        (is_long && has_quiet_zones(row, format, ends)).then_some((format, text, ends))
    }
}

/// The text whose characters are these places in [`CODABAR`].
fn codabar(places: &str) -> String {
    let character = |place: char| match CODABAR.get(place as usize) {
        Some(character) => char::from(*character),
        None => place,
    };
    places.chars().map(character).collect()
}

/// Whether a format has more than one digit that checks the others, or as many bars as EAN-13.
fn has_checksum(format: BarcodeFormat) -> bool {
    !matches!(
        format,
        BarcodeFormat::EAN_8
            | BarcodeFormat::UPC_E
            | BarcodeFormat::CODE_39
            | BarcodeFormat::ITF
            | BarcodeFormat::CODABAR
    )
}

/// Whether the quiet zones of the short formats of the EAN family are light. The readers check
/// those of all formats, but these two as little as three modules.
fn has_quiet_zones(row: &BitArray, format: BarcodeFormat, [from, to]: [f64; 2]) -> bool {
    // Modules between the middles of the guards, and half the guard at either end.
    let (modules, left, right) = match format {
        BarcodeFormat::EAN_8 => (64.0, 1.5, 1.5),
        BarcodeFormat::UPC_E => (46.5, 1.5, 3.0),
        _ => return true,
    };
    let module = (to - from) / modules;
    let is_light = |from: f64, to: f64| {
        let mut zone = (from.max(0.0) as usize)..(to.max(0.0) as usize);
        from >= 0.0 && zone.end < row.get_size() && zone.all(|x| !row.get(x))
    };
    // Half a module is left to blur.
    let quiet = QUIET_MODULES * module;
    let (first, last) = (from - (left + 0.5) * module, to + (right + 0.5) * module);
    is_light(first - quiet, first) && is_light(last, last + quiet)
}

/// One text at one place.
#[derive(Debug)]
struct Candidate {
    format: BarcodeFormat,
    text: String,
    lines: usize,
    /// Number of the last line that read it.
    last_line: usize,
    ends: Vec<[Point; 2]>,
    bbox: BBox,
}

impl Candidate {
    fn is_confirmed(&self) -> bool {
        let least = if has_checksum(self.format) {
            MIN_LINES
        } else {
            MIN_LINES_UNCHECKED
        };
        self.lines >= least
    }

    /// Whether both are readings of one code; glare may hide the bars between them.
    fn is_same(&self, other: &Self) -> bool {
        self.format == other.format && self.text == other.text && self.overlaps(other, 1.0)
    }

    /// Adds what another line reads of this code.
    fn add(&mut self, read: &Self) {
        if self.last_line != read.last_line {
            self.lines += 1;
            self.last_line = read.last_line;
        }
        self.ends.extend(&read.ends);
        self.bbox = self.bbox.union(&read.bbox);
    }

    /// Whether the middle of one lies in the bounding box of the other, or not further away than
    /// `room` lengths of the code.
    fn overlaps(&self, other: &Self, room: f64) -> bool {
        let length = |bbox: &BBox| room * bbox.width().max(bbox.height());
        let holds = |one: &BBox, other: &BBox| {
            let (room, middle) = (length(one), other.center());
            (one.x1 - room..=one.x2 + room).contains(&middle.x)
                && (one.y1 - room..=one.y2 + room).contains(&middle.y)
        };
        holds(&self.bbox, &other.bbox) || holds(&other.bbox, &self.bbox)
    }
}

/// The texts read so far.
#[derive(Debug, Default)]
struct Votes {
    candidates: Vec<Candidate>,
    lines: usize,
}

impl Votes {
    fn count(&mut self, readings: Vec<Reading>) {
        self.lines += 1;
        for reading in readings {
            let read = Candidate {
                bbox: outline::around(&reading.ends),
                format: reading.format,
                text: reading.text,
                lines: 1,
                last_line: self.lines,
                ends: vec![reading.ends],
            };
            let mut known = self.candidates.iter_mut();
            match known.find(|known| known.is_same(&read)) {
                Some(known) => known.add(&read),
                None => self.candidates.push(read),
            }
        }
    }

    fn are_settled(&self) -> bool {
        !self.candidates.is_empty() && self.candidates.iter().all(Candidate::is_confirmed)
    }

    fn is_believed(&self, one: &Candidate) -> bool {
        let rivals = self.candidates.iter();
        let mut rivals =
            rivals.filter(|other| !std::ptr::eq(*other, one) && one.overlaps(other, 0.5));
        one.is_confirmed() && rivals.all(|other| one.lines >= 2 * other.lines)
    }

    fn codes(&self, grey: &GrayImage) -> Vec<Code> {
        let believed = self.candidates.iter().filter(|one| self.is_believed(one));
        let code = |one: &Candidate| Code {
            text: one.text.clone(),
            is_qr: false,
            bbox: extent::of(grey, &one.ends),
        };
        believed.map(code).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings that are accepted, one a line: format, text, and its row.
    fn believed(lines: &[(BarcodeFormat, &str, f64)]) -> Vec<String> {
        let mut votes = Votes::default();
        for (format, text, y) in lines {
            votes.count(vec![Reading {
                format: *format,
                text: (*text).to_owned(),
                ends: [Point::new(20.0, *y), Point::new(180.0, *y)],
            }]);
        }
        let codes = votes.codes(&GrayImage::new(200, 200));
        codes.into_iter().map(|code| code.text).collect()
    }

    #[test]
    fn formats_without_check_digit_need_a_third_line() {
        for (format, least) in [
            (BarcodeFormat::EAN_13, 2),
            (BarcodeFormat::CODE_128, 2),
            (BarcodeFormat::EAN_8, 3),
            (BarcodeFormat::CODE_39, 3),
            (BarcodeFormat::ITF, 3),
        ] {
            let lines = [50.0, 60.0, 70.0].map(|y| (format, "text", y));
            assert_eq!(believed(&lines[..least - 1]), [""; 0], "{format:?}");
            assert_eq!(believed(&lines[..least]), ["text"], "{format:?}");
        }
    }

    #[test]
    fn text_without_a_majority_is_not_believed() {
        let row = |text, y| (BarcodeFormat::EAN_13, text, y);
        let one = [50.0, 60.0, 70.0].map(|y| row("one", y));
        let other = [55.0, 65.0].map(|y| row("other", y));
        assert_eq!(believed(&[&one[..], &other].concat()), [""; 0]);
        assert_eq!(believed(&[&one[..], &other[..1]].concat()), ["one"]);
        // Further away it is a separate code.
        let below = [195.0, 198.0].map(|y| row("other", y));
        assert_eq!(believed(&[&one[..], &below].concat()), ["one", "other"]);
    }
}
