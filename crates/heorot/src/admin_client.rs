//! Asks the admin interface of a server.

use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::Agent;
use ureq::http::Response;

use crate::api::Refusal;
use crate::failure::Failure;

/// A clean of full targets takes minutes.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(3600);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// One admin interface.
pub(crate) struct AdminClient {
    address: SocketAddr,
    agent: Agent,
}

impl AdminClient {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let config = Agent::config_builder()
            .timeout_connect(Some(CONNECT_TIME_MAX))
            .timeout_global(Some(ANSWER_TIME_MAX))
            .http_status_as_error(false)
            // It is a server of ours on an address that was named, never behind a proxy.
            .proxy(None)
            .build();
        Self { address, agent: config.into() }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<T, Failure> {
        let request = query.iter().fold(self.agent.get(self.url(path)), |r, (k, v)| r.query(k, v));
        self.answer(request.call())
    }

    pub(crate) fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        self.answer(self.agent.put(self.url(path)).send_json(body))
    }

    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.answer(self.agent.post(self.url(path)).send_empty())
    }

    /// The body of an answer, as it comes.
    pub(crate) fn stream(&self, path: &str) -> Result<impl Read + use<>, Failure> {
        let response = self.agent.get(self.url(path)).call();
        match response {
            Ok(response) if response.status().is_success() => Ok(response.into_body().into_reader()),
            other => Err(match self.answer::<serde_json::Value>(other) {
                Err(failure) => failure,
                Ok(_) => Failure::new(format!("{} does not answer as heorot does", self.address)),
            }),
        }
    }

    fn answer<T: DeserializeOwned>(
        &self,
        outcome: Result<Response<ureq::Body>, ureq::Error>,
    ) -> Result<T, Failure> {
        let address = self.address;
        let mut response = outcome.map_err(|error| {
            Failure::new(format!(
                "no answer from {address}: {error}; is heorot running there, with a metaserver, and is that its --admin address?"
            ))
        })?;
        let strange = |e: &dyn std::fmt::Display| {
            Failure::new(format!(
                "{address} does not answer as heorot does: {e}; is that its --admin address?"
            ))
        };
        let text = response.body_mut().read_to_string().map_err(|e| strange(&e))?;
        if response.status().is_success() {
            return serde_json::from_str(&text).map_err(|e| strange(&e));
        }
        match serde_json::from_str::<Refusal>(&text) {
            Ok(refusal) => Err(Failure::new(refusal.error)),
            Err(_) => Err(strange(&response.status())),
        }
    }
}
