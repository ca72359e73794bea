//! Keys of AWS profiles, by AWS's own crate. Feature `profiles`.
//!
//! The files are those that AWS_PROFILE, AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name, else
//! ~/.aws. They are looked at when the first request needs keys. Keys are kept until `RENEW_EARLY`
//! before they expire.

use crate::lock;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_credential_types::provider::ProvideCredentials;
use object_store::aws::AwsCredential;
use object_store::{CredentialProvider, Result};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Keys are renewed so long before they expire, so that no request is sent with old ones.
const RENEW_EARLY: Duration = Duration::from_secs(300);

struct Kept {
    credential: Arc<AwsCredential>,
    expires: Option<SystemTime>,
}

/// The keys of the profile in use.
pub struct Profile {
    provider: ProfileFileCredentialsProvider,
    kept: Mutex<Option<Kept>>,
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Profile")
    }
}

/// True if the user has set a profile: a variable or a file is there, and no key.
pub fn is_in_use() -> bool {
    let is_set = |key: &str| std::env::var_os(key).is_some_and(|value| !value.is_empty());
    if is_set("AWS_ACCESS_KEY_ID") || is_set("AWS_WEB_IDENTITY_TOKEN_FILE") {
        return false;
    }
    let is_file = |name: &str| {
        let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
        home.is_some_and(|home| home.join(".aws").join(name).is_file())
    };
    is_set("AWS_PROFILE")
        || is_set("AWS_SHARED_CREDENTIALS_FILE")
        || is_set("AWS_CONFIG_FILE")
        || is_file("credentials")
        || is_file("config")
}

impl Profile {
    /// The profile of the environment, not read yet.
    pub fn new() -> Self {
        let provider = ProfileFileCredentialsProvider::builder().build();
        Self { provider, kept: Mutex::new(None) }
    }

    fn kept(&self) -> Option<Arc<AwsCredential>> {
        let limit = SystemTime::now() + RENEW_EARLY;
        let kept = lock(&self.kept);
        let kept = kept.as_ref().filter(|kept| kept.expires.is_none_or(|end| end > limit))?;
        Some(kept.credential.clone())
    }
}

#[async_trait::async_trait]
impl CredentialProvider for Profile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> Result<Arc<AwsCredential>> {
        if let Some(credential) = self.kept() {
            return Ok(credential);
        }
        let found = self.provider.provide_credentials().await.map_err(|error| {
            object_store::Error::Generic { store: "S3", source: Box::new(error) }
        })?;
        let credential = Arc::new(AwsCredential {
            key_id: found.access_key_id().to_owned(),
            secret_key: found.secret_access_key().to_owned(),
            token: found.session_token().map(str::to_owned),
        });
        let expires = found.expiry();
        *lock(&self.kept) = Some(Kept { credential: credential.clone(), expires });
        Ok(credential)
    }
}
