//! Access rules of the admin interface.
//!
//! | | on the socket | on a TCP address |
//! | --- | --- | --- |
//! | `GET /metrics` | yes | yes |
//! | all other requests | yes | with the admin token, if one is configured |
//! | with an Origin header, or with another machine's name as Host | yes | no |
//!
//! The last row rejects requests of web pages in a browser, also after DNS rebinding.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use parking_lot::Mutex;

use crate::admin::http::Refused;
use crate::admin::token::AdminToken;

/// Path of the metrics page for Prometheus: no names of files, no secrets.
pub(crate) const METRICS: &str = "/metrics";
/// Minimal interval of the log line about wrong tokens.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// Access rules of one listener.
pub(crate) struct Access {
    /// Rules for TCP; none: the admin socket, where the kernel checks the socket's mode.
    tcp: Option<Tcp>,
}

struct Tcp {
    token: Option<AdminToken>,
    host_name: String,
    said: Mutex<Option<Instant>>,
}

impl Access {
    /// Rules for the admin socket.
    pub(crate) fn socket() -> Self {
        Self { tcp: None }
    }

    /// Rules for an address of the machine `host_name`.
    pub(crate) fn tcp(token: Option<AdminToken>, host_name: String) -> Self {
        Self { tcp: Some(Tcp { token, host_name, said: Mutex::default() }) }
    }

    pub(crate) fn is_socket(&self) -> bool {
        self.tcp.is_none()
    }

    /// Checks a request. True: all requests are allowed; false: this is a request of the metrics page.
    ///
    /// # Errors
    /// Refusal of the request.
    pub(crate) fn check(&self, head: &Parts) -> Result<bool, Refused> {
        let Some(tcp) = &self.tcp else { return Ok(true) };
        let host = head.headers.get(header::HOST).map(|host| host.to_str().unwrap_or(""));
        let hosts = head.uri.authority().map(|authority| authority.as_str()).into_iter().chain(host);
        if head.headers.contains_key(header::ORIGIN) {
            return Err(Refused(StatusCode::FORBIDDEN, "this is not for pages in a browser".into()));
        }
        if hosts.into_iter().any(|host| !is_ours(host, &tcp.host_name)) {
            let why = "ask by this machine's address, or by its name: not by another one";
            return Err(Refused(StatusCode::MISDIRECTED_REQUEST, why.into()));
        }
        let shown = head.headers.get(header::AUTHORIZATION).map(|shown| shown.as_bytes());
        match (&tcp.token, shown) {
            (Some(token), Some(shown)) if token.is_shown_in(shown) => Ok(true),
            (Some(_), Some(_)) => {
                tcp.say();
                Err(Refused(StatusCode::UNAUTHORIZED, "this is not the admin token of this server".into()))
            }
            _ if head.method == Method::GET && head.uri.path() == METRICS => Ok(false),
            (Some(_), None) => Err(Refused(
                StatusCode::UNAUTHORIZED,
                "this address wants the admin token: name its file with --admin-token-file".into(),
            )),
            (None, _) => Err(Refused(
                StatusCode::FORBIDDEN,
                "this address serves metrics only; use the admin socket on the server itself, or set `admin_token_file` there"
                    .into(),
            )),
        }
    }
}

impl Tcp {
    fn say(&self) {
        let mut said = self.said.lock();
        if said.is_none_or(|at| at.elapsed() > SAID_EVERY) {
            *said = Some(Instant::now());
            tracing::warn!("refused a request to the admin address: wrong admin token");
        }
    }
}

/// Whether a Host header is an address, which DNS rebinding cannot forge, or a name of this machine.
fn is_ours(host: &str, host_name: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.to_ascii_lowercase();
    let own = host_name.to_ascii_lowercase();
    let short = own.split('.').next().unwrap_or_default();
    name.parse::<IpAddr>().is_ok() || name == "localhost" || name == own || name == short
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use host::private;

    use super::*;

    #[test]
    fn a_host_is_an_address_or_this_machine_s_name() {
        for ours in
            ["127.0.0.1", "10.0.0.1:20490", "[::1]:20490", "localhost:1", "Ash", "ash.example.org:20490"]
        {
            assert!(is_ours(ours, "ash.example.org"), "{ours}");
        }
        for other in
            ["", "evil.example", "evil.example:20490", "ash.evil.example", "127.0.0.1.evil.example", "[evil]"]
        {
            assert!(!is_ours(other, "ash.example.org"), "{other}");
        }
    }

    #[test]
    fn an_address_gives_metrics_to_all_and_the_rest_to_those_that_show_the_token() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        private::create(&file).unwrap();
        std::fs::write(&file, "0123456789abcdef0123456789abcdef").unwrap();
        let token = AdminToken::read(&file).unwrap();
        let request = |method: &str, path: &str, headers: &[(&str, &str)]| {
            let all = headers
                .iter()
                .fold(Request::builder().method(method).uri(path), |r, (k, v)| r.header(*k, *v));
            all.body(()).unwrap().into_parts().0
        };
        let shown = token.header();
        let (open, closed) = (Access::tcp(Some(token), "ash".into()), Access::tcp(None, "ash".into()));
        let ok = ("host", "10.0.0.1:20490");
        let asked = |access: &Access, method: &str, path: &str, headers: &[(&str, &str)]| {
            access.check(&request(method, path, headers)).map_err(|Refused(status, _)| status.as_u16())
        };
        for access in [&open, &closed] {
            assert_eq!(asked(access, "GET", "/metrics", &[ok]), Ok(false));
            assert_eq!(asked(access, "GET", "/metrics", &[ok, ("origin", "http://evil.example")]), Err(403));
            assert_eq!(asked(access, "GET", "/metrics", &[("host", "evil.example")]), Err(421));
            assert_eq!(asked(access, "GET", "http://evil.example/metrics", &[ok]), Err(421));
        }
        assert_eq!(asked(&closed, "GET", "/status", &[ok, ("authorization", &shown)]), Err(403));
        assert_eq!(asked(&open, "GET", "/status", &[ok]), Err(401));
        assert_eq!(asked(&open, "POST", "/metrics", &[ok]), Err(401));
        assert_eq!(asked(&open, "GET", "/status", &[ok, ("authorization", "Bearer no")]), Err(401));
        assert_eq!(asked(&open, "PUT", "/node", &[ok, ("authorization", &shown)]), Ok(true));
        assert_eq!(asked(&Access::socket(), "PUT", "/node", &[("host", "evil.example")]), Ok(true));
    }
}
