//! The search over notes as a site would have them.

mod recall;
