//! Annotated pictures of the candidates, side by side.

use std::fs;
use std::path::Path;

use image::RgbImage;
use watchkeeper_vision::draw::{Canvas, Color, Labels, annotate, palette};
use watchkeeper_vision::frame::Picture;
use watchkeeper_vision::geometry::Point;
use watchkeeper_vision::{jpeg, shrink};

use super::compare::{Finding, Judgement, Measured};
use super::frames::Taken;
use super::request::CameraTrialError;
use crate::pipeline::pixels::arrange_in_columns;

/// Longest side of one candidate's picture in the overview, in pixels.
const LONGEST: u32 = 960;
/// Columns of the overview.
const COLUMNS: u32 = 2;

/// Quality of the JPEG files.
const QUALITY: u8 = 88;
/// Colours of objects, of those that stay in one place, and of doubtful boxes.
const OBJECT: Color = palette::COLORS[2];
const STILL: Color = palette::COLORS[0];
const DOUBTFUL: Color = palette::COLORS[5];

/// Writes the frame with the most objects, once for each candidate and once with all side by side.
/// Returns the paths.
///
/// # Errors
/// [`CameraTrialError::Write`].
pub(super) fn write(
    folder: &Path,
    taken: &Taken,
    measured: &[Measured],
    finding: &Finding,
) -> Result<Vec<String>, CameraTrialError> {
    fs::create_dir_all(folder).map_err(|e| unwritten(folder, &e))?;
    let Some(frame) = taken.frames.get(finding.busiest) else {
        return Ok(Vec::new());
    };
    let mut paths = Vec::new();
    let mut small = Vec::new();
    for (one, candidate) in measured.iter().zip(&finding.candidates) {
        let mut drawn = jpeg::to_rgb(&frame.picture).map_err(|e| unwritten(folder, &e))?;
        draw(&mut drawn, one, finding.busiest, &candidate.name());
        let name = candidate.name().replace(", tiles ", "-tiles-");
        let safe = name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
        paths.push(save(folder, &format!("{safe}.jpg"), &drawn)?);
        let shrunk = shrink::within(&Picture::from(drawn), LONGEST);
        small.push(shrunk.map_err(|e| unwritten(folder, &e))?);
    }
    if let Some(all) = arrange_in_columns(&small, COLUMNS) {
        paths.insert(0, save(folder, "side-by-side.jpg", &all)?);
    }
    Ok(paths)
}

/// Draws the boxes of a candidate with their confidence, coloured by what they are.
fn draw(picture: &mut RgbImage, one: &Measured, frame: usize, caption: &str) {
    let (width, height) = picture.dimensions();
    let mut canvas = Canvas::new(picture, width, height);
    let thickness = (2.0 * canvas.scale()).max(1.0);
    let mut labels = Labels::new();
    let judged = one.judged(frame);
    for (d, judgement) in &judged {
        let color = match judgement {
            Judgement::Moving => OBJECT,
            Judgement::Still => STILL,
            Judgement::Doubtful => DOUBTFUL,
        };
        canvas.outline_box(&d.bbox, color, thickness);
        labels.add_box(&d.bbox, None, format!("{:.2}", d.confidence), color);
    }
    labels.draw(&mut canvas);
    let style = annotate::TextBox {
        color: Color::WHITE,
        background: Color::INK,
        opacity: 0.8,
        scale: canvas.scale().max(1.0),
        padding: 6.0,
        radius: 0.0,
    };
    let count = |wanted| {
        judged
            .iter()
            .filter(|(_, judgement)| *judgement == wanted)
            .count()
    };
    let text = format!(
        "{caption}: {} objects, {} still, {} doubtful",
        count(Judgement::Moving),
        count(Judgement::Still),
        count(Judgement::Doubtful)
    );
    style.draw(&mut canvas, Point::new(0.0, 0.0), &[&text], 0.0);
}

fn save(folder: &Path, name: &str, picture: &RgbImage) -> Result<String, CameraTrialError> {
    let path = folder.join(name);
    let bytes = jpeg::encode(picture, QUALITY).map_err(|e| unwritten(&path, &e))?;
    fs::write(&path, bytes).map_err(|e| unwritten(&path, &e))?;
    Ok(path.display().to_string())
}

fn unwritten(path: &Path, why: &dyn std::fmt::Display) -> CameraTrialError {
    CameraTrialError::Write {
        path: path.to_owned(),
        message: why.to_string(),
    }
}
