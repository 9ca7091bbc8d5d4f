//! Stores that source files are read from, found by URL: local files, and S3 buckets reached as the dataset says or,
//! where it says nothing, as the environment of the process says (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, …).
use std::{collections::HashMap, sync::Arc};

use datafusion::{
    error::{DataFusionError, Result},
    execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry},
};
use object_store::{ClientOptions, ObjectStore, aws::AmazonS3Builder, client::SpawnedReqwestConnector};
use parking_lot::Mutex;
use url::Url;

use crate::{compute::network, error::Error, spec::source::S3Options};

/// A registry that opens S3 buckets when they are first asked for.
#[derive(Debug, Default)]
pub struct ObjectStores {
    local: DefaultObjectStoreRegistry,
    s3: S3Options,
    buckets: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
}

impl ObjectStores {
    /// Buckets are reached with these options.
    #[must_use]
    pub fn new(s3: S3Options) -> Self {
        Self { s3, ..Self::default() }
    }

    fn bucket(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let name = url.host_str().unwrap_or_default().to_owned();
        let mut buckets = self.buckets.lock();
        if let Some(store) = buckets.get(&name) {
            return Ok(Arc::clone(store));
        }
        let store: Arc<dyn ObjectStore> = Arc::new(open_bucket(&name, &self.s3)?);
        buckets.insert(name, Arc::clone(&store));
        Ok(store)
    }
}

fn open_bucket(name: &str, options: &S3Options) -> Result<object_store::aws::AmazonS3> {
    bucket_builder(name, options)?.build().map_err(|e| {
        DataFusionError::from(Error::invalid(format!("the bucket s3://{name} cannot be reached as configured: {e}")))
    })
}

/// What a client of a bucket is made of.
///
/// # Errors
/// A variable that the options refer to is not set here.
pub(crate) fn bucket_builder(name: &str, options: &S3Options) -> std::result::Result<AmazonS3Builder, Error> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(name);
    // Queries ask on compute threads; requests are made on those of the network.
    if let Some(network) = network() {
        builder = builder.with_http_connector(SpawnedReqwestConnector::new(network));
    }
    if let Some(region) = &options.region {
        builder = builder.with_region(region);
    }
    let mut allow_http = options.allow_http;
    if let Some(endpoint) = &options.endpoint {
        allow_http |= endpoint.starts_with("http://");
        builder = builder.with_endpoint(endpoint);
    }
    if let Some(key) = &options.key {
        builder = builder.with_access_key_id(key.resolve()?);
    }
    if let Some(secret) = &options.secret {
        builder = builder.with_secret_access_key(secret.resolve()?);
    }
    if let Some(token) = &options.session_token {
        builder = builder.with_token(token.resolve()?);
    }
    if allow_http {
        builder = builder.with_allow_http(true);
    }
    if let Some(timeout) = options.client_timeout.as_deref().and_then(crate::duration::parse) {
        builder = builder.with_client_options(ClientOptions::new().with_timeout(timeout).with_allow_http(allow_http));
    }
    Ok(builder)
}

impl ObjectStoreRegistry for ObjectStores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.local.register_store(url, store)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if url.scheme() == "s3" { self.bucket(url) } else { self.local.get_store(url) }
    }
}
