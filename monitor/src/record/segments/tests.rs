use super::*;
use isobar_core::model::node::NodeFacts;
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
        let mut all = Segments::open(&path, "", Bounds::default()).unwrap().unwrap();
        let [first, third] = moments
            .map(|(hour, year)| Moment { boot: Nanos(hour * HOUR), wall: Nanos(year * YEAR) });
        let mut segment = all.begin(None, first).unwrap();
        for at in [third, third] {
            segment = all.begin(Some(segment), at).unwrap();
        }
        assert_eq!(existing(&path).unwrap().len(), want, "{moments:?}");
    }
}

/// An agent that starts deletes none for its age but what is older by the clock that cannot be set.
#[test]
fn aged_goes_by_the_time_in_which_the_node_was_up() {
    const HOUR: u64 = 3_600 * Nanos::SECOND.0;
    let begins = |id: &str, hour: u64, year: u64| {
        let (hour, year) = (hour * HOUR, year * 8_766 * HOUR);
        let at = Moment { boot: Nanos(hour), wall: Nanos(year) };
        let facts = NodeFacts { boot_id: id.into(), ..NodeFacts::default() };
        let [at, facts] =
            [serde_json::to_string(&at), serde_json::to_string(&facts)].map(Result::unwrap);
        let text = format!("{OPENING}\"at\":{at},\"facts\":{facts}}}\n");
        zstd::encode_all(text.as_bytes(), 1).unwrap()
    };
    type Row<'a> = (&'a [(&'a str, u64, u64)], u64, &'a [u64]);
    #[rustfmt::skip]
    let table: [Row<'_>; 5] = [
        // boot, hour of it and year of each segment; the hour of this boot, which are left
        (&[("a", 1, 50), ("a", 2, 50)],                    1,  &[0, 1]), // years later by the wall clock
        (&[("now", 1, 50), ("now", 20, 50)],               26, &[1]),
        (&[("a", 1, 50), ("a", 20, 50)],                   6,  &[1]),
        (&[("a", 1, 50), ("b", 9, 9), ("b", 20, 99)],      5,  &[1, 2]), // a whole boot in between
        (&[("a", 90, 50), ("b", 1, 50), ("now", 1, 99)],   20, &[0, 1, 2]),
    ];
    for (segments_of, hour, want) in table {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        for (n, (id, hour, year)) in (0..).zip(segments_of) {
            fs::write(segment(&path, n), begins(id, *hour, *year)).unwrap();
        }
        let mut all = Segments::open(&path, "now", Bounds::default()).unwrap().unwrap();
        let now = Moment { boot: Nanos(hour * HOUR), wall: Nanos(100 * 8_766 * HOUR) };
        all.begin(None, now).unwrap();
        all.make_room();
        assert_eq!(all.old.keys().copied().collect::<Vec<_>>(), want, "{segments_of:?}");
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
        let opened = Segments::open(&dir.path().join("r"), "now", Bounds::default()).unwrap();
        let next = opened.as_ref().map(|opened| opened.next).map_err(PathBuf::clone);
        assert_eq!(next, want.map_err(|name| dir.path().join(name)), "{names:?}");
        let Ok(mut opened) = opened else { continue };
        let n_damaged = files.iter().filter(|(_, content)| *content == text).count();
        assert_eq!(opened.damaged.len(), n_damaged, "{names:?}");
        // Long after, all segments that are known are too old.
        let now = Moment { boot: Nanos(u64::MAX), wall: Nanos(3) };
        opened.begin(None, now).unwrap();
        let n = existing(&dir.path().join("r")).unwrap().len();
        assert_eq!(n, files.len() + 1, "an agent that starts waits for no slow disk");
        opened.make_room();
        assert_eq!(existing(&dir.path().join("r")).unwrap().len(), n_damaged + 1, "{names:?}");
        let whole = (files.len() > n_damaged).then_some(now.boot);
        assert_eq!(opened.whole_since(), whole, "only the last one is left: {names:?}");
    }
}

#[test]
fn copy_of_a_recording_that_has_lost_ticks_has_lost_them() {
    const HOUR: u64 = 3_600 * Nanos::SECOND.0;
    // when the second segment begins, in hours after the first; whether the first is too old by then
    for (hours, want) in [(2, None), (26, Some(Nanos(26 * HOUR)))] {
        let dir = tempfile::tempdir().unwrap();
        let mut memory = Segments::in_memory(None, Bounds::default());
        let first = memory.begin(None, Moment::default()).unwrap();
        let now = Moment { boot: Nanos(hours * HOUR), ..Moment::default() };
        memory.begin(Some(first), now).unwrap();
        assert_eq!(memory.whole_since(), want);
        let mut files =
            Segments::open(&dir.path().join("r"), "", Bounds::default()).unwrap().unwrap();
        files.copy(&memory).unwrap();
        files.begin(None, now).unwrap();
        assert_eq!(files.whole_since(), want, "{hours}");
    }
}

#[test]
fn make_room_goes_on_beside_a_segment_that_cannot_be_deleted() {
    #[rustfmt::skip]
    let table: [(&[u64], &[u64]); 3] = [
        // old segments of which a directory has the name, which names are left beside the new one's
        (&[],     &[]),
        (&[0],    &[0]),
        (&[1, 2], &[1, 2]),
    ];
    for (stuck, want) in table {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let mut all = Segments::open(&path, "", Bounds::default()).unwrap().unwrap();
        let mut last = all.begin(None, Moment::default()).unwrap();
        for _ in 0..2 {
            last = all.begin(Some(last), Moment::default()).unwrap();
        }
        for n in stuck {
            fs::remove_file(segment(&path, *n)).unwrap();
            fs::create_dir(segment(&path, *n)).unwrap();
        }
        let late = Moment { boot: Nanos(u64::MAX), ..Moment::default() };
        let last = all.begin(Some(last), late).unwrap();
        let left: Vec<_> = existing(&path).unwrap().into_iter().map(|(n, _)| n).collect();
        assert_eq!(left, [want, &[last.n][..]].concat(), "{stuck:?}");
        assert!(all.old.is_empty(), "{stuck:?}");
    }
}
