//! What the verbs print and how they end, as sessions in files: `sessions/NAME.md`, typed in
//! `sessions/NAME.in`; and the README's, typed at the root. A better wording changes the file:
//! `TRYCMD=overwrite cargo test --test pure sessions` writes what is printed now.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::cli::made_up_agent;
use trycmd::TestCases;

#[test]
fn sessions_print_what_their_files_show() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let readme = fs::read_to_string(repository.join("README.md")).unwrap();
    // A session ends with an empty line.
    let readme = readme.replace("\n```\n", "\n\n```\n");
    fs::write(dir.path().join("README.md"), readme).unwrap();
    symlink(repository, dir.path().join("README.in")).unwrap();
    TestCases::new()
        .register_bin("isobar", Path::new(env!("CARGO_BIN_EXE_isobar")))
        // What is logged has a time in it.
        .env("ISOBAR_LOG", "error")
        // A node that is made up, so that it is the same each time.
        .env("ISOBAR_AGENT", made_up_agent().to_string())
        .case(repository.join("tests/pure/sessions/*.md"))
        .case(dir.path().join("README.md"));
}
