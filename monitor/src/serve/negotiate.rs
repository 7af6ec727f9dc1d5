//! What a client has already, and what it can unpack.

use std::hash::{DefaultHasher, Hasher as _};
use std::io::Write as _;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::document::pieces;

/// What is shorter is sent as it is.
pub(super) const SHORT: usize = 1 << 10;

/// `Accept-Encoding` permits gzip: RFC 9110, section 12.5.3.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lists =
        headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|list| list.to_str().ok());
    let mut codings = lists.flat_map(|list| list.split(',')).map(str::trim);
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = weight
            .trim()
            .strip_prefix("q=")
            .is_some_and(|q| q.trim_start_matches('0').trim_matches(['.', '0']).is_empty());
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// `If-None-Match` names this tag, or any: RFC 9110, section 13.1.2.
pub(super) fn has(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let Ok(tag) = tag.to_str() else { return false };
    let plain = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let lists = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(','));
    tags.any(|one| one.trim() == "*" || plain(one) == plain(tag))
}

pub(super) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    let written = packed.write_all(text).and_then(|()| packed.finish());
    written.expect("writing to memory cannot fail")
}

/// Tells of a content, however it is packed.
pub(super) fn tag_of(content: &[u8]) -> HeaderValue {
    let mut hash = DefaultHasher::new();
    hash.write(content);
    let tag = HeaderValue::try_from(format!("W/\"{:x}\"", hash.finish()));
    tag.expect("digits, letters and quotes")
}

/// A JSON document that was made for this request; its tag tells of its content.
pub(super) fn made(headers: &HeaderMap, json: Vec<u8>) -> Response {
    tagged(headers, &tag_of(&json), || {
        let is_packed = accepts_gzip(headers) && json.len() >= SHORT;
        let body: Bytes = if is_packed { gzip(&json).into() } else { json.into() };
        (of_json(is_packed), body).into_response()
    })
}

/// A JSON document that is kept.
pub(super) fn kept(document: &Arc<Bytes>, is_packed: bool) -> Response {
    (of_json(is_packed), whole(document)).into_response()
}

/// A document that this response alone may hold.
pub(super) fn held(document: &Bytes, is_packed: bool) -> Response {
    (of_json(is_packed), document.clone()).into_response()
}

/// A document that is kept, in pieces.
pub(super) fn whole(document: &Arc<Bytes>) -> Response {
    let length = [(header::CONTENT_LENGTH, HeaderValue::from(document.len()))];
    (length, Body::from_stream(pieces(document))).into_response()
}

fn of_json(is_packed: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if is_packed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers
}

/// `answer` with this tag, or none if the client has it.
pub(super) fn tagged(
    headers: &HeaderMap,
    tag: &HeaderValue,
    answer: impl FnOnce() -> Response,
) -> Response {
    let mut answer = match has(headers, tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => answer(),
    };
    if answer.status().is_success() || answer.status() == StatusCode::NOT_MODIFIED {
        answer.headers_mut().insert(header::ETAG, tag.clone());
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn accepts_gzip_where_it_is_named() {
        #[rustfmt::skip]
        let table = [
            // header, accepted
            ("gzip",                     true),
            ("br, GZIP;q=0.5",           true),
            ("gzip; q=1",                true),
            ("gzip;q=0",                 false),
            ("gzip; q=0.000",            false),
            ("*",                        false), // nothing is asked for by name
            ("deflate, br",              false),
            ("gzipped",                  false),
            ("",                         false),
        ];
        for (value, want) in table {
            let asked = headers(header::ACCEPT_ENCODING, value);
            assert_eq!(accepts_gzip(&asked), want, "{value:?}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn has_compares_weakly() {
        let tag = HeaderValue::from_static("W/\"a-3\"");
        #[rustfmt::skip]
        let table = [
            // header, has it
            ("W/\"a-3\"",             true),
            ("\"a-3\"",               true),
            ("\"a-2\", W/\"a-3\"",    true),
            ("*",                     true),
            ("\"a-30\"",              false),
            ("a-3",                   false),
            ("",                      false),
        ];
        for (value, want) in table {
            assert_eq!(has(&headers(header::IF_NONE_MATCH, value), &tag), want, "{value:?}");
        }
    }
}
