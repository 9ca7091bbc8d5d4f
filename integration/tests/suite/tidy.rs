//! Rules for the source tree that no compiler checks.
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Names that are no part of the project.
fn is_foreign(name: &str) -> bool {
    matches!(name, "target" | "__pycache__" | "node_modules")
        || (name.starts_with('.') && !matches!(name, ".ci" | ".config"))
}

/// All files below a folder, as paths relative to the root.
fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if is_foreign(&entry.file_name().to_string_lossy()) {
            continue;
        }
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files(&entry.path(), found),
            kind if kind.is_file() => found.push(entry.path().strip_prefix(root()).unwrap().to_owned()),
            _ => {}
        }
    }
}

fn all_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&root(), &mut found);
    found.sort();
    found
}

fn top_level_folders() -> Vec<String> {
    let entries = fs::read_dir(root()).unwrap().map(Result::unwrap).filter(|e| e.file_type().unwrap().is_dir());
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| !is_foreign(name) && !name.starts_with('.'));
    names.sort();
    names
}

#[test]
fn every_source_file_says_what_it_is_for() {
    let silent: Vec<PathBuf> = all_files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .filter(|path| path.components().any(|c| c.as_os_str() == "src"))
        .filter(|path| !path.components().any(|c| c.as_os_str() == "generated"))
        .filter(|path| !fs::read_to_string(root().join(path)).unwrap().starts_with("//!"))
        .collect();
    assert!(silent.is_empty(), "these files do not open with `//!`: {silent:#?}");
}

#[test]
fn the_architecture_names_what_exists_and_nothing_else() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let named: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    let missing: Vec<String> =
        top_level_folders().into_iter().filter(|name| !named.iter().any(|n| n.trim_end_matches('/') == name)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md does not name these folders as `name/`: {missing:?}");

    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = ")).expect("the workspace's members");
    for member in members.split('"').skip(1).step_by(2) {
        let manifest = fs::read_to_string(root().join(member).join("Cargo.toml")).unwrap();
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).expect("a name").trim_matches('"');
        assert!(named.contains(&name), "ARCHITECTURE.md does not name the crate `{name}`");
    }

    // What looks like a path of the project must be one.
    let is_path = |word: &&&str| {
        let plain = word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "/_-.".contains(c));
        let folder = word.ends_with('/') && word.len() > 1 && !word.starts_with(['/', '.']);
        let file = word.contains('/') && (word.ends_with(".rs") || word.ends_with(".md"));
        plain && (folder || file)
    };
    let gone: Vec<&&str> = named.iter().filter(is_path).filter(|path| !root().join(path).exists()).collect();
    assert!(gone.is_empty(), "ARCHITECTURE.md names what does not exist: {gone:?}");
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    // Written in two parts, or this file would name them.
    let forbidden = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
    let mut found = Vec::new();
    for path in all_files() {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            if forbidden.iter().any(|f| line.contains(f)) {
                found.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "these lines name a path of one machine:\n{}", found.join("\n"));
}
