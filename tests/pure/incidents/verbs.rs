//! What the verbs say of files that are not what they look for.

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;
use crate::sampling::data;

fn isobar(arguments: &[&str], file: &Path) -> (Option<i32>, String, String) {
    let got = program::isobar(arguments).arg(file).output().unwrap();
    (got.status.code(), text(&got.stdout), text(&got.stderr))
}

#[test]
fn incidents_ls_says_where_it_has_looked_at_nothing() {
    let dir = TempDir::new().unwrap();
    let (ring, incident, shelf) = scene(&dir);
    let Ring::Files(recording) = &ring else { unreachable!() };
    let frozen = freeze(&ring, &shelf, incident, shelf.draft().unwrap(), || ()).unwrap();
    let file = dir.path().join("incidents").join(format!("{}.isobar", frozen.name));
    let text_file = dir.path().join("text");
    fs::write(&text_file, "nothing\n").unwrap();
    #[rustfmt::skip]
    let table = [
        // -f, exit code, on stdout, on stderr
        (dir.path().to_owned(),        0, frozen.name.as_str(), ""),
        (recording.clone(),            0, "no incidents",       ""),
        (dir.path().join("elsewhere"), 3, "",                   "elsewhere does not exist: name the directory"),
        (file,                         3, "",                   "is the file of an incident"),
        (text_file,                    3, "",                   "text is no recording"),
        ("/dev/zero".into(),           3, "",                   "/dev/zero is no recording"),
    ];
    for (place, code, told, why) in table {
        let (got, out, err) = isobar(&["incidents", "ls", "-f"], &place);
        assert_eq!(got, Some(code), "{}: {err}", place.display());
        assert!(out.contains(told) && err.contains(why), "{}: {out}{err}", place.display());
    }
}

#[test]
fn incident_without_its_document_is_told_from_its_ticks() {
    let dir = TempDir::new().unwrap();
    let (ring, incident, shelf) = scene(&dir);
    let frozen = freeze(&ring, &shelf, incident, shelf.draft().unwrap(), || ()).unwrap();
    let document = dir.path().join("incidents").join(format!("{}.json", frozen.name));
    for damaged in [Some("{"), None] {
        match damaged {
            Some(damaged) => fs::write(&document, damaged).unwrap(),
            None => fs::remove_file(&document).unwrap(),
        }
        assert_eq!(shelf.find(&frozen.name).unwrap(), frozen, "{damaged:?}");
        let listed = shelf.list().unwrap();
        assert_eq!((listed.len(), &listed[0].name, listed[0].size), (1, &frozen.name, frozen.size));
        let (_, out, _) = isobar(&["incidents", "ls", "-f"], dir.path());
        assert!(out.contains("condition") && out.contains("1m29s"), "{damaged:?}: {out}");
        let (_, out, _) = isobar(&["incidents", "show", "latest", "-f"], dir.path());
        assert!(out.contains("became True"), "{damaged:?}: {out}");
    }
}

#[test]
fn incidents_rm_takes_beginnings_and_removes_what_it_can() {
    let dir = TempDir::new().unwrap();
    let shelf = Shelf::in_dir(dir.path().join("incidents"));
    for name in ["2026-1a", "2026-2b", "2026-3c"] {
        let (name, begin) = (name.to_owned(), at(name.len() as u64));
        shelf.note(&Incident { name, begin, ..Incident::default() }).unwrap();
    }
    let rm = ["incidents", "rm", "2026-none", "2026-1", "2026-", "latest", "-f"];
    let (code, _, err) = isobar(&rm, dir.path());
    assert_eq!(code, Some(3));
    assert!(err.contains("there is no incident \"2026-none\""), "{err}");
    assert!(err.contains("more than one incident begins with \"2026-\""), "{err}");
    let left: Vec<_> = shelf.list().unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(left, ["2026-2b"]);
    // As where a variable of a script is empty.
    let (code, _, err) = isobar(&["incidents", "rm", "", "-f"], dir.path());
    assert_eq!((code, shelf.list().unwrap().len()), (Some(3), 1), "{err}");
}

#[test]
fn recording_is_a_regular_file_where_it_is_not_read_once() {
    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    for place in [fifo.as_path(), Path::new("/dev/zero")] {
        for verb in [&["status", "-f"][..], &["dump", "-f"], &["incidents", "import", "-f"]] {
            let (code, _, err) = isobar(verb, place);
            assert_eq!(code, Some(3), "{verb:?} {}: {err}", place.display());
            assert!(err.contains("is no regular file"), "{verb:?}: {err}");
        }
    }
}

#[test]
fn rank_takes_the_lines_of_a_recording() {
    let dir = TempDir::new().unwrap();
    let packed = data("recordings/judged-leak-6.12.isobar");
    let plain = dir.path().join("plain");
    fs::write(&plain, zstd::decode_all(fs::File::open(&packed).unwrap()).unwrap()).unwrap();
    let [(code, want, _), got] = [&packed, &plain].map(|file| isobar(&["rank", "-f"], file));
    assert_eq!((code, got.0, got.1), (Some(0), Some(0), want), "{}", got.2);
}

#[test]
fn replay_has_no_tick_beyond_the_end() {
    let leak = data("recordings/judged-leak-6.12.isobar");
    let (code, out, err) = isobar(&["replay", "--from", "999999"], &leak);
    assert_eq!((code, out.as_str()), (Some(3), ""));
    assert!(err.contains("has no tick from 999999 on"), "{err}");
}
