//! Compares `schemas/` with the code that generates it.
//!
//! `INSTA_UPDATE=always cargo test -p etlink --all-features --test schemas` writes the files.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use etlink::model::HostVersion;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const UPDATE: &str = "INSTA_UPDATE=always cargo test -p etlink --all-features --test schemas";

fn schemas_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas")
}

/// Checks a file against its text, or writes the text.
fn hold(name: &str, text: &str) {
    let path = schemas_folder().join(name);
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, text).expect("writes");
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "schemas/{name} is out of date; run {UPDATE}");
}

#[test]
fn schemas_of_reports_are_those_of_the_types() {
    let mut names = BTreeSet::new();
    for schema in etlink::json_schemas() {
        let name = format!("{}.json", schema.name);
        let text = serde_json::to_string_pretty(&schema.schema).expect("JSON") + "\n";
        hold(&format!("json/{name}"), &text);
        assert!(names.insert(name), "{} is there twice", schema.name);
    }
    let folder = std::fs::read_dir(schemas_folder().join("json")).expect("a folder");
    let files = folder.map(|entry| entry.expect("an entry").file_name());
    let files: BTreeSet<String> = files
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, names);
}

#[test]
fn versions_of_host_traces_are_those_of_the_readers() {
    let mut text = "\
# Versions of PyTorch's execution trace, oldest first. etlink reads all of them, and others by their shape.
# schema: text of `schema` in the file. pytorch: releases that write it. shape: what is new in a node.
# chakra_converter: whether Chakra's converter reads it.
"
    .to_owned();
    for version in HostVersion::ALL {
        let _ = write!(
            text,
            "\n[[version]]\nschema = {:?}\npytorch = {:?}\nshape = {:?}\nstrides = {}\n\
             chakra_converter = {}\n",
            version.schema,
            version.pytorch,
            version.shape,
            version.has_strides,
            version.is_converted
        );
    }
    hold("pytorch-et/versions.toml", &text);
}
