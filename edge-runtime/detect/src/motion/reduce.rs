//! The reduced picture: area averages of the planes, 200 to 400 cells on the longer side.
//!
//! - I420, NV12 and RGB with padded rows become three `f32` planes: luma above black, and two
//!   chroma planes around zero.
//! - Averaging removes most sensor and coding noise before any decision.
//! - A cell averages only samples inside the picture, so the last row or column may stand for fewer
//!   pixels.

use watchkeeper_vision::frame::{ColorMatrix, Picture, PixelFormat};

/// Most cells of the longer side: a person 30 pixels high in 1080p keeps 6, and a slow core keeps
/// up.
const MAX_LONG_SIDE: u32 = 400;

/// The reduced picture.
#[derive(Debug, Default)]
pub(super) struct Small {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Pixels per cell, on both axes.
    pub(super) factor: usize,
    /// Luma above black, `0.0..=255.0`.
    pub(super) y: Vec<f32>,
    /// Blue difference around zero.
    pub(super) u: Vec<f32>,
    /// Red difference around zero.
    pub(super) v: Vec<f32>,
    /// Sums of one row of cells, as wide as the picture.
    sums: Vec<u32>,
}

/// Where a channel lies: in a plane, the first sample at `offset`, then one every `step` bytes.
#[derive(Clone, Copy)]
struct Samples {
    plane: usize,
    step: usize,
    offset: usize,
    /// Pixels of the picture on each side of a sample.
    sub: usize,
    /// Value that stands for zero.
    zero: f32,
}

/// The samples of one channel of a picture.
struct Channel<'a> {
    data: &'a [u8],
    stride: usize,
    width: usize,
    height: usize,
    samples: Samples,
}

/// The three channels of a picture, in the order of [`Small`].
fn channels(picture: &Picture) -> [Samples; 3] {
    let black = if picture.color.full_range { 0.0 } else { 16.0 };
    let luma = Samples {
        plane: 0,
        step: 1,
        offset: 0,
        sub: 1,
        zero: black,
    };
    let chroma = |plane, step, offset| Samples {
        plane,
        step,
        offset,
        sub: 2,
        zero: 128.0,
    };
    let colour = |offset| Samples {
        step: 3,
        offset,
        zero: 0.0,
        ..luma
    };
    match picture.format {
        PixelFormat::I420 => [luma, chroma(1, 1, 0), chroma(2, 1, 0)],
        PixelFormat::Nv12 => [luma, chroma(1, 2, 0), chroma(1, 2, 1)],
        PixelFormat::Rgb => [0, 1, 2].map(colour),
    }
}

impl Small {
    /// Averages `picture` into the cells; allocates only when the size changes. `None` where a
    /// plane is shorter than the size says.
    pub(super) fn fill(&mut self, picture: &Picture) -> Option<()> {
        let (pw, ph) = (picture.width as usize, picture.height as usize);
        let long_side = picture.width.max(picture.height);
        self.factor = long_side.div_ceil(MAX_LONG_SIDE).max(1) as usize;
        self.width = pw.div_ceil(self.factor);
        self.height = ph.div_ceil(self.factor);
        let cells = self.width * self.height;
        for plane in [&mut self.y, &mut self.u, &mut self.v] {
            plane.resize(cells, 0.0);
        }
        self.sums.resize(pw, 0);
        let planes = [&mut self.y, &mut self.u, &mut self.v];
        for (samples, plane) in channels(picture).into_iter().zip(planes) {
            let channel = channel(picture, samples)?;
            average(&channel, plane, self.width, self.factor, &mut self.sums);
        }
        if picture.format == PixelFormat::Rgb {
            self.rgb_to_yuv(picture.color.matrix);
        }
        Some(())
    }

    /// Averages commute with the matrix, so only cells are converted.
    fn rgb_to_yuv(&mut self, matrix: ColorMatrix) {
        let [kr, kb] = matrix.red_and_blue().map(|weight| weight as f32);
        for ((y, u), v) in self.y.iter_mut().zip(&mut self.u).zip(&mut self.v) {
            let (r, g, b) = (*y, *u, *v);
            let luma = kr * r + (1.0 - kr - kb) * g + kb * b;
            *y = luma;
            *u = (b - luma) / (2.0 * (1.0 - kb));
            *v = (r - luma) / (2.0 * (1.0 - kr));
        }
    }
}

fn channel(picture: &Picture, samples: Samples) -> Option<Channel<'_>> {
    let [width, height] =
        [picture.width, picture.height].map(|n| (n as usize).div_ceil(samples.sub));
    let plane = picture.plane(samples.plane, width * samples.step, height)?;
    Some(Channel {
        data: plane.data,
        stride: plane.stride,
        width,
        height,
        samples,
    })
}

/// Averages `c` into cells of `factor / sub` samples on both axes, minus `zero`. A half-size
/// channel under cells of one pixel is repeated.
fn average(c: &Channel<'_>, out: &mut [f32], cells: usize, factor: usize, sums: &mut [u32]) {
    let Samples {
        step,
        offset,
        sub,
        zero,
        ..
    } = c.samples;
    let range = |cell: usize, limit: usize| {
        let from = (cell * factor / sub).min(limit - 1);
        let to = ((cell + 1) * factor / sub).clamp(from + 1, limit.max(from + 1));
        (from, to.min(limit))
    };
    for (row, out) in out.chunks_exact_mut(cells).enumerate() {
        let (top, bottom) = range(row, c.height);
        let sums = &mut sums[..c.width];
        sums.fill(0);
        for line in top..bottom {
            let start = line * c.stride;
            let line = &c.data[start..start + c.width * step];
            if step == 1 {
                for (sum, &sample) in sums.iter_mut().zip(line) {
                    *sum += u32::from(sample);
                }
            } else {
                for (sum, group) in sums.iter_mut().zip(line.chunks_exact(step)) {
                    *sum += u32::from(group[offset]);
                }
            }
        }
        let rows = (bottom - top) as f32;
        let mut whole = 0;
        if factor.is_multiple_of(sub) {
            let n = factor / sub;
            whole = c.width / n;
            let scale = 1.0 / (rows * n as f32);
            for (cell, group) in out.iter_mut().zip(sums.chunks_exact(n)) {
                *cell = group.iter().sum::<u32>() as f32 * scale - zero;
            }
        }
        for (cell, out) in out.iter_mut().enumerate().skip(whole) {
            let (from, to) = range(cell, c.width);
            let sum: u32 = sums[from..to].iter().sum();
            *out = sum as f32 / (rows * (to - from) as f32) - zero;
        }
    }
}
