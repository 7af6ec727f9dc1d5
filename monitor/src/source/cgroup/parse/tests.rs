use proptest::prelude::*;

use super::*;
use crate::source::lines::value;

#[test]
fn limit_takes_a_number_or_max() {
    #[rustfmt::skip]
    let table = [
        // text, as a number, as a limit
        ("0\n",                    Ok(0),        Ok(Limit::At(0))),
        ("4096\n",                 Ok(4096),     Ok(Limit::At(4096))),
        ("max\n",                  Err(1),       Ok(Limit::Max)),
        ("max",                    Err(1),       Err(1)),
        ("",                       Err(1),       Err(1)),
        ("-1\n",                   Err(1),       Err(1)),
        ("18446744073709551615\n", Ok(u64::MAX), Ok(Limit::At(u64::MAX))),
        ("18446744073709551616\n", Err(1),       Err(1)),
        ("1\n2\n",                 Err(2),       Err(2)),
    ];
    for (text, number, bound) in table {
        assert_eq!(value(text.as_bytes()).map_err(|torn| torn.line), number, "{text:?}");
        assert_eq!(limit(text.as_bytes()).map_err(|torn| torn.line), bound, "{text:?}");
    }
}

#[test]
fn cpu_max_needs_quota_and_period() {
    #[rustfmt::skip]
    let table = [
        ("max 100000\n",   Ok((Limit::Max, Micros(100_000)))),
        ("50000 100000\n", Ok((Limit::At(50_000), Micros(100_000)))),
        ("max\n",          Err(1)),
        ("max max\n",      Err(1)),
        ("\n",             Err(1)),
    ];
    for (text, want) in table {
        assert_eq!(cpu_max(text.as_bytes()).map_err(|torn| torn.line), want, "{text:?}");
    }
}

#[test]
fn cpu_stat_needs_usage() {
    let used = CpuFiles { usage: Some(Micros(7)), ..CpuFiles::default() };
    let throttled = CpuFiles {
        periods: Some(3),
        throttled_periods: Some(2),
        throttled: Some(Micros(9)),
        ..used
    };
    #[rustfmt::skip]
    let table = [
        ("usage_usec 7\nuser_usec 5\nsystem_usec 2\n", Ok(used)),
        ("usage_usec 7\nnr_periods 3\nnr_throttled 2\nthrottled_usec 9\nnr_bursts 0\n", Ok(throttled)),
        ("user_usec 5\n", Err(1)),
        ("usage_usec 7\nnr_periods\n", Err(2)),
        ("usage_usec 7\nnr_periods x\n", Err(2)),
        ("usage_usec 7\nthrottled_us", Err(2)),
        ("", Err(1)),
    ];
    for (text, want) in table {
        let mut cpu = CpuFiles::default();
        let got = cpu_stat(text.as_bytes(), &mut cpu).map(|()| cpu).map_err(|torn| torn.line);
        assert_eq!(got, want, "{text:?}");
    }
}

#[test]
fn memory_stat_never_reads_missing_keys_as_zero() {
    let events = memory_events(b"low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\nsock_throttled 6\n");
    let want = MemoryEvents { low: 1, high: 2, max: 3, oom: 4, oom_kill: 5, oom_group_kill: 0 };
    assert_eq!(events, Ok(want));
    let stat =
        memory_stat(b"anon 10\nfile 20\nsock 7\nzswap 6\ninactive_file 5\npgscan 4\n").unwrap();
    assert_eq!((stat.anon, stat.file, stat.inactive_file), (Bytes(10), Bytes(20), Bytes(5)));
    assert_eq!((stat.sock, stat.zswap), (Bytes(7), Bytes(6)));
    assert_eq!((stat.pgscan, stat.pgsteal), (4, 0));
    #[rustfmt::skip]
    let table = [
        // text, line torn as memory.events, as memory.stat
        ("", 1, 1),
        ("low 0\nhigh 0\n", 1, 1),
        ("anon 1\noom_kill 1\ninactive_file\n", 3, 3),
        ("anon 1\noom_kill 1\ninactive_file 1", 3, 3),
    ];
    for (text, as_events, as_stat) in table {
        assert_eq!(memory_events(text.as_bytes()).unwrap_err().line, as_events, "{text:?}");
        assert_eq!(memory_stat(text.as_bytes()).unwrap_err().line, as_stat, "{text:?}");
    }
}

#[test]
fn io_stat_sums_devices() {
    let two = IoStat { read: Bytes(11), written: Bytes(2), reads: 3, writes: 4 };
    #[rustfmt::skip]
    let table = [
        ("", Ok(IoStat::default())),
        ("8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n259:0 rbytes=10 cost.usage=5\n", Ok(two)),
        ("8:0\n8:16 \n", Ok(IoStat::default())),
        ("8:0 rbytes\n", Err(1)),
        ("8:0 rbytes=\n", Err(1)),
        ("\n", Err(1)),
        ("8:0 rbytes=1\n8:16 rbytes=1", Err(2)),
    ];
    for (text, want) in table {
        assert_eq!(io_stat(text.as_bytes(), &mut []).map_err(|torn| torn.line), want, "{text:?}");
    }
}

#[test]
fn io_limits_have_what_was_done_on_their_devices() {
    let limit = |device, read: Option<u64>, writes| IoLimit {
        device,
        read: read.map(Bytes),
        writes,
        ..IoLimit::default()
    };
    let [disk, other] = [limit((8, 0), Some(1_000), None), limit((259, 1), Some(5), Some(7))];
    #[rustfmt::skip]
    let table = [
        ("", Ok(vec![])),
        ("8:0 rbps=1000 wbps=max riops=max wiops=max\n", Ok(vec![disk])),
        ("8:0 rbps=1000\n259:1 rbps=5 wbps=max riops=max wiops=7 later=max\n", Ok(vec![disk, other])),
        ("8:0 rbps=1000\n8 rbps=5\n", Err(2)),
        ("8:0 rbps=x\n", Err(1)),
        ("8:0 rbps\n", Err(1)),
        ("8:-1 rbps=5\n", Err(1)),
        ("8:0 rbps=1000", Err(1)),
    ];
    for (text, want) in table {
        assert_eq!(io_max(text.as_bytes(), &[]).map_err(|torn| torn.line), want, "{text:?}");
    }
    let mut limits = vec![disk, other];
    let sum = io_stat(b"8:0 rbytes=3 rios=1\n8:1 rbytes=4\n", &mut limits).unwrap();
    assert_eq!(sum, IoStat { read: Bytes(7), reads: 1, ..IoStat::default() });
    let done = [limits[0].done, limits[1].done].map(|done| done.map(|done| done.read));
    assert_eq!(done, [Some(Bytes(3)), Some(Bytes(0))], "a device without a line has done nothing");
    let changed = io_max(b"8:0 rbps=7\n8:1 rbps=7\n", &limits).unwrap();
    let done = [changed[0].done, changed[1].done].map(|done| done.map(|done| done.read));
    assert_eq!(done, [Some(Bytes(3)), None], "of a new one it is not known");
}

#[test]
fn n_procs_counts_lines() {
    #[rustfmt::skip]
    let table = [
        ("", Ok(0)),
        ("1\n0\n77\n", Ok(3)),
        ("1\nx\n", Err(2)),
        ("1\n7", Err(2)),
    ];
    for (text, want) in table {
        assert_eq!(n_procs(text.as_bytes()).map_err(|torn| torn.line), want, "{text:?}");
    }
}

#[test]
fn names_may_be_empty() {
    #[rustfmt::skip]
    let table: [(&str, Result<&[&str], usize>); 4] = [
        ("cpuset cpu io memory pids\n", Ok(&["cpuset", "cpu", "io", "memory", "pids"])),
        ("", Ok(&[])), // as the kernel prints it when all are on cgroup v1
        ("\n", Ok(&[])),
        ("cpuset cp", Err(1)),
    ];
    for (text, want) in table {
        let got = names(text.as_bytes()).map_err(|torn| torn.line);
        let got = got.map(|names| names.map(|name| str::from_utf8(name).unwrap()).collect());
        assert_eq!(got, want.map(<[&str]>::to_vec), "{text:?}");
    }
}

proptest! {
    #[test]
    fn parsers_never_panic(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            "((8:0|anon|usage_usec|max|rbytes=)? ?[0-9]{0,22}[ \n]?){0,12}".prop_map(String::into_bytes),
        ],
    ) {
        // A panic fails the property; the tables above check the results.
        let _ = value(&bytes);
        let _ = limit(&bytes);
        let _ = cpu_max(&bytes);
        let _ = cpu_stat(&bytes, &mut CpuFiles::default());
        let _ = memory_events(&bytes);
        let _ = memory_stat(&bytes);
        let _ = io_stat(&bytes, &mut []);
        let _ = n_procs(&bytes);
        let _ = names(&bytes).map(Iterator::count);
    }

    #[test]
    fn io_stat_sum_is_exact(devices in proptest::collection::vec(any::<(u32, u32)>(), 0..8)) {
        let text: String = devices
            .iter()
            .map(|(read, written)| format!("8:0 rbytes={read} wbytes={written}\n"))
            .collect();
        let sum = io_stat(text.as_bytes(), &mut []).unwrap();
        prop_assert_eq!(sum.read.0, devices.iter().map(|d| u64::from(d.0)).sum::<u64>());
        prop_assert_eq!(sum.written.0, devices.iter().map(|d| u64::from(d.1)).sum::<u64>());
    }
}
