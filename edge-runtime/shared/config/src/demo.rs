//! Options of the demo scene, written as `demo:?name=value&…`.
//!
//! - Every option has a default; an unknown name or a value out of range is refused with what is
//!   allowed.
//! - Not here: the scene (the crate `demo`).

/// Options of the demo scene.
#[derive(Debug, Clone, PartialEq)]
pub struct DemoOptions {
    /// Length in seconds, 1 to 86 400.
    pub seconds: u32,
    /// Seed: decides the times and the clothes of the figures.
    pub seed: u64,
    /// Width in pixels, 160 to 3840, even.
    pub width: u32,
    /// Height in pixels, 90 to 2160, even.
    pub height: u32,
    /// Frames per second, 1 to 60.
    pub fps: f64,
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self {
            seconds: 60,
            seed: 1,
            width: 640,
            height: 360,
            fps: 15.0,
        }
    }
}

/// Why options can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DemoOptionsError {
    #[error(
        "demo option {name:?} is unknown; allowed are seconds, seed, width, height and fps, as in demo:?seconds=20&seed=7"
    )]
    Unknown { name: String },
    /// The value is not allowed.
    #[error("demo option {name} = {value:?} does not fit; allowed is {allowed}")]
    Value {
        name: String,
        value: String,
        /// Values that are allowed.
        allowed: &'static str,
    },
}

impl DemoOptions {
    /// Parses the options after `demo:`.
    ///
    /// # Errors
    /// [`DemoOptionsError`] names the option.
    pub fn parse(text: &str) -> Result<Self, DemoOptionsError> {
        let mut options = Self::default();
        let text = text.trim_start_matches("//").trim_start_matches('?');
        for pair in text.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let refused = |allowed| DemoOptionsError::Value {
                name: name.to_owned(),
                value: value.to_owned(),
                allowed,
            };
            let even = |low: u32, high: u32| {
                let fits = |n: &u32| (low..=high).contains(n) && n.is_multiple_of(2);
                value.parse().ok().filter(fits)
            };
            match name {
                "seconds" => {
                    let fits = |n: &u32| (1..=86_400).contains(n);
                    options.seconds = value
                        .parse()
                        .ok()
                        .filter(fits)
                        .ok_or_else(|| refused("a whole number from 1 to 86400"))?;
                }
                "seed" => {
                    options.seed = value
                        .parse()
                        .map_err(|_| refused("a whole number from 0"))?;
                }
                "width" => {
                    options.width = even(160, 3840)
                        .ok_or_else(|| refused("an even number from 160 to 3840"))?;
                }
                "height" => {
                    options.height =
                        even(90, 2160).ok_or_else(|| refused("an even number from 90 to 2160"))?;
                }
                "fps" => {
                    let fits = |n: &f64| (1.0..=60.0).contains(n);
                    options.fps = value
                        .parse()
                        .ok()
                        .filter(fits)
                        .ok_or_else(|| refused("a number from 1 to 60"))?;
                }
                _ => {
                    return Err(DemoOptionsError::Unknown {
                        name: name.to_owned(),
                    });
                }
            }
        }
        Ok(options)
    }

    /// Returns the number of frames.
    #[must_use]
    pub fn frames(&self) -> u32 {
        // At most 86 400 × 60.
        (f64::from(self.seconds) * self.fps).round() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_the_rest_keeps_its_default() {
        let options = DemoOptions::parse("?seconds=20&seed=7&fps=12.5").expect("valid");
        assert_eq!(options.frames(), 250);
        assert_eq!((options.seed, options.width), (7, 640));
        assert_eq!(DemoOptions::parse(""), Ok(DemoOptions::default()));
        assert_eq!(DemoOptions::parse("//"), Ok(DemoOptions::default()));
    }

    #[test]
    fn wrong_option_is_refused_with_allowed_values() {
        for bad in [
            "?second=3",
            "?seconds=0",
            "?width=641",
            "?fps=nan",
            "?seed=-1",
            "?height",
        ] {
            let error = DemoOptions::parse(bad).expect_err(bad).to_string();
            assert!(error.contains("allowed"), "{error}");
        }
    }
}
