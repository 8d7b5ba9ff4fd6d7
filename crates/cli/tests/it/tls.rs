//! Metadata on a server that is reached with TLS: trusted, not trusted, for another name, and asked without TLS.

use crate::sandbox::{Said, Sandbox};
use std::fs;
use weft_meta::servers::{Etcd, Identity, Postgres};

/// A server of this name, and the certificate of the authority that signed its own.
fn identity(name: &str) -> (Identity, String) {
    let authority_key = rcgen::KeyPair::generate().expect("a key");
    let mut parameters = rcgen::CertificateParams::default();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = parameters.self_signed(&authority_key).expect("signed").pem();
    let issuer = rcgen::Issuer::new(parameters, authority_key);
    let key = rcgen::KeyPair::generate().expect("a key");
    let own = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let certificate = own.signed_by(&key, &issuer).expect("signed").pem();
    (Identity { certificate, key: key.serialize_pem() }, authority)
}

/// Runs commands that trust the authorities of this file and no others.
struct Trusting<'s>(&'s Sandbox, &'s str);

impl Trusting<'_> {
    fn weft(&self, arguments: &[&str]) -> Said {
        let mut command = self.0.command(arguments);
        command.env("SSL_CERT_FILE", self.0.path(self.1)).env("XDG_STATE_HOME", self.0.path("state"));
        command.output().expect("weft runs").into()
    }
}

/// A volume is made, filled and read; who trusts another authority, and who asks without TLS, is refused in one sentence.
fn is_used_with_tls(authority: &str, url: &str, plain_url: &str, plain_refusal: &str) {
    let sandbox = Sandbox::empty();
    fs::write(sandbox.path("ours.pem"), authority).expect("written");
    fs::write(sandbox.path("others.pem"), identity("127.0.0.1").1).expect("written");
    let ours = Trusting(&sandbox, "ours.pem");
    ours.weft(&["format", "--policy", "replica:2", url]).ok();
    for number in ["1", "2"] {
        ours.weft(&["node", "add", url, number, &sandbox.path(&format!("node{number}"))]).ok();
    }
    fs::write(sandbox.path("text"), "over TLS\n").expect("written");
    ours.weft(&["put", url, &sandbox.path("text"), "/text"]).ok();
    ours.weft(&["get", url, "/text", &sandbox.path("copy")]).ok();
    assert_eq!(fs::read(sandbox.path("copy")).expect("read"), b"over TLS\n");

    let refused = Trusting(&sandbox, "others.pem").weft(&["ls", url]).sentence();
    assert!(
        refused.contains("; name the authority that signed the server's certificate by SSL_CERT_FILE"),
        "{refused}"
    );
    let refused = ours.weft(&["ls", plain_url]).sentence();
    assert!(refused.contains(plain_refusal), "{refused}");
}

/// Its certificate is another server's.
fn is_refused_for_its_name(authority: &str, url: &str) {
    let sandbox = Sandbox::empty();
    fs::write(sandbox.path("ours.pem"), authority).expect("written");
    let refused = Trusting(&sandbox, "ours.pem").weft(&["format", url]).sentence();
    assert!(refused.contains("not valid for name"), "{refused}");
}

#[test]
fn postgres_is_used_with_tls_and_known_by_its_certificate() {
    let (own, authority) = identity("127.0.0.1");
    let server = Postgres::start();
    server.require_tls(&own);
    let plain = server.url("weft");
    let url = format!("{plain}&sslmode=require");
    is_used_with_tls(&authority, &url, &plain, "no encryption");

    let (other, authority) = identity("elsewhere.example");
    server.require_tls(&other);
    is_refused_for_its_name(&authority, &url);
}

#[test]
fn etcd_is_used_with_tls_and_known_by_its_certificate() {
    let (own, authority) = identity("127.0.0.1");
    let cluster = Etcd::with_tls(1, &own);
    let url = cluster.url("weft");
    is_used_with_tls(
        &authority,
        &url,
        url.split_once('?').expect("?tls=on").0,
        "with TLS or without as the address says",
    );

    let (other, authority) = identity("elsewhere.example");
    is_refused_for_its_name(&authority, &Etcd::with_tls(1, &other).url("weft"));
}
