//! Routes of the effects that workflows request.

use std::time::Duration;

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
        let mut call = Call::get(&["effects"]).query(&query);
        call.wait = Duration::from_secs(wait_s);
        self.json(call).await
    }

    /// Returns a pending effect with its contents (`GET /v1/effects/{number}`).
    pub async fn effect(&self, number: EffectNumber) -> Result<SpooledEffect, ClientError> {
        self.json(Call::get(&["effects", &number.to_string()]))
            .await
    }

    /// Reports the outcome of an effect (`POST /v1/effects/{number}/outcome`).
    pub async fn settle_effect(
        &self,
        number: EffectNumber,
        outcome: &EffectOutcome,
    ) -> Result<(), ClientError> {
        let number = number.to_string();
        let path = ["effects", &number, "outcome"];
        self.done(Call::post(&path).body(outcome)).await
    }
}
