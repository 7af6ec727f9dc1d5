//! What a pod finds in `/var/run/secrets/kubernetes.io/serviceaccount`: an authority of a test's
//! own, the certificates that it signs for servers, and the directory with its files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;

/// What a client may call the server, and the kubelets of the nodes n1 and worker-1.
const NAMES: [&str; 6] =
    ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc", "n1", "worker-1"];

/// A certificate authority.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// # Errors
    /// If no key can be made.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().context("cannot make the key of an authority")?;
        let issuer = CertifiedIssuer::self_signed(params, key);
        Ok(Self(issuer.context("cannot sign the certificate of an authority")?))
    }

    /// Its certificate, as in `ca.crt`.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Writes `ca.crt`, `token` and `namespace` into a directory, each in one step: a reader sees
    /// the old file or the new one.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_account(&self, dir: &Path, token: &str) -> Result<()> {
        for (name, text) in
            [("ca.crt", self.pem().as_str()), ("token", token), ("namespace", "isobar")]
        {
            let (new, path) = (dir.join(format!("..{name}")), dir.join(name));
            fs::write(&new, text)
                .and_then(|()| fs::rename(&new, &path))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// A server with a certificate of this authority.
    pub(crate) fn server(&self) -> Result<Arc<ServerConfig>> {
        let mut params = CertificateParams::new(NAMES.map(str::to_owned))
            .context("cannot name the server in a certificate")?;
        params.distinguished_name.push(DnType::CommonName, "isobar-apistub");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().context("cannot make the key of a server")?;
        let certificate =
            params.signed_by(&key, &self.0).context("cannot sign the certificate of a server")?;
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .context("no version of TLS can be spoken")?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .context("cannot use the certificate of a server")?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
