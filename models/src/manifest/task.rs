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
    /// All tasks, by their words in a manifest.
    pub const ALL: [(&'static str, Self); 14] = [
        ("object-detection", Self::ObjectDetection),
        ("instance-segmentation", Self::InstanceSegmentation),
        ("keypoint-detection", Self::KeypointDetection),
        ("classification", Self::Classification),
        ("image-embedding", Self::ImageEmbedding),
        ("image-text-embedding", Self::ImageTextEmbedding),
        ("text-reading", Self::TextReading),
        ("semantic-segmentation", Self::SemanticSegmentation),
        ("depth-estimation", Self::DepthEstimation),
        ("gaze-estimation", Self::GazeEstimation),
        ("zero-shot-detection", Self::ZeroShotDetection),
        ("prompted-segmentation", Self::PromptedSegmentation),
        ("anomaly-detection", Self::AnomalyDetection),
        ("action-recognition", Self::ActionRecognition),
    ];

    /// Returns its word in a manifest.
    #[must_use]
    pub fn name(self) -> &'static str {
        let own = Self::ALL.into_iter().find(|(_, task)| *task == self);
        own.map_or("", |(name, _)| name)
    }
}
