//! Routes of the effects that workflows request.

use std::time::Duration;

use reqwest::Method;
use watchkeeper_contract::spool::{EffectNumber, EffectOutcome, SpooledEffect, WaitingEffect};

use super::{Call, ClientError, RuntimeClient};

impl RuntimeClient {
    /// Lists pending effects after a number, waiting up to `wait_s` seconds for one
    /// (`GET /v1/effects?after=&wait=`).
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

    /// Returns a pending effect with its contents (`GET /v1/effects/{number}`).
    pub async fn effect(&self, number: EffectNumber) -> Result<SpooledEffect, ClientError> {
        self.get(Call::to(&["effects", &number.to_string()])).await
    }

    /// Reports the outcome of an effect (`POST /v1/effects/{number}/outcome`).
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
