//! Certificate authorities that live as long as a test.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// Authority that issues certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// Certificate and private key as files.
#[derive(Debug, Clone)]
pub struct Identity {
    /// PEM file with the certificate.
    pub cert_file: PathBuf,
    /// PEM file with the private key.
    pub key_file: PathBuf,
}

impl Authority {
    /// Creates an authority of this name.
    ///
    /// # Errors
    /// If no key can be generated.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Self {
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)?,
        })
    }

    /// Writes the authority's own certificate, which clients trust.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        Ok(fs::write(path, self.issuer.pem())?)
    }

    /// Issues a certificate for servers and clients alike. `names` are host names or addresses; the
    /// files are `folder/FILE.crt` and `folder/FILE.key`.
    ///
    /// # Errors
    /// If a file can't be written.
    pub fn issue(&self, folder: &Path, file: &str, names: &[&str]) -> anyhow::Result<Identity> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, file);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let identity = Identity {
            cert_file: folder.join(format!("{file}.crt")),
            key_file: folder.join(format!("{file}.key")),
        };
        fs::write(&identity.cert_file, certificate.pem())?;
        fs::write(&identity.key_file, key.serialize_pem())?;
        Ok(identity)
    }
}
