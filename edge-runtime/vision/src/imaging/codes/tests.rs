use image::{GrayImage, Luma};
use proptest::prelude::*;
use rxing::{BarcodeFormat, MultiFormatWriter, Writer};

use super::{Spare, codes, qr_code, qr_codes};

/// Draws a code with `[across, down]` pixels per module and a light border.
fn picture(rows: &[Vec<bool>], [across, down]: [u32; 2], border: u32) -> GrayImage {
    let count = |n: usize| u32::try_from(n).unwrap_or(0);
    let width = count(rows.first().map_or(0, Vec::len)) * across + 2 * border;
    let height = count(rows.len()) * down + 2 * border;
    GrayImage::from_fn(width, height, |x, y| {
        let place = |n: u32, size: u32| n.checked_sub(border).map(|n| (n / size) as usize);
        let cell = place(y, down).and_then(|y| rows.get(y));
        let is_dark = cell.zip(place(x, across)).and_then(|(row, x)| row.get(x));
        Luma([if is_dark.is_some_and(|d| *d) { 10 } else { 240 }])
    })
}

#[test]
fn a_qr_code_that_was_made_is_read_where_it_stands() {
    let text = "Tür 7, Halle 2 – offen";
    let rows = qr_code(text, Spare::High).unwrap_or_default();
    let found = qr_codes(&picture(&rows, [5, 5], 40));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].text, text);
    let side = 5.0 * f64::from(u32::try_from(rows.len()).unwrap_or(0));
    let bbox = found[0].bbox;
    for (is, wanted) in [
        (bbox.x1, 40.0),
        (bbox.y1, 40.0),
        (bbox.x2, 40.0 + side),
        (bbox.y2, 40.0 + side),
    ] {
        assert!((is - wanted).abs() <= 3.0, "{bbox:?}");
    }
}

#[test]
fn a_bar_code_is_read_and_is_as_high_as_its_bars() {
    let made = MultiFormatWriter.encode("4006381333931", &BarcodeFormat::EAN_13, 0, 1);
    let Ok(matrix) = made else {
        panic!("no bar code")
    };
    let row: Vec<bool> = (0..matrix.getWidth()).map(|x| matrix.get(x, 0)).collect();
    let found = codes(&picture(&[row], [3, 80], 60));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].text, "4006381333931");
    assert!((found[0].bbox.y1 - 60.0).abs() <= 1.0, "{found:?}");
    assert!((found[0].bbox.y2 - 139.0).abs() <= 1.0, "{found:?}");
}

#[test]
fn aztec_code_is_read_where_it_stands() {
    let made = MultiFormatWriter.encode("Halle 2", &BarcodeFormat::AZTEC, 0, 0);
    let Ok(matrix) = made else {
        panic!("no Aztec code")
    };
    let row = |y| (0..matrix.getWidth()).map(|x| matrix.get(x, y)).collect();
    let rows: Vec<Vec<bool>> = (0..matrix.getHeight()).map(row).collect();
    let code = picture(&rows, [4, 4], 12);
    for (x, y) in [(140_u32, 100_u32), (5, 8), (230, 160)] {
        let mut scene = GrayImage::from_pixel(360, 280, Luma([150]));
        image::imageops::replace(&mut scene, &code, x.into(), y.into());
        let found = codes(&scene);
        assert_eq!(found.len(), 1, "{x} {y}: {found:?}");
        assert_eq!(found[0].text, "Halle 2");
        let [left, top] = [x, y].map(|corner| f64::from(corner) + 12.0);
        let near = |is: f64, wanted: f64| (is - wanted).abs() <= 6.0;
        let bbox = found[0].bbox;
        assert!(near(bbox.x1, left) && near(bbox.y1, top), "{bbox:?}");
    }
}

#[test]
fn nothing_is_read_where_nothing_is() {
    assert!(codes(&GrayImage::new(64, 64)).is_empty());
    assert!(qr_codes(&GrayImage::new(0, 0)).is_empty());
    assert!(codes(&GrayImage::new(1, 1)).is_empty());
}

#[test]
fn a_text_that_no_code_holds_is_refused() {
    assert!(qr_code("", Spare::Low).is_err());
    assert!(qr_code(&"x".repeat(5000), Spare::Low).is_err());
}

/// The bars of a text, true for dark; none where the format can't hold it.
fn bars(format: BarcodeFormat, text: &str) -> Option<Vec<bool>> {
    let matrix = MultiFormatWriter.encode(text, &format, 0, 1).ok()?;
    let row = (0..matrix.getWidth()).map(|x| matrix.get(x, 0)).collect();
    Some(row)
}

/// A label with bars in a picture of one size: `module` pixels a module, `ratio` as high as long,
/// turned by `angle` degrees. It has `light` and `dark` grey, and `noise` grey levels at random.
#[derive(Debug, Clone)]
struct Label {
    module: f64,
    ratio: f64,
    angle: f64,
    blur: f64,
    noise: i32,
    levels: [u8; 2],
    seed: u64,
}

const SIDE: u32 = 240;

/// Draws a label on grey: four samples a pixel, and `blur` modules of light from the neighbours.
fn drawn(bars: &[bool], label: &Label) -> GrayImage {
    let mut random = fastrand::Rng::with_seed(label.seed);
    let modules = f64::from(u32::try_from(bars.len()).unwrap_or(0));
    let [length, height] = [modules * label.module, modules * label.module * label.ratio];
    let (sin, cos) = label.angle.to_radians().sin_cos();
    let [dark, light] = label.levels.map(f64::from);
    let middle = f64::from(SIDE) / 2.0;
    let grey_at = |x: f64, y: f64| {
        let (x, y) = (x - middle, y - middle);
        let (along, across) = (x * cos + y * sin, y * cos - x * sin);
        let quiet = 12.0 * label.module;
        if along.abs() > length / 2.0 + quiet || across.abs() > height / 2.0 + quiet {
            return dark.midpoint(light);
        }
        let place = (along + length / 2.0) / label.module;
        let is_dark = |place: f64| {
            let bar = (place >= 0.0).then_some(place as usize);
            across.abs() <= height / 2.0 && bar.and_then(|bar| bars.get(bar)) == Some(&true)
        };
        let shares = [-1.0, 0.0, 1.0].map(|step| is_dark(place + step * label.blur));
        let share = shares
            .into_iter()
            .map(|d| if d { 1.0 } else { 0.0 })
            .sum::<f64>()
            / 3.0;
        light + (dark - light) * share
    };
    GrayImage::from_fn(SIDE, SIDE, |x, y| {
        let [x, y] = [x, y].map(f64::from);
        let parts = [(0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75)];
        let mean = parts
            .map(|(dx, dy)| grey_at(x + dx, y + dy))
            .iter()
            .sum::<f64>()
            / 4.0;
        let noise = f64::from(random.i32(-label.noise..=label.noise));
        let level = (mean + noise).clamp(0.0, 255.0) as u8;
        Luma([level])
    })
}

const CLEAR: Label = Label {
    module: 1.7,
    ratio: 0.9,
    angle: 0.0,
    blur: 0.0,
    noise: 0,
    levels: [20, 230],
    seed: 0,
};

/// A text of each format that the writer has.
const TEXTS: [(BarcodeFormat, &str); 9] = [
    (BarcodeFormat::EAN_13, "4006381333931"),
    (BarcodeFormat::UPC_A, "890444000335"),
    (BarcodeFormat::EAN_8, "96385074"),
    (BarcodeFormat::UPC_E, "01234565"),
    (BarcodeFormat::CODE_39, "DOCK-7"),
    (BarcodeFormat::CODE_93, "DOCK7"),
    (BarcodeFormat::CODE_128, "Dock 7"),
    (BarcodeFormat::ITF, "30712345"),
    (BarcodeFormat::CODABAR, "A3071-25B"),
];

fn texts(picture: &GrayImage) -> Vec<String> {
    codes(picture).into_iter().map(|code| code.text).collect()
}

#[test]
fn each_bar_code_is_read_in_each_direction() {
    for (format, text) in TEXTS {
        let bars = bars(format, text).unwrap_or_default();
        for angle in [0.0, 12.0, 30.0, 45.0, 60.0, 90.0, 135.0, 180.0, 270.0] {
            let label = Label { angle, ..CLEAR };
            assert_eq!(texts(&drawn(&bars, &label)), [text], "{format:?} {angle}");
        }
    }
}

#[test]
fn low_label_is_read_at_any_angle() {
    let (format, text) = TEXTS[0];
    let bars = bars(format, text).unwrap_or_default();
    for angle in (0..180).step_by(10).map(f64::from) {
        let label = Label {
            ratio: 0.4,
            angle,
            ..CLEAR
        };
        assert_eq!(texts(&drawn(&bars, &label)), [text], "{angle}");
    }
}

#[test]
fn bar_code_on_grey_paper_is_read_on_a_white_table() {
    let (format, text) = TEXTS[0];
    let paper = Label {
        levels: [60, 110],
        ..CLEAR
    };
    let label = drawn(&bars(format, text).unwrap_or_default(), &paper);
    // The lines of the large picture lie 30 pixels apart.
    for side in [2 * SIDE, 5 * SIDE] {
        let table = GrayImage::from_fn(side, side, |x, y| {
            let on_label = |v: u32| v.checked_sub(SIDE / 2).filter(|v| *v < SIDE);
            match (on_label(x), on_label(y)) {
                (Some(x), Some(y)) => *label.get_pixel(x, y),
                _ => Luma([255]),
            }
        });
        assert_eq!(texts(&table), [text], "{side}");
    }
}

#[test]
fn two_bar_codes_in_one_picture_are_both_read() {
    let [above, below] = [TEXTS[0], TEXTS[6]].map(|(format, text)| {
        let bars = bars(format, text).unwrap_or_default();
        drawn(
            &bars,
            &Label {
                ratio: 0.3,
                ..CLEAR
            },
        )
    });
    let both = GrayImage::from_fn(SIDE, 2 * SIDE, |x, y| {
        *(if y < SIDE { &above } else { &below }).get_pixel(x, y % SIDE)
    });
    let mut found = texts(&both);
    found.sort_unstable();
    assert_eq!(found, [TEXTS[0].1, TEXTS[6].1]);
}

#[test]
fn short_code_with_bars_in_its_quiet_zone_is_not_read() {
    // Half an EAN-13 code looks like this: in ean13-4 of ZXing, 17804419 was read.
    for (format, text) in [TEXTS[2], TEXTS[3]] {
        let mut bars = bars(format, text).unwrap_or_default();
        while bars.pop_if(|is_dark| !*is_dark).is_some() {}
        assert_eq!(texts(&drawn(&bars, &CLEAR)), [text], "{format:?}");
        bars.extend([false, false, false, false, true, true, false, true]);
        assert_eq!(texts(&drawn(&bars, &CLEAR)), [""; 0], "{format:?}");
    }
}

fn any_text() -> impl Strategy<Value = (BarcodeFormat, String)> {
    let code = |format: BarcodeFormat, pattern: &str| {
        proptest::string::string_regex(pattern)
            .unwrap_or_else(|e| panic!("{e}"))
            .prop_map(move |text| (format, text))
    };
    prop_oneof![
        code(BarcodeFormat::EAN_13, "[1-9][0-9]{11}"),
        code(BarcodeFormat::UPC_A, "[0-9]{11}"),
        code(BarcodeFormat::EAN_8, "[0-9]{7}"),
        code(BarcodeFormat::UPC_E, "[01][0-9]{6}"),
        code(BarcodeFormat::CODE_39, "[0-9A-Z. -]{4,8}"),
        code(BarcodeFormat::CODE_93, "[0-9A-Z]{4,9}"),
        code(BarcodeFormat::CODE_128, "[0-9A-Za-z -]{2,9}"),
        code(BarcodeFormat::ITF, "([0-9]{2}){3,6}"),
    ]
}

fn any_label() -> impl Strategy<Value = Label> {
    let shape = (0.7..2.2, 0.15..0.8, 0.0..360.0, 0.0..0.9);
    (shape, 0..60, 0_u8..120, 130_u8..=255, any::<u64>()).prop_map(
        |((module, ratio, angle, blur), noise, dark, light, seed)| Label {
            module,
            ratio,
            angle,
            blur,
            noise,
            levels: [dark, light],
            seed,
        },
    )
}

proptest! {
    #[test]
    fn bar_code_is_read_rightly_or_not_at_all((format, text) in any_text(), label in any_label()) {
        let Some(bars) = bars(format, &text) else { return Ok(()) };
        for read in texts(&drawn(&bars, &label)) {
            // The writer adds check digits.
            prop_assert!(read.starts_with(&text), "{:?} read as {}", format, read);
        }
    }

    #[test]
    fn any_picture_is_read(width in 0_u32..90, height in 0_u32..90, seed in any::<u64>(), stripe in 1_u32..9) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut light = 0;
        let picture = GrayImage::from_fn(width, height, |x, _| {
            if x % stripe == 0 {
                light = random.u8(..);
            }
            Luma([light])
        });
        let _ = (codes(&picture), qr_codes(&picture));
    }
}
