//! Compares with fast_image_resize, which computes the same sums in another way.
#![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]

use fast_image_resize::images::{TypedCroppedImage, TypedImage, TypedImageRef};
use fast_image_resize::pixels::{U8, U8x2, U8x3};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};
use proptest::prelude::*;
use rten_simd::isa::GenericIsa;
#[cfg(target_arch = "x86_64")]
use rten_simd::isa::{Avx2Isa, Avx512Isa};

use super::*;

/// How a pass is computed. That of the processor is the one that is used.
#[derive(Debug, Clone, Copy)]
enum Instructions {
    Processor,
    Generic,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    const ALL: &[Self] = &[
        Self::Processor,
        Self::Generic,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
    ];

    /// Computes a pass; returns whether the processor has these instructions.
    fn run<const N: usize>(self, pass: Pass<'_, N>) -> bool {
        match self {
            Self::Processor => pass.dispatch(),
            Self::Generic => pass.eval(GenericIsa::new()),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => return Avx2Isa::new().map(|isa| pass.eval(isa)).is_some(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => return Avx512Isa::new().map(|isa| pass.eval(isa)).is_some(),
        }
        true
    }
}

/// A part of a plane of random bytes, many of them white, with padded rows.
#[derive(Debug, Clone)]
struct Case {
    part: [u32; 2],
    corner: [u32; 2],
    pad: u32,
    target: [u32; 2],
    seed: u64,
}

fn cases(side: u32) -> impl Strategy<Value = Case> {
    let sides = || [1..side, 1..side];
    let places = (sides(), [0..9_u32, 0..9_u32], 0..9_u32);
    (places, sides(), any::<u64>()).prop_map(|((part, corner, pad), target, seed)| Case {
        part,
        corner,
        pad,
        target,
        seed,
    })
}

impl Case {
    /// The plane's bytes, and its size in pixels of `N` bytes.
    fn plane<const N: usize>(&self) -> (Vec<u8>, [u32; 2]) {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let [width, height] = [0, 1].map(|i| self.part[i] + self.corner[i] + self.pad);
        let bytes = width as usize * height as usize * N;
        let byte = |_| if random.bool() { random.u8(..) } else { 255 };
        ((0..bytes).map(byte).collect(), [width, height])
    }

    /// Scales with each set of instructions that the processor has.
    fn ours<const N: usize>(&self, scaler: &mut Scaler) -> Vec<(Instructions, Vec<u8>)> {
        let (data, [width, _]) = self.plane::<N>();
        let stride = width as usize * N;
        let from = self.corner[1] as usize * stride + self.corner[0] as usize * N;
        let source = Source::<N> {
            data: &data[from..],
            stride,
            width: self.part[0],
            height: self.part[1],
        };
        let scaled = |instructions: &Instructions| {
            let mut target = Vec::new();
            let pass = scaler.pass(source, self.target, &mut target).unwrap();
            let has_run = instructions.run(pass);
            has_run.then_some((*instructions, target))
        };
        Instructions::ALL.iter().filter_map(scaled).collect()
    }

    fn theirs<P: PixelTrait, const N: usize>(&self) -> Vec<u8> {
        let (data, [width, height]) = self.plane::<N>();
        let whole = TypedImageRef::<P>::from_buffer(width, height, &data).unwrap();
        let ([left, top], [part_width, part_height]) = (self.corner, self.part);
        let part = TypedCroppedImage::from_ref(&whole, left, top, part_width, part_height).unwrap();
        let mut target = vec![0; self.target[0] as usize * self.target[1] as usize * N];
        let [width, height] = self.target;
        let mut image = TypedImage::<P>::from_buffer(width, height, &mut target).unwrap();
        let options = ResizeOptions::new()
            .resize_alg(ResizeAlg::Convolution(FilterType::Bilinear))
            .use_alpha(false);
        Resizer::new()
            .resize_typed(&part, &mut image, &options)
            .unwrap();
        target
    }

    fn check(&self, scaler: &mut Scaler) {
        for (ours, theirs) in [
            (self.ours::<1>(scaler), self.theirs::<U8, 1>()),
            (self.ours::<2>(scaler), self.theirs::<U8x2, 2>()),
            (self.ours::<3>(scaler), self.theirs::<U8x3, 3>()),
        ] {
            for (instructions, bytes) in ours {
                assert!(bytes == theirs, "{instructions:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn bytes_equal_those_of_another_implementation(case in cases(150)) {
        case.check(&mut Scaler::default());
    }

    #[test]
    fn scaler_gives_the_same_whatever_it_scaled_before(
        cases in prop::collection::vec(cases(40), 2..2 * MAX_AXES),
    ) {
        let mut scaler = Scaler::default();
        for case in cases {
            case.check(&mut scaler);
            prop_assert!(scaler.axes.len() <= MAX_AXES);
        }
    }
}

#[test]
fn sizes_of_cameras_equal_those_of_another_implementation() {
    for part in [[1920, 1080], [640, 360], [320, 180]] {
        let case = Case {
            part,
            corner: [0, 0],
            pad: 0,
            target: [416, 234],
            seed: 7,
        };
        case.check(&mut Scaler::default());
    }
}

#[test]
fn weights_in_use_stay_while_others_come_and_go() {
    let mut scaler = Scaler::default();
    let hot = scaler.axis(1920, 416).unwrap();
    for other in 1..=10 {
        scaler.axis(other, 7).unwrap();
        assert!(Arc::ptr_eq(&hot, &scaler.axis(1920, 416).unwrap()));
    }
    assert_eq!(scaler.axes.len(), MAX_AXES);
}

#[test]
fn source_smaller_than_its_size_is_refused() {
    let data = [0; 23];
    for (stride, width, height, target) in [
        (8, 8, 3, [4, 4]),
        (7, 8, 2, [4, 4]),
        (8, 0, 2, [4, 4]),
        (8, 8, 0, [4, 4]),
        (8, 8, 2, [0, 4]),
        (usize::MAX, 8, 3, [4, 4]),
    ] {
        let source = Source::<1> {
            data: &data,
            stride,
            width,
            height,
        };
        let refused = Scaler::default().scale(source, target, &mut Vec::new());
        assert!(refused.is_none(), "{stride} {width} {height} {target:?}");
    }
}
