use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::client::stub;
use crate::{Authority, Stub};

/// The status line of an answer to a client that trusts `ca` and shows `token`.
fn ask(stub: &Stub, ca: &str, token: &str) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "127.0.0.1".try_into().unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(client, TcpStream::connect(stub.address())?);
    write!(
        stream,
        "GET /api/v1/nodes HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\
         connection: close\r\n\r\n"
    )?;
    let mut answer = [0; 24];
    stream.read_exact(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    Ok(answer.lines().next().unwrap_or("").to_owned())
}

#[test]
fn account_is_rotated() {
    let stub = stub();
    let (old, new) = (Authority::new("old").unwrap(), Authority::new("new").unwrap());
    stub.serve_as(&old).unwrap();
    stub.accept_tokens(&["one"]);
    assert!(stub.url().starts_with("https://127.0.0.1:"), "{}", stub.url());
    let ok = "HTTP/1.1 200 OK";
    let unauthorized = "HTTP/1.1 401 Unauthorize";
    assert_eq!(ask(&stub, &old.pem(), "one").unwrap(), ok);
    stub.accept_tokens(&["two"]);
    assert_eq!(ask(&stub, &old.pem(), "one").unwrap(), unauthorized);
    assert_eq!(ask(&stub, &old.pem(), "two").unwrap(), ok);
    stub.serve_as(&new).unwrap();
    let distrust = ask(&stub, &old.pem(), "two").unwrap_err().to_string();
    assert!(distrust.contains("UnknownIssuer") || distrust.contains("BadSignature"), "{distrust}");
    assert_eq!(ask(&stub, &new.pem(), "two").unwrap(), ok);
}

#[test]
fn account_directory_is_that_of_a_pod() {
    let dir = tempfile::tempdir().unwrap();
    for (authority, token) in [("old", "one"), ("new", "two")] {
        let authority = Authority::new(authority).unwrap();
        authority.write_account(dir.path(), token).unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let found = [read("ca.crt"), read("token"), read("namespace")];
        assert_eq!(found, [authority.pem(), token.to_owned(), "isobar".to_owned()]);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
}
