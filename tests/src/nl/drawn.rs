//! Draws the picture of a scripted camera: places with their names, actors as boxes with their
//! classes.
//!
//! A user in front of a camera knows where the safe is; an LLM has to see it. So the places are
//! drawn with their names.

use image::RgbImage;
use watchkeeper_vision::draw::annotate::TextBox;
use watchkeeper_vision::draw::palette::{COLORS, Color};
use watchkeeper_vision::draw::{Canvas, Labels, zone};
use watchkeeper_vision::geometry::{BBox, Point};

use super::scene::Scene;

/// Colour of the background.
const GROUND: Color = Color::new(70, 78, 84);

/// Draws the `nth` picture of `camera` at a moment of the script.
pub fn picture(scene: &Scene, camera: &str, t: f64, nth: u32) -> RgbImage {
    let of_scene = scene.camera(camera);
    let [width, height] = of_scene.map_or([640, 360], |c| c.size());
    let mut picture = ground(width, height, nth);
    let [w, h] = [width, height].map(f64::from);
    let at = |p: &Point| Point::new(p.x * w, p.y * h);
    let canvas = &mut Canvas::new(&mut picture, width, height);
    let mut labels = Labels::new();
    for (nth, name) in scene.regions.keys().enumerate() {
        let color = COLORS[nth % COLORS.len()];
        let region = scene.region(name).unwrap_or_default();
        let corners: Vec<Point> = region.iter().map(at).collect();
        let name = name.replace('_', " ");
        match corners.as_slice() {
            [a, b] => {
                canvas.segment(*a, *b, color, 4.0, 1.0);
                labels.add_line(*a, *b, name, color);
            }
            corners => {
                zone(canvas, corners, color, 0.16);
                labels.add_zone(corners, name, color);
            }
        }
    }
    for actor in scene.actors(camera) {
        let Some(seen) = actor.at(t) else {
            continue;
        };
        let b = BBox::new(
            seen.bbox.x1 * w,
            seen.bbox.y1 * h,
            seen.bbox.x2 * w,
            seen.bbox.y2 * h,
        );
        canvas.fill_rounded(&b, 8.0, Color::WHITE, 0.6);
        canvas.outline_box(&b, Color::INK, 3.0);
        labels.add_box(&b, None, seen.class.to_string(), Color::INK);
    }
    labels.draw(canvas);
    let name = of_scene.and_then(|c| c.name.as_deref()).unwrap_or(camera);
    words(canvas, Point::new(8.0, h - 40.0), &[name]);
    // What no attached picture shows.
    let stubs = if scene.attachments.is_empty() {
        stub_lines(scene)
    } else {
        Vec::new()
    };
    let sign: Vec<&str> = scene
        .sign_text
        .iter()
        .chain(&stubs)
        .map(String::as_str)
        .collect();
    if !sign.is_empty() {
        words(canvas, Point::new(w * 0.3, 24.0), &sign);
    }
    picture
}

/// Draws the background with sensor noise that differs between pictures. A flat, constant grey
/// would count as a covered or frozen camera.
fn ground(width: u32, height: u32, nth: u32) -> RgbImage {
    const NOISE: u8 = 24;
    let mut random = fastrand::Rng::with_seed(u64::from(nth));
    // Each row shows another part of one line, which is twice as wide.
    let line = RgbImage::from_fn(2 * width, 1, |_, _| {
        let noise = random.u8(..NOISE);
        image::Rgb([GROUND.r, GROUND.g, GROUND.b].map(|c| c + noise - NOISE / 2))
    });
    let mut picture = RgbImage::new(width, height);
    for row in picture.chunks_exact_mut(3 * width as usize) {
        let start = 3 * random.usize(..width as usize);
        if let Some(part) = line.get(start..start + row.len()) {
            row.copy_from_slice(part);
        }
    }
    picture
}

/// Draws the attached picture of a request: its description as text.
pub fn attachment(scene: &Scene) -> RgbImage {
    let mut picture = RgbImage::from_pixel(960, 540, image::Rgb([GROUND.r, GROUND.g, GROUND.b]));
    let canvas = &mut Canvas::new(&mut picture, 960, 540);
    let mut lines = vec!["This picture shows:".to_owned()];
    lines.extend(stub_lines(scene));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    words(canvas, Point::new(40.0, 200.0), &lines);
    picture
}

/// The stubbed results of a scene as lines of text.
fn stub_lines(scene: &Scene) -> Vec<String> {
    let results = scene.stub_results.iter();
    results
        .map(|(name, value)| match value.as_str() {
            Some(text) => text.to_owned(),
            None => format!("{name}: {value}"),
        })
        .collect()
}

fn words(canvas: &mut Canvas<'_>, at: Point, lines: &[&str]) {
    let text = TextBox {
        color: Color::WHITE,
        background: Color::INK,
        opacity: 0.8,
        scale: 1.0,
        padding: 6.0,
        radius: 4.0,
    };
    text.draw(canvas, at, lines, 0.0);
}

#[cfg(test)]
mod tests {
    use super::ground;

    #[test]
    fn empty_scene_is_neither_flat_nor_frozen() {
        let (first, next) = (ground(64, 36, 0), ground(64, 36, 1));
        assert_ne!(first, next);
        let lights: Vec<u8> = first.pixels().map(|p| p.0[0]).collect();
        let (least, most) = (lights.iter().min(), lights.iter().max());
        assert!(least < Some(&64) && most > Some(&76), "{least:?} {most:?}");
    }
}
