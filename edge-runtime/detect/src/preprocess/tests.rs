//! Tensors of pictures whose pixels are known.
#![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]

use proptest::prelude::*;
use watchkeeper_models::manifest::Placement;

use super::*;
use crate::testing::{input, picture};

const BOXED: Fit = Fit::Letterbox {
    placement: Placement::Centre,
    pad: 114,
};

fn tensor(input: &Input, picture: &Picture) -> Vec<f32> {
    let mut preprocessor = Preprocessor::new(input.clone());
    preprocessor.run(picture).unwrap();
    preprocessor.tensor().to_vec()
}

/// A plane of smooth random content with padding of another value after each row.
fn plane(width: usize, height: usize, pad: usize, seed: u64) -> (Vec<u8>, usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (a, b) = (random.usize(1..5), random.usize(1..5));
    let stride = width + pad;
    let data = (0..height * stride)
        .map(|i| match (i % stride, i / stride) {
            (x, _) if x >= width => 255,
            (x, y) => u8::try_from((x * a + y * b) % 200).unwrap(),
        })
        .collect();
    (data, stride)
}

fn without_padding((data, stride): &(Vec<u8>, usize), width: usize) -> (Vec<u8>, usize) {
    let rows = data.chunks(*stride).flat_map(|row| &row[..width]);
    (rows.copied().collect(), width)
}

#[test]
fn padding_and_picture_are_normalised_in_channel_order() {
    // 8x4 red in an 8x8 input: two rows of padding above and below.
    let input = Input {
        colour: ColourOrder::Bgr,
        scale: 0.5,
        mean: [1.0, 2.0, 3.0],
        std: [2.0, 4.0, 8.0],
        ..input(8, 8, BOXED)
    };
    let red = picture(8, 4, PixelFormat::Rgb, vec![([200, 0, 0].repeat(32), 24)]);
    let tensor = tensor(&input, &red);
    let at = |channel: usize, y: usize| tensor[channel * 64 + y * 8 + 3];
    for y in [0, 1, 6, 7] {
        assert_eq!([at(0, y), at(1, y), at(2, y)], [28.0, 13.75, 6.75]);
    }
    for y in 2..6 {
        assert_eq!([at(0, y), at(1, y), at(2, y)], [-0.5, -0.5, 12.125]);
    }
}

#[test]
fn picture_of_another_size_leaves_nothing_of_the_one_before() {
    let input = input(16, 16, BOXED);
    let wide = picture(32, 8, PixelFormat::Rgb, vec![(vec![10; 32 * 8 * 3], 96)]);
    let tall = picture(8, 32, PixelFormat::Rgb, vec![(vec![20; 32 * 8 * 3], 24)]);
    let mut preprocessor = Preprocessor::new(input.clone());
    preprocessor.run(&wide).unwrap();
    preprocessor.run(&tall).unwrap();
    assert_eq!(preprocessor.tensor(), tensor(&input, &tall));
}

#[test]
fn planes_smaller_than_the_picture_are_refused() {
    let input = input(16, 16, BOXED);
    for (bytes, stride) in [(0, 0), (100, 24), (191, 24), (192, 23)] {
        let short = picture(8, 8, PixelFormat::Rgb, vec![(vec![0; bytes], stride)]);
        let refused = Preprocessor::new(input.clone()).run(&short);
        assert!(
            matches!(refused, Err(DetectError::Picture { .. })),
            "{bytes} {stride}"
        );
    }
    let no_chroma = picture(8, 8, PixelFormat::I420, vec![(vec![0; 64], 8)]);
    assert!(Preprocessor::new(input).run(&no_chroma).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However rows are padded, and whether or not the last row has its padding, the tensor is the
    /// same.
    #[test]
    fn row_padding_never_reaches_the_tensor(
        (w, h) in (1usize..60, 1usize..60),
        pad in 0usize..20,
        cut: bool,
        fit in prop_oneof![Just(BOXED), Just(Fit::Stretch)],
    ) {
        let input = input(24, 24, fit);
        for (format, sizes) in [
            (PixelFormat::Rgb, vec![(3 * w, h)]),
            (PixelFormat::I420, vec![(w, h), (w.div_ceil(2), h.div_ceil(2)), (w.div_ceil(2), h.div_ceil(2))]),
            (PixelFormat::Nv12, vec![(w, h), (2 * w.div_ceil(2), h.div_ceil(2))]),
        ] {
            let padded: Vec<_> = sizes
                .iter()
                .zip(1..)
                .map(|((columns, rows), seed)| {
                    let (mut data, stride) = plane(*columns, *rows, pad, seed);
                    if cut {
                        data.truncate(data.len() - pad);
                    }
                    (data, stride)
                })
                .collect();
            let packed = padded.iter().zip(&sizes).map(|(p, s)| without_padding(p, s.0)).collect();
            let (pw, ph) = (u32::try_from(w).unwrap(), u32::try_from(h).unwrap());
            prop_assert_eq!(
                tensor(&input, &picture(pw, ph, format, padded)),
                tensor(&input, &picture(pw, ph, format, packed))
            );
        }
    }

    /// The two layouts of chroma and the two layouts of the tensor hold the same numbers.
    #[test]
    fn layouts_agree((w, h) in (2usize..60, 2usize..60)) {
        let (cw, ch) = (w.div_ceil(2), h.div_ceil(2));
        let (y, u, v) = (plane(w, h, 0, 1), plane(cw, ch, 0, 2), plane(cw, ch, 0, 3));
        let uv = u.0.iter().zip(&v.0).flat_map(|(u, v)| [*u, *v]).collect();
        let (pw, ph) = (u32::try_from(w).unwrap(), u32::try_from(h).unwrap());
        let i420 = picture(pw, ph, PixelFormat::I420, vec![y.clone(), u, v]);
        let nv12 = picture(pw, ph, PixelFormat::Nv12, vec![y, (uv, 2 * cw)]);
        let planar = input(24, 24, BOXED);
        let tensors = [tensor(&planar, &i420), tensor(&planar, &nv12)];
        prop_assert_eq!(&tensors[0], &tensors[1]);
        let interleaved = tensor(&Input { layout: Layout::Nhwc, ..planar }, &i420);
        for (i, value) in interleaved.iter().enumerate() {
            prop_assert_eq!(*value, tensors[0][(i % 3) * 24 * 24 + i / 3]);
        }
    }
}
