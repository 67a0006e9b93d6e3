//! Routes of reviews and assessments.

use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::{EventSeq, PipelineId};
use watchkeeper_contract::review::{NewAssessment, PipelineAnswers, ReviewQueue};

use super::{Call, ClientError, RuntimeClient};

impl RuntimeClient {
    /// Returns the events that wait for a person, at most `limit` (`GET /v1/reviews?limit=`).
    pub async fn reviews(&self, limit: u32) -> Result<ReviewQueue, ClientError> {
        let limit = limit.to_string();
        let query = [("limit", limit.as_str())];
        self.json(Call::get(&["reviews"]).query(&query)).await
    }

    /// Returns the answers of people about events of a pipeline
    /// (`GET /v1/pipelines/{id}/answers`).
    pub async fn answers(&self, pipeline: &PipelineId) -> Result<PipelineAnswers, ClientError> {
        let path = ["pipelines", pipeline.as_str(), "answers"];
        self.json(Call::get(&path)).await
    }

    /// Like [`Self::assess`], for a caller that needs no record.
    pub async fn record_assessment(
        &self,
        seq: EventSeq,
        new: &NewAssessment,
    ) -> Result<(), ClientError> {
        let seq = seq.to_string();
        let path = ["events", &seq, "assessments"];
        self.done(Call::post(&path).body(new).slow()).await
    }

    /// Adds an assessment of the event of record `seq` (`POST /v1/events/{seq}/assessments`), and
    /// returns its record. May be repeated: the same assessment is recorded once.
    pub async fn assess(&self, seq: EventSeq, new: &NewAssessment) -> Result<Event, ClientError> {
        let seq = seq.to_string();
        let path = ["events", &seq, "assessments"];
        self.json(Call::post(&path).body(new).slow()).await
    }
}
