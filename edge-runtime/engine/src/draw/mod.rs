//! Placeholder; its owner replaces this.
