//! The search over notes as a site would have them.

#[cfg(feature = "neural")]
mod neural;
mod recall;
