//! What runs beside the loop: the tasks of effects and chains, and the thread of the API.

use watchkeeper_assistant::trace::Trace;
use watchkeeper_client::RuntimeClient;

use crate::api::{self, StatusSender};
use crate::connectors::Executor;
use crate::connectors::queue::Limits;
use crate::connectors::service::Service as EffectService;
use crate::evidence;
use crate::run::error::AgentError;

/// What the tasks need to start.
#[derive(Debug)]
pub(crate) struct TaskSetup {
    pub(crate) executor: Executor,
    /// Records which effects were executed.
    pub(crate) trace: Trace,
    pub(crate) effect_limits: Limits,
    pub(crate) chains: evidence::service::Setup,
    /// Absent where no API is configured.
    pub(crate) api: Option<api::service::Setup>,
}

/// The running tasks.
#[derive(Debug)]
pub(crate) struct Tasks {
    effects: EffectService,
    chains: evidence::service::Service,
    api: Option<api::service::Service>,
}

impl TaskSetup {
    /// Starts the tasks. The API asks the loop for its status by `status_requests`.
    pub(crate) fn spawn(
        self,
        runtime: &RuntimeClient,
        status_requests: StatusSender,
    ) -> Result<Tasks, AgentError> {
        let api = self
            .api
            .map(|api| api::service::Service::spawn(api, status_requests));
        Ok(Tasks {
            effects: EffectService::spawn(
                runtime.clone(),
                self.executor,
                self.trace,
                self.effect_limits,
            ),
            chains: evidence::service::Service::spawn(runtime, self.chains),
            api: api.transpose().map_err(AgentError::ApiThread)?,
        })
    }
}

impl Tasks {
    /// Waits until a task ends by itself, which is an error.
    pub(crate) async fn died(&mut self) -> AgentError {
        let api = async {
            match &mut self.api {
                Some(api) => api.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.effects.ended() => AgentError::Connectors,
            () = self.chains.ended() => AgentError::Chains,
            () = api => AgentError::Api,
        }
    }

    /// Stops all tasks; each bounds its own time.
    pub(crate) async fn stop(self) {
        let api = async {
            if let Some(api) = self.api {
                api.stop().await;
            }
        };
        tokio::join!(self.effects.stop(), self.chains.stop(), api);
    }
}
