use super::*;
use isobar_core::recording::format::OPENING;

#[test]
fn instead_of_thin_deletes_the_oldest_of_a_full_disk() {
    use io::ErrorKind::{AlreadyExists, Other, QuotaExceeded, StorageFull};
    #[rustfmt::skip]
    let table = [
        // why the segment 7 was not thinned, what is deleted of 3 to 9
        (StorageFull,   3),
        (QuotaExceeded, 3),
        (Other,         7), // it cannot be read
        (AlreadyExists, 7), // a file of another kind has the name
    ];
    for (why, want) in table {
        assert_eq!(instead_of_thin(&why.into(), 3, 7), want, "{why:?}");
    }
}

/// A day is kept of what this agent wrote, also where the wall clock was years behind until it was set.
#[test]
fn segments_are_as_old_as_the_time_since_the_boot_says() {
    const HOUR: u64 = 3_600 * Nanos::SECOND.0;
    const YEAR: u64 = 8_766 * HOUR;
    #[rustfmt::skip]
    let table = [
        // when the first and the third segment begin, in hours since the boot and in years; how many are left
        ([(1, 50), (2, 56)],  3), // the clock was set in between
        ([(1, 56), (2, 50)],  3),
        ([(1, 56), (26, 56)], 2),
        ([(1, 56), (26, 50)], 2),
    ];
    for (moments, want) in table {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let mut all = Segments::open(&path, Bounds::default()).unwrap().unwrap();
        let [first, third] = moments
            .map(|(hour, year)| Moment { boot: Nanos(hour * HOUR), wall: Nanos(year * YEAR) });
        let mut segment = all.begin(None, first).unwrap();
        for at in [third, third] {
            segment = all.begin(Some(segment), at).unwrap();
        }
        assert_eq!(existing(&path).unwrap().len(), want, "{moments:?}");
    }
}

#[test]
fn open_goes_on_after_a_damaged_segment_beside_others() {
    /// The frame of a header.
    fn header() -> Vec<u8> {
        let at = Moment { boot: Nanos(1), wall: Nanos(2) };
        let text = format!("{}\"at\":{}}}\n", OPENING, serde_json::to_string(&at).unwrap());
        zstd::encode_all(text.as_bytes(), 1).unwrap()
    }
    type Files<'a> = &'a [(&'a str, Vec<u8>)];
    let (text, cut) = (b"names of my cats\n".to_vec(), header()[..5].to_vec());
    #[rustfmt::skip]
    let table: [(Files<'_>, Result<u64, &str>); 6] = [
        // segments, the next one or the file that is foreign
        (&[],                                                       Ok(0)),
        (&[("r", header()), ("r.1", header())],                     Ok(2)),
        (&[("r", text.clone()), ("r.1", header())],                 Ok(2)),
        (&[("r", header()), ("r.4", text.clone())],                 Ok(5)), // never overwritten
        (&[("r", text.clone())],                                    Err("r")),
        (&[("r", cut), ("r.1", text.clone())],                      Err("r.1")), // of which kind is "r"?
    ];
    for (files, want) in table {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(dir.path().join(name), content).unwrap();
        }
        let names: Vec<_> = files.iter().map(|(name, _)| name).collect();
        let opened = Segments::open(&dir.path().join("r"), Bounds::default()).unwrap();
        let next = opened.as_ref().map(|opened| opened.next).map_err(PathBuf::clone);
        assert_eq!(next, want.map_err(|name| dir.path().join(name)), "{names:?}");
        let Ok(mut opened) = opened else { continue };
        let n_damaged = files.iter().filter(|(_, content)| *content == text).count();
        assert_eq!(opened.damaged.len(), n_damaged, "{names:?}");
        // Long after, all segments that are known are too old.
        let now = Moment { boot: Nanos(3), wall: Nanos(u64::MAX) };
        opened.begin(None, now).unwrap();
        let n = existing(&dir.path().join("r")).unwrap().len();
        assert_eq!(n, files.len() + 1, "an agent that starts waits for no slow disk");
        opened.make_room().unwrap();
        assert_eq!(existing(&dir.path().join("r")).unwrap().len(), n_damaged + 1, "{names:?}");
    }
}
