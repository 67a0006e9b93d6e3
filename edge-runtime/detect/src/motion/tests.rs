//! The detector on synthetic pictures, whose truth is known to the pixel.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't set up its picture should fail"
)]

use super::*;
use crate::testing;
use watchkeeper_vision::frame::PixelFormat;

const FPS: f64 = 12.5;

/// A rectangle of one colour, in pixels.
#[derive(Clone, Copy)]
struct Patch {
    x: i32,
    y: i32,
    w: i32,
    h: i32,
    luma: f32,
    chroma: [f32; 2],
}

impl Patch {
    const fn new(x: i32, y: i32, w: i32, h: i32, luma: f32) -> Self {
        Self {
            x,
            y,
            w,
            h,
            luma,
            chroma: [0.0, 0.0],
        }
    }

    fn covers(&self, x: i32, y: i32) -> bool {
        x >= self.x && x < self.x + self.w && y >= self.y && y < self.y + self.h
    }
}

/// A grey street with a light texture, under a given illumination, with noise.
struct Scene {
    width: u32,
    height: u32,
    padding: usize,
    format: PixelFormat,
    gain: f32,
    noise: f32,
    detector: MotionDetector,
    random: fastrand::Rng,
    frame: u64,
    out: Vec<RawDetection>,
}

impl Scene {
    fn new(width: u32, height: u32) -> Self {
        Self {
            width,
            height,
            padding: 0,
            format: PixelFormat::I420,
            gain: 1.0,
            noise: 2.0,
            detector: MotionDetector::new(MotionSettings {
                absorb: Duration::from_secs(8),
            }),
            random: fastrand::Rng::with_seed(7),
            frame: 0,
            out: Vec::new(),
        }
    }

    fn yuv(&mut self, x: i32, y: i32, patches: &[(Patch, bool)]) -> [f32; 3] {
        let mut c = [100.0 + ((x / 24 + y / 24) % 2) as f32 * 8.0, 0.0, 0.0];
        for (patch, shade) in patches {
            if patch.covers(x, y) {
                if *shade {
                    c[0] *= patch.luma;
                } else {
                    c = [patch.luma, patch.chroma[0], patch.chroma[1]];
                }
            }
        }
        c = c.map(|value| value * self.gain);
        c[0] += (self.random.f32() - 0.5) * 2.0 * self.noise;
        c
    }

    /// Draws the patches (those marked true multiply luma, like a shadow) and processes the
    /// picture.
    fn show(&mut self, patches: &[(Patch, bool)]) -> Vec<BBox> {
        let (w, h) = (self.width as usize, self.height as usize);
        let (cw, ch) = (w.div_ceil(2), h.div_ceil(2));
        let byte = |v: f32, zero: f32| (v + zero).round().clamp(0.0, 255.0) as u8;
        let mut planes = match self.format {
            PixelFormat::I420 => vec![(w, h, 1), (cw, ch, 1), (cw, ch, 1)],
            PixelFormat::Nv12 => vec![(w, h, 1), (cw, ch, 2)],
            PixelFormat::Rgb => vec![(w, h, 3)],
        }
        .into_iter()
        .map(|(w, h, step)| {
            let stride = w * step + self.padding;
            // The value of padding must not matter.
            (vec![255; stride * (h - 1) + w * step], stride)
        })
        .collect::<Vec<_>>();
        for y in 0..h {
            for x in 0..w {
                let [l, u, v] = self.yuv(x as i32, y as i32, patches);
                if self.format == PixelFormat::Rgb {
                    let (r, b) = (l + 1.402 * v, l + 1.772 * u);
                    let g = (l - 0.299 * r - 0.114 * b) / 0.587;
                    let at = y * planes[0].1 + x * 3;
                    planes[0].0[at] = byte(r, 0.0);
                    planes[0].0[at + 1] = byte(g, 0.0);
                    planes[0].0[at + 2] = byte(b, 0.0);
                    continue;
                }
                let at = y * planes[0].1 + x;
                planes[0].0[at] = byte(l, 0.0);
                if x % 2 == 0 && y % 2 == 0 {
                    if self.format == PixelFormat::Nv12 {
                        let at = y / 2 * planes[1].1 + x;
                        planes[1].0[at] = byte(u, 128.0);
                        planes[1].0[at + 1] = byte(v, 128.0);
                    } else {
                        let at = y / 2 * planes[1].1 + x / 2;
                        planes[1].0[at] = byte(u, 128.0);
                        planes[2].0[at] = byte(v, 128.0);
                    }
                }
            }
        }
        self.frame += 1;
        let mut frame = Frame {
            pts: Duration::from_secs_f64(self.frame as f64 / FPS),
            fps: Some(FPS),
            ..testing::frame(testing::picture(
                self.width,
                self.height,
                self.format,
                planes,
            ))
        };
        frame.id.seq = self.frame;
        self.detector
            .detect(&frame, &DetectParams::default(), &mut self.out)
            .unwrap();
        self.out.iter().map(|d| d.bbox).collect()
    }

    fn rest(&mut self, frames: usize) {
        for _ in 0..frames {
            self.show(&[]);
        }
    }
}

fn solid(x: i32, y: i32, w: i32, h: i32, luma: f32) -> (Patch, bool) {
    (Patch::new(x, y, w, h, luma), false)
}

fn close(found: &BBox, x: i32, y: i32, w: i32, h: i32, slack: f64) -> bool {
    let truth = BBox::new(x.into(), y.into(), (x + w).into(), (y + h).into());
    (found.x1 - truth.x1).abs() <= slack
        && (found.y1 - truth.y1).abs() <= slack
        && (found.x2 - truth.x2).abs() <= slack
        && (found.y2 - truth.y2).abs() <= slack
}

#[test]
fn moving_square_is_one_box_around_it() {
    for format in [PixelFormat::I420, PixelFormat::Nv12, PixelFormat::Rgb] {
        let mut s = Scene::new(320, 180);
        s.format = format;
        s.rest(10);
        for i in 0..30 {
            let x = 40 + i * 6;
            let found = s.show(&[solid(x, 60, 40, 40, 180.0)]);
            if i > 6 {
                assert_eq!(found.len(), 1, "{format:?}, frame {i}: {found:?}");
                assert!(close(&found[0], x, 60, 40, 40, 6.0), "{i}: {found:?}");
            }
        }
    }
}

#[test]
fn object_seen_in_two_rare_frames_outlasts_a_missed_one() {
    let mut s = Scene::new(320, 180);
    s.rest(10);
    s.show(&[solid(40, 60, 40, 40, 180.0)]);
    s.show(&[solid(70, 60, 40, 40, 180.0)]);
    s.rest(1);
    assert_eq!(s.show(&[solid(130, 60, 40, 40, 180.0)]).len(), 1);
}

#[test]
fn object_entering_between_rare_frames_is_found_in_its_second() {
    let mut s = Scene::new(320, 180);
    s.rest(10);
    s.frame += 2;
    s.show(&[solid(0, 60, 40, 40, 180.0)]);
    s.frame += 2;
    assert_eq!(s.show(&[solid(30, 60, 40, 40, 180.0)]).len(), 1);
}

#[test]
fn padded_rows_and_odd_sizes_change_nothing() {
    let mut s = Scene::new(321, 181);
    s.padding = 37;
    s.rest(10);
    let mut found = Vec::new();
    for i in 0..20 {
        found = s.show(&[solid(60 + i * 6, 60, 40, 40, 30.0)]);
    }
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(close(&found[0], 60 + 19 * 6, 60, 40, 40, 6.0), "{found:?}");
}

#[test]
fn noise_alone_is_nothing() {
    let mut s = Scene::new(320, 180);
    s.noise = 10.0;
    for i in 0..80 {
        let found = s.show(&[]);
        assert!(found.is_empty(), "frame {i}: {found:?}");
    }
}

#[test]
fn dark_picture_shows_its_objects_and_no_noise() {
    for gain in [0.05, 0.1, 0.16] {
        let mut scene = Scene::new(640, 360);
        scene.gain = gain;
        for frame in 0..100 {
            let found = scene.show(&[]);
            assert_eq!(found, [], "gain {gain}, frame {frame}");
        }
        let mut found = Vec::new();
        for i in 0..20 {
            found = scene.show(&[solid(60 + i * 6, 60, 60, 120, 200.0)]);
        }
        assert_eq!(found.len(), 1, "gain {gain}: {found:?}");
        assert!(close(&found[0], 174, 60, 60, 120, 8.0), "{gain}: {found:?}");
    }
}

#[test]
fn black_bars_do_not_lower_the_steps() {
    let mut scene = Scene::new(320, 180);
    let bar = solid(0, 0, 200, 180, 0.0);
    for _ in 0..10 {
        scene.show(&[bar]);
    }
    for i in 0..15 {
        let faint = solid(210 + i * 2, 60, 40, 40, 109.0);
        assert_eq!(scene.show(&[bar, faint]), [], "frame {i}");
    }
}

#[test]
fn black_lorry_does_not_lower_the_steps() {
    let mut scene = Scene::new(320, 180);
    scene.rest(10);
    for i in 0..28 {
        let lorry = solid(-190 + i * 7, 0, 190, 180, 5.0);
        let faint = solid(210 + i * 2, 60, 40, 40, 109.0);
        let found = scene.show(&[lorry, faint]);
        assert!(found.len() <= 1, "frame {i}: {found:?}");
    }
}

#[test]
fn brightness_may_drift_and_flicker_without_boxes() {
    let mut s = Scene::new(320, 180);
    s.rest(10);
    for i in 0..80 {
        s.gain = 1.0 + 0.25 * (i as f32 * 0.4).sin();
        let found = s.show(&[]);
        assert!(found.is_empty(), "frame {i}: {found:?}");
    }
}

#[test]
fn change_of_exposure_shows_no_boxes_on_strong_colours() {
    let mut scene = Scene::new(320, 180);
    let coloured = |x, chroma| {
        let (patch, shade) = solid(x, 40, 60, 80, 120.0);
        (Patch { chroma, ..patch }, shade)
    };
    let room = [coloured(30, [-40.0, 50.0]), coloured(200, [60.0, -30.0])];
    for gain in [1.0, 1.3, 0.75] {
        scene.gain = gain;
        for _ in 0..30 {
            let boxes = scene.show(&room);
            assert_eq!(boxes, [], "at a gain of {gain}");
        }
    }
}

#[test]
fn lamp_switched_on_gives_no_boxes_and_objects_are_found() {
    let mut s = Scene::new(320, 180);
    s.rest(20);
    s.gain = 1.7;
    for i in 0..20 {
        let found = s.show(&[]);
        assert!(found.is_empty(), "frame {i}: {found:?}");
    }
    let mut found = Vec::new();
    for i in 0..15 {
        found = s.show(&[solid(60 + i * 6, 60, 40, 40, 60.0)]);
    }
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn moved_camera_relearns_the_picture() {
    let mut s = Scene::new(320, 180);
    s.rest(20);
    // The whole picture moves by 12 pixels and stays.
    let mut shifted = Vec::new();
    for row in 0..8 {
        for col in 0..14 {
            shifted.push(solid(
                col * 24 - 12,
                row * 24,
                24,
                24,
                60.0 + ((row + col) % 2) as f32 * 90.0,
            ));
        }
    }
    let mut last = Vec::new();
    for _ in 0..60 {
        last = s.show(&shifted);
    }
    assert!(last.is_empty(), "{last:?}");
}

#[test]
fn soft_shadow_does_not_stretch_the_box() {
    let mut s = Scene::new(320, 180);
    s.rest(10);
    for i in 0..25 {
        let x = 40 + i * 6;
        let shadow = Patch::new(x + 30, 85, 60, 15, 0.72);
        let found = s.show(&[(shadow, true), solid(x, 40, 30, 60, 200.0)]);
        if i > 6 {
            assert_eq!(found.len(), 1, "frame {i}: {found:?}");
            assert!(close(&found[0], x, 40, 30, 60, 8.0), "{i}: {found:?}");
        }
    }
}

#[test]
fn stopped_object_is_reported_until_absorbed_without_ghost() {
    let mut s = Scene::new(320, 180);
    s.rest(40);
    let car = |x| solid(x, 60, 60, 40, 190.0);
    for i in 0..20 {
        s.show(&[car(20 + i * 6)]);
    }
    let parked = 20 + 19 * 6;
    // Absorbed after 8 s, which are 100 frames.
    for i in 0..90 {
        let found = s.show(&[car(parked)]);
        assert_eq!(found.len(), 1, "frame {i}: {found:?}");
    }
    for _ in 0..40 {
        s.show(&[car(parked)]);
    }
    let found = s.show(&[car(parked)]);
    assert!(found.is_empty(), "absorbed: {found:?}");
    for i in 1..20 {
        let x = parked + i * 6;
        let found = s.show(&[car(x)]);
        assert!(
            found.iter().all(|b| b.x1 > f64::from(parked) - 6.0),
            "{i}: {found:?}"
        );
        assert!(found.len() <= 1, "{i}: {found:?}");
    }
    let found = s.show(&[]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn thing_that_stops_on_a_known_background_is_kept() {
    let mut s = Scene::new(320, 180);
    s.detector = MotionDetector::default();
    // 3.2 s of background, then 16 s of a thing on it.
    s.rest(40);
    let person = |x| solid(x, 20, 90, 160, 30.0);
    for i in 0..10 {
        s.show(&[person(-60 + i * 20)]);
    }
    for i in 0..200 {
        let found = s.show(&[person(130)]);
        assert_eq!(found.len(), 1, "frame {i}: {found:?}");
    }
}

#[test]
fn small_pictures_have_few_cells() {
    for (width, cells) in [(320, 320), (480, 240), (768, 384), (1920, 384)] {
        let mut s = Scene::new(width, 64);
        s.rest(1);
        assert_eq!(s.detector.small.width, cells, "{width} pixels");
    }
}

#[test]
fn thing_there_from_the_start_leaves_no_long_ghost() {
    let mut s = Scene::new(320, 180);
    let car = |x| solid(x, 60, 60, 40, 190.0);
    for _ in 0..50 {
        s.show(&[car(100)]);
    }
    for i in 1..25 {
        s.show(&[car(100 + i * 8)]);
    }
    for i in 0..10 {
        let found = s.show(&[]);
        assert!(found.is_empty(), "frame {i} after: {found:?}");
    }
}

#[test]
fn first_place_of_a_thing_that_left_joins_no_other_box() {
    let mut s = Scene::new(320, 180);
    for i in 0..36 {
        // The car uncovers its place at once; the person walks across both places for 3 s.
        let (car, person) = (100 + i * 8, 80 + i * 2);
        let found = s.show(&[
            solid(car, 60, 60, 40, 150.0),
            solid(person, 50, 20, 60, 50.0),
        ]);
        if i > 28 {
            assert_eq!(found.len(), 1, "frame {i}: {found:?}");
            assert!(close(&found[0], person, 50, 20, 60, 6.0), "{i}: {found:?}");
        }
    }
}

#[test]
fn swaying_thing_is_not_reported() {
    let mut s = Scene::new(320, 180);
    s.rest(20);
    for i in 0..100 {
        let sway = (f64::from(i) * 0.9).sin() * 4.0;
        let found = s.show(&[solid(150 + sway as i32, 50, 24, 30, 40.0)]);
        assert!(found.is_empty(), "frame {i}: {found:?}");
    }
}

#[test]
fn thing_with_a_gap_is_one_box() {
    let mut s = Scene::new(320, 180);
    s.rest(10);
    for i in 0..25 {
        let x = 30 + i * 6;
        // A windscreen of the street's grey separates the bonnet from the roof.
        let found = s.show(&[
            solid(x, 60, 30, 40, 200.0),
            solid(x + 34, 60, 50, 40, 200.0),
        ]);
        if i > 6 {
            assert_eq!(found.len(), 1, "frame {i}: {found:?}");
        }
    }
}

#[test]
fn two_things_that_pass_each_other_stay_two() {
    let mut s = Scene::new(320, 180);
    s.rest(10);
    for i in 0..35 {
        let (a, b) = (20 + i * 6, 250 - i * 6);
        let found = s.show(&[solid(a, 50, 40, 40, 200.0), solid(b, 86, 40, 40, 30.0)]);
        if i > 6 {
            assert_eq!(found.len(), 2, "frame {i}: {found:?}");
        }
    }
}

#[test]
fn boxes_lie_inside_the_picture_and_fall_in_score() {
    let mut s = Scene::new(320, 180);
    s.rest(10);
    for i in 0..40 {
        let x = -60 + i * 10;
        s.show(&[
            solid(x, -10, 60, 60, 200.0),
            solid(320 - x, 130, 60, 60, 20.0),
        ]);
        for d in &s.out {
            assert!(d.bbox.x1 >= 0.0 && d.bbox.y1 >= 0.0, "{d:?}");
            assert!(d.bbox.x2 <= 320.0 && d.bbox.y2 <= 180.0, "{d:?}");
            assert!((0.0..=1.0).contains(&d.score), "{d:?}");
        }
        assert!(s.out.is_sorted_by(|a, b| a.score >= b.score));
    }
}

#[test]
fn tiny_pictures_are_examined_without_complaint() {
    for (w, h) in [(1, 1), (1, 7), (9, 1), (2, 2), (5, 3), (17, 16)] {
        let mut s = Scene::new(w, h);
        for i in 0..8 {
            s.show(&[solid(i, 0, 2, 2, 220.0)]);
        }
    }
}

#[test]
fn change_of_size_starts_afresh() {
    let mut s = Scene::new(320, 180);
    s.rest(20);
    (s.width, s.height) = (200, 160);
    for i in 0..10 {
        let found = s.show(&[]);
        assert!(found.is_empty(), "frame {i}: {found:?}");
    }
}

#[test]
fn empty_and_short_pictures_are_refused_and_the_next_is_taken() {
    let mut s = Scene::new(64, 48);
    s.rest(2);
    let mut frame = testing::frame(testing::picture(0, 48, PixelFormat::I420, Vec::new()));
    let params = DetectParams::default();
    let mut out = Vec::new();
    let refused = s.detector.detect(&frame, &params, &mut out);
    assert!(matches!(refused, Err(DetectError::Picture { .. })));
    frame.picture.width = 64;
    let refused = s.detector.detect(&frame, &params, &mut out);
    assert!(matches!(refused, Err(DetectError::Picture { .. })));
    s.rest(2);
}
