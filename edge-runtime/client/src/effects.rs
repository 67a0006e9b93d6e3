//! Routes about what workflows want done outside.

use std::time::Duration;

use reqwest::Method;
use watchkeeper_contract::spool::{EffectNumber, EffectOutcome, SpooledEffect, WaitingEffect};

use super::{Call, ClientError, RuntimeClient};

impl RuntimeClient {
    /// Effects that wait, after a number; waits for one up to `wait_s` seconds (`GET /v1/effects?after=&wait=`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn effects(
        &self,
        after: EffectNumber,
        wait_s: u64,
    ) -> Result<Vec<WaitingEffect>, ClientError> {
        let (after, wait) = (after.to_string(), wait_s.to_string());
        let query = [("after", after.as_str()), ("wait", wait.as_str())];
        let call = Call::to(&["effects"]).with(&query);
        let deadline = self.deadlines.answer + Duration::from_secs(wait_s);
        self.json(Method::GET, call, None::<&()>, deadline).await
    }

    /// An effect that waits, with everything that is in it (`GET /v1/effects/{number}`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn effect(&self, number: EffectNumber) -> Result<SpooledEffect, ClientError> {
        self.get(Call::to(&["effects", &number.to_string()])).await
    }

    /// Says what came of an effect (`POST /v1/effects/{number}/outcome`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn settle_effect(
        &self,
        number: EffectNumber,
        outcome: &EffectOutcome,
    ) -> Result<(), ClientError> {
        let number = number.to_string();
        let path = ["effects", &number, "outcome"];
        let call = Call::to(&path);
        self.done(Method::POST, call, Some(outcome), self.deadlines.answer)
            .await
    }
}
