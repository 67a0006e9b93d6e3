//! Detects that a camera was moved, covered or darkened, or is out of focus.
//!
//! Sans-IO, in checks of half a second. A picture is reduced to [`GRID_SIZE`]² cells. The view now,
//! a mean of [`NOW_CHECKS`], is compared with the usual view, a mean of [`USUAL_CHECKS`]:
//!
//! | cells that lost their detail | likeness of the patterns | view |
//! |---|---|---|
//! | any, below a tenth of the usual light | | black |
//! | below a quarter | above 0.5 | usual |
//! | up to half | below 0.3, or blocks are 0.1 better if shifted by a cell or two | moved |
//! | more than half | of these cells, below 0.4 | covered |
//! | more than half | of these cells, above 0.4 | blurred: out of focus, dirty, fogged, dazzled |
//! | other | | unclear: as before |
//!
//! A view counts once [`MIN_RUN`] checks in a row agree; a black one after [`MIN_BLACK_RUN`], and
//! until there is light. A moved view is the usual one after [`ACCEPTED_AFTER`].

use serde::{Deserialize, Serialize};
use watchkeeper_contract::source::Blindness;
use watchkeeper_vision::cells::{GRID_SIZE, TEXT_ROWS, edge_shares};
use watchkeeper_vision::frame::{Picture, PixelFormat};

/// Checks over which the view now is averaged, so that what passes by cancels out: 5 seconds.
const NOW_CHECKS: u32 = 10;
/// Checks over which the usual view is averaged: a minute.
const USUAL_CHECKS: u32 = 120;
/// Checks before the first judgement.
const MIN_CHECKS: u32 = 40;
/// Checks in a row that must agree: 5 seconds.
const MIN_RUN: u32 = 10;
/// Checks in a row that must be black: 3 seconds.
const MIN_BLACK_RUN: u32 = 6;
/// Share of the usual light below which a view is black.
const BLACK_SHARE: f32 = 0.1;
/// Luma of black in pictures of limited range.
const LIMITED_BLACK: f32 = 16.0;
/// Rows and columns of blocks in which a moved view is searched, and the cells by which each is
/// shifted. A shifted block counts from this likeness and from this gain over the unshifted one.
///
/// A prototype on ten clips gave these medians of shifted blocks, of 12. An unmoved camera has at
/// most 2, also in a quarter of the light, with shadows, or behind a truck over 60 % of the
/// picture. One that shakes by 1 % has up to 3. A move by 2.7 % has 5 to 12, a rotation by 3° 2 to
/// 7, a zoom by 12 % 1 to 11.
const BLOCKS: [usize; 2] = [3, 4];
const MAX_SHIFT: usize = 2;
const MIN_SHIFTED: f32 = 0.6;
const MIN_SHIFT_GAIN: f32 = 0.1;
/// Shifted blocks of a moved view.
const MIN_SHIFTED_BLOCKS: usize = 5;
/// Checks after which a moved view is the usual one: an hour.
const ACCEPTED_AFTER: u32 = 7200;
/// Rows and columns of cells around a cell whose mean is its surroundings.
const SURROUNDINGS: usize = 2;
/// Share of a cell's samples at an edge from which on the cell has detail.
const DETAILED: f32 = 0.05;
/// Share of its usual detail below which a cell has lost it.
const LOST: f32 = 0.15;
/// Share of cells with detail that a view needs to be judged.
const MIN_DETAILED: f32 = 0.1;
/// Step of luma at an edge, as a share of the mean luma above black, and its minimum.
const EDGE_SHARE: f32 = 0.12;
const MIN_EDGE: f32 = 4.0;
/// Luma added to the mean, so that noise in the dark is not an edge.
const DARK: f32 = 16.0;

/// Cells of a picture or a mean of them, without the rows of text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct View {
    pattern: Vec<f32>,
    /// Share of each cell's samples at an edge.
    detail: Vec<f32>,
    /// Mean luma above black; 0 in a view that an earlier version has kept.
    #[serde(default)]
    light: f32,
}

/// The usual view of a camera, for the next process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsualView {
    usual: View,
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Usual,
    Unusual(Blindness),
}

/// Compares the view of one camera with its usual one.
#[derive(Debug, Default)]
pub struct ViewWatch {
    usual: View,
    now: View,
    checks: u32,
    /// The latest verdict, and how many checks in a row had it.
    run: Option<(Verdict, u32)>,
    unusual: Option<Blindness>,
}

impl ViewWatch {
    /// Continues with the usual view of an earlier process, unless it has another grid.
    pub fn resume(known: UsualView) -> Self {
        let cells = GRID_SIZE * (GRID_SIZE - 2 * TEXT_ROWS);
        if known.usual.pattern.len() != cells || known.usual.detail.len() != cells {
            return Self::default();
        }
        Self {
            usual: known.usual,
            checks: MIN_CHECKS,
            ..Self::default()
        }
    }

    /// Begins with a new connection to the camera: the next picture decides whether the last
    /// verdict still holds.
    pub fn restart(&mut self) {
        self.now = View::default();
        self.unusual = None;
    }

    /// The usual view; `None` before it was learnt.
    pub fn known(&self) -> Option<UsualView> {
        (self.checks >= MIN_CHECKS).then(|| UsualView {
            usual: self.usual.clone(),
        })
    }

    /// Checks a picture with these cell means, and returns how its view differs from the usual one.
    pub fn observe(&mut self, picture: &Picture, means: &[f32]) -> Option<Blindness> {
        match View::of(picture, means) {
            Some(view) => self.judge(&view),
            None => self.unusual,
        }
    }

    /// How the view differed from the usual one at the last check.
    pub fn unusual(&self) -> Option<Blindness> {
        self.unusual
    }

    fn judge(&mut self, view: &View) -> Option<Blindness> {
        if self.checks == 0 {
            self.usual = view.clone();
        }
        if self.now.pattern.is_empty() {
            self.now = view.clone();
        }
        self.checks = self.checks.saturating_add(1);
        self.now.mix(view, self.checks.min(NOW_CHECKS));
        if self.checks < MIN_CHECKS {
            self.usual.mix(view, self.checks);
            return None;
        }
        if self.unusual == Some(Blindness::Black) && !self.now.is_black(&self.usual) {
            self.unusual = None;
        }
        let verdict = self.now.compare(&self.usual, view);
        let in_a_row = match self.run {
            Some((last, count)) if Some(last) == verdict => count.saturating_add(1),
            _ => 1,
        };
        self.run = verdict.map(|verdict| (verdict, in_a_row));
        match verdict {
            Some(Verdict::Usual) => {
                self.usual.mix(&self.now, USUAL_CHECKS);
                if in_a_row >= MIN_RUN {
                    self.unusual = None;
                }
            }
            Some(Verdict::Unusual(Blindness::Moved)) if in_a_row >= ACCEPTED_AFTER => {
                self.usual = self.now.clone();
            }
            Some(Verdict::Unusual(Blindness::Black)) if in_a_row >= MIN_BLACK_RUN => {
                self.unusual = Some(Blindness::Black);
            }
            Some(Verdict::Unusual(how)) if in_a_row >= MIN_RUN => self.unusual = Some(how),
            Some(Verdict::Unusual(_)) | None => {}
        }
        self.unusual
    }
}

impl View {
    /// The view of a picture; `None` for an empty one.
    fn of(picture: &Picture, means: &[f32]) -> Option<Self> {
        let mean = means.iter().sum::<f32>() / means.len() as f32;
        let step = (EDGE_SHARE * (mean + DARK)).max(MIN_EDGE);
        let detail = without_text(&edge_shares(picture, step))?.to_vec();
        let is_limited = picture.format != PixelFormat::Rgb && !picture.color.full_range;
        let black = if is_limited { LIMITED_BLACK } else { 0.0 };
        Some(Self {
            pattern: pattern(means)?,
            detail,
            light: (mean - black).max(0.0),
        })
    }

    /// Whether the light of the usual view has gone.
    fn is_black(&self, usual: &Self) -> bool {
        self.light < BLACK_SHARE * usual.light
    }

    /// Mixes another view into this mean of `count` views.
    fn mix(&mut self, other: &Self, count: u32) {
        let weight = 1.0 / count as f32;
        let cells = self.pattern.iter_mut().zip(&other.pattern);
        let cells = cells.chain(self.detail.iter_mut().zip(&other.detail));
        for (mean, value) in cells.chain([(&mut self.light, &other.light)]) {
            *mean += weight * (value - *mean);
        }
    }

    /// Compares this view with the usual one; `None` if that is unclear. The latest picture shows
    /// what took the detail: the mean still has a part of the usual pattern.
    ///
    /// The bounds are from a prototype on ten clips with made disturbances. The mean likeness of
    /// the usual view was 0.77 and more, also at a quarter of the light. That of one moved by an
    /// eighth of the picture was 0.26 and less. Of the cells that lost their detail it was 0.12 and
    /// less when covered, 0.49 and more when blurred.
    fn compare(&self, usual: &Self, latest: &Self) -> Option<Verdict> {
        if latest.is_black(usual) {
            return Some(Verdict::Unusual(Blindness::Black));
        }
        let cells = self.detail.iter().zip(&usual.detail).enumerate();
        let detailed = cells.filter(|(_, (_, usual))| **usual > DETAILED);
        let count = detailed.clone().count();
        if (count as f32) < MIN_DETAILED * usual.detail.len() as f32 {
            return None;
        }
        let lost = detailed.filter(|(_, (now, usual))| **now < LOST * **usual);
        let lost: Vec<usize> = lost.map(|(cell, _)| cell).collect();
        if lost.len() * 2 > count {
            let of = |view: &Self| -> Vec<f32> {
                let cells = lost.iter().filter_map(|cell| view.pattern.get(*cell));
                cells.copied().collect()
            };
            let is_alike = likeness(&of(latest), &of(usual)) > 0.4;
            return Some(Verdict::Unusual(match is_alike {
                true => Blindness::Blurred,
                false => Blindness::Covered,
            }));
        }
        let alike = likeness(&self.pattern, &usual.pattern);
        if alike < 0.3 || is_shifted(&self.pattern, &usual.pattern) {
            return Some(Verdict::Unusual(Blindness::Moved));
        }
        (alike > 0.5 && lost.len() * 4 < count).then_some(Verdict::Usual)
    }
}

/// Whether a view is alike the usual one block by block, but only if the blocks are shifted.
fn is_shifted(now: &[f32], usual: &[f32]) -> bool {
    let [rows, columns] = BLOCKS;
    let height = (GRID_SIZE - 2 * TEXT_ROWS - 2 * MAX_SHIFT) / rows;
    let width = (GRID_SIZE - 2 * MAX_SHIFT) / columns;
    let block = |pattern: &[f32], [top, left]: [usize; 2]| -> Vec<f32> {
        let rows = pattern.chunks(GRID_SIZE).skip(top).take(height);
        let cells = rows.flat_map(|row| row.iter().skip(left).take(width));
        cells.copied().collect()
    };
    let places = (0..rows).flat_map(|row| (0..columns).map(move |column| [row, column]));
    let shifted = places.filter(|[row, column]| {
        let [top, left] = [row * height, column * width];
        let here = [top + MAX_SHIFT, left + MAX_SHIFT];
        let shown = block(now, here);
        let shifts = (0..=2 * MAX_SHIFT).flat_map(|y| (0..=2 * MAX_SHIFT).map(move |x| [y, x]));
        let likenesses = shifts.map(|[y, x]| likeness(&shown, &block(usual, [top + y, left + x])));
        let best = likenesses.fold(-1.0, f32::max);
        best > MIN_SHIFTED && best - likeness(&shown, &block(usual, here)) > MIN_SHIFT_GAIN
    });
    shifted.count() >= MIN_SHIFTED_BLOCKS
}

/// The rows of a grid without those of the camera's text, which stays when it is covered; `None`
/// for an empty grid.
fn without_text(grid: &[f32]) -> Option<&[f32]> {
    grid.get(TEXT_ROWS * GRID_SIZE..GRID_SIZE * (GRID_SIZE - TEXT_ROWS))
}

/// The mean luma of each cell beyond that of its neighbours, in units of the spread in the picture.
/// So exposure and contrast cancel out.
fn pattern(means: &[f32]) -> Option<Vec<f32>> {
    let inner = without_text(means)?;
    let cells: Vec<f32> = (0..inner.len())
        .map(|index| {
            let (row, column) = (TEXT_ROWS + index / GRID_SIZE, index % GRID_SIZE);
            inner[index] - surroundings(means, row, column)
        })
        .collect();
    let (mean, spread) = mean_and_spread(&cells);
    let scaled = cells.iter().map(|cell| (cell - mean) / (spread + 1.0));
    Some(scaled.collect())
}

/// The mean of the cells around one.
fn surroundings(means: &[f32], row: usize, column: usize) -> f32 {
    let range =
        |at: usize| at.saturating_sub(SURROUNDINGS)..=(at + SURROUNDINGS).min(GRID_SIZE - 1);
    let (mut sum, mut count) = (0.0, 0.0);
    for row in range(row) {
        for column in range(column) {
            sum += means.get(row * GRID_SIZE + column).copied().unwrap_or(0.0);
            count += 1.0;
        }
    }
    sum / count
}

fn mean_and_spread(values: &[f32]) -> (f32, f32) {
    let count = values.len().max(1) as f32;
    let mean = values.iter().sum::<f32>() / count;
    let squares: f32 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / count).sqrt())
}

/// Correlation of two patterns, −1 to 1; 0 if one of them has none.
fn likeness(a: &[f32], b: &[f32]) -> f32 {
    let ((mean_a, spread_a), (mean_b, spread_b)) = (mean_and_spread(a), mean_and_spread(b));
    let products = a.iter().zip(b).map(|(a, b)| (a - mean_a) * (b - mean_b));
    let scale = a.len() as f32 * spread_a * spread_b;
    if scale > 0.0 {
        products.sum::<f32>() / scale
    } else {
        0.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use image::{GrayImage, Luma, imageops};
    use watchkeeper_vision::cells::cell_means;

    use super::*;

    const SIZE: [u32; 2] = [320, 240];

    /// A street of 150 seeded rectangles.
    fn street() -> GrayImage {
        let mut random = fastrand::Rng::with_seed(5);
        let mut street = GrayImage::from_pixel(SIZE[0], SIZE[1], Luma([110]));
        for _ in 0..150 {
            let (x, y) = (random.u32(0..SIZE[0]), random.u32(0..SIZE[1]));
            let (width, height) = (random.u32(4..50), random.u32(4..50));
            let level = random.u8(30..220);
            for (x, y) in (x..x + width).flat_map(|x| (y..y + height).map(move |y| (x, y))) {
                if let Some(pixel) = street.get_pixel_mut_checked(x, y) {
                    *pixel = Luma([level]);
                }
            }
        }
        street
    }

    /// Four views of a picture with noise.
    fn views(picture: &GrayImage) -> Vec<View> {
        let mut random = fastrand::Rng::with_seed(1);
        let noisy = (0..4).map(|_| {
            let mut noisy = picture.clone();
            for pixel in noisy.pixels_mut() {
                pixel.0[0] = pixel.0[0].saturating_add(random.u8(0..5));
            }
            let picture = Picture::from(image::DynamicImage::from(noisy).to_rgb8());
            View::of(&picture, &cell_means(&picture)).unwrap()
        });
        noisy.collect()
    }

    /// Verdicts while `usual` and then `later` are shown for a minute each.
    fn watch(usual: &GrayImage, later: &GrayImage) -> Vec<Option<Blindness>> {
        let (usual, later) = (views(usual), views(later));
        let shown = usual.iter().cycle().take(120);
        let shown = shown.chain(later.iter().cycle().take(120));
        let mut watch = ViewWatch::default();
        let mut found: Vec<_> = shown.map(|view| watch.judge(view)).collect();
        found.dedup();
        found
    }

    fn each_pixel(picture: &GrayImage, change: impl Fn(u32, f32) -> f32) -> GrayImage {
        GrayImage::from_fn(SIZE[0], SIZE[1], |x, y| {
            Luma([change(x, f32::from(picture[(x, y)].0[0])) as u8])
        })
    }

    #[test]
    fn same_view_in_another_light_is_usual() {
        let street = street();
        for light in [
            each_pixel(&street, |_, level| level * 0.4),
            each_pixel(&street, |_, level| level * 0.7 + 70.0),
            each_pixel(&street, |_, level| (level / 255.0).powf(0.6) * 255.0),
            each_pixel(&street, |_, level| (level / 255.0).powf(1.7) * 255.0),
        ] {
            assert_eq!(watch(&street, &light), [None]);
        }
    }

    #[test]
    fn moved_camera_is_noticed() {
        let street = street();
        let aside = GrayImage::from_fn(SIZE[0], SIZE[1], |x, y| street[((x + 40) % SIZE[0], y)]);
        let near = imageops::crop_imm(&street, 40, 30, 240, 180).to_image();
        let near = imageops::resize(&near, SIZE[0], SIZE[1], imageops::FilterType::Triangle);
        let nudged = GrayImage::from_fn(SIZE[0], SIZE[1], |x, y| street[((x + 9) % SIZE[0], y)]);
        let zoomed = imageops::crop_imm(&street, 17, 13, 286, 214).to_image();
        let zoomed = imageops::resize(&zoomed, SIZE[0], SIZE[1], imageops::FilterType::Triangle);
        for moved in [aside, near, nudged, zoomed, imageops::rotate180(&street)] {
            assert_eq!(watch(&street, &moved), [None, Some(Blindness::Moved)]);
        }
    }

    #[test]
    fn camera_that_shakes_has_its_usual_view() {
        let street = street();
        let mut random = fastrand::Rng::with_seed(3);
        let shaken = (0..40).flat_map(|_| {
            let [dx, dy] = [random.u32(0..9), random.u32(0..7)];
            let shaken = GrayImage::from_fn(SIZE[0], SIZE[1], |x, y| {
                street[(
                    (x + SIZE[0] + dx - 4) % SIZE[0],
                    (y + SIZE[1] + dy - 3) % SIZE[1],
                )]
            });
            views(&shaken).into_iter().take(1)
        });
        let shaken: Vec<View> = shaken.collect();
        let usual = views(&street);
        let shown = usual.iter().cycle().take(120);
        let mut watch = ViewWatch::default();
        let mut found = shown
            .chain(shaken.iter().cycle().take(240))
            .map(|view| watch.judge(view));
        assert!(found.all(|unusual| unusual.is_none()));
    }

    #[test]
    fn view_without_light_is_black_within_three_seconds() {
        let street = street();
        let dark = each_pixel(&street, |_, level| level / 40.0);
        let (usual, dark) = (views(&street), views(&dark));
        let mut watch = ViewWatch::default();
        let usual: Vec<_> = usual
            .iter()
            .cycle()
            .take(120)
            .map(|v| watch.judge(v))
            .collect();
        assert!(usual.iter().all(Option::is_none));
        let mut checks = dark.iter().cycle().map(|view| watch.judge(view));
        assert_eq!(
            checks.position(|unusual| unusual == Some(Blindness::Black)),
            Some(5)
        );
        // A lamp shows a part of another pattern: not the usual view, but not black.
        let lit = views(&each_pixel(&imageops::rotate180(&street), |_, level| {
            level * 0.4
        }));
        let mut checks = lit.iter().cycle().take(10).map(|view| watch.judge(view));
        assert!(checks.any(|unusual| unusual != Some(Blindness::Black)));
    }

    #[test]
    fn covered_lens_and_lost_focus_are_noticed() {
        let street = street();
        let bag = each_pixel(&street, |x, _| 80.0 + x as f32 / 8.0);
        let part = each_pixel(&street, |x, level| if x < 220 { 90.0 } else { level });
        for covered in [bag, part] {
            assert_eq!(watch(&street, &covered), [None, Some(Blindness::Covered)]);
        }
        let blurred = imageops::blur(&street, 6.0);
        assert_eq!(watch(&street, &blurred), [None, Some(Blindness::Blurred)]);
    }

    #[test]
    fn next_process_knows_the_usual_view_of_a_covered_camera() {
        let street = street();
        let bag = views(&each_pixel(&street, |x, _| 80.0 + x as f32 / 8.0));
        let street = views(&street);
        let show = |watch: &mut ViewWatch, views: &[View], checks: usize| {
            let shown = views.iter().cycle().take(checks);
            let mut found: Vec<_> = shown.map(|view| watch.judge(view)).collect();
            found.dedup();
            found
        };
        let mut first = ViewWatch::default();
        assert_eq!(first.known(), None);
        show(&mut first, &street, 120);
        // Covered while no process watched.
        let mut second = ViewWatch::resume(first.known().unwrap());
        let covered = Some(Blindness::Covered);
        assert_eq!(show(&mut second, &bag, 60), [None, covered]);
        // Covered still, and uncovered later.
        let mut third = ViewWatch::resume(second.known().unwrap());
        assert_eq!(show(&mut third, &bag, 600), [None, covered]);
        assert_eq!(show(&mut third, &street, 120), [covered, None]);
        // Uncovered while the camera was away.
        show(&mut third, &bag, 600);
        third.restart();
        assert_eq!(show(&mut third, &street, 120), [None]);
        show(&mut third, &bag, 600);
        third.restart();
        assert_eq!(show(&mut third, &bag, 1), [covered]);
        let other_grid = UsualView {
            usual: View::default(),
        };
        assert_eq!(ViewWatch::resume(other_grid).known(), None);
    }

    #[test]
    fn view_without_detail_is_never_judged() {
        let asphalt = GrayImage::from_pixel(SIZE[0], SIZE[1], Luma([90]));
        assert_eq!(watch(&asphalt, &street()), [None]);
    }

    #[test]
    fn returned_view_is_usual_and_lasting_one_is_accepted() {
        let street = street();
        let aside = views(&imageops::rotate180(&street));
        let street = views(&street);
        let mut watch = ViewWatch::default();
        let mut show = |views: &[View], checks: usize| {
            let shown = views.iter().cycle().take(checks);
            shown.map(|view| watch.judge(view)).last().flatten()
        };
        assert_eq!(show(&street, 120), None);
        assert_eq!(show(&aside, 60), Some(Blindness::Moved));
        assert_eq!(show(&street, 60), None);
        assert_eq!(show(&aside, 60), Some(Blindness::Moved));
        assert_eq!(show(&aside, ACCEPTED_AFTER as usize), None);
    }
}
