//! Server of the admin interface: on a Unix socket for users that the socket's mode allows, on a TCP address
//! with the rules of `admin::access`. Limits: number of connections, bytes and time of requests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{sleep, timeout};

use crate::admin::access::Access;
use crate::admin::boot;
use crate::admin::http::{self, Admin, Refused};
use crate::admin::socket::{self, AdminSocket};
use crate::admin::token::AdminToken;
use crate::config::admin::AdminConfig;
use crate::node::listen;
use command_line::Failure;

/// Connections of one listener. An operator and a Prometheus server need one each, for a short time.
const CONNECTIONS_MAX: usize = 64;
/// Time limit of a request's head, and again of its body: clients send both at once.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
/// Time limit of a connection without a token: enough for the metrics page over a slow network.
const STRANGER_TIME_MAX: Duration = Duration::from_secs(30);
/// Maximal length of a head, which has a path and a token.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// Maximal length of a body: a path of 4 KiB, or a few hundred addresses.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Pause after a failed `accept`, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Location of a server's admin interface.
#[derive(Debug, Clone)]
pub(crate) struct AdminPlace {
    /// Directory of the socket; this process holds its lock.
    pub dir: PathBuf,
    /// Parent directory of the same process, which the group must pass through.
    pub above: Option<PathBuf>,
    /// Group, token file and address.
    pub config: AdminConfig,
    /// Name of the address's setting, for error messages.
    pub setting: &'static str,
}

/// Running admin server; drop stops accepting. A request that has arrived is still answered.
pub(crate) struct AdminServer {
    serving: Vec<JoinHandle<()>>,
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
    }
}

impl AdminServer {
    /// Listens and serves `admin`.
    pub(crate) async fn start(place: AdminPlace, admin: Arc<Admin>) -> Result<Self, Failure> {
        let router = http::router(admin);
        let group = socket::group(place.config.group.as_deref())?;
        let token = place.config.token_file.as_deref().map(AdminToken::read_or_create).transpose()?;
        let mut serving = Self { serving: vec![] };
        if let Some(address) = place.config.address {
            let listener = TcpListener::bind(address).await;
            let listener = listener.map_err(|e| listen::refused(address, place.setting, &e))?;
            let access = Access::tcp(token, crate::servers::ds::host_name());
            serving.serving.push(tokio::spawn(accept(listener, router.clone(), access)));
        }
        if let Some(above) = &place.above {
            socket::let_pass(above, group)?;
        }
        let socket = AdminSocket::listen(&place.dir, group)?;
        serving.serving.push(tokio::spawn(accept(socket, router, Access::socket())));
        Ok(serving)
    }
}

/// Acceptor of connections.
trait Listener: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    async fn next(&self) -> io::Result<TcpStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Listener for AdminSocket {
    type Stream = UnixStream;
    async fn next(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

struct Connection {
    task: AbortHandle,
    /// Whether the connection is on the socket, or has shown the token.
    is_trusted: Arc<AtomicBool>,
}

async fn accept<L: Listener>(listener: L, router: Router, access: Access) {
    let access = Arc::new(access);
    let mut connections: VecDeque<Connection> = VecDeque::new();
    let mut has_failed = false;
    loop {
        let stream = match listener.next().await {
            Ok(stream) => stream,
            Err(error) => {
                if !has_failed {
                    tracing::warn!(%error, "admin interface: cannot accept a connection, retrying");
                }
                has_failed = true;
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        has_failed = false;
        connections.retain(|connection| !connection.task.is_finished());
        if connections.len() >= CONNECTIONS_MAX && !drop_oldest_stranger(&mut connections) {
            continue;
        }
        let is_trusted = Arc::new(AtomicBool::new(access.is_socket()));
        let served = serve(stream, router.clone(), Arc::clone(&access), Arc::clone(&is_trusted));
        connections.push_back(Connection { task: tokio::spawn(served).abort_handle(), is_trusted });
    }
}

/// Drops the oldest untrusted connection to accept another: half a request is older than the whole ones after
/// it.
fn drop_oldest_stranger(connections: &mut VecDeque<Connection>) -> bool {
    let oldest = connections.iter().position(|connection| !connection.is_trusted.load(Ordering::Relaxed));
    let dropped = oldest.and_then(|oldest| connections.remove(oldest));
    dropped.inspect(|connection| connection.task.abort()).is_some()
}

async fn serve<S>(stream: S, router: Router, access: Arc<Access>, is_trusted: Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| answer(request, router.clone(), &access, &is_trusted));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let too_long = async {
        sleep(STRANGER_TIME_MAX).await;
        if is_trusted.load(Ordering::Relaxed) {
            // No time limit: a clean of full targets or a backup takes minutes.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        outcome = connection => {
            if let Err(error) = outcome {
                tracing::debug!(%error, "a connection to the admin interface ends early");
            }
        }
        () = too_long => {}
    }
}

async fn answer(
    request: Request<Incoming>,
    router: Router,
    access: &Access,
    is_trusted: &AtomicBool,
) -> Result<Response, Infallible> {
    let (head, body) = request.into_parts();
    match access.check(&head) {
        Ok(trusted) => is_trusted.fetch_or(trusted, Ordering::Relaxed),
        Err(refused) => return Ok(refused.into_response()),
    };
    // Images come as streams. Those that may send them have shown that they are administrators.
    if boot::LONG.contains(&head.uri.path()) {
        return TowerToHyperService::new(router).call(Request::from_parts(head, Body::new(body))).await;
    }
    let body = match timeout(REQUEST_TIME_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => return Ok(Refused(StatusCode::BAD_REQUEST, error.to_string()).into_response()),
        Err(_) => {
            let why = "the request did not arrive in time".into();
            return Ok(Refused(StatusCode::REQUEST_TIMEOUT, why).into_response());
        }
    };
    TowerToHyperService::new(router).call(Request::from_parts(head, Body::from(body))).await
}
