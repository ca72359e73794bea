//! Keys of AWS profiles, by AWS's own crate. Feature `profiles`.
//!
//! In: the files that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name, else those of ~/.aws,
//! and the profile that AWS_PROFILE names, else `default`. Out: keys and a region. Files are looked
//! at when the first request needs keys. Keys are kept until `RENEW_EARLY` before they expire. If
//! the profile has none, as one with a region alone, the keys are those of the container or of the
//! instance. Every other failure names the profile and a fix.

use crate::error::chain;
use crate::lock;
use aws_config::meta::region::ProvideRegion;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_credential_types::provider::ProvideCredentials;
use aws_credential_types::provider::error::CredentialsError;
use futures_util::FutureExt;
use object_store::aws::{AwsCredential, AwsCredentialProvider};
use object_store::{CredentialProvider, Result};
use std::error::Error;
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
    /// The keys of the container or of the instance.
    machine: AwsCredentialProvider,
    kept: Mutex<Option<Kept>>,
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Profile")
    }
}

fn is_set(key: &str) -> bool {
    std::env::var_os(key).is_some_and(|value| !value.is_empty())
}

fn has_files() -> bool {
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

/// True if the user has set a profile: a variable or a file is there, and no key.
pub fn is_in_use() -> bool {
    !is_set("AWS_ACCESS_KEY_ID") && !is_set("AWS_WEB_IDENTITY_TOKEN_FILE") && has_files()
}

/// The region of the profile, if the environment has none. It reads files, and waits for nothing.
pub fn region() -> Option<String> {
    if is_set("AWS_REGION") || is_set("AWS_DEFAULT_REGION") || !has_files() {
        return None;
    }
    let region = ProfileFileRegionProvider::builder().build().region().now_or_never();
    region.flatten().map(|region| region.to_string())
}

impl Profile {
    /// The profile of the environment, not read yet.
    pub fn new(machine: AwsCredentialProvider) -> Self {
        let provider = ProfileFileCredentialsProvider::builder().build();
        Self { provider, machine, kept: Mutex::new(None) }
    }

    fn kept(&self) -> Option<Arc<AwsCredential>> {
        let limit = SystemTime::now() + RENEW_EARLY;
        let kept = lock(&self.kept);
        let kept = kept.as_ref().filter(|kept| kept.expires.is_none_or(|end| end > limit))?;
        Some(kept.credential.clone())
    }
}

/// True if the profile has no keys. One that is not there, or that is broken, has a reason.
fn has_no_keys(error: &CredentialsError) -> bool {
    matches!(error, CredentialsError::CredentialsNotLoaded(_)) && error.source().is_none()
}

/// A failure with the profile and the fix.
fn unusable(error: &(dyn Error + 'static)) -> object_store::Error {
    let name = std::env::var("AWS_PROFILE").unwrap_or_default();
    let name = if name.is_empty() { "default".to_owned() } else { name };
    let text = chain(error);
    let fix = if ["SSO", "sso"].iter().any(|word| text.contains(word)) {
        format!("run aws sso login --profile {name}")
    } else {
        format!("mend it in ~/.aws/config, or let AWS_PROFILE name another than {name}")
    };
    let text = format!("profile {name} of AWS gives no keys: {text}: {fix}");
    object_store::Error::Generic { store: "S3", source: text.into() }
}

#[async_trait::async_trait]
impl CredentialProvider for Profile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> Result<Arc<AwsCredential>> {
        if let Some(credential) = self.kept() {
            return Ok(credential);
        }
        let found = match self.provider.provide_credentials().await {
            Ok(found) => found,
            Err(error) if has_no_keys(&error) => {
                let machine = self.machine.get_credential().await;
                return machine.map_err(|error| unusable(&error));
            }
            Err(error) => return Err(unusable(&error)),
        };
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
