//! Paints the empty street.

use watchkeeper_config::demo::DemoOptions;

use super::actor::{BENCH_X, ZEBRA_X};
use super::random::Random;
use super::raster::{Canvas, DESIGN_HEIGHT, DESIGN_WIDTH, Rgb, Shape};

/// Paints the street, alike for every seed so that users recognise it.
pub(super) fn paint(options: &DemoOptions) -> Canvas {
    let mut canvas = Canvas::new(options.width, options.height);
    let mut brush = Brush {
        canvas: &mut canvas,
        random: Random(0xbac_cd40),
    };
    brush.sky();
    brush.skyline();
    brush.houses();
    brush.far_pavement();
    brush.road();
    brush.near_pavement();
    brush.street_furniture();
    grain(&mut canvas);
    canvas
}

fn mix(a: Rgb, b: Rgb, part: f64) -> Rgb {
    let of = |i: usize| f64::from(a[i]) + (f64::from(b[i]) - f64::from(a[i])) * part;
    [of(0) as u8, of(1) as u8, of(2) as u8]
}

struct Brush<'a> {
    canvas: &'a mut Canvas,
    random: Random,
}

impl Brush<'_> {
    fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, color: Rgb) {
        self.canvas.fill(&Shape::rect(x, y, width, height, color));
    }

    fn veil(&mut self, x: f64, y: f64, width: f64, height: f64, color: Rgb, alpha: f64) {
        self.canvas
            .fill(&Shape::rect(x, y, width, height, color).faded(alpha));
    }

    fn gradient(&mut self, top: f64, bottom: f64, upper: Rgb, lower: Rgb) {
        let mut y = top;
        while y < bottom {
            let color = mix(upper, lower, (y - top) / (bottom - top));
            self.rect(0.0, y, DESIGN_WIDTH, 1.0, color);
            y += 1.0;
        }
    }

    fn sky(&mut self) {
        self.gradient(0.0, 150.0, [112, 164, 216], [222, 234, 242]);
        for (x, y, size) in [(90.0, 26.0, 1.0), (330.0, 16.0, 1.3), (545.0, 34.0, 0.9)] {
            for (dx, dy, rx, ry) in [
                (-30.0, 4.0, 26.0, 7.0),
                (0.0, 0.0, 34.0, 11.0),
                (32.0, 5.0, 28.0, 7.0),
                (8.0, -6.0, 18.0, 8.0),
            ] {
                let cloud = Shape::ellipse(
                    x + dx * size,
                    y + dy * size,
                    rx * size,
                    ry * size,
                    [255, 255, 255],
                );
                self.canvas.fill(&cloud.faded(0.42));
            }
        }
    }

    /// Pale towers behind the houses.
    fn skyline(&mut self) {
        let mut x = -10.0;
        while x < DESIGN_WIDTH {
            let width = self.random.range(24.0, 48.0);
            let top = self.random.range(38.0, 74.0);
            self.rect(x, top, width, 110.0, [176, 194, 212]);
            self.veil(
                x + width * 0.6,
                top,
                width * 0.4,
                110.0,
                [150, 170, 194],
                0.7,
            );
            x += width + self.random.range(2.0, 26.0);
        }
    }

    fn houses(&mut self) {
        const WALL: [Rgb; 7] = [
            [198, 122, 92],
            [226, 204, 166],
            [150, 168, 178],
            [214, 166, 110],
            [232, 224, 212],
            [172, 104, 88],
            [188, 190, 158],
        ];
        const AWNING: [Rgb; 4] = [[176, 52, 48], [44, 104, 88], [40, 78, 132], [206, 148, 44]];
        let widths = [96.0, 84.0, 112.0, 88.0, 104.0, 80.0, 100.0];
        let tops = [58.0, 74.0, 46.0, 66.0, 54.0, 78.0, 50.0];
        let mut x = -12.0;
        for (i, (width, top)) in widths.into_iter().zip(tops).enumerate() {
            let wall = WALL[i % WALL.len()];
            self.house(x, top, width, wall);
            self.shop(
                x,
                width,
                mix(wall, [40, 36, 34], 0.45),
                AWNING[i % AWNING.len()],
            );
            x += width;
        }
    }

    fn house(&mut self, x: f64, top: f64, width: f64, wall: Rgb) {
        let ground = 168.0;
        self.rect(x, top, width, ground - top, wall);
        // Light comes from the upper left.
        self.veil(x + width - 9.0, top, 9.0, ground - top, [30, 26, 36], 0.20);
        self.rect(
            x - 1.5,
            top - 4.0,
            width + 3.0,
            5.0,
            mix(wall, [250, 246, 238], 0.45),
        );
        self.veil(x, top + 1.0, width, 2.5, [20, 18, 26], 0.30);
        let columns = (width / 20.0).floor();
        let step = width / columns;
        let mut y = top + 9.0;
        while y + 17.0 < 128.0 {
            let mut column = 0.0;
            while column < columns {
                let left = x + step * column + step / 2.0 - 5.5;
                self.window(left, y, wall);
                column += 1.0;
            }
            y += 22.0;
        }
    }

    fn window(&mut self, x: f64, y: f64, wall: Rgb) {
        self.rect(
            x - 1.2,
            y - 1.2,
            13.4,
            16.4,
            mix(wall, [255, 255, 255], 0.55),
        );
        let lit = self.random.range(0.0, 1.0);
        let glass = mix([70, 92, 116], [128, 158, 186], lit);
        self.rect(x, y, 11.0, 14.0, glass);
        let glint = vec![(x, y), (x + 7.0, y), (x, y + 10.0)];
        self.canvas
            .fill(&Shape::polygon(glint, [206, 224, 238]).faded(0.35));
        self.rect(x + 5.0, y, 1.0, 14.0, [236, 236, 232]);
        self.rect(x, y + 6.0, 11.0, 0.9, [236, 236, 232]);
        self.rect(x - 2.0, y + 14.6, 15.0, 1.6, mix(wall, [60, 56, 54], 0.35));
        if lit > 0.72 {
            // Curtains.
            self.veil(x, y, 3.2, 14.0, [236, 214, 184], 0.8);
            self.veil(x + 7.8, y, 3.2, 14.0, [236, 214, 184], 0.8);
        }
    }

    fn shop(&mut self, x: f64, width: f64, frame: Rgb, awning: Rgb) {
        self.rect(x + 3.0, 132.0, width - 6.0, 36.0, frame);
        let door = x + width * 0.68;
        self.rect(x + 7.0, 137.0, width * 0.68 - 13.0, 26.0, [92, 116, 132]);
        let glint = vec![
            (x + 14.0, 163.0),
            (x + 30.0, 137.0),
            (x + 40.0, 137.0),
            (x + 24.0, 163.0),
        ];
        self.canvas
            .fill(&Shape::polygon(glint, [190, 210, 222]).faded(0.4));
        self.rect(door, 137.0, 15.0, 31.0, mix(frame, [20, 20, 20], 0.3));
        self.rect(door + 2.5, 140.0, 10.0, 16.0, [112, 138, 154]);
        self.rect(door + 12.0, 154.0, 1.2, 4.0, [226, 206, 140]);
        // Striped awning with a shadow under it.
        let stripes = ((width - 6.0) / 7.0).floor();
        let step = (width - 6.0) / stripes;
        let mut stripe = 0.0;
        while stripe < stripes {
            let left = x + 3.0 + stripe * step;
            let even = (stripe / 2.0).fract() < 0.25;
            let color = if even { awning } else { [240, 236, 226] };
            let points = vec![
                (left + 1.5, 126.0),
                (left + step + 1.5, 126.0),
                (left + step, 136.0),
                (left, 136.0),
            ];
            self.canvas.fill(&Shape::polygon(points, color));
            stripe += 1.0;
        }
        self.veil(x + 3.0, 136.0, width - 6.0, 4.0, [16, 16, 24], 0.35);
    }

    fn far_pavement(&mut self) {
        self.gradient(168.0, 187.0, [168, 166, 162], [188, 186, 180]);
        self.veil(0.0, 168.0, DESIGN_WIDTH, 2.0, [40, 38, 44], 0.35);
        let mut x = 0.0;
        while x < DESIGN_WIDTH {
            let lean = (x - DESIGN_WIDTH / 2.0) * 0.02;
            let joint = vec![
                (x, 170.0),
                (x + 0.8, 170.0),
                (x + 0.8 + lean, 187.0),
                (x + lean, 187.0),
            ];
            self.canvas
                .fill(&Shape::polygon(joint, [120, 118, 114]).faded(0.5));
            x += 16.0;
        }
        self.rect(0.0, 187.0, DESIGN_WIDTH, 2.0, [212, 210, 204]);
        self.rect(0.0, 189.0, DESIGN_WIDTH, 2.0, [112, 110, 108]);
    }

    fn road(&mut self) {
        self.gradient(191.0, 258.0, [84, 86, 91], [98, 100, 105]);
        self.veil(0.0, 191.0, DESIGN_WIDTH, 3.0, [20, 20, 26], 0.35);
        for track in [206.0, 216.0, 238.0, 249.0] {
            self.veil(0.0, track, DESIGN_WIDTH, 3.5, [60, 62, 66], 0.22);
        }
        let mut x = -20.0;
        while x < DESIGN_WIDTH {
            if (x + 18.0 - ZEBRA_X).abs() > 68.0 {
                self.rect(x, 222.0, 36.0, 2.2, [226, 226, 218]);
            }
            x += 62.0;
        }
        // Zebra: bars along the road, wider towards the front.
        let mut y = 193.5;
        let mut bar = 4.6;
        while y + bar < 257.0 {
            let wider = |y: f64| (y - 191.0) * 0.10;
            let points = vec![
                (ZEBRA_X - 40.0 - wider(y), y),
                (ZEBRA_X + 40.0 + wider(y), y),
                (ZEBRA_X + 40.0 + wider(y + bar), y + bar),
                (ZEBRA_X - 40.0 - wider(y + bar), y + bar),
            ];
            self.canvas
                .fill(&Shape::polygon(points, [232, 232, 226]).faded(0.93));
            y += bar * 1.9;
            bar *= 1.06;
        }
        for line in [ZEBRA_X - 62.0, ZEBRA_X + 60.0] {
            self.rect(line, 224.0, 3.0, 33.0, [222, 222, 214]);
        }
        // A manhole.
        self.canvas
            .fill(&Shape::ellipse(250.0, 233.0, 11.0, 3.2, [66, 66, 70]));
        self.canvas
            .fill(&Shape::ellipse(250.0, 232.6, 9.0, 2.4, [82, 82, 86]));
    }

    fn near_pavement(&mut self) {
        self.rect(0.0, 257.0, DESIGN_WIDTH, 2.0, [132, 130, 128]);
        self.rect(0.0, 259.0, DESIGN_WIDTH, 5.0, [218, 215, 208]);
        self.gradient(264.0, DESIGN_HEIGHT, [190, 182, 168], [206, 198, 184]);
        // Slabs: rows grow towards the front, joints meet far behind.
        let joint = [150, 142, 130];
        let mut y = 264.0;
        let mut row = 9.0;
        let mut odd = false;
        while y < DESIGN_HEIGHT {
            self.veil(0.0, y, DESIGN_WIDTH, 0.9, joint, 0.7);
            let next = y + row;
            let mut slab = if odd { -9.5 } else { -10.0 };
            while slab < 10.0 {
                let at = |y: f64| DESIGN_WIDTH / 2.0 + slab * 44.0 * (y - 40.0) / 260.0;
                let points = vec![
                    (at(y), y),
                    (at(y) + 0.9, y),
                    (at(next) + 0.9, next),
                    (at(next), next),
                ];
                self.canvas.fill(&Shape::polygon(points, joint).faded(0.6));
                slab += 1.0;
            }
            // Some slabs are a little darker.
            for _ in 0..3 {
                let slab = self.random.range(-10.0, 9.0).floor() + if odd { 0.5 } else { 0.0 };
                let at = |n: f64, y: f64| DESIGN_WIDTH / 2.0 + n * 44.0 * (y - 40.0) / 260.0;
                let points = vec![
                    (at(slab, y), y),
                    (at(slab + 1.0, y), y),
                    (at(slab + 1.0, next), next),
                    (at(slab, next), next),
                ];
                self.canvas
                    .fill(&Shape::polygon(points, [120, 108, 92]).faded(0.13));
            }
            y = next;
            row *= 1.16;
            odd = !odd;
        }
        // Tactile paving at the crossing.
        let plate = vec![
            (ZEBRA_X - 46.0, 264.0),
            (ZEBRA_X + 46.0, 264.0),
            (ZEBRA_X + 49.0, 274.0),
            (ZEBRA_X - 49.0, 274.0),
        ];
        self.canvas
            .fill(&Shape::polygon(plate, [222, 186, 92]).faded(0.85));
    }

    fn street_furniture(&mut self) {
        for (x, size) in [(38.0, 1.0), (322.0, 1.12), (598.0, 0.95)] {
            self.tree(x, size);
        }
        for x in [196.0, 520.0] {
            self.lamp(x);
        }
        // A bench and a planter at the kerb, low enough that no car passes behind them.
        let x = BENCH_X - 27.0;
        self.veil(x + 2.0, 281.5, 56.0, 2.4, [30, 32, 44], 0.3);
        for leg in [x + 5.0, x + 46.0] {
            self.rect(leg, 274.0, 3.0, 9.0, [70, 74, 80]);
        }
        for (top, color) in [
            (265.5, [150, 104, 66]),
            (268.6, [138, 94, 58]),
            (273.0, [164, 116, 74]),
        ] {
            self.rect(x, top, 54.0, 2.4, color);
        }
        let x = BENCH_X + 46.0;
        self.veil(x + 2.0, 280.5, 28.0, 2.6, [30, 32, 44], 0.3);
        self.rect(x, 272.0, 26.0, 10.0, [118, 122, 126]);
        self.veil(x, 278.0, 26.0, 4.0, [40, 40, 48], 0.3);
        for (dx, color) in [
            (4.0, [206, 62, 74]),
            (10.0, [244, 208, 84]),
            (16.0, [214, 92, 150]),
            (22.0, [206, 62, 74]),
        ] {
            self.canvas
                .fill(&Shape::ellipse(x + dx, 271.0, 4.2, 3.0, [72, 122, 62]));
            self.canvas
                .fill(&Shape::ellipse(x + dx, 269.2, 2.0, 1.8, color));
        }
    }

    fn tree(&mut self, x: f64, size: f64) {
        self.canvas
            .fill(&Shape::ellipse(x + 8.0, 173.0, 20.0 * size, 2.6, [30, 32, 44]).faded(0.3));
        self.rect(x - 8.0, 170.5, 16.0, 3.0, [104, 92, 78]);
        let trunk = vec![
            (x - 2.6, 172.0),
            (x + 2.6, 172.0),
            (x + 1.6, 120.0),
            (x - 1.6, 120.0),
        ];
        self.canvas.fill(&Shape::polygon(trunk, [92, 72, 54]));
        for (dx, dy, r, color) in [
            (4.0, 6.0, 25.0, [44, 84, 48]),
            (-12.0, 2.0, 19.0, [58, 104, 56]),
            (13.0, -4.0, 18.0, [54, 98, 54]),
            (-3.0, -14.0, 20.0, [76, 126, 66]),
            (-10.0, -10.0, 11.0, [104, 150, 82]),
        ] {
            let leaves = Shape::ellipse(
                x + dx * size,
                108.0 + dy * size,
                r * size,
                r * 0.86 * size,
                color,
            );
            self.canvas.fill(&leaves.faded(0.96));
        }
        for _ in 0..46 {
            let (dx, dy) = (
                self.random.range(-24.0, 26.0),
                self.random.range(-28.0, 22.0),
            );
            if dx * dx + dy * dy < 560.0 {
                let bright = self.random.range(0.0, 1.0);
                let leaf = Shape::ellipse(
                    x + dx * size,
                    106.0 + dy * size,
                    2.6,
                    2.0,
                    mix([48, 88, 46], [138, 178, 96], bright),
                );
                self.canvas.fill(&leaf.faded(0.6));
            }
        }
    }

    fn lamp(&mut self, x: f64) {
        self.rect(x - 3.0, 168.0, 6.0, 5.0, [58, 62, 66]);
        self.rect(x - 1.1, 84.0, 2.2, 86.0, [66, 70, 76]);
        self.rect(x - 1.1, 83.0, 20.0, 1.8, [66, 70, 76]);
        self.canvas
            .fill(&Shape::ellipse(x + 19.0, 85.5, 6.0, 2.2, [228, 226, 208]));
    }
}

/// Adds a fine texture, so that no surface is perfectly flat.
fn grain(canvas: &mut Canvas) {
    let mut random = Random(0x0067_7261_696e);
    let sky = canvas.height * 40 / 100 * canvas.width * 3;
    for (i, pixel) in canvas.data.chunks_exact_mut(3).enumerate() {
        let strength = if i * 3 < sky { 5 } else { 13 };
        let step = (random.next() % strength) as i16 - (strength / 2) as i16;
        for sample in pixel {
            *sample = (i16::from(*sample) + step).clamp(0, 255) as u8;
        }
    }
}
