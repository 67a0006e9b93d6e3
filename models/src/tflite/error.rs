//! Why a TFLite file can't be converted.

/// Why a TFLite file can't be converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TfliteError {
    /// The file has no identifier of the format.
    #[error("it is no TFLite file: bytes 4 to 8 are not `TFL3`")]
    NotTflite,
    /// A position or length leads out of the file.
    #[error("the TFLite file is damaged: `{field}` leads out of it")]
    Damaged { field: &'static str },
    /// A list is longer than any known network needs.
    #[error("`{field}` of the TFLite file has {found} items, at most {most} are read")]
    TooMany {
        field: &'static str,
        found: usize,
        most: usize,
    },
    /// A part of the file that the converter does not know.
    #[error("{place} of the TFLite file is {found}; supported: {supported}")]
    Unsupported {
        /// Part of the file, such as `operator 12 (CONV_2D), stride`.
        place: String,
        found: String,
        supported: String,
    },
}
