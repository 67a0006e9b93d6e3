//! The reduced picture: area averages of the planes, some 360 cells on the longer side.
//!
//! - I420, NV12 and RGB with padded rows become three `f32` planes: luma above black, and two
//!   chroma planes around zero.
//! - Averaging removes most sensor and coding noise before any decision.
//! - A cell averages only samples inside the picture, so the last row or column may stand for fewer
//!   pixels.

use watchkeeper_vision::frame::{ColorMatrix, Picture, PixelFormat};

/// Approximate cells of the longer side: a person 30 pixels high in 1080p keeps some 10 cells, and
/// a slow core keeps up.
const LONG_SIDE: u32 = 360;

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

/// A plane is shorter than the picture's size says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("plane {plane} has {have} bytes, its size and stride need {need}")]
pub(super) struct ShortPlane {
    plane: usize,
    have: usize,
    need: usize,
}

/// Samples of one channel in a plane: the first at `offset`, then every `step` bytes.
struct Channel<'a> {
    data: &'a [u8],
    stride: usize,
    width: usize,
    height: usize,
    step: usize,
    offset: usize,
}

impl Small {
    /// Pixels per cell for a picture of this size.
    fn factor_for(width: u32, height: u32) -> usize {
        let long = width.max(height);
        ((long + LONG_SIDE / 2) / LONG_SIDE).max(1) as usize
    }

    /// Averages `picture` into the cells; allocates only when the size changes.
    pub(super) fn fill(&mut self, picture: &Picture) -> Result<(), ShortPlane> {
        let (pw, ph) = (picture.width as usize, picture.height as usize);
        self.factor = Self::factor_for(picture.width, picture.height);
        self.width = pw.div_ceil(self.factor);
        self.height = ph.div_ceil(self.factor);
        let cells = self.width * self.height;
        for plane in [&mut self.y, &mut self.u, &mut self.v] {
            plane.resize(cells, 0.0);
        }
        self.sums.resize(pw, 0);
        let (half_w, half_h) = (pw.div_ceil(2), ph.div_ceil(2));
        let black = if picture.color.full_range { 0.0 } else { 16.0 };
        match picture.format {
            PixelFormat::I420 | PixelFormat::Nv12 => {
                let nv12 = picture.format == PixelFormat::Nv12;
                let luma = channel(picture, 0, pw, ph, 1, 0)?;
                let (u, v) = if nv12 {
                    (
                        channel(picture, 1, half_w, half_h, 2, 0)?,
                        channel(picture, 1, half_w, half_h, 2, 1)?,
                    )
                } else {
                    (
                        channel(picture, 1, half_w, half_h, 1, 0)?,
                        channel(picture, 2, half_w, half_h, 1, 0)?,
                    )
                };
                let (w, k) = (self.width, self.factor);
                average(&luma, &mut self.y, w, k, 1, black, &mut self.sums);
                average(&u, &mut self.u, w, k, 2, 128.0, &mut self.sums);
                average(&v, &mut self.v, w, k, 2, 128.0, &mut self.sums);
            }
            PixelFormat::Rgb => {
                let (w, k) = (self.width, self.factor);
                for (offset, plane) in [(0, &mut self.y), (1, &mut self.u), (2, &mut self.v)] {
                    let c = channel(picture, 0, pw, ph, 3, offset)?;
                    average(&c, plane, w, k, 1, 0.0, &mut self.sums);
                }
                self.rgb_to_yuv(picture.color.matrix);
            }
        }
        Ok(())
    }

    /// Averages commute with the matrix, so only cells are converted.
    fn rgb_to_yuv(&mut self, matrix: ColorMatrix) {
        // Luma weights and the chroma scales that follow from them: ITU-R BT.601 and BT.709,
        // section on signal form.
        let (kr, kb) = match matrix {
            ColorMatrix::Bt601 => (0.299, 0.114),
            ColorMatrix::Bt709 => (0.2126, 0.0722),
        };
        for ((y, u), v) in self.y.iter_mut().zip(&mut self.u).zip(&mut self.v) {
            let (r, g, b) = (*y, *u, *v);
            let luma = kr * r + (1.0 - kr - kb) * g + kb * b;
            *y = luma;
            *u = (b - luma) / (2.0 * (1.0 - kb));
            *v = (r - luma) / (2.0 * (1.0 - kr));
        }
    }
}

fn channel(
    picture: &Picture,
    plane: usize,
    width: usize,
    height: usize,
    step: usize,
    offset: usize,
) -> Result<Channel<'_>, ShortPlane> {
    let p = picture.planes.plane(plane);
    let row = width * step;
    let need = p.stride.max(row) * height.saturating_sub(1) + row;
    if p.data.len() < need || (p.stride < row && height > 1) {
        return Err(ShortPlane {
            plane,
            have: p.data.len(),
            need,
        });
    }
    Ok(Channel {
        data: p.data,
        stride: p.stride,
        width,
        height,
        step,
        offset,
    })
}

/// Averages `c` into cells of `factor / sub` samples on both axes, minus `zero`. A half-size
/// channel under cells of one pixel is repeated.
fn average(
    c: &Channel<'_>,
    out: &mut [f32],
    cells: usize,
    factor: usize,
    sub: usize,
    zero: f32,
    sums: &mut [u32],
) {
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
            let line = &c.data[start..start + c.width * c.step];
            if c.step == 1 {
                for (sum, &sample) in sums.iter_mut().zip(line) {
                    *sum += u32::from(sample);
                }
            } else {
                for (sum, group) in sums.iter_mut().zip(line.chunks_exact(c.step)) {
                    *sum += u32::from(group[c.offset]);
                }
            }
        }
        let rows = (bottom - top) as f32;
        if sub == 1 || factor.is_multiple_of(sub) {
            let n = factor / sub;
            let whole = c.width / n;
            let scale = 1.0 / (rows * n as f32);
            for (cell, group) in out.iter_mut().zip(sums.chunks_exact(n)) {
                *cell = group.iter().sum::<u32>() as f32 * scale - zero;
            }
            for (cell, out) in out.iter_mut().enumerate().skip(whole) {
                let (from, to) = range(cell, c.width);
                let sum: u32 = sums[from..to].iter().sum();
                *out = sum as f32 / (rows * (to - from) as f32) - zero;
            }
        } else {
            for (cell, out) in out.iter_mut().enumerate() {
                let (from, to) = range(cell, c.width);
                let sum: u32 = sums[from..to].iter().sum();
                *out = sum as f32 / (rows * (to - from) as f32) - zero;
            }
        }
    }
}
