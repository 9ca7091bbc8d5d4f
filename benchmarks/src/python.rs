//! The virtual environment with the pinned Python packages: DuckDB as a peer, and the ADBC Flight
//! SQL driver for tests with a real client.

use anyhow::{Context, bail};
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The packages, with exact versions.
const REQUIREMENTS: &str = include_str!("../python/requirements.txt");

/// File in the environment that holds the requirements it was made from.
const STAMP: &str = "ancho-requirements.txt";

/// A Python interpreter that can import the pinned packages.
#[derive(Debug, Clone)]
pub struct PythonEnv {
    /// The interpreter to run.
    pub python: PathBuf,
}

impl PythonEnv {
    /// Finds the virtual environment in `dir`, or makes it there and installs the packages from PyPI
    /// (once; some 100 MB). Without a `dir` it lies in the user's cache folder.
    ///
    /// # Errors
    /// When `python3` or its `venv` module is missing (the message names the Debian package), or pip
    /// cannot install the packages.
    pub fn ensure(dir: Option<&Path>) -> anyhow::Result<Self> {
        let dir = match dir {
            Some(dir) => dir.to_owned(),
            None => default_dir()?,
        };
        let parent = dir.parent().context("the Python environment needs a folder above it")?;
        fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
        // Two processes may want the environment at once: the second waits for the first.
        let lock_path = dir.with_extension("lock");
        let lock = fs::File::create(&lock_path).with_context(|| format!("create {}", lock_path.display()))?;
        lock.lock().with_context(|| format!("lock {}", lock_path.display()))?;

        let python = dir.join("bin/python");
        let stamp = dir.join(STAMP);
        let current = fs::read_to_string(&stamp).is_ok_and(|text| text == REQUIREMENTS);
        if !(current && python.is_file()) {
            create("python3", &dir)?;
            install(&dir, &python)?;
            fs::write(&stamp, REQUIREMENTS).with_context(|| format!("write {}", stamp.display()))?;
        }
        Ok(Self { python })
    }

    /// Uses an interpreter that has the packages already.
    pub fn existing(python: &Path) -> Self {
        Self { python: python.to_owned() }
    }
}

/// `$XDG_CACHE_HOME/ancho/python`, or the same under `~/.cache`.
fn default_dir() -> anyhow::Result<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let cache =
        cache.context("no cache folder for the Python environment: set XDG_CACHE_HOME or HOME, or name a folder")?;
    Ok(cache.join("ancho").join("python"))
}

fn create(interpreter: &str, dir: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(interpreter);
    command.args(["-m", "venv", "--clear"]).arg(dir);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "python3 is not installed, and the DuckDB peer and the ADBC client need it: install the \
             packages python3 and python3-venv (Debian: apt-get install python3 python3-venv)"
        ),
        Err(error) => return Err(error).context("run python3 -m venv"),
    };
    if output.status.success() {
        return Ok(());
    }
    let text = said(&output);
    if text.contains("ensurepip") || text.contains("No module named venv") {
        bail!(
            "python3 has no working venv module: install the package python3-venv (Debian: apt-get \
             install python3-venv)"
        );
    }
    bail!("python3 -m venv {} failed: {text}", dir.display())
}

fn install(dir: &Path, python: &Path) -> anyhow::Result<()> {
    let requirements = dir.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).with_context(|| format!("write {}", requirements.display()))?;
    let output = Command::new(python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"])
        .arg(&requirements)
        .output()
        .with_context(|| format!("run pip with {}", python.display()))?;
    if !output.status.success() {
        bail!("pip could not install the packages of {}: {}", requirements.display(), said(&output));
    }
    Ok(())
}

fn said(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interpreter_is_named_with_its_package() {
        let error = create("no-python-of-this-name", Path::new("unused")).expect_err("not there");
        assert!(error.to_string().contains("apt-get install python3 python3-venv"), "{error}");
    }

    #[test]
    fn every_package_has_an_exact_version() {
        let packages = REQUIREMENTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in packages {
            let (name, version) = line.split_once("==").expect("name==version");
            assert!(!name.is_empty() && version.starts_with(|c: char| c.is_ascii_digit()), "{line}");
        }
    }
}
