//! The demo scene: a rendered street with people and cars, for tries without a camera or a network.
//!
//! - The same options give the same bytes on every machine. It uses only additions, multiplications
//!   and square roots of `f64`, an own random generator and no library sine.
//! - The ground truth is computed from the very shapes that are drawn.
//!
//! Map: `scene` plans the positions of figures over time, `actor` the figures and their paths,
//! `figures` their shapes. `backdrop` draws the street, `raster` anti-aliased polygons, `light`
//! daylight and sensor noise. [`truth`](mod@truth) has the boxes, crossings and dwell times.

mod actor;
mod backdrop;
mod figures;
mod light;
mod random;
mod raster;
mod scene;
pub mod truth;

use std::sync::Arc;

pub use actor::Kind;
pub use truth::{Crossings, Truth, TruthBox, Visit, truth};
pub use watchkeeper_config::demo::{DemoOptions, DemoOptionsError};

use watchkeeper_vision::frame::{ColorMatrix, Colorimetry, OwnedPlanes, Picture, PixelFormat};

use light::Light;
use raster::Canvas;
use scene::Scene;

/// Draws the frames of the scene.
#[derive(Debug)]
pub struct Renderer {
    options: DemoOptions,
    scene: Scene,
    backdrop: Canvas,
    canvas: Canvas,
    light: Light,
}

impl Renderer {
    /// Plans the scene and paints the street.
    pub fn new(options: &DemoOptions) -> Self {
        let backdrop = backdrop::paint(options);
        Self {
            scene: Scene::new(options),
            canvas: backdrop.clone(),
            backdrop,
            light: Light::new(options.seed),
            options: options.clone(),
        }
    }

    /// The options of the scene.
    pub fn options(&self) -> &DemoOptions {
        &self.options
    }

    /// Draws one frame; `index` counts from 0.
    pub fn frame(&mut self, index: u32) -> Picture {
        let seconds = f64::from(index) / self.options.fps;
        self.canvas.copy_from(&self.backdrop);
        for figure in self.scene.figures(seconds) {
            for shape in &figure.shapes {
                self.canvas.fill(shape);
            }
        }
        let planes = self.light.expose(&self.canvas, index, seconds);
        Picture {
            width: self.options.width,
            height: self.options.height,
            format: PixelFormat::I420,
            color: Colorimetry {
                matrix: ColorMatrix::Bt601,
                full_range: false,
            },
            planes: Arc::new(OwnedPlanes { planes }),
        }
    }
}

#[cfg(test)]
mod tests;
