//! Text recognition: finds lines of text, rectifies each and reads it.
//!
//! - Without a line finder the whole picture is one line.
//! - Lines are in reading order, at most [`MAX_LINES`] per picture.
//! - The network sees a line in its own aspect ratio, up to the widest input.

use std::collections::BTreeMap;
use std::sync::Arc;

use watchkeeper_models::Manifest;
use watchkeeper_models::manifest::{DecodeKind, Fit, Input, Layout, LineNetwork};
use watchkeeper_vision::frame::{Frame, Picture};
use watchkeeper_vision::geometry::{BBox, Point};
use watchkeeper_vision::imaging::warp::Perspective;
use watchkeeper_vision::outline::around;
use watchkeeper_vision::rgb::RgbPixels;

use super::decode::Request;
use super::decode::ctc::{self, Reading};
use super::decode::lines::{self, Line};
use super::letterbox::Letterbox;
use super::network::{Network, Signature, Wanted, input_shape};
use super::stream_network::{SharedNetwork, StreamNetwork};
use super::warm_up::{WarmUpError, run_on_grey};
use crate::detection::DetectTimes;
use crate::detector::ReadLine;
use crate::detector::{Detector, DetectorInfo};
use crate::error::DetectError;

/// Bound of the lines read in one picture, the most probable first; each costs one inference.
pub(crate) const MAX_LINES: usize = 256;
/// Widths are rounded up to this many pixels, because the back end makes a new plan for each width.
const STEP: u32 = 32;

/// A text recognition model.
pub(crate) struct TextReader {
    info: DetectorInfo,
    manifest: Arc<Manifest>,
    network: SharedNetwork,
    /// The network for each input width.
    widths: BTreeMap<u32, StreamNetwork>,
    finder: Option<Finder>,
}

struct Finder {
    /// The manifest's description.
    described: LineNetwork,
    /// The description with the input size of the present pictures.
    sized: LineNetwork,
    network: StreamNetwork,
    shared: SharedNetwork,
    found: Vec<Line>,
}

impl Finder {
    fn new(model: &str, described: LineNetwork, shared: SharedNetwork) -> Self {
        Self {
            sized: described.clone(),
            network: StreamNetwork::new(model, described.input.clone(), shared.clone()),
            described,
            shared,
            found: Vec::new(),
        }
    }

    /// Prepares the network for pictures of this size. Only one size is prepared: a camera has one,
    /// and the input of full HD takes 25 MB.
    fn fit_to(&mut self, model: &str, picture: &Picture) {
        let input = seen_as(&self.described, picture.width, picture.height);
        if input != self.sized.input {
            self.network = StreamNetwork::new(model, input.clone(), self.shared.clone());
            self.sized.input = input;
        }
    }
}

/// The input size in which the line finder sees a picture.
fn seen_as(lines: &LineNetwork, width: u32, height: u32) -> Input {
    let input = &lines.input;
    let Some(widest) = lines.widest.filter(|_| width > 0 && height > 0) else {
        return input.clone();
    };
    let least = f64::from(input.width.min(input.height));
    let (width, height) = (f64::from(width), f64::from(height));
    let scale = (least / width.min(height)).max(1.0);
    let scale = scale.min(f64::from(widest) / width.max(height));
    // Line finders halve their input five times. Rounding to a multiple of 32 distorts letters too
    // little to matter.
    let side = |pixels: f64| {
        let steps = (pixels * scale / f64::from(STEP)).round() as u32;
        steps.clamp(1, (widest / STEP).max(1)) * STEP
    };
    Input {
        width: side(width),
        height: side(height),
        fit: Fit::Stretch,
        ..input.clone()
    }
}

/// The signature of a text recognition network.
pub(super) fn signature(manifest: &Manifest) -> Signature<'_> {
    let mut signature = Signature::of(manifest);
    if widest(manifest).is_some() {
        let mut axes = input_shape(&manifest.input).map(Some);
        let width = match manifest.input.layout {
            Layout::Nchw => 3,
            Layout::Nhwc => 2,
        };
        axes[width] = None;
        signature.inputs = vec![Wanted::axes(axes)];
    }
    signature
}

/// The signature of a line finder.
pub(super) fn lines_signature<'a>(manifest: &'a Manifest, lines: &'a LineNetwork) -> Signature<'a> {
    let mut axes = input_shape(&lines.input).map(Some);
    if lines.widest.is_some() {
        let sides = match lines.input.layout {
            Layout::Nchw => [2, 3],
            Layout::Nhwc => [1, 2],
        };
        sides.iter().for_each(|side| axes[*side] = None);
    }
    Signature {
        manifest: &manifest.name,
        inputs: vec![Wanted::axes(axes)],
        outputs: &lines.outputs,
    }
}

/// Runs a recognition network once per width: the manifest's, and the next one where the width may
/// vary.
///
/// # Errors
/// [`WarmUpError`], one clause.
pub(super) fn warm_up(network: &dyn Network, manifest: &Manifest) -> Result<(), WarmUpError> {
    let DecodeKind::Ctc { characters, .. } = &manifest.decode.kind else {
        return Ok(());
    };
    let first = manifest.input.width;
    let second = widest(manifest).map(|widest| first.saturating_add(STEP).min(widest));
    for width in std::iter::once(first).chain(second) {
        let shape = input_shape(&wide(&manifest.input, width, width));
        run_on_grey(network, &shape, &mut |outputs| {
            ctc::steps(&Request::without_picture(outputs), characters.len()).map(|_| ())
        })?;
    }
    Ok(())
}

/// Runs a line finder once per size: the manifest's, and another one where the size may vary.
///
/// # Errors
/// [`WarmUpError`], one clause.
pub(super) fn warm_up_lines(network: &dyn Network, lines: &LineNetwork) -> Result<(), WarmUpError> {
    let mut tried = lines.clone();
    let other = lines
        .widest
        .map(|_| seen_as(lines, lines.input.width, lines.input.height + STEP));
    for input in std::iter::once(lines.input.clone()).chain(other) {
        tried.input = input;
        run_on_grey(network, &input_shape(&tried.input), &mut |outputs| {
            lines::decode(&tried, outputs, &mut Vec::new())
        })?;
    }
    Ok(())
}

fn widest(manifest: &Manifest) -> Option<u32> {
    match manifest.decode.kind {
        DecodeKind::Ctc { widest, .. } => widest.map(|w| w.max(manifest.input.width)),
        _ => None,
    }
}

/// The input of `width` pixels for a line that needs `wanted`; a longer line is squeezed.
fn wide(input: &Input, width: u32, wanted: u32) -> Input {
    Input {
        width,
        fit: if wanted > width {
            Fit::Stretch
        } else {
            input.fit
        },
        ..input.clone()
    }
}

impl TextReader {
    /// Creates a model for one stream; `lines` is the line finder.
    pub(super) fn new(
        manifest: Arc<Manifest>,
        network: SharedNetwork,
        lines: Option<(LineNetwork, SharedNetwork)>,
    ) -> Self {
        let finder = lines.map(|(lines, network)| Finder::new(&manifest.name, lines, network));
        Self {
            info: DetectorInfo::of(&manifest, &network),
            manifest,
            network,
            widths: BTreeMap::new(),
            finder,
        }
    }

    /// Finds the corners of each line in pixels of the picture, in reading order.
    fn find(
        &mut self,
        picture: &Picture,
        times: &mut DetectTimes,
    ) -> Result<Vec<[Point; 4]>, DetectError> {
        let (width, height) = (f64::from(picture.width), f64::from(picture.height));
        let Some(finder) = &mut self.finder else {
            let corner = |x: f64, y: f64| Point::new(x * width, y * height);
            return Ok(vec![[
                corner(0.0, 0.0),
                corner(1.0, 0.0),
                corner(1.0, 1.0),
                corner(0.0, 1.0),
            ]]);
        };
        finder.fit_to(&self.manifest.name, picture);
        let (sized, found) = (&finder.sized, &mut finder.found);
        let (place, took) = finder.network.run(picture, &[], &mut |outputs| {
            lines::decode(sized, outputs, found)
        })?;
        *times += took;
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found.truncate(MAX_LINES);
        Ok(in_order(found.iter().map(|line| to_picture(line, &place))))
    }

    fn line(&mut self, line: RgbPixels, times: &mut DetectTimes) -> Result<Reading, DetectError> {
        let input = &self.manifest.input;
        let ratio = f64::from(line.width) / f64::from(line.height.max(1));
        let wanted = (f64::from(input.height) * ratio).ceil() as u32;
        let most = widest(&self.manifest).unwrap_or(input.width);
        let width = wanted.div_ceil(STEP).saturating_mul(STEP);
        let width = width.clamp(input.width, most);
        // A line that is slightly too wide is squeezed, which needs its own input.
        let key = if wanted > width { 0 } else { width };
        let (name, shared) = (&self.manifest.name, &self.network);
        let network = self.widths.entry(key).or_insert_with(|| {
            StreamNetwork::new(name, wide(input, width, wanted), shared.clone())
        });
        let DecodeKind::Ctc {
            characters,
            blank,
            scores,
            ..
        } = &self.manifest.decode.kind
        else {
            return Err(network.failed("it does not recognise text"));
        };
        let picture = Picture::rgb(line.width, line.height, line.data);
        let mut reading = Reading::default();
        let (_, took) = network.run(&picture, &[], &mut |outputs| {
            let request = Request::of(&self.manifest, outputs, 0.0);
            reading = ctc::decode(&request, characters, *blank, *scores)?;
            Ok(())
        })?;
        *times += took;
        Ok(reading)
    }
}

fn to_picture(line: &Line, place: &Letterbox) -> [Point; 4] {
    line.corners.map(|corner| place.point_to_source(corner))
}

/// Sorts lines from top to bottom, and from left to right within a row. Lines of one row share at
/// least half of the lower one's height.
fn in_order(lines: impl Iterator<Item = [Point; 4]>) -> Vec<[Point; 4]> {
    let mut lines: Vec<(BBox, [Point; 4])> =
        lines.map(|corners| (around(&corners), corners)).collect();
    lines.sort_by(|(a, _), (b, _)| a.y1.total_cmp(&b.y1).then(a.x1.total_cmp(&b.x1)));
    let mut rows: Vec<Vec<(BBox, [Point; 4])>> = Vec::new();
    for line in lines {
        let beside = |row: &Vec<(BBox, [Point; 4])>| {
            row.first().is_some_and(|(first, _)| {
                let shared = first.y2.min(line.0.y2) - first.y1.max(line.0.y1);
                shared >= 0.5 * first.height().min(line.0.height())
            })
        };
        match rows.iter_mut().rev().find(|row| beside(row)) {
            Some(row) => row.push(line),
            None => rows.push(vec![line]),
        }
    }
    for row in &mut rows {
        row.sort_by(|(a, _), (b, _)| a.x1.total_cmp(&b.x1));
    }
    rows.into_iter().flatten().map(|(_, line)| line).collect()
}

/// Rectifies the quadrilateral between four corners; `None` if it has no area.
fn cut(rgb: &RgbPixels, corners: &[Point; 4]) -> Option<RgbPixels> {
    let [a, b, c, d] = *corners;
    let apart = |p: Point, q: Point| (p.x - q.x).hypot(p.y - q.y);
    let longest = f64::from(rgb.width).hypot(f64::from(rgb.height)).max(1.0);
    let side = |one: f64, other: f64| one.max(other).round().clamp(1.0, longest);
    let (width, height) = (
        side(apart(a, b), apart(d, c)),
        side(apart(a, d), apart(b, c)),
    );
    // Corners are edges of pixels, but warping maps their centres.
    let middle = |p: Point| Point::new(p.x - 0.5, p.y - 0.5);
    let to = [
        Point::new(0.0, 0.0),
        Point::new(width, 0.0),
        Point::new(width, height),
        Point::new(0.0, height),
    ];
    let way = Perspective::between(&corners.map(middle), &to.map(middle))?;
    Some(way.warp(rgb, [width as u32, height as u32]))
}

impl Detector for TextReader {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn read(
        &mut self,
        frame: &Frame,
        rgb: &RgbPixels,
        out: &mut Vec<ReadLine>,
    ) -> Result<DetectTimes, DetectError> {
        out.clear();
        let mut times = DetectTimes::default();
        let whole = self.finder.is_none();
        for corners in self.find(&frame.picture, &mut times)? {
            let line = if whole {
                Some(rgb.clone())
            } else {
                cut(rgb, &corners)
            };
            let Some(line) = line else { continue };
            let reading = self.line(line, &mut times)?;
            // The network often reads the margin of a line as spaces.
            let text = reading.text.trim();
            if reading.confidence >= self.manifest.confidence && !text.is_empty() {
                out.push(ReadLine {
                    text: text.to_owned(),
                    bbox: around(&corners).clip(f64::from(rgb.width), f64::from(rgb.height)),
                    confidence: reading.confidence,
                });
            }
        }
        Ok(times)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use super::*;

    fn upright(x: f64, y: f64, width: f64, height: f64) -> [Point; 4] {
        [
            Point::new(x, y),
            Point::new(x + width, y),
            Point::new(x + width, y + height),
            Point::new(x, y + height),
        ]
    }

    #[test]
    fn a_picture_keeps_its_size_within_bounds_and_small_ones_grow() {
        let zoo = include_str!("../../../models/zoo/pp-ocr-v4.toml");
        let manifest = Manifest::parse(std::path::Path::new("ocr.toml"), zoo).unwrap();
        let mut lines = manifest.lines.unwrap();
        let size = |lines: &LineNetwork, width, height| {
            let input = seen_as(lines, width, height);
            [input.width, input.height]
        };
        assert_eq!(size(&lines, 1920, 1080), [1920, 1088]);
        assert_eq!(size(&lines, 960, 540), [1312, 736]);
        assert_eq!(size(&lines, 3840, 2160), [1920, 1088]);
        assert_eq!(size(&lines, 10, 4000), [32, 1920]);
        assert_eq!(size(&lines, 1, 1), [736, 736]);
        lines.widest = None;
        assert_eq!(seen_as(&lines, 1920, 1080), lines.input);
    }

    #[test]
    fn lines_are_read_from_top_then_from_left() {
        let second = upright(60.0, 8.0, 40.0, 12.0);
        let first = upright(5.0, 11.0, 40.0, 12.0);
        let third = upright(0.0, 30.0, 90.0, 12.0);
        let ordered = in_order([third, second, first].into_iter());
        assert_eq!(ordered, [first, second, third]);
    }

    #[test]
    fn a_line_is_cut_out_upright_however_it_lies() {
        // Left half red, right half green; the line reads from right to left.
        let rgb = RgbPixels {
            width: 8,
            height: 4,
            data: (0..32)
                .flat_map(|i| if i % 8 < 4 { [255, 0, 0] } else { [0, 255, 0] })
                .collect(),
        };
        let [a, b, c, d] = upright(0.0, 0.0, 8.0, 4.0);
        let turned = cut(&rgb, &[c, d, a, b]).unwrap();
        assert_eq!((turned.width, turned.height), (8, 4));
        assert_eq!(turned.data[3..6], [0, 255, 0]);
        assert_eq!(turned.data[18..21], [255, 0, 0]);
        let flat = upright(2.0, 2.0, 0.0, 0.0);
        assert_eq!(cut(&rgb, &flat), None);
    }

    #[test]
    fn too_wide_line_is_squeezed_and_others_keep_their_shape() {
        let input = crate::testing::input(
            64,
            16,
            Fit::Letterbox {
                placement: watchkeeper_models::manifest::Placement::TopLeft,
                pad: 0,
            },
        );
        assert_eq!(wide(&input, 96, 90).fit, input.fit);
        assert_eq!(wide(&input, 96, 97).fit, Fit::Stretch);
        assert_eq!(wide(&input, 96, 90).width, 96);
    }
}
