//! Client of a server's admin interface.

use std::io::{self, Read};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::http::request::Builder;
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::admin::api::Refusal;
use crate::admin::place::{AdminArgs, Place, Stream};
use crate::admin::socket;
use crate::admin::token::AdminToken;
use crate::cli::NODE_DIR;
use command_line::Failure;

/// Time limit of an answer. A server that cannot execute a request answers within a quarter of it.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(120);
/// Time limit of a long request: a clean of full targets takes minutes.
const LONG_ANSWER_TIME_MAX: Duration = Duration::from_secs(3600);
/// Time limit of an import of an image.
const UPLOAD_TIME_MAX: Duration = Duration::from_secs(86_400);
/// Time limit for the next piece of a streamed body.
const PIECE_TIME_MAX: Duration = Duration::from_secs(60);
/// Maximal length of an answer that is not a stream.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Body of a request.
type Outgoing = UnsyncBoxBody<Bytes, io::Error>;

/// Client of one admin interface.
pub(crate) struct AdminClient {
    place: Place,
    token: Option<AdminToken>,
    runtime: Runtime,
}

impl AdminClient {
    /// Client of the admin interface that the command line names, or else of this machine's.
    pub(crate) fn find(args: &AdminArgs) -> Result<Self, Failure> {
        let token = args.admin_token_file.as_deref().map(AdminToken::read).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { place: Place::find(args.admin.as_ref())?, token, runtime })
    }

    /// As [`AdminClient::find`], but prefers the data server on a machine with both servers.
    pub(crate) fn find_data_server(args: &AdminArgs) -> Result<Self, Failure> {
        let below = |dir: &std::path::Path| Some(dir.join("ds")).filter(|ds| ds.join(socket::NAME).exists());
        let dir = args.admin.clone().unwrap_or_else(|| NODE_DIR.into());
        let admin = below(&dir).or_else(|| args.admin.clone());
        Self::find(&AdminArgs { admin, admin_token_file: args.admin_token_file.clone() })
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<T, Failure> {
        self.ask(Method::GET, &with_query(path, query), Bytes::new(), ANSWER_TIME_MAX)
    }

    pub(crate) fn delete<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T, Failure> {
        self.ask(Method::DELETE, &with_query(path, query), Bytes::new(), ANSWER_TIME_MAX)
    }

    pub(crate) fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        self.ask(Method::PUT, path, serde_json::to_vec(body)?.into(), ANSWER_TIME_MAX)
    }

    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.ask(Method::POST, path, Bytes::new(), LONG_ANSWER_TIME_MAX)
    }

    /// Streams the body of an answer.
    pub(crate) fn stream(&self, path: &str) -> Result<impl Read + use<'_>, Failure> {
        let response =
            self.runtime.block_on(self.exchange(Method::GET, path, Bytes::new(), ANSWER_TIME_MAX))?;
        if response.status().is_success() {
            return Ok(Pieces { runtime: &self.runtime, body: response.into_body(), piece: Bytes::new() });
        }
        let answer = self.runtime.block_on(self.answer::<serde_json::Value>(response));
        Err(answer.err().unwrap_or_else(|| self.strange("no stream")))
    }

    /// Sends a body of any length, piece by piece; an error among the pieces ends it early.
    pub(crate) fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        pieces: mpsc::Receiver<io::Result<Bytes>>,
    ) -> Result<T, Failure> {
        let frames = stream::unfold(pieces, |mut pieces| async move {
            let piece = pieces.recv().await?;
            Some((piece.map(Frame::data), pieces))
        });
        let body = UnsyncBoxBody::new(StreamBody::new(frames));
        self.runtime.block_on(async {
            let request = self.request(Method::POST, &with_query(path, query));
            let request = request.body(body).map_err(|e| self.strange(&e))?;
            let response = self.sent(request, UPLOAD_TIME_MAX).await?;
            self.answer(response).await
        })
    }

    fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<T, Failure> {
        self.runtime.block_on(async {
            let response = self.exchange(method, path, body, limit).await?;
            self.answer(response).await
        })
    }

    /// Sends a request on a connection of its own, and waits for the head of the answer.
    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = self.request(method, path);
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = UnsyncBoxBody::new(Full::new(body).map_err(|never| match never {}));
        self.sent(request.body(body).map_err(|e| self.strange(&e))?, limit).await
    }

    fn request(&self, method: Method, path: &str) -> Builder {
        let request = Request::builder().method(method).uri(path).header(header::HOST, self.place.host());
        match &self.token {
            Some(token) => request.header(header::AUTHORIZATION, token.header()),
            None => request,
        }
    }

    async fn sent(&self, request: Request<Outgoing>, limit: Duration) -> Result<Response<Incoming>, Failure> {
        let answer = async {
            match self.place.connect().await? {
                Stream::Socket(stream) => self.send(stream, request).await,
                Stream::Tcp(stream) => self.send(stream, request).await,
            }
        };
        timeout(limit, answer).await.unwrap_or_else(|_| {
            Err(Failure::new(format!(
                "no answer from {} in {limit:?}; its log, and heorot status, may say why",
                self.place
            )))
        })
    }

    async fn send<S>(&self, stream: S, request: Request<Outgoing>) -> Result<Response<Incoming>, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|e| self.strange(&e))?;
        tokio::spawn(connection);
        sender.send_request(request).await.map_err(|error| {
            Failure::new(format!("{}: the connection ends without an answer: {error}; try again", self.place))
        })
    }

    async fn answer<T: DeserializeOwned>(&self, response: Response<Incoming>) -> Result<T, Failure> {
        let status = response.status();
        let body = http_body_util::Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect();
        let body = timeout(PIECE_TIME_MAX, body).await.map_err(|e| self.strange(&e))?;
        let body = body.map_err(|e| self.strange(&e))?.to_bytes();
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|e| self.strange(&e));
        }
        match serde_json::from_slice::<Refusal>(&body) {
            Ok(refusal) => Err(Failure::new(refusal.error)),
            Err(_) => Err(self.strange(&status)),
        }
    }

    fn strange(&self, why: &(impl std::fmt::Display + ?Sized)) -> Failure {
        Failure::new(format!(
            "{} does not answer as heorot does: {why}; is it heorot's admin interface, and of this version?",
            self.place
        ))
    }
}

/// Reader of a body.
struct Pieces<'a> {
    runtime: &'a Runtime,
    body: Incoming,
    piece: Bytes,
}

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.piece.has_remaining() {
            let next = self.runtime.block_on(async { timeout(PIECE_TIME_MAX, self.body.frame()).await });
            match next.map_err(|_| io::ErrorKind::TimedOut)? {
                Some(frame) => self.piece = frame.map_err(io::Error::other)?.into_data().unwrap_or_default(),
                None => return Ok(0),
            }
        }
        let bytes = out.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut out[..bytes]);
        Ok(bytes)
    }
}

fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = query.iter().map(|(key, value)| format!("{key}={}", escaped(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// Escapes a value for the query of a URL (RFC 3986, section 2.1).
fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_a_query_is_escaped() {
        assert_eq!(escaped("/a b/ä&c=d+%"), "/a%20b/%C3%A4%26c%3Dd%2B%25");
    }
}
