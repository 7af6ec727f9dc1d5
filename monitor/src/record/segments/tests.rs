use super::*;

#[test]
fn most_leaves_a_full_disk_to_others() {
    const MIB: u64 = 1 << 20;
    #[rustfmt::skip]
    let table = [
        // asked for, held, left on the disk, maximum; in MiB
        (512, 0,   None,         512),
        (512, 0,   Some(20_000), 512),
        (512, 0,   Some(5_120),  512),
        (512, 0,   Some(3_000),  300),
        (512, 300, Some(2_700),  300), // what it holds itself changes nothing
        (512, 300, Some(200),    50),
        (512, 0,   Some(0),      1),
        (8,   0,   Some(60),     6),
    ];
    for (size, held, left, want) in table {
        let bounds = Bounds { size: Bytes(size * MIB), ..Bounds::default() };
        let got = bounds.most(held * MIB, left.map(|left| left * MIB));
        assert_eq!(got, want * MIB, "{size} {held} {left:?}");
    }
}
