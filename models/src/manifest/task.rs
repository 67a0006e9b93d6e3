//! Tasks of models and their words in a manifest.

/// Task of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Finds objects: a bounding box, a class and a score for each.
    ObjectDetection,
    /// Finds objects, and which pixels belong to each.
    InstanceSegmentation,
    /// Finds objects, and named points of each.
    KeypointDetection,
    /// Classifies a whole picture: a score for each class.
    Classification,
    /// Makes an embedding of a picture; similar pictures have similar ones.
    ImageEmbedding,
    /// Makes embeddings of pictures and texts that can be compared.
    ImageTextEmbedding,
    /// Reads the text in a picture.
    TextReading,
    /// Assigns a class to each pixel.
    SemanticSegmentation,
    /// Estimates the relative distance of each pixel.
    DepthEstimation,
    /// Estimates where a face looks.
    GazeEstimation,
    /// Finds objects that a step describes in words.
    ZeroShotDetection,
    /// Finds the pixels of what a step points at.
    PromptedSegmentation,
    /// Scores how unusual a picture is, and each place of it.
    AnomalyDetection,
    /// Classifies what happens in a run of frames.
    ActionRecognition,
}

impl Task {
    pub const ALL: [Self; 14] = [
        Self::ObjectDetection,
        Self::InstanceSegmentation,
        Self::KeypointDetection,
        Self::Classification,
        Self::ImageEmbedding,
        Self::ImageTextEmbedding,
        Self::TextReading,
        Self::SemanticSegmentation,
        Self::DepthEstimation,
        Self::GazeEstimation,
        Self::ZeroShotDetection,
        Self::PromptedSegmentation,
        Self::AnomalyDetection,
        Self::ActionRecognition,
    ];

    /// Returns its word in a manifest.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ObjectDetection => "object-detection",
            Self::InstanceSegmentation => "instance-segmentation",
            Self::KeypointDetection => "keypoint-detection",
            Self::Classification => "classification",
            Self::ImageEmbedding => "image-embedding",
            Self::ImageTextEmbedding => "image-text-embedding",
            Self::TextReading => "text-reading",
            Self::SemanticSegmentation => "semantic-segmentation",
            Self::DepthEstimation => "depth-estimation",
            Self::GazeEstimation => "gaze-estimation",
            Self::ZeroShotDetection => "zero-shot-detection",
            Self::PromptedSegmentation => "prompted-segmentation",
            Self::AnomalyDetection => "anomaly-detection",
            Self::ActionRecognition => "action-recognition",
        }
    }
}
